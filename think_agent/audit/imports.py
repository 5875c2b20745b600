"""Reads the log of another program into runs of our message types.

    log = read_log("runs.json")
    log.runs[0].messages

Rule 1: a file is JSON or JSON lines: a list of rows, an object with such a list (`steps`,
        `messages`, `traj`, `input`), or a list or lines of these. The other fields of such an
        object (a reward, a task) are kept as they are, and never computed. So is a response: it
        has fields beside its message.
Rule 2: what could not be read is listed, with its run and row.

Limitations: a log does not say what was forced, so thoughts count as volunteered, except those that
a call carries.
"""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import FileError
from ..messages import Json
from .formats import read_row, take
from .runs import Run

ATIF = "convert it to ATIF, as Harbor and other tools do, and read that"
Rows = dict[int, Any]  # by number: of the line, or in their list


class Log(NamedTuple):
    """A file of runs. `unread`: all that could not be read, each with its place."""

    runs: list[Run]
    unread: list[str]


def read_log(path: str | Path, thinks: Sequence[str] = ()) -> Log:
    """The runs in a file. `thinks` are tools whose calls are thoughts, besides `think`.

    Raises FileError for a file that holds no run in a form that is known here.
    """
    try:
        values, unread = _values(Path(path).read_bytes())
        runs = [_run(rows, facts, thinks) for rows, facts in _runs(values)]
    except (OSError, TypeError, ValueError, RecursionError) as error:
        raise FileError(f"{path}: it cannot be read: {error}") from error

    if not any(run.messages for run in runs):
        raise FileError(f"{path}: there is no run in it that is known here; {ATIF}")
    for number, run in enumerate(runs, 1):
        unread += [f"run {number}, row {row}: {what}" for row, what in run.unread]
    return Log(runs, unread)


# From a file to rows.


def _values(data: bytes) -> tuple[Rows, list[str]]:
    """The JSON values of a file by their line, and a problem for each line that is no JSON."""
    if data.startswith(b"PK"):
        raise ValueError(f"it is an archive, as Inspect's .eval files are; {ATIF}")
    text = data.decode("utf-8-sig")
    try:
        return {1: json.loads(text)}, []
    except ValueError:
        pass

    values: Rows = {}
    torn: list[str] = []
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            try:
                values[number] = json.loads(line)
            except ValueError:
                torn.append(f"line {number}: it is no JSON")
    if not values:
        raise ValueError("it is no JSON")
    return values, torn


def _runs(values: Rows) -> Iterator[tuple[Rows, Json]]:
    """Each run: its rows, and its other fields. Rows that are not in an object are one run, but
    each of Claude Code's sub-agents is a run of its own.
    """
    alone: dict[Any, Rows] = {}
    for number, value in values.items():
        agent: Any = ""
        match value:
            case list():
                yield from _runs(dict(enumerate(value, 1)))
                continue
            case {"role": _} | {"type": _}:
                agent = take(value, "agentId|parent_tool_use_id|isSidechain") or ""
            case {"steps": _} | {"messages": _} | {"traj": _} | {"input": _}:
                yield from _logged(value)
                continue
        alone.setdefault(agent, {})[number] = value
    for rows in alone.values():
        yield rows, {}


def _logged(facts: Json) -> Iterator[tuple[Rows, Json]]:
    """A run that is an object, with its response, and the runs of its sub-agents."""
    rows = _rows(take(facts, "steps|messages|traj|input"), "user")
    for name in ("output", "response"):
        rows += _rows(facts.get(name), "assistant")
    others = take(facts, "subagent_trajectories")
    yield dict(enumerate(rows, 1)), facts
    yield from _runs(dict(enumerate(others, 1)))


def _rows(content: Any, role: str) -> list[Any]:
    """The rows in a field of a run: of a conversation, or of the response to it."""
    match content:
        case None | "":
            return []
        case list():
            return list(content)
        case str():
            return [{"role": role, "content": content}]
        case {"choices": [{"message": message}, *others]}:
            return [message, *others]  # these are no messages, and so they are listed
        case {"message": message}:
            return [message]
        case {"output": list(items)}:
            return items
    return [content]


def _run(rows: Rows, facts: Json, thinks: Sequence[str]) -> Run:
    """The run of these rows."""
    run = Run(facts, thinks)
    for run.row, row in rows.items():
        reply = ""  # its id, if the log has one
        match row:
            case {"message": {"id": id}} | {"step_id": id}:
                reply = str(id)
        try:
            for said in read_row(row):
                run.add(said, reply)
        except (AttributeError, KeyError, TypeError):  # a value of another type than expected
            run.add("a row of a broken form")
    if facts.get("continued_trajectory_ref"):
        run.add(f"its continuation, which is in {facts['continued_trajectory_ref']}")
    run.end()
    return run

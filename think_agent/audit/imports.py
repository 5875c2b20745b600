"""Runs that other agents left behind, read into our transcript and counted: what stood behind what?

    runs = read_runs("runs.json", "openai")
    print(markdown([table(runs, ["book_*", "cancel_*"])]))

Rule 1: a file is JSON or JSON lines, as it is or as .gz: lists of messages, or objects with
        `messages` among other things. What else such an object holds (a reward, a task) is carried
        through as it stands, and never computed.
Rule 2: what a run did is read by `Turn`, as our own runs are.
Rule 3: a share stands with its 95 % Wilson interval.

The edge: the calls of one run are not independent of each other, so an interval over calls is too
narrow. A thought before an act is a claim, not a cause; and that thoughts go with success, or do
not, says nothing as long as hard tasks make a model think more. A history does not tell what was
forced: all thoughts count as volunteered, but for those that a call carries. System prompts are
left out.
"""

import gzip
import json
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from ..dialects.text_calls import read_calls
from ..errors import FileError
from ..evaluation.intervals import wilson
from ..evaluation.tables import Section
from ..messages import THINK_NAME, Message, ToolResult, User
from ..tools import Tool
from ..turn import Turn
from ..wire import anthropic, ollama, openai_chat

FORMS = {"openai": openai_chat, "anthropic": anthropic, "ollama": ollama}
# What is raised by a file that is out of reach, no JSON, or JSON of another shape.
UNREADABLE = (OSError, EOFError, zlib.error, ValueError, LookupError, TypeError, AttributeError)


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a file. `facts`: what else the file says."""

    messages: tuple[Message, ...]
    facts: Mapping[str, Any] = field(default_factory=dict)


def read_runs(path: str | Path, form: str) -> list[Run]:
    """The runs in a file, in one of the FORMS. Raises FileError for a file that holds none."""
    runs: list[Run] = []
    try:
        for value in _values(Path(path).read_bytes()):
            facts = {"messages": value} if isinstance(value, list) else dict(value)
            runs.append(Run(tuple(FORMS[form].from_history(facts.pop("messages"))), facts))
    except UNREADABLE as error:
        what = f"{path}, run {len(runs) + 1}: it cannot be read as {form} messages"
        raise FileError(f"{what} ({type(error).__name__}: {error})") from error
    return runs


def _values(data: bytes) -> list[Any]:
    """The runs of a file, as JSON: a list of them, one alone, or one a line."""
    text = (gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data).decode()
    try:
        value = json.loads(text)
    except ValueError:
        value = [json.loads(line) for line in text.split("\n") if line.strip()]
    return [value] if isinstance(value, dict) or "role" in value[0] else value


def count(runs: Sequence[Run], guarded: Sequence[str] = ()) -> dict[str, tuple[int, int]]:
    """What there is to count, in words: how many, and of how many. Writes are the calls that ran of
    `guarded` tools: patterns of their names (`"book_*"`).
    """
    turns_of = [Turn.all(run.messages) for run in runs]
    turns = [turn for own in turns_of for turn in own]
    replies = [reply for turn in turns for reply in turn.replies]
    actions = [action for turn in turns for action in turn.actions]
    names = {call.name for reply in replies for call in reply.tool_calls} - {THINK_NAME}
    tools = [Tool(name=name, description="", parameters={"type": "object"}) for name in names]
    writing = {name for name in names if any(fnmatchcase(name, one) for one in guarded)}
    ways = [way for run in runs for way in _covering(run.messages, writing)]
    near = [way for run in runs for way in _covering(map(_unbroken, run.messages), writing)]
    thoughtful = sum(any(turn.thoughts for turn in own) for own in turns_of)
    promises = sum(map(_is_promise, turns))
    repeated = sum(turn.repeats.total() - len(turn.repeats) for turn in turns)
    as_text = sum(not m.tool_calls and bool(read_calls(m.text, tools)[0]) for m in replies)
    return {
        "writes behind a thought of their own turn": (sum(map(bool, ways)), len(ways)),
        "writes that carry that thought themselves": (ways.count("carried"), len(ways)),
        "writes with one since the last action, in any turn": (sum(map(bool, near)), len(ways)),
        "runs with a thought in them": (thoughtful, len(runs)),
        "turns that ended in words after a thought that said go on": (promises, len(turns)),
        "calls that failed": (sum(action.result.is_error for action in actions), len(actions)),
        "calls repeated, with the same result": (repeated, len(actions)),
        "replies with a call written as text": (as_text, len(replies)),
    }


def _unbroken(message: Message) -> Message:
    """A message as one of a single long turn: what a person says is made the kit's own."""
    return replace(message, kind="nudge") if isinstance(message, User) else message


def _is_promise(turn: Turn) -> bool:
    goes_on = bool(turn.thoughts) and turn.thoughts[-1].should_continue is True
    return goes_on and bool(turn.reply and not turn.reply.tool_calls)


def _covering(messages: Iterable[Message], writing: set[str]) -> Iterator[str]:
    """For each write, how the thought that covers it came about; `""` where none does."""
    turn = Turn()
    for message in messages:
        if isinstance(message, ToolResult):
            call = next((call for call in turn.pending if call.id == message.call_id), None)
            if call and call.name in writing:
                thought = turn.thought_behind(call, writing)
                yield thought.how if thought else ""
        turn.add(message)


def table(runs: Sequence[Run], guarded: Sequence[str] = (), *, by: str = "") -> Section:
    """What is counted, with intervals: of all runs and, with `by`, for each value of one of the
    facts.
    """
    groups = {"all": list(runs)}
    for run in runs if by else ():
        groups.setdefault(f"{by} {json.dumps(run.facts.get(by))}", []).append(run)
    counted = [count(own, guarded) for own in groups.values()]
    header = ["what", *(f"{name}: {len(own)} runs" for name, own in groups.items())]
    rows = [[what, *(_share(*found[what]) for found in counted)] for what in counted[0]]
    remark = "share and its 95 % interval; a thought is a claim, not a cause; calls of one run are "
    return Section(f"{len(runs)} runs", f"{remark}not independent of each other", [header, *rows])


def _share(part: int, whole: int) -> str:
    low, high = wilson(part, whole)
    return f"{part} of {whole}: {part / (whole or 1):.1%} ({low:.1%} to {high:.1%})"

"""Runs that other agents left behind, read into our transcript and counted: what stood behind what?

    runs = read_runs("runs.json", "openai")
    print(markdown(table(runs, ["book_*", "cancel_*"])))

Rule 1: a file is JSON or JSON lines, as it is or as .gz: lists of messages, or objects with
        `messages` among other things. What else such an object holds (a reward, a task) is carried
        through as it stands, and never computed.
Rule 2: what a run did is read by `Turn`, as our own runs are.
Rule 3: a share stands with its 95 % Wilson interval.

The edge: the calls of one run are not independent of each other, so an interval over calls is too
narrow. A thought before an act is a claim, not a cause; and that thoughts go with success, or do
not, says nothing as long as hard tasks make a model think more. A history does not tell what was
forced: all thoughts count as volunteered, but for those that a call carries.
"""

import gzip
import json
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from ..dialects.text_calls import read_calls
from ..errors import FileError
from ..evaluation.intervals import wilson
from ..evaluation.tables import Section
from ..messages import THINK_NAME, Assistant, Json, Message, Spoken, ToolResult, User
from ..tools import Tool
from ..turn import Turn
from ..wire import anthropic, ollama, openai_chat

FORMS: Mapping[str, Callable[[Iterable[Json]], list[Spoken]]] = {
    "openai": openai_chat.from_history,
    "anthropic": anthropic.from_history,
    "ollama": ollama.from_history,
}


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a file. `instructions`: its system prompts; `facts`: what else the file says."""

    messages: tuple[Message, ...]
    instructions: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)


def read_runs(path: str | Path, form: str) -> list[Run]:
    """The runs in a file, in one of the FORMS. Raises FileError for a file that holds none."""
    runs: list[Run] = []
    try:
        for value in _values(Path(path)):
            runs.append(_run(value, form))
    except OSError as error:
        raise FileError(f"{path}: it cannot be read ({error})") from error
    except (EOFError, zlib.error, ValueError, LookupError, TypeError, AttributeError) as error:
        why = f"{type(error).__name__}: {error}"
        number = len(runs) + 1
        raise FileError(
            f"{path}, run {number}: it is no list of {form} messages ({why})"
        ) from error
    return runs


def _values(path: Path) -> list[Any]:
    """The runs of a file, as JSON: a list of them, one alone, or one a line."""
    data = path.read_bytes()
    text = (gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data).decode()
    try:
        value = json.loads(text)
    except ValueError:
        value = [json.loads(line) for line in text.split("\n") if line.strip()]
    is_one = isinstance(value, dict) or (isinstance(value[0], dict) and "role" in value[0])
    return [value] if is_one else value


def _run(value: Any, form: str) -> Run:
    facts = {"messages": value} if isinstance(value, list) else dict(value)
    messages, system = facts.pop("messages"), facts.pop("system", "")
    prompts = [m["content"] for m in messages if m["role"] in ("system", "developer")]
    said = [
        prompt if isinstance(prompt, str) else "".join(part["text"] for part in prompt)
        for prompt in (system, *prompts)
        if prompt
    ]
    return Run(tuple(FORMS[form](messages)), "\n\n".join(said), facts)


@dataclass(slots=True)
class Counts:
    """What was counted in runs. `writes`: calls of guarded tools that ran; `covered`: those behind
    a thought of their own turn, by the rule of the gate; `near`: those with a thought since the
    last action, whoever spoke in between; `how`: the ways of the covering thoughts.
    """

    runs: int = 0
    thoughtful: int = 0  # runs with a thought in them
    turns: int = 0
    promises: int = 0  # turns that ended in words though their last thought said to go on
    replies: int = 0
    as_text: int = 0  # replies with a call written into their text
    actions: int = 0
    failed: int = 0
    repeated: int = 0  # the same call with the same result, after the first time
    writes: int = 0
    near: int = 0
    how: Counter[str] = field(default_factory=Counter)

    @property
    def covered(self) -> int:
        """How many writes stand behind a thought of their own turn."""
        return self.how.total()


def count(runs: Iterable[Run], guarded: Sequence[str] = ()) -> Counts:
    """Count. `guarded`: patterns of the names of tools that change the world (`"book_*"`)."""
    runs = list(runs)
    replies = [m for run in runs for m in run.messages if isinstance(m, Assistant)]
    names = {call.name for reply in replies for call in reply.tool_calls} - {THINK_NAME}
    writing = {name for name in names if any(fnmatchcase(name, one) for one in guarded)}
    tools = [Tool(name=name, description="", parameters={"type": "object"}) for name in names]
    found = Counts(runs=len(runs), replies=len(replies))
    found.as_text = sum(not m.tool_calls and bool(read_calls(m.text, tools)[0]) for m in replies)
    for run in runs:
        turns = Turn.all(run.messages)
        found.turns += len(turns)
        found.thoughtful += any(turn.thoughts for turn in turns)
        for turn in turns:
            found.actions += len(turn.actions)
            found.failed += sum(action.result.is_error for action in turn.actions)
            found.repeated += turn.repeats.total() - len(turn.repeats)
            goes_on = bool(turn.thoughts) and turn.thoughts[-1].should_continue is True
            found.promises += goes_on and bool(turn.reply and not turn.reply.tool_calls)
        ways = _covering(run.messages, writing)
        found.writes += len(ways)
        found.how.update(filter(None, ways))
        # As one turn: what a person says is made the kit's own.
        unbroken = (replace(m, kind="nudge") if isinstance(m, User) else m for m in run.messages)
        found.near += sum(map(bool, _covering(unbroken, writing)))
    return found


def _covering(messages: Iterable[Message], writing: set[str]) -> list[str]:
    """For each write, how the thought that covers it came about; `""` where none does."""
    turn = Turn()
    ways: list[str] = []
    for message in messages:
        if isinstance(message, ToolResult):
            call = next((call for call in turn.pending if call.id == message.call_id), None)
            if call and call.name in writing:
                thought = turn.thought_behind(call, writing)
                ways.append(thought.how if thought else "")
        turn.add(message)
    return ways


def table(runs: Sequence[Run], guarded: Sequence[str] = (), *, by: str = "") -> list[Section]:
    """The counts as tables: shares with their intervals and, with `by`, what was counted for each
    value of one of the facts.
    """
    one = count(runs, guarded)
    ways = f" ({', '.join(f'{how} {n}' for how, n in one.how.most_common())})" if one.how else ""
    shares = [
        (f"writes behind a thought of their own turn{ways}", one.covered, one.writes),
        ("writes with a thought since the last action, in any turn", one.near, one.writes),
        ("runs with a thought in them", one.thoughtful, one.runs),
        ("turns that ended in words after a thought that said go on", one.promises, one.turns),
        ("calls that failed", one.failed, one.actions),
        ("calls repeated, with the same result", one.repeated, one.actions),
        ("replies with a call written as text", one.as_text, one.replies),
    ]
    rows = [("what", "count", "share", "95 % interval"), *(_share(*row) for row in shares)]
    remark = "a thought is a claim, not a cause; calls of one run are not independent of each other"
    sections = [Section(f"{one.runs} runs", remark, rows)]
    if by:
        groups: dict[str, list[Run]] = {}
        for run in runs:
            groups.setdefault(json.dumps(run.facts.get(by)), []).append(run)
        header = [by, "runs", "with a thought", "writes", "behind one of their turn", "behind any"]
        figures = [header]
        for value, own in sorted(groups.items()):
            c = count(own, guarded)
            cells = (c.runs, c.thoughtful, c.writes, c.covered, c.near)
            figures.append([value, *map(str, cells)])
        sections.append(Section(f"By {by}, as the file says", "", figures))
    return sections


def _share(what: str, part: int, whole: int) -> tuple[str, str, str, str]:
    if not whole:
        return what, "0 of 0", "-", "-"
    low, high = wilson(part, whole)
    return what, f"{part} of {whole}", f"{part / whole:.1%}", f"{low:.1%} to {high:.1%}"

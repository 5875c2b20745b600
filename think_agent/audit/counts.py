"""Counts how many actions followed a thought in other programs' runs, as one table.

    print(markdown([table(read_log("runs.json"), ["book_*", "cancel_*"])]))

Rule 1: runs are read by `Turn`, like the kit's own.
Rule 2: each share has a 95 % Wilson interval.

Limitations: calls of one run aren't independent, so an interval over calls is too narrow. A thought
before an action is a claim, not a cause. A higher success rate of runs with thoughts proves
nothing, because hard tasks make a model think more.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from ..evaluation.intervals import wilson
from ..evaluation.tables import Section
from ..messages import THINK_NAME, ToolResult, User
from ..outcome import pluralize
from ..policies.repeats import Repeats
from ..think import read_signal
from ..turn import Turn
from .logs import LoggedRun
from .page import render_page
from .report import fits

REMARK = (
    "share and its 95 % interval; a thought is a claim, not a cause; calls of one run are not "
    "independent of each other"
)
ROWS = {
    "behind": "{writes} after a thought of their own turn",
    "near": "{writes} with a thought since the last action, in any turn",
    "reasoned": "{writes} with native reasoning in their reply",
    "spoken": "{writes} with text in their reply",
    "thought": "runs with a thought in them",
    "after done": "actions after a thought that said 'done'",
    "promise": "turns that ended without a call after a thought that said 'more to do'",
    "repeat": "actions repeated, with the same result",
    "failed": "actions that failed: the result begins with 'error'",
}


def tools_of(runs: Iterable[LoggedRun]) -> set[str]:
    """The names of the tools that ran, except `think`."""
    names: set[str] = set()
    for run in runs:
        for message in run.messages:
            if isinstance(message, ToolResult):
                names.add(message.name)
    return names - {THINK_NAME}


def count(runs: Sequence[LoggedRun], guarded: Sequence[str] = ()) -> dict[str, tuple[int, int]]:
    """For each row, by name: how many, and of how many. Writes are the calls of `guarded` tools
    (name patterns) that ran. Without patterns, all actions count.
    """
    writes = "writes"
    if not guarded:
        writes = "actions"
        guarded = ["*"]
    part: Counter[str] = Counter()
    whole: Counter[str] = Counter()
    for run in runs:
        for key, is_true in _of_run(run, guarded):
            part[key] += is_true
            whole[key] += 1
    return {row.format(writes=writes): (part[key], whole[key]) for key, row in ROWS.items()}


def _of_run(run: LoggedRun, guarded: Sequence[str]) -> Iterator[tuple[str, bool]]:
    """For each counted thing of a run: its key in ROWS, and whether it's true."""
    # The same run, read as a single turn.
    unbroken = Turn.of(message for message in run.messages if not isinstance(message, User))
    yield "thought", bool(unbroken.thoughts)
    for action in unbroken.actions:
        if fits(action.call.name, guarded):
            yield "near", action.thought is not None
    for turn in Turn.all(run.messages):
        yield from _of_turn(turn, guarded)
        for action in turn.actions:
            yield "failed", action.result.is_error
            if fits(action.call.name, guarded):
                yield "behind", action.thought is not None


def _of_turn(turn: Turn, guarded: Sequence[str]) -> Iterator[tuple[str, bool]]:
    """The same for a turn: its repeats and replies."""
    for numbers in turn.read(Repeats).numbers.values():
        for place in range(len(numbers)):
            yield "repeat", place > 0
    ran = {action.call.id for action in turn.actions}
    signal = None  # of the last thought
    ends_in_words = False
    for reply in turn.replies:
        ends_in_words = not reply.tool_calls
        for call in reply.tool_calls:
            if call.name == THINK_NAME:
                signal = read_signal(call)
            elif call.id in ran:
                yield "after done", signal is False
                if fits(call.name, guarded):
                    yield "reasoned", bool(reply.thinking.strip())
                    yield "spoken", bool(reply.words)
    yield "promise", signal is True and ends_in_words


def table(runs: Sequence[LoggedRun], guarded: Sequence[str] = (), *, by: str = "reward") -> Section:
    """The counts with their intervals, for all runs and for each value of the fact `by`."""
    groups = {"all": list(runs)}
    for run in runs:
        if by in run.facts:
            groups.setdefault(f"{by} {json.dumps(run.facts[by])}", []).append(run)

    columns = [["what", *count([], guarded)]]  # counting no runs gives the names of the rows
    for name, group in groups.items():
        shares = [_share(*share) for share in count(group, guarded).values()]
        columns.append([f"{name}: {len(group)} runs", *shares])
    rows = list(zip(*columns, strict=True))
    return Section(pluralize(len(runs), "run"), REMARK, rows)


def table_to_html(table: Section, origin: Mapping[str, str]) -> str:
    """A page of the table. `origin`: where it comes from, by name."""
    return render_page("tables.html.j2", title="Audit of runs", about=origin, tables=[table])


def _share(part: int, whole: int) -> str:
    if not whole:
        return "0 of 0"
    low, high = wilson(part, whole)
    return f"{part} of {whole}: {part / whole:.1%} ({low:.1%} to {high:.1%})"

"""The record of a gate: its file, and what a killed gate left in it.

Rule 1: A gate that exits normally ends its turn. So an open turn means that a gate was killed, and
        the next gate ends that turn, with the exit "truncated".
Rule 2: The last result of such a turn may not have reached the client. If the client repeats the
        call, it gets that result once, and the call doesn't run again.
Rule 3: So a record that a killed gate left open is preferred to a free file name.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from ..agent import Agent
from ..errors import TranscriptError, TranscriptInUse
from ..history import OpenCall
from ..loop import CallTool, Policy, Refuse, Step
from ..messages import THINK_NAME, Assistant, Ended, Message, ToolCall, ToolResult, User
from ..think import bare
from ..tools import Tool
from ..transcript import Transcript
from ..turn import Turn

KILLED = Assistant("(The gate was killed here.)", stop_reason="killed", cause="the gate was killed")
DONE = "done"  # the code of a call that has run already and doesn't run again (rule 2)
NOT_AGAIN = (
    "not run again: it was done before the gate was killed. Call it once more if you mean a "
    "second one. This was its result:"
)


def was_left_open(turn: Turn) -> bool:
    """Did a gate begin this turn and not end it (rule 1)?"""
    return turn.request is not None and turn.ended is None


def find_record(agent: Agent[Any], path: Path) -> Transcript:
    """Open the record. If another process has it open, use the next free name (rule 3). Raises
    TranscriptError if the file at `path` can't be used.
    """
    free: Transcript | None = None
    for name in _names_after(path):
        if free and not name.exists():
            return free
        try:
            record = agent.open(name)
        except TranscriptInUse:
            continue
        except TranscriptError:
            if name == path:
                raise
            continue  # not a transcript
        if was_left_open(record.turn):
            if free:
                free.close()
            return record
        if free:
            record.close()
        else:
            free = record
    raise AssertionError("there is always another name")


def _names_after(path: Path) -> Iterator[Path]:
    """`run.jsonl`, `run-2.jsonl`, `run-3.jsonl` and so on."""
    yield path
    for number in count(2):
        yield path.with_name(f"{path.stem}-{number}{path.suffix}")


@dataclass
class LostResults:
    """Finished calls whose results may not have reached the client (rule 2)."""

    calls: list[tuple[ToolCall, ToolResult]] = field(default_factory=list)
    last: tuple[ToolCall, ToolResult] | None = None  # the turn's last finished call

    def add(self, message: Message, about: OpenCall | None) -> None:
        """Read the next message of the conversation. `about`: the call that it belongs to."""
        match message:
            case User(kind="person"):
                self.last = None
            case Ended(exit="truncated"):
                if self.last:
                    self.calls.append(self.last)
            case ToolResult(refused="done") if about:
                self.calls = [lost for lost in self.calls if not _is_same(lost[0], about.call)]
            case ToolResult(refused="", is_error=False) if about:
                if about.call.name != THINK_NAME:
                    self.last = bare(about.call), message

    def find(self, call: ToolCall) -> ToolResult | None:
        """The lost result of this call, if there is one."""
        for lost, result in self.calls:
            if _is_same(lost, call):
                return result
        return None


def give_lost_results(tools: Mapping[str, Tool]) -> Policy:
    """The policy of rule 2. (If a tool may run twice, it simply runs.)"""

    def give_lost_result(step: Step, turn: Turn) -> Step:
        if not isinstance(step, CallTool) or step.call.name not in tools:
            return step
        if not tools[step.call.name].records_start:
            return step
        lost = turn.history.read(LostResults).find(step.call)
        if lost is None:
            return step
        return Refuse(step.call, DONE, f"{NOT_AGAIN}\n{lost.content}")

    return give_lost_result


def _is_same(lost: ToolCall, call: ToolCall) -> bool:
    return lost.name == call.name and lost.arguments == bare(call).arguments

"""Effects: what a step asks of the world, as a list of values.

Rule 1: `effects` is pure: a step and a turn in, a list of effects out. A message in it is recorded,
        any other effect is performed, one after another (`running.py`).
Rule 2: `Started` and a flush stand before a call that must not be lost, the flush after it, too.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf

from . import think as thinking
from .loop import AskHuman, CallModel, CallTool, Check, Done, Refuse, Step
from .messages import THINK_NAME, Ended, Message, Spoken, Started, ToolCall, ToolResult
from .model import Request
from .policies.answer import TypedAnswer
from .policies.doubt import DECLARE
from .policies.limits import Limits
from .streaming import Notice
from .text import json_text
from .tools import STARTED_BEFORE, Tool
from .turn import Turn

LIMITS = {"limit", "budget"}  # what the kit asks closing words for
CLOSING_TOKENS = 1_000  # that they may hold, and any last reply beyond a limit of tokens


@dataclass(frozen=True, slots=True)
class Perform:
    """One call to be run. `key` is the same for it in every process that takes the run up;
    `changed_by`: who changed its arguments, empty for nobody.
    """

    call: ToolCall
    key: str = ""
    changed_by: str = ""


@dataclass(frozen=True, slots=True)
class RunCheck:
    """One check of `done_when` to be run, on what was done."""

    name: str
    turn: Turn = field(repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Flush:
    """What was recorded has to be on the disk before anything else is done."""


Asked = Request | Perform | RunCheck | AskHuman  # of the world outside
Effect = Message | Notice | Asked | Flush | Done


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What an agent is made of, as far as its runs depend on it. `tools` are run, `shown` are shown
    to the model, with `think`.
    """

    instructions: str
    think: Tool | None
    tools: Mapping[str, Tool]
    shown: tuple[Tool, ...]
    limits: Limits
    answer: TypedAnswer | None
    keep_turns: float
    max_thoughts_in_a_row: float

    @property
    def can_signal(self) -> bool:
        """Does the think tool carry the exit signal?"""
        return self.think is not None and thinking.has_signal(self.think)


def effects(settings: Settings, step: Step, turn: Turn) -> list[Effect]:
    """What a step asks of the world, in order."""
    match step:
        case CallModel():
            return _ask_model(settings, step, turn)
        case CallTool(call) if call.name == THINK_NAME and settings.think:
            cap = settings.max_thoughts_in_a_row
            in_a_row = turn.thoughts_in_a_row
            text = thinking.acknowledge(call, settings.think, in_a_row=in_a_row, cap=cap)
            return [ToolResult(call.id, call.name, text)]
        case CallTool(call):
            return _run_tool(settings, call, turn)
        case Refuse():
            return _refuse(step, turn)
        case AskHuman():
            return [step]
        case Check(names):
            return [RunCheck(name, turn) for name in names]
        case Done(exit, answer):
            if turn.ended or exit == "needs_human":  # which is a pause
                return [Flush(), step]
            said_last = turn.reply is not None and turn.reply.words == answer
            return [Ended(exit, "" if said_last else answer), Flush(), step]


def _ask_model(settings: Settings, step: CallModel, turn: Turn) -> list[Effect]:
    asked: tuple[Spoken, ...] = (step.say,) if step.say else ()
    shown = turn.history.recent(settings.keep_turns)
    is_last = step.tool_choice == "none"
    request = Request(
        shown + asked,
        settings.shown,
        tool_choice=step.tool_choice,
        system=settings.instructions,
        output_schema=settings.answer.schema if settings.answer and is_last else None,
        max_output_tokens=_most_tokens(settings.limits.tokens, step, turn),
        left_out=tuple(turn.history.spoken[: -len(shown)]),
    )
    return [*asked, request]


def _most_tokens(limit: float, step: CallModel, turn: Turn) -> int | None:
    """How many tokens the reply may have; None for any number."""
    asks_now = step.say is not None and step.say.kind in LIMITS
    if asks_now or closes_at_a_limit(turn):
        return CLOSING_TOKENS
    left = limit - turn.tokens
    if step.tool_choice == "none":
        left = max(left, CLOSING_TOKENS)
    if left == inf:
        return None
    return int(left)


def closes_at_a_limit(turn: Turn) -> bool:
    """Was the model asked for its closing words at a limit?"""
    return bool(LIMITS & turn.asked.keys())


def _run_tool(settings: Settings, call: ToolCall, turn: Turn) -> list[Effect]:
    written = turn.pending[0]
    decided = turn.as_decided(call)
    perform = Perform(decided)
    if decided.arguments != thinking.bare(written).arguments:
        json_text(decided.arguments)  # raises now, before anything is done
        by_person = decided.arguments != thinking.bare(call).arguments  # as the policies left it
        perform = Perform(decided, changed_by="A person" if by_person else "A policy")
    tool = settings.tools.get(call.name)
    if tool is None or not tool.records_start:
        return [perform]
    return [Started(call.id, call.name), Flush(), perform, Flush()]


def _refuse(step: Refuse, turn: Turn) -> list[Effect]:
    content = f"error: {step.reason}"
    in_doubt = turn.started is not None
    if in_doubt:
        content = f"{content} {STARTED_BEFORE}"
    call = step.call
    result = ToolResult(
        call.id, call.name, content, is_error=True, refused=step.code, in_doubt=in_doubt
    )
    if step.code == "doubt":
        return [result, Notice(f"{call.name} was not run again: {DECLARE}")]
    return [result]

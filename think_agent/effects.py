"""Effects: what has to be done for a step, as a list of values.

Rule 1: `effects` is pure. It gets a step and a turn, and returns a list of effects. A message in
        the list is recorded. The other effects are performed, one after another (`running.py`).
Rule 2: before a call that must not be lost come `Started` and a flush, and after it another flush.
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

LIMITS = {"limit", "budget"}  # the kinds of message with which the kit asks for the closing reply
CLOSING_TOKENS = 1_000  # for the closing reply at a limit, and any beyond a limit of tokens


@dataclass(frozen=True)
class Perform:
    """One call to be run. `key` is its idempotency key, the same in every process that goes on with
    the run. `changed_by`: who changed its arguments; empty if nobody did.
    """

    call: ToolCall
    key: str = ""
    changed_by: str = ""


@dataclass(frozen=True)
class RunCheck:
    """One check of `done_when` to be run. It gets the turn."""

    name: str
    turn: Turn = field(repr=False, compare=False)


@dataclass(frozen=True)
class Flush:
    """Put what was recorded on the disk before anything else is done."""


Asked = Request | Perform | RunCheck | AskHuman  # what the world outside has to do
Effect = Message | Notice | Asked | Flush | Done


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The settings of an agent that its runs need. `tools` can be run. `shown` is what the model
    sees of them, with `think`.
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
        """Does the think tool have the exit signal?"""
        return self.think is not None and thinking.has_signal(self.think)


def effects(settings: Settings, step: Step, turn: Turn) -> list[Effect]:
    """What has to be done for a step, in order."""
    match step:
        case CallModel():
            return _ask_model(settings, step, turn)
        case CallTool(call) if call.name == THINK_NAME and settings.think:
            cap = settings.max_thoughts_in_a_row
            in_a_row = turn.thoughts_in_a_row
            in_form = turn.reply is not None and turn.reply.enforced == "schema"
            text = thinking.acknowledge(
                call, settings.think, in_a_row=in_a_row, cap=cap, in_form=in_form
            )
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
            if turn.ended or exit == "needs_human":  # `needs_human` is a pause, not an end
                return [Flush(), step]
            said_last = turn.last_words == answer
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
    """Was the model asked for its closing reply because of a limit?"""
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

"""What a turn did, read out of its transcript: which action stands behind which thought, and how
that thought came.

Rule 1: a thought covers the calls after it, up to the end of the next reply that acts. Calls of one
        reply were decided together, so one thought before them covers them all; after them a new
        one is owed.
Rule 2: a refused call was never run and is no action.
Rule 3: a thought is `gated` when it followed a call that was refused for want of one, `forced` by
        tool choice or by `schema` when that was asked and done, and `volunteered` otherwise.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from . import think
from .messages import (
    THINK_NAME,
    Assistant,
    Force,
    Message,
    ToolCall,
    ToolResult,
    Usage,
    current_turn,
    json_text,
    paired,
)

How: TypeAlias = Literal["forced", "schema", "gated", "volunteered"]


@dataclass(frozen=True, slots=True)
class Thought:
    """A thought, and how it came about."""

    text: str
    how: How


@dataclass(frozen=True, slots=True)
class Action:
    """A tool call as it was run, with the thought it stands behind (None: behind none)."""

    call: ToolCall
    result: ToolResult
    thought: str | None = None
    how: How | None = None


def calls_with_thoughts(
    turn: Sequence[Message],
) -> Iterator[tuple[ToolCall, ToolResult | None, Thought | None]]:
    """The calls of a turn but for the think calls, each with its result, if it has one yet, and
    the thought that covers it.
    """
    thought: Thought | None = None
    refused = False
    for place, message in enumerate(turn):
        refused = refused or told_to_think(message)
        if not isinstance(message, Assistant):
            continue
        acted = False
        after = (turn[i] for i in range(place + 1, len(turn)))  # a slice would copy them
        for call, result in paired(message, after):
            if call.name == THINK_NAME:
                thought = Thought(think.thought(call), how_it_came(message, refused))
                acted = refused = False
            else:
                yield call, result, thought
                acted = True
        if acted:
            thought = None


def actions(turn: Sequence[Message]) -> Iterator[Action]:
    """The actions of a turn, in order."""
    for call, result, thought in calls_with_thoughts(turn):
        if result and not result.refused:
            if result.arguments is not None:
                call = replace(call, arguments=result.arguments)
            text, how = (thought.text, thought.how) if thought else (None, None)
            yield Action(call, result, text, how)


def told_to_think(message: Message) -> bool:
    """Is this the refusal of a call that had no thought behind it?"""
    match message:
        case ToolResult(refused=True, content=content):
            return content.endswith(think.THINK_FIRST)
    return False


def thought_behind(call: ToolCall, turn: Sequence[Message]) -> str:
    """The thought that covers a call which has no result yet; empty when there is none."""
    for tried, result, thought in calls_with_thoughts(turn):
        if tried == call and result is None:
            return thought.text if thought else ""
    return ""


def signature(call: ToolCall) -> str:
    """A call as one would write it: `lookup_order(order_id="ORD-001")`."""
    if isinstance(call.arguments, str):
        return f"{call.name}({call.arguments})"
    arguments = (f"{k}={json_text(v)}" for k, v in call.arguments.items())
    return f"{call.name}({', '.join(arguments)})"


def report(turn: Sequence[Message]) -> str:
    """What a turn did, a line per action: ✓ or ✗, the call, and what went wrong."""
    lines = []
    for action in actions(turn):
        failed = action.result.is_error
        why = f" ({_in_short(action.result.content)})" if failed else ""
        lines.append(f"{'✗' if failed else '✓'} {_in_short(signature(action.call))}{why}")
    return "\n".join(lines)


def _in_short(text: str) -> str:
    """On one line, and not too long: a model may put anything into a name or an argument."""
    text = " ".join(text.split())
    return text if len(text) <= 200 else text[:200] + "…"


def thoughts(turn: Sequence[Message]) -> Iterator[str]:
    """The thoughts of a turn, in order."""
    for message in turn:
        if isinstance(message, Assistant):
            yield from (think.thought(c) for c in message.tool_calls if c.name == THINK_NAME)


def thoughts_in_a_row(transcript: Sequence[Message]) -> int:
    """How many replies in a row, up to the last one, called nothing but `think`."""
    count = 0
    for message in reversed(current_turn(transcript)):
        if isinstance(message, Assistant):
            if any(call.name != THINK_NAME for call in message.tool_calls):
                break
            count += bool(message.tool_calls)
    return count


def usage(turn: Sequence[Message]) -> Usage:
    """The tokens of all replies of a turn."""
    return sum((m.usage for m in turn if isinstance(m, Assistant)), Usage())


def ignored_choices(messages: Sequence[Message]) -> int:
    """How many replies did not do what their tool choice asked, though their provider took it."""
    return sum(isinstance(m, Assistant) and m.enforced == "ignored" for m in messages)


def how_it_came(reply: Assistant, refused: bool) -> How:
    """How the thoughts of `reply` came about; `refused`: a call before it was, for want of one."""
    if refused:
        return "gated"
    if isinstance(reply.tool_choice, Force) or reply.tool_choice == "required":
        if reply.enforced == "tool_choice" and reply.tool_choice == Force(THINK_NAME):
            return "forced"
        if reply.enforced == "schema":
            return "schema"
    return "volunteered"

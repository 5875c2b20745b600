"""The facts of a turn by their definitions, read out of the list again for each: the slow oracle
that `Turn` is held against. It shares no code with `turn.py`, and keeps nothing between two facts.

Rule 1: a result answers the first call of its id that is still open in the last reply before it,
        and a call happened when it was answered.
Rule 2: what is unclear in a list that no run would write is decided by rule 1, in list order.
"""

import json
import unicodedata
from collections import Counter
from collections.abc import Sequence, Set
from dataclasses import dataclass
from datetime import datetime
from itertools import takewhile
from typing import Any

from think_agent import (
    Assistant,
    Force,
    Message,
    Started,
    ToolCall,
    ToolResult,
    Usage,
    User,
    Verdict,
)

CUT = ("max_tokens", "pause_turn", "incomplete", "refusal")


@dataclass(frozen=True)
class Answered:
    """A call that was answered: by the message at `place`, for the reply at `reply_at`."""

    call: ToolCall
    result: ToolResult
    reply: Assistant
    reply_at: int
    place: int

    @property
    def thinks(self) -> bool:
        return self.call.name == "think"

    @property
    def is_thought(self) -> bool:
        return self.thinks and not self.result.is_error

    @property
    def covers(self) -> bool:
        """A thought that is not blank, in a reply that was neither malformed nor cut."""
        whole = self.reply.stop_reason not in (*CUT, "malformed")
        words = isinstance(self.call.arguments, dict) and says_something(text(self.call))
        return self.is_thought and words and whole

    @property
    def ran(self) -> bool:
        return not self.thinks and not self.result.refused

    @property
    def gated(self) -> bool:
        return not self.thinks and self.result.refused == "gate"


def text(call: ToolCall) -> str:
    if isinstance(call.arguments, str):
        return call.arguments
    return str(call.arguments.get("thought", ""))


def says_something(text: str) -> bool:
    """A letter or a number that can be seen."""
    seen = (c for c in text if "FILLER" not in unicodedata.name(c, ""))
    return any(unicodedata.category(c)[0] in "LN" for c in seen)


def own(call: ToolCall) -> str:
    value = call.arguments.get("thought") if isinstance(call.arguments, dict) else ""
    if not isinstance(value, str) or call.name == "think" or not says_something(value):
        return ""
    return value.strip()


def bare(call: ToolCall) -> dict[str, Any] | str:
    """The arguments as they are run: without a thought that is carried in them."""
    if isinstance(call.arguments, str):
        return call.arguments
    return {name: value for name, value in call.arguments.items() if name != "thought"}


def signal(call: ToolCall) -> bool | None:
    value = call.arguments.get("should_continue") if isinstance(call.arguments, dict) else None
    said = str(value).strip().lower() if isinstance(value, (bool, str)) else ""
    return {"true": True, "false": False}.get(said)


def speaks(message: Message) -> bool:
    """Does a person open a turn with it?"""
    return isinstance(message, User) and message.kind == "person"


def split(messages: Sequence[Message]) -> list[list[Message]]:
    """The turns, each a list of its own."""
    starts = [i for i, m in enumerate(messages) if speaks(m) and i]
    bounds = zip([0, *starts], [*starts, len(messages)], strict=True)
    return [list(messages[start:end]) for start, end in bounds if start < end]


def replies(turn: Sequence[Message]) -> list[Assistant]:
    return [message for message in turn if isinstance(message, Assistant)]


def answered(turn: Sequence[Message]) -> list[Answered]:
    """The calls that were answered, in the order in which they were."""
    found = [item for at in range(len(turn)) for item in matched(turn, at)[0]]
    return sorted(found, key=lambda item: item.place)


def matched(turn: Sequence[Message], at: int) -> tuple[list[Answered], list[ToolCall]]:
    """The calls of the reply at this place: those answered, and those still open."""
    reply = turn[at]
    if not isinstance(reply, Assistant):
        return [], []
    found, waiting = [], list(reply.tool_calls)
    for place in range(at + 1, len(turn)):
        message = turn[place]
        if isinstance(message, Assistant):
            break
        calls = [i for i, c in enumerate(waiting) if c.id == getattr(message, "call_id", None)]
        if isinstance(message, ToolResult) and calls:
            found.append(Answered(waiting.pop(calls[0]), message, reply, at, place))
    return found, waiting


def last_reply_at(turn: Sequence[Message]) -> int:
    return max((i for i, m in enumerate(turn) if isinstance(m, Assistant)), default=0)


def _asks(message: Message) -> bool:
    return isinstance(message, User) and message.kind == "answer"


def way_out(turn: Sequence[Message]) -> str | None:
    """Why the reply that follows is the final one: the last that decides it, looking back."""
    happened = {item.place: item for item in answered(turn)}
    for place, message in reversed(list(enumerate(turn))):
        if isinstance(message, User) and message.kind in ("limit", "budget"):
            return message.kind
        if item := happened.get(place):
            beside = [one for one in happened.values() if one.reply_at == item.reply_at]
            thoughts = [one.call for one in beside if one.is_thought]
            refused = any(one.result.refused for one in beside)
            if thoughts and signal(thoughts[-1]) is False and not refused:
                rest = turn[place + 1 :]  # a silence that was confirmed, and asked for its form?
                kinds = [
                    getattr(m, "kind", "reply" if isinstance(m, Assistant) else "") for m in rest
                ]
                decisive = [kind for kind in kinds if kind in ("answer", "reply")]
                return "silence" if decisive[:1] == ["answer"] else "signal"
            break
    place = place if turn else 0
    asked = [m for m in turn[place:] if isinstance(m, User) and m.kind == "answer"]
    return "silence" if asked else None


def covering(
    turn: Sequence[Message], call: ToolCall, reply_at: int, before: Sequence[Answered]
) -> tuple[str, str] | None:
    """The thought that covers a call if every tool is guarded, and how it came about."""
    if own(call):
        return own(call), "carried"
    thoughts = [i for i, item in enumerate(before) if item.covers]
    if not thoughts:
        return None
    since = before[thoughts[-1] + 1 :]
    if any(item.ran and item.reply_at != reply_at for item in since):
        return None
    last = before[thoughts[-1]]
    return text(last.call), how(last, before[: thoughts[-1]])


def how(item: Answered, before: Sequence[Answered]) -> str:
    covered = [i for i, other in enumerate(before) if other.covers]
    since = before[covered[-1] + 1 :] if covered else before
    if any(other.gated for other in since):
        return "gated"
    reply = item.reply
    if reply.enforced == "tool_choice" and reply.tool_choice == Force("think"):
        return "forced"
    asked = isinstance(reply.tool_choice, Force) or reply.tool_choice == "required"
    return "schema" if reply.enforced == "schema" and asked else "volunteered"


def actions(turn: Sequence[Message]) -> list[tuple[Any, ...]]:
    """Name, arguments as run, result, thought and how of each."""
    done = answered(turn)
    rows = []
    for index, item in enumerate(done):
        if item.ran:
            thought = covering(turn, item.call, item.reply_at, done[:index]) or (None, None)
            changed = item.result.arguments
            arguments = bare(item.call) if changed is None else changed
            rows.append((item.call.name, arguments, item.result, *thought))
    return rows


def what(action: Sequence[Any]) -> tuple[str, str, str]:
    return action[0], json.dumps(action[1], sort_keys=True), action[2].content


def times(turn: Sequence[Message]) -> list[tuple[float, float]]:
    """When each stamped message was there at the latest, and the seconds worked until then:
    waiting for a person is no work, and what a clock steps back is not counted.
    """
    stamped = []
    for message in turn:
        try:
            at = datetime.fromisoformat(message.at or "").timestamp()
        except ValueError:
            continue
        stamped.append((at, isinstance(message, Verdict)))
    clock = [max(at for at, _ in stamped[: i + 1]) for i in range(len(stamped))]
    worked = [
        0.0 if waited else max(0.0, now - before)
        for (before, _), (now, waited) in zip([stamped[0], *stamped], stamped, strict=False)
    ] if stamped else []  # fmt: skip
    return [(now, sum(worked[: i + 1])) for i, now in enumerate(clock)]


def in_a_row(items: Sequence[bool]) -> int:
    """How many of the last are true."""
    return len(list(takewhile(bool, reversed(items))))


def since_last(turn: Sequence[Message], *kinds: type) -> list[Message]:
    """The messages after the last one of these kinds."""
    return list(takewhile(lambda m: not isinstance(m, kinds), reversed(turn)))[::-1]


def failed_in_a_row(turn: Sequence[Message]) -> int:
    gone_on = [i for i, m in enumerate(turn) if isinstance(m, Verdict) and not m.call_id]
    since = gone_on[-1] if gone_on else -1
    done = [item for item in answered(turn) if item.ran and item.place > since]
    return in_a_row([item.result.is_error for item in done])


def pointed_out(turn: Sequence[Message]) -> dict[tuple[str, str, str], int]:
    found = {}
    for place, message in enumerate(turn):
        if isinstance(message, User) and message.kind == "repeat":
            done = [what(action) for action in actions(turn[:place])]
            last = done[-1] if done else ("", "", "")
            found[last] = done.count(last)
    return found


def facts(messages: Sequence[Message]) -> dict[str, Any]:
    """Every public fact of `Turn.of(messages)`, by name."""
    turn = split(messages)[-1] if messages else []
    said = replies(turn)
    done, did = answered(turn), actions(turn)
    calling = [reply for reply in said if reply.tool_calls]
    everything = replies(messages)
    reply = said[-1] if said else None
    at = last_reply_at(turn)
    waiting = matched(turn, at)[1] if turn else []
    gated = [any(item.gated and item.reply_at == i for item in done)
             for i, m in enumerate(turn) if isinstance(m, Assistant) and m.tool_calls]  # fmt: skip
    asked_at = [i for i, m in enumerate(turn) if isinstance(m, User) and m.kind == "silence"]
    stops = [
        m
        for m in turn
        if isinstance(m, Verdict)
        and (m.decision == "quit" or (m.decision == "no" and not m.call_id))
    ]
    thinking_last = [item.is_thought for item in done if item.is_thought or not item.thinks]
    spoken = [m for m in messages if not isinstance(m, (Started, Verdict))]
    return {
        "spoken": spoken,
        "ids": {call.id for one in everything for call in one.tool_calls},
        "calls": sum(len(one.tool_calls) for one in everything),
        "starts": [i for i, m in enumerate(spoken) if speaks(m)],
        "signed": any(one.signed for one in everything),
        "ignored": sum(
            one.enforced == "ignored" and one.tool_choice != "none" for one in everything
        ),
        "request": turn[0] if turn and speaks(turn[0]) else None,
        "last": turn[-1] if turn else None,
        "reply": reply,
        "silent": (replies(turn[: asked_at[-1]]) or [None])[-1] if asked_at else None,
        "final": way_out(turn[:at]) if reply else None,
        "way_out": way_out(turn),
        "pending": waiting,
        "notes": [
            m
            for m in since_last(turn, Assistant, ToolResult)
            if isinstance(m, (Started, Verdict))
        ],
        "stop": stops[0] if stops else None,
        "replies": said,
        "thoughts": [
            (text(item.call), how(item, done[:i]), signal(item.call))
            for i, item in enumerate(done)
            if item.is_thought
        ],
        "actions": did,
        "asked": Counter(m.kind for m in turn if isinstance(m, User) and not speaks(m)),
        "usage": sum((one.usage for one in said), Usage()),
        "tokens": sum(one.usage.input_tokens + one.usage.output_tokens for one in said),
        "usage_of": {
            name: sum((one.usage for one in said if one.model == name), Usage())
            for name in {one.model for one in said}
        },
        "times": times(turn),
        "thoughts_in_a_row": in_a_row(
            [all(call.name == "think" for call in one.tool_calls) for one in calling]
        ),
        "malformed_in_a_row": in_a_row([one.stop_reason == "malformed" for one in said]),
        "failed_in_a_row": failed_in_a_row(turn),
        "wants_thought": any(
            item.gated and not any(other.covers for other in done[i:])
            for i, item in enumerate(done)
        ),
        "owes_thought": not (thinking_last and thinking_last[-1]),
        "what": what(did[-1]) if did else ("", "", ""),
        "repeats": Counter(what(action) for action in did),
        "pointed_out": pointed_out(turn),
        "gate_refusals": in_a_row(gated),
    }  # fmt: skip


def behind(
    messages: Sequence[Message], call: ToolCall, guarded: Set[str] | None = None
) -> tuple[str, str] | None:
    """The thought behind a call that waits, as a call of one of the guarded tools where these are
    given: then nothing that it has not read may stand before it in its own reply.
    """
    turn = split(messages)[-1]
    at, done = last_reply_at(turn), answered(turn)
    found = covering(turn, call, at, done)
    beside = {item.call.name for item in done if item.reply_at == at} - {"think"}
    if guarded is not None and found and found[1] != "carried" and not beside <= guarded:
        return None
    return found

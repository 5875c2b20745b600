"""The facts of a turn by their definitions: the slow oracle for `Turn`. Each fact is read from the
list again. No code is shared with `turn.py`, and nothing is kept between two facts.

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
from itertools import pairwise, takewhile
from typing import Any

from tests.support.oracle import argument, is_question, of_type, says_continue
from think_agent import Force, Message, Usage
from think_agent.messages import (
    Assistant,
    Checked,
    Ended,
    Paused,
    Started,
    ToolCall,
    ToolResult,
    User,
    Verdict,
)

UNUSABLE = ("max_tokens", "pause_turn", "incomplete", "refusal", "malformed")


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
        words = isinstance(self.call.arguments, dict) and says_something(text(self.call))
        return self.is_thought and words and self.reply.stop_reason not in UNUSABLE

    @property
    def ran(self) -> bool:
        return not self.thinks and not self.result.refused

    @property
    def gated(self) -> bool:
        return self.refused == "gate"

    @property
    def refused(self) -> str:
        """The code by which an action was refused; empty for a thought, and for one that ran."""
        return "" if self.thinks else self.result.refused


def text(call: ToolCall) -> str:
    said = call.arguments
    return said if isinstance(said, str) else str(said.get("thought", ""))


def says_something(text: str) -> bool:
    """A letter or a number that can be seen."""
    seen = (c for c in text if "FILLER" not in unicodedata.name(c, ""))
    return any(unicodedata.category(c)[0] in "LN" for c in seen)


def own(call: ToolCall) -> str:
    value = argument(call, "thought")
    carried = isinstance(value, str) and call.name != "think" and says_something(value)
    return value.strip() if carried else ""


def bare(call: ToolCall) -> dict[str, Any] | str:
    """The arguments as they are run: without a thought that is carried in them."""
    if isinstance(call.arguments, str) or call.name == "think":
        return call.arguments
    return {name: value for name, value in call.arguments.items() if name != "thought"}


def split(messages: Sequence[Message]) -> list[list[Message]]:
    """The turns, each a list of its own."""
    starts = [i for i, m in enumerate(messages) if is_question(m, "person") and i]
    bounds = pairwise([0, *starts, len(messages)])
    return [list(messages[start:end]) for start, end in bounds if start < end]


def replies(turn: Sequence[Message]) -> list[Assistant]:
    return of_type(Assistant, turn)


def matched(turn: Sequence[Message]) -> tuple[list[Answered], list[ToolCall]]:
    """The calls with results, in the order of the results, and the open calls of the last reply."""
    found: list[Answered] = []
    waiting: list[ToolCall] = []
    for place, message in enumerate(turn):
        if isinstance(message, Assistant):
            reply, reply_at, waiting = message, place, list(message.tool_calls)
            continue
        open_ones = [i for i, c in enumerate(waiting) if c.id == getattr(message, "call_id", None)]
        if isinstance(message, ToolResult) and open_ones:
            call = waiting.pop(open_ones[0])
            found.append(Answered(call, message, reply, reply_at, place))
    return found, waiting


def answered(turn: Sequence[Message]) -> list[Answered]:
    return matched(turn)[0]


def waiting(turn: Sequence[Message]) -> list[ToolCall]:
    return matched(turn)[1]


def last_reply_at(turn: Sequence[Message]) -> int:
    return max((i for i, m in enumerate(turn) if isinstance(m, Assistant)), default=0)


def closes(reply: Assistant | None) -> bool:
    """Was it asked as a closing reply?"""
    return reply is not None and reply.tool_choice == "none"


def signaled(turn: Sequence[Message]) -> bool | None:
    """What the last thought said, if no action came after it and no call beside it was refused."""
    done = answered(turn)
    thoughts = [item for item in done if item.is_thought]
    if not thoughts:
        return None
    last = thoughts[-1]
    refused = [item.reply_at for item in done if item.result.refused]
    since = [*refused, *(place - 1 for place in acting_replies(turn))]
    return None if max(since, default=-1) >= last.reply_at else says_continue(last.call)


def says_done(turn: Sequence[Message], last: Message | None) -> bool:
    if waiting(turn) or not isinstance(last, ToolResult):
        return False
    return signaled(turn) is False


def asks_to_close(reply: Assistant | None, last: Message | None) -> bool:
    if not isinstance(last, User):
        return False
    if last.kind in ("limit", "budget", "answer"):
        return True
    return closes(reply) and last.kind != "policy"


def limit(turn: Sequence[Message]) -> str | None:
    named = [kind for kind in ("limit", "budget") if any(is_question(m, kind) for m in turn)]
    return named[0] if named else None


def way_out(turn: Sequence[Message], reply: Assistant | None) -> str:
    if limit(turn):
        return str(limit(turn))
    if closes(reply) and signaled(turn) is False:
        return "signal"
    return "silence"


def question_of(turn: Sequence[Message]) -> User | None:
    """The message that the last reply answers."""
    spoken = (User, Assistant, ToolResult)
    if not replies(turn):
        return None
    before = of_type(spoken, turn[: last_reply_at(turn)])
    return before[-1] if before and isinstance(before[-1], User) else None


def acting_replies(turn: Sequence[Message]) -> list[int]:
    """The places of the replies that call a tool, other than closing replies."""
    places = []
    for place, message in enumerate(turn):
        if not isinstance(message, Assistant) or closes(message):
            continue
        if any(call.name != "think" for call in message.tool_calls):
            places.append(place)
    return places


def notes(turn: Sequence[Message]) -> list[Started | Verdict]:
    """The notes about the next call, since the last result or reply."""
    open_calls = waiting(turn)
    done = [item.place for item in answered(turn)]
    since = max([last_reply_at(turn), *done])
    if not open_calls:
        return []
    about = open_calls[0].id
    return [m for m in turn[since:] if isinstance(m, (Started, Verdict)) and m.call_id == about]


def decided(turn: Sequence[Message], call: ToolCall) -> object:
    """The arguments of the next call: those to which a person said yes last, if there are any."""
    verdicts = of_type(Verdict, notes(turn))
    arguments = verdicts[-1].arguments if verdicts else None
    if arguments is None:
        return bare(call)
    return arguments


@dataclass
class Tried:
    """A call that may have happened: its first try as it ran and as it was written."""

    name: str
    ran: object
    written: object
    key: str
    same: str
    starts: int = 0
    turn: int = 0

    def is_about(self, written: ToolCall, same: str) -> bool:
        if written.name != self.name:
            return False
        return bare(written) == self.written or bool(same and same == self.same)


def tried(messages: Sequence[Message]) -> tuple[list[Tried], Tried | None]:
    """Which calls may have happened, and the one that was started last, if it is one of them."""
    found: list[Tried] = []
    running = None
    number = 0
    for part in split(messages):
        number += is_question(part[0], "person")
        done = {item.place: item for item in answered(part)}
        for place, message in enumerate(part):
            before = part[:place]
            said = notes(before)
            if isinstance(message, Started) and waiting(before)[:1]:
                call = waiting(before)[0]
                if message.call_id != call.id:
                    continue
                ran = message.arguments if message.arguments is not None else decided(before, call)
                is_new = bool(said) and isinstance(said[-1], Verdict) and said[-1].new
                about = [one for one in found if one.is_about(call, message.same)]
                if is_new or not about:
                    about = [Tried(call.name, ran, bare(call), message.key, message.same)]
                    found += about
                running = about[-1]
                running.starts += 1
                running.turn = number
            if place not in done or done[place].thinks or running is None or message.in_doubt:
                continue
            if not any(isinstance(note, Started) for note in said):
                continue
            if not message.is_error:
                running.starts = 0
            elif message.refused in ("", "invalid"):
                running.starts -= 1
            if not running.starts:
                found = [other for other in found if other is not running]
                running = None
    return found, running


def covering(
    turn: Sequence[Message], call: ToolCall, reply_at: int, before: Sequence[Answered]
) -> tuple[str, str] | None:
    """The thought that covers a call if every tool is guarded, and how it came about."""
    if own(call):
        return own(call), "carried"
    thoughts = [i for i, item in enumerate(before) if item.covers]
    if not thoughts or any(
        may_have_run(turn, item) and item.reply_at != reply_at
        for item in before[thoughts[-1] + 1 :]
    ):
        return None
    last = before[thoughts[-1]]
    return text(last.call), how(last, before[: thoughts[-1]])


def may_have_run(turn: Sequence[Message], item: Answered) -> bool:
    """Did this action run, or was it at least started? Its result says so."""
    return item.ran or (not item.thinks and item.result.in_doubt)


def how(item: Answered, before: Sequence[Answered]) -> str:
    if any(other.gated for other in takewhile(lambda other: not other.covers, reversed(before))):
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


def stamp(message: Message) -> float | None:
    try:
        return datetime.fromisoformat(message.at or "").timestamp()
    except ValueError:
        return None


def times(turn: Sequence[Message]) -> list[tuple[float, float]]:
    """The time of each message with a time stamp, and the seconds of work until then. Waiting for a
    person is no work. If the clock steps back, that is not counted.
    """
    stamped = [(at, isinstance(m, Verdict)) for m in turn if (at := stamp(m)) is not None]
    worked = [0.0]
    for (before, _), (now, waited) in pairwise(stamped):
        worked.append(0.0 if waited else max(0.0, now - before))
    ends = range(1, len(stamped) + 1)
    return [(stamped[end - 1][0], sum(worked[:end])) for end in ends]


def in_a_row(items: Sequence[bool]) -> int:
    """How many of the last are true."""
    return len(list(takewhile(bool, reversed(items))))


def since_last(turn: Sequence[Message], *kinds: type) -> list[Message]:
    """The messages after the last one of these kinds."""
    return list(takewhile(lambda m: not isinstance(m, kinds), reversed(turn)))[::-1]


def misses(turn: Sequence[Message]) -> int:
    """How many of the last replies brought nothing, since a person last said to go on."""
    judged: list[bool] = []
    places = [place for place, message in enumerate(turn) if isinstance(message, Assistant)]
    for start, end in pairwise([*places, len(turn)]):
        goes_on = [place for place in range(start, end) if is_go_on(turn[place])]
        if goes_on:
            judged = []
        brought = brought_something(turn, start, max([start, *goes_on]))
        if brought is not None:
            judged.append(not brought)
    return in_a_row(judged)


def is_go_on(message: Message) -> bool:
    return isinstance(message, Verdict) and not message.call_id


def brought_something(turn: Sequence[Message], reply_at: int, since: int) -> bool | None:
    """Did a reply bring something? Failures count that came after `since`. None: it is left out,
    because it only thinks, or because a person or a limit refused its calls.
    """
    reply = turn[reply_at]
    assert isinstance(reply, Assistant)
    judged = judged_calls(turn, reply_at)
    failed = [item.place for item in judged if item.result.is_error]
    if len(failed) < len(judged):
        return True
    if reply.stop_reason == "malformed":
        failed.append(reply_at + 1)
    if failed:
        return False if max(failed) > since else None
    return None if reply.tool_calls else True


def judged_calls(turn: Sequence[Message], reply_at: int) -> list[Answered]:
    judged = []
    for item in answered(turn):
        is_about_reply = item.reply_at == reply_at and not item.thinks
        if is_about_reply and item.refused not in ("person", "limit", "failed"):
            judged.append(item)
    return judged


def checks_since(turn: Sequence[Message]) -> dict[str, Checked]:
    """What each check found since the last action ran."""
    ran = [item.place for item in answered(turn) if item.ran]
    since = ran[-1] if ran else 0
    return {check.name: check for check in of_type(Checked, turn[since:])}


def told_missing(turn: Sequence[Message]) -> bool:
    ran = [item.place for item in answered(turn) if item.ran]
    since = ran[-1] if ran else 0
    return any(is_question(m, "check") for m in turn[since:])


def answer(turn: Sequence[Message]) -> str:
    """The answer of a turn that has ended: that of its end, or else the last reply, if it is one
    that can be read.
    """
    if turn and isinstance(turn[-1], Ended) and turn[-1].answer:
        return turn[-1].answer
    last = [one for one in replies(turn)[-1:] if one.stop_reason != "malformed"]
    texts = [one.text or one.commentary for one in last]
    return texts[0] if texts and texts[0].strip() else ""


def pointed_out(turn: Sequence[Message]) -> dict[tuple[str, str, str], int]:
    found = {}
    for place, message in enumerate(turn):
        if is_question(message, "repeat"):
            done = [("", "", ""), *map(what, actions(turn[:place]))]
            found[done[-1]] = done[1:].count(done[-1])
    return found


def ignored_in_a_row(everything: Sequence[Assistant]) -> int:
    """How many of the last replies of the last host ignored a choice, since one was honored."""
    count = 0
    for reply in reversed(everything):
        is_forced = reply.tool_choice not in ("auto", "none")
        if reply.host != everything[-1].host:
            break
        if is_forced and reply.enforced in ("schema", "tool_choice"):
            break
        count += is_forced and reply.enforced == "ignored"
    return count


def facts(messages: Sequence[Message]) -> dict[str, Any]:
    """Every public fact of `Turn.of(messages)`, by name."""
    turn = split(messages)[-1] if messages else []
    said, everything = replies(turn), replies(messages)
    done, did = answered(turn), actions(turn)
    spoken = of_type((User, Assistant, ToolResult), messages)
    usable = [one for one in said if one.stop_reason not in UNUSABLE and one.tool_calls]
    verdicts = of_type(Verdict, turn)
    stops = [m for m in verdicts if m.decision == "quit" or (m.decision == "no" and not m.call_id)]
    thinking_last = [item.is_thought for item in done if item.is_thought or not item.thinks]
    forced = [one for one in everything if one.tool_choice not in ("auto", "none")]
    ignoring = [one for one in forced if one.enforced == "ignored"]
    noted = notes(turn)
    signed_at = [i for i, m in enumerate(messages) if isinstance(m, Assistant) and m.signed]
    signed = 0
    if signed_at:  # messages before the first person's message are a turn, too
        signed = max(1, sum(is_question(m, "person") for m in messages[: signed_at[0]]))
    checked = checks_since(turn)
    worked = times(turn)
    latest = said[-1] if said else None
    last = next((m for m in reversed(turn) if m in spoken), None)
    return {
        "spoken": spoken,
        "ids": {call.id for one in everything for call in one.tool_calls},
        "starts": [i for i, m in enumerate(spoken) if is_question(m, "person")],
        "signed": signed,
        "ignored": ignored_in_a_row(everything),
        "ignored_by": ignoring[-1].host if ignoring else "",
        "request": turn[0] if turn and is_question(turn[0], "person") else None,
        "last": last,
        "reply": latest,
        "reply_to": question_of(turn),
        "signal": signaled(turn),
        "refused": any(i.result.refused for i in done if i.reply_at == last_reply_at(turn)),
        "says_done": says_done(turn, last),
        "is_closing_reply": closes(latest),
        "asks_to_close": asks_to_close(latest, last),
        "limit": limit(turn),
        "way_out": way_out(turn, latest),
        "pending": waiting(turn),
        "edits": sum(isinstance(note, Verdict) and note.edited for note in noted),
        "started": ([None] + [m for m in noted if isinstance(m, Started)])[-1],
        "verdict": ([None] + [m for m in noted if isinstance(m, Verdict)])[-1],
        "unused_verdict": noted[-1] if noted and isinstance(noted[-1], Verdict) else None,
        "ended": turn[-1] if turn and isinstance(turn[-1], Ended) else None,
        "paused": turn[-1] if turn and isinstance(turn[-1], Paused) else None,
        "answer": answer(turn),
        "last_words": answer([m for m in turn if not isinstance(m, Ended)]),
        "checks": (
            [m for m in turn if isinstance(m, Checked)],
            checked,
            [m for m in checked.values() if m.missing is not None],
            told_missing(turn),
        ),
        "doubts": tried(messages)[0],
        "running": tried(messages)[1],
        "sources": {
            str(item.result.number): not item.result.is_error
            for part in split(messages)
            for item in answered(part)
            if item.result.number and not item.thinks
        },
        "stop": stops[0] if stops else None,
        "replies": said,
        "thoughts": [
            (text(item.call), how(item, done[:i]), says_continue(item.call))
            if item.is_thought
            else (own(item.call), "carried", None)
            for i, item in enumerate(done)
            if item.is_thought or own(item.call)
        ],
        "actions": did,
        "asked": Counter(m.kind for m in turn if isinstance(m, User) and m.kind != "person"),
        "usage": sum((one.usage for one in said), Usage()),
        "tokens": sum(one.usage.input_tokens + one.usage.output_tokens for one in said),
        "usage_of": {
            name: sum((one.usage for one in said if one.model == name), Usage())
            for name in {one.model for one in said}
        },
        "clock": worked[-1][0] if worked else None,
        "seconds": worked[-1][1] if worked else 0.0,
        "thoughts_in_a_row": in_a_row(
            [all(call.name == "think" for call in one.tool_calls) for one in usable]
        ),
        "misses": misses(turn),
        "thought_required": thinking_last[-1:] != [True],
        "repeats": (
            what(did[-1]) if did else ("", "", ""),
            in_a_row([what(action) == what(did[-1]) for action in did]),
            Counter(map(what, did)),
            pointed_out(turn),
        ),
    }


def behind(
    messages: Sequence[Message], call: ToolCall, guarded: Set[str] | None = None
) -> tuple[str, str] | None:
    """The thought that covers a call without a result. If `guarded` is given, no unguarded tool may
    be called before it in the same reply.
    """
    turn = split(messages)[-1]
    at, done = last_reply_at(turn), answered(turn)
    found = covering(turn, call, at, done)
    beside = {item.call.name for item in done if item.reply_at == at} - {"think"}
    if guarded is not None and found and found[1] != "carried" and not beside <= guarded:
        return None
    return found

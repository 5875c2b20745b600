"""What a transcript says, by the definitions. `Turn` and `History` must agree with these facts, and
`rules.py` judges by them. Each fact is read from the whole list; nothing is counted from message to
message.

Rule 1: a result answers the first call of its id that is still open in the last reply before it
        (`messages.py`, rule 5), and a call happened when it was answered.
Rule 2: what is unclear in a list that no run would write is decided by rule 1, in list order.
"""

import json
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from itertools import pairwise, takewhile
from math import inf
from typing import Any, TypeVar

from think_agent.messages import (
    Assistant,
    Checked,
    Ended,
    Force,
    Message,
    Paused,
    Started,
    ToolCall,
    ToolResult,
    Usage,
    User,
    Verdict,
)

WHOLE = ("end_turn", "tool_use", "stop_sequence")
THINK = Force("think")


# What a message says.


Said = TypeVar("Said")


def of_type(kind: type[Said], messages: Iterable[object]) -> list[Said]:
    """Those messages, in order. `kind` may be several types in a tuple."""
    return [message for message in messages if isinstance(message, kind)]


def last_of(kind: type[Said], messages: Iterable[object]) -> Said | None:
    """The last one of those messages."""
    found = of_type(kind, messages)
    if found:
        return found[-1]
    return None


def is_question(message: Message, *kinds: str) -> bool:
    return isinstance(message, User) and message.kind in kinds


def call_id_of(message: Message) -> str | None:
    if isinstance(message, (ToolResult, Started, Verdict)):
        return message.call_id or None
    return None


def time_of(message: Message) -> float | None:
    try:
        return datetime.fromisoformat(message.at or "").timestamp()
    except ValueError:
        return None


def is_go_on(message: Message) -> bool:
    """Does a person say whether the run goes on?"""
    return isinstance(message, Verdict) and not message.call_id


def is_stop(message: Message) -> bool:
    """Does a person end the turn? A "no" to going on does, a "no" to a call does not."""
    if not isinstance(message, Verdict):
        return False
    return message.decision == "quit" or (message.decision == "no" and not message.call_id)


def says_continue(call: ToolCall) -> bool | None:
    """The exit signal: a bool, or text in any case. None: it cannot be read."""
    text = str(argument(call, "should_continue")).strip().lower()
    return {"true": True, "false": False, "cannot": "cannot"}.get(text)


def argument(call: ToolCall, name: str) -> Any:
    if isinstance(call.arguments, dict):
        return call.arguments.get(name)
    return None


def is_blank(text: object) -> bool:
    """Is there no letter and no number that can be seen?"""
    seen = (c for c in str(text or "") if "FILLER" not in unicodedata.name(c, ""))
    return all(unicodedata.category(c)[0] not in "LN" for c in seen)


def read_carried(call: ToolCall) -> str:
    """The thought that a call carries."""
    value = argument(call, "thought")
    if call.name == "think" or not isinstance(value, str) or is_blank(value):
        return ""
    return value.strip()


def without_thought(call: ToolCall) -> dict[str, Any] | str:
    """The arguments as they are run: without a thought that is carried in them."""
    if isinstance(call.arguments, str) or call.name == "think":
        return call.arguments
    return {name: value for name, value in call.arguments.items() if name != "thought"}


NO_NOTES = {"should_continue", "missing"}  # arguments of a think call


# What a turn says.


@dataclass
class OracleCall:
    """A call of a model, and its result."""

    tool_call: ToolCall
    reply: Assistant
    reply_at: int
    notes: list[Started | Verdict] = field(default_factory=list)
    result: ToolResult | None = None
    at: float = inf  # the place of its result

    @property
    def is_action(self) -> bool:
        return self.tool_call.name != "think"

    @property
    def refused(self) -> str:
        """The code of the refusal, of an action or a thought."""
        if self.result:
            return self.result.refused
        return ""

    @property
    def failed(self) -> bool:
        return self.result is not None and self.result.is_error

    @property
    def ran(self) -> bool:
        return self.is_action and self.result is not None and not self.refused

    @property
    def starts(self) -> list[Started]:
        return of_type(Started, self.notes)

    @property
    def verdicts(self) -> list[Verdict]:
        return of_type(Verdict, self.notes)

    @property
    def decision(self) -> str:
        """What a person said last about it; empty if no person did."""
        return ["", *[verdict.decision for verdict in self.verdicts]][-1]

    @property
    def is_thought(self) -> bool:
        return not self.is_action and self.result is not None and not self.refused

    @property
    def text(self) -> str:
        """The text of a thought."""
        if isinstance(self.tool_call.arguments, str):
            return self.tool_call.arguments
        notes = [(n, v) for n, v in self.tool_call.arguments.items() if v and n not in NO_NOTES]
        if [name for name, _ in notes] == ["thought"]:
            return str(notes[0][1])
        return "\n".join(f"{name}: {value}" for name, value in notes)

    @property
    def has_notes(self) -> bool:
        """Does an argument hold a text, other than those that are no notes?"""
        arguments = self.tool_call.arguments if isinstance(self.tool_call.arguments, dict) else {}
        notes = set(arguments) - NO_NOTES
        return any(not is_blank(arguments[name]) for name in notes)

    @property
    def covers(self) -> bool:
        """Is it a thought that is not blank, in a reply that was neither malformed nor cut?"""
        is_whole = self.reply.stop_reason in WHOLE
        is_read = self.is_thought and not self.failed
        return (
            is_read and is_whole and isinstance(self.tool_call.arguments, dict) and self.has_notes
        )


@dataclass(frozen=True)
class OracleTurn:
    """The messages of a turn, and those before the turn."""

    messages: Sequence[Message]
    earlier: Sequence[Message]

    @cached_property
    def all_calls(self) -> list[OracleCall]:
        """Every call. A note is about the call that is next."""
        found: list[OracleCall] = []
        waiting: list[OracleCall] = []
        for place, message in enumerate(self.messages):
            if isinstance(message, Assistant):
                waiting = [OracleCall(call, message, place) for call in message.tool_calls]
                found += waiting
            about = [call for call in waiting if call.tool_call.id == call_id_of(message)][:1]
            for call in about:
                if not isinstance(message, ToolResult):
                    call.notes.append(message)  # type: ignore[arg-type]
                    continue
                call.result = message
                call.at = place
                waiting.remove(call)
        return found

    @cached_property
    def answered(self) -> list[OracleCall]:
        """The calls with results, in the order of the results."""
        return sorted([call for call in self.all_calls if call.result], key=lambda call: call.at)

    @property
    def ran(self) -> list[OracleCall]:
        return [call for call in self.answered if call.ran]

    @cached_property
    def thoughts(self) -> list[OracleCall]:
        return [call for call in self.answered if call.is_thought]

    @cached_property
    def replies(self) -> list[Assistant]:
        return of_type(Assistant, self.messages)

    @property
    def reply(self) -> Assistant | None:
        return last_of(Assistant, self.messages)

    @property
    def reply_places(self) -> list[int]:
        return [place for place, m in enumerate(self.messages) if isinstance(m, Assistant)]

    @cached_property
    def reply_at(self) -> int:
        return max(self.reply_places, default=0)

    @cached_property
    def calls(self) -> list[OracleCall]:
        """Those of the last reply."""
        return [call for call in self.all_calls if call.reply_at == self.reply_at]

    @property
    def open(self) -> list[OracleCall]:
        """The calls of the last reply without a result."""
        return [call for call in self.calls if call.result is None]

    @property
    def notes(self) -> list[Started | Verdict]:
        """The notes about the next call, since the last result or reply."""
        since = max([self.reply_at, *[int(call.at) for call in self.answered]])
        about = [call.tool_call.id for call in self.open[:1]]
        return [
            note
            for note in of_type((Started, Verdict), self.messages[since:])
            if note.call_id in about
        ]

    @property
    def last(self) -> User | Assistant | ToolResult | None:
        return last_of((User, Assistant, ToolResult), self.messages)

    @property
    def question(self) -> User | None:
        """The message that the last reply answers."""
        if self.reply is None:
            return None
        return last_of(User, [OracleTurn(self.messages[: self.reply_at], ()).last])

    @property
    def is_closing(self) -> bool:
        """Was the last reply asked as a closing one?"""
        return self.reply is not None and self.reply.tool_choice == "none"

    @property
    def since_action(self) -> Sequence[Message]:
        if self.ran:
            return self.messages[int(self.ran[-1].at) :]
        return self.messages

    @property
    def checked(self) -> dict[str, Checked]:
        """What each check found since the last action ran."""
        return {check.name: check for check in of_type(Checked, self.since_action)}

    @property
    def missing(self) -> list[Checked]:
        return [check for check in self.checked.values() if check.missing is not None]

    @property
    def signal(self) -> bool | None:
        """What the last thought said, if no action came after it and no call beside it was
        refused.
        """
        if not self.thoughts:
            return None
        last = self.thoughts[-1]
        acts = [
            call for call in self.all_calls if call.is_action and call.reply.tool_choice != "none"
        ]
        before_acting = [call.reply_at - 1 for call in acts]
        refused = [call.reply_at for call in self.answered if call.refused]
        if max([*before_acting, *refused], default=-1) >= last.reply_at:
            return None
        return says_continue(last.tool_call)

    @property
    def says_done(self) -> bool:
        """Does the last reply say that it is done? All of its calls are answered, none was refused,
        and its last thought said "false".
        """
        is_answered = isinstance(self.last, ToolResult) and not self.open
        return is_answered and self.signal is False

    @property
    def asks_to_close(self) -> bool:
        """Does the last message ask for a closing reply?"""
        if not isinstance(self.last, User):
            return False
        if self.last.kind in ("limit", "budget", "answer"):
            return True
        return self.is_closing and self.last.kind != "policy"

    @property
    def limit(self) -> str | None:
        named = {message.kind for message in of_type(User, self.messages)}
        for kind in ("limit", "budget"):
            if kind in named:
                return kind
        return None

    @property
    def way_out(self) -> str:
        if self.limit:
            return self.limit
        if self.is_closing and self.signal is False:
            return "signal"
        return "silence"

    @property
    def last_words(self) -> str:
        """The text of the last reply, if it can be read and is not beside calls that run."""
        if self.reply is None or self.reply.stop_reason == "malformed":
            return ""
        calls = self.reply.tool_calls
        if calls and self.reply.is_usable and self.reply.tool_choice != "none":
            leaves = self.reply.dialect and says_continue(calls[-1]) is False
            if not leaves or any(call.name != "think" for call in calls):
                return ""
        text = self.reply.text or self.reply.commentary
        return text if text.strip() else ""

    @property
    def answer(self) -> str:
        """The answer of a turn that has ended: that of its end, or else its last words."""
        ended = last_of(Ended, self.messages[-1:])
        if ended and ended.answer:
            return ended.answer
        return self.last_words

    @property
    def stamped(self) -> list[Message]:
        return [message for message in self.messages if time_of(message) is not None]

    @property
    def seconds(self) -> float:
        """Seconds of work. Waiting for a person is none, and a clock that steps back is none."""
        worked = 0.0
        latest = self.stamped[0] if self.stamped else None
        for message in self.stamped[1:]:
            if time_of(message) <= time_of(latest):
                continue
            if not isinstance(message, Verdict):
                worked += time_of(message) - time_of(latest)
            latest = message
        return worked

    @property
    def usage(self) -> Usage:
        return sum((reply.usage for reply in self.replies), Usage())

    @property
    def thoughts_in_a_row(self) -> int:
        """How many of the last replies only thought. Replies without calls do not count, and those
        that could not be read neither.
        """
        usable = [one for one in self.replies if one.stop_reason in WHOLE and one.tool_calls]
        return in_a_row([all(call.name == "think" for call in one.tool_calls) for one in usable])

    @property
    def misses(self) -> int:
        """How many of the last replies were unproductive, since a person last said to go on."""
        judged: list[bool] = []
        for start, end in pairwise([*self.reply_places, len(self.messages)]):
            goes_on = [place for place in range(start, end) if is_go_on(self.messages[place])]
            if goes_on:
                judged = []
            productive = self.was_productive(start, max([start, *goes_on]))
            if productive is not None:
                judged.append(not productive)
        return in_a_row(judged)

    def was_productive(self, reply_at: int, since: int) -> bool | None:
        """Was a reply productive? Failures after `since` count. None: it is left
        out, because it only thinks, or because a person or a limit refused its calls.
        """
        reply = self.messages[reply_at]
        actions = [call for call in self.answered if call.reply_at == reply_at and call.is_action]
        counted = [call for call in actions if call.refused not in ("person", "limit", "failed")]
        failed = [call.at for call in counted if call.failed]
        if len(failed) < len(counted):
            return True
        if reply.stop_reason == "malformed":
            failed.append(reply_at + 1)
        if max(failed, default=0) > since:
            return False
        return None if failed or reply.tool_calls else True

    @property
    def actions(self) -> list[tuple[Any, ...]]:
        """Name, arguments as run, result, thought and how of each."""
        rows = []
        for call in self.ran:
            before = [other for other in self.answered if other.at < call.at]
            thought = find_cover(call, before) or (None, None)
            changed = call.result.arguments
            arguments = without_thought(call.tool_call) if changed is None else changed
            rows.append((call.tool_call.name, arguments, call.result, *thought))
        return rows

    @property
    def pointed_out(self) -> dict[tuple[str, str, str], int]:
        found = {}
        for place, message in enumerate(self.messages):
            if is_question(message, "repeat"):
                done = [("", "", ""), *map(what, OracleTurn(self.messages[:place], ()).actions)]
                found[done[-1]] = done[1:].count(done[-1])
        return found


def turns_of(messages: Sequence[Message]) -> list[OracleTurn]:
    """The turns of a transcript, each as a whole. A person's message begins one."""
    starts = [place for place, m in enumerate(messages) if is_question(m, "person") and place]
    bounds = pairwise([0, *starts, len(messages)])
    return [OracleTurn(messages[start:end], messages[:start]) for start, end in bounds if end]


def split(messages: Sequence[Message]) -> list[list[Message]]:
    """The turns, each a list of its own."""
    return [list(turn.messages) for turn in turns_of(messages)]


def waiting(turn: Sequence[Message]) -> list[ToolCall]:
    """The open calls of the last reply."""
    return [call.tool_call for call in OracleTurn(turn, ()).open]


def in_a_row(items: Sequence[bool]) -> int:
    """How many of the last are true."""
    return len(list(takewhile(bool, reversed(items))))


def what(action: Sequence[Any]) -> tuple[str, str, str]:
    return action[0], json.dumps(action[1], sort_keys=True), action[2].content


# The thought behind a call.


def thought_behind(
    messages: Sequence[Message], call: ToolCall, guarded: Set[str] | None = None
) -> tuple[str, str] | None:
    """The thought that covers a call without a result. If `guarded` is given, no unguarded tool may
    be called before it in the same reply.
    """
    turn = turns_of(messages)[-1]
    found = find_cover(OracleCall(call, turn.reply, turn.reply_at), turn.answered)
    beside = {call.tool_call.name for call in turn.calls if call.result} - {"think"}
    if guarded is not None and found and found[1] != "carried" and not beside <= guarded:
        return None
    return found


def find_cover(call: OracleCall, before: Sequence[OracleCall]) -> tuple[str, str] | None:
    """The thought that covers a call if every tool is guarded, and how it came about. `before`: the
    calls that were answered before it.
    """
    if read_carried(call.tool_call):
        return read_carried(call.tool_call), "carried"
    thoughts = [place for place, call in enumerate(before) if call.covers]
    if not thoughts:
        return None
    since = before[thoughts[-1] + 1 :]
    if any(may_have_run(other) and other.reply_at != call.reply_at for other in since):
        return None
    last = before[thoughts[-1]]
    return last.text, how(last, before[: thoughts[-1]])


def may_have_run(call: OracleCall) -> bool:
    """Did this action run, or was it at least started? Its result says so."""
    return call.ran or (call.is_action and call.result.in_doubt)


def how(thought: OracleCall, before: Sequence[OracleCall]) -> str:
    since = takewhile(lambda call: not call.covers, reversed(before))
    if any(call.is_action and call.refused == "gate" for call in since):
        return "gated"
    reply = thought.reply
    if reply.enforced == "tool_choice" and reply.tool_choice == THINK:
        return "forced"
    asked = isinstance(reply.tool_choice, Force) or reply.tool_choice == "required"
    return "schema" if reply.enforced == "schema" and asked else "volunteered"


# Calls that may have happened.


@dataclass
class OracleDoubt:
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
        return without_thought(written) == self.written or bool(same and same == self.same)


def find_doubts(messages: Sequence[Message]) -> tuple[list[OracleDoubt], OracleDoubt | None]:
    """Which calls may have happened, and the one that was started last, if it is one of them."""
    found: list[OracleDoubt] = []
    running = None
    number = 0
    for turn in turns_of(messages):
        number += is_question(turn.messages[0], "person")
        done = {call.at: call for call in turn.answered if call.is_action}
        for place, message in enumerate(turn.messages):
            before = OracleTurn(turn.messages[:place], ())
            if isinstance(message, Started) and before.open:
                if message.call_id != before.open[0].tool_call.id:
                    continue
                running = first_try(message, before, found)
                running.starts += 1
                running.turn = number
            if place in done and running is not None and of_type(Started, before.notes):
                count_result(message, running)
                if not running.starts:
                    found = [other for other in found if other is not running]
                    running = None
    return found, running


def first_try(start: Started, before: "OracleTurn", found: list[OracleDoubt]) -> OracleDoubt:
    """The call of which this start is a try; a new one is added to `found`."""
    call = before.open[0].tool_call
    said = before.notes
    is_new = bool(said) and isinstance(said[-1], Verdict) and said[-1].new
    about = [one for one in found if one.is_about(call, start.same)]
    if about and not is_new:
        return about[-1]
    ran = as_started(start, said, call)
    found.append(OracleDoubt(call.name, ran, without_thought(call), start.key, start.same))
    return found[-1]


def count_result(result: ToolResult, running: OracleDoubt) -> None:
    """How many starts may have happened, after a result."""
    if result.in_doubt:
        return
    if not result.is_error:
        running.starts = 0
    elif result.refused in ("", "invalid"):
        running.starts -= 1


def as_started(start: Started, said: Sequence[Started | Verdict], call: ToolCall) -> object:
    """The arguments with which a call was started: those of the start, those to which a person said
    yes last, or its own.
    """
    verdict = last_of(Verdict, said)
    if start.arguments is not None:
        return start.arguments
    if verdict and verdict.arguments is not None:
        return verdict.arguments
    return without_thought(call)


# All facts.


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
    turn = turns_of(messages)[-1] if messages else OracleTurn([], [])
    said, everything = turn.replies, of_type(Assistant, messages)
    done, did = turn.answered, turn.actions
    spoken = of_type((User, Assistant, ToolResult), messages)
    counted = [call for call in done if call.is_thought or call.is_action]
    thinking_last = [call.is_thought and not call.failed for call in counted]
    forced = [one for one in everything if one.tool_choice not in ("auto", "none")]
    ignoring = [one for one in forced if one.enforced == "ignored"]
    signed_at = [i for i, m in enumerate(messages) if isinstance(m, Assistant) and m.signed]
    signed = 0
    if signed_at:  # messages before the first person's message are a turn, too
        signed = max(1, sum(is_question(m, "person") for m in messages[: signed_at[0]]))
    return {
        "spoken": spoken,
        "ids": {call.id for one in everything for call in one.tool_calls},
        "starts": [i for i, m in enumerate(spoken) if is_question(m, "person")],
        "signed": signed,
        "ignored": ignored_in_a_row(everything),
        "ignored_by": ignoring[-1].host if ignoring else "",
        "request": last_of(User, [m for m in turn.messages[:1] if is_question(m, "person")]),
        "last": turn.last,
        "reply": turn.reply,
        "reply_to": turn.question,
        "signal": turn.signal,
        "refused": any(call.refused for call in turn.calls),
        "is_answered": isinstance(turn.last, ToolResult) and not turn.open,
        "says_done": turn.says_done,
        "is_closing_reply": turn.is_closing,
        "asks_to_close": turn.asks_to_close,
        "limit": turn.limit,
        "way_out": turn.way_out,
        "pending": [call.tool_call for call in turn.open],
        "edits": sum(note.edited for note in of_type(Verdict, turn.notes)),
        "started": last_of(Started, turn.notes),
        "verdict": last_of(Verdict, turn.notes),
        "unused_verdict": last_of(Verdict, turn.notes[-1:]),
        "ended": last_of(Ended, turn.messages[-1:]),
        "paused": last_of(Paused, turn.messages[-1:]),
        "answer": turn.answer,
        "last_words": turn.last_words,
        "checks": (
            of_type(Checked, turn.messages),
            turn.checked,
            turn.missing,
            any(is_question(m, "check") for m in turn.since_action),
        ),
        "doubts": find_doubts(messages)[0],
        "running": find_doubts(messages)[1],
        "sources": {
            str(call.result.number): not call.failed
            for part in turns_of(messages)
            for call in part.answered
            if call.result.number and call.is_action
        },
        "stop": next((message for message in turn.messages if is_stop(message)), None),
        "replies": said,
        "thoughts": [
            (call.text, how(call, done[:i]), says_continue(call.tool_call))
            if call.is_thought
            else (read_carried(call.tool_call), "carried", None)
            for i, call in enumerate(done)
            if call.is_thought or read_carried(call.tool_call)
        ],
        "actions": did,
        "asked": Counter(m.kind for m in of_type(User, turn.messages) if m.kind != "person"),
        "usage": turn.usage,
        "tokens": turn.usage.input_tokens + turn.usage.output_tokens,
        "usage_of": {
            name: sum((one.usage for one in said if one.model == name), Usage())
            for name in {one.model for one in said}
        },
        "clock": max(map(time_of, turn.stamped), default=None),
        "seconds": turn.seconds,
        "thoughts_in_a_row": turn.thoughts_in_a_row,
        "misses": turn.misses,
        "thought_required": thinking_last[-1:] != [True],
        "repeats": (
            what(did[-1]) if did else ("", "", ""),
            {
                what(one): [n for n, other in enumerate(did) if what(other) == what(one)]
                for one in did
            },
            turn.pointed_out,
        ),
    }

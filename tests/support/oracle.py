"""The rules of a run, judged on its raw messages: an oracle that shares no code with the kit.

Rule 1: it is written from the design of the loop, a section at a time. It knows no `Turn`, no
        policy and no plan. It reads the messages of a turn again for each rule.
Rule 2: a rule is a function `(turn) -> complaints`. It judges a finished turn, a paused one and one
        that was stopped at any message.
Rule 3: where the design leaves two readings, both are lawful here, and a comment says so.

Limitations: every tool takes one integer `n`, and tools, checks and settings are those of `Rules`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from itertools import pairwise
from math import inf
from typing import Any

from think_agent.messages import (
    Assistant,
    Checked,
    Ended,
    Force,
    Message,
    Started,
    ToolCall,
    ToolResult,
    User,
    Verdict,
)

WHOLE = ("end_turn", "tool_use", "stop_sequence")
CLOSE = ("limit", "budget")
RECORDED = "Thought recorded."
FEWEST_TOKENS = 200  # with money for fewer, the turn closes
Complaints = Iterator[tuple[int, str]]  # the place of a message, and what is wrong with it


@dataclass(frozen=True)
class Kind:
    """What a tool is. `needs_yes`: is a person asked about this `n`? A bool, or a function."""

    read_only: bool = False
    idempotent: bool = False
    keyed: bool = False
    guarded: bool = False
    needs_yes: Callable[[int], bool] | bool = False

    @property
    def changes(self) -> bool:
        """Is each call started once only?"""
        return not self.read_only and not self.idempotent


@dataclass(frozen=True)
class Rules:
    """The settings of an agent, as its user gave them. `edited`: the `n` that a policy of the user
    makes of another. `refuses`: the calls that such a policy refuses, with its own code `rule`.
    """

    tools: Mapping[str, Kind]
    checks: tuple[str, ...] = ()
    can_ask: bool = False
    force: str = "first"
    silence: str = "confirm"
    signals: bool = True  # has the think tool an exit signal?
    thinks: bool = True  # is there a think tool?
    dialect: str = "native"
    max_model_calls: float = 30
    max_actions: float = inf
    max_tokens: float = inf
    max_seconds: float = inf
    max_cost: float = inf
    input_price: float = 0.0  # for one token
    output_price: float = 0.0
    patience: float = 3
    max_thoughts_in_a_row: float = 3
    max_repeats: float = 3
    fail_fast: bool = False
    edited: Mapping[int, int] = field(default_factory=dict)
    speaks: bool = False  # does a policy of the user ask the model something, or end the turn?


@dataclass(frozen=True)
class Made:
    """A call that a model made, and what came of it until the end of the turn."""

    call: ToolCall
    reply: Assistant
    reply_at: int
    notes: tuple[tuple[int, Started | Verdict], ...]
    result: ToolResult | None
    at: int  # the place of its result; after the end if it has none

    @property
    def thinks(self) -> bool:
        return self.call.name == "think"

    @property
    def is_action(self) -> bool:
        return not self.thinks

    @property
    def ran(self) -> bool:
        return self.is_action and self.result is not None and not self.result.refused

    @property
    def starts(self) -> list[int]:
        return [place for place, note in self.notes if isinstance(note, Started)]

    @property
    def verdicts(self) -> list[Verdict]:
        return [note for _, note in self.notes if isinstance(note, Verdict)]

    @property
    def decided_at(self) -> int:
        """Where it was decided that it runs: at its last start, or at its result."""
        return self.starts[-1] if self.starts else self.at

    def verdict(self, before: float = inf) -> Verdict | None:
        """The last decision of a person about it."""
        found = [n for place, n in self.notes if isinstance(n, Verdict) and place < before]
        return found[-1] if found else None


@dataclass(frozen=True)
class Turn:
    """The messages of one turn, and those before it."""

    said: Sequence[Message]
    earlier: Sequence[Message]
    rules: Rules

    @cached_property
    def made(self) -> list[Made]:
        """Every call of the turn, in order. A result answers the first open call of its id in the
        last reply. A note is about the first open call.
        """
        return _made(self.said)

    @cached_property
    def replies(self) -> list[tuple[int, Assistant]]:
        return [(place, m) for place, m in enumerate(self.said) if isinstance(m, Assistant)]

    def last_reply(self, before: int) -> tuple[int, Assistant] | None:
        found = [(place, reply) for place, reply in self.replies if place < before]
        return found[-1] if found else None

    def calls_of(self, reply_at: int) -> list[Made]:
        return [made for made in self.made if made.reply_at == reply_at]

    def waiting(self, before: int) -> list[Made]:
        """The calls of the last reply that have to be answered, and are not yet."""
        last = self.last_reply(before)
        if last is None or not is_ordinary(last[1]):
            return []
        return [made for made in self.calls_of(last[0]) if made.at >= before]

    def ran(self, before: int) -> list[Made]:
        return [made for made in self.made if made.ran and made.at < before]

    def thoughts(self, before: int) -> list[Made]:
        found = [made for made in self.made if made.thinks and made.at < before]
        return [made for made in found if made.result and not made.result.is_error]

    def questions(self, before: int) -> list[tuple[int, User]]:
        """The messages in the user's role since the last reply."""
        last = self.last_reply(before)
        start = last[0] if last else 0
        between = enumerate(self.said[start:before], start)
        return [(place, m) for place, m in between if isinstance(m, User)]

    def asked(self, kind: str, before: int) -> list[int]:
        """Where the kit asked something of this kind."""
        between = enumerate(self.said[:before])
        return [place for place, m in between if isinstance(m, User) and m.kind == kind]

    def named_limit(self, before: int) -> str:
        """The limit that the model was told of; empty if none."""
        between = self.said[:before]
        kinds = [m.kind for m in between if isinstance(m, User) and m.kind in CLOSE]
        return kinds[-1] if kinds else ""

    def signaled(self, before: int) -> bool:
        """§5.1.3: does the last reply say that it is done? All of its calls are answered, its last
        thought said "false", and none was refused.
        """
        last = self.last_reply(before)
        if last is None or not is_ordinary(last[1]) or self.waiting(before):
            return False
        calls = self.calls_of(last[0])
        if any(made.result and made.result.refused for made in calls):
            return False
        thoughts = [made for made in self.thoughts(before) if made.reply_at == last[0]]
        return bool(thoughts) and says_continue(thoughts[-1].call) is False

    def stopped_talking(self, before: int) -> bool:
        """§5.1.4: does the last reply call no tool, and say something?"""
        last = self.last_reply(before)
        return self.called_nothing(before) and last is not None and bool(last[1].words)

    def called_nothing(self, before: int) -> bool:
        last = self.last_reply(before)
        return last is not None and is_ordinary(last[1]) and not last[1].tool_calls

    def answered_its_silence(self, before: int) -> bool:
        """Was the last reply, without a call, the one to the question about its silence? It may be
        empty: "your text above is the answer".
        """
        return self.called_nothing(before) and self.replied_to(before) == "silence"

    def replied_to(self, before: int) -> str:
        """The kind of the message that the last reply is the answer to."""
        last = self.last_reply(before)
        questions = self.questions(last[0]) if last else []
        return questions[-1][1].kind if questions else ""

    def missing(self, before: int) -> list[Checked] | None:
        """§5.6: what is missing since the last action ran; None if not every check has run."""
        ran = self.ran(before)
        since = ran[-1].at if ran else 0
        between = self.said[since:before]
        found = {m.name: m for m in between if isinstance(m, Checked)}
        if found.keys() != {*self.rules.checks}:
            return None
        return [check for check in found.values() if check.missing is not None]

    def seconds(self, before: int) -> float:
        """Seconds of work. Waiting for a person is none, and a clock that steps back is none."""
        worked, last = 0.0, None
        for message in self.said[:before]:
            if message.at is None:
                continue
            now = datetime.fromisoformat(message.at).timestamp()
            if last is not None and not isinstance(message, Verdict):
                worked += max(0.0, now - last)
            last = now
        return worked

    def tokens(self, before: int) -> int:
        used = [reply.usage for place, reply in self.replies if place < before]
        return sum(usage.input_tokens + usage.output_tokens for usage in used)

    def cost(self, before: int) -> float:
        used = [reply.usage for place, reply in self.replies if place < before]
        read = sum(usage.input_tokens for usage in used) * self.rules.input_price
        return read + sum(usage.output_tokens for usage in used) * self.rules.output_price


# What a message says.


def turns(messages: Sequence[Message], rules: Rules) -> list[Turn]:
    """The turns of a transcript. A person's message begins one."""
    starts = [place for place, m in enumerate(messages) if is_from_a_person(m)]
    parts = pairwise([*starts, len(messages)])
    return [Turn(messages[start:end], messages[:start], rules) for start, end in parts]


def is_from_a_person(message: Message) -> bool:
    return isinstance(message, User) and message.kind == "person"


def is_of_the_kit(message: Message) -> bool:
    return isinstance(message, User) and message.kind != "person"


def is_pause(message: Message) -> bool:
    return type(message).__name__ == "Paused"


def is_ordinary(reply: Assistant) -> bool:
    """Do the calls of this reply run? It is whole, and was not asked as a closing one (§5.1.5)."""
    return reply.stop_reason in WHOLE and reply.tool_choice != "none"


def says_continue(call: ToolCall) -> bool | None:
    """The exit signal: a bool, or text in any case. None: it cannot be read."""
    value = argument(call, "should_continue")
    if isinstance(value, bool):
        return value
    text = value.strip().lower() if isinstance(value, str) else ""
    return {"true": True, "false": False}.get(text)


def argument(call: ToolCall, name: str) -> Any:
    return call.arguments.get(name) if isinstance(call.arguments, dict) else None


def is_blank(text: object) -> bool:
    return not any(char.isalnum() for char in str(text or ""))


def carries_a_thought(call: ToolCall) -> bool:
    return call.name != "think" and not is_blank(argument(call, "thought"))


def number(arguments: object) -> int | None:
    """The `n` that a tool would get of these arguments; None if they do not fit it."""
    if not isinstance(arguments, dict):
        return None
    given = {name: value for name, value in arguments.items() if name != "thought"}
    if given.keys() != {"n"}:
        return None
    try:
        return int(given["n"])
    except (TypeError, ValueError):
        return None


def needs_yes(kind: Kind, n: int) -> bool:
    """A predicate that raises means yes (§5.4)."""
    if isinstance(kind.needs_yes, bool):
        return kind.needs_yes
    try:
        return bool(kind.needs_yes(n))
    except Exception:
        return True


def _made(said: Sequence[Message]) -> list[Made]:
    found: list[dict[str, Any]] = []
    waiting: list[dict[str, Any]] = []
    for place, message in enumerate(said):
        match message:
            case Assistant():
                waiting = []
                for call in message.tool_calls:
                    made = {"call": call, "reply": message, "reply_at": place, "notes": ()}
                    waiting.append({**made, "result": None, "at": len(said)})
                found += waiting
            case ToolResult():
                answered = [made for made in waiting if made["call"].id == message.call_id][:1]
                for made in answered:
                    made.update(result=message, at=place)
                waiting = [made for made in waiting if made not in answered]
            case Started() | Verdict() if waiting and message.call_id == waiting[0]["call"].id:
                waiting[0]["notes"] += ((place, message),)
    return [Made(**made) for made in found]


# §5.1 Steps.


def answers_in_order(turn: Turn) -> Complaints:
    """§5.1.2: the calls of a reply are answered one after another. Those of a reply that was cut,
    refused or not readable, and those of a closing reply, are not.
    """
    for place, message in enumerate(turn.said):
        waiting = turn.waiting(place)
        match message:
            case ToolResult() | Started():
                if not waiting or waiting[0].call.id != message.call_id:
                    yield place, "it is not about the call that is next"
            case Verdict() if message.call_id:
                if not waiting or waiting[0].call.id != message.call_id:
                    yield place, "a decision about a call that is not the next one"


def no_call_is_dropped(turn: Turn) -> Complaints:
    """§5.1.5, §6: every call of an ordinary reply is answered before anything else is asked. Only
    the end of a turn may leave calls open: a person stopped it, a limit, or patience.
    """
    for place, message in enumerate(turn.said):
        if not turn.waiting(place):
            continue
        names = ", ".join(made.call.name for made in turn.waiting(place))
        if isinstance(message, (Assistant, User, Checked)):
            yield place, f"calls are dropped: {names}"
        if isinstance(message, Ended):
            may_stop = message.exit in ("declined", "limit", "budget", "gave_up")
            if not may_stop and not turn.rules.speaks:
                yield place, f"the turn ends as {message.exit}, with open calls: {names}"


def a_reply_follows_a_message(turn: Turn) -> Complaints:
    """§5.1.1 and §5.1.3: the model is asked after a message to it, or after its results."""
    for place, _ in turn.replies:
        before = [m for m in turn.said[:place] if isinstance(m, (User, Assistant, ToolResult))]
        if before and isinstance(before[-1], Assistant):
            yield place, "the model was asked again, with nothing new"


def the_choice_is_a_fact_of_the_messages(turn: Turn) -> Complaints:
    """§5.1.5: which replies are asked for with "none"."""
    for place, reply in turn.replies:
        questions = [m for _, m in turn.questions(place)]
        last = turn.last_reply(place)
        if questions and is_of_the_kit(questions[-1]):
            closes = questions[-1].kind in (*CLOSE, "answer")
            closes = closes or (last is not None and last[1].tool_choice == "none")
        elif questions and questions[-1] is turn.said[0]:
            closes = False
        else:
            closes = turn.signaled(place)
        if closes != (reply.tool_choice == "none"):
            kinds = [m.kind for m in questions]
            yield place, f"it was asked with {reply.tool_choice!r} after {kinds}"


def the_exit_is_true(turn: Turn) -> Complaints:
    """§5.1.4 to §5.1.6: the name of the exit follows from the messages."""
    for place, message in enumerate(turn.said):
        if not isinstance(message, Ended):
            continue
        lawful = _lawful_exits(turn, place)
        if message.exit not in lawful and not (turn.rules.speaks and message.exit == "gave_up"):
            yield place, f"the exit is {message.exit!r}, not one of {sorted(lawful)}"


def _lawful_exits(turn: Turn, place: int) -> set[str]:
    stops = [m for m in turn.said[:place] if isinstance(m, Verdict)]
    if any(m.decision == "quit" or (m.decision == "no" and not m.call_id) for m in stops):
        return {"declined"}
    lawful = _exits_that_stop(turn, place)
    last = turn.last_reply(place)
    if last is None:
        return lawful
    reply_at, reply = last
    named = turn.named_limit(reply_at)
    if reply.stop_reason not in WHOLE:
        # Two readings: a cut reply to "the limit is reached" ends as the limit, or as cut.
        return lawful | {"refused" if reply.stop_reason == "refusal" else "truncated", named}
    if reply.tool_choice != "none" and reply.tool_calls:
        if turn.waiting(place):
            return lawful
        lawful |= _done(turn, place, "signal") if turn.signaled(place) else set()
        if turn.rules.dialect != "json" or not reply.words:
            lawful -= {"signal"}  # only a finished plan has given its answer
        return lawful
    if named and reply.tool_choice == "none":
        # Two readings: an empty reply to "the limit is reached" ends as the limit, or as empty.
        return {named} if reply.words else {named, "empty"}
    if turn.answered_its_silence(place):
        return lawful | _done(turn, place, "silence")
    if not reply.words:
        return lawful | ({"empty"} if turn.asked("nudge", place) else set())
    if reply.tool_choice == "none":
        return lawful | _done(turn, place, _said_of_the_end(turn, place))
    return lawful | _done(turn, place, "silence")


def _exits_that_stop(turn: Turn, place: int) -> set[str]:
    """How the turn may end whatever the last reply looks like."""
    stops = set()
    if reaches_a_limit(turn, place, slack=True):
        stops |= {*CLOSE}
    failed = [made for made in turn.made if made.at < place and made.result]
    if turn.rules.fail_fast and any(made.result and made.result.is_error for made in failed):
        stops.add("gave_up")
    if fruitless(turn, place)[1] >= turn.rules.patience or turn.asked("repeat", place):
        stops.add("gave_up")
    return stops


def _said_of_the_end(turn: Turn, place: int) -> str:
    """`signal` if the last thought since the last action said false, else `silence`. (A thought in
    the reply of the action is not before it: the reply said both at once.)
    """
    ran = turn.ran(place)
    since = ran[-1].reply_at if ran else 0
    thoughts = [made for made in turn.thoughts(place) if made.reply_at >= since]
    if thoughts and says_continue(thoughts[-1].call) is False:
        return "signal"
    return "silence"


def _done(turn: Turn, place: int, exit: str) -> set[str]:
    """The exit of a turn that is done, by the checks: all of them have run since the last action,
    and found nothing missing.
    """
    if not turn.rules.checks:
        return {exit}
    missing = turn.missing(place)
    if missing is None:
        return set()
    return {"unmet"} if missing else {exit}


def an_end_is_an_end(turn: Turn) -> Complaints:
    """§5.7: nothing comes after the end of a turn, or after a pause, but a person's decision."""
    for place, message in enumerate(turn.said[:-1]):
        after = turn.said[place + 1]
        may_go_on = isinstance(message, Ended) and message.exit == "truncated"
        if isinstance(message, Ended) and not (may_go_on and _is(after, "nudge")):
            yield place, "a message follows the end of the turn"
        if is_pause(message) and not isinstance(after, Verdict):
            yield place, "a paused run went on without a decision"


def a_finished_plan_is_the_answer(turn: Turn) -> Complaints:
    """§5.1.3, §5.3: in json, a plan that is complete, with words, is not asked for its answer."""
    for place, reply in turn.replies:
        last = turn.last_reply(place)
        if reply.tool_choice != "none" or last is None or turn.questions(place):
            continue
        only_thinks = all(call.name == "think" for call in last[1].tool_calls)
        if last[1].dialect == "json" and only_thinks and last[1].text.strip():
            yield place, "the answer was asked for again"


# §5.1 Limits.


def reaches_a_limit(turn: Turn, place: int, *, slack: bool = False) -> str:
    """The limit that is reached before the step at this place; empty if none. With `slack`, limits
    that may have been reached count, too: the time until now, and the next reply's input.
    """
    rules = turn.rules
    replies = sum(at < place for at, _ in turn.replies)
    more_seconds = 1 if slack else 0
    if replies >= rules.max_model_calls - 1 or len(turn.ran(place)) >= rules.max_actions:
        return "limit"
    if turn.seconds(place) + more_seconds >= rules.max_seconds:
        return "limit"
    if only_thought(turn, place) >= 2 * rules.max_thoughts_in_a_row:
        return "limit"
    if turn.tokens(place) >= rules.max_tokens:
        return "budget"
    left = rules.max_cost - turn.cost(place)
    if rules.output_price and left / rules.output_price < FEWEST_TOKENS:
        return "budget"
    if left <= 0:
        return "budget"
    return ""


def a_limit_ends_the_work(turn: Turn) -> Complaints:
    """§5.1: limits are judged before every step. At a limit no action runs, and only a closing
    reply is asked for.
    """
    if len(turn.replies) > turn.rules.max_model_calls:
        yield len(turn.said) - 1, f"{len(turn.replies)} model calls"
    for place, reply in turn.replies:
        questions = turn.questions(place)
        decided_at = questions[0][0] if questions else place
        limit = reaches_a_limit(turn, decided_at)
        if limit and reply.tool_choice != "none":
            yield place, f"the {limit} was reached, and an ordinary reply was asked for"
    for made in turn.made:
        spent = made.ran and _limit_of_a_call(turn, made.decided_at)
        if spent:
            yield made.at, f"it ran, although the {spent} was reached"


def _limit_of_a_call(turn: Turn, place: int) -> str:
    """A call needs an action and time. The model calls and the money are for replies."""
    rules = turn.rules
    if len(turn.ran(place)) >= rules.max_actions or turn.seconds(place) >= rules.max_seconds:
        return "limit"
    return ""


def a_limit_is_named_only_when_reached(turn: Turn) -> Complaints:
    """§5.1: the kit says that a limit is reached when it is, and once."""
    for kind in CLOSE:
        for place in turn.asked(kind, len(turn.said)):
            checked = turn.questions(place)
            decided_at = checked[0][0] if checked and checked[0][0] else place
            reached = reaches_a_limit(turn, decided_at, slack=True)
            if not reached:
                yield place, f"no limit was reached: {turn.said[place]}"
    named = turn.asked("limit", len(turn.said)) + turn.asked("budget", len(turn.said))
    if len(named) > 1:
        yield named[-1], "a limit was named twice"


def nothing_is_asked_after_the_last_words(turn: Turn) -> Complaints:
    """§2: the words of the reply to a `limit` or `budget` message are the answer."""
    for kind in CLOSE:
        for asked_at in turn.asked(kind, len(turn.said)):
            replies = [place for place, _ in turn.replies if place > asked_at]
            for place in replies[1:2]:
                yield place, "the model was asked again after its last words"


# §5.1 Patience, thoughts, and questions.


def fruitless(turn: Turn, before: int) -> tuple[int, int]:
    """How many replies in a row brought nothing: at least, and at most. The design does not say
    whether a reply counts that a person or a limit refused a call of, next to others that failed.
    Nor does it say whether a reply of plain text, that the kit asked on after, ends the row.
    """
    least = most = 0
    gone_on = [p for p, m in enumerate(turn.said) if isinstance(m, Verdict) and not m.call_id]
    for place, reply in turn.replies:
        if place >= before:
            break
        if any(last < place for last in gone_on):
            gone_on = [last for last in gone_on if last >= place]
            least = most = 0
        calls = [made for made in turn.calls_of(place) if made.is_action]
        if reply.stop_reason == "malformed":
            least, most = least + 1, most + 1
        elif not is_ordinary(reply) or not reply.tool_calls:
            least = 0
        elif calls:
            if any(made.at >= before for made in calls):
                continue
            counted = [m for m in calls if m.result and m.result.refused not in UNCOUNTED]
            brought = [m for m in counted if m.result and not m.result.is_error]
            if brought:
                least = most = 0
            elif counted:
                most += 1
                least = least + 1 if counted == calls else 0
            else:
                least = 0
    if any(place < before for place in gone_on):
        least = most = 0
    return least, most


UNCOUNTED = ("person", "limit", "failed", "stopped")


def patience_ends(turn: Turn) -> Complaints:
    """§5.1: after `patience` replies in a row that bring nothing, a person is asked, or the run
    gives up. The model is not asked again.
    """
    for place, message in enumerate(turn.said):
        if turn.waiting(place):
            continue
        least, most = fruitless(turn, place)
        is_ordinary_reply = isinstance(message, Assistant) and message.tool_choice != "none"
        if is_ordinary_reply and least >= turn.rules.patience:
            yield place, f"{least} replies in a row brought nothing, and one more was asked for"
        asks_to_go_on = isinstance(message, Verdict) and not message.call_id
        may_ask = most >= turn.rules.patience or bool(turn.asked("repeat", place))
        if asks_to_go_on and not may_ask:
            yield place, f"a person was asked after {most} replies that brought nothing"


def only_thought(turn: Turn, before: int) -> int:
    """How many of the last replies only thought. Replies without calls do not count."""
    in_a_row = 0
    for place, reply in turn.replies:
        if place >= before or not reply.tool_calls:
            continue
        only_thinks = all(call.name == "think" for call in reply.tool_calls)
        in_a_row = in_a_row + 1 if only_thinks and is_ordinary(reply) else 0
    return in_a_row


def thoughts_in_a_row_are_told(turn: Turn) -> Complaints:
    """§5.1: after `max_thoughts_in_a_row` replies that only think, the result says so."""
    for made in turn.thoughts(len(turn.said)):
        in_a_row = only_thought(turn, made.at)
        is_told = made.result is not None and f"{in_a_row} in a row" in made.result.content
        is_due = in_a_row >= turn.rules.max_thoughts_in_a_row
        wants_to_leave = says_continue(made.call) is False
        if is_due and not is_told and not wants_to_leave:
            yield made.at, f"{in_a_row} replies only thought, and nobody said so"
        if is_told and not is_due:
            yield made.at, f"told after {in_a_row} replies"


def one_question_at_a_time(turn: Turn) -> Complaints:
    """§2: a question never overwrites a question. Only a limit may come after one."""
    for place, message in enumerate(turn.said):
        if not is_of_the_kit(message) or message.kind in CLOSE:  # type: ignore[union-attr]
            continue
        before = [m for _, m in turn.questions(place) if is_of_the_kit(m)]
        if before:
            yield place, f"it was asked before the reply to {before[-1].kind!r}"


def questions_have_their_reason(turn: Turn) -> Complaints:
    """§5.1: an empty reply is nudged once. One that cannot be read is told so."""
    for place in turn.asked("nudge", len(turn.said)):
        last = turn.last_reply(place)
        if isinstance(turn.said[place - 1], Ended):
            continue  # a resumed run goes on after a reply that was cut
        is_empty = last is not None and not last[1].words and last[1].stop_reason in WHOLE
        if not is_empty:
            yield place, "nudged, but the last reply was not empty"
        before = [
            at for at in turn.asked("nudge", place) if not isinstance(turn.said[at - 1], Ended)
        ]
        if before:
            yield place, "nudged twice"
    for place in turn.asked("format", len(turn.said)):
        last = turn.last_reply(place)
        if last is None or last[1].stop_reason != "malformed":
            yield place, "told of its form, but the last reply could be read"


def empty_and_broken_replies_are_asked_about(turn: Turn) -> Complaints:
    """§5.1.5, §5.1.6: the same, the other way round."""
    for reply_at, reply in turn.replies:
        after = next_said(turn, reply_at)
        if after is None or turn.rules.speaks or turn.named_limit(reply_at):
            continue
        place, message = after
        if _is_closed(message) or isinstance(message, Verdict):
            continue
        if sum(at < place for at, _ in turn.replies) >= turn.rules.max_model_calls:
            continue
        is_empty = reply.stop_reason in WHOLE and not reply.words
        is_empty = is_empty and (reply.tool_choice == "none" or not reply.tool_calls)
        is_empty = is_empty and not turn.answered_its_silence(place)
        if is_empty and not turn.asked("nudge", reply_at) and not _is(message, "nudge"):
            yield place, "the reply was empty, and nobody asked about it"
        may_give_up = fruitless(turn, place)[1] >= turn.rules.patience
        if reply.stop_reason == "malformed" and not _is(message, "format") and not may_give_up:
            yield place, "the reply could not be read, and nobody said so"


def next_said(turn: Turn, reply_at: int) -> tuple[int, Message] | None:
    """What comes after a reply: the first message that is no finding of a check."""
    for place, message in enumerate(turn.said[reply_at + 1 :], reply_at + 1):
        if not isinstance(message, Checked):
            return place, message
    return None


def _is(message: Message, *kinds: str) -> bool:
    return isinstance(message, User) and message.kind in kinds


def _is_closed(message: Message) -> bool:
    """Does this message end the turn at a limit, or for good?"""
    ends = isinstance(message, Ended) and message.exit in (*CLOSE, "gave_up", "declined")
    return ends or is_pause(message) or _is(message, *CLOSE)


def silence_is_asked_about(turn: Turn) -> Complaints:
    """§5.1, Silence: a model that stops although its last thought said "more to do" is asked once a
    turn. With `silence="accept"` it is not.
    """
    asked = turn.asked("silence", len(turn.said))
    if len(asked) > 1:
        yield asked[1], "asked about its silence twice"
    for place in asked:
        if turn.rules.silence == "accept":
            yield place, "asked about its silence"
        if not turn.stopped_talking(place):
            yield place, "asked about its silence, but it called a tool or said nothing"
        elif not _may_be_unfinished(turn, place):
            yield place, "asked about its silence, but its last thought said that all is done"
    for reply_at, _ in turn.replies:
        after = next_said(turn, reply_at)
        if after is None or turn.rules.silence == "accept" or turn.rules.force == "always":
            continue
        place, message = after
        is_due = turn.stopped_talking(place) and _says_more_to_do(turn, place)
        is_free = not turn.asked("silence", place) and not turn.rules.speaks
        is_free = is_free and turn.rules.signals  # without a signal, silence is how it says "done"
        # Two readings: a model that was nudged, or told what is missing, has been asked already.
        is_free = is_free and not turn.asked("nudge", place) and not turn.asked("check", place)
        if is_due and is_free and not _is(message, "silence") and not _is_closed(message):
            yield place, "its last thought said that there is more to do, and nobody asked"


def _says_more_to_do(turn: Turn, place: int) -> bool:
    thoughts = turn.thoughts(place)
    says_more = bool(thoughts) and says_continue(thoughts[-1].call) is True
    last = turn.last_reply(place)
    return says_more or (last is not None and last[1].not_done)


def _may_be_unfinished(turn: Turn, place: int) -> bool:
    """Did it say that there is more to do, or fail to say that there is not? Or did it ignore a
    choice, and call nothing in its turn?
    """
    thoughts = turn.thoughts(place)
    unclear = bool(thoughts) and says_continue(thoughts[-1].call) is not False
    did_nothing = not any(made.result for made in turn.made)
    ignored = any(reply.enforced == "ignored" for at, reply in turn.replies if at < place)
    return _says_more_to_do(turn, place) or unclear or (ignored and did_nothing)


def repeats_are_told(turn: Turn) -> Complaints:
    """The model is told after the same action had the same result `max_repeats` times in a row."""
    for place in turn.asked("repeat", len(turn.said)):
        same = [_what(made) for made in turn.ran(place)]
        last = same[-int(turn.rules.max_repeats) :]
        if (len(last) < turn.rules.max_repeats or len({*last}) > 1) and not turn.rules.speaks:
            yield place, f"told of a repeat after {last}"


def _what(made: Made) -> tuple[str, object, str]:
    assert made.result
    given = made.result.arguments if made.result.arguments is not None else made.call.arguments
    return made.call.name, number(given), made.result.content


# §5.2 Think before act.


def is_covered(turn: Turn, made: Made, before: int) -> bool:
    """The rule of the gate, word for word."""
    if carries_a_thought(made.call):
        return True
    kinds = turn.rules.tools
    thoughts = [t for t in turn.thoughts(before) if not is_blank(argument(t.call, "thought"))]
    thoughts = [t for t in thoughts if t.reply.stop_reason in WHOLE]
    if not thoughts:
        return False
    last = thoughts[-1]
    beside = [other for other in turn.calls_of(made.reply_at) if other.at < before]
    if any(other.is_action and not _is_guarded(kinds, other) for other in beside):
        return False
    may_have_run = [
        other
        for other in turn.made
        if other.is_action and last.at < other.at < before and (other.ran or other.starts)
    ]
    return all(
        _is_guarded(kinds, other) and other.reply_at == made.reply_at for other in may_have_run
    )


def _is_guarded(kinds: Mapping[str, Kind], made: Made) -> bool:
    return made.call.name in kinds and kinds[made.call.name].guarded


def a_guarded_call_has_its_thought(turn: Turn) -> Complaints:
    """§5.2: a guarded call runs exactly if it is covered."""
    for made in turn.made:
        if not _is_guarded(turn.rules.tools, made) or made.result is None:
            continue
        covered = is_covered(turn, made, made.decided_at)
        if (made.ran or made.starts) and not covered:
            yield made.at, "it ran, and no thought stands behind it"
        if made.result.refused == "gate" and covered:
            yield made.at, "the gate refused it, although a thought stands behind it"


def a_thought_is_forced(turn: Turn) -> Complaints:
    """§5.2: `think` is forced where the setting says so, and after a refusal of the gate. Where a
    choice was ignored, the kit may stop.
    """
    think = Force("think")
    ignored = any(m.enforced == "ignored" for m in turn.earlier if isinstance(m, Assistant))
    for place, reply in turn.replies:
        has_thought = bool(turn.thoughts(place))
        refused = [made for made in turn.made if made.result and made.result.refused == "gate"]
        refused = [made for made in refused if made.at < place]
        covering = [t.at for t in turn.thoughts(place) if not is_blank(argument(t.call, "thought"))]
        after_gate = bool(refused) and not any(at > refused[-1].at for at in covering)
        # Two readings of "after every action": an action that was refused is one, or is none.
        actions = [made.at for made in turn.made if made.is_action and made.at < place]
        thought_at = [made.at for made in turn.thoughts(place)]
        unread = not thought_at or (bool(actions) and actions[-1] > thought_at[-1])
        lawful = after_gate
        lawful = lawful or (turn.rules.force == "first" and not has_thought)
        lawful = lawful or (turn.rules.force == "always" and unread)
        if reply.tool_choice == think and not (lawful and turn.rules.thinks):
            yield place, "a thought was forced without a reason"
        was_ignored = ignored or any(
            r.enforced == "ignored" for at, r in turn.replies if at < place
        )
        is_first = place == turn.replies[0][0] and turn.rules.force != "never"
        due = (after_gate or is_first) and turn.rules.thinks and not was_ignored
        due = due and not turn.rules.speaks
        if due and reply.tool_choice not in (think, "none"):
            yield place, "no thought was forced"


# §5.3 to §5.5 What runs, and what is refused.


def refusals_have_their_reason(turn: Turn) -> Complaints:
    """A call that was refused was not started, and its code says the truth."""
    for made in turn.made:
        if made.result is None or not made.result.refused or made.thinks:
            continue
        reasons = lawful_refusals(turn, made)
        if made.result.refused not in reasons:
            yield made.at, f"refused as {made.result.refused!r}; it could be {sorted(reasons)}"


def lawful_refusals(turn: Turn, made: Made) -> set[str]:
    rules, verdict = turn.rules, made.verdict()
    kind = rules.tools.get(made.call.name)
    found = set()
    if rules.edited or rules.speaks:
        found.add("rule")
    if _is_guarded(rules.tools, made) and not is_covered(turn, made, made.at):
        found.add("gate")
    edits = [v.arguments for v in made.verdicts if v.decision == "yes" and v.arguments is not None]
    if kind is None or number(made.call.arguments) is None or None in map(number, edits):
        found.add("invalid")
    if made.call.recovered and not (kind and kind.read_only) and not made.verdicts:
        found.add("text")
    edits_badly = verdict and verdict.arguments is not None and number(verdict.arguments) is None
    if verdict and (verdict.decision == "no" or edits_badly):
        found.add("person")
    found.add("stopped")  # a person spoke again: first, what the last turn left open is answered
    if _limit_of_a_call(turn, made.at) or reaches_a_limit(turn, made.at, slack=True):
        found.add("limit")
    before = [other for other in turn.calls_of(made.reply_at) if other.at < made.at]
    if rules.fail_fast and any(other.result and other.result.is_error for other in before):
        found.add("failed")
    if kind and kind.changes and tries_in_doubt(turn, made, made.at):
        found.add("doubt")
    return found


def only_what_may_run_ran(turn: Turn) -> Complaints:
    """A call that ran fits its tool, was no text, and no person said no to it."""
    for made in turn.made:
        if made.thinks and made.starts:
            yield made.starts[0], "a thought was started"
        code = made.result.refused if made.result else ""
        if made.thinks and code not in ("", "stopped") and turn.rules.thinks:
            yield made.at, "a thought was refused"
        if not made.ran and not made.starts:
            continue
        kind = turn.rules.tools.get(made.call.name)
        n = what_it_ran_with(turn.rules, made)
        if kind is None or n is None:
            yield made.decided_at, "it does not fit a tool, and it ran"
            continue
        verdict = made.verdict(made.decided_at)
        says_yes = verdict is not None and verdict.decision == "yes"
        if verdict is not None and not says_yes:
            yield made.decided_at, "a person did not say yes, and it ran"
        if made.call.recovered and not kind.read_only and not says_yes:
            yield made.decided_at, "it was written as text, and it ran"
        written = number(made.call.arguments)
        shown = turn.rules.edited.get(written, written) if written is not None else None
        if shown is not None and needs_yes(kind, shown) and not says_yes:
            yield made.decided_at, "it needs a yes, and nobody was asked"
        if kind.changes and not made.starts:
            yield made.at, "it changes something, and no start was recorded"
        if made.starts and not kind.changes:
            yield made.starts[0], "it may be repeated, and a start was recorded"


def what_it_ran_with(rules: Rules, made: Made) -> int | None:
    """The `n` that the tool got: what the person put in, else what the user's policy made of what
    the model wrote.
    """
    verdict = made.verdict(made.decided_at)
    if verdict is not None and verdict.arguments is not None:
        return number(verdict.arguments)
    if made.result is not None and made.result.arguments is not None:
        return number(made.result.arguments)
    written = number(made.call.arguments)
    return rules.edited.get(written, written) if written is not None else None


def nobody_is_asked_about_a_call_that_does_not_fit(turn: Turn) -> Complaints:
    """§5.4: a call whose arguments do not validate is answered with that error."""
    for made in turn.made:
        fits = made.call.name in turn.rules.tools and number(made.call.arguments) is not None
        if made.verdicts and not fits:
            yield made.reply_at, "a person was asked about a call that does not fit its tool"


def every_yes_says_to_what(turn: Turn) -> Complaints:
    """§5.4: `Verdict.arguments` is always there in a yes to a call."""
    for made in turn.made:
        for place, note in made.notes:
            is_yes = isinstance(note, Verdict) and note.decision == "yes"
            if is_yes and note.arguments is None:  # type: ignore[union-attr]
                yield place, "a yes does not say to what"


def a_result_says_with_what_it_ran(turn: Turn) -> Complaints:
    """§5.4: what a person or a policy changed stands in the result."""
    for made in turn.made:
        if not made.ran or made.result is None:
            continue
        written, n = number(made.call.arguments), what_it_ran_with(turn.rules, made)
        shown = number(made.result.arguments) if made.result.arguments is not None else written
        if shown != n:
            yield made.at, f"it ran with {n}, and the result says {shown}"


@dataclass(frozen=True)
class Try:
    """A start of a call that changes something."""

    turn: int
    name: str
    n: int | None
    key: str
    ended: str  # "done", "doubt" (it did not return), "nothing" (it says so), "open"
    new: bool


def tries(turn: Turn, before: int) -> list[Try]:
    """Every start in the whole conversation, before a place of this turn."""
    found = []
    parts = turns(turn.earlier, turn.rules)
    for index, part in enumerate([*parts, turn]):
        last = before if part is turn else len(part.said)
        for made in part.made:
            for start in made.starts:
                if start < last:
                    found.append((index, start, _try(part, made, start, index, last)))
    return [item for *_, item in sorted(found, key=lambda row: row[:2])]


def _try(turn: Turn, made: Made, start: int, index: int, before: int) -> Try:
    started = turn.said[start]
    assert isinstance(started, Started)
    verdict = made.verdict(start)
    n = number(made.call.arguments)
    n = turn.rules.edited.get(n, n) if n is not None else None
    if verdict is not None and verdict.arguments is not None:
        n = number(verdict.arguments)
    ended = "open"
    is_last = start == made.starts[-1]
    if is_last and made.result is not None and made.at < before:
        ended = "nothing" if made.result.is_error else "done"
        ended = "doubt" if made.result.in_doubt else ended
        ended = "open" if made.result.refused else ended
    is_new = verdict is not None and bool(getattr(verdict, "new", False))
    return Try(index, made.call.name, n, started.key, ended, is_new)


def tries_in_doubt(turn: Turn, made: Made, before: int) -> list[Try]:
    """The earlier tries of the same call that may have happened (§5.5): same tool, same values."""
    n = what_it_ran_with(turn.rules, made)
    same = [t for t in tries(turn, before) if (t.name, t.n) == (made.call.name, n)]
    return [t for t in same if t.ended in ("doubt", "open")]


def what_may_have_happened_is_not_repeated(turn: Turn) -> Complaints:
    """§5.5: a call in doubt is started again only after a yes, or in the same turn with the key of
    the first try. A new call gets a new key.
    """
    number_of_turn = len(turns(turn.earlier, turn.rules))
    for made in turn.made:
        kind = turn.rules.tools.get(made.call.name)
        for start in made.starts:
            before = tries(turn, start)
            this = tries(turn, start + 1)[-1]
            same = [t for t in before if (t.name, t.n) == (this.name, this.n)]
            is_doubtful = bool(same) and same[-1].ended in ("doubt", "open")
            verdict = made.verdict(start)
            decided = verdict is not None and _is_fresh(made, start)
            keys = {t.key for t in before}
            if kind is None or not kind.keyed:
                if is_doubtful and not decided:
                    yield start, "it may have happened, and it is repeated without a yes"
                continue
            if not this.key:
                yield start, "it has no key"
            if is_doubtful and same[-1].turn < number_of_turn and not decided:
                yield start, "it may have happened in an earlier turn, and nobody was asked"
            wants_new = verdict is not None and bool(getattr(verdict, "new", False))
            if is_doubtful and not wants_new and this.key != same[-1].key:
                yield start, "a retry has another key than the first try"
            in_doubt = any(t.ended in ("doubt", "open", "nothing") for t in same)
            if (wants_new or not in_doubt) and this.key in keys:
                yield start, "another call has the key of an earlier one"


def _is_fresh(made: Made, start: int) -> bool:
    """Was the person asked after the last start of this call?"""
    earlier = [place for place in made.starts if place < start]
    since = earlier[-1] if earlier else made.reply_at
    return any(isinstance(note, Verdict) and since < place < start for place, note in made.notes)


def failing_fast(turn: Turn) -> Complaints:
    """`on_tool_error="fail_fast"`: nothing runs after the first call that failed."""
    if not turn.rules.fail_fast:
        return
    failed = [made for made in turn.ran(len(turn.said)) if made.result and made.result.is_error]
    for made in turn.ran(len(turn.said)):
        if failed and made.at > failed[0].at and not turn.rules.can_ask:
            yield made.at, "it ran after a call that failed"


# §5.6 What is said is checked.


def checks_are_asked_about(turn: Turn) -> Complaints:
    """§5.6: checks run when the model says that it is done, or at a limit. With something missing
    it is told what, at most twice, and not twice if nothing ran since the first time.
    """
    asked = turn.asked("check", len(turn.said))
    if len(asked) > 2 and not turn.rules.speaks:
        yield asked[2], "the model was told what is missing for the third time"
    for place in asked:
        if not turn.missing(place) and not turn.rules.speaks:
            yield place, "the model was told that something is missing, and nothing is"
        elif _told_since_it_acted(turn, place):
            yield place, "told again, although nothing ran since the first time"
    for place, message in enumerate(turn.said):
        if not isinstance(message, Checked):
            continue
        says_so = turn.signaled(place) or turn.stopped_talking(place)
        says_so = says_so or turn.answered_its_silence(place)
        last = turn.last_reply(place)
        is_closed = last is not None and last[1].tool_choice == "none"
        if not says_so and not is_closed and not reaches_a_limit(turn, place, slack=True):
            yield place, "checked, although the model did not say that it is done"


def what_is_missing_is_told(turn: Turn) -> Complaints:
    """§5.6, §2: once all checks have run, what is missing is the next thing that is said."""
    for place, message in enumerate(turn.said):
        if (
            not place
            or isinstance(message, Checked)
            or not isinstance(turn.said[place - 1], Checked)
        ):
            continue
        missing = turn.missing(place)
        last = turn.last_reply(place)
        may_ask = last is not None and last[1].tool_choice != "none"
        may_ask = may_ask and len(turn.asked("check", place)) < 2
        may_ask = may_ask and not _told_since_it_acted(turn, place) and not turn.rules.speaks
        if missing and may_ask and not _is(message, "check") and not _is_closed(message):
            yield place, f"something is missing, and what is said next is {type(message).__name__}"


def _told_since_it_acted(turn: Turn, place: int) -> bool:
    ran = turn.ran(place)
    since = ran[-1].at if ran else 0
    return any(since < at for at in turn.asked("check", place))


def nothing_is_closed_unchecked(turn: Turn) -> Complaints:
    """§5.6: before the closing call of a signal the checks have run."""
    for place, reply in turn.replies:
        if reply.tool_choice != "none" or turn.questions(place) or not turn.rules.checks:
            continue
        if turn.missing(place) is None:
            yield place, "the closing reply was asked for, and the checks have not run"


RULES: tuple[Callable[[Turn], Complaints], ...] = (
    answers_in_order,
    no_call_is_dropped,
    a_reply_follows_a_message,
    the_choice_is_a_fact_of_the_messages,
    the_exit_is_true,
    an_end_is_an_end,
    a_finished_plan_is_the_answer,
    a_limit_ends_the_work,
    a_limit_is_named_only_when_reached,
    nothing_is_asked_after_the_last_words,
    patience_ends,
    thoughts_in_a_row_are_told,
    one_question_at_a_time,
    questions_have_their_reason,
    empty_and_broken_replies_are_asked_about,
    silence_is_asked_about,
    repeats_are_told,
    a_guarded_call_has_its_thought,
    a_thought_is_forced,
    refusals_have_their_reason,
    only_what_may_run_ran,
    nobody_is_asked_about_a_call_that_does_not_fit,
    every_yes_says_to_what,
    a_result_says_with_what_it_ran,
    what_may_have_happened_is_not_repeated,
    failing_fast,
    checks_are_asked_about,
    what_is_missing_is_told,
    nothing_is_closed_unchecked,
)


def only_run_opened_a_turn(messages: Sequence[Message], texts: Sequence[str]) -> Complaints:
    """§2: a person's message is what was given to `run`."""
    said = [m.text for m in messages if isinstance(m, User) and m.kind == "person"]
    if said != list(texts):
        yield len(messages), f"persons said {said}, and runs were begun with {list(texts)}"


def what_ran_was_the_next_call(
    messages: Sequence[Message], rules: Rules, ran: Sequence[tuple[int, str, int]]
) -> Complaints:
    """§5.4, §6: a function was called for the call that was next, with its arguments. `ran`: after
    how many messages, which tool, and with which `n`.
    """
    for place, name, n in ran:
        turn = turns(messages[: place + 1], rules)[-1]
        before = len(turns(messages[:place], rules)[-1].said)
        waiting = turn.waiting(before)
        if not waiting:
            yield place, f"{name} ran, and no call was waiting"
        elif (waiting[0].call.name, what_it_ran_with(rules, waiting[0])) != (name, n):
            yield place, f"{name}({n}) ran, and the next call was {waiting[0].call}"
    counted = [made for turn in turns(messages, rules) for made in turn.made if made.ran]
    if len(counted) > len(ran):
        yield len(messages), f"{len(counted)} results, and {len(ran)} functions were called"


def judge(messages: Sequence[Message], rules: Rules) -> list[str]:
    """Everything that is wrong in a transcript: the rule, the place in the turn, and why."""
    found = []
    for turn in turns(messages, rules):
        for rule in RULES:
            found += [f"{rule.__name__} [{place}]: {why}" for place, why in rule(turn)]
    return found

"""The rules of a run, judged on its raw messages.

Each check is a function `(before, message) -> complaints`: may this message follow these? It names
the rule that it checks (`@checks("policies/limits.py", rule=1)`), and a complaint repeats that. So
who breaks a rule reads where it is written. The cases of `policies/limits.py` are in
`tests/policies/test_limits.py`, and so on. Those of the rules in `think_agent/README.md` are in
`tests/core/test_loop.py`.

Rule 1: nothing is kept between two messages. What was before is read anew for each message, so a
        run may be stopped or paused anywhere. The facts, such as which result answers which call,
        are those of `facts.py`.
Rule 2: where a rule has two readings, both are lawful here, and a comment says so.

Limitations: every tool takes one integer `n`, and tools, checks and settings are those of `Rules`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Any

from tests.support.oracle.facts import (
    THINK,
    WHOLE,
    OracleCall,
    OracleDoubt,
    OracleTurn,
    as_started,
    call_id_of,
    find_doubts,
    is_go_on,
    is_question,
    is_stop,
    of_type,
    says_continue,
    thought_behind,
    turns_of,
    without_thought,
)
from think_agent.messages import (
    Assistant,
    Checked,
    Ended,
    Message,
    Paused,
    Started,
    ToolResult,
    User,
    Verdict,
)

LAST = ("limit", "budget")  # the questions whose reply is the last one
MAY_LEAVE_CALLS_OPEN = ("declined", "limit", "budget", "gave_up")
FEWEST_TOKENS = 200  # with money for fewer, the turn closes
Complaints = Iterator[str]


@dataclass(frozen=True)
class Check:
    """A function that complains about a message, and the rule of the package that it checks. The
    rule has a number in the docstring (or README) at `path`, or it is what `name` there does.
    """

    function: Callable[["TurnSoFar", Message], Complaints]
    path: str
    rule: int = 0
    name: str = ""

    def __str__(self) -> str:
        place = f"rule {self.rule}" if self.rule else self.name
        return f"{self.function.__name__} ({self.path}, {place})"


CHECKS: list[Check] = []


def checks(path: str, *, rule: int = 0, name: str = "") -> Callable[[Any], Any]:
    """Say which rule a function checks, and add it to `CHECKS`."""

    def add(function: Any) -> Any:
        CHECKS.append(Check(function, path, rule, name))
        return function

    return add


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
        return not self.read_only and not self.idempotent


@dataclass(frozen=True)
class Rules:
    """The settings of an agent, as its user gave them. `edited`: the `n` that a policy of the user
    makes of another. `speaks`: does such a policy ask the model something, or refuse calls?
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
    input_price: float = 0.0  # of one token
    output_price: float = 0.0
    patience: float = 3
    max_thoughts_in_a_row: float = 3
    max_repeats: int = 3
    fail_fast: bool = False
    edited: Mapping[int, int] = field(default_factory=dict)
    speaks: bool = False


@dataclass(frozen=True)
class TurnSoFar(OracleTurn):
    """The messages of a turn until now, and those before the turn."""

    rules: Rules

    @property
    def waiting(self) -> list[OracleCall]:
        """The calls of the last reply that have to be answered, and are not yet."""
        if self.reply is None or not is_ordinary(self.reply):
            return []
        return self.open

    @property
    def next_call(self) -> OracleCall | None:
        """The first of them."""
        if self.waiting:
            return self.waiting[0]
        return None

    @property
    def wants_to_leave(self) -> bool | None:
        """The signal of the last thought: False if it said "false"."""
        if self.thoughts:
            return says_continue(self.thoughts[-1].tool_call)
        return None

    def kinds(self, messages: Sequence[Message]) -> list[str]:
        """The kinds of what was said in the user's role."""
        return [message.kind for message in of_type(User, messages)]

    @property
    def questions(self) -> list[str]:
        """Those that wait for a reply."""
        return self.kinds(self.messages[self.reply_at :])

    @property
    def asked(self) -> list[str]:
        return self.kinds(self.messages)

    @property
    def replied_to(self) -> str:
        """The kind of the message that the last reply answers."""
        return ["", *self.kinds(self.messages[: self.reply_at])][-1]

    @property
    def named(self) -> str:
        """The limit that the model read of before its last reply; empty if none."""
        told = [kind for kind in self.kinds(self.messages[: self.reply_at]) if kind in LAST]
        return ["", *told][-1]

    @property
    def just_replied(self) -> bool:
        """Came nothing but checks after the last reply?"""
        after = self.messages[self.reply_at + 1 :]
        return bool(self.replies) and all(isinstance(message, Checked) for message in after)

    @property
    def called_nothing(self) -> bool:
        reply = self.reply
        return reply is not None and is_ordinary(reply) and not reply.tool_calls

    @property
    def is_silent(self) -> bool:
        """Does the last reply call no tool, and say something? Two readings: an empty reply
        to the question about its silence means that the text above is the answer.
        """
        if not self.called_nothing:
            return False
        return bool(self.reply.words) or self.replied_to == "silence"

    @property
    def missing(self) -> list[Checked] | None:
        """What is missing since the last action; None if not every check has run since."""
        if self.checked.keys() != {*self.rules.checks}:
            return None
        return super().missing


def turns(messages: Sequence[Message], rules: Rules) -> list[TurnSoFar]:
    """The turns of a transcript, each as a whole."""
    return [TurnSoFar(turn.messages, turn.earlier, rules) for turn in turns_of(messages)]


def is_of_the_kit(message: Message) -> bool:
    return isinstance(message, User) and message.kind != "person"


def is_last(message: Message) -> bool:
    """Does this message stop the turn, or close it at a limit?"""
    if isinstance(message, Ended):
        return message.exit in MAY_LEAVE_CALLS_OPEN
    return isinstance(message, Paused) or is_question(message, *LAST)


def is_ordinary(reply: Assistant) -> bool:
    """Do the calls of this reply run? It is whole, and was not asked as a closing one."""
    return reply.stop_reason in WHOLE and reply.tool_choice != "none"


def number(arguments: object) -> int | None:
    """The `n` that a tool would get of these arguments; None if they do not fit it."""
    if not isinstance(arguments, dict) or arguments.keys() - {"thought"} != {"n"}:
        return None
    try:
        return int(arguments["n"])
    except (TypeError, ValueError):
        return None


def needs_yes(kind: Kind, n: int) -> bool:
    """A predicate that raises means yes."""
    if isinstance(kind.needs_yes, bool):
        return kind.needs_yes
    try:
        return kind.needs_yes(n)
    except Exception:
        return True


def begins(before: TurnSoFar, message: Message) -> OracleCall | None:
    """The action that begins to run with this message: its start, or the result if it has none."""
    call = before.next_call
    if call is None or not call.is_action:
        return None
    has_run = isinstance(message, ToolResult) and not message.refused and not call.starts
    if has_run or isinstance(message, Started):
        return call
    return None


# Steps.


@checks("messages.py", rule=5)
def answers_in_order(before: TurnSoFar, message: Message) -> Complaints:
    """Calls are answered one after another. Those of a reply that is not whole, and those
    of a closing reply, are not answered.
    """
    about = call_id_of(message)
    waiting = [call.tool_call.id for call in before.waiting]
    if about is not None and about not in waiting[:1]:
        yield "it is not about the call that is next"


@checks("loop.py", rule=2)
def no_call_is_dropped(before: TurnSoFar, message: Message) -> Complaints:
    """Every call of an ordinary reply is answered before anything else is said. Only a
    turn that is stopped may leave calls open.
    """
    if not before.waiting:
        return
    names = [call.tool_call.name for call in before.waiting]
    if isinstance(message, (Assistant, User, Checked)):
        yield f"calls are dropped: {names}"
    if isinstance(message, Ended) and message.exit not in MAY_LEAVE_CALLS_OPEN:
        yield f"the turn ends with open calls: {names}"


@checks("README.md", rule=4)
def a_reply_follows_something_new(before: TurnSoFar, message: Message) -> Complaints:
    """The model is asked after a message to it, or after results."""
    if isinstance(message, Assistant) and before.just_replied:
        yield "the model was asked again, with nothing new"


@checks("README.md", rule=3)
def a_closing_reply_is_asked_as_one(before: TurnSoFar, message: Message) -> Complaints:
    """Which replies are asked for with "none"."""
    closes = before.says_done or before.asks_to_close
    if isinstance(message, Assistant) and closes != (message.tool_choice == "none"):
        yield f"it was asked with {message.tool_choice!r} after {before.questions}"


@checks("loop.py", rule=5)
def an_end_is_an_end(before: TurnSoFar, message: Message) -> Complaints:
    """What follows the end of a turn? A resumed run goes on after a cut reply."""
    last = before.messages[-1]
    if not isinstance(last, Ended):
        return
    goes_on = last.exit == "truncated" and is_question(message, "nudge")
    if not goes_on:
        yield "a message follows the end of the turn"


@checks("policies/asking.py", rule=2)
def a_pause_waits(before: TurnSoFar, message: Message) -> Complaints:
    """After a pause a person decides, or the turn is left for another one."""
    if not isinstance(before.messages[-1], Paused) or isinstance(message, Verdict):
        return
    if is_question(message, "person"):
        return
    is_left = isinstance(message, ToolResult) and (message.refused == "stopped" or message.in_doubt)
    if not is_left:
        yield "a paused run went on without a decision"


@checks("policies/answer.py", rule=6)
def a_finished_plan_is_the_answer(before: TurnSoFar, message: Message) -> Complaints:
    """In json, a plan that is complete, with words, is not asked for its answer."""
    if isinstance(message, Assistant) and is_finished_plan(before) and not before.questions:
        yield "the answer was asked for again"


def is_finished_plan(before: TurnSoFar) -> bool:
    reply = before.reply
    if reply is None or not reply.text.strip():
        return False
    if reply.dialect not in ("json", "react"):
        return False
    return before.says_done and not any(call.is_action for call in before.calls)


# The name of the exit.


@checks("loop.py", rule=4)
def the_exit_is_true(before: TurnSoFar, message: Message) -> Complaints:
    if not isinstance(message, Ended):
        return
    lawful = lawful_exits(before)
    if message.exit not in lawful:
        yield f"the exit is {message.exit!r}, not one of {sorted(lawful)}"


def lawful_exits(before: TurnSoFar) -> set[str]:
    if any(is_stop(message) for message in before.messages):
        return {"declined"}
    if before.reply is None or before.waiting:
        return exits_that_stop(before)
    return exits_that_stop(before) | exits_by_reply(before, before.reply)


def exits_that_stop(before: TurnSoFar) -> set[str]:
    """How the turn may end whatever the last reply looks like."""
    stops = set()
    reached = reached_limit(before, more_seconds=1)
    if reached and not before.named:
        stops |= {*LAST}
    if before.rules.fail_fast and any(call.failed for call in before.all_calls):
        stops.add("gave_up")
    if before.misses >= before.rules.patience or "repeat" in before.asked:
        stops.add("gave_up")
    return stops


def exits_by_reply(before: TurnSoFar, reply: Assistant) -> set[str]:
    if reply.stop_reason not in WHOLE:
        # Two readings: a cut reply to "the limit is reached" ends as the limit, or as cut.
        cut = "refused" if reply.stop_reason == "refusal" else "truncated"
        return {cut, before.named}
    if reply.tool_choice == "none":
        return closing_exits(before, reply)
    if confirms_its_silence(before):
        return done(before, "silence")
    if is_finished_plan(before):
        return done(before, "signal")
    if before.is_silent:
        return done(before, "silence")
    if before.called_nothing and "nudge" in before.asked:
        return {"empty"}
    return set()


def confirms_its_silence(before: TurnSoFar) -> bool:
    """Asked about it, did the model only think, and say that all is done?"""
    if not before.says_done or before.replied_to != "silence":
        return False
    return not any(call.is_action for call in before.calls)


def closing_exits(before: TurnSoFar, reply: Assistant) -> set[str]:
    """The limit that was named; else `signal` if the last thought since the last action said false;
    else `silence`. (A thought in the reply of the action is not before it: they were said at once.)
    """
    if before.named:
        # Two readings: an empty reply to "the limit is reached" ends as the limit, or as empty.
        if reply.words:
            return {before.named}
        return {before.named, "empty"}
    if not reply.words:
        if "nudge" in before.asked:
            return {"empty"}
        return set()
    return done(before, before.way_out)


def done(before: TurnSoFar, exit: str) -> set[str]:
    """The exit by the checks: they have run since the last action, and nothing is missing."""
    if before.missing is None:
        return set()
    if before.missing:
        return {"unmet"}
    return {exit}


# Limits.


def reached_limit(before: TurnSoFar, more_seconds: float = 0) -> str:
    """The limit that is reached; empty if none. `more_seconds`: since the last message."""
    rules = before.rules
    limits = {
        "replies": len(before.replies) >= rules.max_model_calls - 1,  # one is kept for the close
        "thoughts": before.thoughts_in_a_row >= 2 * rules.max_thoughts_in_a_row,
        "calls": no_call_may_run(before, more_seconds),
    }
    if any(limits.values()):
        return "limit"
    used = before.usage
    spent = used.input_tokens * rules.input_price + used.output_tokens * rules.output_price
    left = rules.max_cost - spent
    is_poor = left <= 0 or left < FEWEST_TOKENS * rules.output_price
    if is_poor or used.input_tokens + used.output_tokens >= rules.max_tokens:
        return "budget"
    return ""


def no_call_may_run(before: TurnSoFar, more_seconds: float = 0) -> bool:
    """A call needs an action and time. Replies and money are for replies."""
    seconds = before.seconds + more_seconds
    return len(before.ran) >= before.rules.max_actions or seconds >= before.rules.max_seconds


@checks("policies/limits.py", rule=1)
def a_limit_ends_the_work(before: TurnSoFar, message: Message) -> Complaints:
    """Limits are judged before every step. At a limit no action runs, and only a closing
    reply is asked for.
    """
    if begins(before, message) and no_call_may_run(before):
        yield "it ran, although a limit was reached"
    if not isinstance(message, Assistant):
        return
    if len(before.replies) >= before.rules.max_model_calls:
        yield f"there were {len(before.replies)} model calls"
    limit = reached_limit(before_its_questions(before))
    if limit and message.tool_choice != "none":
        yield f"the {limit} was reached, and an ordinary reply was asked for"


def before_its_questions(before: TurnSoFar) -> TurnSoFar:
    """Where it was decided to ask the model: before the messages that now wait for a reply."""
    said = list(before.messages)
    while is_of_the_kit(said[-1]):
        said.pop()
    return TurnSoFar(said, before.earlier, before.rules)


@checks("policies/limits.py", rule=1)
def a_limit_is_named_when_reached(before: TurnSoFar, message: Message) -> Complaints:
    """The kit says that a limit is reached when it is, and once."""
    if not is_question(message, *LAST):
        return
    if not reached_limit(before, more_seconds=1):
        yield "no limit was reached"
    if {*before.asked} & {*LAST}:
        yield "a limit was named twice"


@checks("policies/limits.py", rule=2)
def nothing_is_asked_after_the_last_words(before: TurnSoFar, message: Message) -> Complaints:
    """The words of the reply to a `limit` or `budget` message are the answer."""
    if isinstance(message, Assistant) and before.named:
        yield "the model was asked again after its last words"


# Patience, and thoughts in a row.


@checks("policies/patience.py", rule=2)
def patience_ends(before: TurnSoFar, message: Message) -> Complaints:
    """After `patience` unproductive replies in a row a person is asked, or the run gives up. The
    model is not asked again.
    """
    if before.waiting:
        return
    misses = before.misses
    is_ordinary_question = isinstance(message, Assistant) and message.tool_choice != "none"
    if is_ordinary_question and misses >= before.rules.patience and not before.rules.speaks:
        yield f"{misses} unproductive replies in a row, and one more was asked for"
    is_due = misses >= before.rules.patience or "repeat" in before.asked
    if is_go_on(message) and not is_due:
        yield f"a person was asked after {misses} unproductive replies"


@checks("policies/limits.py", name="_hurry")
def thoughts_in_a_row_are_told(before: TurnSoFar, message: Message) -> Complaints:
    """After `max_thoughts_in_a_row` replies that only think, the result says so."""
    call = before.next_call
    if call is None or not isinstance(message, ToolResult) or message.name != "think":
        return
    is_told = f"{before.thoughts_in_a_row} in a row" in message.content
    is_due = before.thoughts_in_a_row >= before.rules.max_thoughts_in_a_row
    leaves = says_continue(call.tool_call) is False
    if is_due and not is_told and not leaves and not message.is_error:
        yield f"{before.thoughts_in_a_row} replies only thought, and the model wasn't told to act"
    if is_told and not is_due:
        yield f"told after {before.thoughts_in_a_row} replies"


# Questions of the kit.


@checks("policies/repeats.py", name="no_repeats")
def one_question_at_a_time(before: TurnSoFar, message: Message) -> Complaints:
    """A question never overwrites a question. Only a limit may come after one."""
    waiting = {*before.questions} - {"person"}
    if is_of_the_kit(message) and waiting and not is_question(message, *LAST):
        yield f"it was asked before the reply to {waiting}"


@checks("README.md", rule=6)
def a_nudge_has_its_reason(before: TurnSoFar, message: Message) -> Complaints:
    """An empty reply is nudged once. (A resumed run goes on after a cut reply, too.)"""
    if not is_question(message, "nudge") or isinstance(before.messages[-1], Ended):
        return
    if not is_empty(before):
        yield "nudged, but the last reply was not empty"
    ends = len(of_type(Ended, before.messages))
    if before.asked.count("nudge") > ends:
        yield "nudged twice"


def is_empty(before: TurnSoFar) -> bool:
    reply = before.reply
    if reply is None or reply.words:
        return False
    if reply.stop_reason not in WHOLE:
        return False
    return reply.tool_choice == "none" or not reply.tool_calls


@checks("policies/patience.py", name="ask_for_format")
def the_form_is_told(before: TurnSoFar, message: Message) -> Complaints:
    """The model reads that its reply could not be read, and only then."""
    is_unreadable = before.reply is not None and before.reply.stop_reason == "malformed"
    if is_question(message, "format") and not is_unreadable:
        yield "told of its form, but the last reply could be read"


@checks("README.md", rule=6)
def broken_replies_are_asked_about(before: TurnSoFar, message: Message) -> Complaints:
    """The other way round: what follows an empty reply, or one that can't be read?"""
    if not asks_or_ends(before, message):
        return
    is_free = "nudge" not in before.asked and before.replied_to != "silence"
    if is_empty(before) and is_free and not is_question(message, "nudge"):
        yield "the reply was empty, and the model wasn't nudged"
    is_unreadable = before.reply is not None and before.reply.stop_reason == "malformed"
    if is_unreadable and not is_question(message, "format"):
        yield "the reply couldn't be read, and the model wasn't told"


def asks_or_ends(before: TurnSoFar, message: Message) -> bool:
    """Is it said after a reply, where nothing else has to come first: no stop, no limit, no word of
    the user's own policy?
    """
    if isinstance(message, (Checked, Verdict)) or is_last(message):
        return False
    if before.rules.speaks:
        return False
    if before.named or len(before.replies) >= before.rules.max_model_calls:
        return False
    return before.just_replied


@checks("policies/silence.py", rule=1)
def a_question_about_silence_has_its_reason(before: TurnSoFar, message: Message) -> Complaints:
    """A model that stops although there seems to be more to do is asked, once."""
    if not is_question(message, "silence"):
        return
    if before.rules.silence == "accept" or "silence" in before.asked:
        yield "asked about its silence, again or against the setting"
    if not before.called_nothing or is_empty(before):
        yield "asked about its silence, but it called a tool or said nothing"
    elif before.rules.silence != "ask" and not may_be_unfinished(before):
        yield "asked about its silence, but its last thought said that all is done"


@checks("policies/silence.py", rule=1)
def silence_is_asked_about(before: TurnSoFar, message: Message) -> Complaints:
    """The other way round. Two readings: a model without an exit signal, or one that was nudged or
    told what is missing, may be asked or not.
    """
    rules = before.rules
    if rules.silence == "accept" or rules.force == "always":
        return
    if not rules.signals:
        return
    was_asked = bool({"silence", "nudge", "check"} & {*before.asked})
    if was_asked or not before.called_nothing:
        return
    if not asks_or_ends(before, message):
        return
    if is_empty(before) or is_question(message, "silence"):
        return
    if says_more_to_do(before) or forgot_to_call(before):
        yield "there was more to do, and the model wasn't asked"
    elif rules.silence == "ask":
        yield "it stopped calling tools, and the model wasn't asked"


def forgot_to_call(before: TurnSoFar) -> bool:
    """Did it ignore a choice that was to be enforced, and call nothing in its turn?"""
    is_ignored = before.reply is not None and before.reply.enforced == "ignored"
    return is_ignored and bool(before.rules.tools) and not before.all_calls


def says_more_to_do(before: TurnSoFar) -> bool:
    is_open = before.reply is not None and before.reply.not_done
    return is_open or before.wants_to_leave is True


def may_be_unfinished(before: TurnSoFar) -> bool:
    """Did it say that there is more to do, or did its thought fail to say that there is not? Or did
    it ignore a choice, and call nothing in its turn?
    """
    is_unclear = bool(before.thoughts) and before.wants_to_leave is None
    ignored = any(reply.enforced == "ignored" for reply in before.replies)
    did_nothing = ignored and not any(call.result for call in before.all_calls)
    return is_unclear or did_nothing or says_more_to_do(before)


@checks("policies/repeats.py", rule=2)
def repeats_are_told(before: TurnSoFar, message: Message) -> Complaints:
    """The model reads that it repeats itself, once the same action had the same result
    `max_repeats` times.
    """
    if not is_question(message, "repeat") or before.rules.speaks:
        return
    done_so_far = [
        (call.tool_call.name, what_it_gets(before, call), call.result and call.result.content)
        for call in before.ran
    ]
    if done_so_far.count(done_so_far[-1]) < before.rules.max_repeats:
        yield f"told of a repeat after {done_so_far}"


# Think before act.


@checks("policies/gate.py", rule=1)
def a_guarded_call_has_its_thought(before: TurnSoFar, message: Message) -> Complaints:
    """A guarded call runs only if it is covered, and is refused only if it is not."""
    call = before.next_call
    if call is None or not is_guarded(before, call):
        return
    covered = is_covered(before, call)
    if begins(before, message) and not covered:
        yield "it ran, and no thought covers it"
    if isinstance(message, ToolResult) and message.refused == "gate" and covered:
        yield "the gate refused it, although a thought covers it"


def is_guarded(before: TurnSoFar, call: OracleCall) -> bool:
    tools = before.rules.tools
    return call.tool_call.name in tools and tools[call.tool_call.name].guarded


def is_covered(before: TurnSoFar, call: OracleCall) -> bool:
    guarded = {name for name, kind in before.rules.tools.items() if kind.guarded}
    return thought_behind(before.messages, call.tool_call, guarded) is not None


@checks("policies/forcing.py", name="force")
def a_thought_is_forced_for_a_reason(before: TurnSoFar, message: Message) -> Complaints:
    """At the start of a turn, after an action if always, and after a refusal of the gate."""
    if not isinstance(message, Assistant) or message.tool_choice != THINK:
        return
    if not before.rules.thinks or not may_force(before):
        yield "a thought was forced without a reason"


def may_force(before: TurnSoFar) -> bool:
    if before.rules.force == "first" and not before.thoughts:
        return True
    # Two readings of "after every action": an action that was refused is one, or is none.
    last = [call for call in before.all_calls if call.result][-1:]
    is_read = bool(last) and last[0] in before.thoughts and not last[0].failed
    if before.rules.force == "always" and not is_read:
        return True
    return lacks_a_thought(before, before.all_calls)


def lacks_a_thought(before: TurnSoFar, calls: Sequence[OracleCall]) -> bool:
    """Did the gate refuse one of these calls, and has nothing been thought since?"""
    refused = [call.at for call in calls if call.refused == "gate"]
    thought = [call.at for call in before.thoughts if call.covers]
    return max(refused, default=-1) > max(thought, default=-1)


@checks("policies/gate.py", rule=2)
def a_thought_is_forced(before: TurnSoFar, message: Message) -> Complaints:
    """The other way round. A policy of the user may change the choice."""
    if not isinstance(message, Assistant) or message.tool_choice in (THINK, "none"):
        return
    if not before.rules.thinks or before.rules.speaks or may_stop_forcing(before):
        return
    is_first = not before.replies and before.rules.force != "never"
    if is_first or lacks_a_thought(before, before.calls):
        yield "no thought was forced"


def may_stop_forcing(before: TurnSoFar) -> bool:
    """Was a choice ignored? (After how many the kit stops, this oracle does not judge.)"""
    replies = of_type(Assistant, [*before.earlier, *before.messages])
    return any(reply.enforced == "ignored" for reply in replies)


# What runs, and what is refused.


@checks("loop.py", name="Refuse")
def refusals_have_their_reason(before: TurnSoFar, message: Message) -> Complaints:
    """The code of a refusal says the truth."""
    call = before.next_call
    if call is None or not isinstance(message, ToolResult) or not message.refused:
        return
    reasons = {"stopped"}  # a person speaks again: first, what was left open is answered
    if call.is_action:
        reasons |= lawful_refusals(before, call)
    if message.refused not in reasons:
        yield f"refused as {message.refused!r}; it could be {sorted(reasons)}"
    if call.starts and not message.in_doubt:
        yield "it was started, and its refusal does not say that it may have run"


def lawful_refusals(before: TurnSoFar, call: OracleCall) -> set[str]:
    rules = before.rules
    reasons = {
        "rule": rules.speaks,
        "gate": is_guarded(before, call) and not is_covered(before, call),
        "text": is_text(before, call) and not call.verdicts,
        "limit": bool(reached_limit(before, more_seconds=1)),
        "failed": rules.fail_fast and any(other.failed for other in before.calls),
        "repeat": has_just_succeeded(before, call),
    }
    return by_the_person(before, call) | {code for code, holds in reasons.items() if holds}


def by_the_person(before: TurnSoFar, call: OracleCall) -> set[str]:
    """Two readings: an edit that does not fit is a mistake of the person, or is invalid."""
    edits = [verdict.arguments for verdict in call.verdicts if verdict.arguments is not None]
    if None in [number(arguments) for arguments in edits]:
        return {"person", "invalid"}
    if not fits(before, call):
        return {"invalid"}
    if call.decision == "no":
        return {"person"}
    return set()


def fits(before: TurnSoFar, call: OracleCall) -> bool:
    return (
        call.tool_call.name in before.rules.tools and number(call.tool_call.arguments) is not None
    )


def is_text(before: TurnSoFar, call: OracleCall) -> bool:
    """Was it written as text, and would it change something?"""
    kind = before.rules.tools.get(call.tool_call.name, Kind())
    return call.tool_call.recovered and not kind.read_only


@checks("policies/validation.py", rule=1)
def only_what_fits_runs(before: TurnSoFar, message: Message) -> Complaints:
    """A call that runs fits its tool, and so does what a person made of it."""
    call = begins(before, message)
    if call and (not fits(before, call) or what_it_gets(before, call) is None):
        yield "it does not fit a tool, and it ran"


@checks("policies/approval.py", name="approval")
def what_needs_a_yes_has_one(before: TurnSoFar, message: Message) -> Complaints:
    """Nobody said no, and somebody said yes where that is needed."""
    call = begins(before, message)
    if call is None or not fits(before, call):
        return
    kind = before.rules.tools[call.tool_call.name]
    if call.decision not in ("", "yes"):
        yield "a person did not say yes, and it ran"
    asks = needs_yes(kind, shown(before, call)) or is_text(before, call)
    if asks and not call.decision:
        yield "it needs a yes, and no person was asked"


@checks("running.py", rule=3)
def a_start_is_recorded(before: TurnSoFar, message: Message) -> Complaints:
    """A start is recorded for a call that changes something: with its arguments, and with a key if
    its tool takes one.
    """
    call = begins(before, message)
    if call is None or not fits(before, call):
        return
    kind = before.rules.tools[call.tool_call.name]
    if kind.changes != isinstance(message, Started):
        yield "a start is recorded for calls that change something, and for no others"
    if isinstance(message, Started):
        if kind.keyed != bool(message.key):
            yield "a start has a key if its tool takes one"
        gets = what_it_gets(before, call)
        if number(as_started(message, call.notes, call.tool_call)) != gets:
            yield f"it gets {gets}, and its start says something else"


def shown(before: TurnSoFar, call: OracleCall) -> int | None:
    """The `n` that a person is shown: what a policy of the user makes of what the model wrote."""
    n = number(call.tool_call.arguments)
    return before.rules.edited.get(n, n)


def what_it_gets(before: TurnSoFar, call: OracleCall) -> int | None:
    """The `n` that the tool gets: what the last yes says, else what was shown."""
    said = [v.arguments for v in call.verdicts if v.arguments is not None]
    if said:
        return number(said[-1])
    return shown(before, call)


@checks("policies/approval.py", rule=1)
def invalid_calls_are_not_asked_about(before: TurnSoFar, message: Message) -> Complaints:
    """A call whose arguments do not validate is answered with that error."""
    call = before.next_call
    is_about_call = isinstance(message, Verdict) and message.call_id
    if call and is_about_call and not fits(before, call):
        yield "a person was asked about a call that does not fit its tool"


@checks("policies/asking.py", rule=3)
def every_yes_says_to_what(before: TurnSoFar, message: Message) -> Complaints:
    """`Verdict.arguments` is always there in a yes to a call."""
    is_yes = isinstance(message, Verdict) and message.decision == "yes"
    if is_yes and call_id_of(message) and message.arguments is None:  # type: ignore[union-attr]
        yield "a yes does not say to what"


@checks("policies/validation.py", rule=2)
def a_result_says_with_what_it_ran(before: TurnSoFar, message: Message) -> Complaints:
    """What a person or a policy changed is in the result."""
    call = before.next_call
    if call is None or not isinstance(message, ToolResult) or message.refused:
        return
    told = call.tool_call.arguments if message.arguments is None else message.arguments
    if call.is_action and number(told) != what_it_gets(before, call):
        yield f"it ran with {what_it_gets(before, call)}, and the result says {told}"


@checks("policies/patience.py", name="fail_fast")
def failing_fast(before: TurnSoFar, message: Message) -> Complaints:
    """`on_tool_error="fail_fast"`: nothing runs after the first call that failed."""
    if not before.rules.fail_fast or before.rules.can_ask:
        return
    if begins(before, message) and any(call.failed for call in before.ran):
        yield "it ran after a call that failed"


# The same call.


def first_tries(before: TurnSoFar, call: OracleCall) -> list[OracleDoubt]:
    """The tries of this call that are not settled, in the whole conversation: with the same values,
    or in the same words.
    """
    n = what_it_gets(before, call)
    found, _ = find_doubts([*before.earlier, *before.messages])
    named = [one for one in found if one.name == call.tool_call.name]
    return [
        one
        for one in named
        if number(one.ran) == n or one.written == without_thought(call.tool_call)
    ]


def calls_it_new(notes: Sequence[Message]) -> bool:
    """Did a person just say that the next call is a new one?"""
    return bool(notes) and isinstance(notes[-1], Verdict) and notes[-1].new


def has_just_succeeded(before: TurnSoFar, call: OracleCall) -> bool:
    """Has the same call by a tool that changes something succeeded in this reply?"""
    kind = before.rules.tools.get(call.tool_call.name)
    if kind is None or not kind.changes:
        return False
    n = what_it_gets(before, call)
    for other in before.calls:
        is_same = other.tool_call.name == call.tool_call.name and what_it_gets(before, other) == n
        if is_same and other.ran and not other.failed:
            return True
    return False


@checks("policies/twice.py", rule=1)
def nothing_is_done_twice_in_one_reply(before: TurnSoFar, message: Message) -> Complaints:
    """The model has not read the first result yet."""
    call = begins(before, message)
    if call and isinstance(message, Started) and has_just_succeeded(before, call):
        yield "the same call has succeeded in this reply, and it runs again"


@checks("policies/asking.py", rule=5)
def nothing_runs_against_a_no(before: TurnSoFar, message: Message) -> Complaints:
    """A no is always taken."""
    call = begins(before, message)
    if call and call.decision in ("no", "quit"):
        yield f"it runs, and a person said {call.decision}"


@checks("policies/doubt.py", rule=4)
def what_may_have_happened_is_not_repeated(before: TurnSoFar, message: Message) -> Complaints:
    """A call in doubt is started again only after a yes, or in the same turn with a key."""
    call = begins(before, message)
    if call is None or not isinstance(message, Started):
        return
    tries = first_tries(before, call)
    if isinstance(before.messages[-1], Verdict) or not tries:
        return
    if not message.key:
        yield "it may have happened, and it is repeated without a yes"
    elif tries[-1].turn <= len(turns_of(before.earlier)):
        yield "it may have happened in an earlier turn, and no person was asked"


@checks("policies/doubt.py", rule=3)
def a_retry_has_the_key_of_the_first_try(before: TurnSoFar, message: Message) -> Complaints:
    """Unless a person asked for a new one. No other call has the key of an earlier one."""
    call = begins(before, message)
    if call is None or not isinstance(message, Started):
        return
    if not message.key:
        return
    tries = first_tries(before, call)
    is_new = calls_it_new(call.notes) or not tries
    if not is_new and message.key != tries[-1].key:
        yield "a retry has another key than the first try"
    keys = [start.key for start in of_type(Started, [*before.earlier, *before.messages])]
    if is_new and message.key in keys:
        yield "another call has the key of an earlier one"


# What is said is checked.


@checks("policies/done_when.py", rule=1)
def checks_run_when_it_is_done(before: TurnSoFar, message: Message) -> Complaints:
    """Checks run when the model says that it is done, and at a limit."""
    if not isinstance(message, Checked):
        return
    says_so = before.says_done or before.is_silent or before.is_closing
    if not says_so and not reached_limit(before, more_seconds=1):
        yield "checked, although the model did not say that it is done"


@checks("policies/done_when.py", rule=3)
def what_is_missing_is_told_twice_at_most(before: TurnSoFar, message: Message) -> Complaints:
    """And no second time if nothing ran since the first."""
    if not is_question(message, "check"):
        return
    if not before.missing:
        yield "the model was told that something is missing, and nothing is"
    if not may_tell_what_is_missing(before):
        yield "the model was told once more what is missing"


def may_tell_what_is_missing(before: TurnSoFar) -> bool:
    if before.reply is None or before.is_closing:
        return False
    is_told = "check" in before.kinds(before.since_action)
    return not is_told and before.asked.count("check") < 2


@checks("policies/done_when.py", rule=3)
def what_is_missing_is_told(before: TurnSoFar, message: Message) -> Complaints:
    """Once the checks have run, what is missing is what is said next."""
    if isinstance(message, Checked) or not isinstance(before.messages[-1], Checked):
        return
    if is_question(message, "check") or is_last(message):
        return
    if before.rules.speaks:
        return
    if isinstance(message, Verdict):  # a person says first whether to go on
        return
    if before.missing and may_tell_what_is_missing(before):
        yield f"something is missing, and what comes next is {type(message).__name__}"


@checks("policies/done_when.py", rule=1)
def nothing_is_closed_unchecked(before: TurnSoFar, message: Message) -> Complaints:
    """Before the closing call of a signal the checks have run."""
    is_closing = isinstance(message, Assistant) and message.tool_choice == "none"
    if is_closing and not before.questions and before.missing is None:
        yield "the closing reply was asked for, and the checks have not run"


def judge(messages: Sequence[Message], rules: Rules) -> list[str]:
    """Everything that is wrong in a transcript: the check and its rule, which message, and why."""
    found = []
    for turn in turns(messages, rules):
        for place in range(1, len(turn.messages)):
            before = TurnSoFar(turn.messages[:place], turn.earlier, rules)
            message = turn.messages[place]
            number_of_message = len(turn.earlier) + place
            for check in CHECKS:
                for why in check.function(before, message):
                    found.append(f"{check} [{number_of_message}]: {why}")
    return found


def only_run_opens_a_turn(messages: Sequence[Message], texts: Sequence[str]) -> list[str]:
    """A person's message is what was given to `run`."""
    said = [message.text for message in of_type(User, messages) if message.kind == "person"]
    if said == list(texts):
        return []
    return [f"only_run_opens_a_turn [0]: persons said {said}, and `run` got {list(texts)}"]


@dataclass(frozen=True)
class Ran:
    """A function that was called: after how many messages, with which `n` and key, and how it
    ended ("ok", "raise", "late", or "nothing": it said that nothing was done).
    """

    place: int
    name: str
    n: int
    key: str
    fault: str


def what_ran_was_next(messages: Sequence[Message], rules: Rules, ran: Sequence[Ran]) -> list[str]:
    """Each function was called for the call that was next, with its arguments. A
    call that changes something was called once for its start, with the key of it. Its result says
    whether it worked.
    """
    found = []
    for row in ran:
        before = turns(messages[: row.place], rules)[-1]
        calls = [(call.tool_call.name, what_it_gets(before, call)) for call in before.waiting[:1]]
        if calls != [(row.name, row.n)]:
            found.append(f"what_ran_was_next [{row.place}]: {row.name}({row.n}), not {calls}")
        kind = rules.tools[row.name]
        start = messages[row.place - 1]
        if kind.changes and (not isinstance(start, Started) or start.key != row.key):
            found.append(f"what_ran_was_next [{row.place}]: {row.name} ran without its start")
        for result in of_type(ToolResult, messages[row.place : row.place + 1]):
            in_doubt = kind.changes and row.fault in ("raise", "late")
            if (result.is_error, result.in_doubt) != (row.fault != "ok", in_doubt):
                found.append(f"what_ran_was_next [{row.place}]: {row.fault}, and {result}")
    results = sum(len(turn.ran) for turn in turns(messages, rules))
    if results > len(ran):
        found.append(f"what_ran_was_next [0]: {results} results of {len(ran)} calls")
    if len({row.place for row in ran}) < len(ran):
        found.append("what_ran_was_next [0]: two calls of one start")
    return found

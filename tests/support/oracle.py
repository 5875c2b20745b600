"""The rules of a run, judged on its raw messages: an oracle that shares no code with the kit.

Rule 1: it is written from the design of the loop, a section at a time. It knows no `Turn`, no
        policy and no plan.
Rule 2: a rule is a function `(before, message) -> complaints`: may this message follow these? What
        was before is read anew for each message, so a run may be stopped or paused anywhere. The
        facts, such as which result answers which call, are those of `naive.py`.
Rule 3: where the design has two readings, both are lawful here, and a comment says so.

Limitations: every tool takes one integer `n`, and tools, checks and settings are those of `Rules`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf

from tests.support.naive import (
    THINK,
    WHOLE,
    Made,
    Reading,
    Tried,
    as_started,
    bare,
    behind,
    call_id_of,
    is_go_on,
    is_question,
    is_stop,
    of_type,
    readings,
    says_continue,
    tried,
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
class Before(Reading):
    """The messages of a turn until now, and those before the turn."""

    rules: Rules

    @property
    def waiting(self) -> list[Made]:
        """The calls of the last reply that have to be answered, and are not yet."""
        if self.reply is None or not is_ordinary(self.reply):
            return []
        return self.open

    @property
    def next_call(self) -> Made | None:
        """The first of them."""
        if self.waiting:
            return self.waiting[0]
        return None

    @property
    def wants_to_leave(self) -> bool | None:
        """The signal of the last thought: False if it said "false" (§5.1)."""
        if self.thoughts:
            return says_continue(self.thoughts[-1].call)
        return None

    def kinds(self, messages: Sequence[Message]) -> list[str]:
        """The kinds of what was said in the user's role."""
        return [message.kind for message in of_type(User, messages)]

    @property
    def questions(self) -> list[str]:
        """Those that wait for a reply."""
        return self.kinds(self.said[self.reply_at :])

    @property
    def asked(self) -> list[str]:
        return self.kinds(self.said)

    @property
    def replied_to(self) -> str:
        """The kind of the message that the last reply answers."""
        return ["", *self.kinds(self.said[: self.reply_at])][-1]

    @property
    def named(self) -> str:
        """The limit that the last reply was told of; empty if none."""
        told = [kind for kind in self.kinds(self.said[: self.reply_at]) if kind in LAST]
        return ["", *told][-1]

    @property
    def just_replied(self) -> bool:
        """Came nothing but checks after the last reply?"""
        after = self.said[self.reply_at + 1 :]
        return bool(self.replies) and all(isinstance(message, Checked) for message in after)

    @property
    def called_nothing(self) -> bool:
        reply = self.reply
        return reply is not None and is_ordinary(reply) and not reply.tool_calls

    @property
    def is_silent(self) -> bool:
        """§5.1.4: does the last reply call no tool, and say something? Two readings: an empty reply
        to the question about its silence means that the text above is the answer.
        """
        if not self.called_nothing:
            return False
        return bool(self.reply.words) or self.replied_to == "silence"

    @property
    def missing(self) -> list[Checked] | None:
        """§5.6: what is missing since the last action; None if not every check has run since."""
        if self.checked.keys() != {*self.rules.checks}:
            return None
        return super().missing


def turns(messages: Sequence[Message], rules: Rules) -> list[Before]:
    """The turns of a transcript, each as a whole."""
    return [Before(turn.said, turn.earlier, rules) for turn in readings(messages)]


def is_of_the_kit(message: Message) -> bool:
    return isinstance(message, User) and message.kind != "person"


def is_last(message: Message) -> bool:
    """Does this message stop the turn, or close it at a limit?"""
    if isinstance(message, Ended):
        return message.exit in MAY_LEAVE_CALLS_OPEN
    return isinstance(message, Paused) or is_question(message, *LAST)


def is_ordinary(reply: Assistant) -> bool:
    """Do the calls of this reply run? It is whole, and was not asked as a closing one (§5.1.5)."""
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
    """A predicate that raises means yes (§5.4)."""
    if isinstance(kind.needs_yes, bool):
        return kind.needs_yes
    try:
        return kind.needs_yes(n)
    except Exception:
        return True


def begins(before: Before, message: Message) -> Made | None:
    """The action that begins to run with this message: its start, or the result if it has none."""
    made = before.next_call
    if made is None or not made.is_action:
        return None
    has_run = isinstance(message, ToolResult) and not message.refused and not made.starts
    if has_run or isinstance(message, Started):
        return made
    return None


# §5.1 Steps.


def answers_in_order(before: Before, message: Message) -> Complaints:
    """§5.1.2: calls are answered one after another. Those of a reply that is not whole, and those
    of a closing reply, are not answered.
    """
    about = call_id_of(message)
    waiting = [made.call.id for made in before.waiting]
    if about is not None and about not in waiting[:1]:
        yield "it is not about the call that is next"


def no_call_is_dropped(before: Before, message: Message) -> Complaints:
    """§5.1.5, §6: every call of an ordinary reply is answered before anything else is said. Only a
    turn that is stopped may leave calls open.
    """
    if not before.waiting:
        return
    names = [made.call.name for made in before.waiting]
    if isinstance(message, (Assistant, User, Checked)):
        yield f"calls are dropped: {names}"
    if isinstance(message, Ended) and message.exit not in MAY_LEAVE_CALLS_OPEN:
        yield f"the turn ends with open calls: {names}"


def a_reply_follows_something_new(before: Before, message: Message) -> Complaints:
    """§5.1.1, §5.1.3: the model is asked after a message to it, or after results."""
    if isinstance(message, Assistant) and before.just_replied:
        yield "the model was asked again, with nothing new"


def a_closing_reply_is_asked_as_one(before: Before, message: Message) -> Complaints:
    """§5.1.5: which replies are asked for with "none"."""
    closes = before.says_done or before.asks_to_close
    if isinstance(message, Assistant) and closes != (message.tool_choice == "none"):
        yield f"it was asked with {message.tool_choice!r} after {before.questions}"


def an_end_is_an_end(before: Before, message: Message) -> Complaints:
    """§5.7: what follows the end of a turn? A resumed run goes on after a cut reply."""
    last = before.said[-1]
    if not isinstance(last, Ended):
        return
    goes_on = last.exit == "truncated" and is_question(message, "nudge")
    if not goes_on:
        yield "a message follows the end of the turn"


def a_pause_waits(before: Before, message: Message) -> Complaints:
    """§5.7: after a pause a person decides, or the turn is left for another one."""
    if not isinstance(before.said[-1], Paused) or isinstance(message, Verdict):
        return
    if is_question(message, "person"):
        return
    is_left = isinstance(message, ToolResult) and (message.refused == "stopped" or message.in_doubt)
    if not is_left:
        yield "a paused run went on without a decision"


def a_finished_plan_is_the_answer(before: Before, message: Message) -> Complaints:
    """§5.1.3, §5.3: in json, a plan that is complete, with words, is not asked for its answer."""
    if isinstance(message, Assistant) and is_finished_plan(before) and not before.questions:
        yield "the answer was asked for again"


def is_finished_plan(before: Before) -> bool:
    reply = before.reply
    if reply is None or not reply.text.strip():
        return False
    if reply.dialect not in ("json", "react"):
        return False
    return before.says_done and not any(made.is_action for made in before.calls)


# §5.1.4 to §5.1.6 The name of the exit.


def the_exit_is_true(before: Before, message: Message) -> Complaints:
    if not isinstance(message, Ended):
        return
    lawful = lawful_exits(before)
    if message.exit not in lawful:
        yield f"the exit is {message.exit!r}, not one of {sorted(lawful)}"


def lawful_exits(before: Before) -> set[str]:
    if any(is_stop(message) for message in before.said):
        return {"declined"}
    if before.reply is None or before.waiting:
        return exits_that_stop(before)
    return exits_that_stop(before) | exits_by_reply(before, before.reply)


def exits_that_stop(before: Before) -> set[str]:
    """How the turn may end whatever the last reply looks like."""
    stops = set()
    reached = reached_limit(before, more_seconds=1)
    if reached and not before.named:
        stops |= {*LAST}
    if before.rules.fail_fast and any(made.failed for made in before.made):
        stops.add("gave_up")
    if before.misses >= before.rules.patience or "repeat" in before.asked:
        stops.add("gave_up")
    return stops


def exits_by_reply(before: Before, reply: Assistant) -> set[str]:
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


def confirms_its_silence(before: Before) -> bool:
    """§5.1, Silence: asked about it, did the model only think, and say that all is done?"""
    if not before.says_done or before.replied_to != "silence":
        return False
    return not any(made.is_action for made in before.calls)


def closing_exits(before: Before, reply: Assistant) -> set[str]:
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


def done(before: Before, exit: str) -> set[str]:
    """The exit by the checks: they have run since the last action, and nothing is missing."""
    if before.missing is None:
        return set()
    if before.missing:
        return {"unmet"}
    return {exit}


# §5.1 Limits.


def reached_limit(before: Before, more_seconds: float = 0) -> str:
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


def no_call_may_run(before: Before, more_seconds: float = 0) -> bool:
    """A call needs an action and time. Replies and money are for replies."""
    seconds = before.seconds + more_seconds
    return len(before.ran) >= before.rules.max_actions or seconds >= before.rules.max_seconds


def a_limit_ends_the_work(before: Before, message: Message) -> Complaints:
    """§5.1: limits are judged before every step. At a limit no action runs, and only a closing
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


def before_its_questions(before: Before) -> Before:
    """Where it was decided to ask the model: before the messages that now wait for a reply."""
    said = list(before.said)
    while is_of_the_kit(said[-1]):
        said.pop()
    return Before(said, before.earlier, before.rules)


def a_limit_is_named_when_reached(before: Before, message: Message) -> Complaints:
    """§5.1: the kit says that a limit is reached when it is, and once."""
    if not is_question(message, *LAST):
        return
    if not reached_limit(before, more_seconds=1):
        yield "no limit was reached"
    if {*before.asked} & {*LAST}:
        yield "a limit was named twice"


def nothing_is_asked_after_the_last_words(before: Before, message: Message) -> Complaints:
    """§2: the words of the reply to a `limit` or `budget` message are the answer."""
    if isinstance(message, Assistant) and before.named:
        yield "the model was asked again after its last words"


# §5.1 Patience, and thoughts in a row.


def patience_ends(before: Before, message: Message) -> Complaints:
    """§5.1: after `patience` replies in a row that bring nothing, a person is asked, or the run
    gives up. The model is not asked again.
    """
    if before.waiting:
        return
    misses = before.misses
    is_ordinary_question = isinstance(message, Assistant) and message.tool_choice != "none"
    if is_ordinary_question and misses >= before.rules.patience and not before.rules.speaks:
        yield f"{misses} replies in a row brought nothing, and one more was asked for"
    is_due = misses >= before.rules.patience or "repeat" in before.asked
    if is_go_on(message) and not is_due:
        yield f"a person was asked after {misses} replies that brought nothing"


def thoughts_in_a_row_are_told(before: Before, message: Message) -> Complaints:
    """§5.1: after `max_thoughts_in_a_row` replies that only think, the result says so."""
    made = before.next_call
    if made is None or not isinstance(message, ToolResult) or message.name != "think":
        return
    is_told = f"{before.thoughts_in_a_row} in a row" in message.content
    is_due = before.thoughts_in_a_row >= before.rules.max_thoughts_in_a_row
    leaves = says_continue(made.call) is False
    if is_due and not is_told and not leaves and not message.is_error:
        yield f"{before.thoughts_in_a_row} replies only thought, and nobody said so"
    if is_told and not is_due:
        yield f"told after {before.thoughts_in_a_row} replies"


# §2, §5.1 Questions of the kit.


def one_question_at_a_time(before: Before, message: Message) -> Complaints:
    """§2: a question never overwrites a question. Only a limit may come after one."""
    waiting = {*before.questions} - {"person"}
    if is_of_the_kit(message) and waiting and not is_question(message, *LAST):
        yield f"it was asked before the reply to {waiting}"


def a_nudge_has_its_reason(before: Before, message: Message) -> Complaints:
    """§5.1.5: an empty reply is nudged once. (A resumed run goes on after a cut reply, too.)"""
    if not is_question(message, "nudge") or isinstance(before.said[-1], Ended):
        return
    if not is_empty(before):
        yield "nudged, but the last reply was not empty"
    ends = len(of_type(Ended, before.said))
    if before.asked.count("nudge") > ends:
        yield "nudged twice"


def is_empty(before: Before) -> bool:
    reply = before.reply
    if reply is None or reply.words:
        return False
    if reply.stop_reason not in WHOLE:
        return False
    return reply.tool_choice == "none" or not reply.tool_calls


def the_form_is_told(before: Before, message: Message) -> Complaints:
    """§5.1: a reply that could not be read is told so, and no other."""
    is_unreadable = before.reply is not None and before.reply.stop_reason == "malformed"
    if is_question(message, "format") and not is_unreadable:
        yield "told of its form, but the last reply could be read"


def broken_replies_are_asked_about(before: Before, message: Message) -> Complaints:
    """§5.1.5: the same, the other way round. What comes after an empty reply, or one that could not
    be read?
    """
    if not asks_or_ends(before, message):
        return
    is_free = "nudge" not in before.asked and before.replied_to != "silence"
    if is_empty(before) and is_free and not is_question(message, "nudge"):
        yield "the reply was empty, and nobody asked about it"
    is_unreadable = before.reply is not None and before.reply.stop_reason == "malformed"
    if is_unreadable and not is_question(message, "format"):
        yield "the reply could not be read, and nobody said so"


def asks_or_ends(before: Before, message: Message) -> bool:
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


def a_question_about_silence_has_its_reason(before: Before, message: Message) -> Complaints:
    """§5.1, Silence: a model that stops although there seems to be more to do is asked, once."""
    if not is_question(message, "silence"):
        return
    if before.rules.silence == "accept" or "silence" in before.asked:
        yield "asked about its silence, again or against the setting"
    if not before.called_nothing or is_empty(before):
        yield "asked about its silence, but it called a tool or said nothing"
    elif before.rules.silence != "ask" and not may_be_unfinished(before):
        yield "asked about its silence, but its last thought said that all is done"


def silence_is_asked_about(before: Before, message: Message) -> Complaints:
    """§5.1, Silence, the other way round. Two readings: a model without an exit signal, and one
    that was nudged or told what is missing, is asked or is not.
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
        yield "there was more to do, and nobody asked"
    elif rules.silence == "ask":
        yield "it fell silent, and nobody asked"


def forgot_to_call(before: Before) -> bool:
    """Did it ignore a choice that was to be enforced, and call nothing in its turn?"""
    is_ignored = before.reply is not None and before.reply.enforced == "ignored"
    return is_ignored and bool(before.rules.tools) and not before.made


def says_more_to_do(before: Before) -> bool:
    is_open = before.reply is not None and before.reply.not_done
    return is_open or before.wants_to_leave is True


def may_be_unfinished(before: Before) -> bool:
    """Did it say that there is more to do, or did its thought fail to say that there is not? Or did
    it ignore a choice, and call nothing in its turn?
    """
    is_unclear = bool(before.thoughts) and before.wants_to_leave is None
    ignored = any(reply.enforced == "ignored" for reply in before.replies)
    did_nothing = ignored and not any(made.result for made in before.made)
    return is_unclear or did_nothing or says_more_to_do(before)


def repeats_are_told(before: Before, message: Message) -> Complaints:
    """The model is told after the same action had the same result `max_repeats` times."""
    if not is_question(message, "repeat") or before.rules.speaks:
        return
    done_so_far = [
        (made.call.name, what_it_gets(before, made), made.result and made.result.content)
        for made in before.ran
    ]
    if done_so_far.count(done_so_far[-1]) < before.rules.max_repeats:
        yield f"told of a repeat after {done_so_far}"


# §5.2 Think before act.


def a_guarded_call_has_its_thought(before: Before, message: Message) -> Complaints:
    """§5.2: a guarded call runs only if it is covered, and is refused only if it is not."""
    made = before.next_call
    if made is None or not is_guarded(before, made):
        return
    covered = is_covered(before, made)
    if begins(before, message) and not covered:
        yield "it ran, and no thought stands behind it"
    if isinstance(message, ToolResult) and message.refused == "gate" and covered:
        yield "the gate refused it, although a thought stands behind it"


def is_guarded(before: Before, made: Made) -> bool:
    tools = before.rules.tools
    return made.call.name in tools and tools[made.call.name].guarded


def is_covered(before: Before, call: Made) -> bool:
    guarded = {name for name, kind in before.rules.tools.items() if kind.guarded}
    return behind(before.said, call.call, guarded) is not None


def a_thought_is_forced_for_a_reason(before: Before, message: Message) -> Complaints:
    """§5.2: at the start of a turn, after an action if always, and after a refusal of the gate."""
    if not isinstance(message, Assistant) or message.tool_choice != THINK:
        return
    if not before.rules.thinks or not may_force(before):
        yield "a thought was forced without a reason"


def may_force(before: Before) -> bool:
    if before.rules.force == "first" and not before.thoughts:
        return True
    # Two readings of "after every action": an action that was refused is one, or is none.
    last = [made for made in before.made if made.result][-1:]
    is_read = bool(last) and last[0] in before.thoughts and not last[0].failed
    if before.rules.force == "always" and not is_read:
        return True
    return lacks_a_thought(before, before.made)


def lacks_a_thought(before: Before, calls: Sequence[Made]) -> bool:
    """Did the gate refuse one of these calls, and has nothing been thought since?"""
    refused = [made.at for made in calls if made.refused == "gate"]
    thought = [made.at for made in before.thoughts if made.covers]
    return max(refused, default=-1) > max(thought, default=-1)


def a_thought_is_forced(before: Before, message: Message) -> Complaints:
    """§5.2, the other way round. A policy of the user may change the choice."""
    if not isinstance(message, Assistant) or message.tool_choice in (THINK, "none"):
        return
    if not before.rules.thinks or before.rules.speaks or may_stop_forcing(before):
        return
    is_first = not before.replies and before.rules.force != "never"
    if is_first or lacks_a_thought(before, before.calls):
        yield "no thought was forced"


def may_stop_forcing(before: Before) -> bool:
    """Was a choice ignored? (After how many the kit stops, this oracle does not judge.)"""
    replies = of_type(Assistant, [*before.earlier, *before.said])
    return any(reply.enforced == "ignored" for reply in replies)


# §5.3, §5.4 What runs, and what is refused.


def refusals_have_their_reason(before: Before, message: Message) -> Complaints:
    """The code of a refusal says the truth."""
    made = before.next_call
    if made is None or not isinstance(message, ToolResult) or not message.refused:
        return
    reasons = {"stopped"}  # a person speaks again: first, what was left open is answered
    if made.is_action:
        reasons |= lawful_refusals(before, made)
    if message.refused not in reasons:
        yield f"refused as {message.refused!r}; it could be {sorted(reasons)}"
    if made.starts and not message.in_doubt:
        yield "it was started, and its refusal does not say that it may have run"


def lawful_refusals(before: Before, made: Made) -> set[str]:
    rules = before.rules
    reasons = {
        "rule": rules.speaks,
        "gate": is_guarded(before, made) and not is_covered(before, made),
        "text": is_text(before, made) and not made.verdicts,
        "limit": bool(reached_limit(before, more_seconds=1)),
        "failed": rules.fail_fast and any(other.failed for other in before.calls),
        "repeat": has_just_succeeded(before, made),
    }
    return by_the_person(before, made) | {code for code, holds in reasons.items() if holds}


def by_the_person(before: Before, made: Made) -> set[str]:
    """Two readings: an edit that does not fit is a mistake of the person, or is invalid."""
    edits = [verdict.arguments for verdict in made.verdicts if verdict.arguments is not None]
    if None in [number(arguments) for arguments in edits]:
        return {"person", "invalid"}
    if not fits(before, made):
        return {"invalid"}
    if made.decision == "no":
        return {"person"}
    return set()


def fits(before: Before, made: Made) -> bool:
    return made.call.name in before.rules.tools and number(made.call.arguments) is not None


def is_text(before: Before, made: Made) -> bool:
    """§5.3: was it written as text, and would it change something?"""
    kind = before.rules.tools.get(made.call.name, Kind())
    return made.call.recovered and not kind.read_only


def only_what_fits_runs(before: Before, message: Message) -> Complaints:
    """§5.4: a call that runs fits its tool, and so does what a person made of it."""
    made = begins(before, message)
    if made and (not fits(before, made) or what_it_gets(before, made) is None):
        yield "it does not fit a tool, and it ran"


def what_needs_a_yes_has_one(before: Before, message: Message) -> Complaints:
    """§5.3, §5.4: nobody said no, and somebody said yes where that is needed."""
    made = begins(before, message)
    if made is None or not fits(before, made):
        return
    kind = before.rules.tools[made.call.name]
    if made.decision not in ("", "yes"):
        yield "a person did not say yes, and it ran"
    asks = needs_yes(kind, shown(before, made)) or is_text(before, made)
    if asks and not made.decision:
        yield "it needs a yes, and nobody was asked"


def a_start_is_recorded(before: Before, message: Message) -> Complaints:
    """§5.5: for a call that changes something, with its arguments, and a key if its tool takes
    one.
    """
    made = begins(before, message)
    if made is None or not fits(before, made):
        return
    kind = before.rules.tools[made.call.name]
    if kind.changes != isinstance(message, Started):
        yield "a start is recorded for calls that change something, and for no others"
    if isinstance(message, Started):
        if kind.keyed != bool(message.key):
            yield "a start has a key if its tool takes one"
        gets = what_it_gets(before, made)
        if number(as_started(message, made.notes, made.call)) != gets:
            yield f"it gets {gets}, and its start says something else"


def shown(before: Before, made: Made) -> int | None:
    """The `n` that a person is shown: what a policy of the user makes of what the model wrote."""
    n = number(made.call.arguments)
    return before.rules.edited.get(n, n)


def what_it_gets(before: Before, made: Made) -> int | None:
    """The `n` that the tool gets: what the last yes says, else what was shown."""
    said = [v.arguments for v in made.verdicts if v.arguments is not None]
    if said:
        return number(said[-1])
    return shown(before, made)


def nobody_is_asked_about_what_does_not_fit(before: Before, message: Message) -> Complaints:
    """§5.4: a call whose arguments do not validate is answered with that error."""
    made = before.next_call
    is_about_call = isinstance(message, Verdict) and message.call_id
    if made and is_about_call and not fits(before, made):
        yield "a person was asked about a call that does not fit its tool"


def every_yes_says_to_what(before: Before, message: Message) -> Complaints:
    """§5.4: `Verdict.arguments` is always there in a yes to a call."""
    is_yes = isinstance(message, Verdict) and message.decision == "yes"
    if is_yes and call_id_of(message) and message.arguments is None:  # type: ignore[union-attr]
        yield "a yes does not say to what"


def a_result_says_with_what_it_ran(before: Before, message: Message) -> Complaints:
    """§5.4: what a person or a policy changed stands in the result."""
    made = before.next_call
    if made is None or not isinstance(message, ToolResult) or message.refused:
        return
    told = made.call.arguments if message.arguments is None else message.arguments
    if made.is_action and number(told) != what_it_gets(before, made):
        yield f"it ran with {what_it_gets(before, made)}, and the result says {told}"


def failing_fast(before: Before, message: Message) -> Complaints:
    """`on_tool_error="fail_fast"`: nothing runs after the first call that failed."""
    if not before.rules.fail_fast or before.rules.can_ask:
        return
    if begins(before, message) and any(made.failed for made in before.ran):
        yield "it ran after a call that failed"


# §5.5 The same call.


def first_tries(before: Before, call: Made) -> list[Tried]:
    """The tries of this call that are not settled, in the whole conversation: with the same values,
    or in the same words.
    """
    n = what_it_gets(before, call)
    found, _ = tried([*before.earlier, *before.said])
    named = [one for one in found if one.name == call.call.name]
    return [one for one in named if number(one.ran) == n or one.written == bare(call.call)]


def calls_it_new(notes: Sequence[Message]) -> bool:
    """Did a person just say that the next call is a new one?"""
    return bool(notes) and isinstance(notes[-1], Verdict) and notes[-1].new


def has_just_succeeded(before: Before, call: Made) -> bool:
    """Has the same call by a tool that changes something succeeded in this reply?"""
    kind = before.rules.tools.get(call.call.name)
    if kind is None or not kind.changes:
        return False
    n = what_it_gets(before, call)
    for other in before.calls:
        is_same = other.call.name == call.call.name and what_it_gets(before, other) == n
        if is_same and other.ran and not other.failed:
            return True
    return False


def nothing_is_done_twice_in_one_reply(before: Before, message: Message) -> Complaints:
    """§5.5: the model has not read the first result yet."""
    made = begins(before, message)
    if made and isinstance(message, Started) and has_just_succeeded(before, made):
        yield "the same call has succeeded in this reply, and it runs again"


def nothing_runs_against_a_no(before: Before, message: Message) -> Complaints:
    """§5.7: a no is always taken."""
    made = begins(before, message)
    if made and made.decision in ("no", "quit"):
        yield f"it runs, and a person said {made.decision}"


def what_may_have_happened_is_not_repeated(before: Before, message: Message) -> Complaints:
    """§5.5: a call in doubt is started again only after a yes, or in the same turn with a key."""
    made = begins(before, message)
    if made is None or not isinstance(message, Started):
        return
    tries = first_tries(before, made)
    if isinstance(before.said[-1], Verdict) or not tries:
        return
    if not message.key:
        yield "it may have happened, and it is repeated without a yes"
    elif tries[-1].turn <= len(readings(before.earlier)):
        yield "it may have happened in an earlier turn, and nobody was asked"


def a_retry_has_the_key_of_the_first_try(before: Before, message: Message) -> Complaints:
    """§5.5: unless a person asked for a new one. No other call has the key of an earlier one."""
    made = begins(before, message)
    if made is None or not isinstance(message, Started):
        return
    if not message.key:
        return
    tries = first_tries(before, made)
    is_new = calls_it_new(made.notes) or not tries
    if not is_new and message.key != tries[-1].key:
        yield "a retry has another key than the first try"
    keys = [start.key for start in of_type(Started, [*before.earlier, *before.said])]
    if is_new and message.key in keys:
        yield "another call has the key of an earlier one"


# §5.6 What is said is checked.


def checks_run_when_it_is_done(before: Before, message: Message) -> Complaints:
    """§5.6: checks run when the model says that it is done, and at a limit."""
    if not isinstance(message, Checked):
        return
    says_so = before.says_done or before.is_silent or before.is_closing
    if not says_so and not reached_limit(before, more_seconds=1):
        yield "checked, although the model did not say that it is done"


def what_is_missing_is_told_twice_at_most(before: Before, message: Message) -> Complaints:
    """§5.6: and no second time if nothing ran since the first."""
    if not is_question(message, "check"):
        return
    if not before.missing:
        yield "the model was told that something is missing, and nothing is"
    if not may_tell_what_is_missing(before):
        yield "the model was told once more what is missing"


def may_tell_what_is_missing(before: Before) -> bool:
    if before.reply is None or before.is_closing:
        return False
    is_told = "check" in before.kinds(before.since_action)
    return not is_told and before.asked.count("check") < 2


def what_is_missing_is_told(before: Before, message: Message) -> Complaints:
    """§5.6, §2: once the checks have run, what is missing is what is said next."""
    if isinstance(message, Checked) or not isinstance(before.said[-1], Checked):
        return
    if is_question(message, "check") or is_last(message):
        return
    if before.rules.speaks:
        return
    if isinstance(message, Verdict):  # a person says first whether to go on
        return
    if before.missing and may_tell_what_is_missing(before):
        yield f"something is missing, and what comes next is {type(message).__name__}"


def nothing_is_closed_unchecked(before: Before, message: Message) -> Complaints:
    """§5.6: before the closing call of a signal the checks have run."""
    is_closing = isinstance(message, Assistant) and message.tool_choice == "none"
    if is_closing and not before.questions and before.missing is None:
        yield "the closing reply was asked for, and the checks have not run"


RULES: tuple[Callable[[Before, Message], Complaints], ...] = (
    answers_in_order,
    no_call_is_dropped,
    a_reply_follows_something_new,
    a_closing_reply_is_asked_as_one,
    an_end_is_an_end,
    a_pause_waits,
    a_finished_plan_is_the_answer,
    the_exit_is_true,
    a_limit_ends_the_work,
    a_limit_is_named_when_reached,
    nothing_is_asked_after_the_last_words,
    patience_ends,
    thoughts_in_a_row_are_told,
    one_question_at_a_time,
    a_nudge_has_its_reason,
    the_form_is_told,
    broken_replies_are_asked_about,
    a_question_about_silence_has_its_reason,
    silence_is_asked_about,
    repeats_are_told,
    a_guarded_call_has_its_thought,
    a_thought_is_forced_for_a_reason,
    a_thought_is_forced,
    refusals_have_their_reason,
    only_what_fits_runs,
    what_needs_a_yes_has_one,
    a_start_is_recorded,
    nobody_is_asked_about_what_does_not_fit,
    every_yes_says_to_what,
    a_result_says_with_what_it_ran,
    failing_fast,
    what_may_have_happened_is_not_repeated,
    nothing_is_done_twice_in_one_reply,
    nothing_runs_against_a_no,
    a_retry_has_the_key_of_the_first_try,
    checks_run_when_it_is_done,
    what_is_missing_is_told_twice_at_most,
    what_is_missing_is_told,
    nothing_is_closed_unchecked,
)


def judge(messages: Sequence[Message], rules: Rules) -> list[str]:
    """Everything that is wrong in a transcript: the rule, the place of the message, and why."""
    found = []
    for turn in turns(messages, rules):
        for place in range(1, len(turn.said)):
            before = Before(turn.said[:place], turn.earlier, rules)
            message = turn.said[place]
            for rule in RULES:
                number_of_message = len(turn.earlier) + place
                found += [
                    f"{rule.__name__} [{number_of_message}]: {why}" for why in rule(before, message)
                ]
    return found


def only_run_opens_a_turn(messages: Sequence[Message], texts: Sequence[str]) -> list[str]:
    """§2: a person's message is what was given to `run`."""
    said = [message.text for message in of_type(User, messages) if message.kind == "person"]
    if said == list(texts):
        return []
    return [f"only_run_opens_a_turn [0]: persons said {said}, and `run` got {list(texts)}"]


@dataclass(frozen=True)
class Ran:
    """A function that was called: after how many messages, with which `n` and key, and what came of
    it ("ok", "raise", "late", or "nothing": it said that nothing was done).
    """

    place: int
    name: str
    n: int
    key: str
    fault: str


def what_ran_was_next(messages: Sequence[Message], rules: Rules, ran: Sequence[Ran]) -> list[str]:
    """§5.4, §6: each function was called for the call that was next, with its arguments. §5.5: a
    call that changes something was called once for its start, with the key of it. Its result says
    what came of it.
    """
    found = []
    for row in ran:
        before = turns(messages[: row.place], rules)[-1]
        calls = [(made.call.name, what_it_gets(before, made)) for made in before.waiting[:1]]
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

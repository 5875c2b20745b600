"""Records of runs, and what a forger may do to them: for the tests of `audit/check.py`, and for the
table of its README.

Rule 1: a record is made by a run, with its agent, and is sound.
Rule 2: a forgery changes one thing in one place. Each kind is tried in every place where it can be.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, NamedTuple

from tests.support.agents import by_place
from think_agent import (
    Agent,
    Assistant,
    Checked,
    Ended,
    Message,
    Paused,
    ScriptedModel,
    Started,
    ToolCall,
    ToolResult,
    User,
    Verdict,
    tool,
)
from think_agent.audit.check import check
from think_agent.audit.reading import Record
from think_agent.messages import THINK_NAME
from think_agent.testing import call, think

Messages = list[Message]


@tool(read_only=True)
def look(order: str) -> str:
    """Look an order up."""
    return f"{order} costs 5"


@tool(think_first=True, needs_approval=True)
def pay(order: str, cents: int) -> str:
    """Pay an order back."""
    return f"paid {order}"


@tool
def ship(order: str) -> str:
    """Send an order."""
    return f"sent {order}"


@tool(idempotent=True)
def note(text: str) -> str:
    """Write a note."""
    return "noted"


@tool
def fail(order: str) -> str:
    """It does not return."""
    raise ConnectionError("no answer")


TOOLS = [look, pay, ship, note, fail]
PAYS = call("pay", order="A", cents=5)
DONE = think("All is done.", should_continue=False)


@dataclass
class Kept:
    """A sound record, and the agent that made it."""

    name: str
    agent: Agent
    messages: Messages

    def record(self, messages: Sequence[Message]) -> Record:
        header = json.loads(json.dumps(self.agent.made_of()))
        return Record(header, tuple(messages))


def made(name: str, *script: Any, answers: Sequence[Verdict] = (), **settings: Any) -> Kept:
    """A record of one run. The n-th question gets the n-th answer, also if it is planned again."""
    given = iter(answers)
    if answers:
        settings["approve"] = lambda asked: next(given)
    settings = {"force": "never", **settings}
    agent = Agent(ScriptedModel(by_place(*script)), TOOLS, **settings)
    return Kept(name, agent, list(agent.run("Do it.").transcript))


@cache
def records() -> tuple[Kept, ...]:
    """One run for each thing that a record can say."""
    yes, no = Verdict("yes", by="Ada"), Verdict("no", by="Ada", reason="not today")
    edited = Verdict("yes", arguments={"order": "A", "cents": 3}, by="Ada")
    missing = iter(["B is open", None])

    def nothing_is_open(turn: object) -> str | None:
        return next(missing, None)

    def never_done(turn: object) -> str | None:
        return "B is open"

    paid = (think("A is due."), PAYS)
    two_turns = made("two turns", call("look", order="A"), "5.", call("look", order="B"), "5, too.")
    more = two_turns.agent.run("And B?", transcript=two_turns.messages)
    return (
        made("a yes", paid, DONE, "Paid.", answers=[yes]),
        made("a no", paid, DONE, "Not paid.", answers=[no]),
        made("an edit", paid, DONE, "Paid 3.", answers=[edited]),
        made("a stop", paid, answers=[Verdict("quit", by="Ada")]),
        made("a pause", paid),
        made("the gate", PAYS, paid, DONE, "Paid.", answers=[yes]),
        made("no approval", call("ship", order="A"), call("note", text="sent"), DONE, "Sent."),
        made("calls in a row", (call("look", order="A"), call("ship", order="A")), "Sent."),
        made(
            "a check",
            call("ship", order="A"),
            DONE,
            call("ship", order="B"),
            DONE,
            "Sent.",
            done_when=[nothing_is_open],
        ),
        made("unmet", call("ship", order="A"), DONE, "Sent.", done_when=[never_done]),
        made("a limit", call("look", order="A"), call("look", order="B"), "So far.", max_actions=1),
        made("silence", think("There is more."), "I go on.", call("ship", order="A"), "Sent."),
        made("not readable", Assistant("?", stop_reason="malformed", mistake="No."), "Well."),
        made("wrong calls", call("fly"), call("look", to="A"), call("look", order="A"), "5."),
        made("empty", call("look", order="A"), "", "5."),
        made("a failure", call("fail", order="A"), DONE, "It may have happened."),
        replace(two_turns, messages=list(more.transcript)),
    )


# What a forger does: each function yields the place and the forged messages.

Forge = Callable[[Messages], Iterator[tuple[int, Messages]]]


def places(messages: Messages, *kinds: type, such: Callable[[Any], bool] = bool) -> Iterable[int]:
    """The places of such messages."""
    return [n for n, message in enumerate(messages) if isinstance(message, kinds) and such(message)]


def changed(messages: Messages, place: int, **fields: Any) -> tuple[int, Messages]:
    return (
        place,
        [
            *messages[:place],
            replace(messages[place], **fields),  # type: ignore[type-var]
            *messages[place + 1 :],
        ],
    )


def taken_out(*kinds: type, such: Callable[[Any], bool] = bool) -> Forge:
    def forge(messages: Messages) -> Iterator[tuple[int, Messages]]:
        for place in places(messages, *kinds, such=such):
            yield place, messages[:place] + messages[place + 1 :]

    return forge


def twice(*kinds: type) -> Forge:
    def forge(messages: Messages) -> Iterator[tuple[int, Messages]]:
        for place in places(messages, *kinds):
            yield place, messages[: place + 1] + messages[place:]

    return forge


def swapped(messages: Messages) -> Iterator[tuple[int, Messages]]:
    for place in range(len(messages) - 1):
        first, second = messages[place : place + 2]
        if first != second:
            yield place, [*messages[:place], second, first, *messages[place + 2 :]]


def with_fields(*kinds: type, such: Callable[[Any], bool] = bool, **fields: Any) -> Forge:
    """These fields get these values; a function makes one of the message."""

    def forge(messages: Messages) -> Iterator[tuple[int, Messages]]:
        for place in places(messages, *kinds, such=such):
            message = messages[place]
            values = {n: v(message) if callable(v) else v for n, v in fields.items()}
            yield changed(messages, place, **values)

    return forge


def with_calls(change: Callable[[ToolCall], ToolCall], such: Callable[[ToolCall], bool]) -> Forge:
    """One call of a reply is changed."""

    def forge(messages: Messages) -> Iterator[tuple[int, Messages]]:
        for place in places(messages, Assistant):
            calls = messages[place].tool_calls  # type: ignore[union-attr]
            for n, one in enumerate(calls):
                if such(one):
                    forged = (*calls[:n], change(one), *calls[n + 1 :])
                    yield changed(messages, place, tool_calls=forged)

    return forge


# Of what.


def is_action(message: Any) -> bool:
    return message.name != THINK_NAME


def is_thought(message: Any) -> bool:
    return message.name == THINK_NAME


def has_run(message: ToolResult) -> bool:
    return is_action(message) and not message.refused


def was_refused(message: ToolResult) -> bool:
    return bool(message.refused)


def has_failed(message: ToolResult) -> bool:
    return message.is_error and not message.refused


def is_of_other(message: ToolResult) -> bool:
    return message.name != "note"


def is_yes(verdict: Verdict) -> bool:
    return verdict.decision == "yes"


def is_no(verdict: Verdict) -> bool:
    return verdict.decision != "yes"


def is_of_person(message: User) -> bool:
    return message.kind == "person"


def is_of_kit(message: User) -> bool:
    return message.kind != "person"


def is_missing(check: Checked) -> bool:
    return check.missing is not None


def is_met(check: Checked) -> bool:
    return check.missing is None


def is_answer(end: Ended) -> bool:
    return end.exit != "declined"  # there, a reason is told


def is_closing(reply: Assistant) -> bool:
    return reply.tool_choice == "none"


def has_text(reply: Assistant) -> bool:
    return bool(reply.text)


# What is put in its place.


TO_WHAT = {"arguments": {"order": "A", "cents": 5}}


def others(message: Any) -> dict[str, Any]:
    """Other arguments than those of a message or call."""
    return {**(message.arguments or {}), "order": "Z"}


def with_arguments(one: ToolCall, **changes: Any) -> ToolCall:
    assert isinstance(one.arguments, dict)
    return replace(one, arguments={**one.arguments, **changes})


def emptied(one: ToolCall) -> ToolCall:
    return with_arguments(one, thought="")


def other_words(one: ToolCall) -> ToolCall:
    return with_arguments(one, thought="Another thought.")


def other_signal(one: ToolCall) -> ToolCall:
    assert isinstance(one.arguments, dict)
    signal = "true" if one.arguments["should_continue"] == "false" else "false"
    return with_arguments(one, should_continue=signal)


# In several messages.


def other_exits(messages: Messages) -> Iterator[tuple[int, Messages]]:
    exits = ["signal", "silence", "unmet", "declined", "refused", "truncated", "empty", "gave_up"]
    for place in places(messages, Ended):
        for exit in exits:
            if exit != messages[place].exit:  # type: ignore[union-attr]
                yield changed(messages, place, exit=exit)


def a_thought_put_in(messages: Messages) -> Iterator[tuple[int, Messages]]:
    """A thought before an action, with its result, so that it looks well considered."""
    for place in places(messages, Assistant, such=lambda reply: reply.tool_calls):
        thought = think("I have considered it.")
        thought = replace(thought, id="forged")
        calls = (thought, *messages[place].tool_calls)  # type: ignore[union-attr]
        noted = ToolResult("forged", THINK_NAME, "Thought recorded.")
        reply = replace(messages[place], tool_calls=calls)  # type: ignore[type-var]
        yield place, [*messages[:place], reply, noted, *messages[place + 1 :]]


def cut_off(messages: Messages) -> Iterator[tuple[int, Messages]]:
    for place in range(1, len(messages)):
        yield place, messages[:place]


def last_turn_out(messages: Messages) -> Iterator[tuple[int, Messages]]:
    requests = places(messages, User, such=is_of_person)
    for place in list(requests)[1:]:
        yield place, messages[:place]


class Forgery(NamedTuple):
    """What a forger does. `because`: why it cannot be noticed in every place, if it cannot."""

    what: str
    forge: Forge
    because: str = ""


SAID = "who said it, and in which words, follows from nothing"
FORGERIES = [
    Forgery("a result is taken out", taken_out(ToolResult)),
    Forgery("a start is taken out", taken_out(Started)),
    Forgery("a yes is taken out", taken_out(Verdict, such=is_yes)),
    Forgery("a no is taken out", taken_out(Verdict, such=is_no)),
    Forgery("a request is taken out", taken_out(User, such=is_of_person)),
    Forgery("a message of the kit is taken out", taken_out(User, such=is_of_kit)),
    Forgery(
        "a check is taken out",
        taken_out(Checked),
        "an agent without checks makes such a record, too",
    ),
    Forgery(
        "a reply is taken out",
        taken_out(Assistant),
        "at a limit no reply may be left to ask for",
    ),
    Forgery("two neighbors change places", swapped, "checks that ran before a reply"),
    Forgery(
        "a message is there twice",
        twice(User, Assistant, ToolResult, Started, Verdict, Ended, Paused),
        "requests, starts and answers are repeated after a crash",
    ),
    Forgery("a no becomes a yes", with_fields(Verdict, such=is_no, decision="yes", **TO_WHAT)),
    Forgery("a yes becomes a no", with_fields(Verdict, such=is_yes, decision="no")),
    Forgery("a yes is to other arguments", with_fields(Verdict, such=is_yes, arguments=others)),
    Forgery("a start has other arguments", with_fields(Started, arguments=others)),
    Forgery(
        "a result has other arguments",
        with_fields(ToolResult, such=has_run, arguments=others),
        "a policy may change the arguments of a call that has no start",
    ),
    Forgery(
        "a call has other arguments",
        with_calls(lambda one: replace(one, arguments=others(one)), is_action),
        "a model may write what it likes; the yes says to what it was",
    ),
    Forgery(
        "a call is of another tool",
        with_calls(lambda one: replace(one, name="note"), is_action),
        "as long as the call has neither start nor result",
    ),
    Forgery("a start is of another tool", with_fields(Started, name="note")),
    Forgery("a result is of another tool", with_fields(ToolResult, such=is_of_other, name="note")),
    Forgery(
        "what was refused has run",
        with_fields(ToolResult, such=was_refused, refused="", is_error=False),
        "a call that only reads has no start that is missing",
    ),
    Forgery(
        "what ran was refused",
        with_fields(
            ToolResult, such=has_run, refused="person", is_error=True, content="error: not run"
        ),
    ),
    Forgery(
        "a failure is none",
        with_fields(ToolResult, such=has_failed, is_error=False, in_doubt=False),
        SAID,
    ),
    Forgery(
        "a thought is emptied",
        with_calls(emptied, is_thought),
        "where no guarded call stands on it",
    ),
    Forgery(
        "the signal of a thought turns",
        with_calls(other_signal, is_thought),
        "while a later call or thought takes it back",
    ),
    Forgery("what was missing is there", with_fields(Checked, such=is_missing, missing=None)),
    Forgery("something is missing", with_fields(Checked, such=is_met, missing="C is open")),
    Forgery(
        "another exit",
        other_exits,
        "gave_up where something has failed: how patient a run is, is a setting",
    ),
    Forgery(
        "another answer at the end",
        with_fields(Ended, such=is_answer, answer="All is well."),
        "at a limit the kit may have written it",
    ),
    Forgery(
        "the closing reply is no closing one",
        with_fields(Assistant, such=is_closing, tool_choice="auto"),
    ),
    Forgery("other words of a thought", with_calls(other_words, is_thought), SAID),
    Forgery("other words of a result", with_fields(ToolResult, such=has_run, content="x"), SAID),
    Forgery("other words of a reply", with_fields(Assistant, such=has_text, text="x"), SAID),
    Forgery("other words of a person", with_fields(User, such=is_of_person, text="x"), SAID),
    Forgery("another person decided", with_fields(Verdict, by="Bob"), SAID),
    Forgery("another model replied", with_fields(Assistant, model="large"), SAID),
    Forgery(
        "a thought is put in before a call",
        a_thought_put_in,
        "with its result it is whole; a call that the gate had refused gives it away",
    ),
    Forgery("the end is cut off", cut_off, "a run may be stopped anywhere"),
    Forgery("the last turn is left out", last_turn_out, "nothing follows from it"),
]


class Count(NamedTuple):
    """In how many places a forgery was tried, and in how many it was noticed: by the record alone,
    and by the record and the plans of its agent together.
    """

    places: int
    alone: int
    with_agent: int


@cache
def count(what: str) -> Count:
    """The counts of a forgery, over all records."""
    [forgery] = [one for one in FORGERIES if one.what == what]
    places = alone = with_agent = 0
    for kept in records():
        for _, forged in forgery.forge(kept.messages):
            found = check(kept.record(forged), kept.agent)
            places += 1
            alone += bool(found.impossible)
            with_agent += bool(found.impossible or found.otherwise)
    return Count(places, alone, with_agent)


def table() -> str:
    """The counts of all forgeries, for a README."""
    rows = "| a forger | places | noticed by the record alone | with the agent | else |\n"
    rows += "|---|---|---|---|---|\n"
    for what, _, because in FORGERIES:
        places, alone, with_agent = count(what)
        rows += f"| {what} | {places} | {alone} | {with_agent} | {because} |\n"
    return rows

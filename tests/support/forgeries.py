"""Records of runs, and what a forger may do to them: for the tests of `audit/check.py`, and for the
table of its README.

Rule 1: a record is made by a run, with its agent, and is sound.
Rule 2: a forgery changes one thing in one place. Each kind is tried in every place where it can be.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

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


TOOLS = [look, pay, ship, note]
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
    open_end = iter(["B is open", None])

    def nothing_is_open(turn: object) -> str | None:
        return next(open_end, None)

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
        made("a pause", (call("look", order="A"), think("A is due."), PAYS)[1:]),
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


def is_action(message: Any) -> bool:
    return message.name != THINK_NAME


def is_thought(message: Any) -> bool:
    return message.name == THINK_NAME


def ran(message: Any) -> bool:
    return is_action(message) and not message.refused


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
    requests = places(messages, User, such=lambda message: message.kind == "person")
    for place in list(requests)[1:]:
        yield place, messages[:place]


def arguments(message: Any) -> dict[str, Any]:
    return {**(message.arguments or {}), "order": "Z"}


def of_kit(message: User) -> bool:
    return message.kind != "person"


def other_signal(one: ToolCall) -> ToolCall:
    assert isinstance(one.arguments, dict)
    signal = "true" if one.arguments["should_continue"] == "false" else "false"
    return replace(one, arguments={**one.arguments, "should_continue": signal})


def other_words(one: ToolCall) -> ToolCall:
    assert isinstance(one.arguments, dict)
    return replace(one, arguments={**one.arguments, "thought": "Another thought."})


FORGERIES: dict[str, Forge] = {
    "a reply is taken out": taken_out(Assistant),
    "a result is taken out": taken_out(ToolResult),
    "a start is taken out": taken_out(Started),
    "a yes is taken out": taken_out(Verdict, such=lambda v: v.decision == "yes"),
    "a no is taken out": taken_out(Verdict, such=lambda v: v.decision != "yes"),
    "a check is taken out": taken_out(Checked),
    "a message of the kit is taken out": taken_out(User, such=of_kit),
    "a request is taken out": taken_out(User, such=lambda m: not of_kit(m)),
    "a message is there twice": twice(User, Assistant, ToolResult, Started, Verdict, Ended, Paused),
    "two neighbors change places": swapped,
    "a no becomes a yes": with_fields(
        Verdict,
        such=lambda v: v.decision != "yes",
        decision="yes",
        arguments={"order": "A", "cents": 5},
    ),
    "a yes becomes a no": with_fields(Verdict, such=lambda v: v.decision == "yes", decision="no"),
    "a yes is to other arguments": with_fields(
        Verdict, such=lambda v: v.decision == "yes", arguments=arguments
    ),
    "a start has other arguments": with_fields(Started, arguments=arguments),
    "a result has other arguments": with_fields(ToolResult, such=ran, arguments=arguments),
    "a call has other arguments": with_calls(
        lambda one: replace(one, arguments=arguments(one)), is_action
    ),
    "a call is of another tool": with_calls(lambda one: replace(one, name="note"), is_action),
    "a start is of another tool": with_fields(Started, name="note"),
    "a result is of another tool": with_fields(ToolResult, name="note"),
    "what was refused has run": with_fields(
        ToolResult, such=lambda r: r.refused, refused="", is_error=False
    ),
    "what ran was refused": with_fields(
        ToolResult, such=ran, refused="person", is_error=True, content="error: not run"
    ),
    "the thought behind a call is emptied": with_calls(
        lambda one: replace(one, arguments={**one.arguments, "thought": ""}),
        is_thought,  # type: ignore[dict-item]
    ),
    "the signal of a thought turns": with_calls(other_signal, is_thought),
    "what was missing is there": with_fields(Checked, such=lambda c: c.missing, missing=None),
    "something is missing": with_fields(Checked, such=lambda c: not c.missing, missing="C is open"),
    "another exit": other_exits,
    "another answer at the end": with_fields(
        Ended, such=lambda e: e.exit != "declined", answer="All is well."
    ),
    "the closing reply is no closing one": with_fields(
        Assistant, such=lambda r: r.tool_choice == "none", tool_choice="auto"
    ),
    "a failure is none": with_fields(
        ToolResult, such=lambda r: r.is_error and not r.refused, is_error=False
    ),
    "other words of a thought": with_calls(other_words, is_thought),
    "other words of a result": with_fields(ToolResult, such=ran, content="other"),
    "other words of a reply": with_fields(Assistant, such=lambda r: r.text, text="Other."),
    "other words of a person": with_fields(User, such=lambda m: not of_kit(m), text="Other."),
    "another person": with_fields(Verdict, by="Bob"),
    "another model": with_fields(Assistant, model="large"),
    "a thought is put in": a_thought_put_in,
    "the end is cut off": cut_off,
    "the last turn is left out": last_turn_out,
}

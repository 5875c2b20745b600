"""Explains each step of a run as text, for `/explain` and `--explain`.

1. next_step: the model is free to choose
     force_first: the model is told to call think
       -> think: Look it up first.
"""

from collections.abc import Iterable, Iterator, Sequence

from ..agent import Agent
from ..audit import words
from ..audit.explain import Explained, explain
from ..loop import AskHuman, CallModel, CallTool, Check, Done, Refuse, Step
from ..messages import Assistant, Message, ToolCall, ToolResult, User, Verdict
from ..text import shorten
from ..think import THINK, should_continue, thought
from ..tools import signature


def of_last_turn(agent: Agent, transcript: Sequence[Message]) -> list[Explained]:
    """The steps of the last turn of a conversation."""
    begins = 0
    for place, message in enumerate(transcript):
        if isinstance(message, User) and message.kind == "person":
            begins = place
    before = explain(agent, transcript[:begins])
    return explain(agent, transcript)[len(before) :]


def explained(steps: Iterable[Explained]) -> Iterator[tuple[str, str]]:
    """Lines that say why each step was taken: what `next_step` planned, which policies changed it,
    and the messages that followed. A line is a mark, and a text that wraps beside it.
    """
    for number, step in enumerate(steps, 1):
        mark = f"{number:>3}."
        for who, what in step.planned:
            yield mark, f"{who}: {planned(what)}"
            mark = "    "
        for message in step.came:
            for line in came(message):
                yield "       ->", line
        if not step.as_recorded:
            yield "       !!", "as recorded; with these settings it would differ"


def planned(step: Step) -> str:
    """The text for a planned step."""
    match step:
        case CallModel(say=User(kind=kind)):
            return f"the model is {words.asked(step)}, with a {kind} question"
        case CallModel():
            return f"the model is {words.asked(step)}"
        case CallTool(call):
            return f"run {call.name}"
        case Refuse(call, code):
            return f"refuse {call.name} ({code})"
        case AskHuman():
            return "ask a person"
        case Check(names):
            return f"check {', '.join(names)}"
        case Done(exit):
            return f"end ({exit})"


def came(message: Message) -> Iterator[str]:
    """The text for a message that followed a step: one line, or one for each call."""
    match message:
        case Assistant(tool_calls=[_, *_] as calls):
            for call in calls:
                yield _called(call)
        case Assistant(words=text):
            yield shorten(text, 100)
        case ToolResult(name=name, content=content):
            yield f"{name} gave: {shorten(words.gave(content, None), 100)}"
        case User(kind=kind):
            yield f"the {kind} question"
        case Verdict():
            yield words.decided(message)


def _called(call: ToolCall) -> str:
    if call.name != THINK.name:
        return shorten(signature(call), 100)
    name = call.name
    if should_continue(call) is False:
        name += ', should_continue "false"'
    return f"{name}: {shorten(thought(call), 100)}"

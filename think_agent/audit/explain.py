"""Says why the loop took each step. Planning is pure, so every step can be planned again.

Limitations: it shows what this agent would do now. If its settings were different then, or what its
functions look at, the plan differs from the record, and `remark` says so.
"""

import inspect
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import inf
from typing import NamedTuple

from ..agent import Agent
from ..loop import (
    AskHuman,
    Bounds,
    CallModel,
    CallTool,
    Check,
    Done,
    Policy,
    Refuse,
    Step,
    next_step,
)
from ..messages import (
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
from ..outcome import pluralize
from ..policies.doubt import Doubts
from ..text import shorten
from ..think import bare
from ..tools import signature
from ..turn import Turn
from . import words

LATEST = 12  # messages, of which a step shows what the model was told
ANOTHER = "as recorded; now another step is planned: settings, or the world, have changed since"
BY_A_POLICY = "as recorded: a policy of the agent changed it"


@dataclass
class Explained:
    """Why a step of a run was taken, as text.

    `turn`: the number of its turn. `facts`: what the transcript said by then, by name. `planned`:
    who planned which step, and what that is for: `next_step`, then each policy that changed it.
    `passed`: the policies that left it as it was. `came`: what followed. `remark`: how what
    followed differs from the plan; empty if it does not.
    """

    turn: int
    facts: list[tuple[str, str]]
    planned: list[tuple[str, str, str]]
    passed: list[str]
    came: list[str]
    remark: str = ""


def explain(agent: Agent | None, transcript: Iterable[Message]) -> list[Explained]:
    """Each step of a transcript, planned again from the messages before it. While a turn is open,
    the last one is what this agent would do next. Without an agent, only `next_step` plans.
    """
    policies = agent.policies() if agent else []
    return [_explained(turn, policies, came) for _, turn, came in _planned_steps(transcript)]


class Difference(NamedTuple):
    """Where a policy would have stepped in: in which run, and before which of its messages, both
    counted from 0. `step`: what it would have done.
    """

    run: int
    place: int
    step: Step


def backtest(policy: Policy, runs: Iterable[Iterable[Message]]) -> list[Difference]:
    """Where `policy` would have stepped in, in runs of yesterday; no model and no tool is asked.

    Only the first difference of a turn is sure: after it, the run might have gone another way.
    """
    found: list[Difference] = []
    for number, messages in enumerate(runs):
        for place, turn, came in _planned_steps(messages):
            planned = next_step(turn)
            changed = policy(planned, turn)
            was_done = came and _fits(changed, came[-1])  # then, too
            if changed != planned and not was_done:
                found.append(Difference(number, place, changed))
    return found


def _explained(turn: Turn, policies: list[Policy], came: Sequence[Message]) -> Explained:
    """What comes after `turn`, and why."""
    step = next_step(turn)
    planned = [("next_step", _in_words(step), _reason(step, turn))]
    passed = []
    for policy in policies:
        changed = policy(step, turn)
        text = _in_words(changed)
        if changed == step and text == _in_words(step):  # seconds are shown, but not compared
            passed.append(policy.__name__)
        else:
            planned.append((policy.__name__, text, _purpose(policy)))
        step = changed  # also if it is equal: what policies have found out is not compared
    lines = [line for message in came for line in words.lines(message)]
    remark = ""
    if came and not _fits(step, came[-1]):
        remark = ANOTHER if policies else BY_A_POLICY
    facts = list(_facts(turn))
    return Explained(len(turn.history.starts), facts, planned, passed, lines, remark)


def _facts(turn: Turn) -> Iterator[tuple[str, str]]:
    """What the transcript says, as far as it counts for the next step."""
    if turn.request:
        yield "the person asked", shorten(turn.request.text)
    yield from reversed(list(_told(turn)))
    if turn.pending:
        call = turn.pending[0]
        thought = turn.thought_behind(call)
        yield "the next call", signature(call)
        if thought:
            yield f"behind it, {words.HOW[thought.how]}", thought.text
        if turn.history.read(Doubts).find(bare(call), ""):
            yield "in doubt", "the same call may have happened before"
    replies = pluralize(len(turn.replies), "model call")
    yield "so far", f"{replies}, {pluralize(len(turn.actions), 'action')}"


def _told(turn: Turn) -> Iterator[tuple[str, str]]:
    """What the model was told, the latest first, and whether it has replied since."""
    when = "new since then"
    for message in reversed(turn.history.spoken[-LATEST:]):
        if isinstance(message, Assistant):
            when = "the model had read"
            continue
        for text in words.lines(message):
            yield when, text


def _reason(step: Step, turn: Turn) -> str:
    """Why `next_step` plans this: the rule of the loop that holds here."""
    match step:
        case CallModel() if turn.says_done:
            return "A thought said that all is done; the closing reply gives the answer."
        case CallModel() if isinstance(turn.last, User):
            return "A message waits for a reply."
        case CallModel():
            return "Every call has its result, and the model has not read the latest."
        case CallTool():
            return "This call has no result yet."
        case Done(exit):
            return words.why_ended(exit)
    return ""


def _purpose(policy: Policy) -> str:
    """What a policy is for: the first paragraph of its docstring, or of its module's."""
    text = inspect.getdoc(policy) or inspect.getdoc(inspect.getmodule(policy)) or ""
    return " ".join(text.partition("\n\n")[0].split())


def _in_words(step: Step) -> str:
    """The text for a planned step."""
    match step:
        case CallModel(choice, say, bounds):
            asked = f"the model is {words.asked(choice)}{_bounds_in_words(bounds)}"
            if say:
                return f"{asked}, with a {say.kind} question: {shorten(say.text)}"
            return asked
        case CallTool(call):
            return f"run {call.name}"
        case Refuse(call, code, reason):
            return f"refuse {call.name} ({code}): {shorten(reason)}"
        case AskHuman(question):
            return f"ask a person: {shorten(question)}"
        case Check(names):
            return f"check {', '.join(names)}"
        case Done(exit):
            return f"end ({exit})"


def _bounds_in_words(bounds: Bounds) -> str:
    text = ""
    if bounds.max_output_tokens is not None:
        text += f", at most {bounds.max_output_tokens:,} tokens"
    if bounds.seconds < inf:
        text += f", within {bounds.seconds:.0f} s"
    if bounds.output_schema is not None:
        text += ", in the form of the answer"
    return text


def _planned_steps(
    transcript: Iterable[Message],
) -> Iterator[tuple[int, Turn, list[Message]]]:
    """Each step that can be planned: the place of its first message, the Turn before it, and what
    came of it, without a start, and without what a person asked.
    """
    turn = Turn()
    place = 0
    for recorded in _by_step(transcript):
        came: list[Message] = []
        for message in recorded:
            if not isinstance(message, Started) and not is_request(message):
                came.append(message)
        # Nothing is planned before a request, or for a turn that is over.
        if turn.last and (came or not turn.ended):
            yield place, turn, came
        for message in recorded:
            turn.add(message)
        place += len(recorded)


def _by_step(transcript: Iterable[Message]) -> Iterator[list[Message]]:
    """The messages of a transcript, step by step. A person's message is the last of its step."""
    recorded: list[Message] = []
    for message in transcript:
        recorded.append(message)
        if is_request(message) or not isinstance(message, User | Started):
            yield recorded
            recorded = []
    yield recorded  # the run may have stopped in the middle of a step


def is_request(entry: object) -> bool:
    """Is this a message of a person, which begins a turn?"""
    return isinstance(entry, User) and entry.kind == "person"


def _fits(step: Step, message: Message) -> bool:
    """Does this message fit the step, as far as that can be known?"""
    match step, message:
        case (
            (CallModel(tool_choice=planned), Assistant(tool_choice=found))
            | (Refuse(code=planned), ToolResult(refused=found))
            | (Done(exit=planned), Ended(exit=found))
        ):
            return planned == found
        case (CallTool(), ToolResult(refused="")) | (Check(), Checked()) | (AskHuman(), Verdict()):
            return True
        case Done(exit="needs_human"), Paused() | Verdict():
            return True
    return False

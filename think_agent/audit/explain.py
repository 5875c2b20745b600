"""Explains why the loop took each step. Planning is pure, so every step can be planned again.

Limitations: it shows what this agent would do now. If its settings have changed since, or the world
its functions look at, the plan differs from the record, and `remark` says so.
"""

import inspect
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import inf

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
from ..messages import Assistant, Message, Started, User
from ..outcome import pluralize
from ..policies.doubt import Doubts
from ..text import shorten
from ..think import bare
from ..tools import signature
from ..turn import Turn
from . import words
from .planned import RecordedStep, differs, is_request, read_steps

LATEST = 12  # messages that a step shows of what the model has read
ANOTHER = "as recorded; now another step is planned: settings, or the world, have changed since"
BY_A_POLICY = "as recorded: a policy of the agent changed it"
NOT_PLANNED = "recorded when the person said something else: nothing more was done for it"
STOPPED = "started, and the run was stopped before it returned"


@dataclass
class Explained:
    """Why a run took a step, as text.

    `turn`: the number of its turn. `facts`: what the transcript said at that time, by name.
    `planned`: the planned step, who planned it and why: `next_step`, then each policy that changed
    it. `passed`: the policies that didn't change it. `came`: what followed. `remark`: how that
    differs from the plan; empty if it doesn't. `is_odd`: it shouldn't differ.
    """

    turn: int
    facts: list[tuple[str, str]]
    planned: list[tuple[str, str, str]]
    passed: list[str]
    came: list[str]
    remark: str = ""
    is_odd: bool = False

    @property
    def title(self) -> str:
        """The step on one line: the plan, or what followed instead."""
        if self.remark and self.came:
            return self.came[0]
        return self.planned[-1][1]


def explain(agent: Agent | None, transcript: Iterable[Message]) -> list[Explained]:
    """Each step of a transcript, planned again from the messages before it. If a turn is open, the
    last one is what this agent would do next. Without an agent, only `next_step` plans.
    """
    policies = agent.policies() if agent else []
    found: list[Explained] = []
    for step in read_steps(transcript):
        if step.turn.last is None or (step.messages and is_request(step.messages[0])):
            continue
        if step.messages or not step.turn.ended:
            found.append(_explain_step(step, policies))
    return found


def _explain_step(step: RecordedStep, policies: list[Policy]) -> Explained:
    """Explain one step."""
    turn = step.turn
    planned = next_step(turn)
    shown = [("next_step", in_words(planned), _reason(planned, turn))]
    passed = []
    for policy in policies:
        changed = policy(planned, turn)
        text = in_words(changed)
        if changed == planned and text == in_words(planned):  # seconds aren't compared
            passed.append(policy.__name__)
        else:
            shown.append((policy.__name__, text, _purpose(policy)))
        planned = changed  # even if it's equal, because some fields aren't compared
    came = [line for message in step.messages for line in words.say_lines(message)]
    is_other = differs(planned, step)
    remark = ""
    if step.is_opening:
        remark = NOT_PLANNED
    elif is_other:
        remark = ANOTHER if policies else BY_A_POLICY
    elif step.messages and isinstance(step.messages[-1], Started):
        remark = STOPPED
    return Explained(
        turn=len(turn.history.starts),
        facts=list(_facts(turn)),
        planned=shown,
        passed=passed,
        came=came,
        remark=remark,
        is_odd=is_other and bool(policies),
    )


def _facts(turn: Turn) -> Iterator[tuple[str, str]]:
    """The facts in the transcript that matter for the next step."""
    if turn.request:
        yield "the person asked", shorten(turn.request.text)
    yield from reversed(list(_find_told(turn)))
    if turn.pending:
        call = turn.pending[0]
        thought = turn.thought_behind(call)
        yield "the next call", signature(call)
        if thought:
            yield f"its thought, {words.HOW[thought.how]}", thought.text
        if turn.history.read(Doubts).find(bare(call), ""):
            yield "in doubt", "the same call may have happened before"
    replies = pluralize(len(turn.replies), "model call")
    yield "so far", f"{replies}, {pluralize(len(turn.actions), 'action')}"


def _find_told(turn: Turn) -> Iterator[tuple[str, str]]:
    """What the model has read, latest first, and whether it has replied since."""
    when = "new since then"
    for message in reversed(turn.history.spoken[-LATEST:]):
        if isinstance(message, Assistant):
            when = "the model had read"
            continue
        for text in words.say_lines(message):
            yield when, text


def _reason(step: Step, turn: Turn) -> str:
    """Why `next_step` plans this: the loop's rule that applies."""
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
    """A policy's purpose: the first paragraph of its docstring, or of its module's."""
    text = inspect.getdoc(policy) or inspect.getdoc(inspect.getmodule(policy)) or ""
    return " ".join(text.partition("\n\n")[0].split())


def in_words(step: Step) -> str:
    """A planned step as text."""
    match step:
        case CallModel(choice, say, bounds):
            asked = f"the model is {words.say_choice(choice)}{_bounds_in_words(bounds)}"
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

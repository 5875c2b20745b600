"""The loop: one pure function that says what comes next, and two drivers that do it.

    next_step(transcript) -> CallModel | CallTool | Refuse | AskHuman | Check | Done

Rule 1: `next_step` reads the transcript and nothing else: no clock, no network, no state.
Rule 2: one call is one step, so whatever is decided about a call is decided knowing how the one
        before it went.
Rule 3: a policy `(step, turn) -> step` may replace what was planned. Forcing, limits and the like
        live there.
Rule 4: a driver plans a step, performs what it asks for, one thing after another, and reads what
        came of that before it plans the next. `run` and `arun` differ in `async` alone. Streaming,
        resuming and approval have no loop of their own.
Rule 5: whether a turn is over is read from its `Ended` message, and never planned again.

There are two ways out that a model takes. *Signal*: a thought said `should_continue` false; all
calls of that reply are still answered, then one last model call without tools gives the answer. (If
one of those calls was refused, the signal does not count.) *Silence*: the model called no tool; its
words are the answer. A policy may take a third: a limit asks for closing words, in such a last
model call.
"""

from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from .messages import BROKEN_OFF, MESSAGES, Exit, Json, Message, ToolCall, ToolChoice, User
from .turn import Turn


@dataclass(frozen=True, slots=True)
class CallModel:
    """Ask the model. `say` is a message of the kit that goes into the transcript first."""

    tool_choice: ToolChoice = "auto"
    say: User | None = None


@dataclass(frozen=True, slots=True)
class CallTool:
    """Perform this call: a call of think gets its answer, for any other the tool's function runs.
    `received`: the arguments as that function will get them, once they were validated
    (`policies/approval.py`).
    """

    call: ToolCall
    received: Json | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Refuse:
    """Answer this call with an error instead of running it. The model reads `reason`, programs the
    `code` (`ToolResult.refused`).
    """

    call: ToolCall
    code: str
    reason: str


@dataclass(frozen=True, slots=True)
class AskHuman:
    """A person has to decide before the run can go on: about `call`, behind which stands `thought`,
    or about going on at all. The arguments of `call` are as the model wrote them, and may be
    edited; `received` are those that the function will get.
    """

    question: str
    call: ToolCall | None = None
    thought: str = ""
    received: Json | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Check:
    """Run the checks of these names: is what the model says true?"""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Done:
    """The turn is over."""

    exit: Exit
    answer: str = ""


Step = CallModel | CallTool | Refuse | AskHuman | Check | Done
Policy = Callable[[Step, Turn], Step]

NUDGE = User(
    "Your last reply was empty. Go on, or give the final answer in plain words.", kind="nudge"
)


def next_step(transcript: Turn | Iterable[Message]) -> Step:
    """What comes next. The transcript must hold at least what a person said."""
    turn = Turn.of(transcript)
    reply = turn.reply
    if turn.ended:
        return Done(turn.ended.exit, turn.answer)
    if reply is None or isinstance(turn.last, User):  # nothing replied yet, to person or kit
        return _call_model(turn)
    # For a malformed reply the policy `ask_for_format` always plans another step.
    if not reply.is_usable and reply.stop_reason != "malformed":
        return Done(BROKEN_OFF.get(reply.stop_reason, "truncated"), reply.words)
    # Calls that stray into a last reply are not run, and no later request shows them.
    if turn.closed_by or not reply.tool_calls:
        return _end(turn, reply.words)
    if turn.pending:
        return CallTool(turn.pending[0])
    return _call_model(turn)


def _call_model(turn: Turn) -> CallModel:
    if turn.closing:
        return CallModel("none")
    return CallModel("auto")


def _end(turn: Turn, answer: str) -> Step:
    if answer:
        return Done(turn.closed_by or "silence", answer)
    if turn.asked["nudge"]:  # once a turn
        return Done("empty")
    if turn.closed_by:
        return CallModel("none", say=NUDGE)
    return CallModel("auto", say=NUDGE)


def plan(transcript: Turn | Iterable[Message], policies: Iterable[Policy] = ()) -> Step:
    """The next step after every policy has had its say, in order."""
    turn = Turn.of(transcript)
    step = next_step(turn)
    if turn.ended:
        return step
    for policy in policies:
        step = policy(step, turn)
    return step


def run(
    turn: Turn,
    plan: Callable[[Turn], Step],
    effects: Callable[[Step, Turn], Iterable[Any]],
    perform: Callable[[Any], Iterable[Any]],
) -> Iterator[Any]:
    """Plan a step, perform its effects one after another, add each message that comes of them to
    the turn, and plan the next one; until a step is Done, whose effects are the last.

    `effects` (`effects.py`) lists what a step asks of the world: the answer to a call of think, a
    tool to be run, and for Done the message Ended. `perform` (`Run.do` in `running.py`) does one of
    them: `Agent.perform` asks the model and runs the tool.
    """
    step: Step | None = None
    while not isinstance(step, Done):
        step = plan(turn)
        for effect in effects(step, turn):
            for event in perform(effect):
                if isinstance(event, MESSAGES):
                    turn.add(event)
                yield event


async def arun(
    turn: Turn,
    plan: Callable[[Turn], Step],
    effects: Callable[[Step, Turn], Iterable[Any]],
    perform: Callable[[Any], AsyncIterable[Any]],
) -> AsyncIterator[Any]:
    """`run`, for a `perform` that waits."""
    step: Step | None = None
    while not isinstance(step, Done):
        step = plan(turn)
        for effect in effects(step, turn):
            async for event in perform(effect):
                if isinstance(event, MESSAGES):
                    turn.add(event)
                yield event

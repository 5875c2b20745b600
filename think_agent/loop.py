"""The loop: one pure function that says what comes next, and two drivers that do it.

    next_step(transcript) -> CallModel | CallTool | Refuse | AskHuman | Done

Rule 1: `next_step` reads the transcript and nothing else: no clock, no network, no state.
Rule 2: one call is one step, so whatever is decided about a call is decided knowing how the one
        before it went.
Rule 3: a policy `(step, turn) -> step` may replace what was planned. Forcing, limits and the like
        live there.
Rule 4: a driver does what the steps ask for, one thing after another, and reads what came of it,
        from which the next step is planned. `run` and `arun` differ in `async` alone. Streaming,
        resuming and approval have no loop of their own.

There are two ways out that a model takes. *Signal*: a thought said `should_continue` false; all
calls of that reply are still answered, then one last model call without tools gives the answer.
*Silence*: the model called no tool; its text is the answer. A policy may take a third: a limit asks
for closing words, in such a last call (`Turn.way_out` has all four reasons for one).
"""

from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias, TypeVar

from .messages import BROKEN_OFF, MESSAGES, Json, Message, ToolCall, ToolChoice, User
from .turn import Turn

Exit: TypeAlias = Literal[
    "signal",  # a thought said should_continue false, and a last call without tools gave the answer
    "silence",  # the model called no tool
    "limit",  # a limit on calls, actions or seconds was reached
    "budget",  # tokens or money ran out
    "gave_up",  # too many failures or repeats in a row
    "declined",  # a person stopped the run; a "no" to one call does not
    "needs_human",  # a person has to decide, and none is there
    "refused",  # the model or its provider refused
    "truncated",  # a reply broke off; its calls were not run
    "empty",  # no words even after a nudge
    "invalid_answer",  # the final answer does not fit the asked schema
]


@dataclass(frozen=True, slots=True)
class CallModel:
    """Ask the model. `say` is a message of the kit that goes into the transcript first."""

    tool_choice: ToolChoice = "auto"
    say: User | None = None


@dataclass(frozen=True, slots=True)
class CallTool:
    """Perform this call."""

    call: ToolCall


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
    received: Json | None = None


@dataclass(frozen=True, slots=True)
class Done:
    """The turn is over."""

    exit: Exit
    answer: str = ""


Step: TypeAlias = CallModel | CallTool | Refuse | AskHuman | Done
Policy: TypeAlias = Callable[[Step, Turn], Step]

NUDGE = User(
    "Your last reply was empty. Go on, or give the final answer in plain words.", kind="nudge"
)


def next_step(transcript: Turn | Iterable[Message]) -> Step:
    """What comes next. The transcript must hold at least what a person said."""
    turn = Turn.of(transcript)
    reply = turn.reply
    if reply is None or isinstance(turn.last, User):  # nothing replied yet, to person or kit
        return CallModel("none" if turn.way_out else "auto")
    if reply.stop_reason in BROKEN_OFF:  # half a reply (a malformed one: patience.py)
        return Done(BROKEN_OFF[reply.stop_reason], reply.words)
    if turn.final or not reply.tool_calls:  # the last reply; calls that stray into it are not run
        if reply.words:
            return Done(turn.final or "silence", reply.words)
        if turn.asked["nudge"]:  # once a turn
            return Done("empty")
        return CallModel("none" if turn.final else "auto", say=NUDGE)
    if turn.pending:
        return CallTool(turn.pending[0])
    return CallModel("none" if turn.way_out else "auto")


def plan(transcript: Turn | Iterable[Message], policies: Iterable[Policy] = ()) -> Step:
    """The next step after every policy has had its say, in order."""
    turn = Turn.of(transcript)
    step = next_step(turn)
    for policy in policies:
        step = policy(step, turn)
    return step


Effect = TypeVar("Effect")
Event = TypeVar("Event")


def planned(
    turn: Turn, plan: Callable[[Turn], Step], effects: Callable[[Step, Turn], Iterable[Effect]]
) -> Iterator[Effect]:
    """What one step after another asks of the world (`effects`), to the end. Each is planned when
    all that the one before it asked for is done, and what came of that is in `turn`. Done asks
    for something, too (to note the end, say), and is the last.
    """
    step: Step | None = None
    while not isinstance(step, Done):
        step, before = plan(turn), (len(turn.spoken), len(turn.notes))
        yield from effects(step, turn)
        # Else it would be planned for ever.
        if (len(turn.spoken), len(turn.notes)) == before and not isinstance(step, Done):
            raise RuntimeError(f"nothing came of {step}; a model must give an Assistant")


def run(
    turn: Turn, asked: Iterator[Effect], do: Callable[[Effect], Iterable[Event]]
) -> Iterator[Event]:
    """Do what is asked, one thing after another, and yield every event of it. `asked` is
    `planned(turn, ...)`: what comes next in it is planned from the messages that were read into the
    same `turn` here.
    """
    for effect in asked:
        for event in do(effect):
            if isinstance(event, MESSAGES):
                turn.add(event)
            yield event


async def arun(
    turn: Turn, asked: Iterator[Effect], do: Callable[[Effect], AsyncIterable[Event]]
) -> AsyncIterator[Event]:
    """`run`, for a `do` that waits."""
    for effect in asked:
        async for event in do(effect):
            if isinstance(event, MESSAGES):
                turn.add(event)
            yield event

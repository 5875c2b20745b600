"""The loop: one pure function that says what comes next, and two drivers that do it.

    next_step(transcript) -> CallModel | CallTools | Refuse | AskHuman | Done

Rule 1: `next_step` reads the transcript and nothing else: no clock, no network, no counters.
Rule 2: a policy `(step, transcript) -> step` may replace what was planned. Forcing, limits and the
        like live there.
Rule 3: a driver plans, performs, appends what came of it, and plans again. `run` and `arun` differ
        in `async` alone. Streaming, resuming and approval have no loop of their own.

There are two ways out. *Signal*: a thought said `should_continue` false; all calls of that reply
are still answered, then one last model call without tools gives the answer. *Silence*: the model
called no tool; its text is the answer.
"""

from collections.abc import (
    AsyncIterable,
    AsyncIterator,
    Callable,
    Iterable,
    Iterator,
    MutableSequence,
    Sequence,
)
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias, TypeVar

from .messages import (
    MESSAGES,
    Assistant,
    Message,
    ToolCall,
    ToolChoice,
    ToolResult,
    User,
    current_turn,
    paired,
    unanswered,
)
from .think import wants_to_leave

Exit: TypeAlias = Literal[
    "signal",  # a thought said should_continue false, and a last call without tools gave the answer
    "silence",  # the model called no tool
    "limit",  # a limit on calls, actions or seconds was reached
    "budget",  # tokens or money ran out
    "gave_up",  # too many failures or repeats in a row
    "declined",  # a person said no
    "needs_human",  # a person has to decide, and nobody is there
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
class CallTools:
    """Perform these calls, in order."""

    calls: tuple[ToolCall, ...]


@dataclass(frozen=True, slots=True)
class Refuse:
    """Answer this call with an error instead of running it. The model reads `reason`."""

    call: ToolCall
    reason: str


@dataclass(frozen=True, slots=True)
class AskHuman:
    """A person has to decide before the run can go on: about `call`, which stands behind `thought`,
    or about going on at all.
    """

    question: str
    call: ToolCall | None = None
    thought: str = ""


@dataclass(frozen=True, slots=True)
class Done:
    """The turn is over."""

    exit: Exit
    answer: str = ""


Step: TypeAlias = CallModel | CallTools | Refuse | AskHuman | Done
Policy: TypeAlias = Callable[[Step, Sequence[Message]], Step]

NUDGE = User(
    "Your last reply was empty. Go on, or give the final answer in plain words.", kind="nudge"
)
BROKEN_OFF: dict[str, Exit] = {
    "max_tokens": "truncated",
    "pause_turn": "truncated",
    "refusal": "refused",
}


def next_step(transcript: Sequence[Message]) -> Step:
    """What comes next. The transcript must hold at least what a person said."""
    turn = current_turn(transcript)
    reply, before, after = _last_reply(turn)
    spoken_since = bool(after) and isinstance(after[-1], User)
    if reply is None or spoken_since:  # nothing said yet, to the person or to the kit
        return CallModel("none" if _way_out(turn) else "auto")
    if reply.stop_reason in BROKEN_OFF:  # half a reply is never acted on
        return Done(BROKEN_OFF[reply.stop_reason], reply.text)
    exit = _way_out(before)
    if exit or not reply.tool_calls:  # the last reply; calls that stray into it are never run
        if reply.text.strip():
            return Done(exit or "silence", reply.text)
        nudged = any(isinstance(m, User) and m.kind == "nudge" for m in before)  # once a turn
        return Done("empty") if nudged else CallModel("none" if exit else "auto", say=NUDGE)
    if waiting := unanswered(reply, after):
        return CallTools(waiting)
    return CallModel("none" if _signaled(reply, after) else "auto")


def plan(transcript: Sequence[Message], policies: Iterable[Policy] = ()) -> Step:
    """The next step after every policy has had its say, in order."""
    step = next_step(transcript)
    for policy in policies:
        step = policy(step, transcript)
    return step


Plan: TypeAlias = Callable[[Sequence[Message]], Step]
Effect = TypeVar("Effect")
Event = TypeVar("Event")


def run(
    transcript: MutableSequence[Message],
    plan: Plan,
    effects: Callable[[Step], Iterable[Effect]],
    do: Callable[[Effect], Iterable[Event]],
) -> Iterator[Event | Done]:
    """Run to the end, yielding every event: messages as they are appended, whatever else `do`
    yields, then Done.

    `effects` lists what a step asks of the world; `do` performs one effect and yields events, a
    message among them.
    """
    while not isinstance(step := plan(transcript), Done):
        before = len(transcript)
        for effect in effects(step):
            for event in do(effect):
                if isinstance(event, MESSAGES):
                    transcript.append(event)
                yield event
        if len(transcript) == before:  # the same step would be planned for ever
            raise RuntimeError(f"nothing came of {step}; a model must give an Assistant")
    yield step


async def arun(
    transcript: MutableSequence[Message],
    plan: Plan,
    effects: Callable[[Step], Iterable[Effect]],
    do: Callable[[Effect], AsyncIterable[Event]],
) -> AsyncIterator[Event | Done]:
    """`run`, for a `do` that waits."""
    while not isinstance(step := plan(transcript), Done):
        before = len(transcript)
        for effect in effects(step):
            async for event in do(effect):
                if isinstance(event, MESSAGES):
                    transcript.append(event)
                yield event
        if len(transcript) == before:  # the same step would be planned for ever
            raise RuntimeError(f"nothing came of {step}; a model must give an Assistant")
    yield step


def _last_reply(
    turn: Sequence[Message],
) -> tuple[Assistant | None, Sequence[Message], Sequence[Message]]:
    """The last reply of a turn, with what came before and after it."""
    for index in range(len(turn) - 1, -1, -1):
        message = turn[index]
        if isinstance(message, Assistant):
            return message, turn[:index], turn[index + 1 :]
    return None, turn, ()


def _way_out(before: Sequence[Message]) -> Exit | None:
    """Why the reply that follows these messages is the final one; None when it is not."""
    results: list[Message] = []
    exit: Exit | None = None
    for message in reversed(before):
        match message:
            case User(kind="limit" | "budget" as kind):
                return kind
            case User(kind="answer"):  # it was given before, but not in the form that was asked
                exit = "silence"
            case ToolResult():
                results.insert(0, message)
            case Assistant() if results:  # one without was an empty attempt at the final reply
                return "signal" if _signaled(message, results) else exit
    return exit


def _signaled(reply: Assistant, results: Sequence[Message]) -> bool:
    """Did the last thought of this reply that was not refused signal the exit?"""
    heard = (call for call, result in paired(reply, results) if not (result and result.is_error))
    return wants_to_leave(replace(reply, tool_calls=tuple(heard)))

"""The loop: one pure function that says what comes next, and two drivers that do it.

    next_step(transcript)  -> CallModel | CallTool | Done
    policy(step, turn)     -> any step, also Refuse | AskHuman | Check

Rule 1: `next_step` reads the transcript and nothing else: no clock, no network, no state.
Rule 2: one call is one step. So a call is judged after the result of the call before it.
Rule 3: a policy `(step, turn) -> step` may replace the planned step. Forcing, limits and the like
        are policies.
Rule 4: a driver plans a step, performs its effects in order, and adds the new messages to the turn.
        Then it plans again. The only difference between `run` and `arun` is `async`. Streaming,
        resuming and approval have no loop of their own.
Rule 5: after `Ended`, the next step is that end, and no policy is asked.

A model can say in two ways that it is done. *Signal*: a thought said `should_continue` "false". All
calls of that reply are still answered. Then the model is called once more, without tools, and this
*closing reply* gives the answer. (If one of those calls was refused, the signal does not count.)
*Silence*: the model called no tool; its text is the answer. A policy can end a turn, too: at a
limit it asks for the closing reply.
"""

from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from .messages import MESSAGES, Exit, Json, Message, ToolCall, ToolChoice, User
from .turn import Turn


@dataclass(frozen=True)
class CallModel:
    """Ask the model. `say` is a message from the kit, which goes into the transcript first."""

    tool_choice: ToolChoice = "auto"
    say: User | None = None


@dataclass(frozen=True)
class CallTool:
    """Perform this call. The kit answers a call of think; for any other call the tool's function
    runs. `received`: the validated arguments, as the function will get them
    (`policies/approval.py`). The transcript decides them, so they are not compared.
    """

    call: ToolCall
    received: Json | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Refuse:
    """Answer this call with an error instead of running it. The model reads `reason`. Programs read
    `code` (`ToolResult.refused`).
    """

    call: ToolCall
    code: str
    reason: str


@dataclass(frozen=True)
class AskHuman:
    """A person has to decide before the run can go on: about `call`, or (no `call`) whether to go
    on at all. `thought` is the thought behind the call. The person may edit the arguments of
    `call`. `received` is what the function will get. If nobody can be asked, a policy plans
    `Done("needs_human")` instead.
    """

    question: str
    call: ToolCall | None = None
    thought: str = ""
    received: Json | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Check:
    """Run the checks with these names: is what the model said true?"""

    names: tuple[str, ...]


@dataclass(frozen=True)
class Done:
    """The run ends here."""

    exit: Exit
    answer: str = ""


Step = CallModel | CallTool | Refuse | AskHuman | Check | Done
Policy = Callable[[Step, Turn], Step]

NUDGE = User(
    "Your last reply was empty. Go on, or give the final answer in plain words.", kind="nudge"
)


def next_step(transcript: Turn | Iterable[Message]) -> Step:
    """What comes next. A transcript begins with a message from a person."""
    turn = Turn.of(transcript)
    reply = turn.reply
    if turn.ended:
        return Done(turn.ended.exit, turn.answer)
    if reply is None or isinstance(turn.last, User):  # a person or the kit waits for a reply
        return _call_model(turn)
    if not reply.is_usable:  # if it is malformed, the policy `ask_for_format` asks again
        exit: Exit = "truncated"
        if reply.stop_reason == "refusal":
            exit = "refused"
        return Done(exit, reply.words)
    # Calls in a closing reply are not run.
    if turn.closed_by or not reply.tool_calls:
        return _end(turn, reply.words)
    if turn.pending:
        return CallTool(turn.pending[0])
    return _call_model(turn)


def _call_model(turn: Turn, say: User | None = None) -> CallModel:
    if turn.closing:
        return CallModel("none", say)
    return CallModel("auto", say)


def _end(turn: Turn, answer: str) -> Step:
    if answer:
        return Done(turn.closed_by or "silence", answer)
    if turn.asked["nudge"]:  # once a turn
        return Done("empty")
    return _call_model(turn, NUDGE)


def plan(transcript: Turn | Iterable[Message], policies: Iterable[Policy] = ()) -> Step:
    """The next step, after every policy has judged it, in order."""
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
    """Plan a step. Perform its effects, one after another, and add each new message to the turn.
    Then plan again. It ends after the effects of Done.

    `effects` (`effects.py`) lists what a step asks for, such as the result of a call of think, a
    tool to be run or a request to the model; at the end of a turn, Ended. `perform` does one of
    these (`Run.do` in `running.py`). A message is only recorded. To ask the model or a person, and
    to run a tool (`tools.call`) or a check, it calls `Agent.perform` (`agent.py`). It yields
    events: the messages, and what is shown meanwhile.
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
    """`run`, for a `perform` that is async."""
    step: Step | None = None
    while not isinstance(step, Done):
        step = plan(turn)
        for effect in effects(step, turn):
            async for event in perform(effect):
                if isinstance(event, MESSAGES):
                    turn.add(event)
                yield event

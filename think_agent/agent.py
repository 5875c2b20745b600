"""An Agent: a model, tools, instructions and policies, put to work by the loop; an Outcome: what
came of it.

Rule 1: an agent keeps no conversation. The transcript is handed in and handed back, so
        `agent.run("and ORD-003?", transcript=outcome.transcript)` goes on where the last run ended.
Rule 2: what a step asks of the world is listed once (`_effects`) and performed in two ways: `_do`
        and `_ado`.
Rule 3: an Outcome is computed from the transcript; what it counts is what happened since a person
        last spoke.
"""

from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from . import think as thinking
from . import tools as toolbox
from . import trail
from .loop import (
    BROKEN_OFF,
    AskHuman,
    CallModel,
    CallTools,
    Done,
    Exit,
    Policy,
    Refuse,
    Step,
    arun,
    plan,
    run,
)
from .messages import (
    THINK_NAME,
    Assistant,
    Force,
    Message,
    ToolCall,
    ToolChoice,
    ToolResult,
    Usage,
    User,
    current_turn,
    mint_ids,
)
from .model import Model, Request, honored
from .policies import Forcing, gate, mend_format, stop_asking
from .policies import force as forcing
from .policies import max_model_calls as call_limit
from .streaming import Delta, Notice
from .think import THINK
from .tools import Tool
from .trail import Action


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run came to. `transcript` is everything ever said; the rest is about this turn
    alone.
    """

    answer: str
    exit: Exit
    transcript: tuple[Message, ...]
    usage: Usage

    @property
    def steps(self) -> tuple[Assistant, ...]:
        """The replies of the model, in order."""
        return tuple(m for m in current_turn(self.transcript) if isinstance(m, Assistant))

    @property
    def model_calls(self) -> int:
        """How often the model was asked."""
        return len(self.steps)

    @property
    def thoughts(self) -> tuple[str, ...]:
        """The thoughts, in order."""
        return tuple(trail.thoughts(current_turn(self.transcript)))

    @property
    def actions(self) -> tuple[Action, ...]:
        """The tool calls other than `think` that were run, in order, each with its thought."""
        return tuple(trail.actions(current_turn(self.transcript)))

    @property
    def behind_a_thought(self) -> int:
        """How many of the actions stand behind a thought."""
        return sum(action.thought is not None for action in self.actions)

    @property
    def ignored_choices(self) -> int:
        """How many replies did not do what their tool choice asked."""
        return trail.ignored_choices(current_turn(self.transcript))


Event: TypeAlias = Delta | Notice | Message | Outcome
Effect: TypeAlias = User | Request | ToolCall | ToolResult


class Agent:
    """A model with tools and instructions.

    - `force`: when `think` is forced, see `policies.force`.
    - `think`: the think tool, THINK or THINK_MINIMAL; None for an agent without one.
    - `policies`: further `(step, transcript) -> step` functions, applied after the agent's own.
    - `max_model_calls`: model calls a turn; the last one is for the closing words.
    - `max_thoughts_in_a_row`: after so many turns of thinking only, the tool result says that it is
      time to act.
    - `max_result_chars`: longer tool results are cut, with a note of how much.

    Raises ValueError or TypeError for settings that cannot work.
    """

    def __init__(
        self,
        model: Model,
        tools: Iterable[Tool] = (),
        *,
        instructions: str = "",
        force: Forcing = "first",
        think: Tool | None = THINK,
        policies: Iterable[Policy] = (),
        max_model_calls: int = 30,
        max_thoughts_in_a_row: int = 3,
        max_result_chars: int = toolbox.MAX_RESULT_CHARS,
    ) -> None:
        if (
            force == "always"
            and think is not None
            and "should_continue" not in think.parameters["properties"]
        ):
            raise ValueError(
                "force='always' needs the exit signal: with THINK_MINIMAL a run could never end"
            )
        if think is None and force == "always":
            raise ValueError("force='always' needs a think tool; think=None leaves none to force")
        if think is not None and think.name != THINK_NAME:
            raise ValueError(f"the think tool must be named {THINK_NAME!r}, not {think.name!r}")
        forced = forcing(force)
        self.model = model
        self.instructions = instructions
        self.think = think
        self.tools = toolbox.index(tools, reserved=THINK_NAME)
        self._shown = (*([think] if think else []), *self.tools.values())
        guarded = {item.name for item in self.tools.values() if item.think_first}
        if guarded and not think:
            raise ValueError(f"{', '.join(guarded)}: think_first needs an agent with a think tool")
        self._policies = (
            mend_format,
            forced if think else forcing("never"),
            gate(guarded),
            stop_asking,
            call_limit(max_model_calls),
            *policies,
        )
        self._max_thoughts = max_thoughts_in_a_row
        self._max_chars = max_result_chars

    def run(
        self,
        text: str,
        *,
        transcript: Sequence[Message] | None = None,
        on_event: Callable[[Event], None] | None = None,
    ) -> Outcome:
        """Work on `text` until the turn is over.

        `transcript` is the conversation so far. `on_event` is called with every event of the run as
        it happens: Deltas, Notices, messages, and the Outcome. Raises ModelError when the model
        cannot be reached or read.
        """
        for event in self._events(text, transcript, streamed=on_event is not None):
            if on_event:
                on_event(event)
        assert isinstance(event, Outcome)
        return event

    async def arun(
        self,
        text: str,
        *,
        transcript: Sequence[Message] | None = None,
        on_event: Callable[[Event], None] | None = None,
    ) -> Outcome:
        """`run` without blocking the event loop."""
        async for event in self._aevents(text, transcript, streamed=on_event is not None):
            if on_event:
                on_event(event)
        assert isinstance(event, Outcome)
        return event

    def stream(self, text: str, *, transcript: Sequence[Message] | None = None) -> Iterator[Event]:
        """The events of a whole run as they happen; the last one is the Outcome."""
        return self._events(text, transcript, streamed=True)

    def astream(
        self, text: str, *, transcript: Sequence[Message] | None = None
    ) -> AsyncIterator[Event]:
        """`stream`, for `async for`."""
        return self._aevents(text, transcript, streamed=True)

    def next_step(self, transcript: Sequence[Message]) -> Step:
        """What this agent would do next: `loop.next_step` after all of its policies."""
        return plan(transcript, self._policies)

    def _events(
        self, text: str, transcript: Sequence[Message] | None, streamed: bool
    ) -> Iterator[Event]:
        messages = [*(transcript or ()), User(text)]
        yield messages[-1]
        for event in run(
            messages, self.next_step, lambda step: self._effects(step, messages), self._do(streamed)
        ):
            yield _outcome(event, messages) if isinstance(event, Done) else event

    async def _aevents(
        self, text: str, transcript: Sequence[Message] | None, streamed: bool
    ) -> AsyncIterator[Event]:
        messages = [*(transcript or ()), User(text)]
        yield messages[-1]
        effects = lambda step: self._effects(step, messages)  # noqa: E731
        async for event in arun(messages, self.next_step, effects, self._ado(streamed)):
            yield _outcome(event, messages) if isinstance(event, Done) else event

    def _effects(self, step: Step, transcript: Sequence[Message]) -> Iterator[Effect]:
        """What a step asks of the world, one thing at a time; each is in the transcript before the
        next is listed.
        """
        match step:
            case CallModel(tool_choice=choice, say=say):
                if say:
                    yield say
                yield Request(
                    tuple(transcript), self._shown, tool_choice=choice, system=self.instructions
                )
            case CallTools(calls=calls):
                for call in calls:
                    if call.name == THINK_NAME and self.think:
                        yield self._think_result(call, transcript)
                    else:
                        yield call
            case Refuse(call=call, reason=reason):
                yield ToolResult(call.id, call.name, f"error: {reason}", True, refused=True)
            case AskHuman(question=question):
                raise TypeError(
                    f"a policy asked a person ({question!r}) and this agent has nobody to ask"
                )

    def _do(self, streamed: bool) -> Callable[[Effect], Iterator[Event]]:
        def do(effect: Effect) -> Iterator[Event]:
            match effect:
                case Request():
                    for event in (
                        self.model.stream(effect) if streamed else (self.model.complete(effect),)
                    ):
                        yield from _received(event, effect)
                case ToolCall():
                    yield toolbox.call(self.tools, effect, max_chars=self._max_chars)
                case message:
                    yield message

        return do

    def _ado(self, streamed: bool) -> Callable[[Effect], AsyncIterator[Event]]:
        async def do(effect: Effect) -> AsyncIterator[Event]:
            match effect:
                case Request() if streamed:
                    async for event in self.model.astream(effect):
                        for received in _received(event, effect):
                            yield received
                case Request():
                    for received in _received(await self.model.acomplete(effect), effect):
                        yield received
                case ToolCall():
                    yield await toolbox.acall(self.tools, effect, max_chars=self._max_chars)
                case message:
                    yield message

        return do

    def _think_result(self, call: ToolCall, transcript: Sequence[Message]) -> ToolResult:
        assert self.think is not None
        in_a_row = trail.thoughts_in_a_row(transcript)
        said = thinking.acknowledge(call, self.think, in_a_row=in_a_row, cap=self._max_thoughts)
        return ToolResult(call.id, call.name, said)


def _received(event: Delta | Assistant, request: Request) -> Iterator[Event]:
    """What the model sent, as it goes into the transcript: with ids, and checked against the tool
    choice that was asked.
    """
    if not isinstance(event, Assistant):
        yield event
        return
    choice = request.tool_choice
    reply = mint_ids(replace(event, tool_choice=choice), request.messages)
    if choice == "auto" or reply.stop_reason in BROKEN_OFF:
        yield reply
        return
    done = honored(choice, reply)
    if reply.enforced != "prompt":  # a provider that was not asked by tool choice ignored none
        reply = replace(reply, enforced=(reply.enforced or "tool_choice") if done else "ignored")
    yield reply
    if not done:
        yield Notice(_not_honored(choice, reply, trail.ignored_choices(request.messages)))


def _not_honored(choice: ToolChoice, reply: Assistant, before: int) -> str:
    if choice == "none":
        return f"{reply.model} called tools in its final reply; they were not run."
    asked = f"call {choice.name}" if isinstance(choice, Force) else "call a tool"
    if reply.enforced == "prompt":
        return f"{reply.model} cannot be forced, was asked to {asked}, and did not."
    again = " From now on it is not asked any more." if before == 1 else ""
    return f"{reply.model} was forced to {asked} and did not: the choice was ignored.{again}"


def _outcome(done: Done, messages: Sequence[Message]) -> Outcome:
    replies = [m for m in current_turn(messages) if isinstance(m, Assistant)]
    return Outcome(
        done.answer, done.exit, tuple(messages), sum((reply.usage for reply in replies), Usage())
    )

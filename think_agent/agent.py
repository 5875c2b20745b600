"""An Agent: a model, tools, instructions and policies, put to work by the loop; an Outcome: what
came of it.

Rule 1: an agent keeps no conversation. The transcript is handed in and handed back, so
        `agent.run("and ORD-003?", transcript=outcome.transcript)` goes on where the last run ended.
        With a path it is a file, and `agent.resume(path)` goes on where a crash ended it.
Rule 2: what a step asks of the world is listed once (`_Run.effects`) and performed in two ways:
        `_do` and `_ado`.
Rule 3: an Outcome is computed from the transcript; what it counts is what happened since a person
        last spoke.
"""

import hashlib
import inspect
import json
import uuid
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Iterator,
    Mapping,
    MutableSequence,
    Sequence,
)
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from pydantic import BaseModel

from . import policies as rules
from . import think as thinking
from . import tools as toolbox
from . import trail
from .context import recent
from .errors import TranscriptError
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
    Started,
    ToolCall,
    ToolChoice,
    ToolResult,
    Usage,
    User,
    Verdict,
    current_turn,
    mint_ids,
)
from .model import Model, Request, honored
from .policies import Forcing, OnToolError, Price
from .streaming import Delta, Notice
from .think import THINK
from .tools import Tool
from .trail import Action

if TYPE_CHECKING:  # both are imported when an agent needs them, and not before
    from .answer import TypedAnswer
    from .transcript import Transcript


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run came to. `transcript` is everything ever said; the rest is about this turn
    alone. `data` is the answer as an object, for an agent with `answer=`.
    """

    answer: str
    exit: Exit
    transcript: tuple[Message, ...]
    usage: Usage
    data: BaseModel | None = None

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
    def report(self) -> str:
        """A line per action: ✓ or ✗, the call, and what went wrong."""
        return trail.report(current_turn(self.transcript))

    @property
    def ignored_choices(self) -> int:
        """How many replies did not do what their tool choice asked."""
        return trail.ignored_choices(current_turn(self.transcript))


@dataclass(frozen=True, slots=True)
class Perform:
    """One call to be run. `key` is the same for it in every process that takes the run up."""

    call: ToolCall
    key: str


Event: TypeAlias = Delta | Notice | Message | Outcome
Effect: TypeAlias = Message | Request | Perform | AskHuman
Approve: TypeAlias = Callable[[AskHuman], Verdict | bool | Awaitable[Verdict | bool]]
Conversation: TypeAlias = Sequence[Message] | str | Path | None


class Agent:
    """A model with tools and instructions.

    - `force`: when `think` is forced, see `policies.force`.
    - `think`: the think tool, THINK or THINK_MINIMAL; None for an agent without one.
    - `policies`: further `(step, transcript) -> step` functions, applied after the agent's own.
    - `answer`: a pydantic model that the final answer has to be of; `outcome.data` is the object.
    - `approve`: asked when a person has to decide; gets an AskHuman, gives a Verdict or a bool, and
      may be async. None: nobody is there, and the run pauses with the exit `needs_human`.
    - `max_model_calls` (the last one is for the closing words), `max_actions`, `max_seconds`,
      `max_tokens`, `max_cost` (with `prices` by model name): limits of a turn, None for none.
    - `max_thoughts_in_a_row`: after so many turns of thinking only, the tool result says that it is
      time to act. `max_result_chars`: longer tool results are cut, with a note of how much.
    - `patience`: failed actions in a row before a person is asked, or the run gives up.
      `on_tool_error="fail_fast"` gives up at the first. `max_repeats`: see `policies.no_repeats`.
    - `keep_turns`: how many turns of a long conversation a request shows, None for all.
    - `now`: the clock that stamps messages, an ISO time in UTC.

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
        answer: type[BaseModel] | None = None,
        approve: Approve | None = None,
        max_model_calls: int = 30,
        max_actions: int | None = None,
        max_seconds: float | None = None,
        max_tokens: int | None = None,
        max_cost: float | None = None,
        prices: Mapping[str, Price] | None = None,
        max_thoughts_in_a_row: int = 3,
        max_result_chars: int = toolbox.MAX_RESULT_CHARS,
        patience: int = 3,
        on_tool_error: OnToolError = "tell_model",
        max_repeats: int = 3,
        keep_turns: int | None = None,
        now: Callable[[], str] | None = None,
    ) -> None:
        _check(think, force)
        self.model = model
        self.instructions = instructions
        self.think = think
        self.tools = toolbox.index(tools, reserved=THINK_NAME)
        guarded = {item.name for item in self.tools.values() if item.think_first}
        if guarded and not think:
            raise ValueError(f"{', '.join(guarded)}: think_first needs an agent with a think tool")
        forced = rules.force(force)
        self._answer = _typed(answer)
        self._policies: list[Policy] = [
            *([self._answer.policy] if self._answer else []),
            rules.mend_format,
            forced if think else rules.force("never"),
            rules.gate(guarded),
            rules.care(self.tools),
            rules.approval(self.tools),
            rules.stop_asking,
            rules.patience(patience, on_tool_error=on_tool_error, ask=approve is not None),
            rules.no_repeats(max_repeats),
            rules.max_model_calls(max_model_calls),
        ]
        if max_actions is not None:
            self._policies.append(rules.max_actions(max_actions))
        if max_tokens is not None:
            self._policies.append(rules.max_tokens(max_tokens))
        if max_cost is not None:
            self._policies.append(rules.max_cost(max_cost, prices or {}))
        if max_seconds is not None:
            rules.max_seconds(max_seconds)  # a limit that cannot be is refused here
        self._max_seconds = max_seconds
        self._policies += [*policies, rules.declined, rules.last_words]
        if approve is None:
            self._policies.append(rules.nobody)
        self._approve = approve
        self._shown = (*([think] if think else []), *self.tools.values())
        self._max_thoughts = max_thoughts_in_a_row
        self._max_chars = max_result_chars
        self._keep_turns = keep_turns
        self._now = now or _default_clock()

    def run(
        self,
        text: str,
        *,
        transcript: Conversation = None,
        on_event: Callable[[Event], None] | None = None,
    ) -> Outcome:
        """Work on `text` until the turn is over.

        `transcript` is the conversation so far, or the path of a file that holds it (made when
        there is none). `on_event` is called with every event of the run as it happens: Deltas,
        Notices, messages, and the Outcome. Raises ModelError when the model cannot be reached or
        read, TranscriptError for a file that cannot be used.
        """
        return _last(self._events(text, transcript, on_event is not None), on_event)

    async def arun(
        self,
        text: str,
        *,
        transcript: Conversation = None,
        on_event: Callable[[Event], None] | None = None,
    ) -> Outcome:
        """`run` without blocking the event loop."""
        return await _alast(self._aevents(text, transcript, on_event is not None), on_event)

    def resume(
        self, path: str | Path, *, on_event: Callable[[Event], None] | None = None
    ) -> Outcome:
        """Go on with a run that a crash, Ctrl-C or a question to a person ended. It needs nothing
        but the file and the same tools.
        """
        return _last(self._events(None, path, on_event is not None), on_event)

    async def aresume(
        self, path: str | Path, *, on_event: Callable[[Event], None] | None = None
    ) -> Outcome:
        """`resume` without blocking the event loop."""
        return await _alast(self._aevents(None, path, on_event is not None), on_event)

    def stream(self, text: str, *, transcript: Conversation = None) -> Iterator[Event]:
        """The events of a whole run as they happen; the last one is the Outcome."""
        return self._events(text, transcript, True)

    def astream(self, text: str, *, transcript: Conversation = None) -> AsyncIterator[Event]:
        """`stream`, for `async for`."""
        return self._aevents(text, transcript, True)

    def next_step(self, transcript: Sequence[Message]) -> Step:
        """What this agent would do next: `loop.next_step` after all of its policies."""
        return plan(transcript, self._policies)

    def _events(
        self, text: str | None, transcript: Conversation, streamed: bool
    ) -> Iterator[Event]:
        with self._opened(transcript) as this:
            yield from this.begin(text)
            for event in run(this.messages, this.plan, this.effects, self._do(streamed)):
                yield this.end(event) if isinstance(event, Done) else event

    async def _aevents(
        self, text: str | None, transcript: Conversation, streamed: bool
    ) -> AsyncIterator[Event]:
        with self._opened(transcript) as this:
            for event in this.begin(text):
                yield event
            async for event in arun(this.messages, this.plan, this.effects, self._ado(streamed)):
                yield this.end(event) if isinstance(event, Done) else event

    @contextmanager
    def _opened(self, transcript: Conversation) -> Iterator["_Run"]:
        if not isinstance(transcript, (str, Path)):
            yield _Run(self, list(transcript or ()))
            return
        from .transcript import Transcript

        with Transcript(transcript, self._made_of(), now=self._now()) as file:
            yield _Run(self, file, file)

    def _made_of(self) -> dict[str, str]:
        """What a later process compares itself with."""
        shown = [(tool.name, tool.description, tool.parameters) for tool in self._shown]
        return {
            "model": f"{self.model.name}:{self.model.model}",
            "tools": _fingerprint(json.dumps(shown, sort_keys=True)),
            "instructions": _fingerprint(self.instructions),
        }

    def _do(self, streamed: bool) -> Callable[[Effect], Iterator[Event]]:
        def do(effect: Effect) -> Iterator[Event]:
            match effect:
                case Request() if streamed:
                    for event in self.model.stream(effect):
                        yield from self._received(event, effect)
                case Request():
                    yield from self._received(self.model.complete(effect), effect)
                case Perform(call=call, key=key):
                    yield self._stamped(
                        toolbox.call(self.tools, call, key=key, max_chars=self._max_chars)
                    )
                case AskHuman():
                    assert self._approve
                    answer = self._approve(effect)
                    if inspect.isawaitable(answer):
                        raise TypeError("approve= is async: use `await agent.arun(...)`")
                    yield self._stamped(_verdict(answer, effect))
                case message:
                    yield self._stamped(message)

        return do

    def _ado(self, streamed: bool) -> Callable[[Effect], AsyncIterator[Event]]:
        async def do(effect: Effect) -> AsyncIterator[Event]:
            match effect:
                case Request() if streamed:
                    async for event in self.model.astream(effect):
                        for received in self._received(event, effect):
                            yield received
                case Request():
                    for received in self._received(await self.model.acomplete(effect), effect):
                        yield received
                case Perform(call=call, key=key):
                    yield self._stamped(
                        await toolbox.acall(self.tools, call, key=key, max_chars=self._max_chars)
                    )
                case AskHuman():
                    assert self._approve
                    answer = self._approve(effect)
                    if inspect.isawaitable(answer):
                        answer = await answer
                    yield self._stamped(_verdict(answer, effect))
                case message:
                    yield self._stamped(message)

        return do

    def _received(self, event: Delta | Assistant, request: Request) -> Iterator[Event]:
        """What the model sent, as it goes into the transcript: with ids, and checked against the
        tool choice that was asked.
        """
        if not isinstance(event, Assistant):
            yield event
            return
        choice = request.tool_choice
        reply = mint_ids(replace(event, tool_choice=choice), request.messages)
        if self.think and "should_continue" not in self.think.parameters["properties"]:
            reply = thinking.without_signal(reply)
        if choice == "auto" or reply.stop_reason in BROKEN_OFF:
            yield self._stamped(reply)
            return
        done = honored(choice, reply)
        if reply.enforced != "prompt":  # a provider that was not asked by tool choice ignored none
            how = (reply.enforced or "tool_choice") if done else "ignored"
            reply = replace(reply, enforced=how)
        yield self._stamped(reply)
        if not done:
            yield Notice(_not_honored(choice, reply, trail.ignored_choices(request.messages)))

    def _stamped(self, message: Message) -> Message:
        return replace(message, at=self._now())


class _Run:
    """One run on its way: the transcript it writes to, and what its steps ask of the world."""

    def __init__(
        self,
        agent: Agent,
        messages: MutableSequence[Message],
        file: "Transcript | None" = None,
    ) -> None:
        self._agent = agent
        self.messages = messages
        self._policies = agent._policies
        if agent._max_seconds is not None:
            since = rules.max_seconds(agent._max_seconds, since=agent._now())
            self._policies = [*agent._policies[:-1], since, agent._policies[-1]]
        self._file = file
        self._id = file.id if file is not None else uuid.uuid4().hex

    def plan(self, transcript: Sequence[Message]) -> Step:
        return plan(transcript, self._policies)

    def begin(self, text: str | None) -> Iterator[Event]:
        """Take the person's message in; None goes on with what is there."""
        if self._file is not None and self._file.changed:
            changed = ", ".join(self._file.changed)
            yield Notice(f"{self._file.path}: changed since it was begun: {changed}.")
        if self._file is not None and self._file.cut:
            yield Notice(f"{self._file.path}: a torn last line was cut off.")
        if text is None:
            if not self.messages:
                raise TranscriptError("there is nothing to resume: the transcript is empty")
            return
        if self._file is not None and self.messages and self._is_open():
            raise TranscriptError(
                f"{self._file.path}: its last run is not over; resume it first, or choose another"
            )
        message = User(text, at=self._agent._now())
        self.messages.append(message)
        yield message

    def end(self, done: Done) -> Outcome:
        if self._file is not None:
            self._file.ended(done.exit, self._agent._now())
        replies = [m for m in current_turn(self.messages) if isinstance(m, Assistant)]
        usage = sum((reply.usage for reply in replies), Usage())
        answer = self._agent._answer
        data = answer.read(done.answer) if answer and done.exit in ("signal", "silence") else None
        return Outcome(done.answer, done.exit, tuple(self.messages), usage, data)

    def effects(self, step: Step) -> Iterator[Effect]:
        """What a step asks of the world, one thing at a time; each is in the transcript before the
        next is listed.
        """
        agent = self._agent
        match step:
            case CallModel(tool_choice=choice, say=say):
                if say:
                    yield say
                shown = recent(self.messages, agent._keep_turns)
                schema = agent._answer.schema if agent._answer and choice == "none" else None
                yield Request(
                    shown,
                    agent._shown,
                    tool_choice=choice,
                    system=agent.instructions,
                    output_schema=schema,
                )
            case CallTools(calls=calls):
                for call in calls:
                    if call.name == THINK_NAME and agent.think:
                        yield self._think_result(call, agent.think)
                        continue
                    call = rules.edited(call, self.messages)
                    if self._file is not None and not self._is_harmless(call):
                        yield Started(call.id, call.name)
                    yield Perform(call, self._key())
            case Refuse(call=call, reason=reason):
                yield ToolResult(call.id, call.name, f"error: {reason}", True, refused=True)
            case AskHuman():
                yield step

    def _is_open(self) -> bool:
        step = self.plan(self.messages)
        return not isinstance(step, Done) or step.exit == "needs_human"

    def _is_harmless(self, call: ToolCall) -> bool:
        """May it be run again without a second thought?"""
        tool = self._agent.tools.get(call.name)
        return tool is None or tool.idempotent or bool(toolbox.mistake(self._agent.tools, call))

    def _key(self) -> str:
        """By the place of the call in the transcript, which no crash changes."""
        answered = 0
        for index in range(len(self.messages) - 1, -1, -1):
            message = self.messages[index]
            answered += isinstance(message, ToolResult)
            if isinstance(message, Assistant):
                return f"{self._id}-{index}-{answered}"
        raise AssertionError("a call without a reply")

    def _think_result(self, call: ToolCall, tool: Tool) -> ToolResult:
        in_a_row = trail.thoughts_in_a_row(self.messages)
        cap = self._agent._max_thoughts
        said = thinking.acknowledge(call, tool, in_a_row=in_a_row, cap=cap)
        return ToolResult(call.id, call.name, said)


def _check(think: Tool | None, force: Forcing) -> None:
    if think is None:
        if force == "always":
            raise ValueError("force='always' needs a think tool; think=None leaves none to force")
    elif think.name != THINK_NAME:
        raise ValueError(f"the think tool must be named {THINK_NAME!r}, not {think.name!r}")
    elif force == "always" and "should_continue" not in think.parameters["properties"]:
        raise ValueError(
            "force='always' needs the exit signal: with THINK_MINIMAL a run could never end"
        )


def _last(events: Iterator[Event], on_event: Callable[[Event], None] | None) -> Outcome:
    for event in events:
        if on_event:
            on_event(event)
    assert isinstance(event, Outcome)
    return event


async def _alast(events: AsyncIterator[Event], on_event: Callable[[Event], None] | None) -> Outcome:
    async for event in events:
        if on_event:
            on_event(event)
    assert isinstance(event, Outcome)
    return event


def _verdict(answer: Verdict | bool, asked: AskHuman) -> Verdict:
    call_id = asked.call.id if asked.call else ""
    if isinstance(answer, bool):
        return Verdict("yes" if answer else "no", call_id)
    return replace(answer, call_id=call_id)


def _typed(kind: type[BaseModel] | None) -> "TypedAnswer | None":
    if kind is None:
        return None
    from .answer import TypedAnswer

    return TypedAnswer(kind)


def _default_clock() -> Callable[[], str]:
    from .transcript import utc_now  # the core has no clock of its own

    return utc_now


def _fingerprint(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _not_honored(choice: ToolChoice, reply: Assistant, before: int) -> str:
    if choice == "none":
        return f"{reply.model} called tools in its final reply; they were not run."
    asked = f"call {choice.name}" if isinstance(choice, Force) else "call a tool"
    if reply.enforced == "prompt":
        return f"{reply.model} cannot be forced, was asked to {asked}, and did not."
    again = " From now on it is not asked any more." if before == 1 else ""
    return f"{reply.model} was forced to {asked} and did not: the choice was ignored.{again}"

"""One run on its way: what its steps ask of the world, what becomes of the answers, and what it all
came to.

Rule 1: `effects` is pure: a step and the turn it was planned from give a list, the same one
        whenever it is read. `Agent.perform` and `Agent.aperform` do one effect each.
Rule 2: what came of an effect is recorded before the next one is done, so a crash between two of
        them loses neither.
Rule 3: whatever comes from outside passes `received` on its way into the transcript.
"""

import time
from collections.abc import AsyncIterator, Iterator, MutableSequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import chain
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Generic, TypeAlias

from typing_extensions import TypeVar  # with a default

from . import think as thinking
from .errors import TranscriptError
from .loop import AskHuman, CallModel, CallTool, Done, Exit, Refuse, Step, plan, planned
from .messages import (
    BROKEN_OFF,
    HALF,
    THINK_NAME,
    Assistant,
    Message,
    Spoken,
    Started,
    ToolCall,
    ToolChoice,
    ToolResult,
    Usage,
    User,
)
from .model import Request
from .policies.approval import as_decided, with_change
from .policies.forcing import honored, not_honored
from .policies.limits import seconds
from .streaming import Delta, Notice
from .text import json_text, well_formed
from .tools import as_received, report
from .turn import Action, Turn

if TYPE_CHECKING:
    import pydantic

    from .agent import Agent
    from .transcript import Transcript


Data = TypeVar("Data", bound="pydantic.BaseModel", default=Any)


@dataclass(frozen=True)
class Outcome(Generic[Data]):
    """What a run came to. `transcript` is everything ever said; the rest is about its last turn.
    `data` is the answer as an object, for an agent with `answer=`: of an `Agent(…, answer=Refund)`
    this is an `Outcome[Refund]`.
    """

    answer: str
    exit: Exit
    transcript: tuple[Message, ...] = field(repr=False)
    usage: Usage
    data: Data | None = None

    def __str__(self) -> str:
        did = f"actions: {len(self.actions)}, behind a thought: {self.behind_a_thought}"
        return f"{self.answer}\n({self.exit}; {did}; model calls: {self.model_calls})"

    @cached_property
    def turn(self) -> Turn:
        """The reading of the last turn, from which the others here are taken."""
        return Turn.of(self.transcript)

    @property
    def model_calls(self) -> int:
        """How often the model was asked."""
        return len(self.turn.replies)

    @property
    def thoughts(self) -> tuple[str, ...]:
        """The thoughts, in order."""
        return tuple(thought.text for thought in self.turn.thoughts)

    @property
    def actions(self) -> tuple[Action, ...]:
        """The tool calls other than `think` that were run, in order, each with its thought."""
        return tuple(self.turn.actions)

    @property
    def behind_a_thought(self) -> int:
        """How many of the actions stand behind a thought."""
        return sum(action.thought is not None for action in self.turn.actions)

    @property
    def report(self) -> str:
        """A line per action: ✓ or ✗, the call, and what went wrong."""
        return report(self.turn)


@dataclass(frozen=True, slots=True)
class Perform:
    """One call to be run. `key` is the same for it in every process that takes the run up;
    `changed`: by whom, where its arguments are not the model's.
    """

    call: ToolCall
    key: str = ""
    changed: str = ""


@dataclass(frozen=True, slots=True)
class Flush:
    """What was recorded has to be on the disk before anything else is done."""


ENDS = {"limit", "budget"}  # what the kit asks closing words for
CLOSING = 60.0  # seconds that these may take, and any last reply beyond a limit of seconds
CLOSING_TOKENS = 1_000  # that they may hold, and any last reply beyond a limit of tokens
M = TypeVar("M", bound=Message)
Event: TypeAlias = Delta | Notice | Message | Outcome
Effect: TypeAlias = Message | Request | Perform | AskHuman | Flush | Done


def effects(agent: "Agent", step: Step, turn: Turn) -> list[Effect]:
    """What a step asks of the world, in order."""
    match step:
        case CallModel(tool_choice=choice, say=say):
            asked: list[Spoken] = [say] if say else []
            closes = choice == "none"
            ends = ENDS & {*turn.asked, say.kind if say else ""}
            left = agent.limits.tokens and agent.limits.tokens - turn.tokens
            most = max(left or 0, CLOSING_TOKENS) if ends or (left and closes) else left
            shown = turn.recent(agent.keep_turns)
            request = Request(
                shown + tuple(asked),
                agent.shown,
                tool_choice=choice,
                system=agent.instructions,
                output_schema=agent.answer.schema if agent.answer and closes else None,
                max_output_tokens=most,
                left_out=tuple(turn.spoken[: -len(shown)]),
            )
            return [*asked, request]
        case CallTool(call) if call.name == THINK_NAME and agent.think:
            cap = agent.max_thoughts_in_a_row
            said = thinking.acknowledge(call, agent.think, in_a_row=turn.thoughts_in_a_row, cap=cap)
            return [ToolResult(call.id, call.name, said)]
        case CallTool(call):
            decided = as_decided(thinking.bare(call), turn)
            own = thinking.bare(next((one for one in turn.pending if one.id == call.id), call))
            by = "A policy" if decided.arguments == thinking.bare(call).arguments else "A person"
            perform = Perform(decided, changed="" if decided.arguments == own.arguments else by)
            if perform.changed:
                json_text(decided.arguments)  # raises now, before anything is done
            tool = agent.tools.get(call.name)
            harmless = tool is None or (tool.idempotent and not tool.takes_key)
            if harmless or as_received(agent.tools, decided) is None:
                return [perform]  # harmless: it may be run again without a second thought
            return [Started(call.id, call.name), Flush(), perform, Flush()]
        case Refuse(call, code, reason):
            said = f"error: {reason}"
            return [ToolResult(call.id, call.name, said, is_error=True, refused=code)]
        case AskHuman():
            return [step]
        case Done():
            return [Flush(), step]


IN_DOUBT = "error: the run was stopped in it: it may have happened. Check before repeating it."
STOPPED = "error: not run: the run was stopped before it."
GO_ON = User("Your last reply was cut off, and none of its calls was run. Go on.", kind="nudge")


class Run:
    """The transcript that a run writes to, the policies it goes by, and the file it is kept in."""

    def __init__(
        self,
        agent: "Agent",
        messages: MutableSequence[Message],
        file: "Transcript | None" = None,
        *,
        streamed: bool = False,
    ) -> None:
        self._agent = agent
        self.messages = messages
        self.turn = Turn.of(messages)
        step = agent.next_step(self.turn)  # a turn that is over stays over, by its own times
        self._over = isinstance(step, Done) and step.exit != "needs_human"
        self._cut = isinstance(step, Done) and step.exit == "truncated"
        self._since = "" if self._over and not self._cut else agent.now()
        planning = partial(plan, policies=agent.policies(since=self._since))
        self.effects = planned(self.turn, planning, partial(effects, agent))
        self._file = file
        self._taken_up_at = len(messages)
        self._streamed = streamed

    def begin(self, text: str | None) -> Iterator[Event]:
        """Take the person's message in; None goes on with what is there."""
        if not (text is None or isinstance(text, str)):
            raise TypeError(f"{text!r} is no text; pass what the person said")
        if self._file is not None:
            yield from map(Notice, self._file.notices())
        if text is None and not self.messages:
            raise TranscriptError("there is nothing to resume yet; give a request")
        if text is None and not self._cut:
            return
        if text is not None and self._file is not None and self.messages and not self._over:
            raise TranscriptError(
                f"{self._file.path}: its last run is not over; resume it first, or choose another"
            )
        asked = GO_ON if text is None else User(well_formed(text))
        for message in chain(self._broken_off(), [asked]):
            recorded = self._record(message)
            self.turn.add(recorded)
            yield recorded

    def _broken_off(self) -> Iterator[Spoken]:
        """Results for the calls that a run in memory was stopped in, where it is not gone on with:
        the model has to know which of them may have happened. (That is of the first one at most.)
        """
        for call in () if self._over and not self.turn.started else tuple(self.turn.pending):
            refused, said = ("", IN_DOUBT) if self.turn.started else ("stopped", STOPPED)
            yield ToolResult(call.id, call.name, said, is_error=True, refused=refused)

    def do(self, effect: Effect) -> Iterator[Event]:
        """Do one thing, and record what came of it."""
        match effect:
            case Flush():
                if self._file is not None:
                    self._file.flush()
            case Request() | Perform() | AskHuman():
                for event in self._agent.perform(self._bound(effect), streamed=self._streamed):
                    yield from self._taken(event, effect)
            case Done():
                yield from self._end(effect)
            case message:
                yield self._record(message)

    async def ado(self, effect: Effect) -> AsyncIterator[Event]:
        """`do` without blocking the event loop."""
        match effect:
            case Flush():
                if self._file is not None:
                    import asyncio

                    await asyncio.to_thread(self._file.flush)
            case Request() | Perform() | AskHuman():
                bound = self._bound(effect)
                async for event in self._agent.aperform(bound, streamed=self._streamed):
                    for taken in self._taken(event, effect):
                        yield taken
            case _:
                for event in self.do(effect):
                    yield event

    def _bound(self, effect: Request | Perform | AskHuman) -> Request | Perform | AskHuman:
        """The effect with what only the moment knows: the key that its call was started with, and
        when its reply has to be there at the latest.
        """
        match effect:
            case Perform():
                started = self.turn.started
                return replace(effect, key=started.key) if started else effect
            case Request(tool_choice=choice):
                ends = ENDS & self.turn.asked.keys()
                if limit := CLOSING if ends else self._agent.limits.seconds:
                    left = limit if ends else limit - seconds(self.turn, self._since)
                    left = max(left, CLOSING) if choice == "none" else left
                    return replace(effect, deadline=time.monotonic() + left)
        return effect

    def _taken(self, event: Event, effect: Effect) -> Iterator[Event]:
        """One event of an effect, recorded where it is a message."""
        match event, effect:
            case Assistant(), Request(tool_choice=choice):
                before = self.turn.ignored
                reply = self._record(received(event, choice, self._agent, self.turn))
                yield reply
                yield from map(Notice, _notices(reply, before))
            case ToolResult(), Perform(call=call, changed=str(by)) if by:
                yield self._record(with_change(event, call, by))
            case ((Delta() | Notice() | Outcome()), _):
                yield event
            case message, _:
                yield self._record(message)

    def _end(self, done: Done) -> Iterator[Event]:
        """What the run came to, which a file notes, too."""
        if len(self.messages) == self._taken_up_at and done.exit != "needs_human":
            yield Notice("This run had ended; nothing was done again. It said:")
        elif self._file is not None:
            self._file.ended(done.exit, self._agent.now())
        answer = self._agent.answer
        data = answer.read(done.answer) if answer and done.exit in ("signal", "silence") else None
        yield Outcome(done.answer, done.exit, tuple(self.messages), self.turn.usage, data)

    def _record(self, message: M) -> M:
        if isinstance(message, Started) and self._agent.tools[message.name].takes_key:
            before = self.turn.started  # tried again after a crash, it keeps its key
            message = replace(message, key=(before and before.key) or self._agent.mint_key())
        if message.at is None:
            message = replace(message, at=self._agent.now())
        self.messages.append(message)
        return message


def received(reply: Assistant, choice: ToolChoice, agent: "Agent", turn: Turn) -> Assistant:
    """What the model sent, as it goes into the transcript: with ids, and held against the tool
    choice that was asked.
    """
    if reply.stop_reason not in ("end_turn", "tool_use", "stop_sequence", *HALF):
        raise TypeError(f"stop_reason={reply.stop_reason!r} of {reply.model}: see Assistant")
    if agent.think and not agent.can_signal:
        reply = without_signal(reply)
    enforced = reply.enforced
    # A provider that was not asked by tool choice ignored none.
    half = BROKEN_OFF if reply.dialect else HALF  # a dialect that cannot be read was not kept to
    if choice != "auto" and reply.stop_reason not in half and enforced != "prompt":
        enforced = (enforced or "tool_choice") if honored(choice, reply) else "ignored"
    calls = with_ids(reply.tool_calls, turn)
    return replace(reply, tool_calls=calls, tool_choice=choice, enforced=enforced, at=agent.now())


def without_signal(reply: Assistant) -> Assistant:
    """`reply` without the exit signal that a model invented for a tool that has none."""
    drop = partial(thinking.without, name="should_continue")
    calls = (drop(call) if call.name == THINK_NAME else call for call in reply.tool_calls)
    return replace(reply, tool_calls=tuple(calls))


def with_ids(calls: tuple[ToolCall, ...], turn: Turn) -> tuple[ToolCall, ...]:
    """`calls` with an id on each: where the wire had none, `call_N`, N counted over the whole
    transcript. Counted, not random: streamed or not, resumed or not, they are the same.
    """
    taken = set(map(attrgetter("id"), calls))
    named = []
    for number, call in enumerate(calls, turn.calls):
        while not call.id and (f"call_{number}" in taken or f"call_{number}" in turn.ids):
            number += 1
        named.append(call if call.id else replace(call, id=f"call_{number}"))
        taken.add(named[-1].id)
    return tuple(named)


def _notices(reply: Assistant, before: int) -> Iterator[str]:
    """What a watcher should know of a reply. `before`: how many replies ignored their tool choice
    until then.
    """
    if reply.notice:
        yield reply.notice
    if reply.stop_reason not in HALF and not honored(reply.tool_choice, reply):
        yield not_honored(reply.tool_choice, reply, before)

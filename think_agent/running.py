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
from dataclasses import dataclass, replace
from functools import cached_property, partial
from operator import attrgetter
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from . import think as thinking
from .errors import TranscriptError
from .loop import AskHuman, CallModel, CallTool, Done, Exit, Refuse, Step, plan
from .messages import (
    BROKEN_OFF,
    MESSAGES,
    THINK_NAME,
    Assistant,
    Force,
    Message,
    Spoken,
    Started,
    ToolCall,
    ToolChoice,
    ToolResult,
    Usage,
    User,
    Verdict,
    from_json,
    to_json,
)
from .model import Request
from .policies import as_decided, seconds
from .streaming import Delta, Notice
from .text import json_text
from .tools import as_received, report, signature
from .turn import Action, Turn

if TYPE_CHECKING:
    from pydantic import BaseModel

    from .agent import Agent
    from .transcript import Transcript


@dataclass(frozen=True)
class Outcome:
    """What a run came to. `transcript` is everything ever said; the rest is about its last turn.
    `data` is the answer as an object, for an agent with `answer=`.
    """

    answer: str
    exit: Exit
    transcript: tuple[Message, ...]
    usage: Usage
    data: "BaseModel | None" = None

    @cached_property
    def turn(self) -> Turn:
        """The reading of the last turn, from which the others here are taken."""
        return Turn.of(self.transcript)

    @property
    def steps(self) -> tuple[Assistant, ...]:
        """The replies of the model, in order."""
        return tuple(self.turn.replies)

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
    `edited`: a person changed its arguments.
    """

    call: ToolCall
    key: str = ""
    edited: bool = False


@dataclass(frozen=True, slots=True)
class Flush:
    """What was recorded has to be on the disk before anything else is done."""


CLOSING = 60.0  # seconds that a reply without tools may take beyond a limit of seconds
M = TypeVar("M", bound=Message)
Event: TypeAlias = Delta | Notice | Message | Outcome
Effect: TypeAlias = Message | Request | Perform | AskHuman | Flush


def effects(agent: "Agent", step: Step, turn: Turn) -> list[Effect]:
    """What a step asks of the world, in order."""
    match step:
        case CallModel(tool_choice=choice, say=say):
            asked: list[Spoken] = [say] if say else []
            schema = agent.answer.schema if agent.answer and choice == "none" else None
            request = Request(
                recent(turn, agent.keep_turns) + tuple(asked),
                agent.shown,
                tool_choice=choice,
                system=agent.instructions,
                output_schema=schema,
            )
            return [*asked, request]
        case CallTool(call) if call.name == THINK_NAME and agent.think:
            cap = agent.max_thoughts_in_a_row
            said = thinking.acknowledge(call, agent.think, in_a_row=turn.thoughts_in_a_row, cap=cap)
            return [ToolResult(call.id, call.name, said)]
        case CallTool(call):
            decided = as_decided(thinking.bare(call), turn)
            perform = Perform(decided, edited=decided.arguments != thinking.bare(call).arguments)
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
    return []


def recent(turn: Turn, keep_turns: int | None) -> tuple[Spoken, ...]:
    """What a request shows of a conversation: the last `keep_turns` turns; None for all. Nothing is
    left out of a signed history, for the signatures cover all that stands before them.
    """
    if keep_turns is None or len(turn.starts) <= keep_turns or turn.signed:
        return tuple(turn.spoken)
    return tuple(turn.spoken[turn.starts[-keep_turns] :])


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
        self._messages = messages
        self.turn = Turn.of(messages)
        step = agent.next_step(self.turn)  # a turn that is over stays over, by its own times
        self._over = isinstance(step, Done) and step.exit != "needs_human"
        self._since = "" if self._over else agent.now()
        self.plan = partial(plan, policies=agent.policies(since=self._since))
        self.effects = partial(effects, agent)
        self._file = file
        self._taken_up_at = len(messages)
        self._streamed = streamed

    def begin(self, text: str | None) -> Iterator[Event]:
        """Take the person's message in; None goes on with what is there."""
        if not (text is None or isinstance(text, str)):
            raise TypeError(f"{text!r} is no text; pass what the person said")
        if self._file is not None:
            yield from map(Notice, self._file.notices())
        if text is None:
            if not self._messages:
                raise TranscriptError("there is nothing to resume yet; give a request")
            return
        if self._file is not None and self._messages and not self._over:
            raise TranscriptError(
                f"{self._file.path}: its last run is not over; resume it first, or choose another"
            )
        for event in self._record(User(text)):
            self.turn.add(event)
            yield event

    def end(self, done: Done) -> Iterator[Event]:
        """What the run came to; a file is told how it ended."""
        if len(self._messages) == self._taken_up_at and done.exit != "needs_human":
            yield Notice("This run had ended; nothing was done again. It said:")
        elif self._file is not None:
            self._file.ended(done.exit, self._agent.now())
        answer = self._agent.answer
        data = answer.read(done.answer) if answer and done.exit in ("signal", "silence") else None
        yield Outcome(done.answer, done.exit, tuple(self._messages), self.turn.usage, data)

    def do(self, effect: Effect) -> Iterator[Event]:
        """Do one thing, and record what came of it."""
        match effect:
            case Flush():
                self._flush()
            case Request() | Perform() | AskHuman():
                for event in self._agent.perform(self._bound(effect), streamed=self._streamed):
                    yield from self._taken(event, effect)
            case message:
                yield from self._record(message)

    async def ado(self, effect: Effect) -> AsyncIterator[Event]:
        """`do` without blocking the event loop."""
        match effect:
            case Flush():
                if self._file is not None:
                    import asyncio

                    await asyncio.to_thread(self._flush)
            case Request() | Perform() | AskHuman():
                bound = self._bound(effect)
                async for event in self._agent.aperform(bound, streamed=self._streamed):
                    for taken in self._taken(event, effect):
                        yield taken
            case message:
                for recorded in self._record(message):
                    yield recorded

    def _bound(self, effect: Request | Perform | AskHuman) -> Request | Perform | AskHuman:
        """The effect with what only the moment knows: the key that its call was started with, and
        when its reply has to be there at the latest.
        """
        match effect:
            case Perform():
                return replace(effect, key=_key(self.turn))
            case Request(tool_choice=choice) if limit := self._agent.limits.seconds:
                left = limit - seconds(self.turn, self._since)
                left = max(left, CLOSING) if choice == "none" else left
                return replace(effect, deadline=time.monotonic() + left)
        return effect

    def _taken(self, event: Event, effect: Effect) -> Iterator[Event]:
        """One event of an effect, recorded where it is a message."""
        if not isinstance(event, MESSAGES):
            yield event
        elif not (isinstance(event, Assistant) and isinstance(effect, Request)):
            yield from self._record(event)
        else:
            before = self.turn.ignored
            [reply] = self._record(received(event, effect.tool_choice, self._agent, self.turn))
            yield reply
            yield from map(Notice, _notices(reply, before))

    def _record(self, message: M) -> Iterator[M]:
        if isinstance(message, Started):  # tried again after a crash, it keeps its key
            key = _key(self.turn) or self._agent.mint_key()
            message = replace(message, key=key, at=self._agent.now())
        elif message.at is None:
            message = replace(message, at=self._agent.now())
        self._messages.append(message)
        yield message

    def _flush(self) -> None:
        if self._file is not None:
            self._file.flush()


def received(reply: Assistant, choice: ToolChoice, agent: "Agent", turn: Turn) -> Assistant:
    """What the model sent, as it goes into the transcript: with ids, and held against the tool
    choice that was asked.
    """
    if agent.think and not agent.can_signal:
        reply = without_signal(reply)
    enforced = reply.enforced
    # A provider that was not asked by tool choice ignored none.
    if choice != "auto" and reply.stop_reason not in BROKEN_OFF and enforced != "prompt":
        enforced = (enforced or "tool_choice") if honored(choice, reply) else "ignored"
    calls = with_ids(reply.tool_calls, turn)
    now = agent.now()
    return replace(reply, tool_calls=calls, tool_choice=choice, enforced=enforced, at=now)


def without_signal(reply: Assistant) -> Assistant:
    """`reply` without the exit signal that a model invented for a tool that has none."""
    calls = tuple(
        replace(call, arguments={k: v for k, v in call.arguments.items() if k != "should_continue"})
        if call.name == THINK_NAME and isinstance(call.arguments, dict)
        else call
        for call in reply.tool_calls
    )
    return replace(reply, tool_calls=calls)


def with_ids(calls: tuple[ToolCall, ...], turn: Turn) -> tuple[ToolCall, ...]:
    """`calls` with an id on each: where the wire had none, `call_N`, N counted over the whole
    transcript. Counted, not random: streamed or not, resumed or not, they are the same.
    """
    taken = set(map(attrgetter("id"), calls))
    if "" not in taken:
        return calls
    named = []
    for number, call in enumerate(calls, turn.calls):
        while not call.id and (f"call_{number}" in taken or f"call_{number}" in turn.ids):
            number += 1
        named.append(call if call.id else replace(call, id=f"call_{number}"))
        taken.add(named[-1].id)
    return tuple(named)


def honored(choice: ToolChoice, reply: Assistant) -> bool:
    """Does `reply` do what the tool choice asked?"""
    called = [call.name for call in reply.tool_calls]
    match choice:
        case Force(name=name):
            return name in called
        case "required":
            return bool(called)
        case "none":
            return not called
    return True


def performed(effect: Perform, result: ToolResult) -> ToolResult:
    """The result as the model gets it: it is told of a person's change, which is recorded."""
    if not effect.edited or not isinstance(effect.call.arguments, dict):
        return result
    note = f"(A person changed this call to {signature(effect.call)}.)"
    content = f"{result.content}\n{note}"
    return replace(result, content=content, arguments=effect.call.arguments)


def verdict(answer: Verdict | bool, asked: AskHuman) -> Verdict:
    """What a person answered, as a message about the call it was about."""
    call_id = asked.call.id if asked.call else ""
    if isinstance(answer, bool):
        return Verdict("yes" if answer else "no", call_id)
    try:  # what a file could not hold is refused before anything is recorded or run
        answer = replace(answer, call_id=call_id)
        from_json(to_json(answer))
        json_text(answer.arguments)
    except (TypeError, ValueError) as error:
        raise TypeError(f"approve= gave {answer!r}, no bool or sound Verdict: {error}") from None
    return answer


def _key(turn: Turn) -> str:
    """The key with which the call that is next was started."""
    return next((note.key for note in reversed(turn.notes) if isinstance(note, Started)), "")


def _notices(reply: Assistant, before: int) -> Iterator[str]:
    """What a watcher should know of a reply. `before`: how many replies ignored their tool choice
    until then.
    """
    if reply.notice:
        yield reply.notice
    if reply.stop_reason not in BROKEN_OFF and not honored(reply.tool_choice, reply):
        yield _not_honored(reply.tool_choice, reply, before)


def _not_honored(choice: ToolChoice, reply: Assistant, before: int) -> str:
    if choice == "none":
        return f"{reply.model} called tools in its final reply; they were not run."
    asked = f"call {choice.name}" if isinstance(choice, Force) else "call a tool"
    if reply.enforced == "prompt":
        return f"{reply.model} cannot be forced, was asked to {asked}, and did not."
    again = " From now on it is not asked any more." if before == 1 else ""
    return f"{reply.model} was forced to {asked} and did not: the choice was ignored.{again}"

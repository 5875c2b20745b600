"""Running: effects are performed, and their results are recorded.

Rule 1: what depends on the moment (a time stamp, an idempotency key, a deadline) is added here, and
        nowhere else.
Rule 2: what a model or a tool returns is recorded at once, in memory and in the file of the run.
"""

import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace
from functools import partial
from math import inf
from typing import Protocol, TypeVar

from .effects import Asked, Effect, Flush, Perform, RunCheck, Settings, closes_at_a_limit, effects
from .errors import TranscriptError
from .loop import AskHuman, Done, Policy, Step, plan
from .messages import (
    Assistant,
    Enforced,
    Message,
    Spoken,
    Started,
    ToolCall,
    ToolChoice,
    ToolResult,
    User,
    Verdict,
)
from .model import Request
from .outcome import Outcome
from .policies.forcing import honored, not_honored
from .streaming import Delta, Notice
from .text import well_formed
from .tools import MAY_HAVE_HAPPENED, ModelMistake, signature
from .transcript import Transcript
from .turn import Turn

CLOSING_SECONDS = 60.0  # for the closing reply at a limit, and any beyond a limit of seconds
STOPPED_IN_IT = f"error: the run was stopped in it. {MAY_HAVE_HAPPENED}"
STOPPED_BEFORE_IT = "error: not run: the run was stopped before it."
GO_ON = User("Your last reply was cut off, and none of its calls was run. Go on.", kind="nudge")
CHECKABLE = ("signal", "silence", "unmet")  # with these exits, the model meant to give an answer


Event = Delta | Notice | Message | Outcome
M = TypeVar("M", bound=Message)


class Performer(Protocol):
    """Whoever carries out a run: an agent, or an engine that records each step."""

    settings: Settings

    def policies(self) -> list[Policy]: ...
    def now(self) -> str: ...
    def mint_key(self) -> str: ...
    def perform(self, effect: Asked, *, streamed: bool) -> Iterator[Event]: ...
    def aperform(self, effect: Asked, *, streamed: bool) -> AsyncIterator[Event]: ...


class Run:
    """One run: its transcript, its policies, and the file of the transcript."""

    def __init__(
        self,
        performer: Performer,
        messages: list[Message],
        file: Transcript | None = None,
        *,
        text: str | None,
        streamed: bool = False,
    ) -> None:
        self.messages = messages
        self.turn = Turn.of(messages)
        self._performer = performer
        self._settings = performer.settings
        self._file = file
        self._text = text
        self._streamed = streamed
        self._messages_before = len(messages)
        self.plan: Callable[[Turn], Step] = partial(plan, policies=performer.policies())
        self.effects = partial(effects, self._settings)

    def close(self) -> None:
        """Free the file."""
        if self._file is not None:
            self._file.close()

    def begin(self) -> Iterator[Event]:
        """Record the person's message. If there is none, go on with the transcript as it is."""
        if self._file is not None:
            for notice in self._file.notices:
                yield Notice(notice)
        if self._text is None:
            self.turn.restart_clock(self._performer.now())
            opening = self._reopen()
        else:
            opening = [*self._broken_off(), User(well_formed(self._text))]
        for message in opening:
            recorded = self._record(message)
            self.turn.add(recorded)
            yield recorded

    def _reopen(self) -> list[Spoken]:
        if not self.messages:
            raise TranscriptError("there is nothing to resume yet; give a request")
        if self.turn.ended and self.turn.ended.exit == "truncated":
            return [GO_ON]
        return []

    def _broken_off(self) -> list[Spoken]:
        """Results for the calls that were open when the last turn was stopped. The model has to
        know which of them may have happened: only the first one can have.
        """
        turn = self.turn
        if self._file is not None and self.messages and not turn.ended:
            raise TranscriptError(
                f"{self._file.path}: its last run is not over; resume it first, or choose another"
            )
        if turn.ended and not turn.started:
            return []
        results: list[Spoken] = []
        for call in turn.pending:
            content = STOPPED_BEFORE_IT
            result = ToolResult(call.id, call.name, content, is_error=True, refused="stopped")
            if turn.started and not results:
                result = replace(result, content=STOPPED_IN_IT, refused="", in_doubt=True)
            results.append(result)
        return results

    def do(self, effect: Effect) -> Iterator[Event]:
        """Do one thing, and record its result."""
        match effect:
            case Request() | Perform() | RunCheck() | AskHuman():
                bound = self._with_key_and_deadline(effect)
                for event in self._performer.perform(bound, streamed=self._streamed):
                    yield from self._recorded(event, effect)
                self._check_reply(effect)
            case Flush():
                if self._file is not None:
                    self._file.flush()
            case Notice():
                yield effect
            case Done():
                yield from self._end(effect)
            case _:
                yield self._record(effect)

    async def ado(self, effect: Effect) -> AsyncIterator[Event]:
        """`do` without blocking the event loop."""
        match effect:
            case Request() | Perform() | RunCheck() | AskHuman():
                bound = self._with_key_and_deadline(effect)
                async for event in self._performer.aperform(bound, streamed=self._streamed):
                    for taken in self._recorded(event, effect):
                        yield taken
                self._check_reply(effect)
            case Flush():
                if self._file is not None:
                    import asyncio

                    await asyncio.to_thread(self._file.flush)
            case _:
                for event in self.do(effect):
                    yield event

    def _with_key_and_deadline(self, effect: Asked) -> Asked:
        """The effect with what depends on the moment: the key with which its call was started, or
        the time at which its reply has to be there.
        """
        if isinstance(effect, Perform) and self.turn.started:
            return replace(effect, key=self.turn.started.key)
        if isinstance(effect, Request):
            seconds = self._seconds_for(effect)
            if seconds < inf:
                return replace(effect, deadline=time.monotonic() + seconds)
        return effect

    def _seconds_for(self, request: Request) -> float:
        left = self._settings.limits.seconds - self.turn.seconds
        if closes_at_a_limit(self.turn):
            left = CLOSING_SECONDS
        elif request.tool_choice == "none":
            left = max(left, CLOSING_SECONDS)
        return left

    def _recorded(self, event: Event, effect: Asked) -> Iterator[Event]:
        """One event of an effect. If it is a message, it is recorded."""
        match event, effect:
            case Assistant(), Request(tool_choice=choice):
                ignored = self.turn.history.ignored
                reply = self._record(received(event, choice, self.turn, self._performer.now()))
                yield reply
                for notice in _notices(reply, ignored):
                    yield Notice(notice)
            case ToolResult(), Perform(call=call, changed_by=by) if by:
                yield self._record(_with_change(event, call, by))
            case Verdict(), AskHuman(call=ToolCall() as call):
                yield self._record(self._bind_yes(event, call))
            case ((Delta() | Notice() | Outcome()), _):
                yield event
            case message, _:
                yield self._record(message)

    def _check_reply(self, effect: Asked) -> None:
        """Raise an error if there was no reply: else the model would be asked again for ever."""
        if isinstance(effect, Request) and not isinstance(self.messages[-1], Assistant):
            raise RuntimeError("the model gave no Assistant")

    def _bind_yes(self, verdict: Verdict, call: ToolCall) -> Verdict:
        """A yes is for the arguments in the question, even if a policy had changed them."""
        if verdict.decision != "yes" or verdict.arguments is not None:
            return verdict
        unless_bound = self.turn.as_decided(self.turn.pending[0])
        if call.arguments == unless_bound.arguments or isinstance(call.arguments, str):
            return verdict
        return replace(verdict, arguments=call.arguments)

    def _end(self, done: Done) -> Iterator[Event]:
        """The outcome of the run."""
        if len(self.messages) == self._messages_before and self.turn.ended:
            yield Notice("This run had ended; nothing was done again. It said:")
        answer = done.answer
        if self.turn.ended:  # the same answer that a reader of the transcript finds
            answer = self.turn.answer
        usage = self.turn.usage
        cost = self._settings.limits.cost_of(self.turn)
        data = self._data(done)
        yield Outcome(answer, done.exit, tuple(self.messages), usage, data, cost)

    def _data(self, done: Done) -> object:
        if self._settings.answer is None or done.exit not in CHECKABLE:
            return None
        try:
            return self._settings.answer.read(done.answer)
        except ModelMistake:  # the turn ended unmet, or was resumed with another type
            return None

    def _record(self, message: M) -> M:
        if isinstance(message, Started) and self._settings.tools[message.name].takes_key:
            doubt = self.turn.doubt(self.turn.pending[0])
            known = doubt.key if doubt else ""  # a call that is tried again keeps its key
            message = replace(message, key=known or self._performer.mint_key())
        if message.at is None:
            message = replace(message, at=self._performer.now())
        if self._file is not None:
            self._file.append(message)
        self.messages.append(message)
        return message


def _with_change(result: ToolResult, call: ToolCall, by: str) -> ToolResult:
    """The result of a call that somebody changed. It tells the model about the change."""
    content = f"{result.content}\n({by} changed this call to {signature(call)}.)"
    assert isinstance(call.arguments, dict)
    return replace(result, content=content, arguments=call.arguments)


def received(reply: Assistant, choice: ToolChoice, turn: Turn, at: str) -> Assistant:
    """The reply as it goes into the transcript: its calls have ids, and it says when it came and
    whether it did what the tool choice asked.
    """
    return replace(
        reply,
        tool_calls=with_ids(reply.tool_calls, turn),
        tool_choice=choice,
        enforced=_enforced(reply, choice),
        at=reply.at or at,
    )


def _enforced(reply: Assistant, choice: ToolChoice) -> Enforced:
    """Who made sure of the tool choice (`Assistant.enforced`), judged by the reply."""
    ignores_form = reply.dialect and reply.stop_reason == "malformed"  # a dialect needs its form
    tells = reply.is_usable or ignores_form
    if choice == "auto" or reply.enforced == "prompt":
        return reply.enforced
    if not honored(choice, reply):
        return "ignored" if tells else None
    if not tells:
        return reply.enforced
    return reply.enforced or "tool_choice"


def with_ids(calls: tuple[ToolCall, ...], turn: Turn) -> tuple[ToolCall, ...]:
    """`calls`, each with an id. If the wire gave none, the id is `call_N`, and N counts the calls
    of the whole transcript. It is not random, so the ids are the same if a run is streamed or
    resumed.
    """
    taken = {call.id for call in calls}
    named = []
    for number, call in enumerate(calls, turn.history.calls):
        if not call.id:
            while f"call_{number}" in taken or f"call_{number}" in turn.history.ids:
                number += 1
            call = replace(call, id=f"call_{number}")
            taken.add(call.id)
        named.append(call)
    return tuple(named)


def _notices(reply: Assistant, ignored: int) -> Iterator[str]:
    """What a watcher should know about a reply. `ignored`: how many replies before it ignored their
    tool choice.
    """
    if reply.notice:
        yield reply.notice
    if reply.is_usable and not honored(reply.tool_choice, reply):
        yield not_honored(reply.tool_choice, reply, ignored)

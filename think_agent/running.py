"""How a run is carried out: effects are performed, and what comes of them is recorded.

Rule 1: what depends on the moment (a time stamp, an idempotency key, a deadline) is added here, and
        nowhere else.
Rule 2: what a model or a tool gave is recorded at once, in memory and in the file of the run.
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

CLOSING_SECONDS = 60.0  # that closing words may take, and any last reply beyond a limit of seconds
STOPPED_IN_IT = f"error: the run was stopped in it. {MAY_HAVE_HAPPENED}"
STOPPED_BEFORE_IT = "error: not run: the run was stopped before it."
GO_ON = User("Your last reply was cut off, and none of its calls was run. Go on.", kind="nudge")
CHECKABLE = ("signal", "silence", "unmet")  # exits whose answer the model meant as one


Event = Delta | Notice | Message | Outcome
M = TypeVar("M", bound=Message)


class Performer(Protocol):
    """Who carries out a run: an agent, or an engine that records each step of one."""

    settings: Settings

    def policies(self) -> list[Policy]: ...
    def now(self) -> str: ...
    def mint_key(self) -> str: ...
    def perform(self, effect: Asked, *, streamed: bool) -> Iterator[Event]: ...
    def aperform(self, effect: Asked, *, streamed: bool) -> AsyncIterator[Event]: ...


class Run:
    """The transcript that a run writes to, the policies it goes by, and the file it is kept in."""

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
        """Take the person's message in; without one, go on with what is there."""
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
        """Results for the calls that the last turn was stopped in: the model has to know which of
        them may have happened. (That is the first one at most.)
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
        """Do one thing, and record what came of it."""
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
        """The effect with what only the moment knows: the key that its call was started with, and
        when its reply has to be there at the latest.
        """
        if isinstance(effect, Perform) and self.turn.started:
            return replace(effect, key=self.turn.started.key)
        if isinstance(effect, Request):
            return replace(effect, deadline=self._deadline(effect))
        return effect

    def _deadline(self, request: Request) -> float | None:
        left = self._settings.limits.seconds - self.turn.seconds
        if closes_at_a_limit(self.turn):
            left = CLOSING_SECONDS
        elif request.tool_choice == "none":
            left = max(left, CLOSING_SECONDS)
        if left == inf:
            return None
        return time.monotonic() + left

    def _recorded(self, event: Event, effect: Asked) -> Iterator[Event]:
        """One event of an effect, recorded where it is a message."""
        match event, effect:
            case Assistant(), Request(tool_choice=choice):
                ignored = self.turn.history.ignored
                reply = self._record(received(event, choice, self._settings, self.turn))
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
        """Without a reply the model would be asked for ever."""
        if isinstance(effect, Request) and not isinstance(self.messages[-1], Assistant):
            raise RuntimeError("the model gave no Assistant")

    def _bind_yes(self, verdict: Verdict, call: ToolCall) -> Verdict:
        """A yes is to the arguments that were asked about, also where a policy had changed them."""
        if verdict.decision != "yes" or verdict.arguments is not None:
            return verdict
        unless_bound = self.turn.as_decided(self.turn.pending[0])
        if call.arguments == unless_bound.arguments or isinstance(call.arguments, str):
            return verdict
        return replace(verdict, arguments=call.arguments)

    def _end(self, done: Done) -> Iterator[Event]:
        """What the run came to."""
        if len(self.messages) == self._messages_before and self.turn.ended:
            yield Notice("This run had ended; nothing was done again. It said:")
        answer = done.answer
        if self.turn.ended:  # as whoever reads the transcript will find it
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
        except ModelMistake:  # it ended unmet, or was resumed with another type
            return None

    def _record(self, message: M) -> M:
        if isinstance(message, Started) and self._settings.tools[message.name].takes_key:
            doubt = self.turn.doubt(self.turn.pending[0])
            known = doubt.key if doubt else ""  # tried again, it keeps its key
            message = replace(message, key=known or self._performer.mint_key())
        if message.at is None:
            message = replace(message, at=self._performer.now())
        if self._file is not None:
            self._file.append(message)
        self.messages.append(message)
        return message


def _with_change(result: ToolResult, call: ToolCall, by: str) -> ToolResult:
    """The result of a call as somebody changed it: the model reads of the change."""
    content = f"{result.content}\n({by} changed this call to {signature(call)}.)"
    assert isinstance(call.arguments, dict)
    return replace(result, content=content, arguments=call.arguments)


def received(reply: Assistant, choice: ToolChoice, settings: Settings, turn: Turn) -> Assistant:
    """What the model sent, as it goes into the transcript: with ids, and held against the tool
    choice that was asked.
    """
    calls = with_ids(reply.tool_calls, turn)
    enforced = _enforced(reply, choice)
    return replace(reply, tool_calls=calls, tool_choice=choice, enforced=enforced)


def _enforced(reply: Assistant, choice: ToolChoice) -> Enforced:
    """Who saw to the tool choice, by what the reply does."""
    ignores_form = reply.dialect and reply.stop_reason == "malformed"  # a dialect is a form
    tells = reply.is_usable or ignores_form
    if choice == "auto" or not tells or reply.enforced == "prompt":
        return reply.enforced
    if honored(choice, reply):
        return reply.enforced or "tool_choice"
    return "ignored"


def with_ids(calls: tuple[ToolCall, ...], turn: Turn) -> tuple[ToolCall, ...]:
    """`calls` with an id on each: where the wire had none, `call_N`, N counted over the whole
    transcript. Counted, not random: streamed or not, resumed or not, they are the same.
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
    """What a watcher should know of a reply. `ignored`: how many replies ignored their tool choice
    until then.
    """
    if reply.notice:
        yield reply.notice
    if reply.is_usable and not honored(reply.tool_choice, reply):
        yield not_honored(reply.tool_choice, reply, ignored)

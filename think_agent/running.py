"""Running: one run, told in the order in which things happen.

`Run.work` is a generator. It plans a step, does it, and plans again. It yields what the world has
to do, and is sent the message that came of it:

    reply = yield Request(...)            result = yield Perform(call, key)
    verdict = yield AskHuman(...)         checked = yield RunCheck(name, turn)
    yield Flush()                         # all else that it yields is an event for a watcher

Rule 1: `events` and `aevents` hand that to the agent (`Agent.perform` in `agent.py`). They differ
        in `async` alone.
Rule 2: what came is recorded, and yielded as it was recorded, before anything else is done.
Rule 3: what depends on the moment (a time stamp, a key, a deadline) is added here.
Rule 4: before a call that must not be lost (`Tool.records_start`) come `Started` and a flush, and
        after it another flush.
"""

import time
from collections.abc import AsyncGenerator, Generator
from contextlib import aclosing, closing
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeVar, cast

from .errors import TranscriptError
from .loop import (
    AskHuman,
    CallModel,
    CallTool,
    Check,
    Done,
    Policy,
    Refuse,
    Retry,
    Step,
    plan,
)
from .messages import (
    THINK_NAME,
    Assistant,
    Ended,
    Message,
    Paused,
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
from .policies import approval
from .policies.answer import TypedAnswer
from .policies.doubt import DECLARE
from .policies.limits import Limits
from .received import notices, received
from .streaming import Delta, Notice
from .text import json_text
from .think import acknowledge, bare
from .tools import MAY_HAVE_HAPPENED, STARTED_BEFORE, ModelMistake, Tool, signature
from .transcript import Transcript
from .turn import Turn

STOPPED_IN_IT = f"error: the run was stopped in it. {MAY_HAVE_HAPPENED}"
STOPPED_BEFORE_IT = "error: not run: the run was stopped before it."
GO_ON = User("Your last reply was cut off, and none of its calls was run. Go on.", kind="nudge")
ANSWERED = ("signal", "silence", "unmet")  # with these exits, the model meant to give an answer


@dataclass
class Perform:
    """One call to be run. `key` is its idempotency key, the same in every process that goes on with
    the run.
    """

    call: ToolCall
    key: str = ""


@dataclass
class RunCheck:
    """One check of `done_when` to be run. It gets the turn. `at_limit`: the turn has to end now,
    whether the check can be run or not.
    """

    name: str
    turn: Turn = field(repr=False, compare=False)
    at_limit: bool = False


class Flush:
    """Put what was recorded on the disk before anything else is done."""


Asked = Request | Perform | RunCheck | AskHuman  # what the world has to do
Event = Delta | Notice | Message | Outcome
Work = Generator[Asked | Flush | Event, Any, None]
Decision = Verdict | bool  # what a person says to a question
Said = User | Decision | None  # how a run begins
M = TypeVar("M", bound=Message)


class Performer(Protocol):
    """Whoever does what a run asks for: an agent, or an engine that records each step. `tools` can
    be run. `shown` is what the model sees of them, with `think`.
    """

    instructions: str
    think: Tool | None
    tools: dict[str, Tool]
    shown: tuple[Tool, ...]
    limits: Limits
    answer: TypedAnswer | None
    keep_turns: float

    def policies(self) -> list[Policy]: ...
    def now(self) -> str: ...
    def mint_key(self) -> str: ...
    def perform(self, asked: Asked, *, streamed: bool) -> Generator[Event, None, None]: ...
    def aperform(self, asked: Asked, *, streamed: bool) -> AsyncGenerator[Event, None]: ...


class Run:
    """One run, recorded in a transcript, which is in memory or in a file. It begins with what a
    person says: a message, or the answer to the question for which it waits. If nothing is said,
    it goes on.
    """

    def __init__(self, performer: Performer, transcript: Transcript, said: Said = None) -> None:
        self.messages = transcript.messages
        self.turn = transcript.turn
        self._performer = performer
        self._policies = performer.policies()
        self._transcript = transcript
        self._said = said

    def __enter__(self) -> "Run":
        return self

    def __exit__(self, kind: object, error: BaseException | None, *_: object) -> None:
        """Free the file. Whatever ended the run carries its transcript."""
        if not self._transcript.is_held:
            self._transcript.close()
        if error is not None:
            vars(error)["transcript"] = tuple(self.messages)

    def events(self, *, streamed: bool = False) -> Generator[Event, None, None]:
        """Do what `work` asks for, until the Outcome. `streamed`: replies come in Deltas."""
        work = self.work()
        for item in work:
            if isinstance(item, Asked):
                with closing(self._performer.perform(item, streamed=streamed)) as doing:
                    for event in doing:
                        yield _taken(work, event)
            elif isinstance(item, Flush):
                self._transcript.flush()
            else:
                yield item

    async def aevents(self, *, streamed: bool = False) -> AsyncGenerator[Event, None]:
        """`events` without blocking the event loop."""
        work = self.work()
        for item in work:
            if isinstance(item, Asked):
                async with aclosing(self._performer.aperform(item, streamed=streamed)) as doing:
                    async for event in doing:
                        yield _taken(work, event)
            elif isinstance(item, Flush):
                await self._aflush()
            else:
                yield item

    def work(self) -> Work:
        """The whole run: plan a step and do it, until it is Done."""
        yield from self._begin()
        step: Step | None = None
        while not isinstance(step, Done):
            step = plan(self.turn, self._policies)
            yield from self.do(step)

    def do(self, step: Step) -> Work:
        """One step, in the order in which things happen."""
        match step:
            case CallModel():
                yield from self._ask_model(step)
            case CallTool(call) if call.name == THINK_NAME and self._performer.think:
                yield self._record(self._acknowledged(call, self._performer.think))
            case CallTool():  # also of think, if there is no think tool: then it is unknown
                yield from self._run_tool(step)
            case Refuse():
                yield from self._refuse(step)
            case AskHuman():
                verdict = yield step
                yield self._record(verdict)
            case Check(names):
                yield from self._check(names)
            case Done():
                yield from self._end(step)

    def _begin(self) -> Work:
        """Record what the person says: a message after results for the calls that the last turn
        left open. If nothing is said, go on with the transcript as it is.
        """
        for notice in self._transcript.notices:
            yield Notice(notice)
        self._transcript.notices.clear()
        if isinstance(self._said, User):
            opening = [*self._results_of_stopped(), self._said]
        else:
            self.turn.restart_clock(self._performer.now())
            opening = self._reopen(self._said)
        for message in opening:
            yield self._record(message)

    def _reopen(self, decision: Decision | None) -> list[Message]:
        if not self.messages:
            raise TranscriptError("there is nothing to resume yet; give a request")
        if decision is not None:
            return [self._decided(decision)]
        if self.turn.ended and self.turn.ended.exit == "truncated":
            return [GO_ON]
        return []

    def _decided(self, decision: Decision) -> Verdict:
        """The answer to the question that waits. The question is planned again, as it was. (Where
        there is nobody to ask, it is in a `Done("needs_human")`.)
        """
        paused = self.turn.paused
        step = plan(self.turn, self._policies)
        asked = step.question if isinstance(step, Done) else step
        if paused is None or not isinstance(asked, AskHuman):
            raise TranscriptError("no question waits here; resume without a verdict")
        if isinstance(decision, Verdict) and decision.call_id not in ("", paused.call_id):
            raise TranscriptError("another question waits here; read it, and answer that one")
        return approval.verdict(decision, asked)

    def _results_of_stopped(self) -> list[Message]:
        """Results for the calls that were open when the last turn was stopped. The model has to
        know which of them may have happened: only the first one can have.
        """
        turn = self.turn
        path = self._transcript.path
        if path and self.messages and not turn.ended:
            raise TranscriptError(
                f"{path}: its last run is not over; resume it first, or choose another"
            )
        if turn.ended and not turn.started:
            return []
        results: list[Message] = []
        for call in turn.pending:
            result = ToolResult(
                call.id, call.name, STOPPED_BEFORE_IT, is_error=True, refused="stopped"
            )
            if turn.started and not results:
                result = replace(result, content=STOPPED_IN_IT, refused="", in_doubt=True)
            results.append(result)
        return results

    def _ask_model(self, step: CallModel) -> Work:
        if step.say:
            yield self._record(step.say)
        reply = yield self._request(step.tool_choice)
        if not isinstance(reply, Assistant):  # else the model would be asked again for ever
            raise RuntimeError("the model gave no Assistant")
        now = self._performer.now()
        reply = self._record(received(reply, step.tool_choice, self.turn, now))
        yield reply
        for notice in notices(reply, self.turn):
            yield Notice(notice)

    def _request(self, choice: ToolChoice) -> Request:
        """The question to the model. With the choice Force("think"), it has to think."""
        performer = self._performer
        is_closing = choice == "none"
        shown = self.turn.history.recent(performer.keep_turns)
        tokens, seconds = performer.limits.of_reply(self.turn, is_closing=is_closing)
        output_schema = None
        if performer.answer and is_closing:
            output_schema = performer.answer.schema
        if self.turn.history.sources:
            shown = tuple(_with_number(message) for message in shown)
        return Request(
            shown,
            performer.shown,
            tool_choice=choice,
            system=performer.instructions,
            output_schema=output_schema,
            deadline=time.monotonic() + seconds,
            max_output_tokens=tokens,
            left_out=tuple(self.turn.history.spoken[: -len(shown)]),
        )

    def _acknowledged(self, call: ToolCall, think: Tool) -> ToolResult:
        """The kit's own answer to a think call. No code runs."""
        turn = self.turn
        cap = self._performer.limits.thoughts
        under_schema = turn.reply is not None and turn.reply.enforced == "schema"
        text = acknowledge(call, think, turn.thoughts_in_a_row, cap, under_schema)
        return ToolResult(call.id, call.name, text)

    def _run_tool(self, step: CallTool) -> Work:
        """Run a call as the policies left it: as a person decided, or as the first try was."""
        call = step.call
        changed = None  # the arguments, if they are not those that the model wrote
        if call.arguments != bare(self.turn.pending[0]).arguments:
            assert isinstance(call.arguments, dict)
            changed = call.arguments
            json_text(changed)  # raises now, before anything is done
        tool = self._performer.tools.get(call.name)
        must_not_be_lost = tool is not None and tool.records_start
        key = self._key(tool, step.retry)
        if must_not_be_lost:
            yield self._record(Started(call.id, call.name, key, step.same, changed))
            yield Flush()
        result = yield Perform(call, key)
        if changed is not None:
            told = f"{result.content}\n({self._why_changed(step)} {signature(call)}.)"
            result = replace(result, content=told, arguments=changed)
        yield self._record(result)
        if must_not_be_lost:
            yield Flush()

    def _why_changed(self, step: CallTool) -> str:
        """Why a call runs with other arguments than the model wrote."""
        if step.retry:
            return "It was tried before; the first try was repeated:"
        if self.turn.verdict and self.turn.verdict.edited:
            return "A person changed this call to"
        return "A policy changed this call to"

    def _key(self, tool: Tool | None, retry: Retry | None) -> str:
        """The idempotency key; empty if the tool takes none. A retry has that of the first try."""
        if tool is None or not tool.takes_key:
            return ""
        if retry and retry.key:
            return retry.key
        return self._performer.mint_key()

    def _refuse(self, step: Refuse) -> Work:
        content = f"error: {step.reason}"
        in_doubt = self.turn.started is not None
        if in_doubt:
            content = f"{content} {STARTED_BEFORE}"
        result = ToolResult(
            step.call.id,
            step.call.name,
            content,
            is_error=True,
            refused=step.code,
            in_doubt=in_doubt,
        )
        yield self._record(result)
        if step.code == "doubt":
            yield Notice(f"{step.call.name} was not run again: {DECLARE}")

    def _check(self, names: tuple[str, ...]) -> Work:
        at_limit = self._performer.limits.reached(self.turn) is not None
        for name in names:
            checked = yield RunCheck(name, self.turn, at_limit)
            yield self._record(checked)

    def _end(self, done: Done) -> Work:
        """The end of the turn as a message, and the outcome of the run."""
        turn = self.turn
        was_over = turn.ended is not None  # resumed after its end
        if done.exit == "needs_human":
            if not turn.paused:
                call_id = done.question.call_id if done.question else ""
                yield self._record(Paused(done.answer, call_id))
        elif not was_over:
            is_said = turn.last_words == done.answer
            yield self._record(Ended(done.exit, "" if is_said else done.answer))
        yield Flush()
        if was_over:
            yield Notice("This run had ended; nothing was done again. It said:")
        answer = done.answer
        if turn.ended:  # the same answer that a reader of the transcript finds
            answer = turn.answer
        yield Outcome(
            answer,
            done.exit,
            tuple(self.messages),
            turn.usage,
            self._data(done),
            self._performer.limits.cost_of(turn),
            done.question,
        )

    def _data(self, done: Done) -> object:
        if self._performer.answer is None or done.exit not in ANSWERED:
            return None
        try:
            return self._performer.answer.read(done.answer, self.turn.history.sources)
        except ModelMistake:  # the turn ended unmet, or was resumed with another type
            return None

    def _record(self, message: M) -> M:
        """Add a message to the file, to the transcript in memory and to the turn."""
        if message.at is None:
            message = replace(message, at=self._performer.now())
        answer = self._performer.answer
        is_result = isinstance(message, ToolResult) and message.name != THINK_NAME
        if is_result and answer and answer.has_sources:
            number = len(self.turn.history.sources) + 1
            message = replace(cast(Any, message), number=number)
        self._transcript.append(message)  # `messages` and `turn` are those of the transcript
        return message

    async def _aflush(self) -> None:
        if self._transcript.path is None:
            return
        import asyncio

        await asyncio.to_thread(self._transcript.flush)


def _taken(work: Work, event: Event) -> Event:
    """An event as it is shown. A message is what `work` asked for: `send` gives it to `work`, which
    records it (rule 2) and yields it as it was recorded. The driver's `for` takes what comes next.
    """
    if not isinstance(event, Message):
        return event
    return cast(Event, work.send(event))


def _with_number(message: Spoken) -> Spoken:
    """A message as a request shows it: before a result stands its number, if it has one."""
    if isinstance(message, ToolResult) and message.number:
        return replace(message, content=f"[{message.number}] {message.content}")
    return message

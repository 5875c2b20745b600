"""Running: one run, told in the order in which things happen.

`Run.work` is a generator. It plans a step, does it, and plans again. It yields what the world has
to do, and is sent the message that came of it:

    reply = yield Request(...)            result = yield Perform(call, key)
    verdict = yield AskHuman(...)         checked = yield RunCheck(name, turn)
    yield Flush()                         # all else that it yields is an event for a watcher

Rule 1: `events` and `aevents` hand that to the agent (`Agent.perform` in `agent.py`). They differ
        in `async` alone.
Rule 2: whatever was asked for, what `work` yields next is the message that came, as recorded.
Rule 3: what depends on the moment (a time stamp, a key, a deadline) is added when a step is done.
Rule 4: before a call that must not be lost (`Tool.records_start`) come `Started` and a flush, and
        after it another flush.
"""

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
    Step,
    plan,
)
from .messages import (
    THINK_NAME,
    Assistant,
    Ended,
    Message,
    Paused,
    Started,
    ToolCall,
    ToolResult,
    User,
    Verdict,
)
from .model import Request
from .outcome import Outcome
from .received import notices, received
from .schema import Fitted
from .streaming import Delta, Notice
from .text import json_text
from .think import acknowledge, bare
from .tools import MAY_HAVE_HAPPENED, STARTED_BEFORE, Tool, signature
from .transcript import Transcript
from .turn import Turn

STOPPED_IN_IT = f"error: the run was stopped in it. {MAY_HAVE_HAPPENED}"
CHANGED = "A policy changed this call to"
STOPPED_BEFORE_IT = "error: not run: the run was stopped before it."
GO_ON = User("Your last reply was cut off, and none of its calls was run. Go on.", kind="nudge")


@dataclass
class Perform:
    """One call to be run. `key` is its idempotency key, the same in every process that goes on with
    the run. `fitted`: its arguments in the types of the tool; None if they are not validated.
    """

    call: ToolCall
    key: str = ""
    fitted: Fitted | None = field(default=None, repr=False, compare=False)


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
Work = Generator[Asked | Flush | Event, Any, None]  # what it is sent is the Message that came
Decision = Verdict | bool  # what a person says to a question
Said = User | Decision | None  # how a run begins
M = TypeVar("M", bound=Message)


class Performer(Protocol):
    """Whoever does what a run asks for: an agent, or an engine that records each step. It makes the
    request for a step, and adds what it knows to a message that is recorded and to the outcome.
    """

    think: Tool | None
    tools: dict[str, Tool]

    def policies(self) -> list[Policy]: ...
    def now(self) -> str: ...
    def mint_key(self) -> str: ...
    def request(self, step: CallModel, turn: Turn) -> Request: ...
    def stamped(self, message: Message, turn: Turn) -> Message: ...
    def finished(self, outcome: Outcome, turn: Turn) -> Outcome: ...
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
        item: object = None
        while not isinstance(item, Outcome):
            item = next(work)
            if isinstance(item, Asked):
                with closing(self._performer.perform(item, streamed=streamed)) as doing:
                    for event in doing:
                        if isinstance(event, Message):
                            recorded = work.send(event)
                            assert isinstance(recorded, Message)  # rule 2
                            yield recorded
                        else:
                            yield event
            elif isinstance(item, Flush):
                self._transcript.flush()
            else:
                yield item

    async def aevents(self, *, streamed: bool = False) -> AsyncGenerator[Event, None]:
        """`events` without blocking the event loop."""
        work = self.work()
        item: object = None
        while not isinstance(item, Outcome):
            item = next(work)
            if isinstance(item, Asked):
                async with aclosing(self._performer.aperform(item, streamed=streamed)) as doing:
                    async for event in doing:
                        if isinstance(event, Message):
                            recorded = work.send(event)
                            assert isinstance(recorded, Message)
                            yield recorded
                        else:
                            yield event
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
                yield self._record(self._acknowledged(step, self._performer.think))
            case CallTool():  # also of think, if there is no think tool: then it is unknown
                yield from self._run_tool(step)
            case Refuse():
                yield from self._refuse(step)
            case AskHuman():
                verdict = yield step
                yield self._record(verdict)
            case Check(names, at_limit):
                for name in names:
                    checked = yield RunCheck(name, self.turn, at_limit)
                    yield self._record(checked)
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
        return asked.answered(decision)

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
        reply = yield self._performer.request(step, self.turn)
        if not isinstance(reply, Assistant):  # else the model would be asked again for ever
            raise RuntimeError("the model gave no Assistant")
        now = self._performer.now()
        reply = self._record(received(reply, step.tool_choice, self.turn, now))
        yield reply
        for notice in notices(reply, self.turn):
            yield Notice(notice)

    def _acknowledged(self, step: CallTool, think: Tool) -> ToolResult:
        """The kit's own answer to a think call. No code runs."""
        call = step.call
        under_schema = self.turn.reply is not None and self.turn.reply.enforced == "schema"
        text = f"{acknowledge(call, think, under_schema)} {step.remark}".rstrip()
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
        key = ""
        if tool is not None and tool.takes_key:
            key = step.tried.key or self._performer.mint_key()
        if must_not_be_lost:
            yield self._record(Started(call.id, call.name, key, step.tried.same, changed))
            yield Flush()
        result = yield Perform(call, key, step.fitted)
        if changed is not None:
            told = f"{result.content}\n({step.remark or CHANGED} {signature(call)}.)"
            result = replace(result, content=told, arguments=changed)
        yield self._record(result)
        if must_not_be_lost:
            yield Flush()

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
        if step.notice:
            yield Notice(step.notice)

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
        outcome = Outcome(
            answer, done.exit, tuple(self.messages), turn.usage, question=done.question
        )
        yield self._performer.finished(outcome, turn)

    def _record(self, message: M) -> M:
        """Add a message to the file, to the transcript in memory and to the turn."""
        message = cast(M, self._performer.stamped(message, self.turn))
        self._transcript.append(message)  # `messages` and `turn` are those of the transcript
        return message

    async def _aflush(self) -> None:
        if self._transcript.path is None:
            return
        import asyncio

        await asyncio.to_thread(self._transcript.flush)

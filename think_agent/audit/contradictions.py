"""Find records of a conversation that contradict each other or repeat a success.

    contradictions = Contradictions(tools, turn)
    contradictions.add(message, call)      # what a reader should look at; usually nothing

Rule 1: Only the records are compared. A contradiction (alarm) means that another process, another
        program or a bug wrote one of the two. So does a success that's repeated in the same turn,
        which the kit refuses only within one reply. In a later turn the repeat may be intended, so
        it's only a warning.
Rule 2: Two calls are the same if their starts have the same digest (`Started.same`) or, without a
        digest, if their tools and arguments are the same. Only a call with a start changes
        something.
Rule 3: A call that a person declared new isn't a repeat, and neither is a call of an `idempotent`
        tool.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from ..messages import (
    THINK_NAME,
    Assistant,
    Ended,
    Json,
    Message,
    Paused,
    Started,
    ToolCall,
    ToolResult,
    User,
    Verdict,
)
from ..policies.done_when import Checks
from ..text import canonical
from ..think import bare
from ..turn import Turn
from . import words

Found = tuple[str, str]  # the kind of a note ("alarm" or "warning"), and its text


class Success(NamedTuple):
    """Where a call succeeded: the numbers of its turn and reply."""

    turn: int
    reply: int


@dataclass
class Known:
    """The records about a call so far. `status`: what to show instead of "done" if there is a
    contradiction (a key of `words.STATUS`).
    """

    call: ToolCall
    verdict: Verdict | None = None  # the last one
    started: Started | None = None
    status: str = ""

    def ran_with(self, result: ToolResult) -> Any:
        """The arguments it ran with, according to its result."""
        for message in (result, self.started):
            if message and message.arguments is not None:
                return message.arguments
        return bare(self.call).arguments

    def runs_with(self) -> Any:
        """The arguments it starts with: the approved ones, if it was approved."""
        for message in (self.started, self.verdict):
            if message and message.arguments is not None:
                return message.arguments
        return bare(self.call).arguments

    def is_as_approved(self, result: ToolResult) -> bool:
        """Did it run with the approved arguments?"""
        verdict = self.verdict
        if verdict is None or verdict.decision != "yes" or verdict.arguments is None:
            return True
        return canonical(verdict.arguments) == canonical(self.ran_with(result))


class Contradictions:
    """Reads message by message. `tools`: those in the transcript's header, by name. `turn`: the
    caller keeps it up to date.
    """

    def __init__(self, tools: Mapping[str, Json], turn: Turn) -> None:
        self._tools = tools
        self._reading = turn
        self._turn = 0
        self._reply = 0
        self._known: dict[int, Known] = {}  # calls of the latest reply, by identity
        self._question: Paused | None = None  # not answered yet
        self._answered: set[str] = set()  # the ids of answered questions
        self._succeeded: dict[tuple[str, str], Success] = {}

    def status_of(self, call: ToolCall) -> str:
        """What to show instead of "done" for a call; empty if nothing contradicts that."""
        return self._about(call).status

    def add(self, message: Message, call: ToolCall | None) -> list[Found]:
        """Read the next message. `call`: the open call it's about, if any."""
        match message:
            case User(kind="person"):
                self._turn += 1
                self._question = None
            case Assistant():
                self._reply += 1
                self._known = {}
            case Paused():
                self._question = message
            case Ended():
                return list(self._add_end(message))
            case Verdict():
                return list(self._add_verdict(message, call))
            case Started() if call:
                return list(self._add_start(message, self._about(call)))
            case ToolResult() if call and call.name != THINK_NAME and not message.refused:
                return list(self._add_result(message, self._about(call)))
        return []

    def _about(self, call: ToolCall) -> Known:
        return self._known.setdefault(id(call), Known(call))

    def _add_verdict(self, verdict: Verdict, call: ToolCall | None) -> Iterator[Found]:
        question = self._question
        self._question = None
        if call:
            self._about(call).verdict = verdict
        if question and not _is_answer(verdict, question):
            yield "alarm", "this answers another question than the one that was open"
        elif not question and verdict.question in self._answered:
            yield "alarm", "this answers a question that had its answer before"
        if question and question.id:
            self._answered.add(question.id)

    def _add_start(self, started: Started, known: Known) -> Iterator[Found]:
        is_first_try = known.started is None
        known.started = started
        yield from self._was_allowed(known)
        before = self._succeeded.get(self._identify(known))
        if before and is_first_try and not self._may_repeat(known):
            known.status = known.status or "done again"
            kind = "alarm" if before.turn == self._turn else "warning"
            where = f"reply {before.reply}, in turn {max(1, before.turn)}"
            yield kind, f"run again, though the same call succeeded before ({where})"

    def _add_result(self, result: ToolResult, known: Known) -> Iterator[Found]:
        if known.started is None:  # otherwise reported at its start
            yield from self._was_allowed(known)
        if not known.is_as_approved(result):
            yield "alarm", "it ran with other arguments than those that were approved"
        if known.started and not result.is_error:
            self._succeeded.setdefault(self._identify(known), Success(self._turn, self._reply))

    def _was_allowed(self, known: Known) -> Iterator[Found]:
        """A call ran. Was it denied, or is its question still open?"""
        if known.verdict and known.verdict.decision != "yes":
            known.status = "done after a no"
            yield "alarm", f"it ran, though it was {words.say_decision(known.verdict)}"
        elif self._question and self._question.call_id == known.call.id:
            known.status = "done after a no"
            yield "alarm", "it ran, though its question had no answer"

    def _add_end(self, ended: Ended) -> Iterator[Found]:
        if ended.exit in words.REGULAR:
            for check in self._reading.read(Checks).missing:
                text = f"it ended as done, though a check was not met: {words.say_check(check)}"
                yield "alarm", text

    def _identify(self, known: Known) -> tuple[str, str]:
        """The key that identifies a call (rule 2)."""
        if known.started and known.started.same:
            return known.call.name, known.started.same
        return known.call.name, canonical(known.runs_with())

    def _may_repeat(self, known: Known) -> bool:
        """Is it all right if this call runs again (rule 3)?"""
        is_new = known.verdict is not None and known.verdict.new
        return is_new or bool(self._tools.get(known.call.name, {}).get("idempotent"))


def _is_answer(verdict: Verdict, question: Paused) -> bool:
    """Does the verdict answer this question, judging by its call and (if known) its id?"""
    if verdict.call_id != question.call_id:
        return False
    return not question.id or not verdict.question or verdict.question == question.id

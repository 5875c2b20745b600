"""Splits a transcript into steps, so that each can be planned again from the messages before it.

    for step in recorded_steps(messages):
        planned = agent.next_step(step.turn)
        differs(planned, step)

Rule 1: planning is pure, so the same agent makes the same plan again.
Rule 2: steps are the same as in the run. A start and its result are one step, and so are a kit's
        message and its reply. If a run was stopped in between, they're two.
Rule 3: the opening of a run isn't planned: a person's message, and what's recorded with it.

Limitations: the steps share one `Turn`, so use each step before you take the next one.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from ..loop import AskHuman, CallModel, CallTool, Check, Done, Refuse, Step
from ..messages import (
    THINK_NAME,
    Assistant,
    Checked,
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
from ..running import GO_ON, STOPPED_IN_IT
from ..text import canonical
from ..think import as_run
from ..turn import Turn


@dataclass
class RecordedStep:
    """A step of a transcript: `messages` were recorded for it, starting at `place`. `turn` holds
    the facts at that time. Without messages, it's the next step.

    `is_opening`: the messages open a run, so they weren't planned (rule 3).
    """

    place: int
    turn: Turn
    messages: list[Message]
    is_opening: bool = False


def read_steps(transcript: Iterable[Message]) -> Iterator[RecordedStep]:
    """Each step of a transcript. The last one, without messages, is the next step."""
    messages = list(transcript)
    openings = _openings(messages)
    turn = Turn()
    place = 0
    while place < len(messages):
        end = place + _length(messages, place, openings)
        recorded = messages[place:end]
        yield RecordedStep(place, turn, recorded, place in openings)
        for message in recorded:
            turn.add(message)
        place = end
    yield RecordedStep(place, turn, [])


def is_request(entry: object) -> bool:
    """Is this a person's message, which begins a turn?"""
    return isinstance(entry, User) and entry.kind == "person"


def _length(messages: Sequence[Message], place: int, openings: set[int]) -> int:
    """The number of messages in the step that begins here (rule 2)."""
    if place in openings or place + 1 == len(messages) or place + 1 in openings:
        return 1
    match messages[place], messages[place + 1]:
        case Started(call_id=begun), ToolResult(call_id=ended, refused="" | "invalid"):
            return 2 if begun == ended else 1
        case User(), Assistant():
            return 2
    return 1


def _openings(messages: Sequence[Message]) -> set[int]:
    """The indexes of messages that a run records before it plans anything (rule 3)."""
    found: set[int] = set()
    for place, message in enumerate(messages):
        if is_request(message):
            found.add(place)
            before = place - 1
            while before >= 0 and _is_left(messages[before]):
                found.add(before)
                before -= 1
        if place and message == GO_ON and isinstance(messages[place - 1], Ended):
            found.add(place)
    return found


def _is_left(message: Message) -> bool:
    """Is this the result for a call that an earlier run left open?"""
    if not isinstance(message, ToolResult):
        return False
    return message.refused == "stopped" or (message.in_doubt and message.content == STOPPED_IN_IT)


# Comparing a plan with the record.


def differs(planned: Step, step: RecordedStep) -> bool:
    """Does the record differ from the plan, as far as the record can tell?

    Whole steps are compared: a kit's message with its text, a call with the arguments that ran, a
    refusal with its reason, an end with its answer.
    """
    if not step.messages or step.is_opening:
        return False
    last = step.messages[-1]
    match planned:
        case CallModel():
            return not _was_asked(planned, step)
        case CallTool(call):
            return not _was_run(call, last, step)
        case Refuse():
            return not _was_refused(planned, last)
        case AskHuman():
            return not _was_put_to_a_person(planned, last)
        case Done(exit="needs_human", question=AskHuman() as question):
            return not _was_put_to_a_person(question, last)
        case Done():
            return not _has_ended(planned, last, step)
        case Check(names):
            return not isinstance(last, Checked) or last.name not in names


def _was_asked(planned: CallModel, step: RecordedStep) -> bool:
    said = [planned.say] if planned.say else []
    match step.messages:
        case [*before, Assistant() as reply]:
            return before == said and reply.tool_choice == planned.tool_choice
        case [User() as question]:  # stopped before the reply
            return said == [question]
    return False


def _was_run(planned: ToolCall, last: Message, step: RecordedStep) -> bool:
    match last:
        case ToolResult(refused="" | "invalid", arguments=arguments):
            return _is_same_call(planned, arguments, step)
        case Started(arguments=arguments):  # stopped before the result
            return _is_same_call(planned, arguments, step)
    return False


def _was_refused(planned: Refuse, last: Message) -> bool:
    if not isinstance(last, ToolResult) or last.refused != planned.code:
        return False
    return last.content.startswith(f"error: {planned.reason}")


def _was_put_to_a_person(question: AskHuman, last: Message) -> bool:
    match last:
        case Verdict(call_id=id):
            return id == question.call_id
        case Paused(text, call_id=id):
            return id == question.call_id and text == question.question
    return False


def _has_ended(planned: Done, last: Message, step: RecordedStep) -> bool:
    if not isinstance(last, Ended) or last.exit != planned.exit:
        return False
    if planned.exit == "empty":  # this answer is written at the end
        return True
    return planned.answer == (last.answer or step.turn.last_words)


def _is_same_call(planned: ToolCall, arguments: Json | None, step: RecordedStep) -> bool:
    """Is the planned call the next one, with the `arguments` that it ran with? (None: as the model
    wrote them.)
    """
    pending = step.turn.pending
    if not pending or planned.id != pending[0].id or planned.name != pending[0].name:
        return False
    if planned.name == THINK_NAME:
        return True
    ran = as_run(pending[0], arguments)
    return canonical(ran.arguments) == canonical(as_run(planned, None).arguments)

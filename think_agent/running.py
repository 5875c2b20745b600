"""One run on its way: what its steps ask of the world, and what becomes of the answers.

Rule 1: a step is taken apart into effects here, once, for sync and async alike; `Agent.perform` and
        `Agent.aperform` do one effect each.
Rule 2: what came of an effect is in the transcript before the next is listed, so a crash between
        two of them loses neither.
"""

import os
from collections.abc import Iterator, MutableSequence, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

from . import policies as rules
from . import think as thinking
from . import tools as toolbox
from . import trail
from .context import recent
from .errors import TranscriptError
from .loop import BROKEN_OFF, AskHuman, CallModel, CallTools, Done, Refuse, Step, plan
from .messages import (
    THINK_NAME,
    Assistant,
    Force,
    Message,
    Started,
    ToolCall,
    ToolChoice,
    ToolResult,
    User,
    Verdict,
    current_turn,
    mint_ids,
)
from .model import Request, honored
from .outcome import Outcome
from .streaming import Delta, Notice
from .tools import Tool

if TYPE_CHECKING:
    from .agent import Agent
    from .transcript import Transcript


@dataclass(frozen=True, slots=True)
class Perform:
    """One call to be run. `key` is the same for it in every process that takes the run up.
    `edited`: a person changed its arguments.
    """

    call: ToolCall
    key: str
    edited: bool = False


Event: TypeAlias = Delta | Notice | Message | Outcome
Effect: TypeAlias = Message | Request | Perform | AskHuman


NOTHING_SAID = "there is nothing to resume: nobody has said anything yet; give a request"


class Run:
    """The transcript that a run writes to, the policies it goes by, and the file it is kept in."""

    def __init__(
        self,
        agent: "Agent",
        messages: MutableSequence[Message],
        file: "Transcript | None" = None,
    ) -> None:
        self._agent = agent
        self.messages = messages
        self._policies = agent.policies(from_now=True)
        self._file = file
        self._taken_up_at = len(messages)
        self._id = file.id if file is not None else os.urandom(16).hex()

    def plan(self, transcript: Sequence[Message]) -> Step:
        """The next step, by all policies of this run."""
        return plan(transcript, self._policies)

    def begin(self, text: str | None) -> Iterator[Event]:
        """Take the person's message in; None goes on with what is there."""
        if self._file is not None and self._file.changed:
            changed = ", ".join(self._file.changed)
            yield Notice(f"{self._file.path}: changed since it was begun: {changed}.")
        if self._file is not None and self._file.cut:
            yield Notice(f"{self._file.path}: a torn last line was cut off.")
        if not (text is None or isinstance(text, str)):
            raise TypeError(f"{text!r} is no text; pass what the person said")
        if text is None:
            if not self.messages:
                raise TranscriptError(NOTHING_SAID)
            return
        if self._file is not None and self.messages and self._is_open():
            raise TranscriptError(
                f"{self._file.path}: its last run is not over; resume it first, or choose another"
            )
        message = User(text, at=self._agent.now())
        self.messages.append(message)
        yield message

    def end(self, done: Done) -> Iterator[Event]:
        """What the run came to; a file is told how it ended."""
        if len(self.messages) == self._taken_up_at and done.exit != "needs_human":
            yield Notice("This run had ended; nothing was done again. It said:")
        elif self._file is not None:
            self._file.ended(done.exit, self._agent.now())
        usage = trail.usage(current_turn(self.messages))
        answer = self._agent.answer
        data = answer.read(done.answer) if answer and done.exit in ("signal", "silence") else None
        yield Outcome(done.answer, done.exit, tuple(self.messages), usage, data)

    def effects(self, step: Step) -> Iterator[Effect]:
        """What a step asks of the world, one thing at a time (rule 2)."""
        agent = self._agent
        match step:
            case CallModel(tool_choice=choice, say=say):
                if say:
                    yield say
                shown = recent(self.messages, agent.keep_turns)
                schema = agent.answer.schema if agent.answer and choice == "none" else None
                yield Request(
                    shown,
                    agent.shown,
                    tool_choice=choice,
                    system=agent.instructions,
                    output_schema=schema,
                )
            case CallTools(calls=calls):
                for call in calls:
                    if call.name == THINK_NAME and agent.think:
                        yield self._think_result(call, agent.think)
                        continue
                    decided = rules.edited(call, self.messages)
                    if self._file is not None and not self._is_harmless(decided):
                        yield Started(call.id, call.name)
                    yield Perform(decided, self._idempotency_key(), edited=decided != call)
            case Refuse(call=call, reason=reason):
                said = f"error: {reason}"
                yield ToolResult(call.id, call.name, said, is_error=True, refused=True)
            case AskHuman():
                yield step

    def _is_open(self) -> bool:
        step = self.plan(self.messages)
        return not isinstance(step, Done) or step.exit == "needs_human"

    def _is_harmless(self, call: ToolCall) -> bool:
        """May it be run again without a second thought?"""
        tool = self._agent.tools.get(call.name)
        return tool is None or tool.idempotent or bool(toolbox.mistake(self._agent.tools, call))

    def _idempotency_key(self) -> str:
        """By the number of the reply and of its call, which no crash and no verdict changes."""
        replies, answered = 0, 0
        for message in self.messages:
            if isinstance(message, Assistant):
                replies, answered = replies + 1, 0
            answered += isinstance(message, ToolResult)
        return f"{self._id}-{replies}-{answered}"

    def _think_result(self, call: ToolCall, tool: Tool) -> ToolResult:
        in_a_row = trail.thoughts_in_a_row(self.messages)
        cap = self._agent.max_thoughts_in_a_row
        said = thinking.acknowledge(call, tool, in_a_row=in_a_row, cap=cap)
        return ToolResult(call.id, call.name, said)


def received(event: Delta | Assistant, request: Request, think: Tool | None) -> Iterator[Event]:
    """What the model sent, as it goes into the transcript: with ids, and held against the tool
    choice that was asked.
    """
    if not isinstance(event, Assistant):
        yield event
        return
    choice = request.tool_choice
    reply = mint_ids(replace(event, tool_choice=choice), request.messages)
    if think and not thinking.has_signal(think):
        reply = thinking.without_signal(reply)
    if choice == "auto" or reply.stop_reason in BROKEN_OFF:
        yield reply
        return
    done = honored(choice, reply)
    if reply.enforced != "prompt":  # a provider that was not asked by tool choice ignored none
        how = (reply.enforced or "tool_choice") if done else "ignored"
        reply = replace(reply, enforced=how)
    yield reply
    if not done:
        yield Notice(_not_honored(choice, reply, trail.ignored_choices(request.messages)))


def performed(effect: Perform, result: ToolResult) -> ToolResult:
    """The result as the model gets it: a person's change of its arguments is told, and recorded."""
    if not effect.edited or not isinstance(effect.call.arguments, dict):
        return result
    note = f"(A person changed this call to {trail.signature(effect.call)}.)"
    content = f"{result.content}\n{note}"
    return replace(result, content=content, arguments=effect.call.arguments)


def verdict(answer: Verdict | bool, asked: AskHuman) -> Verdict:
    """What a person answered, as a message about the call it was about."""
    call_id = asked.call.id if asked.call else ""
    if isinstance(answer, bool):
        return Verdict("yes" if answer else "no", call_id)
    return replace(answer, call_id=call_id)


def _not_honored(choice: ToolChoice, reply: Assistant, before: int) -> str:
    if choice == "none":
        return f"{reply.model} called tools in its final reply; they were not run."
    asked = f"call {choice.name}" if isinstance(choice, Force) else "call a tool"
    if reply.enforced == "prompt":
        return f"{reply.model} cannot be forced, was asked to {asked}, and did not."
    again = " From now on it is not asked any more." if before == 1 else ""
    return f"{reply.model} was forced to {asked} and did not: the choice was ignored.{again}"

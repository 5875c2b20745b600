"""What a person decides: calls that need approval, and calls that a crash left in doubt.

Rule 1: no verdict, no run. The question is a step (AskHuman), the verdict a message of the
        transcript, so a run can pause for days and go on by it.
Rule 2: "no" is an answer for the model, with the person's reason; "quit" ends the run.
Rule 3: a call that was started and has no result may have happened. It is repeated only where that
        is harmless: the tool is idempotent, or takes an idempotency key. Else a person is asked.
Rule 4: a verdict is about the one call that is next, for ids may repeat: a yes never covers two.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ..loop import AskHuman, CallTools, Done, Policy, Refuse, Step
from ..messages import Assistant, Message, Started, ToolCall, ToolResult, Verdict, current_turn
from ..tools import Tool, as_received
from ..trail import signature, thought_behind


def approval(tools: Mapping[str, Tool]) -> Policy:
    """Calls of tools that declare `needs_approval` wait for a verdict."""

    def policy(step: Step, transcript: Sequence[Message]) -> Step:
        if not isinstance(step, CallTools):
            return step
        for index, call in enumerate(step.calls):
            if not _needs_approval(tools, call):
                continue
            if index:  # what stands before it is done first
                return CallTools(step.calls[:index])
            verdict = _verdict_on(call, _since_last_result(transcript))
            if verdict is None:
                return _ask("Run {}?", call, transcript)
            if verdict.decision != "yes":
                return Refuse(call, f"not run: {_said_no(verdict)}.")
        return step

    return policy


def care(tools: Mapping[str, Tool]) -> Policy:
    """After a crash, a call that was started and has no result is not simply run again."""

    def policy(step: Step, transcript: Sequence[Message]) -> Step:
        if not isinstance(step, CallTools):
            return step
        call, since = step.calls[0], _since_last_result(transcript)
        places = [i for i, m in enumerate(since) if isinstance(m, Started) and m.call_id == call.id]
        tool = tools.get(call.name)
        if not places or tool is None or tool.idempotent or tool.takes_key:
            return step
        verdict = _verdict_on(call, since[places[-1] :])  # an older one was about an older start
        if verdict is None:
            question = "{} was started and has no result: it may have happened. Run it again?"
            return _ask(question, call, transcript)
        if verdict.decision != "yes":
            doubt = "it was started before a crash and may have happened"
            return Refuse(call, f"not run again: {doubt}. {_said_no(verdict)}.")
        return step

    return policy


def declined(step: Step, transcript: Sequence[Message]) -> Step:
    """A person who quits, or says no to going on, ends the run, whatever was planned."""
    if not isinstance(step, Done):
        for message in current_turn(transcript):
            match message:
                case Verdict(decision="quit") | Verdict(decision="no", call_id=""):
                    said = f"Stopped by {message.by or 'a person'}. {message.reason}"
                    return Done("declined", said.strip())
    return step


def nobody(step: Step, transcript: Sequence[Message]) -> Step:
    """Where nobody can be asked, the run pauses with the question."""
    return Done("needs_human", step.question) if isinstance(step, AskHuman) else step


def edited(call: ToolCall, transcript: Sequence[Message]) -> ToolCall:
    """The call as it is to be run: with the arguments that a person put in, where one did. A later
    yes, after a crash, does not take them back.
    """
    for message in reversed(_since_last_result(transcript)):
        match message:
            case Verdict(call_id=call.id, arguments=dict() as arguments):
                return replace(call, arguments=arguments)
    return call


def _ask(question: str, call: ToolCall, transcript: Sequence[Message]) -> AskHuman:
    thought = thought_behind(call, current_turn(transcript))
    call = edited(call, transcript)
    return AskHuman(question.format(signature(call)), call, thought)


def _said_no(verdict: Verdict) -> str:
    return f"{verdict.by or 'a person'} said no ({verdict.reason or 'no reason given'})"


def _needs_approval(tools: Mapping[str, Tool], call: ToolCall) -> bool:
    tool = tools.get(call.name)
    if tool is None or not tool.needs_approval:
        return False
    arguments = as_received(tools, call)
    if arguments is None:
        return False  # a call that cannot run needs nobody's approval
    needs = tool.needs_approval
    return needs if isinstance(needs, bool) else needs(arguments)


def _verdict_on(call: ToolCall, messages: Sequence[Message]) -> Verdict | None:
    for message in reversed(messages):
        if isinstance(message, Verdict) and message.call_id == call.id:
            return message
    return None


def _since_last_result(transcript: Sequence[Message]) -> Sequence[Message]:
    """What was noted about the call that is next: calls are answered in order, so all that stands
    after the last result, or the reply, is about it.
    """
    for index in range(len(transcript) - 1, -1, -1):
        if isinstance(transcript[index], (Assistant, ToolResult)):
            return transcript[index + 1 :]
    return transcript

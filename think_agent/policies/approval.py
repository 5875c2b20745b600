"""What a person decides: calls that need approval, and calls that a crash left in doubt.

Rule 1: no verdict, no run. The question is a step (AskHuman), the verdict a message of the
        transcript, so a run can pause for days and go on by it.
Rule 2: "no" is an answer for the model, with the person's reason; "quit" ends the run.
Rule 3: a call that was started and has no result may have happened. It is repeated only where that
        is harmless: the tool is idempotent, or takes an idempotency key. Else a person is asked.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from ..loop import AskHuman, CallTools, Done, Policy, Refuse, Step
from ..messages import Assistant, Json, Message, Started, ToolCall, Verdict, current_turn
from ..tools import Tool, mistake
from ..trail import signature, thought_behind

Needs: TypeAlias = bool | Callable[[Json], bool]


def approval(tools: Mapping[str, Tool]) -> Policy:
    """Calls of tools that declare `needs_approval` wait for a verdict."""

    def policy(step: Step, transcript: Sequence[Message]) -> Step:
        if not isinstance(step, CallTools):
            return step
        since = _since_reply(transcript)
        for index, call in enumerate(step.calls):
            if not _needs_approval(tools, call):
                continue
            verdict = _verdict_on(call, since)
            if verdict and verdict.decision == "yes":
                continue
            if index:  # what stands before it is done first
                return CallTools(step.calls[:index])
            return _by_verdict(verdict, call, f"Run {signature(call)}?", transcript)
        return step

    return policy


def care(tools: Mapping[str, Tool]) -> Policy:
    """After a crash, a call that was started and has no result is not simply run again."""

    def policy(step: Step, transcript: Sequence[Message]) -> Step:
        if not isinstance(step, CallTools):
            return step
        call, since = step.calls[0], _since_reply(transcript)
        started = [
            i for i, m in enumerate(since) if isinstance(m, Started) and m.call_id == call.id
        ]
        tool = tools.get(call.name)
        if not started or tool is None or tool.idempotent or tool.takes_key:
            return step
        verdict = _verdict_on(call, since[started[-1] :])
        if verdict and verdict.decision == "yes":
            return step
        question = (
            f"{signature(call)} was started and has no result: it may have happened. Run it again?"
        )
        return _by_verdict(verdict, call, question, transcript)

    return policy


def declined(step: Step, transcript: Sequence[Message]) -> Step:
    """A person who quits ends the run, whatever was planned."""
    if not isinstance(step, Done):
        for message in current_turn(transcript):
            if isinstance(message, Verdict) and message.decision == "quit":
                return Done(
                    "declined", f"Stopped by {message.by or 'a person'}. {message.reason}".strip()
                )
    return step


def nobody(step: Step, transcript: Sequence[Message]) -> Step:
    """Where nobody can be asked, the run pauses with the question."""
    return Done("needs_human", step.question) if isinstance(step, AskHuman) else step


def edited(call: ToolCall, transcript: Sequence[Message]) -> ToolCall:
    """The call as it is to be run: with the arguments that a person put in, where one did."""
    verdict = _verdict_on(call, _since_reply(transcript))
    if verdict is None or verdict.arguments is None:
        return call
    return ToolCall(call.id, call.name, verdict.arguments, call.recovered)


def _by_verdict(
    verdict: Verdict | None, call: ToolCall, question: str, transcript: Sequence[Message]
) -> Step:
    if verdict is None:
        return AskHuman(question, call, thought_behind(call, current_turn(transcript)))
    reason = verdict.reason or "no reason given"
    return Refuse(call, f"not run: {verdict.by or 'a person'} said no ({reason}).")


def _needs_approval(tools: Mapping[str, Tool], call: ToolCall) -> bool:
    tool = tools.get(call.name)
    if tool is None or not tool.needs_approval or mistake(tools, call):
        return False  # a call that cannot run needs nobody's approval
    assert isinstance(call.arguments, dict)
    return (
        tool.needs_approval
        if isinstance(tool.needs_approval, bool)
        else tool.needs_approval(call.arguments)
    )


def _verdict_on(call: ToolCall, messages: Sequence[Message]) -> Verdict | None:
    for message in reversed(messages):
        if isinstance(message, Verdict) and message.call_id == call.id:
            return message
    return None


def _since_reply(transcript: Sequence[Message]) -> Sequence[Message]:
    for index in range(len(transcript) - 1, -1, -1):
        if isinstance(transcript[index], Assistant):
            return transcript[index + 1 :]
    return transcript

"""Approval: a person decides about calls that need it.

Rule 1: without a verdict the call does not run. The question is a step (AskHuman), and the verdict
        is a message in the transcript. So a run can pause for days and then go on.
Rule 2: if the arguments of a call do not validate, the call is refused with that error. Nobody is
        asked about it.
Rule 3: the person, and the function in `needs_approval`, see the arguments as the tool will get
        them. If that function raises, the person is asked, and the question says so.
Rule 4: a yes is for the arguments that the model wrote, or for those that the person put in. The
        person is asked only once, whatever a validator or a default does later.
Rule 5: after "no" the model reads the person's reason. "quit" ends the run.
"""

from collections.abc import Mapping
from dataclasses import replace

from ..loop import AskHuman, CallTool, Done, Policy, Refuse, Step, is_action
from ..messages import ToolCall, Verdict
from ..text import well_formed
from ..think import bare
from ..tools import ModelMistake, Tool, fit, signature
from ..turn import Turn
from .text import is_text_that_changes

TRIED_BEFORE = "It was tried before and may have happened."
MOST_EDITS = 3  # of one call; if the edits never fit, it is then refused


def as_decided(step: Step, turn: Turn) -> Step:
    """The policy: from here on a call has the arguments with which it will run. Those are the ones
    to which a person said yes, if there was a question.
    """
    if not is_action(step):
        return step
    return replace(step, call=turn.as_decided(step.call), planned=bare(step.call))


def validation(tools: Mapping[str, Tool]) -> Policy:
    """Refuses a call if its arguments do not fit. Any other call goes on, with the arguments that
    its function will get. A call that no policy has changed since is not validated again.
    """

    def validate(step: Step, turn: Turn) -> Step:
        if not is_action(step) or step.call is step.validated:
            return step
        try:
            return replace(step, fitted=fit(tools, step.call), validated=step.call)
        except ModelMistake as mistake:
            return _does_not_fit(step, turn, mistake)

    return validate


def _does_not_fit(step: CallTool, turn: Turn, mistake: ModelMistake) -> Step:
    """The model is told. If a person's edit does not fit, the person is asked about the call as it
    was planned.
    """
    if not turn.edits or step.planned is None:
        return Refuse(step.call, "invalid", str(mistake))
    if turn.edits >= MOST_EDITS:
        return Refuse(step.call, "person", f"not run: it was edited, and {mistake}")
    remark = f"That edit does not fit: {mistake} This is the call as it was."
    return _question(replace(step, call=step.planned), turn, remark)


def approval(tools: Mapping[str, Tool]) -> Policy:
    """Calls that need approval wait for a verdict."""

    def ask_for_approval(step: Step, turn: Turn) -> Step:
        if not is_action(step):
            return step
        if step.retry and step.retry.is_asked:
            return _question(step, turn, TRIED_BEFORE)
        verdict = turn.verdict
        if verdict is None:
            return _ask_if_needed(step, turn, tools)
        if verdict.decision == "yes":
            return step
        by = verdict.by or "a person"
        reason = verdict.reason or "no reason given"
        return Refuse(step.call, "person", f"not run: {by} said no ({reason}).")

    return ask_for_approval


def _ask_if_needed(step: CallTool, turn: Turn, tools: Mapping[str, Tool]) -> Step:
    remarks = []
    needs = tools[step.call.name].needs_approval
    if is_text_that_changes(step.call, tools):
        remarks.append("The model wrote this call as text.")
    elif callable(needs):
        try:
            needs = needs(step.received or {})
        except Exception as error:
            remarks.append(f"The predicate raised {type(error).__name__}: {error}.")
    if not remarks and not needs:
        return step
    if step.retry:
        remarks.append(TRIED_BEFORE)
    return _question(step, turn, " ".join(remarks))


def _question(step: CallTool, turn: Turn, remark: str) -> AskHuman:
    """The question about a call, with the thought behind it. Its text is kept in the transcript, so
    it shows the arguments as they were written: `received` may hold secrets.
    """
    question = f"Run {signature(step.call)}? {remark}".rstrip()
    behind = turn.thought_behind(turn.pending[0])
    thought = behind.text if behind else ""
    as_new = step.retry.as_new if step.retry else None
    return AskHuman(question, step.call, thought, step.received, remark, as_new)


def verdict(answer: Verdict | bool, asked: AskHuman) -> Verdict:
    """The person's answer as a message. It says to which call, and with which arguments. Raises
    TypeError if the answer does not fit the question.
    """
    if isinstance(answer, bool):
        answer = Verdict("yes" if answer else "no")
    if not isinstance(answer, Verdict) or answer.call_id not in ("", asked.call_id):
        kind = type(answer).__name__
        raise TypeError(f"approve= gave {kind}: use a bool or a Verdict of this call")
    answer = replace(answer, call_id=asked.call_id, reason=well_formed(answer.reason))
    if asked.call is None or answer.decision != "yes":
        return replace(answer, new=False)
    if answer.new and asked.as_new:
        return _yes(answer, asked.as_new, asked)
    return _yes(replace(answer, new=False), asked.call, asked)


def _yes(answer: Verdict, call: ToolCall, asked: AskHuman) -> Verdict:
    """A yes to `call`, or to the arguments that the person put in. It says to what (rule 4)."""
    assert isinstance(call.arguments, dict)  # other arguments are refused before the question
    arguments = answer.arguments
    if arguments is None:
        arguments = call.arguments
    edited = arguments != call.arguments
    if edited and asked.as_new:
        raise TypeError("this call may have happened: say yes, no, or new=True, without arguments")
    return replace(answer, arguments=arguments, edited=edited)


def declined(step: Step, turn: Turn) -> Step:
    """If a person quits, or does not want to go on, the run ends, whatever was planned."""
    if turn.stop is None:
        return step
    by = turn.stop.by or "a person"
    return Done("declined", f"Stopped by {by}. {turn.stop.reason}".strip())


def pause_for_a_person(step: Step, turn: Turn) -> Step:
    """If there is nobody to ask, the run pauses with the question."""
    if isinstance(step, AskHuman):
        return Done("needs_human", step.question, step)
    return step

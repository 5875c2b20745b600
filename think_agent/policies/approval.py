"""Approval: a person decides about calls that need it.

Rule 1: without a verdict the call does not run. The question is a step (AskHuman), and the verdict
        is a message in the transcript. So a run can pause for days and then go on.
Rule 2: if the arguments of a call do not validate, the call is refused with that error. Nobody is
        asked about it.
Rule 3: the person, and the function in `needs_approval`, see the arguments as the tool will get
        them. They are validated once for the question. If that function raises, the person is
        asked, and the question says so.
Rule 4: a yes is for the arguments that the model wrote, or for those that the person put in. The
        person is asked only once, whatever a validator or a default does later.
Rule 5: after "no" the model reads the person's reason. "quit" ends the run.
"""

from collections.abc import Mapping
from dataclasses import replace

from ..loop import AskHuman, CallTool, Done, Policy, Refuse, Step
from ..messages import THINK_NAME, Verdict
from ..text import well_formed
from ..think import bare
from ..tools import STARTED_BEFORE, ModelMistake, Tool, as_received, signature
from ..turn import Turn
from .text import is_text_that_changes

MOST_EDITS = 3  # of one call; if the edits never fit, it is then refused


def validation(tools: Mapping[str, Tool]) -> Policy:
    """Refuses a call if its arguments do not fit. Any other call goes on, with the arguments that
    its function will get. After a person's yes a call is not validated again here, unless the
    person edited it.
    """

    def validate(step: Step, turn: Turn) -> Step:
        if not isinstance(step, CallTool) or step.call.name == THINK_NAME:
            return step
        verdict = turn.verdict
        decided = turn.as_decided(step.call)
        if verdict and decided == bare(step.call):
            return step
        try:
            return CallTool(step.call, as_received(tools, decided))
        except ModelMistake as mistake:
            if verdict is None:
                return Refuse(step.call, "invalid", str(mistake))
            return _ask_again(step, turn, mistake)

    return validate


def _ask_again(step: CallTool, turn: Turn, mistake: ModelMistake) -> Step:
    """Asks again, about the planned call, after an edit that does not fit."""
    edits = sum(isinstance(note, Verdict) for note in turn.notes)
    if edits >= MOST_EDITS:
        return Refuse(step.call, "person", f"not run: it was edited, and {mistake}")
    question = f"That edit does not fit: {mistake} Run {signature(bare(step.call))} as it was?"
    return AskHuman(question, bare(step.call), _thought(step, turn))


def approval(tools: Mapping[str, Tool]) -> Policy:
    """Calls that need approval wait for a verdict."""

    def ask_for_approval(step: Step, turn: Turn) -> Step:
        if not isinstance(step, CallTool) or step.call.name == THINK_NAME:
            return step
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
    remark = ""
    tool = tools.get(step.call.name)
    needs = tool.needs_approval if tool else False
    if is_text_that_changes(step.call, tools):
        remark = " The model wrote this call as text."
    elif callable(needs):
        try:
            needs = needs(step.received or {})
        except Exception as error:
            remark = f" (The predicate raised {type(error).__name__}: {error}.)"
    if not remark and not needs:
        return step
    if turn.started:
        remark = f"{remark} {STARTED_BEFORE}"
    return ask_about(step, turn, f"Run {shown_call(step, turn)}?{remark}")


def shown_call(step: CallTool, turn: Turn) -> str:
    """The call on one line, with the arguments that its function will get."""
    call = turn.as_decided(step.call)
    if step.received is not None:
        call = replace(call, arguments=step.received)
    return signature(call)


def ask_about(step: CallTool, turn: Turn, question: str) -> AskHuman:
    """The question about a call, with the thought behind it."""
    return AskHuman(question, turn.as_decided(step.call), _thought(step, turn), step.received)


def _thought(step: CallTool, turn: Turn) -> str:
    thought = turn.thought_behind(step.call)
    return thought.text if thought else ""


def verdict(answer: Verdict | bool, asked: AskHuman) -> Verdict:
    """The person's answer as a message. It says to which call, and with which arguments. Raises
    TypeError if the answer is about another call.
    """
    call_id = asked.call.id if asked.call else ""
    if isinstance(answer, bool):
        answer = Verdict("yes" if answer else "no")
    if not isinstance(answer, Verdict) or answer.call_id not in ("", call_id):
        problem = f"approve= gave {type(answer).__name__}"
        raise TypeError(f"{problem}: use a bool or a Verdict of this call")
    answer = replace(answer, call_id=call_id, reason=well_formed(answer.reason))
    if asked.call is None or answer.decision != "yes" or isinstance(asked.call.arguments, str):
        return answer
    if answer.arguments is None:  # rule 4: a yes says to what
        return replace(answer, arguments=asked.call.arguments, edited=False)
    return replace(answer, edited=answer.arguments != asked.call.arguments)


def declined(step: Step, turn: Turn) -> Step:
    """If a person quits, or does not want to go on, the run ends, whatever was planned."""
    if turn.stop is None or isinstance(step, Done):
        return step
    by = turn.stop.by or "a person"
    return Done("declined", f"Stopped by {by}. {turn.stop.reason}".strip())


def pause_for_a_person(step: Step, turn: Turn) -> Step:
    """If there is nobody to ask, the run pauses with the question."""
    if isinstance(step, AskHuman):
        return Done("needs_human", step.question)
    return step

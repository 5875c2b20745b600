"""What a person decides: calls that need approval.

Rule 1: no verdict, no run. The question is a step (AskHuman), the verdict a message of the
        transcript, so a run can pause for days and go on by it.
Rule 2: a call whose arguments do not validate is refused with that error. Nobody is asked about it.
Rule 3: the person and the predicate see the arguments as the function will get them, validated once
        for the question. A predicate that raises means yes, and the question says so.
Rule 4: a yes is to the arguments as the model wrote them, or as the person edited them, so it is
        asked once, whatever a validator or a default does later.
Rule 5: "no" is an answer for the model, with the person's reason; "quit" ends the run.
"""

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import replace

from ..loop import AskHuman, CallTool, Done, Policy, Refuse, Step
from ..messages import THINK_NAME, ToolCall, Verdict
from ..text import well_formed
from ..think import bare
from ..tools import STARTED_BEFORE, ModelMistake, Tool, as_received, signature
from ..turn import Turn
from .text import is_text_that_changes

MOST_EDITS = 3  # of one call, before edits that do not fit refuse it


def same_call(step: Step, turn: Turn) -> Step:
    """Whatever a policy of the user made of a call, it is the one that is next: its id stays."""
    match step:
        case CallTool(call) | Refuse(call) | AskHuman(call=ToolCall() as call):
            if turn.pending and call.id != turn.pending[0].id:
                return replace(step, call=replace(call, id=turn.pending[0].id))
    return step


def validation(tools: Mapping[str, Tool]) -> Policy:
    """Refuses a call whose arguments do not fit; any other goes on with what its function will get.
    What a person said yes to is not validated again before it runs, but for an edit.
    """

    def validate(step: Step, turn: Turn) -> Step:
        if not isinstance(step, CallTool) or step.call.name == THINK_NAME:
            return step
        verdict = turn.verdict
        if verdict and verdict.arguments is None:
            return step
        try:
            return CallTool(step.call, as_received(tools, turn.as_decided(step.call)))
        except ModelMistake as mistake:
            if verdict is None:
                return Refuse(step.call, "invalid", str(mistake))
            return _ask_again(step, turn, mistake)

    return validate


def _ask_again(step: CallTool, turn: Turn, mistake: ModelMistake) -> Step:
    """The question once more, about the call as it was planned, after an edit that does not fit."""
    edits = sum(isinstance(note, Verdict) for note in turn.notes)
    if edits >= MOST_EDITS:
        return Refuse(step.call, "person", f"not run: it was edited, and {mistake}")
    question = f"That edit does not fit: {mistake} Run {signature(bare(step.call))} as it was?"
    return AskHuman(question, bare(step.call), _thought(step, turn))


def approval(tools: Mapping[str, Tool]) -> Policy:
    """Calls that need a person wait for a verdict."""

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
            needs = needs(deepcopy(step.received or {}))
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
    """What a person answered, as a message about the call it was about. Raises TypeError for an
    answer about another call.
    """
    call_id = asked.call.id if asked.call else ""
    if isinstance(answer, bool):
        return Verdict("yes" if answer else "no", call_id)
    if not isinstance(answer, Verdict) or answer.call_id not in ("", call_id):
        problem = f"approve= gave {type(answer).__name__}"
        raise TypeError(f"{problem}: use a bool or a Verdict of this call")
    arguments = deepcopy(answer.arguments)
    return replace(answer, call_id=call_id, reason=well_formed(answer.reason), arguments=arguments)


def declined(step: Step, turn: Turn) -> Step:
    """A person who quits, or says no to going on, ends the run, whatever was planned."""
    if turn.stop is None or isinstance(step, Done):
        return step
    by = turn.stop.by or "a person"
    return Done("declined", f"Stopped by {by}. {turn.stop.reason}".strip())


def pause_for_a_person(step: Step, turn: Turn) -> Step:
    """Where there is no one to ask, the run pauses with the question."""
    if isinstance(step, AskHuman):
        return Done("needs_human", step.question)
    return step

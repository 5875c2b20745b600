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
from dataclasses import dataclass, replace

from ..loop import AskHuman, CallTool, Done, Policy, Refuse, Step, is_action
from ..messages import Assistant, Message, ToolCall, ToolResult, Verdict
from ..think import as_run, bare
from ..tools import Tool, signature
from ..turn import Turn
from .text import is_text_that_changes
from .validation import with_call

TRIED_BEFORE = "It was tried before and may have happened."
EDITED = "A person changed this call to"
MOST_EDITS = 3  # of one call; if the edits never fit, it is then refused


@dataclass
class Decisions:
    """What a person decided in a turn."""

    edits: int = 0  # how often a person put other arguments into the next call
    stop: Verdict | None = None  # the verdict with which a person ended the turn

    def add(self, message: Message, call: ToolCall | None) -> None:
        """Read the next message of the turn. `call`: the call that it is about."""
        match message:
            case Verdict(call_id=""):  # it says whether to go on
                self._decide(message, ends_turn=message.decision != "yes")
            case Verdict():
                self._decide(message, ends_turn=message.decision == "quit")
                if call:
                    self.edits += message.edited
            case Assistant():
                self.edits = 0
            case ToolResult() if call:
                self.edits = 0

    def _decide(self, verdict: Verdict, *, ends_turn: bool) -> None:
        if ends_turn and self.stop is None:
            self.stop = verdict


def as_decided(tools: Mapping[str, Tool]) -> Policy:
    """The policy: from here on a call has the arguments with which it will run. Those are the ones
    to which a person said yes, if there was a question.
    """

    def take_what_was_decided(step: Step, turn: Turn) -> Step:
        if not is_action(step):
            return step
        verdict = turn.verdict
        if verdict is None:
            return with_call(step, bare(step.call), tools)
        decided = with_call(step, as_run(step.call, verdict.arguments), tools)
        if isinstance(decided, Refuse):
            return _does_not_fit(step, turn, decided)
        if verdict.edited:
            return replace(decided, remark=EDITED)
        return decided

    return take_what_was_decided


def _does_not_fit(step: CallTool, turn: Turn, refusal: Refuse) -> Step:
    """If it was edited, the person is asked again, about the call as it was planned."""
    edits = turn.read(Decisions).edits
    if not edits:
        return refusal
    if edits >= MOST_EDITS:
        return Refuse(refusal.call, "person", f"not run: it was edited, and {refusal.reason}")
    remark = f"That edit does not fit: {refusal.reason} This is the call as it was."
    return question(replace(step, call=bare(step.call)), turn, remark)


def approval(tools: Mapping[str, Tool]) -> Policy:
    """Calls that need approval wait for a verdict."""

    def ask_for_approval(step: Step, turn: Turn) -> Step:
        if not is_action(step):
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
    needs = tools[step.call.name].needs_approval
    if is_text_that_changes(step.call, tools):
        remark = "The model wrote this call as text."
    elif callable(needs):
        try:
            needs = needs(step.received or {})
        except Exception as error:
            remark = f"The predicate raised {type(error).__name__}: {error}."
    if remark or needs:
        return question(step, turn, remark)
    return step


def question(step: CallTool, turn: Turn, remark: str = "") -> AskHuman:
    """The question about a call, with the thought behind it. Its text is kept in the transcript, so
    it shows the arguments as they were written: `received` may hold secrets.
    """
    as_new = step.tried.as_new
    if as_new:
        remark = f"{remark} {TRIED_BEFORE}".lstrip()
    text = f"Run {signature(step.call)}? {remark}".rstrip()
    behind = turn.thought_behind(turn.pending[0])
    thought = behind.text if behind else ""
    return AskHuman(text, step.call, thought, step.received, remark, as_new)


def declined(step: Step, turn: Turn) -> Step:
    """If a person quits, or does not want to go on, the run ends, whatever was planned."""
    stop = turn.read(Decisions).stop
    if stop is None:
        return step
    by = stop.by or "a person"
    return Done("declined", f"Stopped by {by}. {stop.reason}".strip())


def pause_for_a_person(step: Step, turn: Turn) -> Step:
    """If there is nobody to ask, the run pauses with the question."""
    if isinstance(step, AskHuman):
        return Done("needs_human", step.question, step)
    return step

"""Asking a person about a call, and acting on the answer.

`approval.py`, `doubt.py` and `text.py` decide whether to ask. How to ask is here.

Rule 1: A question is a step (AskHuman), and the verdict is a message in the transcript. So a run
        can pause for days and then go on.
Rule 2: A yes is for the arguments the model wrote, or for those the person put in. The person is
        asked only once, whatever a validator or a default does later.
Rule 3: If an edit doesn't fit the tool, the person is asked again, about the call as it was.
Rule 4: After "no" the model reads the person's reason. "quit" ends the run.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from ..history import OpenCall
from ..loop import AskHuman, CallTool, Done, Policy, Refuse, Step, is_action
from ..messages import Assistant, Message, ToolResult, Verdict
from ..think import as_run, bare
from ..tools import Tool, signature
from ..turn import Turn
from .validation import with_call

TRIED_BEFORE = "It was tried before and may have happened."
EDITED = "A person changed this call to"
MOST_EDITS = 3  # of one call; if the edits never fit, it is then refused


@dataclass
class Decisions:
    """What a person decided in a turn."""

    edits: int = 0  # how often a person put other arguments into the next call
    stop: Verdict | None = None  # the verdict with which a person ended the turn

    def add(self, message: Message, about: OpenCall | None) -> None:
        """Read the next message of the turn. `about`: the call it belongs to."""
        match message:
            case Verdict(call_id=""):  # it says whether to go on
                self._decide(message, ends_turn=message.decision != "yes")
            case Verdict():
                self._decide(message, ends_turn=message.decision == "quit")
                if about and message.edited:
                    self.edits += 1
            case Assistant():
                self.edits = 0
            case ToolResult() if about:
                self.edits = 0

    def _decide(self, verdict: Verdict, *, ends_turn: bool) -> None:
        if ends_turn and self.stop is None:
            self.stop = verdict


def make_question(step: CallTool, turn: Turn, remark: str = "") -> AskHuman:
    """The question about a call, with the thought that justifies it. Its text is recorded, so it
    shows the arguments as they were written: `received` may hold secrets.
    """
    as_new = step.tried.as_new
    if as_new:
        remark = f"{remark} {TRIED_BEFORE}".lstrip()
    text = f"Run {signature(step.call)}? {remark}".rstrip()
    behind = turn.thought_behind(turn.pending[0])
    thought = behind.text if behind else ""
    return AskHuman(text, step.call, thought, step.received, remark, as_new)


def as_decided(tools: Mapping[str, Tool]) -> Policy:
    """The policy: from here on a call has the arguments with which it will run. If a person was
    asked, these are the arguments that the person said yes to.
    """

    def take_what_was_decided(step: Step, turn: Turn) -> Step:
        if not is_action(step):
            return step
        verdict = turn.verdict
        if verdict is None:
            return with_call(step, bare(step.call), tools)
        decided = with_call(step, as_run(step.call, verdict.arguments), tools)
        if isinstance(decided, Refuse):
            return _ask_again(step, turn, decided)
        if verdict.edited:
            return replace(decided, remark=EDITED)
        return decided

    return take_what_was_decided


def _ask_again(step: CallTool, turn: Turn, refusal: Refuse) -> Step:
    """If the arguments of a verdict don't fit: ask again, if the person edited them."""
    edits = turn.read(Decisions).edits
    if not edits:
        return refusal
    if edits >= MOST_EDITS:
        return Refuse(refusal.call, "person", f"not run: it was edited, and {refusal.reason}")
    remark = f"That edit does not fit: {refusal.reason} This is the call as it was."
    return make_question(replace(step, call=bare(step.call)), turn, remark)


def refuse_denied(step: Step, turn: Turn) -> Step:
    """The policy: a call that a person said no to does not run."""
    verdict = turn.verdict
    if not is_action(step) or verdict is None or verdict.decision == "yes":
        return step
    by = verdict.by or "a person"
    reason = verdict.reason or "no reason given"
    return Refuse(step.call, "person", f"not run: {by} said no ({reason}).")


def declined(step: Step, turn: Turn) -> Step:
    """The policy: if a person quits, or does not want to go on, the run ends."""
    stop = turn.read(Decisions).stop
    if stop is None:
        return step
    by = stop.by or "a person"
    return Done("declined", f"Stopped by {by}. {stop.reason}".strip())


def pause_for_a_person(step: Step, turn: Turn) -> Step:
    """The policy: if there is no one to ask, the run pauses with the question."""
    if isinstance(step, AskHuman):
        return Done("needs_human", step.question, step)
    return step

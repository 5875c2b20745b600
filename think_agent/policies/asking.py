"""Asking a person about a call, and acting on the answer.

`approval.py`, `doubt.py` and `text.py` decide whether to ask. How to ask is here.

Rule 1: A question is a step (AskHuman), and the verdict is a message in the transcript. So a run
        can pause for days and then go on.
Rule 2: While a question waits, it is the next step, whatever today's code would do. Only a verdict,
        or a person's next message, ends it.
Rule 3: A yes is for the arguments that were shown, or for those the person put in. The person is
        asked only once, whatever a validator or a default does later.
Rule 4: If an edit doesn't fit the tool, the person is asked again, about the call as it was.
Rule 5: A no is final: no policy runs the call. The model reads the person's reason. "quit" ends the
        turn.
Rule 6: What a person says with a yes to going on is passed on to the model.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from ..history import OpenCall
from ..loop import AskHuman, CallModel, CallTool, Done, Policy, Refuse, Step, is_action
from ..messages import Assistant, Message, Paused, ToolCall, ToolResult, User, Verdict
from ..text import canonical
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
    guidance: str = ""  # what a person said with a yes to going on, until the model is told

    def add(self, message: Message, about: OpenCall | None) -> None:
        """Read the next message of the turn. `about`: the call it belongs to."""
        match message:
            case Verdict(call_id=""):  # it says whether to go on
                self._decide(message, ends_turn=message.decision != "yes")
                self.guidance = message.reason
            case Verdict():
                self._decide(message, ends_turn=message.decision == "quit")
                if about and message.edited:
                    self.edits += 1
            case User():
                self.guidance = ""
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
        remark = f"{TRIED_BEFORE} {remark}".rstrip()
    text = f"Run {signature(step.call)}? {remark}".rstrip()
    thought = _find_thought(turn)
    return AskHuman(text, step.call, thought, step.received, remark, as_new, stable=step.stable)


def _find_thought(turn: Turn) -> str:
    """The text of the thought that justifies the next call."""
    thought = turn.thought_behind(turn.pending[0])
    return thought.text if thought else ""


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
    """The policy: a call that a person said no to does not run, and is not asked about (rule 5)."""
    verdict = turn.verdict
    if verdict is None or verdict.decision == "yes":
        return step
    match step:
        case CallTool(call) | Refuse(call) | AskHuman(call=ToolCall() as call):
            by = verdict.by or "a person"
            reason = verdict.reason or "no reason given"
            return Refuse(call, "person", f"not run: {by} said no ({reason}).")
    return step


def pass_on_guidance(step: Step, turn: Turn) -> Step:
    """The policy: the model reads what a person said with a yes to going on (rule 6)."""
    guidance = turn.read(Decisions).guidance
    if not guidance or not isinstance(step, CallModel):
        return step
    if step.say:  # a question of the kit is asked, too
        return replace(step, say=replace(step.say, text=f"{step.say.text}\n{guidance}"))
    return replace(step, say=User(guidance, kind="guidance"))


def hold_question(tools: Mapping[str, Tool]) -> Policy:
    """The policy: while a question waits, the step is that question (rule 2)."""

    def hold(step: Step, turn: Turn) -> Step:
        if turn.paused is None:
            return step
        question = _ask_as_of_today(step, turn, turn.paused) or _ask_as_recorded(
            step, turn, turn.paused, tools
        )
        return replace(question, pause=turn.paused.id)

    return hold


def _ask_as_of_today(step: Step, turn: Turn, paused: Paused) -> AskHuman | None:
    """The question about the call as it would run today; None if it would not run today."""
    if isinstance(step, AskHuman) and step.call_id == paused.call_id:
        question = step
    elif is_action(step) and step.call.id == paused.call_id:
        question = make_question(step, turn)
    else:
        return None
    if question.call is None:
        return question
    recorded = as_run(turn.pending[0], paused.arguments)
    if canonical(recorded.arguments) == canonical(question.call.arguments):
        return question
    changed = f"It has changed. When it was first asked, it was {signature(recorded)}."
    return replace(question, remark=f"{question.remark} {changed}".lstrip())


def _ask_as_recorded(step: Step, turn: Turn, paused: Paused, tools: Mapping[str, Tool]) -> AskHuman:
    """The question as the record has it, if today's code would not run the call, or not ask."""
    if not paused.call_id or not turn.pending:
        return AskHuman(paused.question)
    call = as_run(turn.pending[0], paused.arguments)
    question = AskHuman(paused.question, call, _find_thought(turn), is_refused=True)
    if isinstance(step, Refuse):
        question = replace(question, remark=f"Today's code refuses it: {step.reason}")
    found = with_call(CallTool(call), call, tools)
    if isinstance(found, CallTool):
        question = replace(question, received=found.received, stable=found.stable)
    return question


def end_if_declined(step: Step, turn: Turn) -> Step:
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

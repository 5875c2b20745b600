"""Asking a person about a call, and acting on the answer.

`approval.py`, `doubt.py` and `text.py` decide whether to ask. How to ask is here.

Rule 1: A question is a step (AskHuman), and the verdict is a message in the transcript. So a run
        can pause for days and then resume.
Rule 2: While a question is open, it's the next step, even if the code has changed. Only a verdict
        or a person's next message closes it.
Rule 3: A yes applies to the arguments that were shown, or to the person's own. The person is asked
        only once, whatever a validator or a default does later.
Rule 4: If the person's arguments are invalid, they're asked again about the original call.
Rule 5: A no is final: no policy can run the call. The model reads the person's reason. "quit" ends
        the turn.
Rule 6: If a person lets the run continue and gives a reason, the model reads it.
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
MOST_EDITS = 3  # of one call; after that many invalid edits it's refused


@dataclass
class Decisions:
    """What a person decided in a turn."""

    edits: int = 0  # how often a person changed the next call's arguments
    stop: Verdict | None = None  # the verdict that ended the turn
    guidance: str = ""  # a person's words for the model, until it has read them

    def add(self, message: Message, about: OpenCall | None) -> None:
        """Read the next message of the turn. `about`: the call it belongs to."""
        match message:
            case Verdict(call_id=""):  # whether to continue
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
    shows the arguments as written: `received` may contain secrets.
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
    """The policy: give a call the arguments it will run with. If a person has said yes, these are
    the arguments they said yes to.
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
    """A verdict's arguments are invalid. If a person edited them, ask again."""
    edits = turn.read(Decisions).edits
    if not edits:
        return refusal
    if edits >= MOST_EDITS:
        return Refuse(refusal.call, "person", f"not run: it was edited, and {refusal.reason}")
    remark = f"That edit does not fit: {refusal.reason} This is the call as it was."
    return make_question(replace(step, call=bare(step.call)), turn, remark)


def refuse_denied(step: Step, turn: Turn) -> Step:
    """The policy: after a no, the call doesn't run, and there's no other question (rule 5)."""
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
    """The policy: a person's reason for continuing is passed on to the model (rule 6)."""
    guidance = turn.read(Decisions).guidance
    if not guidance or not isinstance(step, CallModel):
        return step
    if step.say:  # the kit also has a question
        return replace(step, say=replace(step.say, text=f"{step.say.text}\n{guidance}"))
    return replace(step, say=User(guidance, kind="guidance"))


def hold_question(tools: Mapping[str, Tool]) -> Policy:
    """The policy: while a question is open, it's the next step (rule 2)."""

    def hold(step: Step, turn: Turn) -> Step:
        if turn.paused is None:
            return step
        question = _ask_as_of_today(step, turn, turn.paused) or _ask_as_recorded(
            step, turn, turn.paused, tools
        )
        return replace(question, pause=turn.paused.id)

    return hold


def _ask_as_of_today(step: Step, turn: Turn, paused: Paused) -> AskHuman | None:
    """The question about the call as the current code would run it; None if it wouldn't."""
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
    """The question as recorded, for when the current code wouldn't run the call or wouldn't ask."""
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
    """The policy: the run ends if a person quits or doesn't let it continue."""
    stop = turn.read(Decisions).stop
    if stop is None:
        return step
    by = stop.by or "a person"
    return Done("declined", f"Stopped by {by}. {stop.reason}".strip())


def pause_for_a_person(step: Step, turn: Turn) -> Step:
    """The policy: if no person can be asked during the run, it pauses with the question."""
    if isinstance(step, AskHuman):
        return Done("needs_human", step.question, step)
    return step

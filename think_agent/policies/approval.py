"""What a person decides: calls that need approval, and calls that a crash left in doubt.

Rule 1: no verdict, no run. The question is a step (AskHuman), the verdict a message of the
        transcript, so a run can pause for days and go on by it.
Rule 2: "no" is an answer for the model, with the person's reason; "quit" ends the run.
Rule 3: a call that was started and has no result may have happened. It is repeated only where that
        is harmless: the tool is idempotent, or had an idempotency key. Else a person is asked.
Rule 4: a verdict is about the one call that is next, for ids may repeat: a yes never covers two.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import cast

from ..loop import AskHuman, CallTool, Done, Policy, Refuse, Step
from ..messages import Started, ToolCall, ToolResult, Verdict, from_json, to_json
from ..text import canonical, json_text, json_value, well_formed
from ..think import bare
from ..tools import Tool, as_received, signature
from ..turn import Turn

DOUBT = "{} was started and has no result: it may have happened. Run it again?"
NOT_AGAIN = "not run again: it was started before a crash and may have happened."


def approval(tools: Mapping[str, Tool]) -> Policy:
    """Calls of tools that declare `needs_approval` wait for a verdict."""

    def ask_for_approval(step: Step, turn: Turn) -> Step:
        decided = any(isinstance(note, Verdict) for note in turn.notes)  # a no stays a no
        if isinstance(step, CallTool) and (decided or _needs_approval(tools, step.call)):
            return _by_verdict(step, turn, tools)
        return step

    return ask_for_approval


def after_a_crash(tools: Mapping[str, Tool]) -> Policy:
    """A call that was started and has no result is not simply run again."""

    def ask_before_repeating(step: Step, turn: Turn) -> Step:
        if not isinstance(step, (CallTool, Refuse)) or not turn.started:
            return step
        step = CallTool(step.call)  # what may have happened is not said to be "not run"
        tool = tools.get(step.call.name)
        if tool and (tool.idempotent or (tool.takes_key and turn.started.key)):
            return step
        # An older verdict was about an older start.
        return _by_verdict(step, turn, tools, since_started=True)

    return ask_before_repeating


def declined(step: Step, turn: Turn) -> Step:
    """A person who quits, or says no to going on, ends the run, whatever was planned."""
    if turn.stop and not isinstance(step, Done):
        by = turn.stop.by or "a person"
        return Done("declined", f"Stopped by {by}. {turn.stop.reason}".strip())
    return step


def pause_for_a_person(step: Step, turn: Turn) -> Step:
    """Where there is no one to ask, the run pauses with the question."""
    return Done("needs_human", step.question) if isinstance(step, AskHuman) else step


def as_decided(call: ToolCall, turn: Turn) -> ToolCall:
    """The call as it is to be run: with the arguments that a person put in, where one did. A later
    yes, after a crash, does not take them back.
    """
    for note in reversed(turn.notes):
        match note:
            case Verdict(call_id=call.id, arguments=dict() as arguments):
                return replace(call, arguments=arguments)
    return call


def with_change(result: ToolResult, call: ToolCall, by: str) -> ToolResult:
    """The result of a call as somebody changed it: the model reads of the change."""
    content = f"{result.content}\n({by} changed this call to {signature(call)}.)"
    assert isinstance(call.arguments, dict)
    return replace(result, content=content, arguments=call.arguments)


def verdict(answer: Verdict | bool, asked: AskHuman, tools: Mapping[str, Tool]) -> Verdict:
    """What a person answered, as a message about the call it was about: a copy. Raises TypeError
    for an answer about another call, and for one that no file could hold.
    """
    call_id = asked.call.id if asked.call else ""
    if isinstance(answer, bool):
        answer = Verdict("yes" if answer else "no")
    if isinstance(answer, Verdict) and answer.call_id in ("", call_id):
        with suppress(TypeError, ValueError, RecursionError):
            kept = from_json(json_value(well_formed(json_text(to_json(answer)))))
            shown = asked.received
            if asked.call and answer.arguments is not None:
                edited = replace(asked.call, arguments=answer.arguments)
                shown, _ = as_received(tools, edited) or (None, False)
            return replace(cast(Verdict, kept), call_id=call_id, shown=shown)
    raise TypeError(f"approve= gave {type(answer).__name__}: use a bool or a Verdict of this call")


def _by_verdict(
    step: CallTool, turn: Turn, tools: Mapping[str, Tool], *, since_started: bool = False
) -> Step:
    """The call when a person said yes to it, a refusal at a no, and the question until then. A yes
    is to what was shown: the arguments as the function will get them.
    """
    call = as_decided(bare(step.call), turn)
    received, _ = as_received(tools, call) or (None, False)
    verdict = None
    for note in turn.notes:  # the last one counts
        match note:
            case Verdict("yes", call_id=step.call.id, shown=dict() as shown) if canonical(
                shown
            ) != canonical(received):
                verdict = None  # it was to something else
            case Verdict(call_id=step.call.id):
                verdict = note
            case Started() if since_started:
                verdict = None
    if verdict is None:
        thought = turn.thought_behind(step.call)
        what = signature(replace(call, arguments=received or call.arguments))
        words = DOUBT.format(what) if turn.started else f"Run {what}?"
        return AskHuman(words, call, thought.text if thought else "", received)
    if verdict.decision == "yes":
        return step
    said_no = f"{verdict.by or 'a person'} said no ({verdict.reason or 'no reason given'})"
    return Refuse(step.call, "person", f"{NOT_AGAIN if turn.started else 'not run:'} {said_no}.")


def _needs_approval(tools: Mapping[str, Tool], call: ToolCall) -> bool:
    """Declared so, or by its predicate, which sees what the function will get. One that raises, or
    is not shown all of that, cannot say that it is not needed.
    """
    tool = tools.get(call.name)
    if tool is None or not tool.needs_approval:
        return False
    received, needs = as_received(tools, call), tool.needs_approval
    if received is None or not callable(needs):
        return received is not None  # a call that cannot run needs no approval
    arguments, is_all = received
    try:
        return not is_all or bool(needs(arguments))
    except Exception:
        return True

"""Think first: no guarded tool runs without a thought behind it, whatever the provider can force.

It costs nothing when the model behaves, and it is the one of the three ways that holds everywhere.
"""

from collections.abc import Sequence, Set
from dataclasses import replace

from ..loop import CallModel, CallTools, Done, Policy, Refuse, Step
from ..messages import THINK_NAME, Assistant, Force, Message, current_turn
from ..think import THINK_FIRST
from ..trail import calls_with_thoughts, told_to_think
from .limits import check_whole


def gate(guarded: Set[str], *, patience: int = 3) -> Policy:
    """Think first: a call of a guarded tool without a thought behind it is refused, not run.

    The model is told to think and to try again, and the next call forces a thought where that is
    possible. A model that thinks by itself never notices. After `patience` refused replies in a row
    the run gives up.
    """
    check_whole("patience", patience)

    def policy(step: Step, transcript: Sequence[Message]) -> Step:
        turn = current_turn(transcript)
        match step:
            case CallTools(calls=calls) if any(call.name in guarded for call in calls):
                tried = calls_with_thoughts(turn)
                bare = [call for call, result, thought in tried if not (result or thought)]
                for index, call in enumerate(calls):
                    if call.name in guarded and call in bare:
                        return CallTools(calls[:index]) if index else Refuse(call, THINK_FIRST)
            case CallModel(tool_choice="auto") if refused := _refused_in_a_row(turn):
                if refused >= patience:
                    return Done("gave_up", f"I gave up: {refused} times in a row I acted first.")
                return replace(step, tool_choice=Force(THINK_NAME))
        return step

    return policy


def _refused_in_a_row(turn: Sequence[Message]) -> int:
    """How many of the last replies had a call refused here; one that thought ends the row."""
    count, refused = 0, False
    for message in reversed(turn):
        refused = refused or told_to_think(message)
        if isinstance(message, Assistant) and message.tool_calls:
            if not refused:
                break
            count, refused = count + 1, False
    return count

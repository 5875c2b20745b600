"""The gate: no guarded tool runs without a thought behind it, whatever the provider can force.

    last = the last thought before the call that is not blank, in a complete and readable reply
    covered(call), by the first line that fits:
        the call carries a thought that is not blank                    -> covered
        there is no `last`                                              -> not covered
        an unguarded tool was called before it in the same reply        -> not covered
        an action ran between `last` and it, in an earlier reply        -> not covered
        otherwise                                                       -> covered

(`think` itself does not count as an unguarded tool.)

So both payments in `[think, pay, pay]` are covered. `[think] → [look, pay]`, `[look, think, pay]`
and `[think] → [look] → [pay]` are refused, because the model decided to pay before it read the
result of `look`.

`cover.py` applies the rule, call by call, as the transcript is read.

The gate costs nothing if the model thinks by itself. Of all the ways to think first, it is the only
one that works everywhere.

Limitations: tools that are not guarded are not protected. What a thought says is not judged.
"""

from collections.abc import Set
from dataclasses import replace

from ..loop import CallModel, CallTool, Policy, Refuse, Step
from ..messages import THINK_NAME, Force, User
from ..think import CARRY_FIRST, THINK_FIRST
from ..turn import Turn
from .limits import is_free


def gate(guarded: Set[str], *, can_think: bool = True) -> Policy:
    """The policy: a call of a `guarded` tool is refused if no thought covers it.

    The model is told to think and to try again. If there is a think tool (`can_think`), the next
    model call forces a thought. A model that thinks by itself never notices the gate.
    """

    def think_first(step: Step, turn: Turn) -> Step:
        if is_free(step) and turn.cover.refused and can_think:
            return _force_thought(step, turn)
        if not isinstance(step, CallTool) or step.call.name not in guarded:
            return step
        if turn.thought_behind(step.call, guarded):
            return step
        return Refuse(step.call, "gate", THINK_FIRST if can_think else CARRY_FIRST)

    return think_first


def _force_thought(step: CallModel, turn: Turn) -> Step:
    question = step.say or turn.last
    if isinstance(question, User) and question.kind != "repeat":  # the question comes first
        return step
    return replace(step, tool_choice=Force(THINK_NAME))

"""The gate: no guarded tool runs without a thought behind it, whatever the provider can force.

Rule 1: a guarded call that no thought covers is refused. `cover.py` says which thought covers which
        call, with examples; it reads that off the transcript, message by message.
Rule 2: the model is told to think and to try again. If there is a think tool, the next model call
        forces a thought.
Rule 3: one thing more holds for a guarded call: if an unguarded tool was called before it in the
        same reply, no earlier thought covers it, because the model has not read that result.

The gate costs nothing if the model thinks by itself. Of all the ways to think first, it is the only
one that works everywhere.

Limitations: tools that are not guarded are not protected. What a thought says is not judged.
"""

from collections.abc import Set
from dataclasses import replace

from ..loop import CallTool, Policy, Refuse, Step, is_free
from ..messages import THINK_NAME, Force
from ..think import CARRY_FIRST, THINK_FIRST
from ..turn import Turn


def gate(guarded: Set[str], *, can_think: bool = True) -> Policy:
    """The policy. `guarded`: the names of these tools. `can_think`: is there a think tool?"""

    def think_first(step: Step, turn: Turn) -> Step:
        if is_free(step) and turn.cover.refused and can_think:
            return replace(step, tool_choice=Force(THINK_NAME))
        if not isinstance(step, CallTool) or step.call.name not in guarded:
            return step
        if turn.thought_behind(step.call, guarded):
            return step
        reason = THINK_FIRST if can_think else CARRY_FIRST.format(step.call.thought_in)
        return Refuse(step.call, "gate", reason)

    return think_first

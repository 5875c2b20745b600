"""The gate: no guarded tool runs without a thought, even if the provider can't force one.

Rule 1: a guarded call that no thought covers is refused. `cover.py` defines "covers", with
        examples.
Rule 2: the model is asked to think and try again. If there is a think tool, the next model call
        forces a thought.
Rule 3: if the same reply called an unguarded tool first, no earlier thought covers a guarded call,
        because the model hasn't read that tool's result.

If the model thinks by itself, the gate costs nothing. It's the only way to enforce a thought that
works with every provider.

Limitations: unguarded tools aren't protected, and the content of a thought isn't judged.
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

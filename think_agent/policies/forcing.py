"""Forcing: when the model is forced to think.

The kit forces a thought with the tool choice, which is only a hint to the provider. It decides for
each model call, because a turn that forced `think` on *every* call would never end. If a host
ignores two choices in a row, the kit stops sending them. (The gate also forces a thought, after it
has refused a call. If a provider rejects a tool choice, a weaker one is tried: `relax` in
`wire/outgoing.py`.)
"""

from dataclasses import dataclass, replace
from typing import Literal

from ..history import MOST_IGNORED, OpenCall
from ..loop import CallModel, Policy, Step, is_free
from ..messages import THINK_NAME, Force, Message, ToolResult
from ..turn import Turn

Forcing = Literal["never", "first", "always"]


@dataclass
class Needs:
    """For `"always"`: is a thought needed? It is at the start and after every tool call."""

    thought: bool = True  # no thought since a person spoke or a tool was called

    def add(self, message: Message, about: OpenCall | None) -> None:
        """Read the next message of the turn. `about`: the call it belongs to."""
        if not isinstance(message, ToolResult) or about is None:
            return
        if about.call.name != THINK_NAME:
            self.thought = True
        elif not message.refused and not message.is_error:  # an error: the thought was missing
            self.thought = False


def force(when: Forcing) -> Policy | None:
    """The policy that forces `think` by the tool choice.

    - `"first"`: in the first model call after a person spoke. After that the model is free.
    - `"always"`: the model must think at the start and after every action (`Force("think")`). In
      the other calls it must call some tool (`"required"`). So silence is impossible, and the exit
      signal is the only way out.
    - `"never"`: there is none; the model is always free.
    """
    match when:
        case "first":
            return force_first
        case "always":
            return force_always
        case "never":
            return None


def force_first(step: Step, turn: Turn) -> Step:
    opens_the_turn = turn.last is turn.request
    if opens_the_turn and step == CallModel():
        return CallModel(Force(THINK_NAME))
    return step


def force_always(step: Step, turn: Turn) -> Step:
    if not isinstance(step, CallModel) or step.tool_choice != "auto":
        return step
    if turn.read(Needs).thought:
        return replace(step, tool_choice=Force(THINK_NAME))
    return replace(step, tool_choice="required")


def stop_asking(step: Step, turn: Turn) -> Step:
    """The policy: after a host has ignored two tool choices in a row, send it no more."""
    if is_free(step) and turn.history.ignored >= MOST_IGNORED:
        return replace(step, tool_choice="auto")
    return step

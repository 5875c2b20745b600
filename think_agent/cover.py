"""Which thought covers a call: the rule of the gate, one event at a time.

The last thought before a call covers it, in these examples of replies. The thought must not be
blank, and its reply must have come whole.

    [think, pay, pay]         both, by the thought in their reply
    [think] → [pay]           yes: nothing was done since
    [think] → [look] → [pay]  no: the thought was written before anybody had read what `look` found
    [think] → [look, pay]     no, where `pay` is guarded (`policies/gate.py`), for the same reason
    [think] → [look, pay]     yes, where it is not
    [pay(thought=…)]          yes: a thought that a call carries covers that call alone

A refused call did not run, so the thought still counts. But an unguarded call that was refused
blocks the guarded calls behind it in the same reply: the model has not read the refusal.
"""

from collections.abc import Set
from dataclasses import dataclass, field
from typing import Literal

from .messages import ToolCall
from .think import carried

How = Literal["forced", "schema", "carried", "gated", "volunteered"]


@dataclass(frozen=True, slots=True)
class Thought:
    """A thought: how it came about, and its exit signal (None: missing or unreadable).

    It is `"forced"` by tool choice or by `"schema"` where that was asked and done, `"carried"` in a
    call's own arguments, `"gated"` when it followed a call that was refused for want of one, and
    `"volunteered"` otherwise.
    """

    text: str
    how: How
    should_continue: bool | None = None


@dataclass(slots=True)
class Cover:
    """The thought that covers the call that is next."""

    thought: Thought | None = None  # the last one that covers anything
    acted: bool = False  # since that thought, in this reply
    acted_before: bool = False  # since that thought, in an earlier reply
    called: set[str] = field(default_factory=set)  # the tools other than think, in this reply

    def begin_reply(self) -> None:
        """A new reply: its model has read all that was done before."""
        self.acted_before = self.acted_before or self.acted
        self.acted = False
        self.called = set()

    def think(self, thought: Thought) -> None:
        """A thought that covers what follows."""
        self.thought = thought
        self.acted = False
        self.acted_before = False

    def of(self, call: ToolCall, guarded: Set[str] | None = None) -> Thought | None:
        """What covers `call` if it is next. Where `guarded` is given, all tools that were called
        before it in its reply must be among them.
        """
        own_thought = carried(call)
        if own_thought:
            return Thought(own_thought, "carried")
        if self.acted_before:
            return None
        if guarded is not None and not self.called <= guarded:
            return None
        return self.thought

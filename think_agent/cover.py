"""Cover: which thought covers a call.

The thought must not be blank, and its reply must be complete and readable. Does the last thought
before `pay` cover it? (Each pair of brackets is one reply.)

    [think, pay, pay]         yes, both: the thought is in the same reply
    [think] → [pay]           yes: nothing was done in between
    [think] → [look] → [pay]  no: the model wrote the thought before it read the result of `look`
    [think] → [look, pay]     no, if `pay` is guarded (`policies/gate.py`), for the same reason
    [think] → [look, pay]     yes, if `pay` is not guarded
    [pay(thought=…)]          yes: a thought that a call carries covers that call and no other

A refused call did not run, so the thought before it still counts. But if an unguarded call was
refused, guarded calls after it in the same reply are not covered: the model has not read the
refusal.
"""

from collections.abc import Set
from dataclasses import dataclass, field
from typing import Literal

from .messages import ToolCall
from .think import carried

How = Literal["forced", "schema", "carried", "gated", "volunteered"]


@dataclass(frozen=True, slots=True)
class Thought:
    """A thought: its text, how it came about, and its exit signal (None: missing or unreadable).

    `how` is `"forced"` if the tool choice forced it, `"schema"` if a schema did, `"carried"` if it
    was in the arguments of the call itself, `"gated"` if it came after a call that was refused for
    lack of a thought, and else `"volunteered"`.
    """

    text: str
    how: How
    should_continue: bool | None = None


@dataclass(slots=True)
class Cover:
    """The thought that covers the next call."""

    thought: Thought | None = None  # the last thought that can cover a call
    acted: bool = False  # was a tool run after that thought, in this reply?
    acted_before: bool = False  # was a tool run after that thought, in an earlier reply?
    called: set[str] = field(default_factory=set)  # the tools called in this reply, without think

    def begin_reply(self) -> None:
        """A new reply. The model has now read the results of all that was done before."""
        self.acted_before = self.acted_before or self.acted
        self.acted = False
        self.called = set()

    def think(self, thought: Thought) -> None:
        """A thought that covers the calls after it."""
        self.thought = thought
        self.acted = False
        self.acted_before = False

    def of(self, call: ToolCall, guarded: Set[str] | None = None) -> Thought | None:
        """The thought that covers `call`, the next one. If `guarded` is given, all tools that were
        called earlier in the same reply must be in it.
        """
        own_thought = carried(call)
        if own_thought:
            return Thought(own_thought, "carried")
        if self.acted_before:
            return None
        if guarded is not None and not self.called <= guarded:
            return None
        return self.thought

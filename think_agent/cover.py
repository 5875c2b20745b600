"""Cover: which thought covers a call.

The thought mustn't be blank, and its reply must be complete. Does it cover `pay` in these examples?
(Each pair of brackets is one reply.)

    [think, pay, pay]         yes, both: the thought is in the same reply
    [think] → [pay]           yes: nothing was done in between
    [think] → [look] → [pay]  no: the model wrote the thought before it read the result of `look`
    [think] → [look, pay]     no, for the same reason, if `pay` is guarded (`policies/gate.py`)
    [look, think, pay]        no, if `pay` is guarded: the model hadn't read that result either
    [look, think] → [pay]     yes: no tool ran after the thought
    [pay(thought=…)]          yes: a thought that a call carries covers that call and no other

A refused call didn't run, so the thought before it still counts. But after a refused unguarded
call, guarded calls in the same reply aren't covered: the model hasn't read the refusal.
"""

from collections.abc import Set
from dataclasses import dataclass, field
from typing import Literal

from .history import OpenCall
from .messages import THINK_NAME, Assistant, Force, Message, ToolCall, ToolResult
from .text import is_blank
from .think import Signal, read_carried, read_signal, read_thought

How = Literal["forced", "schema", "carried", "gated", "volunteered"]


@dataclass(frozen=True, slots=True)
class Thought:
    """A thought: its text, why the model wrote it, and its exit signal (None: missing or
    unreadable).

    `how` is `"forced"` if the tool choice forced it, `"schema"` if a schema did, `"carried"` if it
    was in the arguments of the call itself, `"gated"` if it came after a call that was refused for
    lack of a thought, and else `"volunteered"`.
    """

    text: str
    how: How
    should_continue: Signal = None


@dataclass
class Cover:
    """The thoughts of a turn, and the one that covers the next call."""

    thoughts: list[Thought] = field(default_factory=list)  # in order, with those that calls carry
    thought: Thought | None = None  # the last thought, while it can cover a call
    acted: bool = False  # has a tool run after that thought, in this reply?
    called: set[str] = field(default_factory=set)  # by this reply, other than think
    gated: bool = False  # the gate refused a call, and no thought has covered one since
    refused: bool = False  # the gate refused a call of this reply
    reply: Assistant | None = None

    def add(self, message: Message, about: OpenCall | None) -> None:
        """Read the next message of the turn. `about`: the call it belongs to."""
        match message:
            case Assistant():
                self._begin_reply(message)
            case ToolResult() if about:
                self._end_call(message, about.call)

    def of(self, call: ToolCall, guarded: Set[str] | None = None) -> Thought | None:
        """The thought that covers `call`, which must be the next call. If `guarded` is given, an
        unguarded call earlier in the same reply means that nothing covers it.
        """
        own_thought = read_carried(call)
        if own_thought:
            return Thought(own_thought, "carried")
        if guarded is not None and not self.called <= guarded:
            return None
        return self.thought

    def _begin_reply(self, reply: Assistant) -> None:
        """The model has now read the results of all earlier calls. A thought that it wrote before
        reading them has expired.
        """
        self.reply = reply
        if self.acted:
            self.thought = None
        self.acted = False
        self.called = set()
        self.refused = False

    def _end_call(self, result: ToolResult, call: ToolCall) -> None:
        if call.name != THINK_NAME:
            if read_carried(call):
                self.thoughts.append(Thought(read_carried(call), "carried"))
            self._add_result(result, call)
        elif not result.refused:  # refused: there was no think tool
            self._add_thought(call, is_missing=result.is_error)

    def _add_thought(self, call: ToolCall, *, is_missing: bool) -> None:
        assert self.reply
        new_thought = Thought(read_thought(call), self._how(self.reply), read_signal(call))
        self.thoughts.append(new_thought)
        # Now decide whether it covers the calls after it.
        if not self.reply.is_usable or isinstance(call.arguments, str):
            return
        if is_missing or is_blank(new_thought.text):
            return
        self.thought = new_thought
        self.acted = False
        self.gated = False
        self.refused = False

    def _how(self, reply: Assistant) -> How:
        if self.gated:
            return "gated"
        if reply.enforced == "tool_choice" and reply.tool_choice == Force(THINK_NAME):
            return "forced"
        if reply.enforced == "schema" and reply.tool_choice not in ("auto", "none"):
            return "schema"
        return "volunteered"

    def _add_result(self, result: ToolResult, call: ToolCall) -> None:
        self.called.add(call.name)
        if result.refused == "gate":
            self.gated = True
            self.refused = True
        # A call that was started may have run before a crash, even if it is refused now.
        if result.in_doubt or not result.refused:
            self.acted = True

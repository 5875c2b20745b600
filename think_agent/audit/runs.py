"""Puts a run of another program together from what its rows say.

Rule 1: a result is matched to its call by id, wherever it stands, and results come in the order of
        their calls. Without ids, a result belongs to the first open call of its name.
Rule 2: neighboring rows of a model are one reply, unless the log gives them different ids. (A model
        writes a second reply only after it got an answer.)
Rule 3: what could not be read is listed with its row. So are calls without a result, results
        without a call, and calls that a model wrote as text: it may quote one, so none is counted.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import count

from ..dialects.text_calls import NAMED
from ..messages import THINK_NAME, Assistant, Json, Message, ToolCall, ToolResult, User
from ..text import json_text

ACTION = re.compile(r"(?m)^Action:\s*([\w-]+)\s*\nAction Input:")  # a call in ReAct
Said = User | Assistant | ToolResult | Json | str
"""What a row says: a message, the instructions for the model, or what could not be read."""
Parts = list[tuple[int, Assistant]]  # of a reply, each with its row


class Run:
    """One run of a log. `row` is the number of the current row. Calls of the tools in `thinks` are
    thoughts.

    `header` has the instructions, as in our own transcripts. `facts` are the other fields of the
    log. `unread`: all that could not be read, each with its row.
    """

    def __init__(self, facts: Json, thinks: Sequence[str]) -> None:
        self.facts = facts
        self.header: Json = {}
        self.messages: list[Message] = []
        self.unread: list[tuple[int, str]] = []
        self.row = 0
        self._thinks = thinks
        self._said: list[User | Parts] = []
        self._replies: dict[str, Parts] = {}  # by their id; the last one without an id by ""
        self._results: dict[str, list[tuple[int, ToolResult]]] = defaultdict(list)
        self._numbers = count(1)

    def add(self, said: Said, reply: str = "") -> None:
        """Add what a row says; `reply` is the id of its reply, if the log has one."""
        match said:
            case User():
                self._said.append(said)
                self._replies.pop("", None)
            case Assistant():
                parts = self._replies.setdefault(reply, [])
                if not parts:
                    self._said.append(parts)
                parts.append((self.row, said))
            case ToolResult():
                self._results[said.call_id or said.name].append((self.row, said))
                self._replies.pop("", None)
            case str():
                self.unread.append((self.row, said))
            case _:
                before = self.header.get("instructions", "")
                self.header["instructions"] = _joined([before, said["instructions"]])

    def end(self) -> None:
        """All rows are read: make the messages."""
        for said in self._said:
            if isinstance(said, User):
                self.messages.append(said)
            else:
                self._end_reply(said)
        for results in self._results.values():
            for self.row, result in results:
                self.add(f"a result without a call: {result.call_id!r}")

    def _end_reply(self, parts: Parts) -> None:
        """A reply, and the results of its calls in order."""
        calls: list[ToolCall] = []
        results: list[Message] = []
        for self.row, part in parts:
            for call in part.tool_calls:
                calls.append(self._as_ours(call))
                results += self._results_of(call, calls[-1])
        text = _joined(part.text for _, part in parts)
        thinking = _joined(part.thinking for _, part in parts)
        stop_reason = "tool_use"
        if not calls:  # beside calls, it may be a copy of one
            stop_reason = "end_turn"
            for name in NAMED.findall(text) + ACTION.findall(text):
                self.add(f"a call of {name}, written as text")
        self.messages += [Assistant(text, thinking, tuple(calls), stop_reason), *results]

    def _as_ours(self, call: ToolCall) -> ToolCall:
        """The call with an id; a call that is a thought becomes a call of `think`."""
        if not call.id:
            call = replace(call, id=f"call_{next(self._numbers)}")
        if call.name not in self._thinks:
            return call
        arguments = call.arguments
        if isinstance(arguments, dict) and "thought" not in arguments:
            arguments = {"thought": json_text(arguments)}
        return replace(call, name=THINK_NAME, arguments=arguments)

    def _results_of(self, call: ToolCall, ours: ToolCall) -> list[ToolResult]:
        """The result of a call, if there is one; `ours` is the call as our message has it."""
        for key in (call.id, call.name, ""):
            if self._results[key]:
                _, result = self._results[key].pop(0)
                return [replace(result, call_id=ours.id, name=ours.name)]
        self.add(f"a call without a result: {call.name}")
        return []


def _joined(texts: Iterable[str]) -> str:
    return "\n\n".join(text for text in texts if text)

"""A run of another program, put together from what its rows say.

Rule 1: results belong to calls by their id and are read in the order of the calls, wherever they
        stand. Where there are no ids, a result answers the first call of its name without one.
Rule 2: what rows say of a reply one after the other is one reply, unless the log gives them ids
        that differ. (A model speaks again only when it has been answered.)
Rule 3: whether a call failed is the log's word, where it has one. Else it is read from the text: a
        result that begins with "error" is one.
Rule 4: what could not be read is noted, with its row: also calls without a result, and results
        without a call.
"""

from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from ..messages import THINK_NAME, Assistant, Json, Message, ToolCall, ToolResult, User
from ..text import json_text


@dataclass(slots=True)
class Run:
    """One run of a log.

    `header` is what the model was told, as in a transcript of ours, `facts` what else the log says.
    `unread`: what could not be read, each with its row. `guessed`: the ids of the calls of which
    the log itself does not say whether they failed.
    """

    messages: list[Message] = field(default_factory=list)
    header: Json = field(default_factory=dict)
    facts: Json = field(default_factory=dict)
    unread: list[tuple[int, str]] = field(default_factory=list)
    guessed: set[str] = field(default_factory=set)


@dataclass(slots=True)
class _Reply:
    """A reply, and the row of each of its calls."""

    message: Assistant = field(default_factory=Assistant)
    rows: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Result:
    """The result of a call, its row, and the log's own word for whether the call failed."""

    message: ToolResult
    row: int
    failed: bool | None


class Builder:
    """Takes what the rows say. `row` is the number of the row that is read."""

    def __init__(self, facts: Json, thinks: Sequence[str]) -> None:
        self.row = 0
        self._run = Run(facts=facts)
        self._thinks = thinks
        self._said: list[User | _Reply] = []
        self._replies: dict[str, _Reply] = {}  # by the id that the log gives them
        self._current: _Reply | None = None  # what else is said without an id belongs to it
        self._results: dict[str, deque[_Result]] = defaultdict(deque)  # by id, or name
        self._calls = 0

    def unread(self, what: str) -> None:
        """Something could not be read."""
        self._run.unread.append((self.row, what))

    def add_instructions(self, text: str) -> None:
        """What the model was told before it began."""
        header = self._run.header
        header["instructions"] = _joined(header.get("instructions", ""), text)

    def add_user(self, message: User) -> None:
        """Somebody speaks to the model."""
        self._said.append(message)
        self._current = None

    def add_reply(self, part: Assistant, id: str) -> None:
        """A part of a reply; `id` is that of the reply, where the log gives it one."""
        reply = self._current
        if id:
            reply = self._replies.get(id)
        if reply is None:
            reply = _Reply()
            self._said.append(reply)
        if id:
            self._replies[id] = reply
        self._current = reply

        message = reply.message
        reply.message = replace(
            part,
            text=_joined(message.text, part.text),
            thinking=_joined(message.thinking, part.thinking),
            tool_calls=message.tool_calls + part.tool_calls,
        )
        reply.rows += [self.row] * len(part.tool_calls)

    def add_result(self, message: ToolResult, failed: bool | None) -> None:
        """What a call gave. `failed` is the log's own word for it; None where it has none."""
        key = message.call_id or message.name
        self._results[key].append(_Result(message, self.row, failed))
        self._current = None

    def end(self) -> Run:
        """The run, when all rows are read."""
        run = self._run
        for said in self._said:
            if isinstance(said, User):
                run.messages.append(said)
            else:
                self._end_reply(said)
        for results in self._results.values():
            for result in results:
                self.row = result.row
                self.unread(f"a result without a call: {result.message.call_id!r}")
        run.unread.sort()
        return run

    def _end_reply(self, reply: _Reply) -> None:
        """A reply, and the results of its calls in their order."""
        calls: list[ToolCall] = []
        results: list[Message] = []
        for call, self.row in zip(reply.message.tool_calls, reply.rows, strict=True):
            result = self._result_of(call)
            call = self._as_ours(call)
            calls.append(call)
            if result is None:
                self.unread(f"a call without a result: {call.name}")
            else:
                results.append(self._answer(call, result))
        stop_reason = "end_turn"
        if calls:
            stop_reason = "tool_use"
        message = replace(reply.message, tool_calls=tuple(calls), stop_reason=stop_reason)
        self._run.messages += [message, *results]

    def _result_of(self, call: ToolCall) -> _Result | None:
        for key in (call.id, call.name, ""):
            if self._results[key]:
                return self._results[key].popleft()
        return None

    def _as_ours(self, call: ToolCall) -> ToolCall:
        """A call with an id; a call that is a thought, in the form of ours."""
        self._calls += 1
        if not call.id:
            call = replace(call, id=f"call_{self._calls}")
        if call.name not in self._thinks:
            return call
        arguments = call.arguments
        if isinstance(arguments, dict) and "thought" not in arguments:
            arguments = {"thought": json_text(arguments)}
        return replace(call, name=THINK_NAME, arguments=arguments)

    def _answer(self, call: ToolCall, result: _Result) -> ToolResult:
        failed = result.failed
        if failed is None:
            failed = result.message.content.lstrip().lower().startswith("error")
            self._run.guessed.add(call.id)
        return replace(result.message, call_id=call.id, name=call.name, is_error=failed)


def _joined(first: str, then: str) -> str:
    if first and then:
        return f"{first}\n\n{then}"
    return first + then

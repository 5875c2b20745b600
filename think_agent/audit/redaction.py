"""Redaction: messages without what is not for every reader.

Rule 1: a field is named as it is written: an argument, a key of JSON in a result, or one of the
        messages' own `text`, `thinking`, `content`, `mistake`, `reason` and `by`.
Rule 2: the value of a hidden field is hidden *wherever else it occurs*, too: an order number that
        is hidden in an argument must not be read in the answer.
Rule 3: what holds the run together (types, ids, tool names, tool choices, figures) stays.

The edge: it knows values only as they are written. "ORD-001" in other words is not found, and
values of fewer than three characters are hidden in their field alone.
"""

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from ..messages import Assistant, Message, Started, ToolResult, User, Verdict

REDACTED = "[redacted]"
SHORTEST_VALUE = 3  # characters; hiding every "1" and "ok" would hide the run


class Redaction:
    """Hides `fields` in messages, and in whatever else is handed to `value`. `messages` are where
    their values are looked for.
    """

    def __init__(self, fields: Iterable[str], messages: Iterable[Message]) -> None:
        self.fields = frozenset(fields)
        self._found: dict[str, set[str]] = {name: set() for name in self.fields}
        self._values: re.Pattern[str] | None = None
        if self.fields:
            for message in messages:
                self.hide(message)  # the first pass only finds the values
            found = {text for texts in self._found.values() for text in texts}
            long = sorted((t for t in found if len(t) >= SHORTEST_VALUE), key=len, reverse=True)
            either = "|".join(map(re.escape, long)) or r"(?!)"
            self._values = re.compile(rf"(?<!\w)(?:{either})(?!\w)", re.IGNORECASE)

    def not_found(self) -> Iterator[str]:
        """A warning for every field that hid nothing: it may be misspelled."""
        for name in sorted(self.fields):
            if not self._found[name]:
                yield f"--redact {name}: there is no such field, so nothing was hidden by it."

    def hide(self, message: Message) -> Message:
        """The same message without what is to be hidden."""
        if not self.fields:
            return message
        changed = {name: self.value(name, getattr(message, name)) for name in _texts(message)}
        if isinstance(message, Assistant):
            changed["tool_calls"] = tuple(
                replace(call, arguments=self.value("", call.arguments))
                for call in message.tool_calls
            )
            # The provider's own form says all of this again, in a way that only it knows.
            changed["native"] = None if message.native is None else REDACTED
        return replace(message, **changed)

    def value(self, name: str, value: Any) -> Any:
        """`value`, the field of this name, without what is to be hidden in it."""
        if name in self.fields and value not in ("", None):
            self._found[name].update(_scalars(value))
            return REDACTED
        match value:
            case dict():
                return {self._masked(key): self.value(key, item) for key, item in value.items()}
            case list():
                return [self.value("", item) for item in value]
            case str():
                inner = parsed(value) if self.fields else None
                if isinstance(inner, dict | list):
                    return json.dumps(self.value("", inner), ensure_ascii=False)
                return self._masked(value)
            case int() | float() if self._values and self._values.fullmatch(str(value)):
                return REDACTED
        return value

    def _masked(self, text: str) -> str:
        return self._values.sub(REDACTED, text) if self._values else text


def _texts(message: Message) -> tuple[str, ...]:
    """The fields of a message that hold what was said, and not how the run is built."""
    match message:
        case User():
            return ("text",)
        case Assistant():
            return ("text", "thinking", "mistake")
        case ToolResult():
            return ("content",)
        case Verdict():
            return ("reason", "by", "arguments")
        case Started():
            return ()


def parsed(text: str) -> Any:
    """The JSON in a text; None where there is none."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _scalars(value: Any) -> Iterator[str]:
    match value:
        case dict():
            for item in value.values():
                yield from _scalars(item)
        case list():
            for item in value:
                yield from _scalars(item)
        case bool() | None:
            pass
        case _:
            yield str(value)

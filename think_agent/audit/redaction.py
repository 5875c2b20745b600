"""Redaction: messages without what is not for every reader.

Rule 1: a field is named as it is written: an argument, a key of JSON in a result, or one of the
        messages' own texts (`_TEXTS`), such as `text`, `thinking`, `content` and `reason`.
Rule 2: the value of a hidden field is hidden *wherever else it occurs*, too: an order number that
        is hidden in an argument must not be read in the answer.
Rule 3: what holds the run together (types, ids, tool names, tool choices, figures) stays.

The edge: it knows values only as they are written. "ORD-001" in other words is not found, and
values of fewer than three characters are hidden in their field alone.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from ..messages import Assistant, ToolResult, User, Verdict
from ..text import json_text, json_value
from .reading import Entry, Unreadable

REDACTED = "[redacted]"
SHORTEST_VALUE = 3  # characters; hiding every "1" and "ok" would hide the run


class Redaction:
    """Hides `fields` in entries, and in whatever else is handed to `value`. `entries` are where
    their values are looked for.
    """

    def __init__(self, fields: Iterable[str], entries: Iterable[Entry]) -> None:
        self.fields = frozenset(fields)
        self._found: dict[str, set[str]] = {name: set() for name in self.fields}
        self._values: re.Pattern[str] | None = None
        if self.fields:
            for entry in entries:
                self.hide(entry)  # the first pass only finds the values
            found = set().union(*self._found.values())
            long = sorted((t for t in found if len(t) >= SHORTEST_VALUE), key=len, reverse=True)
            either = "|".join(map(re.escape, long)) or r"(?!)"
            self._values = re.compile(rf"(?<!\w)(?:{either})(?!\w)", re.IGNORECASE)

    def not_found(self) -> Iterator[str]:
        """A warning for every field that hid nothing: it may be misspelled."""
        for name in sorted(self.fields):
            if not self._found[name]:
                yield f"There is no field {name} to redact, so nothing was hidden by that name."

    def hide(self, entry: Entry) -> Entry:
        """The same entry without what is to be hidden."""
        if not self.fields:
            return entry
        if isinstance(entry, Unreadable):  # it cannot be searched for fields
            return replace(entry, text=REDACTED)
        texts = _TEXTS.get(type(entry), ())
        changed = {name: self.value(name, getattr(entry, name)) for name in texts}
        if isinstance(entry, Assistant):
            calls = entry.tool_calls
            hidden = (replace(c, arguments=self.value("", c.arguments)) for c in calls)
            changed["tool_calls"] = tuple(hidden)
            # The provider's own form says all of this again, in a way that only it knows.
            changed["native"] = None if entry.native is None else REDACTED
        return replace(entry, **changed)

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
                inner = json_value(value) if self.fields else None
                if isinstance(inner, dict | list):
                    return json_text(self.value("", inner))
                return self._masked(value)
            case int() | float() if self._values and self._values.fullmatch(str(value)):
                return REDACTED
        return value

    def _masked(self, text: str) -> str:
        return self._values.sub(REDACTED, text) if self._values else text


_TEXTS: dict[type[Entry], tuple[str, ...]] = {  # what was said, not how the run is built
    User: ("text",),
    Assistant: ("text", "thinking", "commentary", "mistake", "cause", "notice"),
    ToolResult: ("content",),
    Verdict: ("reason", "by", "arguments"),
}


def _scalars(value: Any) -> set[str]:
    """All values in `value`, as text."""
    match value:
        case dict() | list():
            items = value.values() if isinstance(value, dict) else value
            return set().union(*map(_scalars, items))
        case bool() | None:
            return set()
    return {str(value)}

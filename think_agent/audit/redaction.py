"""Redaction: messages without what is not for every reader.

Rule 1: a field is named as it is written: an argument, a key of JSON in a result, or one of the
        messages' own (`TEXTS`), such as `text`, `thinking`, `content` and `reason`.
Rule 2: the value of a hidden field is hidden *wherever else it occurs*, too: an order number that
        is hidden in an argument must not be read in the answer.
Rule 3: what holds the run together (types, ids, tool names, tool choices, figures) stays.

The edge: it knows values only as they are written, and not between letters A to Z or digits (next
to others: é, a letter of Chinese, `_`). "ORD-001" in other words, or inside a longer one, is not
found, and values of fewer than three characters are hidden in their field alone.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from ..messages import Assistant
from ..text import json_text, json_value
from .reading import Entry, Unreadable

REDACTED = "[redacted]"
BEFORE = (  # a value: no letter or digit, but for that of an escape in JSON, Python or a URL
    r"(?:(?<![0-9A-Za-z])|(?<=\\[bfnrt])|(?<=\\u[0-9a-f]{4})|(?<=\\x[0-9a-f]{2})|(?<=%[0-9a-f]{2}))"
)
SHORTEST_VALUE = 3  # characters; hiding every "1" and "ok" would hide the run
TEXTS = (  # what was said or decided in an entry, not how the run is built
    *("text", "thinking", "commentary", "content", "mistake", "cause", "notice", "problem"),
    *("reason", "by", "arguments"),
)


class Redaction:
    """Hides `fields` in entries, and in whatever else is handed to `value`. `entries` are where
    their values are looked for.
    """

    def __init__(self, fields: Iterable[str], entries: Iterable[Entry]) -> None:
        self._found: dict[str, set[str]] = {name: set() for name in fields}
        self._values = re.compile(r"(?!)")  # nothing, while they are being found
        for entry in entries:
            self.hide(entry)
        found = set().union(*self._found.values())
        long = sorted((t for t in found if len(t) >= SHORTEST_VALUE), key=len, reverse=True)
        either = "|".join(map(re.escape, long)) or r"(?!)"
        self._values = re.compile(f"{BEFORE}(?:{either})(?![0-9A-Za-z])", re.IGNORECASE)

    def not_found(self) -> Iterator[str]:
        """A warning for every field that hid nothing: it may be misspelled."""
        for name, found in sorted(self._found.items()):
            if not found:
                yield f"There is no field {name} to redact, so nothing was hidden by that name."

    def hide(self, entry: Entry) -> Entry:
        """The same entry without what is to be hidden."""
        if not self._found:
            return entry
        texts = [name for name in TEXTS if hasattr(entry, name)]
        changed = {name: self.value(name, getattr(entry, name)) for name in texts}
        match entry:
            case Unreadable():  # it cannot be searched for fields
                changed["text"] = REDACTED
            case Assistant(tool_calls=calls, native=native):
                hidden = (replace(call, arguments=self.value("", call.arguments)) for call in calls)
                changed["tool_calls"] = tuple(hidden)
                # The provider's own form says all of this again, in a way that only it knows.
                changed["native"] = None if native is None else REDACTED
        return replace(entry, **changed)

    def value(self, name: str, value: Any) -> Any:
        """`value`, the field of this name, without what is to be hidden in it."""
        if name in self._found and value not in ("", None):
            if isinstance(value, dict | list):
                for part in value.values() if isinstance(value, dict) else value:
                    self.value(name, part)
            elif not isinstance(value, bool):
                self._found[name].add(str(value))
            return REDACTED
        match value:
            case dict():
                return {self._masked(key): self.value(key, item) for key, item in value.items()}
            case list():
                return [self.value("", item) for item in value]
            case str():
                data = json_value(value)
                if isinstance(data, dict | list) and (hidden := self.value("", data)) != data:
                    return json_text(hidden)
                return self._masked(value)
            case int() | float() if self._masked(str(value)) == REDACTED:
                return REDACTED
        return value

    def _masked(self, text: str) -> str:
        return self._values.sub(REDACTED, text)

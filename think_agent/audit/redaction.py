"""Redaction: a run without what is not for every reader.

Rule 1: a field is named as a tool or the model writes it (`order_id`); `orderId`, `Order ID` and
        `order-id` are the same field. The messages' own fields (`text`, `thinking`, `reason`) are
        no such fields: a tool may have an argument of that name, and it alone is hidden.
Rule 2: every field of every message is walked. The value of a hidden field is removed where it
        stands, and wherever else it occurs: in any text, JSON or not, and inside a longer word.
Rule 3: what cannot be looked into is left out whole, and that is said: a provider's own form of a
        reply, a line that cannot be read.

Limitations: a value is known as it is written (also as JSON, HTML or a URL escapes it). In other
words, or cut in two by a line break, it is not found. One of fewer than three characters is removed
in its field alone.
"""

import html
import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import fields, is_dataclass, replace
from typing import Any
from urllib.parse import quote

from ..text import json_text
from ..wire.json_reading import json_at, json_value
from .reading import Entry

REDACTED = "[redacted]"
SHORTEST_VALUE = 3  # characters; removing every "1" and "ok" would remove the run
OPAQUE = {  # fields in which values cannot be looked for
    "native": "what a provider keeps of a reply in its own form",
    "raw": "a line that cannot be read",
}
VALUE = re.compile(
    r"""(?sx)
    (?P<quote>\\*["'])(?P<quoted>(?:\\.|.)*?)(?:(?P=quote)|\Z)
    | (?P<nested>[\[{])
    | (?P<bare>(?!null|true|false)[^\s"'<>,;&}\])][^\n"'<>,;&}\])]*)
    """
)


class Redaction:
    """Hides `fields`. `entries` are where their values are looked for."""

    def __init__(self, fields: Iterable[str], entries: Iterable[Entry]) -> None:
        self._fields = {_plain(name): name for name in fields}
        self._missing = dict(self._fields)  # not found yet
        self._left_out: set[str] = set()  # what could not be looked into
        self._values: dict[int, set[str]] = defaultdict(set)  # in lower case, by their length
        spellings = "|".join(r"[\s_-]?".join(map(re.escape, name)) for name in self._fields)
        self._named = re.compile(rf"(?i)(?<![a-z0-9])({spellings})[\\\"'\s]*[:=>]\s*")
        for entry in entries:
            self.hide(entry)

    def warnings(self) -> Iterator[str]:
        """What could not be done: fields that hid nothing, and what was left out."""
        for name in self._missing.values():
            yield f"There is no field {name} to redact, so nothing was hidden by that name."
        for what in sorted(self._left_out):
            yield f"Left out whole, for hidden values cannot be looked for in it: {what}."

    def hide(self, value: Any) -> Any:
        """The same without what is to be hidden: of a text, a message, a report."""
        if not self._fields:
            return value
        match value:
            case str():
                return self._masked(value)
            case int() | float() if str(value) in self._values[len(str(value))]:
                return REDACTED
            case dict():
                return {self._masked(str(key)): self._item(key, value[key]) for key in value}
            case list() | tuple():
                return type(value)(self.hide(item) for item in value)
        if is_dataclass(value) and not isinstance(value, type):
            return replace(value, **dict(self._changed(value)))
        return value

    def _changed(self, value: Any) -> Iterator[tuple[str, Any]]:
        """The fields of a message, or of the report, without what is to be hidden."""
        for each in fields(value):
            old = getattr(value, each.name)
            if each.name in OPAQUE and old is not None:
                self._left_out.add(OPAQUE[each.name])
                yield each.name, REDACTED
            elif not isinstance(old, int | float):  # figures of the report, and tokens
                yield each.name, self.hide(old)

    def _item(self, name: str, value: Any) -> Any:
        """The value of a field, or of a key, without what is to be hidden."""
        field = _plain(name)
        if field not in self._fields or value in ("", None):
            return self.hide(value)
        self._add(field, value)
        return REDACTED

    def _add(self, field: str, value: Any) -> None:
        """Note all values inside the value of a hidden field."""
        self._missing.pop(field, None)
        if isinstance(value, dict):
            value = list(value.values())
        if isinstance(value, list):
            for item in value:
                self._add(field, item)
        elif value not in (True, False, None):
            for spelling in _spellings(str(value).strip()):
                if len(spelling) >= SHORTEST_VALUE:
                    self._values[len(spelling)].add(spelling.lower())

    def _masked(self, text: str) -> str:
        """A text without the hidden fields that it names, and without hidden values."""
        pieces: list[str] = []
        last = 0
        for name in self._named.finditer(text):
            value = VALUE.match(text, name.end())
            if value and name.start() >= last:
                pieces += [self._without_values(text[last : value.start()]), REDACTED]
                last = self._add_named(_plain(name[1]), value)
        return "".join([*pieces, self._without_values(text[last:])])

    def _add_named(self, field: str, value: re.Match[str]) -> int:
        """Note the value of a field that a text names; where it ends."""
        if value["nested"]:
            found = json_at(value.string, value.start())
            if found:
                self._add(field, found[0])
                return found[1]
            self._missing.pop(field, None)
            self._left_out.add("broken JSON, from the name of a hidden field on")
            return len(value.string)
        if value["bare"]:
            self._add(field, [value["bare"], value["bare"].split()[0]])
        else:
            self._add(field, [value["quoted"], json_value(f'"{value["quoted"]}"')])
        return value.end()

    def _without_values(self, text: str) -> str:
        lengths = sorted(self._values, reverse=True)
        pieces: list[str] = []
        last = 0
        for at in range(len(text)):
            for length in lengths:
                if at >= last and text[at : at + length].lower() in self._values[length]:
                    pieces += [text[last:at], REDACTED]
                    last = at + length
        return "".join([*pieces, text[last:]])


def _plain(name: str) -> str:
    """A name as all its spellings have it."""
    return re.sub(r"[\s_-]", "", name).lower()


def _spellings(text: str) -> set[str]:
    """A value as texts may hold it: as it is, and as JSON, HTML and URLs escape it."""
    escaped = json.dumps(text)[1:-1]
    twice = json.dumps(escaped)[1:-1]
    return {text, escaped, twice, json_text(text)[1:-1], html.escape(text), quote(text)}

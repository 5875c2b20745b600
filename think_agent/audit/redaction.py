"""Redaction hides the values of named fields everywhere in a run.

Rule 1: a field has the name that a tool or the model gave it (`order_id`); `orderId`, `Order ID`
        and `order-id` are the same field. The messages' own fields (`text`, `thinking`, `reason`)
        do not count: if a tool has an argument of that name, only that argument is hidden.
Rule 2: every field of every message is searched. The value of a hidden field is removed from that
        field and from every other place: from any text, JSON or not, and from inside a word.
Rule 3: what cannot be searched is left out whole, with a warning: a provider's own form of a reply,
        a line that cannot be read.

Limitations: a value is found as it is written (also as JSON, HTML or a URL escapes it). In other
words, or cut in two by a line break, it is not found. A value of fewer than three characters is
removed only from its own field.
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
OPAQUE = {  # fields that cannot be searched for values
    "native": "what a provider keeps of a reply in its own form",
    "raw": "a line that cannot be read",
}
# The value after a field that a text names; null, true and false are none.
VALUE = r"""(?xs:(?P<value>
    (?P<quote>\\*["'])(?P<quoted>(?:\\.|.)*?)(?:(?P=quote)|\Z)
    | (?P<nested>[\[{])
    | (?!(?:null|true|false)(?:[\s\\"'<>,;&}\])]|\Z))(?P<bare>[^\s"'<>,;&}\])][^\n"'<>,;&}\])]*)
))"""


class Redaction:
    """Hides `fields`. Their values are collected from `entries`."""

    def __init__(self, fields: Iterable[str], entries: Iterable[Entry]) -> None:
        self._fields = {_plain(name): name for name in fields}
        self._missing = dict(self._fields)  # not found yet
        self._left_out: set[str] = set()  # what could not be searched
        self._values: dict[int, set[str]] = defaultdict(set)  # in lower case, by their length
        spellings = "|".join(r"[\s_-]?".join(map(re.escape, name)) for name in self._fields)
        name = rf"(?i:(?<![a-z0-9])(?P<field>{spellings}))[\\\"'\s]*[:=>]\s*"
        self._named = re.compile(name + VALUE)
        for entry in entries:
            self.hide(entry)

    def warnings(self) -> Iterator[str]:
        """What could not be done: fields that were not found, and what was left out."""
        for name in self._missing.values():
            yield f"There is no field {name} to redact, so nothing was hidden under that name."
        for what in sorted(self._left_out):
            yield f"Left out whole, because it cannot be searched for hidden values: {what}."

    def hide(self, value: Any) -> Any:
        """A text, a message or a report without the hidden fields and values."""
        if not self._fields:
            return value
        match value:
            case str():
                return self._masked(value)
            case int() | float() if self._without_values(str(value)) == REDACTED:
                return REDACTED
            case dict():
                return {self._masked(str(key)): self._item(key, value[key]) for key in value}
            case list() | tuple():
                return type(value)(self.hide(item) for item in value)
        if is_dataclass(value) and not isinstance(value, type):
            return replace(value, **dict(self._changed(value)))
        return value

    def _changed(self, value: Any) -> Iterator[tuple[str, Any]]:
        """The fields of a message or a report, without what is hidden."""
        for each in fields(value):
            old = getattr(value, each.name)
            if each.name in OPAQUE and old is not None:
                self._left_out.add(OPAQUE[each.name])
                yield each.name, REDACTED
            elif not isinstance(old, int | float):  # counts of the report, and tokens
                yield each.name, self.hide(old)

    def _item(self, name: str, value: Any) -> Any:
        """The value of a field or a key, without what is hidden."""
        field = _plain(name)
        if field not in self._fields or value in ("", None):
            return self.hide(value)
        self._missing.pop(field, None)
        self._add(value)
        return REDACTED

    def _add(self, value: Any) -> None:
        """Remember every value inside the value of a hidden field."""
        if isinstance(value, dict):
            value = list(value.values())
        if isinstance(value, list):
            for item in value:
                self._add(item)
        elif value not in (True, False, None):
            for spelling in _spellings(str(value).strip()):
                if len(spelling) >= SHORTEST_VALUE:
                    self._values[len(spelling)].add(spelling.lower())

    def _masked(self, text: str) -> str:
        """A text without hidden fields and hidden values."""
        masked = ""
        last = 0
        named = self._named.search(text)
        while named:
            masked += self._without_values(text[last : named.start("value")]) + REDACTED
            last = self._add_named(named)
            named = self._named.search(text, last)
        return masked + self._without_values(text[last:])

    def _add_named(self, named: re.Match[str]) -> int:
        """Remember the value of a field that a text names. Returns where the value ends."""
        self._missing.pop(_plain(named["field"]), None)
        if named["nested"]:
            found = json_at(named.string, named.start("value"))
            if found:
                self._add(found[0])
                return found[1]
            self._left_out.add("broken JSON, from the name of a hidden field on")
            return len(named.string)
        if named["bare"]:
            self._add([named["bare"], named["bare"].split()[0]])
        else:
            self._add([named["quoted"], json_value(f'"{named["quoted"]}"')])
        return named.end()

    def _without_values(self, text: str) -> str:
        lengths = sorted(self._values, reverse=True)
        masked = ""
        last = 0
        for at in range(len(text)):
            for length in lengths:
                if at >= last and text[at : at + length].lower() in self._values[length]:
                    masked += text[last:at] + REDACTED
                    last = at + length
        return masked + text[last:]


def _plain(name: str) -> str:
    """A name without what its spellings differ in."""
    return re.sub(r"[\s_-]", "", name).lower()


def _spellings(text: str) -> set[str]:
    """All spellings of a value in texts: as it is, and escaped for JSON, HTML and URLs."""
    escaped = json.dumps(text)[1:-1]
    twice = json.dumps(escaped)[1:-1]
    return {text, escaped, twice, json_text(text)[1:-1], html.escape(text), quote(text)}

"""Redaction: hide the values of named fields everywhere in a run.

Rule 1: a field is named by a tool or the model (`order_id`); `orderId`, `Order ID` and `order-id`
        are the same field. The messages' own fields (`text`, `thinking`, `reason`) don't count: if
        a tool has an argument with such a name, only that argument is hidden.
Rule 2: every field of every message is searched. A hidden field's value is removed there and
        everywhere else: in any text, JSON or not, even inside a word.
Rule 3: what can't be searched is left out, with a warning: a provider's native reply, an unreadable
        line.

Rule 4: a value is found in any spelling of its characters (`spellings.py`): escaped for JSON, HTML
        or a URL, once or several times, completely or in part, in any Unicode form.

Limitations: a value isn't found if it's paraphrased, split by a line break, or encoded (base64, a
hash, a picture). A value of fewer than three characters is removed only from its own field.
"""

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import fields, is_dataclass, replace
from operator import itemgetter
from typing import Any

from ..wire.json_reading import json_at, json_value
from .reading import Entry
from .spellings import Spelled, fold_text, readings

REDACTED = "[redacted]"
SHORTEST_VALUE = 3  # characters; removing every "1" and "ok" would remove the run
OPAQUE = {  # fields that can't be searched for values
    "native": "what a provider keeps of a reply in its own form",
    "raw": "a line that cannot be read",
}
# The value after a field's name in a text; null, true and false don't count.
VALUE = r"""(?xs:(?P<value>
    (?P<quote>\\*["'])(?P<quoted>(?:\\.|.)*?)(?:(?P=quote)|\Z)
    | (?P<nested>[\[{])
    | (?!(?:null|true|false)(?:[\s\\"'<>,;&}\])]|\Z))(?P<bare>[^\s"'<>,;&}\])][^\n"'<>,;&}\])]*)
))"""


class Redaction:
    """Hides `fields`. Their values are collected from `entries`."""

    def __init__(self, fields: Iterable[str], entries: Iterable[Entry]) -> None:
        self._fields = {_spell_plainly(name): name for name in fields}
        self._missing = dict(self._fields)  # not found yet
        self._left_out: set[str] = set()  # parts that couldn't be searched
        self._values: dict[int, set[str]] = defaultdict(set)  # folded, by length
        spellings = "|".join(r"[\s_-]?".join(map(re.escape, name)) for name in self._fields)
        name = rf"(?i:(?<![a-z0-9])(?P<field>{spellings}))[\\\"'\s]*[:=>]\s*"
        self._named = re.compile(name + VALUE)
        for entry in entries:
            self.hide(entry)

    def warnings(self) -> Iterator[str]:
        """Fields that weren't found, and parts that were left out."""
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
                return self._mask(value)
            case int() | float() if self._is_value(str(value)):
                return REDACTED
            case dict():
                return {self._mask(str(key)): self._item(key, value[key]) for key in value}
            case list() | tuple():
                return type(value)(self.hide(item) for item in value)
        if is_dataclass(value) and not isinstance(value, type):
            return replace(value, **dict(self._change(value)))
        return value

    def _change(self, value: Any) -> Iterator[tuple[str, Any]]:
        """The fields of a message or a report that change when values are hidden."""
        for each in fields(value):
            old = getattr(value, each.name)
            if each.name in OPAQUE and old is not None:
                self._left_out.add(OPAQUE[each.name])
                yield each.name, REDACTED
            elif not isinstance(old, int | float):  # counts and tokens
                yield each.name, self.hide(old)

    def _item(self, name: str, value: Any) -> Any:
        """The value of a field or key, without hidden values."""
        field = _spell_plainly(name)
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
            for reading in readings(str(value).strip()):
                if len(reading.folded) >= SHORTEST_VALUE:
                    self._values[len(reading.folded)].add(reading.folded)

    def _mask(self, text: str) -> str:
        """A text without hidden fields and hidden values."""
        hidden: list[tuple[int, int]] = []  # the ranges to remove
        spelled = readings(text)
        for reading in spelled:
            self._hide_named(reading, hidden)
        for reading in spelled:
            hidden += self._find_known_values(reading)
        masked = ""
        last = 0
        for begin, end in sorted(hidden):
            if begin >= last:
                masked += text[last:begin] + REDACTED
            last = max(last, end)
        return masked + text[last:]

    def _hide_named(self, reading: Spelled, hidden: list[tuple[int, int]]) -> None:
        """Hide and remember each value whose field is named in a reading. A value that's already
        hidden isn't read again: without its escapes, its JSON may be broken.
        """
        before = sorted(hidden)
        named = self._named.search(reading.text)
        while named:
            begin, _ = reading.place(named.start("value"), named.start("value") + 1)
            earlier = bisect_right(before, begin, key=itemgetter(0))
            if earlier and begin < before[earlier - 1][1]:
                end = named.start("value") + 1
            else:
                end = self._add_named(named)
                hidden.append(reading.place(named.start("value"), end))
            named = self._named.search(reading.text, end)

    def _add_named(self, named: re.Match[str]) -> int:
        """Remember the value after a field's name in a text. Returns where the value ends."""
        self._missing.pop(_spell_plainly(named["field"]), None)
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

    def _find_known_values(self, reading: Spelled) -> Iterator[tuple[int, int]]:
        """Where hidden values are in the original text."""
        lengths = sorted(self._values, reverse=True)
        last = 0
        for at in range(len(reading.folded)):
            for length in lengths:
                end = at + length
                if at >= last and reading.folded[at:end] in self._values[length]:
                    yield reading.place_of_folded(at, end)
                    last = end

    def _is_value(self, text: str) -> bool:
        """Is the whole text a hidden value?"""
        return fold_text(text) in self._values[len(fold_text(text))]


def _spell_plainly(name: str) -> str:
    """A name without the differences between its spellings."""
    return re.sub(r"[\s_-]", "", name).lower()

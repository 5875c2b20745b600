"""Puts the items of a streamed response together (OpenAI's Responses API).

Rule 1: an event belongs to the item with its id; a call is known by its `call_id`. Some servers
        send a new id with every event. Then it belongs to an open item of the same type at the same
        `output_index`. That alone is no key: it may be missing, or the same for several items.
Rule 2: an item is what `output_item.done` says. If that has no text, it's what the end of the
        response says; if that has none, it's what was streamed.
Rule 3: the reply has every item once: those that were streamed, and those that only the end has.
"""

from collections.abc import Iterator
from typing import Any

from ..messages import Json
from ..streaming import Delta
from ..text import json_text
from .incoming import get_or_empty
from .pieces import CallReader

# A text that is streamed: its kind (a key of KINDS), and the number of its part in the item.
Place = tuple[str, int]
KINDS = {  # the type of the item, and its field that holds the text
    "output_text": ("message", "content"),
    "refusal": ("message", "content"),
    "reasoning_summary_text": ("reasoning", "summary"),
    "reasoning_text": ("reasoning", "content"),
    "function_call_arguments": ("function_call", "arguments"),
}
ARGUMENTS = "function_call_arguments"
SUMMARY = "reasoning_summary_text"
PART_TYPES = {SUMMARY: "summary_text"}  # the others are those of their events
NAMES = ("id", "call_id", "name", "role", "phase")  # an item has them from its beginning
NO_TEXT = ("", "{}")


class ItemAssembler:
    """The items of one response. The methods for events return what a watcher may see of them."""

    def __init__(self) -> None:
        self._items: list[PartialItem] = []
        self._calls = 0
        # The texts of which something was shown, where a blank line is between two of them.
        self._shown: dict[str, list[Any]] = {"thinking": [], "commentary": []}

    def add_piece(self, kind: str, event: Json) -> list[Delta]:
        """A piece of a text."""
        item = self._find_open(kind, event)
        if item.done:  # it's late, and what is done counts
            return []
        return self._show(item, _place(kind, event), _read_text(kind, event, "delta"))

    def end_text(self, kind: str, event: Json) -> list[Delta]:
        """The whole of a text that has ended. Its pieces may never have come."""
        field = {ARGUMENTS: "arguments", "refusal": "refusal"}.get(kind, "text")
        item = self._find_open(kind, event)
        return self._show_rest(item, _place(kind, event), _read_text(kind, event, field))

    def add_item(self, event: Json, *, is_done: bool) -> list[Delta]:
        """An item that begins or, if it `is_done`, that has ended."""
        given = get_or_empty(event, "item", dict)
        index = event.get("output_index")
        item = self._find_item(given, index, is_done=is_done)
        if item is None:
            item = self._begin(str(given.get("type")), index)
        item.id = given.get("id", item.id)
        if is_done:
            item.done = given
            return self._show_item(item)
        item.added = given  # a text in it may be a part of the text only
        return self._show_call(item)

    def end(self, output: list[Json]) -> list[Delta]:
        """The end of the response, with its `output`."""
        streamed = self._in_order()
        items = []
        for given, item in _pair(output, streamed):
            if item is None:
                item = self._begin(str(given.get("type")), None)
            item.end = given
            items.append(item)

        place = 0
        for item in streamed:  # rule 3
            has_only_begun = item.is_blank and not item.done
            if item in items:
                place = items.index(item) + 1
            elif not (output and has_only_begun):  # then it was nothing
                items.insert(place, item)
                place += 1
        for number, item in enumerate(items):
            item.index = number
        self._items = items
        return [delta for item in items for delta in self._show_item(item)]

    def whole(self) -> list[Json]:
        """The items, as if they had come whole."""
        return [item.whole() for item in self._in_order()]

    # Finding the item of an event (rule 1).

    def _find_open(self, kind: str, event: Json) -> "PartialItem":
        """The item to which a streamed text of this kind belongs. The text may come before it."""
        type, _ = KINDS[kind]
        id = event.get("item_id", event.get("call_id"))
        index = event.get("output_index")
        alike = [item for item in reversed(self._items) if item.type == type]
        named = [item for item in alike if id is not None and item.is_known_as(id)]
        for item in named:
            if not item.done:
                item.keeps_id = True
                return item
        for item in alike:
            if item.is_at(index) and not item.done and not item.keeps_id:
                return item
        if named:
            return named[0]
        item = self._begin(type, index)
        item.id = id
        item.keeps_id = id is not None
        return item

    def _find_item(self, given: Json, index: Any, *, is_done: bool) -> "PartialItem | None":
        """The item that is `given`, if something of it has come before."""
        for item in reversed(self._items):
            is_told_again = is_done and item.is_at(index)
            if item.is_named_in(given) and (not item.done or is_told_again):
                return item
        for item in reversed(self._items):
            is_open = not item.done if is_done else not item.is_introduced
            if is_open and item.is_at(index) and item.may_be(given):
                return item
        return None

    def _begin(self, type: str, index: Any) -> "PartialItem":
        item = PartialItem(type, index)
        if type == "function_call":
            item.reader.index = self._calls
            self._calls += 1
        self._items.append(item)
        return item

    def _in_order(self) -> "list[PartialItem]":
        """The items by their `output_index`, if each has one of its own; else as they came."""
        items = [item for item in self._items if not self._is_stray(item)]
        indexes = [item.index for item in items]
        if len({*indexes}) == len(items) and all(isinstance(index, int) for index in indexes):
            items.sort(key=lambda item: item.index)
        return items

    def _is_stray(self, item: "PartialItem") -> bool:
        """Is it a text whose item never came, and that another item has as well?"""
        if item.is_introduced:
            return False
        introduced = [other for other in self._items if other.is_introduced]
        return item.is_blank or any(item.is_like(other) for other in introduced)

    # Showing what has come.

    def _show_call(self, item: "PartialItem") -> list[Delta]:
        """The Deltas of a call that waited for its name."""
        item.reader.name = item.name
        return item.reader.take_deltas()

    def _show_item(self, item: "PartialItem") -> list[Delta]:
        """What wasn't shown yet of an item that is now there as a whole."""
        deltas = self._show_call(item)
        if item.is_shown:
            return deltas
        for place, text in _read_texts(item.type, item.whole()):
            deltas += self._show_rest(item, place, text)
        return deltas

    def _show_rest(self, item: "PartialItem", place: Place, text: str) -> list[Delta]:
        """What wasn't shown yet of a text that is now there as a whole."""
        streamed = item.text_at(place)
        if text == streamed or not text.startswith(streamed):
            return []
        return self._show(item, place, text[len(streamed) :])

    def _show(self, item: "PartialItem", place: Place, text: str) -> list[Delta]:
        item.pieces.setdefault(place, []).append(text)
        if item.type == "function_call":
            return item.reader.feed(text)
        if not text:
            return []
        if item.type == "reasoning":
            return [Delta("thinking", self._separate("thinking", (item, place), text))]
        if item.is_commentary:
            return [Delta("commentary", self._separate("commentary", item, text))]
        return [Delta("answer", text)]

    def _separate(self, kind: str, place: Any, text: str) -> str:
        """A text with a blank line before it, if it's the beginning of another one of its kind."""
        shown = self._shown[kind]
        if place in shown:
            return text
        shown.append(place)
        if len(shown) == 1:
            return text
        return f"\n\n{text}"


class PartialItem:
    """What has come of an item: as it began (`added`), as it was `done`, as it is in the `end` of
    the response, and the `pieces` of its texts. `keeps_id`: a piece of it has come under its id.
    """

    def __init__(self, type: str, index: Any) -> None:
        self.type = type
        self.index = index  # `output_index`
        self.id: Any = None
        self.keeps_id = False
        self.added: Json = {}
        self.done: Json = {}
        self.end: Json = {}
        self.pieces: dict[Place, list[str]] = {}
        self.reader = CallReader("", None)  # of a call

    @property
    def is_introduced(self) -> bool:
        """Has the item itself come, and not only pieces of its text?"""
        return bool(self.added or self.done or self.end)

    @property
    def is_blank(self) -> bool:
        """Is there no text in it?"""
        return _join_texts(self.type, self.whole()) in NO_TEXT

    @property
    def is_shown(self) -> bool:
        """Was all of its text streamed, maybe as another kind of text than it has now?"""
        streamed = _join_texts(self.type, self._join_streamed())
        return streamed == _join_texts(self.type, self.whole())

    @property
    def is_commentary(self) -> bool:
        return bool(self._find_field("phase") == "commentary")

    @property
    def name(self) -> str:
        """The name of the tool."""
        return str(self._find_field("name") or "")

    def is_at(self, index: Any) -> bool:
        """May it be at this `output_index`?"""
        return self.index in (None, index) or index is None

    def is_known_as(self, id: str) -> bool:
        """Is it its id or, as some servers write instead, its `call_id`?"""
        return id in (self.id, self._find_field("call_id"))

    def is_named_in(self, given: Json) -> bool:
        """Does `given` have its `call_id` or, if it has none, its id?"""
        if given.get("type") != self.type:
            return False
        call_id = self._find_field("call_id")
        if call_id and given.get("call_id"):
            return bool(given["call_id"] == call_id)
        return bool(self.id is not None and given.get("id") == self.id)

    def may_be(self, given: Json) -> bool:
        """May it be the item `given`, whatever their ids are?"""
        if given.get("type") != self.type:
            return False
        if self.name and given.get("name") and self.name != given["name"]:
            return False
        mine = _squeeze(self.type, self.whole())
        others = _squeeze(self.type, given)
        if self.done and self.type == "function_call":  # another call of the tool may be like it
            return mine == others
        is_part = mine.startswith(others) or others.startswith(mine)
        return is_part or mine in NO_TEXT or others in NO_TEXT

    def is_like(self, other: "PartialItem") -> bool:
        """Has it the type and the text of the other one?"""
        mine = _squeeze(self.type, self.whole())
        return self.type == other.type and mine == _squeeze(other.type, other.whole())

    def text_at(self, place: Place) -> str:
        """The text that was streamed there."""
        return "".join(self.pieces.get(place, ()))

    def whole(self) -> Json:
        """The item as if it had come whole (rule 2)."""
        last = self.done or self.end or self.added
        whole = dict(last)
        if last is self.added:
            whole.pop("encrypted_content", None)  # at the beginning, it may be a part of it
        whole.setdefault("type", self.type)
        for name in NAMES:
            value = self._find_field(name)
            if value and not whole.get(name):
                whole[name] = value
        for version in (self.done, self.end, self._join_streamed(), self.added):
            if _join_texts(self.type, version) not in NO_TEXT:
                return {**whole, **_select_texts(self.type, version)}
        return whole

    def _join_streamed(self) -> Json:
        """The item as its pieces say."""
        fields: dict[str, Any] = {}
        for place in sorted(self.pieces):
            kind, _ = place
            _, field = KINDS[kind]
            text = self.text_at(place)
            match kind:
                case "function_call_arguments":
                    fields[field] = text
                case "refusal":
                    fields.setdefault(field, []).append({"type": kind, "refusal": text})
                case _:
                    part: Json = {"type": PART_TYPES.get(kind, kind), "text": text}
                    fields.setdefault(field, []).append(part)
        return fields

    def _find_field(self, name: str) -> Any:
        for version in (self.done, self.end, self.added):
            if version.get(name):
                return version[name]
        return None


def _read_text(kind: str, event: Json, field: str) -> str:
    """A text in an event. Some servers send arguments as an object."""
    value = event.get(field)
    if kind == ARGUMENTS and isinstance(value, dict):
        return json_text(value)
    return get_or_empty(event, field, str)


def _place(kind: str, event: Json) -> Place:
    part = "summary_index" if kind == SUMMARY else "content_index"
    return kind, event.get(part) or 0


def _select_texts(type: str, item: Json) -> Json:
    """The fields of an item that hold its text."""
    fields = {field for kind, field in KINDS.values() if kind == type}
    return {field: item[field] for field in item if field in fields}


def _read_texts(type: str, item: Json) -> Iterator[tuple[Place, str]]:
    """The texts of an item, each with its place."""
    if type == "function_call":
        arguments = item.get("arguments")
        if isinstance(arguments, dict):
            arguments = json_text(arguments)
        yield (ARGUMENTS, 0), arguments or ""
    elif isinstance(item.get("content"), str):
        yield ("output_text", 0), item["content"]
    else:
        for kind, (owner, field) in KINDS.items():
            if type == owner:
                key = "refusal" if kind == "refusal" else "text"
                for number, part in enumerate(get_or_empty(item, field, list)):
                    yield (kind, number), get_or_empty(part, key, str)


def _join_texts(type: str, item: Json) -> str:
    return "".join([text for _, text in _read_texts(type, item)])


def _squeeze(type: str, item: Json) -> str:
    """The text of an item without whitespace: a server may write JSON in two ways."""
    return "".join(_join_texts(type, item).split())


def _pair(output: list[Json], streamed: list[PartialItem]) -> list[tuple[Json, PartialItem | None]]:
    """Each item of `output` with the one that was streamed: that of its name, or else the first
    that it may be. None if it wasn't streamed.
    """
    paired: dict[int, PartialItem] = {}
    rest = list(streamed)
    for is_same in (PartialItem.is_named_in, PartialItem.may_be):
        for number, given in enumerate(output):
            for item in rest:
                if number not in paired and is_same(item, given):
                    paired[number] = item
                    rest.remove(item)
                    break
    return [(given, paired.get(number)) for number, given in enumerate(output)]

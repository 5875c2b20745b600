"""Assembles the items of a streamed response (OpenAI's Responses API).

Rule 1: an event belongs to the item with its id; a call is identified by its `call_id`. Some
        servers send a new id with every event. The event then belongs to an open item of the same
        type at the same `output_index`, which alone isn't a key: it may be missing, or the same for
        several items.
Rule 2: `output_item.done` has the final item. If that has no text, the end of the response counts;
        if that has none either, the streamed pieces do.
Rule 3: the reply has every item once, including items that only the end of the response has.
"""

from collections.abc import Iterator
from typing import Any

from ..messages import Json
from ..streaming import Delta
from ..text import json_text
from .incoming import get_or_empty
from .pieces import CallReader

# A streamed text: its kind (a key of KINDS) and the number of its part in the item.
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
PART_TYPES = {SUMMARY: "summary_text"}  # other types are those of their events
NAMES = ("id", "call_id", "name", "role", "phase")  # known from the item's beginning
NO_TEXT = ("", "{}")


class ItemAssembler:
    """The items of one response. The methods for events return their Deltas."""

    def __init__(self) -> None:
        self._items: list[PartialItem] = []
        self._calls = 0
        # The last text shown, of each kind in which a blank line separates texts.
        self._shown: dict[str, list[Any]] = {"thinking": [], "commentary": []}

    def add_piece(self, kind: str, event: Json) -> list[Delta]:
        """A piece of a text."""
        item = self._find_open(kind, event)
        if item.done:  # late; the finished item counts
            return []
        return self._show(item, _place(kind, event), _read_text(kind, event, "delta"))

    def end_text(self, kind: str, event: Json) -> list[Delta]:
        """A complete text at its end. Its pieces may never have arrived."""
        field = {ARGUMENTS: "arguments", "refusal": "refusal"}.get(kind, "text")
        item = self._find_open(kind, event)
        return self._show_rest(item, _place(kind, event), _read_text(kind, event, field))

    def add_item(self, event: Json, *, is_done: bool) -> list[Delta]:
        """An item that begins or, if `is_done`, has ended."""
        given = get_or_empty(event, "item", dict)
        index = event.get("output_index")
        item = self._find_item(given, index, is_done=is_done)
        if item is None:
            item = self._begin(str(given.get("type")), index)
        item.id = given.get("id", item.id)
        if is_done:
            item.done = given
            return self._show_item(item)
        item.added = given  # a text in it may be incomplete
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
            elif not (output and has_only_begun):  # otherwise it never became anything
                items.insert(place, item)
                place += 1
        for number, item in enumerate(items):
            item.index = number
        self._items = items
        return [delta for item in items for delta in self._show_item(item)]

    def whole(self) -> list[Json]:
        """The complete items."""
        return [item.whole() for item in self._in_order()]

    # Finding the item of an event (rule 1).

    def _find_open(self, kind: str, event: Json) -> "PartialItem":
        """The item that a streamed text of this kind belongs to. The text may arrive first."""
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
        """The known item that matches `given`, if any."""
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
        """The items by `output_index` if each has its own, otherwise in order of arrival."""
        items = [item for item in self._items if not self._is_stray(item)]
        indexes = [item.index for item in items]
        if len({*indexes}) == len(items) and all(isinstance(index, int) for index in indexes):
            items.sort(key=lambda item: item.index)
        return items

    def _is_stray(self, item: "PartialItem") -> bool:
        """Is it a text without an item, which another item also has?"""
        if item.is_introduced:
            return False
        introduced = [other for other in self._items if other.is_introduced]
        return item.is_blank or any(item.is_like(other) for other in introduced)

    # Showing text.

    def _show_call(self, item: "PartialItem") -> list[Delta]:
        """Deltas for a call that was waiting for its name."""
        item.reader.name = item.name
        return item.reader.take_deltas()

    def _show_item(self, item: "PartialItem") -> list[Delta]:
        """Deltas for the rest of an item that's now complete."""
        deltas = self._show_call(item)
        if item.is_shown:
            return deltas
        for place, text in _read_texts(item.type, item.whole()):
            deltas += self._show_rest(item, place, text)
        return deltas

    def _show_rest(self, item: "PartialItem", place: Place, text: str) -> list[Delta]:
        """Deltas for the rest of a text that's now complete."""
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
        """A text, after a blank line if it begins another text of the same kind."""
        shown = self._shown[kind]
        if place in shown:
            return text
        shown.append(place)
        if len(shown) == 1:
            return text
        return f"\n\n{text}"


class PartialItem:
    """An item so far: at its beginning (`added`), when `done`, in the `end` of the response, and
    the `pieces` of its texts. `keeps_id`: a piece has arrived with its id.
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
        """Has the item itself arrived, not only pieces of its text?"""
        return bool(self.added or self.done or self.end)

    @property
    def is_blank(self) -> bool:
        """Does it have no text?"""
        return _join_texts(self.type, self.whole()) in NO_TEXT

    @property
    def is_shown(self) -> bool:
        """Was all its text streamed, perhaps as a different kind of text?"""
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
        """Can it be at this `output_index`?"""
        return self.index in (None, index) or index is None

    def is_known_as(self, id: str) -> bool:
        """Is it its id or, as some servers write instead, its `call_id`?"""
        return id in (self.id, self._find_field("call_id"))

    def is_named_in(self, given: Json) -> bool:
        """Does `given` have its `call_id` or, without one, its id?"""
        if given.get("type") != self.type:
            return False
        call_id = self._find_field("call_id")
        if call_id and given.get("call_id"):
            return bool(given["call_id"] == call_id)
        return bool(self.id is not None and given.get("id") == self.id)

    def may_be(self, given: Json) -> bool:
        """Can it be the item `given`, whatever their ids are?"""
        if given.get("type") != self.type:
            return False
        if self.name and given.get("name") and self.name != given["name"]:
            return False
        mine = _squeeze(self.type, self.whole())
        others = _squeeze(self.type, given)
        if self.done and self.type == "function_call":  # another call of the tool may look the same
            return mine == others
        is_part = mine.startswith(others) or others.startswith(mine)
        return is_part or mine in NO_TEXT or others in NO_TEXT

    def is_like(self, other: "PartialItem") -> bool:
        """Does it have the other one's type and text?"""
        mine = _squeeze(self.type, self.whole())
        return self.type == other.type and mine == _squeeze(other.type, other.whole())

    def text_at(self, place: Place) -> str:
        """The text that was streamed at this place."""
        return "".join(self.pieces.get(place, ()))

    def whole(self) -> Json:
        """The complete item (rule 2)."""
        last = self.done or self.end or self.added
        whole = dict(last)
        if last is self.added:
            whole.pop("encrypted_content", None)  # at the beginning, it may be incomplete
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
        """The item, built from its pieces."""
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
    """The fields with an item's text."""
    fields = {field for kind, field in KINDS.values() if kind == type}
    return {field: item[field] for field in item if field in fields}


def _read_texts(type: str, item: Json) -> Iterator[tuple[Place, str]]:
    """An item's texts, with their places."""
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
    """An item's text without whitespace: a server may format JSON in two ways."""
    return "".join(_join_texts(type, item).split())


def _pair(output: list[Json], streamed: list[PartialItem]) -> list[tuple[Json, PartialItem | None]]:
    """Each item of `output` with its streamed counterpart: the one with the same id, or else the
    first possible one. None if it wasn't streamed.
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

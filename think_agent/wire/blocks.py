"""Assembles the blocks of a streamed message (Anthropic's Messages API, and servers like it).

Rule 1: a block goes back with the keys it began with, and its signature. Other fields of its deltas
        (a citation, a token count) are left out.
Rule 2: a block may begin again, even with each piece: with the same id, or at the same index while
        it's incomplete.
Rule 3: if a delta doesn't fit the block at its index, such as text in an open call, it goes into
        another open block or a new one.
"""

from typing import Any

from ..messages import Assistant, Json
from ..streaming import Delta
from ..text import json_text
from .incoming import get_or_empty, make_deltas, merge_pieces, parse_arguments
from .pieces import CallReader

FIELDS = {"text": "text", "thinking": "thinking", "tool_use": "partial_json"}  # of deltas


class BlockAssembler:
    """The blocks of one message. The methods return an event's Deltas."""

    def __init__(self) -> None:
        self._blocks: list[PartialBlock] = []
        self._blocks_at: dict[Any, PartialBlock] = {}  # the latest at each index
        self._calls: list[PartialBlock] = []

    def begin(self, index: Any, start: Json) -> list[Delta]:
        for call in self._calls:
            if call.has_id_of(start):  # rule 2
                self._blocks_at[index] = call
                return call.add(start)
        at_index = self._blocks_at.get(index)
        if at_index and at_index.goes_on_with(start):
            return at_index.add(start)
        block = self._make_block(start)
        self._blocks.append(block)
        self._blocks_at[index] = block
        return block.show(start)

    def add(self, index: Any, delta: Json) -> list[Delta]:
        block = self._find_block(index, delta)
        if block is None:  # no block, and nothing that needs one
            return []
        return block.add(delta)

    def end(self, index: Any) -> None:
        block = self._blocks_at.get(index)
        if block:
            block.is_open = False

    def whole(self) -> list[Json]:
        """The complete blocks."""
        return [block.whole() for block in self._blocks]

    def _find_block(self, index: Any, delta: Json) -> "PartialBlock | None":
        at_index = self._blocks_at.get(index)
        if at_index and at_index.takes(delta):
            return at_index
        for block in reversed(self._blocks):  # rule 3
            if block.is_open and block.takes(delta):
                return block
        for type, field in FIELDS.items():
            if field in delta:
                block = self._make_block({"type": type})
                self._blocks.insert(self._find_place(type), block)
                return block
        return None

    def _find_place(self, type: str) -> int:
        """The place for a block that the server didn't begin. Text goes before the first call,
        because the API allows no text between a call and its result.
        """
        if type != "tool_use":
            for place, block in enumerate(self._blocks):
                if block.type == "tool_use":
                    return place
        return len(self._blocks)

    def _make_block(self, start: Json) -> "PartialBlock":
        block = PartialBlock(start, len(self._calls))
        if block.type == "tool_use":
            self._calls.append(block)
        return block


class PartialBlock:
    """A block so far: its start and its deltas. `number`: its call's number in the reply."""

    def __init__(self, start: Json, number: int) -> None:
        self.type = start.get("type")
        self.is_open = True
        self._is_signed = False
        self._start = start
        self._pieces = [start]
        self._reader = CallReader(get_or_empty(start, "name", str), number)

    def takes(self, delta: Json) -> bool:
        """Does the delta fit a block of this type?"""
        if "partial_json" in delta:  # also for the server's tools, whose types differ
            return self.type not in ("text", "thinking")
        for field in ("text", "thinking"):
            if field in delta:
                return self.type == field
        return True

    def has_id_of(self, start: Json) -> bool:
        """Does `start` begin this call again?"""
        if self.type != start.get("type") or not start.get("id"):
            return False
        if start.get("name") and start["name"] != self._start.get("name"):
            return False  # some servers give all calls one id
        return bool(start["id"] == self._start.get("id")) and not self._reader.is_whole

    def goes_on_with(self, start: Json) -> bool:
        """Does `start`, at this block's index, begin it again?"""
        if self.type != start.get("type"):
            return False
        match self.type:
            case "text":
                return True
            case "thinking":
                return self.is_open and not self._is_signed
            case "tool_use":
                has_id = start.get("id") or self._start.get("id")
                return not has_id and not self._reader.is_whole
        return False

    def add(self, piece: Json) -> list[Delta]:
        if isinstance(piece.get("partial_json"), dict):
            piece = {**piece, "partial_json": json_text(piece["partial_json"])}
        self._pieces.append(piece)
        if piece.get("signature"):  # it ends the thinking
            self._is_signed = True
        return self.show(piece)

    def show(self, piece: Json) -> list[Delta]:
        """The Deltas of a piece."""
        match self.type:
            case "text":
                return make_deltas(Assistant(get_or_empty(piece, "text", str)))
            case "thinking":
                return make_deltas(Assistant("", get_or_empty(piece, "thinking", str)))
            case "tool_use" if "partial_json" in piece:
                return self._reader.feed(piece["partial_json"] or "")
        return []

    def whole(self) -> Json:
        found = merge_pieces(self._pieces)
        keys = [*self._start, "signature"]  # rule 1
        if self.type in ("text", "thinking"):
            keys.append(self.type)
        block = {key: found[key] for key in keys if key in found}
        if found.get("partial_json"):  # empty for a call without arguments
            block["input"] = parse_arguments(found["partial_json"])
        return block

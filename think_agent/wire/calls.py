"""Assembles the calls of a streamed reply from their pieces (Chat Completions).

Rule 1: a piece belongs to the open call at its index. Without an index, it belongs to the same call
        as the last piece; if all pieces of its chunk begin calls, or all continue them, its place
        decides. A piece without a name follows its id, if another call began with that id.
Rule 2: at an index, a new call begins if a piece names another tool. It also begins if the open
        call's arguments are complete and the piece has a name and another id, because some servers
        send every call at index 0.
Rule 3: a piece with a name after complete arguments, but without another id, begins a repeat,
        which is dropped: some servers send each call again at the end. Different arguments make it
        a call, if an id is missing. Two beginnings with different ids are one call, unless both
        get arguments: otherwise a call that the model didn't make would run with defaults.
Rule 4: nothing else separates calls. Servers change the id in every piece or send null, send the
        name late, repeatedly or only once, and interleave the pieces of several calls.
"""

import itertools
from typing import Any

from ..messages import Json
from ..streaming import Delta
from ..text import json_text
from .incoming import get_or_empty, merge_pieces, parse_arguments
from .outgoing import drop_empty
from .pieces import CallReader


class CallAssembler:
    """The calls of one reply. `feed` takes a piece and returns its Deltas."""

    def __init__(self) -> None:
        self._calls: list[PartialCall] = []  # all calls so far
        self._numbered: list[PartialCall] = []  # the reply's calls, in order
        self._open: dict[Any, PartialCall] = {}  # the latest at each index
        self._begun: dict[Any, PartialCall] = {}  # the latest by index and first id
        self._begun_as: dict[str, PartialCall] = {}  # the latest by first id
        self._index: Any = 0  # the last piece's index

    def feed_all(self, pieces: list[Json]) -> list[Delta]:
        """`feed`, for the pieces of one chunk."""
        has_index = any(piece.get("index") is not None for piece in pieces)
        # A beginning and its continuation have no places: they may be of one call.
        are_alike = len({_has_name(piece) for piece in pieces}) == 1
        deltas = []
        for place, piece in enumerate(pieces):
            if len(pieces) > 1 and not has_index and are_alike:
                piece = {**piece, "index": place}  # rule 1
            deltas += self.feed(piece)
        return deltas

    def feed(self, piece: Json) -> list[Delta]:
        index = piece.get("index")
        if index is None:
            index = self._find_index(piece)
        self._index = index
        piece = _without_empty_fields(piece)
        says_nothing = piece.keys() <= {"type", "function"} and not piece["function"]
        if says_nothing:  # it can't begin a call
            return []
        call = self._find_call(index, piece)
        if piece["function"].get("arguments"):
            call = self._join(call)
        call.add(piece)
        if call.is_repeat is False:
            self._number(call)
        return call.reader.take_deltas()

    @property
    def may_be_cut(self) -> bool:
        """Is there a call without any arguments yet?"""
        return not all(call.has_arguments or call.is_repeat for call in self._calls)

    def whole(self) -> list[Json]:
        """The complete calls."""
        for call in self._calls:
            if not call.adds_nothing:
                self._number(call)
        return [call.whole() for call in self._numbered]

    def _find_index(self, piece: Json) -> Any:
        """The index for a piece without one (rule 1)."""
        known = self._begun_as.get(piece.get("id") or "")
        if known:
            return known.index
        return self._index

    def _find_call(self, index: Any, piece: Json) -> "PartialCall":
        """The call that a piece belongs to: an open one or a new one."""
        id = piece.get("id", "")
        name = piece["function"].get("name", "")
        call = self._open.get(index)
        earlier = self._begun.get((index, id))
        if earlier and name in ("", earlier.name) and not (call and call.is_repeat_of(earlier)):
            call = earlier  # pieces of two calls at one index may be interleaved
        if not name:
            call = self._find_unnamed(id, call)
        if call is None:
            return self._begin(index, id)
        if not name or not call.name:  # rule 4
            return call
        if call.before and call.is_repeat_of(call.before):
            call = call.before
        if name != call.name:  # rule 2
            return self._begin(index, id)
        if call.reader.is_whole:
            if call.is_blank and id in ("", call.id):
                return call  # the real arguments may come yet
            return self._begin(index, id, call)  # rule 2 or 3; later pieces decide
        is_beginning = not piece["function"].get("arguments")
        if is_beginning and not call.has_arguments and id not in ("", call.id):
            return self._begin(index, id, call)  # rule 3; `_join` decides
        return call

    def _join(self, call: "PartialCall") -> "PartialCall":
        """The call that gets the arguments of a piece that belongs to `call`: the one before it, if
        that has none (rule 3).
        """
        while call.before and not call.before.has_arguments:
            self._calls.remove(call)
            self._open[call.index] = call.before
            self._begun.pop((call.index, call.id), None)
            self._begun_as.pop(call.id, None)
            call = call.before
        return call

    def _find_unnamed(self, id: str, at_index: "PartialCall | None") -> "PartialCall | None":
        """The call that a piece without a name belongs to. `at_index`: the open call at its index
        (rule 1).
        """
        named = self._begun_as.get(id)
        if named and (at_index is None or at_index.id != id):
            return named
        if at_index is None and not id and self._calls:
            last = self._calls[-1]  # it began at the index of another call
            if last.name and not last.reader.is_whole:
                return last
        return at_index

    def _begin(self, index: Any, id: str, before: "PartialCall | None" = None) -> "PartialCall":
        call = PartialCall(index, before)
        self._calls.append(call)
        self._open[index] = call
        if id and not (before and before.id == id):
            self._begun[index, id] = call
            self._begun_as[id] = call
        return call

    def _number(self, call: "PartialCall") -> None:
        """It's known to be a separate call, so give it a number in the reply."""
        if call.reader.index is None:
            call.reader.index = len(self._numbered)
            self._numbered.append(call)


class PartialCall:
    """A call so far; its first piece was at `index`. `before`: a call of the same tool there that
    this one may repeat: a complete one or one without arguments.
    """

    def __init__(self, index: Any, before: "PartialCall | None") -> None:
        self.index = index
        self.before = before
        self.id = ""
        self.name = ""
        self.has_arguments = False
        self.reader = CallReader("", None)
        self._pieces: list[Json] = []

    def add(self, piece: Json) -> None:
        function = piece["function"]
        arguments = function.get("arguments", "")
        self.id = self.id or piece.get("id", "")
        self.name = self.name or function.get("name", "")
        self.has_arguments = self.has_arguments or bool(arguments)
        self.reader.name = self.name
        self.reader.read(arguments)
        self._pieces.append(piece)

    @property
    def is_blank(self) -> bool:
        """Are its arguments so far an empty object?"""
        return "".join(piece["function"].get("arguments", "") for piece in self._pieces) == "{}"

    @property
    def is_repeat(self) -> bool | None:
        """Does it repeat the call before it? None while that isn't clear (rule 3)."""
        before = self.before
        if before is None:
            return False
        if self.id and self.id == before.id:
            return True
        if not self.has_arguments:
            return None
        if self.id and before.id:
            return False
        if self.reader.is_whole:
            return bool(self._meaning() == before._meaning())
        return None

    def is_repeat_of(self, call: "PartialCall") -> bool:
        return self.before is call and self.is_repeat is True

    @property
    def adds_nothing(self) -> bool:
        """Is it a repeat, now that the stream has ended? If its arguments are incomplete, it's a
        call: it can't run, and the model reads why.
        """
        if self.before is None or self.is_repeat is not None:
            return self.is_repeat is True
        return self._meaning() in ({}, self.before._meaning())

    def whole(self) -> Json:
        whole = {"type": "function", **merge_pieces(self._pieces)}
        last = self._find_last_state()
        if last:
            whole["function"] = {**whole["function"], "arguments": last}
        return whole

    def _find_last_state(self) -> str:
        """The arguments, if each piece has all that came before: some servers send the state so
        far in place of a piece. Empty if they don't.
        """
        texts = [get_or_empty(piece["function"], "arguments", str) for piece in self._pieces]
        texts = [text for text in texts if text]
        if len(texts) < 2 or isinstance(parse_arguments("".join(texts)), dict):
            return ""
        for before, text in itertools.pairwise(texts):
            if not text.startswith(before):
                return ""
        if isinstance(parse_arguments(texts[-1]), dict):
            return texts[-1]
        return ""

    def _meaning(self) -> Any:
        """Its arguments, for comparison."""
        return parse_arguments(self.whole()["function"].get("arguments"))


def _has_name(piece: Json) -> bool:
    return bool(get_or_empty(piece, "function", dict).get("name"))


def _without_empty_fields(piece: Json) -> Json:
    """A piece without its index, nulls and empty texts. Its arguments are text."""
    function = drop_empty(**get_or_empty(piece, "function", dict))
    get_or_empty(function, "name", str)  # raises ValueError for any other type
    arguments = function.get("arguments", "")
    if not isinstance(arguments, str):
        function["arguments"] = json_text(arguments)
    plain = drop_empty(**piece)
    plain.pop("index", None)
    if plain.get("id") == "null":  # null from another language, as a word
        del plain["id"]
    return {**plain, "function": function}

"""Assembles the calls of a streamed reply from their pieces (Chat Completions).

Rule 1: a piece belongs to the open call at its index. Without an index, it belongs to the same call
        as the last piece.
Rule 2: at an index, a new call begins if a piece names another tool. It also begins if the open
        call's arguments are complete and the piece has a name and another id, because some servers
        send every call at index 0.
Rule 3: a piece with a name after complete arguments, but without another id, begins a repeat,
        because some servers send each call again at the end. A repeat is dropped. If an id is
        missing, different arguments mean a separate call. Without arguments it never is one,
        whatever its id: otherwise a call that the model didn't make would run with defaults.
Rule 4: nothing else separates calls. Servers change the id in every piece or send null, send the
        name late, repeatedly or only once, and interleave the pieces of several calls.
"""

from typing import Any

from ..messages import Json
from ..streaming import Delta
from ..text import json_text
from .incoming import get_or_empty, merge_pieces, parse_arguments
from .json_reading import json_value
from .outgoing import drop_empty
from .pieces import CallReader


class CallAssembler:
    """The calls of one reply. `feed` takes a piece and returns its Deltas."""

    def __init__(self) -> None:
        self._calls: list[PartialCall] = []  # all calls so far
        self._numbered: list[PartialCall] = []  # the reply's calls, in order
        self._open: dict[Any, PartialCall] = {}  # the latest at each index
        self._begun: dict[Any, PartialCall] = {}  # the latest by index and first id
        self._index: Any = 0  # the last piece's index

    def feed(self, piece: Json) -> list[Delta]:
        index = piece.get("index")
        if index is None:
            index = self._index  # rule 1
        self._index = index
        piece = _without_empty_fields(piece)
        says_nothing = piece.keys() <= {"type", "function"} and not piece["function"]
        if says_nothing:  # it can't begin a call
            return []
        call = self._find_call(index, piece)
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

    def _find_call(self, index: Any, piece: Json) -> "PartialCall":
        """The call that a piece belongs to: an open one or a new one."""
        id = piece.get("id", "")
        name = piece["function"].get("name", "")
        call = self._open.get(index)
        earlier = self._begun.get((index, id))
        if earlier and name in ("", earlier.name) and not (call and call.is_repeat_of(earlier)):
            call = earlier  # pieces of two calls at one index may be interleaved
        if call is None:
            return self._begin(index, id)
        if not name or not call.name:  # rule 4
            return call
        if call.before and call.is_repeat_of(call.before):
            call = call.before
        if name != call.name:  # rule 2
            return self._begin(index, id)
        if call.reader.is_whole:  # rule 2 or 3; later pieces decide
            return self._begin(index, id, call)
        return call

    def _begin(self, index: Any, id: str, before: "PartialCall | None" = None) -> "PartialCall":
        call = PartialCall(before)
        self._calls.append(call)
        self._open[index] = call
        if id and not (before and before.id == id):
            self._begun[index, id] = call
        return call

    def _number(self, call: "PartialCall") -> None:
        """It's known to be a separate call, so give it a number in the reply."""
        if call.reader.index is None:
            call.reader.index = len(self._numbered)
            self._numbered.append(call)


class PartialCall:
    """A call so far. `before`: a complete call of the same tool at the same index, which this one
    may repeat.
    """

    def __init__(self, before: "PartialCall | None") -> None:
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
        return {"type": "function", **merge_pieces(self._pieces)}

    def _meaning(self) -> Any:
        """Its arguments, for comparison. A repeat may have them as JSON text inside JSON text."""
        arguments = parse_arguments(self.whole()["function"].get("arguments"))
        if isinstance(arguments, str):
            inner = json_value(arguments)
            if isinstance(inner, str):
                return parse_arguments(inner)
        return arguments


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

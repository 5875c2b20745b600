"""Context: which messages of a conversation go into a request.

The functions are pure, so the same messages give the same request, even after a resume. The
transcript keeps everything.

Rule 1: Signed history is never shortened. Some providers check the signature against everything
        before it.
Rule 2: Within a turn, only results of `read_only` tools are left out: a model that reads "call it
        again" about a payment would pay again. Results of the latest reply always stay.
Rule 3: When a request would exceed the limit, results are left out, oldest first, until it's down
        to half the limit. So most requests begin with the same bytes as the one before, and a
        provider's cache still helps.
"""

from collections.abc import Collection, Sequence
from dataclasses import replace

from .history import History
from .messages import Assistant, Spoken, ToolResult


def select_turns(history: History, turns: float) -> tuple[Spoken, ...]:
    """The messages of the last `turns` turns, and of any turn since history was signed (rule 1)."""
    begun = len(history.starts)
    if history.signed:
        begun = history.signed
    if begun <= turns:
        return tuple(history.spoken)
    return tuple(history.spoken[history.starts[begun - int(turns)] :])


def find_left_out(
    turn: Sequence[Spoken], read_only: Collection[str], max_chars: float
) -> tuple[set[int], bool]:
    """The indexes of the results in a turn that its next request leaves out, and whether this is
    the first request that does. `read_only`: the names of these tools.
    """
    left_out: set[int] = set()
    can_be_left_out: list[int] = []  # of earlier replies, oldest first
    latest: list[int] = []  # of the latest reply
    shown = 0  # characters
    is_first = False
    for place, message in enumerate(turn):
        if isinstance(message, ToolResult):
            shown += len(message.content)
            if message.name in read_only:
                latest.append(place)
        is_asked = place + 1 == len(turn) or isinstance(turn[place + 1], Assistant)
        if not is_asked:
            continue
        is_first = not left_out
        if shown > max_chars:
            while can_be_left_out and shown > max_chars / 2:
                oldest = can_be_left_out.pop(0)
                message = turn[oldest]
                assert isinstance(message, ToolResult)
                shown += len(_describe(message)) - len(message.content)
                left_out.add(oldest)
        is_first = is_first and bool(left_out)
        can_be_left_out += latest
        latest = []
    return left_out, is_first


def leave_out(turn: Sequence[Spoken], places: Collection[int]) -> tuple[Spoken, ...]:
    """The messages of a turn, with the results at these indexes replaced by a short note."""
    shown = list(turn)
    for place in places:
        message = shown[place]
        assert isinstance(message, ToolResult)
        shown[place] = replace(message, content=_describe(message))
    return tuple(shown)


def _describe(result: ToolResult) -> str:
    return f"(left out, {len(result.content):,} characters; call it again)"

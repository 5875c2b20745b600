"""What the kit does, counted instead of timed: what its functions execute while a block runs."""

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import think_agent

PACKAGE = Path(think_agent.__file__).parent


@contextmanager
def counted() -> Iterator[Counter[CodeType]]:
    """How much each function of the package does in this thread: how often it is entered, the lines
    it runs (each round of a loop or a comprehension is at least one) and the built-ins it calls.
    """
    found: Counter[CodeType] = Counter()
    inside = f"{PACKAGE}/"

    def called(frame: FrameType, event: str, _: Any) -> None:
        if event == "c_call" and frame.f_code.co_filename.startswith(inside):
            found[frame.f_code] += 1

    def entered(frame: FrameType, event: str, _: Any) -> Any:
        if not frame.f_code.co_filename.startswith(inside):
            return None
        found[frame.f_code] += 1
        return entered

    before = sys.getprofile(), sys.gettrace()
    sys.setprofile(called)
    sys.settrace(entered)
    try:
        yield found
    finally:
        sys.setprofile(before[0])
        sys.settrace(before[1])


def grows_evenly(work: Callable[[int], object], few: int, many: int) -> bool:
    """Does `work(many)` take no more steps a piece than `work(few)`, but for a fifth?"""
    counts = []
    work(few)  # this pays for what is made once
    for number in (few, many):
        with counted() as found:
            work(number)
        counts.append(found.total())
    return counts[1] / many < 1.2 * counts[0] / few

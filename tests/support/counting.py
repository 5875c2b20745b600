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
    # By the id of a code: to hash it reads all of it. `codes` keeps it alive.
    steps: Counter[int] = Counter()
    codes: dict[int, CodeType] = {}

    def entered(frame: FrameType, event: str, argument: Any) -> Any:
        code = frame.f_code
        if not code.co_filename.startswith(inside):
            return None
        codes[id(code)] = code
        steps[id(code)] += 1
        return entered

    def called(frame: FrameType, event: str, argument: Any) -> None:
        if event == "c_call":
            entered(frame, event, argument)

    before = sys.getprofile(), sys.gettrace()
    sys.setprofile(called)
    sys.settrace(entered)
    try:
        yield found
    finally:
        sys.setprofile(before[0])
        sys.settrace(before[1])
        for key, code in codes.items():
            found[code] += steps[key]


def grows_evenly(work: Callable[[int], object], few: int, many: int) -> bool:
    """Does `work(many)` take no more steps a piece than `work(few)`, but for a fifth?"""
    counts = []
    work(few)  # this pays for what is made once
    for number in (few, many):
        with counted() as found:
            work(number)
        counts.append(found.total())
    return counts[1] / many < 1.2 * counts[0] / few

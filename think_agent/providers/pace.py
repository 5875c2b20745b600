"""Pace: space out one model object's requests, to stay below a rate limit.

Rule 1: each request reserves the first free time slot. Threads and tasks share the slots.
Rule 2: nothing sleeps here: the caller gets the time to wait and sleeps, sync or async.
Rule 3: a slot is given back if its request isn't sent, because the wait was cancelled or too long
        for the deadline. Otherwise later requests would wait for nothing.
"""

from bisect import insort
from threading import Lock
from time import monotonic


class Pace:
    """At most `per_minute` requests a minute: any two are at least `60 / per_minute` seconds apart.
    A slot is a time of the clock `monotonic`.
    """

    def __init__(self, per_minute: float) -> None:
        self._apart = 60 / per_minute
        self._lock = Lock()
        self._taken: list[float] = []  # slots, in order; old ones are dropped

    def reserve(self, after: float = 0.0) -> tuple[float, float]:
        """Reserve the first free slot that's at least `after` seconds away. Returns the slot, and
        the seconds until then.
        """
        with self._lock:  # rule 1
            now = monotonic()
            self._taken = [place for place in self._taken if place > now - self._apart]
            free = now + after
            for place in self._taken:
                if free + self._apart <= place:  # it fits before this slot
                    break
                free = max(free, place + self._apart)
            insort(self._taken, free)
        return free, free - now  # rule 2

    def give_back(self, place: float) -> None:
        """Free a slot whose request wasn't sent (rule 3)."""
        with self._lock:
            if place in self._taken:
                self._taken.remove(place)

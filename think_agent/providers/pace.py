"""A pace: requests of one model object are spaced, so that a limit of requests a minute is kept.

Rule 1: each request takes the first free place in time. Threads and tasks share the places.
Rule 2: nobody waits here: the caller is told how long to wait, and sleeps as it can.
Rule 3: a place is given back if its request isn't sent: the wait was cancelled, or was too long for
        the deadline. Otherwise the next requests would wait for nothing.
"""

from bisect import insort
from threading import Lock
from time import monotonic


class Pace:
    """At most `per_minute` requests a minute: any two are at least `60 / per_minute` seconds apart.
    A place is a moment on the clock `monotonic`.
    """

    def __init__(self, per_minute: float) -> None:
        self._apart = 60 / per_minute
        self._lock = Lock()
        self._taken: list[float] = []  # places, in order; those long gone by are dropped

    def reserve(self, after: float = 0.0) -> tuple[float, float]:
        """Take the first free place that is at least `after` seconds away. Returns the place, and
        the seconds until then.
        """
        with self._lock:  # rule 1
            now = monotonic()
            self._taken = [place for place in self._taken if place > now - self._apart]
            free = now + after
            for place in self._taken:
                if free + self._apart <= place:  # there is room before it
                    break
                free = max(free, place + self._apart)
            insort(self._taken, free)
        return free, free - now  # rule 2

    def give_back(self, place: float) -> None:
        """Free a place whose request was not sent (rule 3)."""
        with self._lock:
            if place in self._taken:
                self._taken.remove(place)

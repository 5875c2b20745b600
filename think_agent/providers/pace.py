"""A pace: requests of one model object are spaced, so that a limit of requests a minute is kept.

Rule 1: each request takes the next place in time. Threads and tasks share the places.
Rule 2: nobody waits here: the caller is told how long to wait, and sleeps as it can.
"""

from threading import Lock
from time import monotonic


class Pace:
    """At most `per_minute` requests a minute, at equal distances."""

    def __init__(self, per_minute: float) -> None:
        self._apart = 60 / per_minute
        self._lock = Lock()
        self._next = monotonic()  # when the next place is

    def reserve(self) -> float:
        """Take the next place. Returns the seconds until then."""
        with self._lock:  # rule 1
            now = monotonic()
            place = max(now, self._next)
            self._next = place + self._apart
        return place - now  # rule 2

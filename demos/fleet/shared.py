"""What the workers share besides the engine's tables: who is alive, and the next model call.

Rule 1: each worker reports at every look, in its row, that it's alive and with which code. One
        query finds the first living worker, another the lost ones.
Rule 2: only the first living worker, by name, sweeps. If it dies, the next one is the first. If
        two sweep for a moment, the second finds nothing to do.
Rule 3: the whole fleet asks models at an even pace: a call takes the next free moment from one row.
Rule 4: the only clock is the database's. (SQLite's is that of its one machine.)
"""

from contextlib import suppress
from typing import Any

from sqlalchemy import create_engine, make_url, text
from sqlalchemy.exc import IntegrityError

DAY = 86_400.0
NOW = {  # in seconds
    "postgresql": "extract(epoch FROM clock_timestamp())",
    "sqlite": "(julianday('now') - 2440587.5) * 86400.0",
}
TABLES = (
    "CREATE TABLE IF NOT EXISTS fleet_living"
    " (name TEXT PRIMARY KEY, version TEXT NOT NULL, seen DOUBLE PRECISION NOT NULL)",
    "CREATE TABLE IF NOT EXISTS fleet_pace"
    " (id INTEGER PRIMARY KEY, next_call DOUBLE PRECISION NOT NULL)",
    "INSERT INTO fleet_pace VALUES (1, 0) ON CONFLICT DO NOTHING",
)


class Shared:
    """The tables in the fleet's database, which `fleet.client` has made."""

    def __init__(self, url: str) -> None:
        address = make_url(url)
        if address.get_backend_name() == "postgresql":
            address = address.set(drivername="postgresql+psycopg")
        self.engine = create_engine(address)
        self._now = NOW[self.engine.dialect.name]
        with suppress(IntegrityError), self.engine.begin() as db:  # made by another at that moment
            for statement in TABLES:
                db.execute(text(statement))

    def say_alive(self, worker: str, version: str) -> None:
        self._ask(
            f"INSERT INTO fleet_living VALUES (:worker, :version, {self._now}) ON CONFLICT (name)"
            " DO UPDATE SET version = excluded.version, seen = excluded.seen RETURNING name",
            worker=worker,
            version=version,
        )

    def versions(self, lost_after: float) -> list[str]:
        """The versions of the workers that live."""
        query = f"SELECT DISTINCT version FROM fleet_living WHERE seen > {self._now} - :lost_after"
        return self._ask(query, lost_after=lost_after)

    def is_first(self, worker: str, lost_after: float) -> bool:
        """Is this the first of the workers that live?"""
        query = f"SELECT min(name) FROM fleet_living WHERE seen > {self._now} - :lost_after"
        return self._ask(query, lost_after=lost_after) == [worker]

    def lost(self, lost_after: float) -> list[str]:
        """The workers that were silent for so many seconds. After a day they are forgotten."""
        seen = f"seen BETWEEN {self._now} - {DAY} AND {self._now} - :lost_after"
        return self._ask(f"SELECT name FROM fleet_living WHERE {seen}", lost_after=lost_after)

    def wait(self, per_minute: int) -> float:
        """Take the next free moment for a model call. Returns the seconds until then."""
        later = f"CASE WHEN next_call > {self._now} THEN next_call ELSE {self._now} END + :gap"
        query = (
            f"UPDATE fleet_pace SET next_call = {later} RETURNING next_call - :gap - {self._now}"
        )
        (seconds,) = self._ask(query, gap=60 / per_minute)
        return max(0.0, float(seconds))

    def _ask(self, query: str, **values: object) -> list[Any]:
        with self.engine.begin() as db:
            return list(db.execute(text(query), values).scalars())

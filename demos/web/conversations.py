"""The conversations of the web desk: a file each, and at most one run at a time in each.

Rule 1: the files are the only state. A conversation is read from its file whenever it is shown, so
        a server that was killed has lost nothing, and another program may go on with a file.
Rule 2: a run is a task of its own. A watcher (an open page) may come and go; that ends no run.
Rule 3: a call that needs approval pauses the run: there is no `approve=`. The answer may come days
        later, and says to which call it belongs.
Rule 4: whoever begins to watch gets all that was said so far and then every event, without a gap:
        both happen in one step of the event loop, in which a run writes, too.
"""

import asyncio
from collections.abc import AsyncGenerator, Coroutine
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal, TypeAlias

from demos.web.shown import event_as_json, rows
from think_agent import Agent, Done, Message, Turn, User, Verdict
from think_agent.audit import read
from think_agent.errors import FileError, ModelError
from think_agent.messages import MESSAGES, Json
from think_agent.mistakes import noted
from think_agent.running import Event
from think_agent.text import shorten

MOST_UNREAD = 10_000  # events; a page that is further behind begins anew
Watcher: TypeAlias = "asyncio.Queue[Json]"
State: TypeAlias = Literal["new", "running", "waits", "stopped", "ended"]


class Unfitting(Exception):
    """What is asked does not fit the state of the conversation."""


class Conversation:
    """The conversation in the file at `path`. `planner` only says what would come next in it."""

    def __init__(self, path: Path, planner: Agent) -> None:
        self.path = path
        self._planner = planner
        self._problem = ""  # why the last run broke off
        self._task: asyncio.Task[None] | None = None
        self._recorded = asyncio.Event()  # what a person said or decided is in the file
        self._watchers: set[Watcher] = set()

    @property
    def messages(self) -> list[Message]:
        """What was said and done so far."""
        if not self.path.exists() or not self.path.stat().st_size:  # it has no first line yet
            return []
        return read(self.path).messages

    @property
    def state(self) -> State:
        """Where it stands. `stopped`: by a person, an error, or because the server was killed."""
        if self._task:
            return "running"
        turn = Turn.of(self.messages)
        if turn.last is None:
            return "new"
        if turn.paused:
            return "waits"
        if turn.ended:
            return "ended"
        return "stopped"

    def summary(self) -> Json:
        """Its name, its first request, and its state. An unreadable file says why."""
        try:
            first = next(iter(self.messages), None)
            title = first.text if isinstance(first, User) else ""
            return {"name": self.path.stem, "title": shorten(title), "state": self.state}
        except FileError as error:
            return {"name": self.path.stem, "title": str(error), "state": "unreadable"}

    async def begin(self, agent: Agent, text: str) -> None:
        """Begin a turn. It returns when the text is in the file."""
        self._expect("new", "ended")
        self._start(agent.arun(text, transcript=self.path, on_event=self._show))
        await self._recorded.wait()

    def go_on(self, agent: Agent) -> None:
        """Go on with a turn that was stopped."""
        self._expect("stopped")
        self._start(agent.aresume(self.path, on_event=self._show))

    async def answer(self, agent: Agent, verdict: Verdict) -> None:
        """Answer the question that waits, if it is still that one. It returns when the answer is in
        the file.
        """
        self._expect("waits")
        paused = Turn.of(self.messages).paused
        if paused is None or paused.call_id != verdict.call_id:
            raise Unfitting("this question was answered already; look at the conversation")
        self._start(agent.aresume(self.path, verdict=verdict, on_event=self._show))
        await self._recorded.wait()

    def stop(self) -> None:
        """Stop the run between two steps; it can go on later."""
        self._expect("running")
        if self._task:
            self._task.cancel()

    async def watch(self) -> AsyncGenerator[Json, None]:
        """All that was said so far, and then what happens, until whoever watches leaves."""
        watcher: Watcher = asyncio.Queue()
        said = [row for message in self.messages for row in rows(message)]
        watcher.put_nowait({"rows": said, "anew": True})
        watcher.put_nowait(self._standing())
        self._watchers.add(watcher)
        try:
            while watcher.qsize() < MOST_UNREAD:
                yield await watcher.get()
        finally:
            self._watchers.discard(watcher)

    def _standing(self) -> Json:
        """The state, with the question if one waits, and with what went wrong."""
        standing: Json = {"state": self.state, "problem": self._problem}
        if standing["state"] == "waits":
            step = self._planner.next_step(self.messages)  # so the question is planned again
            assert isinstance(step, Done)
            assert step.question
            standing["card"] = asdict(step.question)
        return standing

    def _expect(self, *states: State) -> None:
        if self.state not in states:
            raise Unfitting(f"this conversation is {self.state} by now; look at it again")

    def _start(self, run: Coroutine[Any, Any, object]) -> None:
        self._problem = ""
        self._recorded.clear()
        self._task = asyncio.create_task(self._finished(run))
        self._task.add_done_callback(self._settle)
        self._tell(self._standing())

    async def _finished(self, run: Coroutine[Any, Any, object]) -> None:
        """Run to the end, whatever that is."""
        try:
            await run
        except (ModelError, FileError) as error:
            self._problem = str(error)
        except Exception as error:  # a mistake in the desk's own code; the server stays
            self._problem = noted("the desk", error)

    def _settle(self, task: object) -> None:
        """Say where the conversation stands now, also if it was stopped before it began."""
        self._task = None
        self._recorded.set()
        self._tell(self._standing())

    def _show(self, event: Event) -> None:
        if isinstance(event, MESSAGES):  # a notice may come before it
            self._recorded.set()
        self._tell(event_as_json(event))

    def _tell(self, event: Json) -> None:
        for watcher in self._watchers:
            watcher.put_nowait(event)

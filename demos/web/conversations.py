"""The conversations of the web desk: one file each, with at most one run at a time.

Rule 1: The files are the only state. A conversation is read from its file each time it's shown. So
        nothing is lost if the server is killed, and another program may continue it.
Rule 2: Each run is a separate task. A watcher (an open page) may come and go; no run ends by that.
Rule 3: A call that needs approval pauses the run: there's no `approve=`. The answer names its
        question and may come days later. A new message instead of an answer is fine, too.
Rule 4: A new watcher gets all messages so far and then every event, without a gap. That's one step
        of the event loop, which a run uses to write, too.
Rule 5: The state of a conversation decides which actions are allowed (MAY), also for the page.
Rule 6: A damaged file is shown as far as it can be read, and a row says so.
"""

import asyncio
from collections.abc import AsyncGenerator, Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, TypeAlias

from demos.web.shown import card, event_as_json, rows, values
from think_agent import Agent, AskHuman, CallTool, Done, Message, Refuse, Turn, User, Verdict
from think_agent.audit import read
from think_agent.audit.reading import Entry, Unreadable
from think_agent.errors import FileError, ModelError
from think_agent.messages import MESSAGES, Json
from think_agent.mistakes import note_mistake
from think_agent.policies.validation import with_call
from think_agent.running import Event
from think_agent.text import json_text, shorten
from think_agent.wire.json_reading import json_value

MOST_UNREAD = 10_000  # events; a page that is further behind starts again
LONGEST_TITLE = 200  # characters; the page shows two lines of it
Watcher: TypeAlias = "asyncio.Queue[Json | None]"  # None: no more events
State: TypeAlias = Literal["new", "running", "waits", "stopped", "ended", "damaged", "unreadable"]
Action: TypeAlias = Literal["turn", "stop", "resume", "verdict"]
MAY: dict[State, tuple[Action, ...]] = {
    "new": ("turn",),
    "running": ("stop",),
    "waits": ("verdict", "turn"),
    "stopped": ("resume", "turn"),
    "ended": ("turn",),
    "damaged": (),
    "unreadable": (),
}
SAYS: dict[State, str] = {  # the page's text for a state
    "running": "The desk is working.",
    "waits": "The desk waits for your decision. Or say something else: then it is not run.",
    "stopped": "Stopped. Nothing is lost: continue, or write something else.",
    "damaged": "A line of its file cannot be read: repair it, or restore a copy.",
    "unreadable": "Its file cannot be read: repair it, or restore a copy.",
}


class Unfitting(Exception):
    """What is asked does not fit the state of the conversation."""


class Conversation:
    """The conversation in the file at `path`. `planner` only plans its next step."""

    def __init__(self, path: Path, planner: Agent) -> None:
        self.path = path
        self._planner = planner
        self._problem = ""  # why the last run failed
        self._task: asyncio.Task[None] | None = None
        self._has_begun = asyncio.Event()  # it is in the file what a person said, or it failed
        self._is_recorded = False
        self._watchers: set[Watcher] = set()

    def _entries(self) -> tuple[Entry, ...]:
        """The file's entries. Raises FileError if nothing in it can be read."""
        if not self.path.exists() or not self.path.stat().st_size:  # nothing is written yet
            return ()
        return read(self.path).entries

    def _state(self, entries: tuple[Entry, ...]) -> State:
        """Its state. `stopped`: by a person, an error, or because the server was killed."""
        if self._task:
            return "running"
        # A killed run may leave half a line at the end. The next run cuts it off.
        if any(isinstance(entry, Unreadable) for entry in entries[:-1]):
            return "damaged"
        turn = Turn.of(_messages(entries))
        if turn.last is None:
            return "new"
        if turn.paused:
            return "waits"
        if turn.ended:
            return "ended"
        return "stopped"

    def summary(self) -> Json:
        """Its name, first request and state, or why the file can't be read."""
        try:
            entries = self._entries()
        except FileError as error:
            return {"name": self.path.stem, "title": str(error), "state": "unreadable"}
        requests = [message.text for message in _messages(entries) if isinstance(message, User)]
        title = shorten(requests[0], LONGEST_TITLE) if requests else "(no request)"
        return {"name": self.path.stem, "title": title, "state": self._state(entries)}

    async def begin(self, agent: Agent, text: str) -> None:
        """Begin a turn. Returns when the text is in the file."""
        self._expect("turn")
        self._start(agent.arun(text, transcript=self.path, on_event=self._show))
        await self._begun()

    def go_on(self, agent: Agent) -> None:
        """Continue a turn that was stopped."""
        self._expect("resume")
        self._start(agent.aresume(self.path, on_event=self._show))

    async def answer(self, agent: Agent, verdict: Verdict) -> None:
        """Answer the open question, if it's still the same one. It returns when the answer is in
        the file, or when the question has to be asked again.
        """
        self._expect("verdict")
        paused = Turn.of(_messages(self._entries())).paused
        if paused is None or paused.id != verdict.question.rpartition(".")[0]:
            raise Unfitting("this question was answered already; look at the conversation")
        self._start(agent.aresume(self.path, verdict=verdict, on_event=self._show))
        await self._begun()

    async def _begun(self) -> None:
        """Wait until the person's message is recorded. Raises Unfitting if it never was."""
        await self._has_begun.wait()
        if self._problem and not self._is_recorded:
            raise Unfitting(self._problem)

    def show_edited(self, text: str) -> Json:
        """What the card shows if a person edits the arguments to this JSON text: the arguments as
        the function would get them, or the `problem` with them.
        """
        self._expect("verdict")
        question = self._question(_messages(self._entries()))
        arguments = arguments_in(text)
        if question.call is None:
            raise Unfitting("this question has no arguments")
        call = replace(question.call, arguments=arguments)
        step = with_call(CallTool(call), call, self._planner.tools)
        if isinstance(step, Refuse):
            return {"arguments": values(arguments), "problem": step.reason}
        return {"arguments": values(step.received or {}), "problem": ""}

    def stop(self) -> None:
        """Stop the run between two steps; it can be continued later."""
        self._expect("stop")
        if self._task:
            self._task.cancel()

    def close(self) -> None:
        """The server stops, so stop the run and end the event streams."""
        if self._task:
            self._task.cancel()
        for watcher in self._watchers:
            watcher.put_nowait(None)

    async def watch(self) -> AsyncGenerator[Json, None]:
        """All messages so far and then each event, until the watcher leaves."""
        watcher: Watcher = asyncio.Queue()
        for shown in self._so_far():
            watcher.put_nowait(shown)
        self._watchers.add(watcher)
        try:
            while watcher.qsize() < MOST_UNREAD:
                event = await watcher.get()
                if event is None:
                    return
                yield event
        finally:
            self._watchers.discard(watcher)

    def _so_far(self) -> list[Json]:
        try:
            said = [row for entry in self._entries() for row in rows(entry)]
        except FileError as error:
            said = [{"kind": "damaged", "text": str(error)}]
        return [{"rows": said, "anew": True}, self._describe_state()]

    def _describe_state(self) -> Json:
        """The state, the allowed actions, the open question, and any problem."""
        messages: list[Message] = []
        state: State = "unreadable"
        try:
            entries = self._entries()
            messages = _messages(entries)
            state = self._state(entries)
        except FileError:
            pass
        says = [SAYS.get(state, ""), self._problem]
        return {
            "state": state,
            "may": MAY[state],
            "says": " ".join(text for text in says if text),
            "card": card(self._question(messages)) if state == "waits" else None,
        }

    def _question(self, messages: list[Message]) -> AskHuman:
        """The open question."""
        step = self._planner.next_step(messages)
        assert isinstance(step, Done)
        assert step.question
        return step.question

    def _expect(self, action: Action) -> None:
        state = self._state(self._entries())
        if action not in MAY[state]:
            raise Unfitting(f"this conversation is {state} by now; look at it again")

    def _start(self, run: Coroutine[Any, Any, object]) -> None:
        self._problem = ""
        self._has_begun.clear()
        self._is_recorded = False
        self._task = asyncio.create_task(self._run_to_end(run))
        self._task.add_done_callback(self._settle)
        self._tell(self._describe_state())

    async def _run_to_end(self, run: Coroutine[Any, Any, object]) -> None:
        """Run to the end, and record any problem."""
        try:
            await run
        except (ModelError, FileError) as error:
            self._problem = str(error)
        except Exception as error:  # a bug in the desk; the server keeps running
            self._problem = note_mistake("the desk", error)

    def _settle(self, task: object) -> None:
        """Tell the watchers the state now, also if the run was stopped before it began."""
        self._task = None
        self._has_begun.set()
        self._tell(self._describe_state())

    def _show(self, event: Event) -> None:
        if isinstance(event, MESSAGES):  # a notice may come before it
            self._is_recorded = True
            self._has_begun.set()
        self._tell(event_as_json(event))

    def _tell(self, event: Json) -> None:
        for watcher in self._watchers:
            watcher.put_nowait(event)


def arguments_in(text: str) -> Json:
    """The arguments in a text. Raises ValueError if it is not a JSON object."""
    found = json_value(text)
    if not isinstance(found, dict):
        raise ValueError("the arguments have to be one JSON object")
    json_text(found)
    return found


def _messages(entries: tuple[Entry, ...]) -> list[Message]:
    return [entry for entry in entries if not isinstance(entry, Unreadable)]

"""An Agent: a model, tools, instructions and policies, put to work by the loop.

Rule 1: an agent keeps no conversation. The transcript is handed in and handed back, so
        `agent.run("and ORD-003?", transcript=outcome.transcript)` goes on where the last run ended.
        With a path it is a file, and `agent.resume(path)` goes on where a crash ended it.
Rule 2: what a step asks of the world is listed once (`running.py`) and done in two ways: `perform`
        and `aperform`.
"""

import inspect
import os
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Generator,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import aclosing, closing, contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from . import policies as rules
from . import tools as toolbox
from .errors import TranscriptError
from .loop import AskHuman, Done, Policy, Step, arun, plan, run
from .messages import MESSAGES, THINK_NAME, Message, Verdict, json_text
from .model import Model, Request
from .outcome import Outcome
from .policies import Forcing, OnToolError, Price
from .running import Effect, Event, Perform, Run, performed, received, verdict
from .think import THINK, has_signal
from .tools import Tool

if TYPE_CHECKING:  # imported when an agent needs it, and not before
    from pydantic import BaseModel

    from .policies.answer import TypedAnswer

Approve: TypeAlias = Callable[[AskHuman], Verdict | bool | Awaitable[Verdict | bool]]
Conversation: TypeAlias = Sequence[Message] | str | os.PathLike[str] | None


class Agent:
    """A model with tools and instructions.

    - `force`: when `think` is forced, see `policies.force`.
    - `think`: the think tool, THINK or THINK_MINIMAL; None for an agent without one.
    - `policies`: further `(step, transcript) -> step` functions, applied after the agent's own but
      for those that only end a run (`declined`, `last_words`, `nobody`).
    - `answer`: a pydantic model that the final answer has to be of; `outcome.data` is the object.
    - `approve`: asked when a person has to decide; gets an AskHuman, gives a Verdict or a bool, and
      may be async. None: nobody is there, and the run pauses with the exit `needs_human`.
    - `max_model_calls` (the last one is for the closing words), `max_actions`, `max_seconds`,
      `max_tokens`, `max_cost` (with `prices` by model name): limits of a turn, None for none.
    - `max_thoughts_in_a_row`: after so many turns of thinking only, the tool result says that it is
      time to act. `max_result_chars`: longer tool results are cut, with a note of how much.
    - `patience`: failed actions in a row before a person is asked, or the run gives up.
      `on_tool_error="fail_fast"` gives up at the first. `max_repeats`: see `policies.no_repeats`.
    - `keep_turns`: how many turns of a long conversation a request shows, None for all.
    - `now`: the clock that stamps messages, an ISO time in UTC.

    Raises ValueError or TypeError for settings that cannot work.
    """

    def __init__(
        self,
        model: Model,
        tools: Iterable[Tool] = (),
        *,
        instructions: str = "",
        force: Forcing = "first",
        think: Tool | None = THINK,
        policies: Iterable[Policy] = (),
        answer: "type[BaseModel] | None" = None,
        approve: Approve | None = None,
        max_model_calls: int = 30,
        max_actions: int | None = None,
        max_seconds: float | None = None,
        max_tokens: int | None = None,
        max_cost: float | None = None,
        prices: Mapping[str, Price] | None = None,
        max_thoughts_in_a_row: int = 3,
        max_result_chars: int = toolbox.MAX_RESULT_CHARS,
        patience: int = 3,
        on_tool_error: OnToolError = "tell_model",
        max_repeats: int = 3,
        keep_turns: int | None = None,
        now: Callable[[], str] | None = None,
    ) -> None:
        if not isinstance(model, Model):
            raise TypeError(f"model={model!r}: pass a Model, such as connect('ollama')")
        if not isinstance(instructions, str):
            raise TypeError(f"instructions={instructions!r}: pass a text")
        if not (approve is None or callable(approve)):
            raise TypeError(f"approve={approve!r}: pass a function that gets an AskHuman")
        _check_think(think, force)
        rules.check_whole("max_thoughts_in_a_row", max_thoughts_in_a_row)
        rules.check_whole("max_result_chars", max_result_chars)
        if keep_turns is not None:
            rules.check_whole("keep_turns", keep_turns)
        self.model = model
        self.instructions = instructions
        self.think = think
        self.tools = toolbox.index(tools, reserved=THINK_NAME)
        self.shown = (*([think] if think else []), *self.tools.values())
        self.answer = _typed(answer)
        self.max_thoughts_in_a_row = max_thoughts_in_a_row
        self.keep_turns = keep_turns
        self.now = now or _default_clock()
        self._max_chars = max_result_chars
        self._approve = approve

        guarded = {item.name for item in self.tools.values() if item.think_first}
        if guarded and not think:
            raise ValueError(f"{', '.join(guarded)}: think_first needs an agent with a think tool")
        forced = rules.force(force)
        self._planning: list[Policy] = [
            *([self.answer.policy] if self.answer else []),
            rules.mend_format,
            forced if think else rules.force("never"),
            rules.gate(guarded),
            rules.stop_asking,
            rules.patience(patience, on_tool_error=on_tool_error, ask=approve is not None),
            rules.no_repeats(max_repeats),
            rules.max_model_calls(max_model_calls),
        ]
        if max_actions is not None:
            self._planning.append(rules.max_actions(max_actions))
        if max_tokens is not None:
            self._planning.append(rules.max_tokens(max_tokens))
        if max_cost is not None:
            self._planning.append(rules.max_cost(max_cost, prices or {}))
            rules.price(prices or {}, model.model)  # a model without one is refused here
        if max_seconds is not None:
            rules.max_seconds(max_seconds)  # a limit that cannot be is refused here
        self._max_seconds = max_seconds
        # A person is asked last: never about a call that a limit would then refuse.
        self._asking: list[Policy] = [rules.care(self.tools), rules.approval(self.tools)]
        self._asking += [*policies, rules.declined, rules.last_words]
        if approve is None:
            self._asking.append(rules.nobody)

    def run(
        self,
        text: str,
        *,
        transcript: Conversation = None,
        on_event: Callable[[Event], None] | None = None,
    ) -> Outcome:
        """Work on `text` until the turn is over.

        `transcript` is the conversation so far, or the path of a file that holds it (made when
        there is none). `on_event` is called with every event of the run as it happens: Deltas,
        Notices, messages, and the Outcome. Raises ModelError when the model cannot be reached or
        read, TranscriptError for a file that cannot be used.
        """
        return _last(self._events(text, transcript, on_event is not None), on_event)

    async def arun(
        self,
        text: str,
        *,
        transcript: Conversation = None,
        on_event: Callable[[Event], None] | None = None,
    ) -> Outcome:
        """`run` without blocking the event loop."""
        return await _alast(self._aevents(text, transcript, on_event is not None), on_event)

    def resume(
        self,
        transcript: Sequence[Message] | str | os.PathLike[str],
        *,
        on_event: Callable[[Event], None] | None = None,
    ) -> Outcome:
        """Go on with a run that a crash, Ctrl-C or a question to a person ended. It needs nothing
        but the file, or the transcript in memory, and the same tools.
        """
        return _last(self._events(None, transcript, on_event is not None), on_event)

    async def aresume(
        self,
        transcript: Sequence[Message] | str | os.PathLike[str],
        *,
        on_event: Callable[[Event], None] | None = None,
    ) -> Outcome:
        """`resume` without blocking the event loop."""
        return await _alast(self._aevents(None, transcript, on_event is not None), on_event)

    def stream(self, text: str, *, transcript: Conversation = None) -> Iterator[Event]:
        """The events of a whole run as they happen; the last one is the Outcome."""
        return self._events(text, transcript, True)

    def astream(self, text: str, *, transcript: Conversation = None) -> AsyncIterator[Event]:
        """`stream`, for `async for`."""
        return self._aevents(text, transcript, True)

    def policies(self, *, from_now: bool = False) -> list[Policy]:
        """All policies, in order. `from_now`: `max_seconds` counts from now on, and not from the
        start of the turn, which may have been in another process.
        """
        clock: list[Policy] = []
        if self._max_seconds is not None:
            clock = [rules.max_seconds(self._max_seconds, since=self.now() if from_now else "")]
        return [*self._planning, *clock, *self._asking]

    def next_step(self, transcript: Sequence[Message]) -> Step:
        """What this agent would do next: `loop.next_step` after all of its policies."""
        return plan(transcript, self.policies())

    def perform(self, effect: Effect, *, streamed: bool = False) -> Iterator[Event]:
        """Do one thing that a step asks of the world: gives the message it came to, and whatever
        else a watcher may see. An engine that records steps overrides this.
        """
        match effect:
            case Request() if streamed:
                for event in self.model.stream(effect):
                    yield from self._stamped(received(event, effect, self.think))
            case Request():
                reply = self.model.complete(effect)
                yield from self._stamped(received(reply, effect, self.think))
            case Perform(call=call, key=key):
                result = toolbox.call(self.tools, call, key=key, max_chars=self._max_chars)
                yield from self._stamped([performed(effect, result)])
            case AskHuman():
                assert self._approve
                answer = self._approve(effect)
                if inspect.isawaitable(answer):
                    raise TypeError("approve= is async: use `await agent.arun(...)`")
                yield from self._stamped([verdict(answer, effect)])
            case message:
                yield from self._stamped([message])

    async def aperform(self, effect: Effect, *, streamed: bool = False) -> AsyncIterator[Event]:
        """`perform` without blocking the event loop."""
        events: Iterable[Event]
        match effect:
            case Request() if streamed:
                async for piece in self.model.astream(effect):
                    for event in self._stamped(received(piece, effect, self.think)):
                        yield event
                return
            case Request():
                events = received(await self.model.acomplete(effect), effect, self.think)
            case Perform(call=call, key=key):
                limit = self._max_chars
                result = await toolbox.acall(self.tools, call, key=key, max_chars=limit)
                events = [performed(effect, result)]
            case AskHuman():
                assert self._approve
                answer = self._approve(effect)
                events = [verdict(await answer if inspect.isawaitable(answer) else answer, effect)]
            case message:
                events = [message]
        for event in self._stamped(events):
            yield event

    def _events(
        self, text: str | None, transcript: Conversation, streamed: bool
    ) -> Generator[Event, None, None]:
        with self._opened(transcript, new=text is not None) as this:
            yield from this.begin(text)
            do = partial(self.perform, streamed=streamed)
            for event in run(this.messages, this.plan, this.effects, do):
                yield from this.end(event) if isinstance(event, Done) else (event,)

    async def _aevents(
        self, text: str | None, transcript: Conversation, streamed: bool
    ) -> AsyncGenerator[Event, None]:
        with self._opened(transcript, new=text is not None) as this:
            for told in this.begin(text):
                yield told
            do = partial(self.aperform, streamed=streamed)
            async for event in arun(this.messages, this.plan, this.effects, do):
                for told in this.end(event) if isinstance(event, Done) else (event,):
                    yield told

    @contextmanager
    def _opened(self, transcript: Conversation, *, new: bool) -> Iterator[Run]:
        if not isinstance(transcript, (str, os.PathLike)):
            messages = list(transcript or ())
            if wrong := [m for m in messages if not isinstance(m, MESSAGES)]:
                raise TypeError(f"{wrong[0]!r} is no message; pass outcome.transcript, or a path")
            yield Run(self, messages)
            return
        if not new and not os.path.exists(transcript):  # a mistyped path makes no file
            raise TranscriptError(f"{transcript}: there is no such file; nothing to resume")
        from .transcript import Transcript

        with Transcript(transcript, self._made_of(), now=self.now()) as file:
            yield Run(self, file, file)

    def _made_of(self) -> dict[str, str]:
        """What a later process compares itself with."""
        shown = [(tool.name, tool.description, tool.parameters) for tool in self.shown]
        return {
            "model": f"{self.model.name}:{self.model.model}",
            "tools": fingerprint(json_text(shown)),
            "instructions": fingerprint(self.instructions),
        }

    def _stamped(self, events: Iterable[Event]) -> Iterator[Event]:
        for event in events:
            yield replace(event, at=self.now()) if isinstance(event, MESSAGES) else event


def _check_think(think: Tool | None, force: Forcing) -> None:
    if not (think is None or isinstance(think, Tool)):
        raise TypeError(f"think={think!r}: pass THINK, THINK_MINIMAL or None")
    if think is None:
        if force == "always":
            raise ValueError("force='always' needs a think tool; think=None leaves none to force")
    elif think.name != THINK_NAME:
        raise ValueError(f"the think tool must be named {THINK_NAME!r}, not {think.name!r}")
    elif force == "always" and not has_signal(think):
        raise ValueError(
            "force='always' needs the exit signal: with THINK_MINIMAL a run could never end"
        )


def _last(
    events: Generator[Event, None, None], on_event: Callable[[Event], None] | None
) -> Outcome:
    with closing(events):  # a watcher that raises, or Ctrl-C in one, must free the file, too
        for event in events:
            if on_event:
                on_event(event)
    assert isinstance(event, Outcome)
    return event


async def _alast(
    events: AsyncGenerator[Event, None], on_event: Callable[[Event], None] | None
) -> Outcome:
    async with aclosing(events):
        async for event in events:
            if on_event:
                on_event(event)
    assert isinstance(event, Outcome)
    return event


def _typed(kind: "type[BaseModel] | None") -> "TypedAnswer | None":
    if kind is None:
        return None
    from .policies.answer import TypedAnswer

    return TypedAnswer(kind)


def _default_clock() -> Callable[[], str]:
    from .transcript import utc_now  # the core has no clock of its own

    return utc_now


def fingerprint(text: str) -> str:
    """A short digest, to tell whether a text has changed."""
    import hashlib  # a tenth of the time that importing the kit takes, for files alone

    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]

"""Agent: a model with tools, instructions and policies.

Rule 1: an agent doesn't store the conversation. You pass the transcript in and get it back:
        `agent.run("and ORD-003?", transcript=outcome.transcript)` continues it. If `transcript` is
        a path, the conversation is kept in that file, and `agent.resume(path)` continues after a
        crash.
Rule 2: a run (`running.py`) yields effects, and `perform` or `aperform` carries them out: they call
        the model, ask a person, or run a tool or a check.
"""

# `help(Agent)` shows the names of these types instead of their definitions.
from __future__ import annotations

import os
from collections.abc import (
    AsyncGenerator,
    Awaitable,
    Callable,
    Generator,
    Iterable,
    Iterator,
    Mapping,
)
from contextlib import aclosing, closing
from copy import copy
from dataclasses import replace
from functools import partial
from math import inf
from typing import Any, Generic, Literal, TypedDict, get_args

from typing_extensions import Unpack

from . import tools as toolbox
from .checking import (
    Culprit,
    check_choice,
    check_function,
    is_async,
    is_awaitable,
    read_limit,
)
from .context import find_left_out, leave_out, select_turns
from .errors import TranscriptError
from .loop import AskHuman, Policy, Step, plan
from .messages import THINK_NAME, Json, Message, ToolCall, User, Verdict
from .mistakes import note_mistake
from .model import Model, Request
from .outcome import Data, Outcome
from .policies import (
    Forcing,
    Price,
    approval,
    asking,
    cannot,
    done_when,
    doubt,
    forcing,
    gate,
    limits,
    patience,
    repeats,
    silence,
    text,
    twice,
)
from .policies.answer import NUMBERED, TypedAnswer, keep_answer, with_numbers
from .policies.done_when import CheckFunction, as_checked, checks_by_name, describe_missing
from .policies.validation import validation
from .policies.yours import yours
from .reply import aask, ask
from .running import Effect, Event, Opening, Perform, Run, RunCheck, Selection
from .streaming import Notice
from .text import well_formed
from .think import THINK, add_thought_argument, has_signal
from .tools import Tool
from .transcript import Transcript, TranscriptFile, checked_clock, utc_now
from .turn import Turn
from .waiting import Function, Settled, asettle, in_writer, settle

Approve = Callable[[AskHuman], Verdict | bool | Awaitable[Verdict | bool]]
# Messages in memory, the path of a file, or a file held open (`Agent.open`).
Saved = Iterable[Message] | str | os.PathLike[str] | Transcript
OnEvent = Callable[[Event], None] | None


class RunLimits(TypedDict, total=False):
    """Limits for one run, with the same meaning as for the agent."""

    max_model_calls: int | None
    max_actions: int | None
    max_seconds: float | None
    max_tokens: int | None
    max_cost: float | None


Silence = Literal["confirm", "ask", "accept"]
OnToolError = Literal["tell_model", "fail_fast", "raise"]


class Agent(Generic[Data]):
    """A model with tools and instructions.

    - `force`: when `think` is forced (`policies/forcing.py`).
    - `think`: the think tool: THINK, THINK_MINIMAL, THINK_CANNOT (`policies/cannot.py`) or a custom
      one; None for an agent without one.
    - `silence`: what to do if the model calls no tool. `"confirm"` asks it once a turn whether it's
      done, if there seems to be more to do (`policies/silence.py`). `"ask"` always asks. `"accept"`
      uses its text as the answer.
    - `carry`: guarded tools get a first, required argument for the thought, which their functions
      don't see. So a thought doesn't need its own model call.
    - `done_when`: checks `(turn) -> str | None`. They run when the model says it's done, and return
      what is missing (`policies/done_when.py`). Each may take `check_timeout` seconds.
    - `policies`: custom `(step, turn) -> step` functions. They run after most of the kit's
      policies, and before those that ask a person or only end a run.
    - `answer`: the type of the answer, such as a pydantic model; `outcome.data` is the object. If
      it has a field of type `Source`, the answer cites results as its sources.
    - `approve`: a function that's called when a person has to decide. It gets an AskHuman and
      returns a Verdict or a bool. It may be async. None: the run pauses with the exit
      `needs_human`.
    - `max_model_calls` (one is reserved for the closing reply), `max_actions`, `max_seconds`,
      `max_tokens`, `max_cost` (needs `prices`, by model name): limits of a turn. None means no
      limit.
    - `max_thoughts_in_a_row`: after this many replies that only think, the tool result says that
      it's time to act; after twice as many, the turn ends. `max_result_chars`: longer tool results
      are cut, with a note.
    - `patience`: after this many unproductive replies in a row, a person is asked or the run gives
      up. `max_repeats`: after the same action has had the same result this often, the model gets a
      warning.
    - `on_tool_error`: what to do if a tool raises. With `"tell_model"`, the model reads the error
      and continues; `"fail_fast"` gives up; `"raise"` records the error as the result and raises
      it.
    - `keep_turns`: how many turns of a long conversation a request contains; None means all.
    - `max_context_chars`: how many characters of the turn's results a request contains. Beyond
      that, the oldest results of `read_only` tools are left out (`context.py`).
    - `read_ahead`: under `arun` and `astream`, one reply's calls of async `read_only` tools run at
      the same time (`ahead.py`).
    - `name`: the agent's name in transcripts, pages and spans.
    - `now`: the clock for the time stamps of messages: an ISO time in UTC.

    Raises ValueError or TypeError for settings that can't work.
    """

    def __init__(
        self,
        model: Model,
        tools: Iterable[Tool] = (),
        *,
        instructions: str = "",
        force: Forcing = "first",
        think: Tool | None = THINK,
        silence: Silence = "confirm",
        carry: bool = False,
        done_when: Iterable[CheckFunction] = (),
        check_timeout: float = 60.0,
        policies: Iterable[Policy] = (),
        answer: type[Data] | None = None,
        approve: Approve | None = None,
        max_model_calls: int = 30,
        max_actions: int | None = None,
        max_seconds: float | None = None,
        max_tokens: int | None = None,
        max_cost: float | None = None,
        prices: Mapping[str, Price | Mapping[str, float]] | None = None,
        max_thoughts_in_a_row: int = 3,
        max_result_chars: int = 20_000,
        patience: int = 3,
        on_tool_error: OnToolError = "tell_model",
        max_repeats: int = 3,
        keep_turns: int | None = None,
        max_context_chars: int | None = None,
        read_ahead: bool = True,
        name: str = "",
        now: Callable[[], str] | None = None,
    ) -> None:
        _check_types(model, approve, think)
        check_choice("force", force, get_args(Forcing))
        check_choice("silence", silence, get_args(Silence))
        check_choice("on_tool_error", on_tool_error, get_args(OnToolError))
        self.model = model
        self.tools = toolbox.index(tools)
        self.now = checked_clock(now) if now else utc_now
        self._checks = checks_by_name(done_when)
        self._check_timeout = read_limit("check_timeout", check_timeout)
        self._guarded = {name for name in self.tools if self.tools[name].think_first}
        can_give_thoughts = think is not None or carry
        if self._guarded and not can_give_thoughts:
            names = ", ".join(self._guarded)
            raise ValueError(f"{names}: think_first needs a think tool, or carry=True")
        self.answer: TypedAnswer | None = None
        if answer is not None:
            self.answer = TypedAnswer(answer)
            if self.answer.has_sources:
                instructions = f"{instructions}\n\n{NUMBERED}".strip()
        self.instructions = instructions
        self.think = think
        self.shown = _show_tools(think, self.tools.values(), carry)
        self.keep_turns = read_limit("keep_turns", keep_turns)
        self._max_context = read_limit("max_context_chars", max_context_chars)
        self._is_reading_ahead = read_ahead
        self.name = name
        self.limits = limits.Limits(
            model=model.model,
            prices=limits.read_prices(prices or {}),
            model_calls=read_limit("max_model_calls", max_model_calls),
            actions=read_limit("max_actions", max_actions),
            seconds=read_limit("max_seconds", max_seconds),
            tokens=read_limit("max_tokens", max_tokens),
            cost=read_limit("max_cost", max_cost),
            thoughts=read_limit("max_thoughts_in_a_row", max_thoughts_in_a_row),
            describe_missing=describe_missing,
        )
        self._can_signal = think is not None and has_signal(think)
        if force == "always" and not self._can_signal:
            raise ValueError("force='always' needs think=THINK: its signal is the only way out")
        self._max_chars = read_limit("max_result_chars", max_result_chars)
        self._approve = approve
        self._force = force
        self._silence = silence
        self._patience = patience
        self._on_tool_error = on_tool_error
        self._max_repeats = max_repeats
        if callable(policies):
            raise TypeError("policies: pass a list, such as [policy]")
        self._policies = tuple(policies)
        for policy in self._policies:
            check_function("policies:", policy, "step", "turn")
        self.policies()  # raises for settings that can't work

    def policies(self, *more: Policy) -> list[Policy]:
        """All policies, in order. Each gets the step from the policy before it. `more` are extra
        custom policies to try, after the agent's own (`audit/backtest.py`).
        """
        can_ask = self._approve is not None
        can_think = self.think is not None
        tools = self.tools
        check_names = tuple(self._checks)
        own = [yours(policy, tools, checks=check_names) for policy in (*self._policies, *more)]
        confirms = silence.confirm_silence(
            can_think=self._can_signal, can_act=bool(tools), always=self._silence == "ask"
        )
        listed: list[Policy | None] = [
            # Is the turn really over, is everything done, and is the answer valid?
            cannot.leave_with_cannot if cannot.offers_cannot(self.think) else None,
            None if self.answer else keep_answer,
            None if self._silence == "accept" else confirms,
            done_when.done_when(check_names) if check_names else None,
            self.answer.ask_for_answer if self.answer else None,
            patience.ask_for_format,  # an unreadable reply isn't judged
            forcing.force(self._force) if can_think else None,
            gate.gate(self._guarded, can_think=can_think),  # forces a thought after a refusal
            forcing.stop_asking,  # if a host ignores it, undo the forcing above
            patience.fail_fast if self._on_tool_error == "fail_fast" else None,
            patience.patience(self._patience, ask=can_ask),
            repeats.no_repeats(tools, self._max_repeats),
            None if can_ask else text.refuse_text(tools),
            validation(tools),  # custom policies see only valid calls
            *own,
            self.limits.close_at_limit,  # a limit overrides any planned step
            done_when.check_at_limit(check_names) if check_names else None,
            self.limits.bound_step,
            self.answer.ask_for_form if self.answer else None,
            asking.as_decided(tools),  # the next ones judge the arguments that will run
            doubt.doubt(tools),  # a retry repeats the first try
            twice.twice(tools),  # a duplicate is refused without asking
            text.ask_about_text(tools) if can_ask else None,
            approval.approval(tools),  # last, so the approved call is the one that runs
            asking.refuse_denied,
            asking.pass_on_guidance,
            asking.end_if_declined,  # from here on, policies only end a turn
            self.limits.name_limit,
            asking.hold_question(tools),  # but an open question stays open
            None if can_ask else asking.pause_for_a_person,
        ]
        return [policy for policy in listed if policy]

    def run(
        self,
        text: str,
        *,
        transcript: Saved | None = None,
        on_event: OnEvent = None,
        **limits: Unpack[RunLimits],
    ) -> Outcome[Data]:
        """Work on `text` until the turn is over.

        `limits` are limits for this run, such as `max_model_calls=5`. The agent's own still apply,
        so the smaller one counts. They're recorded, so they also apply after a resume.

        `transcript` is the conversation so far, or the path of its file, which is created if it
        doesn't exist. `on_event` is called with every event of the run as it happens: Deltas,
        Notices, messages, and the Outcome. Raises ModelError if the model can't be reached or its
        reply can't be read, and TranscriptError if the file can't be used.
        """
        request = self._read_request(text, limits)
        return _run_to_end(self._open_run(transcript, request), on_event)

    async def arun(
        self,
        text: str,
        *,
        transcript: Saved | None = None,
        on_event: OnEvent = None,
        **limits: Unpack[RunLimits],
    ) -> Outcome[Data]:
        """`run` without blocking the event loop."""
        request = self._read_request(text, limits)
        return await _arun_to_end(await self._aopen_run(transcript, request), on_event)

    def resume(
        self,
        transcript: Saved,
        *,
        verdict: Verdict | None = None,
        on_event: OnEvent = None,
        **limits: Unpack[RunLimits],
    ) -> Outcome[Data]:
        """Continue a run that was stopped by a crash, by Ctrl-C, by a question to a person or by a
        truncated reply. This needs only the same tools and the file, or the transcript in memory.
        `verdict` answers the run's open question: `outcome.question.yes(by="Ada")`, `.no(reason)`,
        `.new()` or `.stop()`. Without it and without `approve=`, the question stays open, and
        nothing is written. Raises TypeError if `verdict` names no question, and TranscriptError if
        it names a different one.
        """
        agent = self._with_limits(limits)
        return _run_to_end(agent._open_run(transcript, verdict), on_event)

    async def aresume(
        self,
        transcript: Saved,
        *,
        verdict: Verdict | None = None,
        on_event: OnEvent = None,
        **limits: Unpack[RunLimits],
    ) -> Outcome[Data]:
        """`resume` without blocking the event loop."""
        agent = self._with_limits(limits)
        return await _arun_to_end(await agent._aopen_run(transcript, verdict), on_event)

    def stream(
        self, text: str, *, transcript: Saved | None = None, **limits: Unpack[RunLimits]
    ) -> Generator[Event, None, None]:
        """The events of a whole run as they happen; the last one is the Outcome."""
        run = self._open_run(transcript, self._read_request(text, limits))
        with run, closing(run.events(streamed=True)) as events:
            yield from events

    async def astream(
        self, text: str, *, transcript: Saved | None = None, **limits: Unpack[RunLimits]
    ) -> AsyncGenerator[Event, None]:
        """`stream`, for `async for`. If you leave the loop early, use `contextlib.aclosing`, which
        closes the file at once.
        """
        with await self._aopen_run(transcript, self._read_request(text, limits)) as run:
            async with aclosing(run.aevents(streamed=True)) as events:
                async for event in events:
                    yield event

    def next_step(self, transcript: Turn | Iterable[Message]) -> Step:
        """What this agent would do next: `loop.next_step`, then all its policies."""
        return plan(transcript, self.policies())

    def mint_key(self) -> str:
        """A new idempotency key. An engine that records steps overrides this."""
        return os.urandom(16).hex()

    def select_messages(self, turn: Turn) -> Selection:
        """The messages that a request contains, and the earlier ones that it leaves out."""
        history = turn.history
        shown = select_turns(history, self.keep_turns)
        left_out = history.spoken[: len(history.spoken) - len(shown)]
        notice = ""
        if self._max_context < inf and not history.signed and history.starts:
            begin = history.starts[-1] - len(left_out)
            names = {name for name, tool in self.tools.items() if tool.read_only}
            places, is_first = find_left_out(shown[begin:], names, self._max_context)
            shown = shown[:begin] + leave_out(shown[begin:], places)
            if is_first:
                notice = "Old results of this turn are not shown to the model any more."
        shown = with_numbers(shown, turn)
        return Selection(shown, left_out, notice)

    def may_read_ahead(self, call: ToolCall) -> bool:
        """May this call run ahead of its turn? Only an async read may, and only if nothing could
        refuse it.
        """
        tool = self.tools.get(call.name)
        if tool is None or not tool.read_only or not is_async(tool.function):
            return False
        if tool.think_first or tool.needs_approval:
            return False
        is_judged = self._policies or self._on_tool_error != "tell_model"
        return self._is_reading_ahead and not is_judged and self.limits.actions == inf

    def stamp(self, message: Message, turn: Turn) -> Message:
        """The message to record, with the time."""
        if self.answer:
            message = self.answer.add_number(message, turn)
        if message.at is None:
            message = replace(message, at=self.now())
        return message

    def finish(self, outcome: Outcome, turn: Turn) -> Outcome:
        """Add the answer as an object, and the cost, to an outcome."""
        data = self.answer.data_of(outcome, turn) if self.answer else None
        return replace(outcome, data=data, cost=self.limits.cost_of(turn))

    def perform(self, effect: Effect, *, streamed: bool = False) -> Generator[Event, None, None]:
        """Carry out one effect. Yields the resulting message, and other events for watchers. An
        engine that records steps overrides this.
        """
        match effect:
            case Request():
                yield from ask(self.model, effect, streamed=streamed)
            case Perform() | RunCheck():
                yield from self._make_events(effect, settle(*self._prepare(effect)))
            case AskHuman():
                assert self._approve
                culprit = Culprit("approve=", self._approve)
                with culprit:
                    answer: Any = self._approve(effect)
                if is_awaitable(answer):
                    raise culprit.returned(answer, "if it is async, use `await agent.arun(...)`")
                yield effect.take_answer(answer, culprit)

    async def aperform(
        self, effect: Effect, *, streamed: bool = False
    ) -> AsyncGenerator[Event, None]:
        """`perform` without blocking the event loop."""
        match effect:
            case Request():
                async with aclosing(aask(self.model, effect, streamed=streamed)) as parts:
                    async for part in parts:
                        yield part
            case Perform() | RunCheck():
                settled = await asettle(*self._prepare(effect))
                for made in self._make_events(effect, settled):
                    yield made
            case AskHuman():
                assert self._approve
                culprit = Culprit("approve=", self._approve)
                with culprit:
                    answer: Any = self._approve(effect)
                    if is_awaitable(answer):
                        answer = await answer
                yield effect.take_answer(answer, culprit)

    def _prepare(self, effect: Perform | RunCheck) -> tuple[Function, float | None]:
        """The tool's function or the check to run, and its timeout in seconds."""
        if isinstance(effect, RunCheck):
            return partial(self._checks[effect.name], effect.turn), self._check_timeout
        return toolbox.bind_call(self.tools, effect.call, effect.key, effect.fitted)

    def _make_events(self, effect: Perform | RunCheck, settled: Settled) -> Iterator[Event]:
        """The result, as events. If a tool raised, the model and the tool's author learn about
        it.
        """
        if isinstance(effect, RunCheck):
            name = effect.name
            check = self._checks[name]
            yield as_checked(name, check, settled, self._check_timeout, at_limit=effect.at_limit)
            return
        tool = self.tools.get(effect.call.name)
        yield toolbox.as_result(tool, effect.call, settled, self._max_chars)
        error = settled[1]
        if error is None or isinstance(error, toolbox.EXPECTED):
            return
        yield Notice(note_mistake(effect.call.name, error))
        if self._on_tool_error == "raise":
            with Culprit("the tool", tool and tool.function):
                raise error

    def _read_request(self, text: str, limits: RunLimits) -> User:
        if not isinstance(text, str):
            raise TypeError(f"{text!r} isn't text; pass the person's message")
        given = _read_limits(limits)
        self.limits.tighten(given)  # raises if they can't be applied
        return User(well_formed(text), limits=given or None)

    def _with_limits(self, limits: RunLimits) -> Agent[Data]:
        """This agent, with the limits given for one run if they're smaller."""
        given = _read_limits(limits)
        if not given:
            return self
        agent = copy(self)
        agent.limits = self.limits.tighten(given)
        return agent

    async def _aopen_run(self, transcript: Saved | None, opening: Opening) -> Run:
        if isinstance(transcript, (str, os.PathLike)):
            # If this is cancelled, nothing references the file, and Python closes it.
            transcript = await in_writer(partial(self._open_file, transcript, opening))
        return self._open_run(transcript, opening)

    def _open_run(self, transcript: Saved | None, opening: Opening) -> Run:
        if isinstance(transcript, (str, os.PathLike)):
            transcript = self._open_file(transcript, opening)
        elif isinstance(transcript, TranscriptFile):  # another agent may have opened it
            transcript.compare(self.made_of(), self.now())
        elif not isinstance(transcript, Transcript):
            messages = list(transcript or ())
            for message in messages:
                if not isinstance(message, Message):
                    problem = f"{message!r} isn't a message; pass outcome.transcript, or a path"
                    raise TypeError(problem)
            transcript = Transcript(messages)
        return Run(self, transcript, opening)

    def _open_file(self, path: str | os.PathLike[str], opening: Opening) -> Transcript:
        path = os.path.expanduser(path)
        resumes = not isinstance(opening, User)
        if resumes and not os.path.exists(path):  # don't create a file for a mistyped path
            raise TranscriptError(f"{path}: there is no such file; nothing to resume")
        return TranscriptFile(path, self.made_of(), now=self.now())

    def open(self, path: str | os.PathLike[str]) -> Transcript:
        """Open a conversation's file and keep it open, so that its runs needn't read it again.

            with agent.open("talk.jsonl") as talk:
                agent.run("What did I buy?", transcript=talk)

        One run at a time. Raises TranscriptError if the file can't be used.
        """
        file = TranscriptFile(os.path.expanduser(path), self.made_of(), now=self.now())
        file.is_held = True
        return file

    def made_of(self) -> Json:
        """The name, model, instructions and tools, for a transcript's first line. A reader can show
        them, and a later process compares them with its own.
        """
        named = {"name": self.name} if self.name else {}
        return {
            **named,
            "model": f"{self.model.name}:{self.model.model}",
            "instructions": self.instructions,
            "tools": [toolbox.describe_tool(tool) for tool in self.shown],
        }


def _check_types(model: object, approve: object, think: object) -> None:
    if not isinstance(model, Model):
        raise TypeError(f"model={model!r}: pass a Model, such as connect('ollama')")
    if approve is not None:
        check_function("approve=", approve, "question", may_be_async=True)
    is_think = isinstance(think, Tool) and think.name == THINK_NAME
    if think is not None and not is_think:
        raise TypeError(f"think={think!r}: pass THINK, None, or another tool named 'think'")


def _read_limits(limits: RunLimits) -> dict[str, float]:
    """The limits of one run by name, without those that are None."""
    unknown = limits.keys() - RunLimits.__annotations__.keys()
    if unknown:
        names = ", ".join(RunLimits.__annotations__)
        raise TypeError(f"{', '.join(sorted(unknown))}: not a limit of a run; use {names}")
    found = {name: read_limit(name, value) for name, value in limits.items()}  # type: ignore[arg-type]
    return {name: value for name, value in found.items() if value < inf}


def _run_to_end(run: Run, on_event: OnEvent) -> Outcome:
    with run, closing(run.events(streamed=on_event is not None)) as events:
        for event in events:
            if on_event:
                _watch(on_event, event)
    assert isinstance(event, Outcome)
    return event


async def _arun_to_end(run: Run, on_event: OnEvent) -> Outcome:
    with run:
        async with aclosing(run.aevents(streamed=on_event is not None)) as events:
            async for event in events:
                if on_event:
                    _watch(on_event, event)
    assert isinstance(event, Outcome)
    return event


def _watch(on_event: Callable[[Event], object], event: Event) -> None:
    culprit = Culprit("on_event=", on_event)
    with culprit:
        result = on_event(event)
    if is_awaitable(result):
        raise culprit.returned(result, "if it is async, use `agent.astream(...)`")


def _show_tools(think: Tool | None, tools: Iterable[Tool], carry: bool) -> tuple[Tool, ...]:
    """The tools as the model sees them, `think` first."""
    shown = []
    if think is not None:
        shown.append(think)
    for tool in tools:
        if carry and tool.think_first:
            tool = add_thought_argument(tool)
        shown.append(tool)
    return tuple(shown)

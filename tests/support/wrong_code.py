"""Code of a user's own that is wrong, wherever an agent takes some, in every way of running.

    Case("a policy", "returns None", "astream").run(path).check()

`PLACES` are where an agent calls the code of a user. `DEEDS` are what that code does there. What is
true of every run: it ends; an error names the function with its file and line, on one line; the
transcript can be read again; no lock, thread or task is left.
"""

import asyncio
import itertools
import threading
import traceback
import types
from collections.abc import Callable, Iterator
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import pydantic

from think_agent import (
    Agent,
    AskHuman,
    Assistant,
    CallModel,
    CallTool,
    Check,
    Done,
    Message,
    Model,
    Outcome,
    Refuse,
    ScriptedModel,
    ToolCall,
    Turn,
    Usage,
    Verdict,
    tool,
    waiting,
)
from think_agent.loop import is_action
from think_agent.messages import find_problem
from think_agent.testing import call
from think_agent.transcript import TranscriptFile, utc_now

MOST_CALLS = 500  # of one function in one run; more means that the run would never end
TIMEOUT = 0.02  # seconds, for code that never returns


class StillGoing(BaseException):
    """A run went on and on."""


class Stop(BaseException):
    """No Exception, so it concerns the caller."""


# What the code does.


class Evil:
    """A thing that raises whatever is asked of it."""

    def _raise(self, *_: object) -> Any:
        raise RuntimeError("two\nlines")

    __repr__ = __str__ = __eq__ = __bool__ = __len__ = __hash__ = _raise


class Proxy:
    """A thing that stands for one that is not there, as `werkzeug.local.LocalProxy` does."""

    @property
    def __class__(self) -> Any:
        raise RuntimeError("working outside of the application context")

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError("working outside of the application context")


class EvilError(Exception):
    def __str__(self) -> str:
        raise ValueError("no text")


def forever() -> Iterator[int]:
    while True:
        yield 1


async def aforever() -> Any:
    while True:
        yield 1


async def later() -> None:
    """A coroutine."""


def nest(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


def raising(make: Callable[[], BaseException]) -> Callable[[], Any]:
    def act() -> Any:
        raise make()

    return act


RETURNS: dict[str, Callable[[], Any]] = {
    "None": lambda: None,
    "True": lambda: True,
    "a number": lambda: 7,
    "a text": lambda: "yes",
    "a lone surrogate": lambda: "\ud800",
    "NaN": lambda: float("nan"),
    "bytes": lambda: b"\x89PNG",
    "a class": lambda: Done,
    "a tuple": lambda: (Assistant("Done."), 1),
    "a dict": lambda: {1: {2}},
    "a deep list": lambda: nest(100_000),
    "an object": object,
    "what raises": Evil,
    "a proxy": Proxy,
    "an error": lambda: ValueError("not raised"),
    "a generator": lambda: (n for n in range(3)),
    "an endless generator": forever,
    "an endless generator in a list": lambda: [{"rows": forever()}],
    "an endless iterator": itertools.count,
    "an async generator": aforever,
    "a coroutine": later,
    "a verdict": lambda: Verdict("perhaps"),
    "a step": lambda: Done("over"),
    "a reply": lambda: Assistant(tool_calls=[5]),
}
RAISES: dict[str, Callable[[], BaseException]] = {
    "ValueError": lambda: ValueError("two\nlines"),
    "an error without a text": EvilError,
    "StopIteration": StopIteration,
    "StopAsyncIteration": StopAsyncIteration,
    "RecursionError": RecursionError,
    "CancelledError": asyncio.CancelledError,
    "KeyboardInterrupt": KeyboardInterrupt,
    "SystemExit": lambda: SystemExit(3),
    "GeneratorExit": GeneratorExit,
    "a BaseException": lambda: Stop("two\nlines"),
    "a group": lambda: BaseExceptionGroup("two", [Stop(), ValueError()]),
}
NEVER_RETURNS = "never returns"
DEEDS: dict[str, Callable[[], Any]] = {
    **{f"returns {name}": make for name, make in RETURNS.items()},
    **{f"raises {name}": raising(make) for name, make in RAISES.items()},
}

# Where it does it.

Settings = dict[str, Any]
Act = Callable[[], Any]
LOOK = call("look", item="tea")


@tool(read_only=True)
def look(item: str) -> str:
    """Look it up."""
    return "89 $"


@dataclass
class Place:
    """Where an agent calls the code of a user. `build` gives the settings of an agent whose code
    does `act()`.

    `takes`: the deeds that are right there, or that the run records and goes on. All others end it
    with an error.
    """

    name: str
    build: Callable[[Act], Settings]
    takes: Callable[[str], bool] = lambda deed: False
    has_timeout: bool = False


def returning(*names: str) -> Callable[[str], bool]:
    """These deeds are all right."""
    return {f"returns {name}" for name in names}.__contains__


def is_return(deed: str) -> bool:
    return deed.startswith("returns ")


def is_error(deed: str) -> bool:
    """Is it an Exception, or a value? (A CancelledError from inside a tool is its own error.)"""
    base = ("KeyboardInterrupt", "SystemExit", "GeneratorExit", "a BaseException", "a group")
    return not deed.startswith(tuple(f"raises {name}" for name in base))


def on_actions(change: Callable[[Any], Any]) -> Any:
    def wrong(step, turn):
        return change(step) if is_action(step) else step

    return wrong


def policy(change: Callable[[Any, Act], Any]) -> Callable[[Act], Settings]:
    """A policy that changes each call of a tool."""
    return lambda act: {"policies": [on_actions(lambda step: change(step, act))]}


def plain_policy(act: Act) -> Settings:
    def wrong(step, turn):
        return act()

    return {"policies": [wrong]}


class Policy:
    def wrong(self, act, step, turn):
        return act()


def bound_policy(act: Act) -> Settings:
    return {"policies": [partial(Policy().wrong, act)]}


class CallablePolicy:
    def __init__(self, act):
        self.act = act

    def __call__(self, step, turn):
        return self.act()


def lambda_policy(act: Act) -> Settings:
    return {"policies": [lambda step, turn: act()]}


def predicate(**settings: Any) -> Callable[[Act], Settings]:
    def build(act: Act) -> Settings:
        def wrong(arguments):
            return act()

        return {"tools": [replace(look, needs_approval=wrong)], **settings}

    return build


def check(**settings: Any) -> Callable[[Act], Settings]:
    def build(act: Act) -> Settings:
        def wrong(turn):
            return act()

        return {"done_when": [wrong], "check_timeout": TIMEOUT if act is block else 60, **settings}

    return build


def async_check(act: Act) -> Settings:
    async def wrong(turn):
        return act()

    return {"done_when": [wrong]}


def a_tool(in_what: Callable[[Any], Any] = lambda value: value, **options: Any) -> Any:
    def build(act: Act) -> Settings:
        def wrong() -> object:
            """Look."""
            return in_what(act())

        timeout = TIMEOUT if act is block else None
        made = tool(wrong, name="look", **{"timeout": timeout, **options})
        return {"tools": [made], "calls": call("look")}

    return build


def async_tool(**options: Any) -> Callable[[Act], Settings]:
    def build(act: Act) -> Settings:
        async def wrong() -> object:
            """Look."""
            return act()

        return {"tools": [tool(wrong, name="look", **options)], "calls": call("look")}

    return build


def approve(change: Callable[[Any], Any] = lambda value: value) -> Callable[[Act], Settings]:
    def build(act: Act) -> Settings:
        def wrong(question):
            return change(act())

        return {"tools": [replace(look, needs_approval=True)], "approve": wrong}

    return build


def async_approve(act: Act) -> Settings:
    async def wrong(question):
        return act()

    return {"tools": [replace(look, needs_approval=True)], "approve": wrong}


def watcher(act: Act) -> Settings:
    def wrong(event):
        return act()

    return {"on_event": wrong}


def clock(act: Act) -> Settings:
    def wrong():
        return act()

    return {"now": wrong}


def late_clock(act: Act) -> Settings:
    """The clock is wrong from its fifth look on."""
    looks = itertools.count()

    def wrong():
        return act() if next(looks) > 4 else utc_now()

    return {"now": wrong}


def validator(act: Act) -> Settings:
    def wrong(value):
        return act()

    def look(item):
        return "89 $"

    look.__annotations__ = {"item": Annotated[str, pydantic.BeforeValidator(wrong)], "return": str}
    return {"tools": [tool(look, description="Look.")]}


def default_factory(act: Act) -> Settings:
    def wrong():
        return act()

    kind = Annotated[Any, pydantic.Field(default_factory=wrong)]
    fields: Any = {"name": (str, "tea"), "extra": (kind, ...)}
    item = pydantic.create_model("Item", **fields)

    def look(item):
        return "89 $"

    look.__annotations__ = {"item": item, "return": str}
    made = tool(look, description="Look.")
    return {"tools": [made], "calls": call("look", item={"name": "tea"})}


def answer_validator(act: Act) -> Settings:
    def wrong(value):
        return act()

    kind = Annotated[int, pydantic.BeforeValidator(wrong)]
    return {"answer": pydantic.create_model("Answer", cents=(kind, ...)), "calls": '{"cents": 5}'}


# The user's own models. What `run` needs is `complete`; each of the others is asked for in one way
# of running.


def a_model(**methods: Any) -> Callable[[Act], Settings]:
    def build(act: Act) -> Settings:
        made = {name: make(act) for name, make in methods.items()}
        return {"model": type("Wrong", (Model,), {"complete": done, **made})()}

    return build


def done(self, request):
    return Assistant("Done.")


def plainly(act: Act) -> Any:
    def wrong(self, request):
        return act()

    return wrong


def awaited(act: Act) -> Any:
    async def wrong(self, request):
        return act()

    return wrong


def yielded(act: Act) -> Any:
    def wrong(self, request):
        yield act()
        yield Assistant("Done.")

    return wrong


def ayielded(act: Act) -> Any:
    async def wrong(self, request):
        yield act()
        yield Assistant("Done.")

    return wrong


def yielded_late(act: Act) -> Any:
    def wrong(self, request):
        yield Assistant("Done.")
        yield act()

    return wrong


def ayielded_late(act: Act) -> Any:
    async def wrong(self, request):
        yield Assistant("Done.")
        yield act()

    return wrong


def in_reply(change: Callable[[Any], Any]) -> Callable[[Act], Settings]:
    """A model whose replies have a wrong field."""

    def make(act: Act) -> Any:
        def wrong(self, request):
            return change(act())

        return wrong

    return a_model(complete=make)


def script(act: Act) -> Settings:
    def wrong(request):
        return act()

    return {"model": ScriptedModel(wrong)}


def script_field(change: Callable[[Any], Any]) -> Callable[[Act], Settings]:
    return lambda act: script(lambda: change(act()))


def call_with(value: Any) -> ToolCall:
    return ToolCall("a", "look", {"item": value})


JSON = ("None", "True", "a number", "a text", "a lone surrogate")  # what can be written in a call
TEXTS = ("a text", "a lone surrogate")
TOOLS: dict[str, Callable[[Act], Settings]] = {
    "a tool": a_tool(read_only=True),
    "a tool that changes something": a_tool(),
    "a tool, in its list": a_tool(lambda value: [value]),
    "a tool, in its dict": a_tool(lambda value: {"a": {"b": value}}, idempotent=True),
    "an async tool": async_tool(read_only=True),
    "an async tool that changes something": async_tool(),
    "an async tool with a timeout": async_tool(timeout=60),
    "a tool with a timeout": a_tool(timeout=60),
}

ALL = [
    Place("a policy", plain_policy),
    Place("a method that is a policy", bound_policy),
    Place("an object that is a policy", lambda act: {"policies": [CallablePolicy(act)]}),
    Place("a lambda that is a policy", lambda_policy),
    Place("a policy, of actions", policy(lambda step, act: act())),
    Place("a call", policy(lambda step, act: CallTool(act()))),
    Place(
        "arguments",
        policy(lambda step, act: replace(step, call=replace(step.call, arguments=act()))),
        returning(*TEXTS),  # it is refused, as from a model
    ),
    Place(
        "an argument",
        policy(
            lambda step, act: replace(step, call=replace(step.call, arguments={"item": act()}))
        ),
        returning(*JSON),  # the tool's type decides
    ),
    Place("a remark", policy(lambda step, act: replace(step, remark=act())), returning(*TEXTS)),
    Place("what was tried", policy(lambda step, act: replace(step, tried=act()))),
    Place("a fit", policy(lambda step, act: replace(step, fit=act())), returning("None")),
    Place("a message", policy(lambda step, act: CallModel(say=act())), returning("None")),
    Place("a choice", policy(lambda step, act: CallModel(act()))),
    Place("bounds", policy(lambda step, act: CallModel(bounds=act()))),
    Place("a reason", policy(lambda step, act: Refuse(step.call, "no", act())), returning(*TEXTS)),
    Place("a code", policy(lambda step, act: Refuse(step.call, act(), "no")), returning(*TEXTS)),
    Place(
        "a notice",
        policy(lambda step, act: Refuse(step.call, "no", "no", act())),
        returning(*TEXTS),
    ),
    Place(
        "a question", policy(lambda step, act: AskHuman(act(), step.call)), returning(*TEXTS)
    ),
    Place(
        "a question about the call",
        policy(lambda step, act: AskHuman("Run it?", act())),
        returning("None"),
    ),
    Place("an exit", policy(lambda step, act: Done(act()))),
    Place("an answer", policy(lambda step, act: Done("gave_up", act())), returning(*TEXTS)),
    Place("names of checks", policy(lambda step, act: Check(act()))),
    Place("a predicate", predicate(approve=lambda question: True), is_error),
    Place("a predicate, with no person to ask", predicate(), is_error),
    Place("a check", check(), returning("None", "a coroutine", *TEXTS), has_timeout=True),
    Place("a check at a limit", check(max_model_calls=1), is_error, has_timeout=True),
    Place("an async check", async_check, returning("None", *TEXTS)),
    *[
        Place(name, build, is_error, has_timeout=name == "a tool")
        for name, build in TOOLS.items()
    ],
    Place("approve=", approve(), returning("True")),
    Place(
        "the reason of a verdict", approve(lambda value: Verdict("no", reason=value)),
        returning(*TEXTS),
    ),
    Place(
        "the arguments of a verdict",
        approve(lambda value: Verdict("yes", arguments={"item": value})),
        returning(*JSON),
    ),
    Place("async approve=", async_approve, returning("True")),
    Place("on_event=", watcher, is_return),
    Place("a clock", clock),
    Place("a clock, later on", late_clock),
    Place("a validator", validator, is_error),
    Place("a default", default_factory, is_error),
    Place("the validator of an answer", answer_validator, is_error),
    Place("complete", a_model(complete=plainly)),
    Place("async complete", a_model(complete=awaited)),
    Place("acomplete", a_model(acomplete=awaited)),
    Place("acomplete that is not async", a_model(acomplete=plainly)),
    Place("stream", a_model(stream=plainly)),
    Place("what stream yields", a_model(stream=yielded)),
    Place("what stream yields late", a_model(stream=yielded_late)),
    Place("stream that is async", a_model(stream=awaited)),
    Place("astream", a_model(astream=plainly)),
    Place("astream that is awaited", a_model(astream=awaited)),
    Place("what astream yields", a_model(astream=ayielded)),
    Place("what astream yields late", a_model(astream=ayielded_late)),
    Place("astream that is not async", a_model(astream=yielded)),
    Place("a script", script, returning(*TEXTS)),
    Place("a text", in_reply(lambda value: Assistant(value)), returning(*TEXTS)),
    Place(
        "an argument of the model",
        in_reply(lambda value: Assistant(tool_calls=(call_with(value),), stop_reason="tool_use")),
        returning(*JSON),
    ),
    Place("calls", in_reply(lambda value: Assistant(tool_calls=value))),
    Place("usage", script_field(lambda value: Assistant("Done.", usage=value))),
    Place("tokens", script_field(lambda value: Assistant("Done.", usage=Usage(value, 1))),
          returning("a number", "True")),
    Place("a stop reason", in_reply(lambda value: Assistant("Done.", stop_reason=value)),
          returning(*TEXTS)),
    Place("a native message", script_field(lambda value: Assistant("Done.", native=value)),
          returning(*JSON)),
]  # fmt: skip
PLACES = {place.name: place for place in ALL}

# In which way.


async def _awatch(agent: Agent, path: Any, on_event: Any) -> Outcome:
    outcome = None
    async with aclosing(agent.astream("Look.", transcript=path)) as events:
        async for event in events:
            if on_event:
                on_event(event)
            outcome = event
    assert isinstance(outcome, Outcome)
    return outcome


def _watch(agent: Agent, path: Any, on_event: Any) -> Outcome:
    outcome = None
    for event in agent.stream("Look.", transcript=path):
        if on_event:
            on_event(event)
        outcome = event
    assert isinstance(outcome, Outcome)
    return outcome


async def _alone(work: Any) -> Outcome:
    """Await it, and make sure that no task is left."""
    try:
        return await work
    finally:
        left = asyncio.all_tasks() - {asyncio.current_task()}
        assert not left, f"tasks are left: {left}"


WAYS: dict[str, Callable[[Agent, Any, Any], Outcome]] = {
    "run": lambda agent, path, watch: agent.run("Look.", transcript=path, on_event=watch),
    "arun": lambda agent, path, watch: asyncio.run(
        _alone(agent.arun("Look.", transcript=path, on_event=watch))
    ),
    "stream": _watch,
    "astream": lambda agent, path, watch: asyncio.run(_alone(_awatch(agent, path, watch))),
}

_released = threading.Event()


def block() -> None:
    """Never returns, until the test is over."""
    _released.wait()


DEEDS[NEVER_RETURNS] = block


@dataclass
class Ran:
    """What a run left: its outcome, or the error that ended it."""

    case: "Case"
    path: Path | None
    outcome: Outcome | None = None
    error: BaseException | None = None
    raised: list[BaseException] = field(default_factory=list)  # by the code that is wrong
    calls: int = 0  # of that code

    @property
    def messages(self) -> tuple[Message, ...]:
        return self.outcome.transcript if self.outcome else vars(self.error)["transcript"]


@dataclass(frozen=True)
class Case:
    """A wrong deed at one place, in one way of running, with a file or in memory."""

    place: str
    deed: str
    way: str
    is_saved: bool = True

    def __str__(self) -> str:
        return f"{self.place} {self.deed}, {self.way}"

    def run(self, folder: Path) -> Ran:
        """Run it."""
        path = folder / "run.jsonl" if self.is_saved else None
        ran = Ran(self, path)
        made: list[Any] = []
        threads = set(threading.enumerate())
        tasks = list_background_tasks()
        act = DEEDS[self.deed]

        def counted() -> Any:
            ran.calls += 1
            if ran.calls > MOST_CALLS:
                raise StillGoing
            try:
                made.append(act())
            except BaseException as error:
                ran.raised.append(error)
                raise
            return made[-1]

        wrong = block if act is block else counted
        _released.clear()
        try:
            settings = PLACES[self.place].build(wrong)
            ran.outcome = self._start(settings, path)
        except BaseException as error:
            ran.error = error
        finally:
            _released.set()
        for value in made:
            if type(value) is types.CoroutineType:
                value.close()
        self._join(threads, tasks)
        return ran

    def _start(self, settings: Settings, path: Path | None) -> Outcome:
        settings = {"model": None, "tools": [look], "calls": LOOK, "on_event": None, **settings}
        model, tools = settings.pop("model"), settings.pop("tools")
        calls, watch = settings.pop("calls"), settings.pop("on_event")
        model = model or ScriptedModel(itertools.chain([calls], ["Done."] * 40))
        agent = Agent(model, tools, force="never", silence="accept", **settings)
        return WAYS[self.way](agent, path, watch)

    def _join(self, threads: set[threading.Thread], tasks: set["asyncio.Task[Any]"]) -> None:
        """Wait for the threads of code that never returned. No other thread, and no task, may be
        left, but those that were there before.
        """
        for thread in set(threading.enumerate()) - threads:
            if thread.name != "async tools" and not thread.name.startswith("transcripts"):
                thread.join(timeout=20)
                assert not thread.is_alive(), f"a thread is left: {thread}"
        assert list_background_tasks() <= tasks


def list_background_tasks() -> set["asyncio.Task[Any]"]:
    """The tasks of the loop in the background, if there is one."""
    if waiting._background is None:
        return set()
    loop = waiting._background[1]
    return asyncio.run_coroutine_threadsafe(_list_tasks(), loop).result(timeout=20)


async def _list_tasks() -> set["asyncio.Task[Any]"]:
    """One that just ended may be among them for a turn of the loop."""
    for _ in range(5):
        await asyncio.sleep(0)
    own_task = asyncio.current_task()
    return {task for task in asyncio.all_tasks() if task is not own_task}


def check_ran(ran: Ran) -> None:
    """What is true of every run."""
    assert not isinstance(ran.error, StillGoing), "it would never end"
    if ran.error is not None:
        check_error(ran)
    elif ran.calls and not PLACES[ran.case.place].takes(ran.case.deed):
        raise AssertionError(f"it went on in silence: {ran.outcome}")
    check_messages(ran)


def check_error(ran: Ran) -> None:
    """The error is that of the user's own code, or names it with its file and line."""
    error = ran.error
    assert error is not None
    if any(error is raised for raised in ran.raised):
        return
    if any(type(error) is type(raised) and error.args == raised.args for raised in ran.raised):
        return  # a copy, made by asyncio
    if any(error.__cause__ is raised for raised in ran.raised):
        return  # a StopIteration in a generator or a coroutine
    text = str(error)
    seen = "".join(traceback.format_exception(error))
    assert "\n" not in text, seen
    assert "wrong_code.py, line" in text, seen
    assert isinstance(error, TypeError | RuntimeError | TimeoutError), seen


def check_messages(ran: Ran) -> None:
    """Nothing unreadable was recorded, and the file is free."""
    if ran.error is not None and "transcript" not in vars(ran.error):
        return  # the agent could not be made
    for message in ran.messages:
        assert find_problem(message) == "", message
    if ran.path is not None and ran.path.exists():
        with TranscriptFile(ran.path, {}, now=utc_now()) as file:
            assert tuple(file.messages) == ran.messages
            assert file.notices == [] or "changed" in file.notices[0]
        assert Turn.of(ran.messages) == file.turn

"""A tool: a name, a description, a JSON schema and a Python function.

Rule 1: `@tool` reads the signature once, at declaration (schema.py).
Rule 2: arguments are validated before the function is called, by pydantic: `"13"` becomes 13 where
        an int is asked, nonsense becomes an error that names the field and what was expected.
Rule 3: the model's mistakes and a tool's exceptions come back as an error *result* (`error: …`, no
        traceback), for the model to read. KeyboardInterrupt and Misuse of the kit are raised.

The edge: whether a call may run at all is decided by policies, before it gets here. What a person
and a predicate are shown is what validation gives, and as it was written where that is something
else each time (a new id). What changes more slowly (a default that is the hour, a validator with a
memory) and a decorator that fills in values of its own cannot be seen through; nor can what a
generator has done, when a decorator hides that it is one. A result that is an iterator is read
after the timeout of its tool.
"""

import contextvars
import inspect
import re
import sys
import threading
import warnings
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypedDict, Unpack, cast, overload

import pydantic
import pydantic_core

from .messages import CARRIED, THINK_NAME, Json, ToolCall, ToolResult
from .schema import KEY, arguments_model, held, named, problems, read_docstring
from .text import MAX_DEPTH, is_deeper, json_text, shorten, well_formed

if TYPE_CHECKING:
    from concurrent.futures import Future

    from .turn import Turn

TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")  # what every provider accepts
MAX_RESULT_CHARS = 20_000
GRACE = 1.0  # seconds that an async function may take to clean up after its timeout
GUARDS = ("think_first", "idempotent", "takes_key", "timeout")  # what an audit wants to know


class Misuse(RuntimeError):
    """The kit was called wrongly: nothing that a model could correct."""


class ModelMistake(Exception):
    """The model called a tool wrongly, or missed a form. The text is what it gets to read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """Something a model can call.

    `parameters` is a JSON schema of type object. `function` takes the arguments by keyword and may
    be async; without one the tool can be shown to a model but not called. `arguments_model`
    validates before the call; a tool made from a ready schema has none, and its function gets the
    arguments as the model sent them, with the defaults of that schema.

    - `think_first`: it runs only behind a thought (`policies.gate`).
    - `carries`: it is shown with a parameter for its thought (`Agent(carry=True)`).
    - `idempotent`: running it twice is as good as once, so after a crash it is simply run again.
      `takes_key`: its function has a parameter `idempotency_key`, which the kit fills in: stable
      across resumes, and hidden from the model.
    - `needs_approval`: a person is asked first, always or when the predicate says so of the
      validated arguments (`policies.approval`).
    - `timeout`: seconds after which the model gets an error instead of a result. A sync function
      cannot be stopped: it goes on in its thread, and what it returns is dropped.
    """

    name: str
    description: str
    parameters: Json
    function: Callable[..., Any] | None = None
    arguments_model: "type[pydantic.BaseModel] | None" = field(default=None, repr=False)
    takes_key: bool = False
    think_first: bool = False
    carries: bool = False
    idempotent: bool = False
    needs_approval: bool | Callable[[Json], bool] = False
    timeout: float | None = None

    def __post_init__(self) -> None:
        if not TOOL_NAME.fullmatch(self.name):
            raise ValueError(f"tool name {self.name!r}: use 1 to 64 letters, digits, '_' or '-'")
        if not isinstance(self.think_first, bool) or not isinstance(self.idempotent, bool):
            raise TypeError(f"tool {self.name}: think_first and idempotent are True or False")
        if not (isinstance(self.needs_approval, bool) or callable(self.needs_approval)):
            raise TypeError(f"tool {self.name}: needs_approval is True, False or a function")
        if not (self.timeout is None or (type(self.timeout) in (int, float) and self.timeout > 0)):
            raise ValueError(f"tool {self.name}: timeout={self.timeout!r}: use seconds above 0")
        if self.parameters.get("type") != "object":
            raise ValueError(f"tool {self.name}: parameters must be a JSON schema of type object")
        is_ours = self.carries or self.name == THINK_NAME
        if CARRIED in self.parameters.get("properties", {}) and not is_ours:
            raise ValueError(f"tool {self.name}: rename {CARRIED!r}: a parameter of the kit's own")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function behind the tool directly, as if it had never been decorated."""
        return self._callable()(*args, **kwargs)

    def _callable(self) -> Callable[..., Any]:
        if self.function is None:
            raise TypeError(f"tool {self.name} has no function; pass Tool(..., function=...)")
        return self.function


class ToolOptions(TypedDict, total=False):
    """What `@tool(...)` takes. `name` and `description` replace the function's own."""

    name: str
    description: str
    think_first: bool
    idempotent: bool
    needs_approval: bool | Callable[[Json], bool]
    timeout: float | None


@overload
def tool(function: Callable[..., Any], /, **options: Unpack[ToolOptions]) -> Tool: ...
@overload
def tool(**options: Unpack[ToolOptions]) -> Callable[[Callable[..., Any]], Tool]: ...
def tool(
    function: Callable[..., Any] | None = None, /, **options: Unpack[ToolOptions]
) -> Tool | Callable[[Callable[..., Any]], Tool]:
    """Make a Tool of a typed function, sync or async; also `@tool(think_first=True)` and the like.

    The description is the docstring, and without one there is a warning. A parameter is described
    by its line under `Args:` or by `Annotated[int, "age in days"]`. Raises TypeError for parameters
    without a type or of a type that has no schema.
    """

    is_bare = function is not None  # `@tool` and not `@tool(...)`

    def make(function: Callable[..., Any]) -> Tool:
        name = options.get("name") or function.__name__
        text, notes = read_docstring(inspect.getdoc(function) or "")
        takes_key = KEY in inspect.signature(function).parameters
        model, schema = arguments_model(name, function, notes)
        if inspect.isasyncgenfunction(function) or inspect.isgeneratorfunction(function):
            raise TypeError(f"tool {name}: a generator does nothing by itself; return a result")
        description = options.get("description") or text
        if not description:
            said = f"tool {name}: no docstring, so a model knows nothing of it but its name"
            warnings.warn(said, stacklevel=3 if is_bare else 2)
        empty = {"type": "object", "properties": {}, "required": [], "additionalProperties": False}
        own = {"name": name, "description": description, "parameters": empty | schema}
        rest: Any = options | own
        return Tool(function=function, arguments_model=model, takes_key=takes_key, **rest)

    return make(function) if function else make


def index(tools: Iterable[Tool], *, reserved: str | None = None) -> dict[str, Tool]:
    """Tools by name. Raises ValueError for a name that is taken twice or reserved, TypeError for
    what is no Tool or has no function.
    """
    if isinstance(tools, Tool):
        raise TypeError(f"tools: pass a list, such as [{tools.name}]")
    by_name: dict[str, Tool] = {}
    for item in tools:
        if not isinstance(item, Tool):
            raise TypeError(f"{item!r} is not a Tool; decorate the function with @tool")
        if item.name == reserved:
            raise ValueError(f"the tool name {reserved!r} is reserved for the kit's own tool")
        if item.name in by_name:
            raise ValueError(f"two tools are named {item.name!r}; rename one with @tool(name=...)")
        item._callable()  # one that cannot be called is refused here, not when the model tries
        by_name[item.name] = item
    return by_name


def call(
    tools: Mapping[str, Tool], asked: ToolCall, *, key: str = "", max_chars: int = MAX_RESULT_CHARS
) -> ToolResult:
    """Perform one call. An async function is run to its end here. `key` is for a tool that takes an
    idempotency key.
    """
    before = sys.exception()
    try:
        value = _wait(_prepare(tools, asked, key), tools[asked.name])
    except (Misuse, KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # whatever a tool raises is an answer for the model (rule 3)
        if interrupt := _hidden_interrupt(error, before):
            raise interrupt from error
        return _failure(asked, error, max_chars)
    return _success(asked, value, max_chars)


async def acall(
    tools: Mapping[str, Tool], asked: ToolCall, *, key: str = "", max_chars: int = MAX_RESULT_CHARS
) -> ToolResult:
    """`call` without blocking: a sync function runs in a thread, an async one on the loop."""
    try:
        function = _prepare(tools, asked, key)
    except Exception as error:
        return _failure(asked, error, max_chars)
    value, raised = await _await(function, tools[asked.name])
    if isinstance(raised, (Misuse, KeyboardInterrupt, SystemExit)):
        raise raised
    if raised is not None:
        return _failure(asked, raised, max_chars)
    return _success(asked, value, max_chars)


def _wait(function: Callable[[], Any], tool: Tool) -> Any:
    """What `function` returns, within the tool's timeout."""
    if tool.timeout is None or inspect.iscoroutinefunction(tool.function):
        value = function()
    else:
        value, raised = _in_a_thread(function).result(min(tool.timeout, threading.TIMEOUT_MAX))
        if raised is not None:
            raise raised
    if not hasattr(type(value), "__await__"):
        return value
    import asyncio

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        value, raised = asyncio.run(_await(lambda: value, tool))
    else:
        getattr(value, "close", lambda: None)()
        raise Misuse("an async tool in a running event loop: use `await agent.arun(...)`")
    if raised is not None:
        raise raised
    return value


async def _await(function: Callable[[], Any], tool: Tool) -> tuple[Any, BaseException | None]:
    """What `function` returns or raises, within the tool's timeout. Cancelling whoever waits here
    cancels an async function, and is not mistaken for what the function raised.
    """
    import asyncio

    async def work() -> tuple[Any, BaseException | None]:
        if inspect.iscoroutinefunction(tool.function):
            value, raised = await function(), None
        else:
            value, raised = await asyncio.wrap_future(_in_a_thread(function))
        return (await value if hasattr(type(value), "__await__") else value), raised

    task = asyncio.create_task(work())
    try:
        _, late = await asyncio.wait({task}, timeout=tool.timeout)
    except BaseException:
        task.cancel()
        raise
    if late:
        task.cancel()
        await asyncio.wait({task}, timeout=GRACE)
    if not task.done() or task.cancelled():  # by the function itself, where it is not late
        return None, TimeoutError() if late else asyncio.CancelledError()
    if (raised := task.exception()) is not None:  # of its cleaning up, where it is late
        return None, TimeoutError() if late else raised
    return task.result()


def _in_a_thread(function: Callable[[], Any]) -> "Future[tuple[Any, BaseException | None]]":
    """What `function` returns or raises, from a thread of its own that is left alone when it takes
    too long. (asyncio's pool would be waited for at the end.)
    """
    from concurrent.futures import Future  # with logging behind it: a tenth of an import

    future: Future[tuple[Any, BaseException | None]] = Future()
    future.set_running_or_notify_cancel()
    context = contextvars.copy_context()

    def work() -> None:
        try:
            future.set_result((context.run(function), None))
        except BaseException as error:
            future.set_result((None, error))

    threading.Thread(target=work, daemon=True).start()
    return future


def _hidden_interrupt(error: BaseException, before: BaseException | None) -> BaseException | None:
    """The Ctrl-C or exit that the tool cleaned up after when `error` came up; none that it took for
    an error (`from None`), or that was handled `before` it was called.
    """
    for _ in range(1_000):  # the chain may be a circle
        if isinstance(error, (KeyboardInterrupt, SystemExit)):
            return error
        if error.__suppress_context__ or (inner := error.__context__) is None or inner is before:
            break
        error = inner
    return None


def as_received(tools: Mapping[str, Tool], request: ToolCall) -> tuple[Json, bool] | None:
    """The arguments as the function will get them, in JSON: validated, `"580"` an int where one is
    asked, defaults filled in; and whether that is all: what cannot be seen through is shown as it
    was written. None for a call that cannot be run.
    """
    try:
        values, again = (checked(tools, request, defaults=True) for _ in range(2))
    except Exception:
        return None
    written, unseen = cast(Json, deepcopy(request.arguments)), list[Any]()
    for name, value in values.items():
        try:
            own = written.get(name)
            shown = held(value, own, unseen)
            values[name] = _steady(shown, held(again[name], own, []), own, unseen)
        except Exception as error:  # a circle, a field that is not set
            unseen.append(error)
            values[name] = written.get(name, "(cannot be shown)")
    return values, not unseen


def _steady(value: Any, again: Any, written: Any, unseen: list[Any]) -> Any:
    """`value`, but for what is another one each time (a new id): that is shown as it was written,
    and goes into `unseen`.
    """
    match value, again:
        case dict(), dict() if value.keys() == again.keys():
            of = written if isinstance(written, dict) else {}
            return {k: _steady(v, again[k], of.get(k), unseen) for k, v in value.items()}
        case list(), list() if len(value) == len(again):
            alike = isinstance(written, list) and len(written) == len(value)
            own = written if alike else [None] * len(value)
            return [_steady(*each, unseen) for each in zip(value, again, own, strict=True)]
    if value == again:
        return value
    unseen.append(value)
    return "(another one each time)" if written is None else written


def _defaults(tool: Tool) -> Json:
    """What the function takes for arguments that are left out, as far as it or the schema tells."""
    known = tool.parameters.get("properties", {})
    told = {name: deepcopy(of["default"]) for name, of in known.items() if "default" in of}
    with suppress(ValueError):  # a class in C, say, does not tell
        own = inspect.signature(tool._callable()).parameters.values()
        told = {p.name: p.default for p in own if p.default is not p.empty and p.name != KEY} | told
    return told


def _prepare(tools: Mapping[str, Tool], request: ToolCall, key: str) -> Callable[[], Any]:
    """The call, ready to be made, or ModelMistake."""
    arguments = checked(tools, request)
    tool = tools[request.name]
    if tool.takes_key:
        arguments = {**arguments, KEY: key}
    return lambda: tool._callable()(**arguments)


def checked(tools: Mapping[str, Tool], request: ToolCall, *, defaults: bool = False) -> Json:
    """The arguments of a call, as the function gets them (`defaults`: those of its own, too), or
    ModelMistake. They are a copy: what the model said stays as it is, whatever a function does.
    """
    tool = tools.get(request.name)
    if tool is None:
        known = ", ".join(tools) or "none"
        raise ModelMistake(f"there is no tool {request.name!r}. Tools: {known}.")
    if not isinstance(request.arguments, dict):
        raise ModelMistake(f"the arguments of {tool.name} are not a JSON object. Send one: {{}}.")
    if is_deeper(request.arguments, MAX_DEPTH):
        raise ModelMistake(f"the arguments of {tool.name} are nested too deeply.")
    arguments = {k: deepcopy(v) for k, v in request.arguments.items() if k != CARRIED}  # the kit's
    if tool.arguments_model is None:
        return _defaults(tool) | arguments
    try:
        return named(tool.arguments_model.model_validate(arguments), defaults=defaults)
    except pydantic.ValidationError as error:
        said = f"bad arguments for {tool.name}: {problems(error)}. Correct them and call again."
        raise ModelMistake(said) from None


def _success(request: ToolCall, value: Any, max_chars: int) -> ToolResult:
    """It happened, whatever it returned: what is no JSON is shown as text."""
    as_json = lambda: json_text(pydantic_core.to_jsonable_python(value), compact=True)  # noqa: E731
    text = value if type(value) is str else _safely(as_json)
    if text is None:
        text = f"(done; the result is no JSON, so it is shown as text) {_words(value)}"
    return ToolResult(request.id, request.name, _cut(text or "(empty)", max_chars))


def _failure(request: ToolCall, error: BaseException, max_chars: int) -> ToolResult:
    match error:
        case ModelMistake():
            said = str(error)
        case TimeoutError() if not _words(error):
            said = "no result in time; it may have happened all the same. Check before repeating."
        case _:
            said = f"{type(error).__name__}: {_words(error)}".rstrip(": ")
    return ToolResult(request.id, request.name, _cut(f"error: {said}", max_chars), is_error=True)


def _words(value: object) -> str:
    said = _safely(lambda: str(value))
    return f"a {type(value).__name__}" if said is None else said


def _safely(show: Callable[[], str]) -> str | None:
    """None where a value's own methods raise, or pydantic panics over one that changes."""
    try:
        return show()
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException:
        return None


def _cut(text: str, max_chars: int) -> str:
    text = well_formed(text)  # `os.listdir` may give lone surrogates
    if len(text) <= max_chars:
        return text
    left_out = len(text) - max_chars
    return f"{text[:max_chars]}\n[cut: {left_out:,} of {len(text):,} characters left out]"


def signature(call: ToolCall) -> str:
    """A call as one would write it, on one line: `lookup_order(order_id="ORD-001")`."""
    if isinstance(call.arguments, str):
        return f"{_name(call.name)}({call.arguments})"
    shown = {k: v for k, v in call.arguments.items() if k != CARRIED or call.name == THINK_NAME}
    arguments = ", ".join(f"{_name(name)}={json_text(value)}" for name, value in shown.items())
    return f"{_name(call.name)}({arguments})"


def _name(name: str) -> str:
    return name if TOOL_NAME.fullmatch(name) else json_text(name)  # a model may write any


def report(turn: "Turn") -> str:
    """What a turn did, a line per action: ✓ or ✗, the call, and what went wrong."""
    lines = []
    for action in turn.actions:
        failed = action.result.is_error
        why = f" ({shorten(action.result.content)})" if failed else ""
        lines.append(f"{'✗' if failed else '✓'} {shorten(signature(action.call))}{why}")
    return "\n".join(lines)

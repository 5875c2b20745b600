"""Tool: a name, a description, a JSON schema and a Python function.

Rule 1: `@tool` reads the signature once, when the tool is declared (`schema.py`).
Rule 2: pydantic validates the arguments before the function is called. `"13"` becomes 13 for an int
        parameter. Invalid values become an error that names the field and what's expected.
Rule 3: a model's mistake or a tool's exception becomes an error *result* (`error: …`, no
        traceback), which the model reads. KeyboardInterrupt and SystemExit are raised.
Rule 4: if a tool with side effects doesn't return, they may have happened. The result says so
        (`in_doubt`), unless the tool raised NothingDone.

Limitations: whether a call may run is decided earlier, by policies. A generated default (an id, the
time) is generated again when the tool runs.
"""

import inspect
import re
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import partial
from typing import Any, Generic, NoReturn, Protocol, TypedDict, Unpack, overload

import pydantic
import pydantic_core
from typing_extensions import ParamSpec, TypeVar  # with defaults

from .checking import (
    check_function,
    is_a,
    name_of,
    read_error,
    show_error,
    strip_partial,
)
from .messages import CARRIED, THINK_NAME, Json, ToolCall, ToolResult
from .mistakes import warn
from .schema import (
    KEY,
    SCALARS,
    Fitted,
    Place,
    arguments_model,
    dump,
    find_misfits,
    problems,
    read_docstring,
    repair,
    return_schema,
    values_by_name,
    without_made_defaults,
)
from .text import canonical, json_text, well_formed
from .waiting import Function, Settled, TookTooLong

TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")  # what every provider accepts
STARTED_BEFORE = "It was started before and may have happened."
MAY_HAVE_HAPPENED = "It may have happened: check before you repeat it."
# What an audit needs to know about a tool.
GUARDS = ("think_first", "read_only", "idempotent", "takes_key", "same", "repeats", "timeout")

# `needs_approval`: does a call with these arguments need a person's yes?
Predicate = Callable[[Json], bool]
P = ParamSpec("P", default=...)
R = TypeVar("R", default=Any)


class NothingDone(Exception):
    """A tool raises this if it knows that nothing happened. The same call may then be repeated.

    The model reads the text.
    """


class NoResult(Exception):
    """A tool raises this if it failed, but not because of a bug: a service refused or disappeared.
    The call may have happened. The model reads the text.
    """


class ModelMistake(Exception):
    """The model called a tool incorrectly, or its answer has the wrong form. It reads this message.

    `places`: where in the arguments; each place is a list of keys.
    """

    def __init__(self, text: str, places: Iterable[Place] = ()) -> None:
        super().__init__(text)
        self.places = tuple(places)


# These errors are messages for the model, not bugs in a tool.
EXPECTED = (ModelMistake, NothingDone, NoResult, TookTooLong)


@dataclass(frozen=True, kw_only=True, repr=False)
class Tool(Generic[P, R]):
    """Something a model can call.

    `parameters` is a JSON schema of type object. `function` takes the arguments by keyword and may
    be async. A tool without a function can be shown to a model, but not called. `arguments_model`
    validates the arguments. A tool that was declared with a schema has none: the schema validates
    the arguments, and the function gets them as the model sent them.

    - `think_first`: it needs a thought to run (`policies/gate.py`).
    - `carries`: the model sees it with a parameter for the thought (`Agent(carry=True)`).
    - `read_only`: it changes nothing. It may be repeated, and runs even if its call was written as
      text. An audit doesn't count it as a decision.
    - `idempotent`: running it twice has the same effect as once. After a crash it simply runs
      again.
    - `takes_key`: its function has a parameter `idempotency_key`. The kit fills in the key, which
      stays the same after a resume. The model doesn't see it.
    - `same`: the arguments that identify a call, such as `("order_id",)`; empty means all of them.
      They're used to detect duplicates and retries (`policies/doubt.py`, `policies/twice.py`).
    - `repeats`: the same call may run twice in one reply. Without it, the second is refused
      (`policies/twice.py`).
    - `needs_approval`: a person is asked first. If it's a function of the validated arguments, the
      person is asked only if it returns True or raises (`policies/approval.py`).
    - `returns`: a JSON schema for the function's result, from its annotation. Only models that read
      their tools as text see it (`dialects/written.py`).
    - `timeout`: after this many seconds the model gets an error instead of a result. A sync
      function can't be stopped: it keeps running in its thread, and its result is dropped.
    """

    name: str
    description: str
    parameters: Json
    function: Callable[P, R] | None = None
    arguments_model: "type[pydantic.BaseModel] | None" = None
    takes_key: bool = False
    same: tuple[str, ...] = ()
    repeats: bool = False
    think_first: bool = False
    carries: bool = False
    read_only: bool = False
    idempotent: bool = False
    needs_approval: bool | Predicate = False
    timeout: float | None = None
    returns: Json | None = None

    def __post_init__(self) -> None:
        if not TOOL_NAME.fullmatch(self.name):
            raise ValueError(f"tool name {self.name!r}: use 1 to 64 letters, digits, '_' or '-'")
        if self.timeout is not None and not self.timeout > 0:
            raise ValueError(f"tool {self.name}: timeout={self.timeout!r}: use seconds above 0")
        if callable(self.needs_approval):
            check_function(f"tool {self.name}: needs_approval", self.needs_approval, "arguments")
        if self.parameters.get("type") != "object":
            raise ValueError(f"tool {self.name}: parameters must be a JSON schema of type object")
        unknown = set(self.same) - set(self.parameters.get("properties", {}))
        if unknown:
            raise ValueError(f"tool {self.name}: same={sorted(unknown)}: no such parameters")

    def __repr__(self) -> str:
        return f"<Tool {self.name}>"

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the tool's function directly, as if it had no decorator."""
        return self.get_function()(*args, **kwargs)

    def get_function(self) -> Callable[P, R]:
        """The function. Raises TypeError if there is none."""
        if self.function is None:
            raise TypeError(f"tool {self.name} has no function; pass Tool(..., function=...)")
        return self.function

    @property
    def thought_in(self) -> str:
        """The argument in which a call carries its thought. The tool has no other of this name."""
        name, taken = CARRIED, self.parameters.get("properties", {})
        while name in taken:
            following = f"kit_{name}"
            if self.carries and following not in taken:  # as it is shown, the tool has it already
                return name
            name = following
        return name

    @property
    def may_repeat(self) -> bool:
        """Is it as good to run it twice as to run it once, whatever happened the first time?"""
        return self.read_only or self.idempotent

    @property
    def records_start(self) -> bool:
        """Is the start of a call recorded? A call with a start but no result may have happened."""
        return self.takes_key or not self.may_repeat


class ToolOptions(TypedDict, total=False):
    """The options of `@tool(...)`. `name` and `description` replace those of the function."""

    name: str
    description: str
    think_first: bool
    read_only: bool
    idempotent: bool
    same: tuple[str, ...]
    repeats: bool
    needs_approval: bool | Predicate
    timeout: float | None


class Decorator(Protocol):
    """What `@tool(...)` is: it makes a Tool of any function, and keeps its types."""

    def __call__(self, function: Callable[P, R], /) -> Tool[P, R]: ...


@overload
def tool(function: Callable[P, R], /, **options: Unpack[ToolOptions]) -> Tool[P, R]: ...
@overload
def tool(**options: Unpack[ToolOptions]) -> Decorator: ...
def tool(function: Callable[..., Any] | None = None, /, **options: Unpack[ToolOptions]) -> Any:
    """Make a Tool from a typed function, sync or async: `@tool`, or `@tool(think_first=True)` and
    the like.

    The description is the docstring. If there is none, you get a warning. A parameter is described
    by its line under `Args:` or by `Annotated[int, "age in days"]`. Raises TypeError if a parameter
    has no type, or a type that has no schema.
    """

    if function is None:  # `@tool(...)`: Python calls the result with the function
        return partial(tool, **options)
    _refuse_agent(function)
    name = options.get("name") or name_of(function)
    text, notes = read_docstring(_doc_of(function))
    takes_key = KEY in inspect.signature(function).parameters
    model, schema = arguments_model(name, function, notes)
    if inspect.isasyncgenfunction(function) or inspect.isgeneratorfunction(function):
        raise TypeError(f"tool {name}: a generator does nothing by itself; return a result")
    description = options.get("description") or text
    if not description:
        warn(f"tool {name}: no docstring, so a model knows nothing of it but its name")
    empty = {"type": "object", "properties": {}, "required": []}
    own = {
        "name": name,
        "description": description,
        "parameters": empty | schema,
        "returns": return_schema(function),
    }
    rest: Any = options | own
    return Tool(function=function, arguments_model=model, takes_key=takes_key, **rest)


def _refuse_agent(function: Any) -> None:
    owner = getattr(function, "__self__", function)
    if hasattr(owner, "next_step") and hasattr(owner, "made_of"):
        raise TypeError(
            "an agent becomes a tool by a function: "
            "@tool def ask(question: str) -> str: return agent.run(question).answer"
        )


def _doc_of(function: Any) -> str:
    """A function's docstring. A callable object may have it on its class or on `__call__`."""
    plain = strip_partial(function)
    text = inspect.getdoc(plain)
    if not text and not inspect.isroutine(plain):
        text = inspect.getdoc(type(plain).__call__)
    return text or ""


def index(tools: Iterable[Tool]) -> dict[str, Tool]:
    """Tools by name. Raises ValueError if two tools have the same name, or one has a reserved name.
    Raises TypeError if something isn't a Tool or has no function.
    """
    if callable(tools):
        raise TypeError(f"tools={tools!r}: pass a list of tools")
    by_name: dict[str, Tool] = {}
    for item in tools:
        if not isinstance(item, Tool):
            advice = "decorate the function with @tool, or pass tool(desk.add) for a method"
            raise TypeError(f"{item!r} is not a Tool; {advice}")
        if item.name == THINK_NAME:
            raise ValueError(f"the tool name {THINK_NAME!r} is reserved for the kit's own tool")
        if item.name in by_name:
            raise ValueError(f"two tools are named {item.name!r}; rename one with @tool(name=...)")
        item.get_function()  # raise now if there is none, not when the model calls it
        by_name[item.name] = item
    return by_name


def describe_tool(tool: Tool) -> Json:
    """A tool as listed in a transcript's first line. Unset fields are left out."""
    described: Json = {}
    for name in ("name", "description", "parameters", *GUARDS):
        value = getattr(tool, name)
        if value:
            described[name] = value
    if tool.needs_approval:
        is_always = not callable(tool.needs_approval)
        described["needs_approval"] = "always" if is_always else "by its arguments"
    return described


def digest_call(tool: Tool, fitted: Fitted) -> str:
    """A digest that identifies a call: the tool, and the values of the arguments in `Tool.same` as
    the function gets them. Generated defaults don't count.
    """
    import hashlib  # late, because it loads OpenSSL

    values = dump(fitted, without_made_defaults)
    names = tool.same or tuple(values)
    what = {name: values.get(name) for name in names}
    return hashlib.sha256(canonical([tool.name, what]).encode()).hexdigest()


def fit(tools: Mapping[str, Tool], request: ToolCall) -> Fitted:
    """A call's arguments, validated by its tool. They're a copy, so a function can't change what
    the model wrote. Raises ModelMistake if the call can't run.
    """
    tool = tools.get(request.name)
    if tool is None:
        known = ", ".join(tools) or "none"
        raise ModelMistake(f"there is no tool {request.name!r}. Tools: {known}.")
    if isinstance(request.arguments, str):
        raise ModelMistake(f"the arguments of {tool.name} are not a JSON object. Send one: {{}}.")

    arguments = deepcopy(request.arguments)
    arguments.pop(tool.thought_in, None)  # for the kit
    places: list[Place] = []
    try:
        if tool.arguments_model is not None:
            return tool.arguments_model.model_validate(arguments)
        problem, places = find_misfits(arguments, tool.parameters)
        problem = problem or _unbound(tool, arguments)
    except pydantic.ValidationError as error:
        problem = problems(error)
        places = [item["loc"] for item in error.errors()]
    except Exception as error:  # from a validator in the tool's own types
        problem = show_error(error)
    if not problem:
        return arguments
    text = f"bad arguments for {tool.name}: {problem}. Correct them and call again."
    raise ModelMistake(text, places)


def fit_or_repair(tools: Mapping[str, Tool], request: ToolCall) -> tuple[ToolCall, Fitted]:
    """`fit`, and the call with the validated arguments: the model's own or, if these are invalid,
    repaired ones (`schema.repair`). Raises ModelMistake about the model's own arguments.
    """
    try:
        return request, fit(tools, request)
    except ModelMistake as mistake:
        arguments = deepcopy(request.arguments)
        if not repair(arguments, mistake.places):
            raise
        repaired = replace(request, arguments=arguments)
        try:
            return repaired, fit(tools, repaired)
        except ModelMistake:
            raise mistake from None


def _unbound(tool: Tool, arguments: Json) -> str:
    """Why a function declared with a schema can't be called with these arguments; empty if it
    can.
    """
    filled_in = {KEY: ""} if tool.takes_key else {}
    try:
        inspect.signature(tool.get_function()).bind(**arguments, **filled_in)
    except TypeError as error:
        return str(error)
    return ""


def bind_call(
    tools: Mapping[str, Tool], request: ToolCall, key: str, fitted: Fitted | None = None
) -> tuple[Function, float | None]:
    """The call as a function without arguments, and its timeout in seconds. If the call can't be
    made, that function raises ModelMistake. `key`: the idempotency key, if the tool takes one.
    `fitted`: the arguments, if they're validated.
    """
    if fitted is None:
        try:
            fitted = fit(tools, request)
        except ModelMistake as mistake:
            return partial(_raise, mistake), None
    arguments = fitted
    if isinstance(arguments, pydantic.BaseModel):
        arguments = values_by_name(arguments)
    tool = tools[request.name]
    if tool.takes_key:
        arguments = {**arguments, KEY: key}
    return partial(tool.get_function(), **arguments), tool.timeout


def _raise(mistake: ModelMistake) -> NoReturn:
    raise mistake


def as_result(
    tool: Tool | None, request: ToolCall, settled: Settled, max_chars: float
) -> ToolResult:
    """A call's result, as the message for the model, cut after `max_chars` characters."""
    value, error = settled
    if error is None:
        unreadable = find_unreadable(value)
        if unreadable:
            return _as_unreadable(tool, request, unreadable)
        return ToolResult(request.id, request.name, _cut(_as_text(value), max_chars))
    result = ToolResult(
        request.id, request.name, _cut(f"error: {_problem(error)}", max_chars), is_error=True
    )
    if isinstance(error, ModelMistake):
        return replace(result, refused="invalid")
    changes_something = tool is not None and tool.records_start
    if not changes_something or isinstance(error, NothingDone):
        return result
    return replace(result, content=f"{result.content}\n{MAY_HAVE_HAPPENED}", in_doubt=True)


def _as_unreadable(tool: Tool | None, request: ToolCall, what: str) -> ToolResult:
    """A look-up without a readable result has failed. A tool with side effects hasn't: it ran, and
    a model that reads "error" would repeat it.
    """
    problem = f"the tool returned {what}; a model reads text, so return text or JSON"
    if tool is not None and tool.read_only:
        return ToolResult(request.id, request.name, f"error: {problem}.", is_error=True)
    return ToolResult(request.id, request.name, f"(done; {problem})")


def _problem(error: BaseException) -> str:
    if isinstance(error, TookTooLong):
        return "no result in time."
    if isinstance(error, NoResult):
        return read_error(error) or "no result."
    if isinstance(error, EXPECTED):
        return read_error(error) or "nothing was done."
    return f"{type(error).__name__}: {read_error(error)}".rstrip(": ")


def _as_text(value: Any) -> str:
    """A result as text. This mustn't fail, because the call has already happened."""
    if type(value) is str:
        return value or "(empty)"
    try:
        return pydantic_core.to_json(value).decode()
    except Exception:
        pass  # not JSON
    try:
        return f"(done; the result isn't JSON, so it's shown as text) {value}"
    except Exception as error:
        return f"(done; the result has no text: {show_error(error)})"


def find_unreadable(value: Any) -> str:
    """What a model can't read in a result, such as an image; empty if it can read everything."""
    if hasattr(type(value), "_repr_png_"):  # notebooks use this for images and figures
        return f"an image ({type(value).__name__})"
    if is_a(value, bytes | bytearray | memoryview):
        try:
            bytes(value).decode()
        except UnicodeDecodeError:
            return f"{len(bytes(value)):,} bytes that aren't text"
    try:
        unread = _find_unread(value)
    except Exception:  # it is nested too deeply, or holds itself: `_as_text` says so
        return ""
    if unread:
        return f"an object of type {unread}, which was not read"
    return ""


def _find_unread(value: Any) -> str:
    """The type of an iterator or an awaitable, at any depth; empty if there is none. Reading it
    might never end, and would run code of the tool after its call.
    """
    if type(value) in SCALARS:
        return ""
    if is_a(value, (Iterator, AsyncIterator, Awaitable)):
        return type(value).__name__
    for part in _parts_of(value):
        unread = _find_unread(part)
        if unread:
            return unread
    return ""


def _parts_of(value: Any) -> Iterable[Any]:
    """The values inside of one that is written as JSON."""
    if is_a(value, dict):
        return list(dict.values(value))
    if is_a(value, (list, tuple, set, frozenset, deque)):
        return list(value)
    if is_a(value, pydantic.BaseModel):
        return list(vars(value).values())
    if is_dataclass(type(value)):
        return [getattr(value, field.name) for field in fields(value)]
    return ()


def _cut(text: str, max_chars: float) -> str:
    text = well_formed(text)  # `os.listdir` may return lone surrogates
    if len(text) <= max_chars:
        return text
    left_out = len(text) - int(max_chars)
    return f"{text[: int(max_chars)]}\n[cut: {left_out:,} of {len(text):,} characters left out]"


def signature(call: ToolCall) -> str:
    """A call on one line, as in Python: `lookup_order(order_id="ORD-001")`."""
    name = _quote_name(call.name)
    if isinstance(call.arguments, str):
        return f"{name}({call.arguments})"
    shown = dict(call.arguments)
    if call.name != THINK_NAME:
        shown.pop(call.thought_in, None)
    arguments = ", ".join(f"{_quote_name(key)}={json_text(value)}" for key, value in shown.items())
    return f"{name}({arguments})"


def _quote_name(name: str) -> str:
    """A name: as it is if it's a normal one, otherwise as JSON. A model may write anything."""
    if TOOL_NAME.fullmatch(name):
        return name
    return json_text(name)

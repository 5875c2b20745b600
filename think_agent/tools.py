"""A tool: a name, a description, a JSON schema and a Python function.

Rule 1: `@tool` reads the signature once, at declaration (schema.py).
Rule 2: arguments are validated before the function is called, by pydantic: `"13"` becomes 13 where
        an int is asked, nonsense becomes an error that names the field and what was expected.
Rule 3: the model's mistakes and a tool's exceptions come back as an error *result* (`error: …`, no
        traceback), for the model to read. KeyboardInterrupt and Misuse of the kit are raised.

The edge: whether a call may run at all is decided by policies, before it gets here.
"""

import inspect
import re
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypedDict, Unpack, overload

import pydantic
import pydantic_core

from .messages import Json, ToolCall, ToolResult, json_text, whole_characters
from .schema import KEY, arguments_model, inline_refs, read_docstring
from .waiting import Misuse, await_, wait

TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")  # what every provider accepts
MAX_RESULT_CHARS = 20_000


class ModelMistake(Exception):
    """The model called a tool wrongly, or missed a form. The text is what it gets to read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """Something a model can call.

    `parameters` is a JSON schema of type object. `function` takes the arguments by keyword and may
    be async; without one the tool can be shown to a model but not called. `arguments_model`
    validates before the call; a tool made from a ready schema has none, and its function gets the
    arguments as the model sent them.

    - `think_first`: it runs only behind a thought (`policies.gate`).
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
        if self.timeout is not None and not _is_seconds(self.timeout):
            raise ValueError(f"tool {self.name}: timeout={self.timeout!r}: use seconds above 0")
        if self.parameters.get("type") != "object":
            raise ValueError(f"tool {self.name}: parameters must be a JSON schema of type object")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function behind the tool directly, as if it had never been decorated."""
        return self._callable()(*args, **kwargs)

    def _callable(self) -> Callable[..., Any]:
        if self.function is None:
            raise TypeError(
                f"tool {self.name} has no function to call; pass Tool(..., function=...)"
            )
        return self.function


def _is_seconds(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and value > 0


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

    if unknown := options.keys() - ToolOptions.__annotations__.keys():  # a guard misspelled is none
        known = ", ".join(ToolOptions.__annotations__)
        raise TypeError(f"@tool: unknown {', '.join(sorted(unknown))}; use {known}")

    is_bare = function is not None  # `@tool` and not `@tool(...)`

    def make(function: Callable[..., Any]) -> Tool:
        name = options.get("name") or function.__name__
        text, notes = read_docstring(inspect.getdoc(function) or "")
        takes_key = KEY in inspect.signature(function).parameters
        model = arguments_model(name, function, notes)
        schema = inline_refs(model.model_json_schema())
        description = options.get("description") or text
        if not description:
            said = f"tool {name}: no docstring, so a model knows nothing of it but its name"
            warnings.warn(said, stacklevel=3 if is_bare else 2)
        return Tool(
            name=name,
            description=description,
            parameters={
                "type": "object",
                "properties": schema.get("properties", {}),
                "required": schema.get("required", []),
                "additionalProperties": False,
            },
            function=function,
            arguments_model=model,
            takes_key=takes_key,
            think_first=options.get("think_first", False),
            idempotent=options.get("idempotent", False),
            needs_approval=options.get("needs_approval", False),
            timeout=options.get("timeout"),
        )

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
            raise ValueError(
                f"the tool name {reserved!r} is reserved for the think tool of the kit"
            )
        if item.name in by_name:
            raise ValueError(f"two tools are named {item.name!r}; rename one with @tool(name=...)")
        item._callable()  # one that cannot be called is refused here, not when the model tries
        by_name[item.name] = item
    return by_name


def call(
    tools: Mapping[str, Tool],
    request: ToolCall,
    *,
    key: str = "",
    max_chars: int = MAX_RESULT_CHARS,
) -> ToolResult:
    """Perform one call. An async function is run to its end here. `key` is for a tool that takes an
    idempotency key.
    """
    try:
        function = _prepare(tools, request, key)
        value = wait(function, tools[request.name].timeout)
    except Misuse:
        raise
    except Exception as error:  # whatever a tool raises is an answer for the model (rule 3)
        if _hides_ctrl_c(error):
            raise KeyboardInterrupt from error
        return _failure(request, error, max_chars)
    return _success(request, value, max_chars)


async def acall(
    tools: Mapping[str, Tool],
    request: ToolCall,
    *,
    key: str = "",
    max_chars: int = MAX_RESULT_CHARS,
) -> ToolResult:
    """`call` without blocking: a sync function runs in a thread, an async one on the loop."""
    try:
        function = _prepare(tools, request, key)
        wanted = tools[request.name]
        is_async = inspect.iscoroutinefunction(wanted.function)
        value = await await_(function, wanted.timeout, is_async=is_async)
        if isinstance(value, StopIteration):
            raise value
    except Misuse:
        raise
    except Exception as error:  # as in `call`
        return _failure(request, error, max_chars)
    return _success(request, value, max_chars)


def _hides_ctrl_c(error: BaseException | None) -> bool:
    """Did it come up while the tool cleaned up after Ctrl-C? Then a person wants to stop."""
    while error and not isinstance(error, KeyboardInterrupt):
        error = error.__context__
    return error is not None


def mistake(tools: Mapping[str, Tool], request: ToolCall) -> str | None:
    """What is wrong with a call, in words for the model; None when it can be run."""
    try:
        _checked(tools, request)
    except ModelMistake as error:
        return str(error)
    return None


def as_received(tools: Mapping[str, Tool], request: ToolCall) -> Json | None:
    """The arguments as the function will get them: validated, `"580"` an int where one is asked;
    None for a call that cannot be run.
    """
    try:
        return _checked(tools, request)
    except ModelMistake:
        return None


def _prepare(tools: Mapping[str, Tool], request: ToolCall, key: str) -> Callable[[], Any]:
    """The call, ready to be made, or ModelMistake."""
    arguments = _checked(tools, request)
    tool = tools[request.name]
    if tool.takes_key:
        arguments = {**arguments, KEY: key}
    function = tool._callable()
    return lambda: function(**arguments)


def _checked(tools: Mapping[str, Tool], request: ToolCall) -> Json:
    """The arguments of a call, as the function gets them, or ModelMistake."""
    tool = tools.get(request.name)
    if tool is None:
        raise ModelMistake(
            f"there is no tool {request.name!r}. Tools: {', '.join(tools) or 'none'}."
        )
    if not isinstance(request.arguments, dict):
        raise ModelMistake(
            f"the arguments of {tool.name} are not a JSON object. Send one, such as {{}}."
        )
    if tool.arguments_model is None:
        return request.arguments
    return _validated(tool.arguments_model, request)


def _validated(model: "type[pydantic.BaseModel]", request: ToolCall) -> Json:
    try:
        checked = model.model_validate(request.arguments)
    except pydantic.ValidationError as error:
        errors = error.errors(include_url=False, include_context=False)
        problems = "; ".join(_problem(item) for item in errors)
        raise ModelMistake(
            f"bad arguments for {request.name}: {problems}. Mend them and call again."
        ) from None
    # Only what was sent: a default that is left out stays the function's own.
    return {
        model.model_fields[name].alias or name: getattr(checked, name)
        for name in checked.model_fields_set
    }


def _problem(item: pydantic_core.ErrorDetails) -> str:
    where = ".".join(str(part) for part in item["loc"]) or "arguments"
    match item["type"]:
        case "missing":
            return f"{where}: this field is required"
        case "extra_forbidden":
            return f"{where}: there is no such field"
    return f"{where}: {item['msg']}, got {_short(item['input'])}"


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def _success(request: ToolCall, value: Any, max_chars: int) -> ToolResult:
    try:
        text = value if isinstance(value, str) else _as_json(value)
    except Exception as error:  # of a value's own methods, too
        unfit = TypeError(f"the result cannot be written as JSON: {error}")
        return _failure(request, unfit, max_chars)
    return ToolResult(request.id, request.name, _cut(text or "(empty)", max_chars))


def _as_json(value: Any) -> str:
    """As pydantic writes it; but it refuses half a character, which `_cut` replaces."""
    try:
        return pydantic_core.to_json(value).decode()
    except pydantic_core.PydanticSerializationError as error:
        if "surrogates not allowed" not in str(error):
            raise
        return json_text(pydantic_core.to_jsonable_python(value))


def _failure(request: ToolCall, error: Exception, max_chars: int) -> ToolResult:
    match error:
        case ModelMistake():
            said = str(error)
        case TimeoutError() if not _words(error):
            said = "no result in time; it may have happened all the same. Check before repeating."
        case _:
            said = f"{type(error).__name__}: {_words(error)}".rstrip(": ")
    return ToolResult(request.id, request.name, _cut(f"error: {said}", max_chars), is_error=True)


def _words(error: Exception) -> str:
    try:
        return str(error)
    except Exception:  # of its own __str__
        return ""


def _cut(text: str, max_chars: int) -> str:
    text = whole_characters(text)  # `os.listdir` may give halves
    if len(text) <= max_chars:
        return text
    left_out = len(text) - max_chars
    return f"{text[:max_chars]}\n[cut: {left_out:,} of {len(text):,} characters left out]"

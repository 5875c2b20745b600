"""The tools of an MCP server, under the rules of this kit.

Rule 1: a server's claims are ignored unless you call it `trusted`. Without them, the protocol's
        defaults apply: a tool changes something, may destroy something, and mustn't run twice. Your
        own declaration about a tool always wins.
Rule 2: a tool that changes something needs a thought. It also needs a person's yes, unless a
        trusted server says that it isn't destructive.
Rule 3: a call without a result may have happened, whether the server died, returned an error or
        took too long. If nothing was sent, the result says so.
Rule 4: one task opens, keeps and closes a session, on the event loop of `waiting.py`. So sync and
        async runs can share it, even at the same time.
Rule 5: the model sees the tools as they were when the server was opened. A later change is a
        warning. A schema's keys keep their order, for prompt caches.

Limitations: tools only; results mention images and sounds but don't contain them.
"""

import asyncio
import json
import logging
import math
import re
import shlex
import warnings
from collections.abc import Awaitable, Callable, Iterable, Mapping
from concurrent.futures import Future
from contextlib import AsyncExitStack, suppress
from pathlib import PurePath
from typing import Any

from jsonschema import Draft202012Validator, SchemaError

from ..installing import install_command

try:
    import anyio
    from mcp import Client, MCPError, StdioServerParameters
    from mcp import types as wire
    from mcp.shared.dispatcher import ProgressFnT as OnProgress
    from mcp.types.methods import validate_server_result
    from mcp.types.version import MODERN_PROTOCOL_VERSIONS
except ImportError as missing:
    advice = install_command("think-agent[mcp]")
    raise ImportError(f"MCP servers need an SDK; run: {advice}") from missing

from pydantic import TypeAdapter, ValidationError

from .. import __version__
from ..messages import THINK_NAME, Json
from ..providers.address import mask_address, secrets_in
from ..schema import transform_schema
from ..text import canonical, json_text, sanitize, shorten
from ..tools import NoResult, NothingDone, Tool, ToolOptions
from ..waiting import background_loop
from .mcp_transports import ATTEMPT, Attempt, Item, Link, connect_http, run_command, screen_messages

ME = wire.Implementation(name="think-agent", version=__version__)
NO_HINTS = wire.ToolAnnotations()
RESULT: TypeAdapter[wire.CallToolResult | wire.InputRequiredResult] = TypeAdapter(
    wire.CallToolResult | wire.InputRequiredResult
)
MOST_PAGES = 100  # in a list of tools
MOST_PARTS = 10_000  # in a schema, with its references resolved
LONGEST_LINE = 500  # characters in an error
CLOSING = 10.0  # seconds for a server to close
REFERENCE = re.compile(r'"\$(ref|dynamicRef|recursiveRef)": ')
LEFT_OUT = ("title", "$schema", "definitions")  # in a schema; a model doesn't need these

# The SDK logs a server's mistakes with tracebacks. A program that configures logging gets them.
# Without a handler, Python would print them. ("client" is also one of the SDK's loggers.)
for logger in ("mcp", "client"):
    logging.getLogger(logger).addHandler(logging.NullHandler())


class Misuse(ValueError):
    """The arguments of a Server don't match the server."""


class Server:
    """An MCP server, open during a `with` or `async with` block, which yields its tools.

    - `address`: a command line, a list of its words, a URL, or anything that `mcp.Client` accepts:
      a `StdioServerParameters`, a transport, or a server in this process
    - `trusted`: believe what it says about its tools
    - `only`: the names of the tools to use; default: all
    - `prefix`: added to each name, so that two servers can have tools with the same name
    - `declared`: what you know about a tool, by its name: `{"move": {"idempotent": True}}`
    - `timeout`: for each call, in seconds; None for no limit
    - `start_timeout`: for starting and listing the tools, in seconds
    - `env`: variables for a command. From this process it inherits only HOME, PATH and the like
    - `headers`: for a URL, such as `{"Authorization": "Bearer …"}`
    - `shows_log`: a command's stderr goes to this process's stderr, instead of into errors
    - `on_change`: called when the server says that its tools have changed, instead of a warning

    A tool that can't be used is left out, with a warning. Raises ConnectionError if the server
    doesn't start, and ValueError if a tool that you name is missing or can't be used.
    """

    def __init__(
        self,
        address: Any,
        *,
        trusted: bool = False,
        only: Iterable[str] | None = None,
        prefix: str = "",
        declared: Mapping[str, ToolOptions] | None = None,
        timeout: float | None = 60.0,
        start_timeout: float = 60.0,
        env: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        shows_log: bool = False,
        on_change: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        if isinstance(only, str):
            raise TypeError(f"only={only!r}: pass a list of names")
        self._address = address
        self._words = _words_of(address)
        self._url = address if isinstance(address, str) and not self._words else ""
        if env and not self._words:
            raise TypeError("env= is for a command; for a URL, pass headers=")
        if headers and not self._url:
            raise TypeError("headers= is for a URL; for a command, pass env=")
        self._env = {**_variables_of(address), **(env or {})}
        self._headers = dict(headers or {})
        self._trusted = trusted
        self._only = None if only is None else set(only)
        self._prefix = prefix
        self._declared = _check_options(declared or {})
        self._timeout = timeout
        self._start_timeout = start_timeout
        self.name = _find_shown_name(address, self._words)  # without any key in the address
        self.listed: list[wire.Tool] = []  # as the server lists them, except malformed ones
        self.tools: dict[str, Tool] = {}  # by the server's names
        self._shows_log = shows_log
        self._on_change = on_change
        self._left_out: dict[str, str] = {}  # tools that can't be used, and why
        self._link = Link(ended="it is not open")
        self._is_open = False

    def __enter__(self) -> list[Tool]:
        with suppress(RuntimeError):  # no event loop in this thread
            if asyncio.get_running_loop() is background_loop():
                raise TypeError(f"{self.name}: in an async tool, use `async with`")
        opened = self._open()
        try:
            return opened.result()
        except BaseException:  # such as Ctrl-C
            self._loop.call_soon_threadsafe(self._give_up)
            self._held.result()
            raise

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._held.result()

    async def __aenter__(self) -> list[Tool]:
        opened = self._open()
        try:
            return await asyncio.shield(asyncio.wrap_future(opened))
        except BaseException:
            self._loop.call_soon_threadsafe(self._give_up)
            await asyncio.shield(asyncio.wrap_future(self._held))
            raise

    async def __aexit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        # Shielded: closing finishes even if the waiting task is cancelled.
        await asyncio.shield(asyncio.wrap_future(self._held))

    async def call(
        self, name: str, arguments: Json, on_progress: OnProgress | None = None
    ) -> wire.CallToolResult:
        """Call a tool by the server's name for it. The result may be a tool error.

        `on_progress(progress, total, message)` runs on the event loop of `waiting.py`. Raises
        NothingDone if nothing was sent, and NoResult if there is no result, in which case the call
        may have happened.
        """
        if self._link.ended:
            raise NothingDone("nothing was sent: the server is gone.")
        if self._loop is not background_loop():  # a fork has the object, but not the connection
            raise NothingDone("nothing was sent: the server was opened in another process")
        work = self._ask(name, arguments, on_progress)
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))

    @property
    def session(self) -> Client:
        """The SDK's client of the open session, for the server's other features. Use it on the
        event loop of `waiting.py`.
        """
        return self._client

    async def list_again(self) -> None:
        """Refresh `tools` and `listed` after a change. (On the event loop of `waiting.py`.)"""
        self._left_out = {}
        self.listed = await self._list_tools()
        self._make_tools()

    # --- the session (rule 4) ---

    def _open(self) -> "Future[list[Tool]]":
        if self._is_open:
            raise RuntimeError(f"{self.name}: it is open already; make a Server for each use")
        self._is_open = True
        self._loop = background_loop()
        self._stop = asyncio.Event()
        self._changed = asyncio.Event()
        self._scope: anyio.CancelScope | None = None
        opened: Future[list[Tool]] = Future()
        self._held = asyncio.run_coroutine_threadsafe(self._hold(opened), self._loop)
        return opened

    def _give_up(self) -> None:
        """Stop opening. (This runs on the loop.)"""
        self._stop.set()
        if self._scope is not None:
            self._scope.cancel()

    async def _hold(self, opened: "Future[list[Tool]]") -> None:
        """Open the session, keep it until `_stop` is set, and close it."""
        self._link = link = Link(shows_log=self._shows_log)
        try:
            with anyio.CancelScope() as self._scope:
                await self._keep(opened, self._scope)
            if not opened.done():
                raise TimeoutError
        except BaseException as error:
            problem = _first(error)
            if self._stop.is_set():  # the opener has given up
                opened.cancel()
            elif not opened.done():
                opened.set_exception(self._not_started(problem))
            link.end(str(problem))
        finally:
            link.end("it was closed")
            self._is_open = False

    async def _keep(self, opened: "Future[list[Tool]]", scope: anyio.CancelScope) -> None:
        scope.deadline = anyio.current_time() + self._start_timeout
        async with AsyncExitStack() as stack:
            self._client = Client(
                self._transport(), client_info=ME, cache=None, message_handler=self._hear
            )
            await stack.enter_async_context(self._client)
            self._left_out = {}
            self.listed = await self._list_tools()
            tools = self._make_tools()
            watching = await stack.enter_async_context(anyio.create_task_group())
            watching.start_soon(self._watch)
            scope.deadline = math.inf
            if not self._stop.is_set():
                opened.set_result(tools)

            await self._stop.wait()
            scope.deadline = anyio.current_time() + CLOSING
            watching.cancel_scope.cancel()

    def _transport(self) -> Any:
        link = self._link
        if self._words:
            cwd = getattr(self._address, "cwd", None)
            way: Any = run_command(self._words, self._env, cwd, link)
        elif self._url:
            way = connect_http(self._url, self._headers)
        elif hasattr(self._address, "__aenter__"):
            way = self._address
        else:
            return self._address  # a server in this process
        return screen_messages(way, self._screen, link)

    def _not_started(self, problem: BaseException) -> BaseException:
        if isinstance(problem, Misuse):
            return problem
        text = _describe_error(problem)
        if isinstance(problem, TimeoutError):
            text = f"it did not answer in {self._start_timeout:g} seconds"
        elif isinstance(problem, FileNotFoundError):
            text = "there is no such command"
        elif self._is_closed_by(problem):
            text = self._link.ended
        log = self._link.log_text
        return ConnectionError(self._line(f"MCP server {self.name}: {text}{log and f': {log}'}"))

    def _is_closed_by(self, problem: BaseException) -> bool:
        """Is it an SDK error that only says that the connection is closed?"""
        is_closed = isinstance(problem, MCPError) and problem.code == wire.CONNECTION_CLOSED
        return is_closed and self._link.ended != ""

    def _line(self, text: str) -> str:
        """A text that quotes the server, as one line without keys."""
        return shorten(sanitize(self._secrets.sub("***", text)), LONGEST_LINE)

    @property
    def _secrets(self) -> re.Pattern[str]:
        given = (*self._words[1:], *self._env.values(), *self._headers.values())
        return secrets_in("", self._url, *given)

    # --- its tools ---

    async def _list_tools(self) -> list[wire.Tool]:
        listed: list[wire.Tool] = []
        cursor = None
        for _ in range(MOST_PAGES):
            page = await self._client.list_tools(cursor=cursor)
            listed += page.tools
            cursor = page.next_cursor
            if not cursor:
                return listed
        raise ValueError(f"its list of tools has no end: {MOST_PAGES} pages, and more")

    def _screen(self, item: Item) -> None:
        """Remove malformed tools from a list. The SDK would refuse the whole list for one of
        them.
        """
        result = getattr(getattr(item, "message", None), "result", None)
        tools = result.get("tools") if isinstance(result, dict) else None
        if not isinstance(result, dict) or not isinstance(tools, list):
            return
        version = self._client.protocol_version
        result["tools"] = well_formed = []
        for tool in tools:
            try:
                validate_server_result("tools/list", version, {**result, "tools": [tool]})
            except ValidationError as error:
                name = tool.get("name") if isinstance(tool, dict) else None
                self._left_out[str(name)] = _describe_error(error)
            else:
                well_formed.append(tool)

    def _make_tools(self) -> list[Tool]:
        names = {tool.name for tool in self.listed} | self._left_out.keys()
        named = self._declared.keys() | (self._only or set())
        if named - names:
            missing, known = sorted(named - names), sorted(names)
            raise Misuse(self._line(f"{self.name}: it has no tools {missing}; it has {known}"))
        wanted = names if self._only is None else self._only

        made: dict[str, Tool] = {}
        tools: dict[str, Tool] = {}
        seen: set[str] = set()
        for listed in self.listed:
            if listed.name not in wanted - seen:  # if two share a name, the first counts
                continue
            seen.add(listed.name)
            try:
                tool = self._make_tool(listed)
                _check_name(tool.name, made)
            except Exception as error:  # a schema may contain anything
                self._left_out[listed.name] = _describe_error(error)
            else:
                made[tool.name] = tool
                tools[listed.name] = tool
        for name, problem in self._left_out.items():
            text = f"{self.name}: tool {name} cannot be used: {problem}"
            if name in named:
                raise Misuse(self._line(text))
            if name in wanted:
                warnings.warn(self._line(f"{text}. It is left out."), stacklevel=2)
        self.tools = tools
        return list(made.values())

    def _make_tool(self, listed: wire.Tool) -> Tool:
        hints = NO_HINTS
        if self._trusted and listed.annotations is not None:
            hints = listed.annotations
        declared = self._declared.get(listed.name, {})
        read_only = declared.get("read_only", hints.read_only_hint is True)
        options: ToolOptions = {
            "name": re.sub(r"[^a-zA-Z0-9_-]", "_", self._prefix + listed.name),
            "description": listed.description or listed.title or listed.name,
            "read_only": read_only,
            "idempotent": not read_only and hints.idempotent_hint is True,
            "think_first": not read_only,  # rule 2
            "needs_approval": not read_only and hints.destructive_hint is not False,
            "timeout": self._timeout,
            **declared,
        }

        async def call_server(**arguments: Any) -> str:
            result = await self.call(listed.name, arguments)
            if result.is_error:  # rule 3
                raise NoResult(text_of(result) or "the server gives no reason.")
            return text_of(result)

        return Tool(parameters=_schema_of(listed), function=call_server, **options)

    async def _ask(
        self, name: str, arguments: Json, on_progress: OnProgress | None
    ) -> wire.CallToolResult:
        """Send a call and wait for its result. (Not with `Client.call_tool`, which raises if a
        result doesn't match the output schema, although the call has been made.)
        """
        attempt = Attempt(reached=not self._url)  # only the client for a URL knows this
        ATTEMPT.set(attempt)
        request = wire.CallToolRequest(
            params=wire.CallToolRequestParams(name=name, arguments=arguments)
        )
        try:
            session = self._client.session
            result = await session.send_request(request, RESULT, progress_callback=on_progress)
        except Exception as error:
            text = self._link.ended if self._is_closed_by(error) else _describe_error(error)
            problem = self._line(text)
            if not attempt.reached:
                raise NothingDone(f"nothing was sent: {problem}") from None
            raise NoResult(problem) from None
        if isinstance(result, wire.InputRequiredResult):
            raise NoResult("it asks for more input, which cannot be given here.")
        return result

    # --- its changes (rule 5) ---

    async def _hear(self, message: object) -> None:
        if isinstance(message, wire.ToolListChangedNotification):
            self._changed.set()

    async def _watch(self) -> None:
        """Warn when a tool has changed. A failure here mustn't end the session."""
        reported: set[str] = set()
        with suppress(Exception):
            async with AsyncExitStack() as stack:
                if self._client.protocol_version in MODERN_PROTOCOL_VERSIONS:
                    await self._subscribe(stack)
                while True:
                    await self._changed.wait()
                    self._changed.clear()
                    if self._on_change:
                        await self._on_change()
                        continue
                    now = {tool.name: tool for tool in await self._list_tools()}
                    for tool in self.listed:
                        change = _change_of(tool, now.get(tool.name))
                        if change and tool.name not in reported:
                            reported.add(tool.name)
                            self._report_change(tool.name, change)

    async def _subscribe(self, stack: AsyncExitStack) -> None:
        """Since 2026, a server reports changes only to clients that have subscribed."""
        capability = self._client.server_capabilities.tools
        if capability is not None and capability.list_changed:
            await stack.enter_async_context(self._client.listen(tools_list_changed=True))

    def _report_change(self, name: str, change: str) -> None:
        text = f"{self.name}: tool {name} has changed ({change}) since the server was opened"
        warnings.warn(self._line(f"{text}. The model still reads it as it was."), stacklevel=2)


def _words_of(address: Any) -> list[str]:
    """The words of a command; empty if `address` isn't a command."""
    if isinstance(address, StdioServerParameters):
        return [address.command, *address.args]
    if isinstance(address, list | tuple):
        words = [str(word) for word in address]
    elif isinstance(address, str) and not re.match(r"https?://", address, re.IGNORECASE):
        words = shlex.split(address)
    else:
        return []
    if not words:
        raise ValueError("an empty command: pass the command line of an MCP server, or its URL")
    return words


def _variables_of(address: Any) -> dict[str, str]:
    if isinstance(address, StdioServerParameters):
        return dict(address.env or {})
    return {}


def _find_shown_name(address: Any, words: list[str]) -> str:
    """The part of an address that's safe to show: a command's program, a URL's host."""
    if words:
        return PurePath(words[0]).name
    if isinstance(address, str):
        return mask_address(address)
    return str(getattr(address, "name", type(address).__name__))


def _check_options(declared: Mapping[str, ToolOptions]) -> Mapping[str, ToolOptions]:
    known = ToolOptions.__annotations__
    for name, options in declared.items():
        unknown = ", ".join(options.keys() - known.keys())
        if unknown:
            raise TypeError(
                f"declared={{{name!r}: …}}: no option {unknown}; use {', '.join(known)}"
            )
    return declared


def _check_name(name: str, made: Mapping[str, Tool]) -> None:
    if name == THINK_NAME:
        raise ValueError(f"{THINK_NAME!r} is the kit's own tool; use prefix=")
    if name in made:
        raise ValueError(f"another tool is named {name!r}, too; declare another name for it")


def _first(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _describe_error(error: BaseException) -> str:
    """The problem, on one line."""
    error = _first(error)
    if isinstance(error, ValidationError):
        found = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in found["loc"])
        return f"malformed: {where}: {found['msg']}"
    if isinstance(error, MCPError | ValueError):
        return str(error).partition("\n")[0]
    return f"{type(error).__name__}: {error}".partition("\n")[0]


def _schema_of(tool: wire.Tool) -> Json:
    """The schema of a tool's arguments, without references and in a fixed order (rule 5). Raises
    ValueError if it can't be used.
    """
    left = MOST_PARTS

    def tidy(part: Json) -> Json:
        nonlocal left
        left -= 1
        if left < 0:  # nested references can make it huge
            raise ValueError(f"its schema has more than {MOST_PARTS:,} parts")
        tidied = {key: value for key, value in part.items() if key not in LEFT_OUT}
        if "properties" in tidied:
            tidied["properties"] = _in_order(tidied["properties"], tidied.get("required", ()))
        return tidied

    # Servers build schemas from maps, which may be unordered.
    ordered = json.loads(canonical(tool.input_schema))
    try:
        schema = transform_schema(ordered, tidy, recursive={})
        Draft202012Validator.check_schema(schema)
        if REFERENCE.search(canonical(schema)):  # the validator would fetch it from the network
            raise LookupError
    except LookupError:
        raise ValueError("its schema refers to something that is not in it") from None
    except SchemaError as error:
        raise ValueError(f"its schema is not valid: {error.message}") from None
    except (AttributeError, TypeError, RecursionError):
        raise ValueError("its schema cannot be read") from None
    return schema


def _in_order(properties: Json, required: Iterable[str]) -> Json:
    """Required ones first, in the server's order: a model writes arguments in this order."""
    names = [name for name in required if name in properties]
    return {name: properties[name] for name in (*names, *properties)}


def _change_of(before: wire.Tool, now: wire.Tool | None) -> str:
    """What has changed in a tool; empty if nothing has."""
    if now is None:
        return "it is gone"
    fields = ("description", "input_schema", "annotations", "title")
    changed = [field for field in fields if getattr(before, field) != getattr(now, field)]
    return ", ".join(changed).replace("_", " ")


def text_of(result: wire.CallToolResult) -> str:
    """A whole result as text. Most servers repeat structured content as text."""
    texts = [_part_text(part) for part in result.content]
    if not texts and result.structured_content is not None:
        texts = [json_text(result.structured_content)]
    return "\n".join(texts)


def _part_text(part: wire.ContentBlock) -> str:
    match part:
        case wire.TextContent():
            return part.text
        case wire.ImageContent() | wire.AudioContent():
            return f"[{part.mime_type}, {len(part.data) * 3 // 4:,} bytes, not shown]"
        case wire.EmbeddedResource(resource=wire.TextResourceContents(text=text)):
            return text
        case wire.ResourceLink():
            return f"[{part.name}: {part.uri}, not read]"
    return f"[{part.resource.uri}, not shown]"

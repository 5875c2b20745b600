"""The tools of an MCP server, under the rules of this kit.

Rule 1: a server may say anything of its tools. Unless you call it `trusted`, its annotations count
        for nothing, and each tool is what the protocol takes it for without them: it changes
        something, it may destroy something, and it must not run twice.
Rule 2: so a call needs a thought (unless readOnlyHint), and a person's yes (unless readOnlyHint, or
        destructiveHint is false). idempotentHint is `idempotent`. What you declare of a tool wins.
Rule 3: a call that brought no result may have happened (`Tool.records_start`), whether the server
        died, said "error" or took too long. A command that died is not started again.
Rule 4: a session is opened and closed in one task, on the event loop of `waiting.py`. So sync and
        async runs use it alike, and several at a time.

Limitations: tools only, as they were when the server was opened. No resources, prompts, sampling or
elicitation. Images and sounds are named in a result, not shown.
"""

import asyncio
import re
import shlex
from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from contextlib import AsyncExitStack
from tempfile import TemporaryFile
from typing import IO, Any

from jsonschema import Draft202012Validator, SchemaError

try:
    from mcp import Client, StdioServerParameters, stdio_client
    from mcp import types as wire
except ImportError as missing:
    raise ImportError('MCP servers need an SDK; run: pip install "think-agent[mcp]"') from missing

from .. import __version__
from ..messages import Json
from ..schema import transformed
from ..text import json_text
from ..tools import NoResult, NothingDone, Tool, ToolOptions
from ..waiting import background_loop

ME = wire.Implementation(name="think-agent", version=__version__)
NO_HINTS = wire.ToolAnnotations()
LEFT_OUT = ("title", "$schema", "definitions")
TOO_LATE = "it did not answer in {} seconds"


class Server:
    """An MCP server, for as long as a `with` or an `async with` lasts. That gives its tools.

    - `address`: a command line, the words of one, a URL, or what else `mcp.Client` takes (such as a
      transport with headers of your own).
    - `trusted`: believe what it says of its tools.
    - `only`: the tools that you want, by their names; all if it is left out. `prefix` is put before
      each name, so that two servers may have tools of the same name.
    - `declared`: what you know of a tool, by its name: `{"move": {"idempotent": True}}`.
    - `timeout`: for each call, in seconds. `start_timeout`: until the tools are known.
    - `env`: variables for a command. Of yours, it sees no more than HOME, PATH and the like.

    Raises ConnectionError if it does not start, ValueError if a tool cannot be used.
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
    ) -> None:
        self._address = address
        self._command = _words(address)
        self._trusted = trusted
        self._only = None if only is None else set(only)
        self._prefix = prefix
        self._declared = declared or {}
        self._timeout = timeout
        self._start_timeout = start_timeout
        self._env = dict(env or {})
        self._client: Client | None = None  # while it is open

    def __enter__(self) -> list[Tool]:
        if asyncio._get_running_loop() is background_loop():  # it would wait for itself
            raise RuntimeError(f"{self._address}: in an async tool, use `async with`")
        opened = self._open()
        try:
            return opened.result()
        except BaseException:  # such as Ctrl-C
            self._held.cancel()
            raise

    async def __aenter__(self) -> list[Tool]:
        opened = self._open()
        try:
            return await asyncio.wrap_future(opened)
        except BaseException:
            self._held.cancel()
            raise

    def __exit__(self, *_: object) -> None:
        self._close().result()

    async def __aexit__(self, *_: object) -> None:
        await asyncio.wrap_future(self._close())

    def _open(self) -> "Future[list[Tool]]":
        if self._client is not None:
            raise RuntimeError(f"{self._address}: it is open already; make one Server for each use")
        opened: Future[list[Tool]] = Future()
        self._loop = background_loop()
        self._stop = asyncio.Event()
        self._held = asyncio.run_coroutine_threadsafe(self._hold(opened), self._loop)
        return opened

    def _close(self) -> "Future[None]":
        self._loop.call_soon_threadsafe(self._stop.set)
        return self._held

    async def _hold(self, opened: "Future[list[Tool]]") -> None:
        """Open the session and close it, in one task (rule 4)."""
        with TemporaryFile("w+", errors="replace") as log:  # what a command writes to stderr
            try:
                async with AsyncExitStack() as stack:
                    async with asyncio.timeout(self._start_timeout):
                        client = Client(self._transport(log), client_info=ME)
                        self._client = await stack.enter_async_context(client)
                        listed = await _listed(client)
                    opened.set_result(self._tools(listed))
                    await self._stop.wait()
            except BaseException as error:
                if not opened.done():
                    opened.set_exception(self._not_started(error, log))
                # Else it is gone: a call that was lost has said so, or says so now.
            finally:
                self._client = None

    def _transport(self, log: IO[str]) -> Any:
        if not self._command:
            return self._address
        command, *words = self._command
        started = StdioServerParameters(command=command, args=words, env=self._env)
        return stdio_client(started, errlog=log)  # type: ignore[arg-type]

    def _not_started(self, error: BaseException, log: IO[str]) -> BaseException:
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        if type(error) is ValueError or not isinstance(error, Exception):
            return error  # it says which tool cannot be used, or Ctrl-C
        text = TOO_LATE.format(self._start_timeout) if isinstance(error, TimeoutError) else error
        log.seek(0)
        line = " ".join(f"MCP server {self._address}: {text} {log.read()[-500:]}".split())
        return ConnectionError(line)

    def _tools(self, listed: list[wire.Tool]) -> list[Tool]:
        names = {tool.name for tool in listed}
        chosen = names if self._only is None else self._only
        unknown = (chosen | self._declared.keys()) - names
        if unknown:
            raise ValueError(f"{self._address}: no tools {sorted(unknown)}; it has {sorted(names)}")
        return [self._tool(tool) for tool in listed if tool.name in chosen]

    def _tool(self, tool: wire.Tool) -> Tool:
        hints = tool.annotations if self._trusted and tool.annotations else NO_HINTS
        changes = not hints.read_only_hint
        options: Any = {
            "name": re.sub(r"[^a-zA-Z0-9_-]", "_", self._prefix + tool.name),
            "description": tool.description or tool.title or tool.name,
            "read_only": not changes,
            "idempotent": bool(changes and hints.idempotent_hint),
            "think_first": changes,
            "needs_approval": changes and hints.destructive_hint is not False,
            "timeout": self._timeout,
        }

        async def call(**arguments: Any) -> str:
            asked = asyncio.run_coroutine_threadsafe(self._call(tool.name, arguments), self._loop)
            return await asyncio.wrap_future(asked)

        try:
            schema = transformed(tool.input_schema, _plain, recursive={})
            Draft202012Validator.check_schema(schema)
            options |= self._declared.get(tool.name, {})
            return Tool(parameters=schema, function=call, **options)
        except (ValueError, LookupError, SchemaError) as error:
            problem = str(error).partition("\n")[0]
            if isinstance(error, LookupError):
                problem = "its schema refers to something that is not in it"
            text = f"{self._address}: tool {tool.name}: {problem}; leave it out with only="
            raise ValueError(text) from error

    async def _call(self, name: str, arguments: Json) -> str:
        if self._client is None:
            raise NothingDone("nothing was sent: the server is gone.")
        try:
            result = await self._client.call_tool(name, arguments)
        except Exception as error:
            if self._command and getattr(error, "code", 0) == wire.CONNECTION_CLOSED:
                self._client = None
            raise NoResult(f"{type(error).__name__}: {error}") from error
        if result.is_error:
            raise NoResult(_text(result) or "the server gives no reason.")
        return _text(result)


def _words(address: Any) -> list[str]:
    """The words of a command line; empty if `address` is something else."""
    if not isinstance(address, str):
        return list(address) if isinstance(address, list | tuple) else []
    return [] if address.startswith(("http://", "https://")) else shlex.split(address)


async def _listed(client: Client) -> list[wire.Tool]:
    page = await client.list_tools()
    listed = page.tools
    while page.next_cursor:
        page = await client.list_tools(cursor=page.next_cursor)
        listed += page.tools
    return listed


def _plain(schema: Json) -> Json:
    """Without what only readers of the schema need. (Its order stays: prompt caches go by that.)"""
    return {key: value for key, value in schema.items() if key not in LEFT_OUT}


def _text(result: wire.CallToolResult) -> str:
    """All of a result as text. Most servers give structured content as text, too."""
    texts = [_part(part) for part in result.content]
    if not texts and result.structured_content is not None:
        texts = [json_text(result.structured_content)]
    return "\n".join(texts)


def _part(part: wire.ContentBlock) -> str:
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

"""Two ways to an MCP server, for the SDK's client: the pipes of a command, and HTTP.

Rule 1: a message has at most LARGEST_MESSAGE bytes. A command that writes a longer line, or many
        lines that aren't messages, is killed.
Rule 2: `Link.ended` says why no more messages can arrive. So a caller knows before sending that a
        message would be lost.
Rule 3: a broken HTTP connection fails only the request that used it. `Attempt` knows whether a
        request reached the server at all.
Rule 4: a command and its child processes form one process group. At the end its input is closed. If
        it's still running after two seconds it's terminated, and after two more it's killed.

Limitations: on Windows only the command itself is ended, not its child processes.
Source: the SDK's transports (mcp 2.3.0). They read a line of any length, and a broken connection
ends their session.
"""

import asyncio
import json
import os
import shutil
import signal
import sys
from asyncio.subprocess import PIPE, Process, SubprocessStreamProtocol
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import anyio
import httpx2
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.client.stdio import get_default_environment
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import SessionMessage
from mcp.types import INTERNAL_ERROR, jsonrpc_message_adapter

from ..providers.transport import make_client_arguments
from ..text import shorten

LARGEST_MESSAGE = 10 * 2**20  # bytes
TOO_LARGE = f"it sent a message of more than {LARGEST_MESSAGE >> 20} MB"
MOST_UNREADABLE = 1000  # lines in a row; many servers print a few, such as a banner
KEPT_LOG = 500  # bytes of a command's stderr
PATIENCE = 2.0  # seconds for each step of ending a command (rule 4)
CONNECT_TIMEOUT = 30.0  # seconds; a call's own timeout is set by its tool

Item = SessionMessage | Exception
# The streams that the SDK reads from and writes to.
Streams = tuple[MemoryObjectReceiveStream[Item], MemoryObjectSendStream[SessionMessage]]


@dataclass
class Link:
    """The state of the connection to a server.

    - `ended`: why no more messages can arrive; empty while they can
    - `log`: the end of a command's stderr
    - `shows_log`: its stderr goes to this process's stderr, and `log` stays empty
    """

    ended: str = ""
    log: bytes = b""
    shows_log: bool = False

    def end(self, reason: str) -> None:
        """No more messages can arrive. The first reason counts, since later ones follow from it."""
        if not self.ended:
            self.ended = reason

    @property
    def log_text(self) -> str:
        """The end of the log, on one line."""
        return shorten(self.log.decode(errors="replace"), KEPT_LOG)


@asynccontextmanager
async def screen_messages(
    transport: AbstractAsyncContextManager[Any], screen: Callable[[Item], None], link: Link
) -> AsyncGenerator[Streams]:
    """A transport whose messages first pass through `screen`, which may change them."""
    to_session, from_server = anyio.create_memory_object_stream[Item](0)

    async def pass_on(messages: MemoryObjectReceiveStream[Item]) -> None:
        with suppress(anyio.BrokenResourceError):  # the session is over
            async with messages, to_session:
                async for message in messages:
                    screen(message)
                    await to_session.send(message)
                if to_session.statistics().open_receive_streams:  # otherwise we closed it
                    link.end("the connection was closed")

    async with transport as (messages, to_server), anyio.create_task_group() as tasks:
        tasks.start_soon(pass_on, messages)
        try:
            yield from_server, to_server
        finally:
            tasks.cancel_scope.cancel()


# --- a command ---


class _Protocol(SubprocessStreamProtocol):
    def __init__(self) -> None:
        super().__init__(limit=LARGEST_MESSAGE, loop=asyncio.get_running_loop())  # rule 1
        self.exited = asyncio.Event()

    def process_exited(self) -> None:
        super().process_exited()
        self.exited.set()


class _Process(Process):
    """A process that reports its exit. (`Process.wait` also waits for its pipes.)"""

    def __init__(self, pipes: asyncio.SubprocessTransport, protocol: _Protocol) -> None:
        super().__init__(pipes, protocol, asyncio.get_running_loop())
        self.exited = protocol.exited


@asynccontextmanager
async def run_command(
    words: Sequence[str], env: Mapping[str, str], cwd: str | None, link: Link
) -> AsyncGenerator[Streams]:
    """Run a command that reads messages from its input and writes messages to its output.

    It gets the variables in `env`, and from this process only HOME, PATH and the like. Raises
    OSError if it can't be run.
    """
    environment = {**get_default_environment(), **env}
    # Windows needs a script's full name: npx is `npx.cmd`.
    program = shutil.which(words[0], path=environment.get("PATH")) or words[0]
    pipes, protocol = await asyncio.get_running_loop().subprocess_exec(
        _Protocol,
        program,
        *words[1:],
        stdin=PIPE,
        stdout=PIPE,
        stderr=None if link.shows_log else PIPE,
        env=environment,
        cwd=cwd,
        start_new_session=True,  # its own group (rule 4), which a terminal's Ctrl-C doesn't reach
    )
    process = _Process(pipes, protocol)
    log_is_read = anyio.Event()
    to_session, from_server = anyio.create_memory_object_stream[Item](0)
    to_server, from_session = anyio.create_memory_object_stream[SessionMessage](0)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_read_messages, process, to_session, link)
        tasks.start_soon(_read_log, process, link, log_is_read)
        tasks.start_soon(_write_messages, process, from_session, link)
        try:
            yield from_server, to_server
        finally:
            with anyio.CancelScope(shield=True):
                from_server.close()  # so the reader drains the pipe: a full pipe blocks a command
                await _stop_process(process)
                with anyio.move_on_after(PATIENCE / 4):
                    await log_is_read.wait()
            tasks.cancel_scope.cancel()
            pipes.close()  # another process may hold them open forever


async def _read_messages(
    process: _Process, messages: MemoryObjectSendStream[Item], link: Link
) -> None:
    assert process.stdout
    unreadable = 0
    with messages:
        while True:
            try:
                line = await process.stdout.readuntil(b"\n")
            except asyncio.IncompleteReadError:  # end of the stream
                await _note_exit(process, link)
                return
            except asyncio.LimitOverrunError:
                _abandon(process, link, TOO_LARGE)
                return
            if line.isspace():
                continue
            try:
                message = jsonrpc_message_adapter.validate_json(line, by_name=False)
            except ValueError:
                unreadable += 1
                link.log = link.log or line[:KEPT_LOG]  # it may show what the command is
                if unreadable == MOST_UNREADABLE:
                    _abandon(process, link, "it does not speak MCP")
                    return
                continue
            unreadable = 0
            with suppress(anyio.BrokenResourceError):  # the session is over
                await messages.send(SessionMessage(message))


async def _read_log(process: _Process, link: Link, is_read: anyio.Event) -> None:
    while process.stderr and (piece := await process.stderr.read(2**16)):
        link.log = (link.log + piece)[-KEPT_LOG:]
    is_read.set()


async def _write_messages(
    process: _Process, messages: MemoryObjectReceiveStream[SessionMessage], link: Link
) -> None:
    assert process.stdin
    with messages:
        async for item in messages:
            line = item.message.model_dump_json(by_alias=True, exclude_unset=True) + "\n"
            process.stdin.write(line.encode())
            try:
                await process.stdin.drain()
            except ConnectionError:
                _abandon(process, link, "it closed its input")
                return


async def _note_exit(process: _Process, link: Link) -> None:
    """A command's output has ended. Record why, if that's known soon."""
    if link.ended:
        return
    link.end("it closed its output")
    if not await _has_exited(process):
        return
    code = process.returncode or 0
    link.ended = f"it was killed by signal {-code}" if code < 0 else f"it exited with code {code}"


def _abandon(process: _Process, link: Link, reason: str) -> None:
    """Give up on a command. Its pipes then close, and with them the session."""
    link.end(reason)
    _kill(process)


async def _stop_process(process: _Process) -> None:
    """End a command and its child processes (rule 4)."""
    assert process.stdin
    process.stdin.close()
    if not await _has_exited(process):
        _terminate(process)
        await _has_exited(process)
    _kill(process)
    await _has_exited(process)


async def _has_exited(process: _Process) -> bool:
    """Does it exit within PATIENCE seconds?"""
    with anyio.move_on_after(PATIENCE):
        await process.exited.wait()
    return process.exited.is_set()


def _terminate(process: _Process) -> None:
    with suppress(ProcessLookupError, PermissionError):
        if sys.platform == "win32":
            process.terminate()
        else:
            os.killpg(process.pid, signal.SIGTERM)


def _kill(process: _Process) -> None:
    with suppress(ProcessLookupError, PermissionError):
        if sys.platform == "win32":
            process.kill()
        else:
            os.killpg(process.pid, signal.SIGKILL)


# --- HTTP ---


@dataclass
class Attempt:
    """A call in flight. `reached`: may one of its requests have reached the server?"""

    reached: bool


# This context's call. The SDK sends a message in the context of the task that wrote it.
ATTEMPT: ContextVar[Attempt | None] = ContextVar("ATTEMPT", default=None)


@asynccontextmanager
async def connect_http(url: str, headers: Mapping[str, str]) -> AsyncGenerator[Any]:
    """The SDK's HTTP transport, with a client that follows rules 1 and 3."""
    known = make_client_arguments(httpx2, url)
    client = _Client(
        # No compression: a short message could unpack to a huge one.
        headers={**headers, "accept-encoding": "identity"},
        timeout=httpx2.Timeout(CONNECT_TIMEOUT, read=None),
        verify=known["verify"],
        mounts=known["mounts"],
    )
    async with (
        client,
        streamable_http_client(
            url, http_client=client, max_sse_event_size=LARGEST_MESSAGE
        ) as streams,
    ):
        yield streams


class _Client(httpx2.AsyncClient):
    """Answers a failed request with an error; the SDK would end the session."""

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        attempt = ATTEMPT.get() or Attempt(reached=False)
        try:
            response = await super().send(request, **options)
        except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout) as error:
            return _failure(request, f"no connection: {error or type(error).__name__}")
        except httpx2.TransportError as error:
            attempt.reached = True
            return _failure(request, f"the connection broke: {error or type(error).__name__}")
        attempt.reached = True
        response.headers.pop("content-encoding", None)
        if response.headers.get("content-type", "").startswith("text/event-stream"):
            return response  # the SDK limits each of its events
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        response.stream = _Bounded(response.stream)
        if response.status_code < 400 or response.status_code == 404:  # 404 has a meaning in MCP
            return response
        return await _explain_response(response)


async def _explain_response(response: httpx2.Response) -> httpx2.Response:
    """A response with a JSON-RPC error. (The SDK hides the status of any other.)"""
    with suppress(ValueError, httpx2.StreamError):
        body = json.loads(await response.aread())
        if isinstance(body, dict) and "jsonrpc" in body:
            return response
    await response.aclose()
    text = f"HTTP {response.status_code} {response.reason_phrase}"
    return _failure(response.request, text, response.status_code)


def _failure(request: httpx2.Request, text: str, status: int = 502) -> httpx2.Response:
    error = {"code": INTERNAL_ERROR, "message": text}
    body = {"jsonrpc": "2.0", "id": None, "error": error}
    return httpx2.Response(status, request=request, json=body)


@dataclass
class _Bounded(httpx2.AsyncByteStream):
    """A response's body, up to LARGEST_MESSAGE bytes. The SDK expects a StreamError."""

    body: httpx2.AsyncByteStream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        try:
            async for piece in self.body:
                size += len(piece)
                if size > LARGEST_MESSAGE:
                    raise httpx2.StreamError(TOO_LARGE)
                yield piece
        except httpx2.TransportError as error:
            raise httpx2.StreamError(f"the connection broke: {error}") from None

    async def aclose(self) -> None:
        await self.body.aclose()

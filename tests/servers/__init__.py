"""Local HTTP servers that speak the providers' protocols, for tests through the real SDKs.

A server is a `Protocol` (one module per provider: wire -> Request, Assistant -> wire) and a brain,
a function Request -> Assistant. The codecs are written from the providers' documents, in the
opposite direction of the adapters and without their code, so that each checks the other. `mode`
says what the server does with a forced tool choice, and with a schema:

- `"honor"`: the brain gets both;
- `"refuse"`: HTTP 400 to a forced tool choice, in the provider's own words;
- `"ignore"`: the brain is asked as if nothing had been forced, and for no schema.

Everything sent and received is kept: `server.requests` holds the bodies as JSON.
"""

import contextlib
import functools
import json
import socket
import sys
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import UnionType
from typing import (
    Annotated,
    Any,
    ClassVar,
    Literal,
    NotRequired,
    Required,
    Union,
    get_args,
    get_origin,
)

from typing_extensions import get_type_hints, is_typeddict

from think_agent import Assistant, Message, Model, Request, Tool, ToolResult
from think_agent.dialects.base import Wrapper
from think_agent.messages import CARRIED, THINK_NAME, Json

Brain = Callable[[Request], Assistant]
Mode = Literal["honor", "refuse", "ignore"]


@dataclass
class Reply:
    """An HTTP answer. With `chunks`, the body is sent piece by piece, each flushed (and each may
    wait).
    """

    status: int = 200
    body: Any = None
    chunks: Iterable[bytes] | None = None
    content_type: str = "application/json"
    headers: dict[str, str] = field(default_factory=dict)


@dataclass
class Protocol:
    """One provider's protocol. `path` and `body` come as sent; raise ValueError for a request the
    API would refuse. `key`: the only key that is let in; `models`: the only models there are. None:
    any.
    """

    key: str | None = None
    models: Collection[str] | None = None

    forced_refusal = "tool_choice is not supported"
    stream_type = "text/event-stream"
    failure: ClassVar[bytes]  # the event of a stream that fails, by the fault of the server

    def knows(self, model: Any) -> bool:
        return self.models is None or model in self.models

    def accepts(self, path: str, headers: Any) -> Reply | None:
        """An error Reply for a wrong path or missing credentials; None when the request may be
        served.
        """

    def decode(self, path: str, body: dict[str, Any]) -> Request:
        """The request as the brain sees it. Checks what the API checks: every call answered, ids,
        roles, shapes.
        """
        raise NotImplementedError

    def ignoring(self, body: dict[str, Any]) -> dict[str, Any]:
        """`body` as a server of the mode `"ignore"` reads it."""
        return body

    def is_stream(self, path: str, body: dict[str, Any]) -> bool:
        return body.get("stream") is True

    def encode(self, reply: Assistant, body: dict[str, Any]) -> Any:
        """The whole response as JSON."""
        raise NotImplementedError

    def encode_stream(self, reply: Assistant, body: dict[str, Any]) -> Iterator[bytes]:
        """The response as stream chunks, in small pieces: at least two for every text, thought and
        argument JSON.
        """
        raise NotImplementedError

    def refusal(self, message: str) -> Reply:
        """HTTP 400 in the provider's shape."""
        raise NotImplementedError

    def other(self, method: str, path: str, body: Any) -> Reply | None:
        """Any further endpoint the SDK needs (such as a model listing); None for 404."""
        return None


@dataclass
class ProviderServer:
    """A running server. Use `serve(protocol, brain)`. `canned`: replies to give first, in turn,
    whatever is asked: for errors, and servers that lie.
    """

    protocol: Protocol
    brain: Brain
    mode: Mode
    requests: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    canned: list[Reply] = field(default_factory=list)
    url: str = ""

    def answer(self, method: str, path: str, headers: Any, raw: bytes) -> Reply:
        body = json.loads(raw) if raw else None
        extra = self.protocol.other(method, path, body)
        if extra or method != "POST":
            return extra or Reply(404, {"error": "not found"})
        self.requests.append(body)
        self.headers.append({key.lower(): value for key, value in headers.items()})
        if self.canned:
            return self.canned.pop(0)
        if problem := self.protocol.accepts(path, headers):
            return problem
        if self.mode == "ignore":
            body = self.protocol.ignoring(body)
        try:
            request = self.protocol.decode(path, body)
        except ValueError as error:
            return self.protocol.refusal(str(error))
        forced = request.tool_choice not in ("auto", "none")
        if forced and self.mode == "refuse":
            return self.protocol.refusal(self.protocol.forced_refusal)
        if self.mode == "ignore":
            choice = "auto" if forced else request.tool_choice
            request = replace(request, tool_choice=choice, output_schema=None)
        reply = self.brain(request)
        if self.protocol.is_stream(path, body):
            chunks = self.protocol.encode_stream(reply, body)
            return Reply(chunks=chunks, content_type=self.stream_type)
        return Reply(body=self.protocol.encode(reply, body))

    @property
    def stream_type(self) -> str:
        return self.protocol.stream_type


class Quiet(ThreadingHTTPServer):
    """A server that ignores clients that disconnect early. When it is closed, so are the
    connections that clients keep: each would hold a thread and a socket until Python ends.
    """

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._connections: set[socket.socket] = set()

    def get_request(self) -> tuple[socket.socket, Any]:
        connection, address = super().get_request()
        self._connections.add(connection)
        return connection, address

    def shutdown_request(self, request: Any) -> None:
        self._connections.discard(request)
        super().shutdown_request(request)

    def server_close(self) -> None:
        super().server_close()
        for connection in self._connections.copy():
            with contextlib.suppress(OSError):  # the client was faster
                connection.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


@contextmanager
def serve(protocol: Protocol, brain: Brain, mode: Mode = "honor") -> Iterator[ProviderServer]:
    """A server on a free local port, stopped at the end of the block."""
    server = ProviderServer(protocol, brain, mode)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True  # or every answer on a kept connection waits for 40 ms

        def log_message(self, *args: Any) -> None: ...

        def handle_any(self) -> None:
            raw = self.rfile.read(int(self.headers.get("content-length") or 0))
            reply = server.answer(self.command, self.path, self.headers, raw)
            self.send_response(reply.status)
            for name, value in reply.headers.items():
                self.send_header(name, value)
            self.send_header("content-type", reply.content_type)
            if reply.chunks is None:
                text = reply.body if isinstance(reply.body, str) else json.dumps(reply.body)
                data = text.encode()
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)
                return
            self.send_header("connection", "close")
            self.end_headers()
            self.close_connection = True
            for chunk in reply.chunks:
                self.wfile.write(chunk)
                self.wfile.flush()

        do_GET = do_POST = do_HEAD = handle_any

    http = Quiet(("127.0.0.1", 0), Handler)
    server.url = f"http://127.0.0.1:{http.server_port}"
    threading.Thread(target=http.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield server
    finally:
        http.shutdown()
        http.server_close()


def shown_tool(name: str, description: str, parameters: Json) -> Tool:
    """A tool as a request shows it. A `thought` among its parameters is one that it carries. (That
    a tool may not declare one itself is a rule of the kit, not of an API.)
    """
    carries = name != THINK_NAME and CARRIED in parameters.get("properties", {})
    return Tool(name=name, description=description, parameters=parameters, carries=carries)


def check(holds: object, message: str) -> None:
    """Refuse the request in the words of the API, unless the condition holds."""
    if not holds:
        raise ValueError(message)


def in_order(messages: Sequence[Message], *, goes_on: bool = False) -> tuple[Message, ...]:
    """The messages of a request, if every call is answered at once and nothing else is, and if the
    model is asked something. `goes_on`: the model may also be asked right after a reply of its own.
    """
    waiting: list[str] = []
    for message in messages:
        if isinstance(message, ToolResult):
            check(message.call_id in waiting, f"no call has the id {message.call_id}")
            waiting.remove(message.call_id)
            continue
        check(not waiting, f"calls without a result: {waiting}")
        if isinstance(message, Assistant):
            waiting = [call.id for call in message.tool_calls]
            check(len(waiting) == len({*waiting}), "ids must be unique")
    is_asked = messages and (goes_on or not isinstance(messages[-1], Assistant))
    check(is_asked, "nothing is asked")
    check(not waiting, f"calls without a result: {waiting}")
    return tuple(messages)


def fits(kind: Any, value: Any) -> bool:
    """Is `value` of an SDK's type, without a key that the type does not name?"""
    origin = get_origin(kind)
    if kind in (Any, object):
        return True
    if origin in (Annotated, Required, NotRequired):
        return fits(get_args(kind)[0], value)
    if origin in (Union, UnionType):
        return any(fits(one, value) for one in get_args(kind))
    if origin is Literal:
        return value in get_args(kind)
    if is_typeddict(kind):
        hints = hints_of(kind)
        needed = {key for key, hint in hints.items() if get_origin(hint) is Required}
        if not isinstance(value, dict) or not needed <= value.keys() <= hints.keys():
            return False
        return all(fits(hints[key], inner) for key, inner in value.items())
    if origin in (list, Iterable, Sequence):
        return isinstance(value, list) and all(fits(get_args(kind)[0], one) for one in value)
    return isinstance(value, int if kind is float else origin or kind)


@functools.cache
def hints_of(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind, include_extras=True)


def text_of(arguments: Any) -> str:
    return arguments if isinstance(arguments, str) else json.dumps(arguments)


def in_pieces(text: str, size: int = 7) -> list[str]:
    """`text` in small pieces, at least two where it has two characters."""
    size = min(size, max(1, len(text) // 2))
    return [text[i : i + size] for i in range(0, len(text), size)]


def sse(data: Any, event: str | None = None) -> bytes:
    """One server-sent event."""
    head = f"event: {event}\n" if event else ""
    return f"{head}data: {data if isinstance(data, str) else json.dumps(data)}\n\n".encode()


def bare(model: Model) -> Model:
    """The adapter itself, without the readers of text that `connect` puts around it."""
    while isinstance(model, Wrapper):
        model = model.inner
    return model

"""The server of the benchmark: replays one conversation to whoever asks, in every protocol.

It is a process of its own, so it takes no time from the measured side. It only counts and writes
bytes: the replies are encoded before the first request. The number of tool results in a request
says which reply is next, so a conversation may use any connection.

`python -m tests.benchmarks.replay [SECONDS]` prints its port and answers each request after this
many seconds. GET / gives the number of request bytes since the last GET.
"""

import asyncio
import json
import sys

from tests.benchmarks.conversation import ANSWER, CALLS, MODEL
from tests.servers import Protocol
from tests.servers.anthropic import AnthropicProtocol
from tests.servers.gemini import GeminiProtocol
from tests.servers.ollama import OllamaServer
from tests.servers.openai_chat import Chat
from tests.servers.openai_responses import Responses
from think_agent import Assistant, ToolCall, Usage

# The end of a path, the protocol behind it, and what stands in a request once per tool result.
PROTOCOLS: list[tuple[bytes, type[Protocol], bytes]] = [
    (b"/chat/completions", Chat, b'"tool_call_id"'),
    (b"/responses", Responses, b'"function_call_output"'),
    (b"/messages", AnthropicProtocol, b'"tool_use_id"'),
    (b":generateContent", GeminiProtocol, b'"functionResponse"'),
    (b"/api/chat", OllamaServer, b'"tool_name"'),
]


def encoded(protocol: Protocol) -> list[bytes]:
    """The eight replies, whole HTTP answers."""
    body = {"model": MODEL, "messages": [], "input": [], "contents": []}
    usage = Usage(input_tokens=1200, output_tokens=40)
    replies = [
        Assistant(
            tool_calls=(ToolCall(f"call_{number}", name, arguments),),
            stop_reason="tool_use",
            usage=usage,
        )
        for number, (name, arguments) in enumerate(CALLS)
    ]
    replies.append(Assistant(text=ANSWER, usage=usage))
    return [answer(protocol.encode(reply, body)) for reply in replies]


def answer(content: object) -> bytes:
    data = json.dumps(content).encode()
    head = f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(data)}"
    return head.encode() + b"\r\n\r\n" + data


REPLIES = [(path, marker, encoded(protocol())) for path, protocol, marker in PROTOCOLS]
SHOWN = answer({"capabilities": ["completion", "tools"], "model_info": {}})  # Ollama's check


class Connection(asyncio.Protocol):
    """One kept connection. (asyncio sets TCP_NODELAY by itself.)"""

    delay = 0.0
    asked = 0  # bytes, on all connections

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.buffer = b""

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        head, found, body = self.buffer.partition(b"\r\n\r\n")
        if not found:
            return
        _, length, rest = head.lower().partition(b"\r\ncontent-length:")
        if len(body) < (int(rest.partition(b"\r\n")[0]) if length else 0):
            return
        reply, self.buffer = self.reply_to(head, body), b""
        if self.delay:
            asyncio.get_running_loop().call_later(self.delay, self.transport.write, reply)
        else:
            self.transport.write(reply)

    def reply_to(self, head: bytes, body: bytes) -> bytes:
        _, path, _ = head.split(b" ", 2)
        if path == b"/":
            asked, Connection.asked = Connection.asked, 0
            return answer(asked)
        for end, marker, replies in REPLIES:
            if path.partition(b"?")[0].endswith(end):
                Connection.asked += len(head) + 4 + len(body)
                return replies[body.count(marker)]
        return SHOWN


async def main() -> None:
    Connection.delay = float(sys.argv[1]) if sys.argv[1:] else 0.0
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Connection, "127.0.0.1", 0, backlog=1000)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())

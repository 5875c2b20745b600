"""A gate between an official client and a server: in this process, or as a command."""

import asyncio
import sys
from collections.abc import AsyncIterator, Coroutine, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from mcp import Client, StdioServerParameters, stdio_client
from mcp import types as wire
from mcp.client.session import ElicitationFnT
from mcp.server.mcpserver import Context, Image, MCPServer
from mcp.types import ToolAnnotations as Hints
from mcp.types.version import HANDSHAKE_PROTOCOL_VERSIONS

from tests.support.commands import environment
from tests.support.mcp import lines
from tests.support.sizes import ROOT
from think_agent import Started, ToolResult, Verdict
from think_agent.audit import read
from think_agent.integrations.gate import Gate
from think_agent.waiting import background_loop

T = TypeVar("T")
ERAS = ["legacy", "2026-07-28"]  # of the protocol between the client and the gate


def on_the_loop(work: Coroutine[Any, Any, T]) -> T:
    """The result of `work` on the event loop of a gate."""
    return asyncio.run_coroutine_threadsafe(work, background_loop()).result(60)


class Shop(MCPServer):
    """A server that knows what was done: `paid` in order, and how many calls ran at a time."""

    def __init__(self) -> None:
        super().__init__("shop", instructions="Prices are in cents.")
        self.paid: list[int] = []
        self.at_a_time = 0
        self.most_at_a_time = 0
        self.is_busy = asyncio.Event()  # a call of `wait` has begun
        self.go_on = asyncio.Event()  # it may end
        self.tool(annotations=Hints(read_only_hint=True))(self.look)
        self.tool(annotations=Hints(destructive_hint=False))(self.pay)
        self.tool(structured_output=False)(self.show)
        for function in (self.wait, self.fail, self.note, self.grow):
            self.tool()(function)

    def look(self, item: str) -> str:
        """Look something up."""
        return f"{item}: 3"

    async def pay(self, cents: int, ctx: Context) -> dict[str, int]:
        """Pay."""
        self.at_a_time += 1
        self.most_at_a_time = max(self.most_at_a_time, self.at_a_time)
        await ctx.report_progress(1, 2, "half")
        await asyncio.sleep(0)
        self.at_a_time -= 1
        self.paid.append(cents)
        return {"paid": cents}

    async def wait(self, cents: int) -> str:
        """Pay, when somebody lets it go on."""
        self.is_busy.set()
        await self.go_on.wait()
        self.paid.append(cents)
        return "paid"

    def fail(self, cents: int) -> str:
        """Pay, and then fail."""
        self.paid.append(cents)
        raise ValueError("the line broke")

    def note(self, thought: str) -> str:
        """A tool with a parameter of that name."""
        return thought

    def show(self) -> list[Any]:
        """A picture and a text."""
        return [Image(data=b"x" * 300, format="png"), "a picture"]

    async def grow(self, ctx: Context) -> str:
        """Have one tool more."""

        @self.tool()
        def fresh() -> str:
            """A new tool."""
            return "fresh"

        await ctx.notify_tools_changed()
        return "grown"


@dataclass
class AtTheGate:
    """A client at a gate, the questions to its user, and the lines of the gate's log."""

    client: Client
    asked: list[str]
    said: list[str]
    has_changed: asyncio.Event  # the tools have

    async def call(self, tool: str, **arguments: Any) -> wire.CallToolResult:
        """Call a tool through the gate."""
        return await self.client.call_tool(tool, arguments)

    async def listed(self) -> dict[str, wire.Tool]:
        """The tools that the gate lists, by name."""
        return {tool.name: tool for tool in (await self.client.list_tools()).tools}

    @asynccontextmanager
    async def subscribed(self) -> AsyncIterator[None]:
        """To the changes of the tools. (Older clients hear of them anyway.)"""
        if self.client.protocol_version in HANDSHAKE_PROTOCOL_VERSIONS:
            yield
            return
        async with self.client.listen(tools_list_changed=True):
            yield


@asynccontextmanager
async def session(
    server: object, record: Path, era: str = ERAS[0], *, answers: Sequence[str] = (), **options: Any
) -> AsyncIterator[AtTheGate]:
    """A client at a gate. With `answers` it offers to ask its user, who gives one after another."""
    asked: list[str] = []
    has_changed = asyncio.Event()
    said: list[str] = []

    async def ask(
        _: object, params: wire.ElicitRequestParams
    ) -> wire.ElicitResult | wire.ErrorData:
        asked.append(params.message)
        answer = answers[len(asked) - 1]
        if answer == "cannot":
            return wire.ErrorData(code=wire.METHOD_NOT_FOUND, message="Method not found")
        return wire.ElicitResult(action=answer)

    async def hear(message: object) -> None:
        if isinstance(message, wire.ToolListChangedNotification):
            has_changed.set()

    gate = Gate(server, record, say=said.append, **options)
    user = ask if answers else None
    async with (
        gate.open_front() as front,
        Client(front, mode=era, message_handler=hear, elicitation_callback=user) as client,
    ):
        yield AtTheGate(client, asked, said, has_changed)


# Notes the id of the process, which the SDK's client keeps to itself.
STARTED = 'ulimit -f $LIMIT; echo $$ > gate.pid; exec "$@"'
TILL = [sys.executable, str(ROOT / "tests/servers/mcp_till.py")]


class Till:
    """The command `think-agent gate` before a till, in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.record = folder / "run.jsonl"
        self._ledger = folder / "ledger"

    @property
    def paid(self) -> list[int]:
        """All payments, in order."""
        return [int(line) for line in lines(self._ledger)]

    @property
    def log(self) -> str:
        """What the gate wrote to stderr, and the server."""
        return (self.folder / "gate.log").read_text(encoding="utf-8")

    @contextmanager
    def on_hold(self) -> Iterator[None]:
        """Meanwhile the till answers no payment, though it is made."""
        hold = self._ledger.with_suffix(".hold")
        hold.touch()
        yield
        hold.unlink()

    def command(self, *flags: str, server: Sequence[str] = TILL) -> list[str]:
        """The words of the gate."""
        gate = [sys.executable, "-m", "think_agent", "gate", "--record", "run.jsonl"]
        return [*gate, *flags, "--", *server]

    def environment(self, **more: str) -> dict[str, str]:
        """The variables that the gate gets."""
        return environment(LEDGER=str(self._ledger), **more)

    @asynccontextmanager
    async def session(
        self,
        *flags: str,
        server: Sequence[str] = TILL,
        ask: ElicitationFnT | None = None,
        era: str = ERAS[0],
        limit: int | str = "unlimited",
        **env: str,
    ) -> AsyncIterator[AtTheGate]:
        """A client at the gate. `limit`: the most that a file may have, in blocks of the shell."""
        command = StdioServerParameters(
            command="/bin/sh",
            args=["-c", STARTED, "sh", *self.command(*flags, server=server)],
            env=self.environment(LIMIT=str(limit), **env),
            cwd=self.folder,
        )
        with (self.folder / "gate.log").open("a") as log:
            transport = stdio_client(command, errlog=log)
            async with Client(transport, mode=era, elicitation_callback=ask) as client:
                yield AtTheGate(client, [], [], asyncio.Event())


def pid_of_gate(folder: Path) -> int:
    """The process that serves in this folder, or did last."""
    return int((folder / "gate.pid").read_text())


def text_of(result: wire.CallToolResult) -> str:
    """The text of a result, one part a line."""
    return "\n".join(getattr(part, "text", f"[{part.type}]") for part in result.content)


def recorded(path: Path) -> list[str]:
    """What a record says of each call, in order, without thoughts."""
    lines = []
    for message in read(path).messages:
        match message:
            case Verdict():
                lines.append(f"{message.decision} by {message.by}")
            case Started():
                lines.append(f"started {message.name}")
            case ToolResult() if message.name != "think":
                lines.append(_line(message))
    return lines


def _line(result: ToolResult) -> str:
    if result.refused:
        return f"refused {result.name}: {result.refused}"
    if result.in_doubt:
        return f"may have happened: {result.name}"
    return f"done {result.name}"

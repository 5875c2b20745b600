"""A till: an MCP server on stdio that writes each payment into a file before it answers.

    python tests/servers/mcp_till.py

LEDGER is that file. While there is a file LEDGER.hold, no payment is answered.
"""

import asyncio
import os
from pathlib import Path

from mcp.server.mcpserver import MCPServer
from mcp.types import ToolAnnotations as Hints

LEDGER = Path(os.environ["LEDGER"])
app = MCPServer("till")


def book(cents: int) -> None:
    """Write a payment into the ledger."""
    with LEDGER.open("a", encoding="utf-8") as ledger:
        ledger.write(f"{cents}\n")


@app.tool(annotations=Hints(destructive_hint=False))
async def pay(cents: int) -> str:
    """Pay."""
    book(cents)
    while LEDGER.with_suffix(".hold").exists():  # noqa: ASYNC110 (another process removes it)
        await asyncio.sleep(0.01)
    return f"paid {cents}"


@app.tool(annotations=Hints(read_only_hint=True))
def variable(name: str) -> str:
    """An environment variable."""
    return os.environ.get(name, "not set")


@app.tool(annotations=Hints(read_only_hint=True))
def pid() -> int:
    """The id of the server's process."""
    return os.getpid()


if __name__ == "__main__":
    app.run("stdio")

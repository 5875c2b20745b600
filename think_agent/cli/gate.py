"""The command `think-agent gate`: an MCP server in front of another one, for other people's agents.

Rule 1: stdout is for the protocol. Messages for people go to stderr, which MCP clients log.
Rule 2: the server's command gets the whole environment, because clients' configurations put its
        tokens there.
"""

import logging
import os
from collections.abc import Iterable
from itertools import chain
from pathlib import Path
from typing import Literal

import click

from ..text import shorten
from ..tools import ToolOptions
from .options import Command, Group, file_option, new_file, positive, several, whole
from .screen import say

EXIT_CODES = (
    "exit codes: 0 the client left, 1 the server or the record can't be used, 2 a flag is wrong, "
    "130 stopped by Ctrl-C or SIGTERM"
)
server_option = Group("the server behind it")
call_option = Group("calls that change something")


class OneLine(logging.Handler):
    """Writes libraries' log records to stderr, on one line each and without tracebacks."""

    def emit(self, record: logging.LogRecord) -> None:
        if record.name != "think_agent":  # those are also notices of the run
            say(f"{record.name}: {shorten(record.getMessage())}")


@click.command(
    cls=Command,
    epilog=EXIT_CODES,
    options_metavar="--record RUN.jsonl [FLAG]... --",
    context_settings={"allow_interspersed_args": False},  # the rest belongs to the command
)
@click.argument("words", metavar="COMMAND...", nargs=-1, required=True)
@file_option(
    "--record",
    "RUN.jsonl",
    "keep the calls there; if another window has that file, in RUN-2.jsonl",
    type=new_file,
    required=True,
)
@server_option("--trusted", is_flag=True, help="believe what it says of its tools")
@server_option(
    "--read-only",
    "NAME[,NAME]",
    "tools that change nothing: they need no thought and no yes",
    type=several,
    multiple=True,
)
@server_option(
    "--idempotent",
    "NAME[,NAME]",
    "tools that may run twice without asking",
    type=several,
    multiple=True,
)
@server_option("--timeout", "S", "seconds for a call", type=positive, default=600.0)
@call_option(
    "--approve",
    "WHO",
    "who says yes where the client has no way to ask a person for the gate: client (it asks "
    "before each call by itself) or never",
    type=click.Choice(("client", "never")),
    default="client",
)
@call_option("--max-actions", "N", "tool calls a session, thoughts not counted", type=whole)
def command(
    words: tuple[str, ...],
    record: Path,
    trusted: bool,
    read_only: tuple[tuple[str, ...], ...],
    idempotent: tuple[tuple[str, ...], ...],
    timeout: float,
    approve: Literal["client", "never"],
    max_actions: int | None,
) -> None:
    """Stand between an agent and an MCP server. No tool that changes something runs without a
    thought, and every call is recorded. COMMAND starts the server, or is its URL.
    """
    try:
        from ..integrations.gate import Gate  # late: it needs an extra
    except ImportError as missing:
        raise click.ClickException(str(missing)) from missing
    logging.getLogger().addHandler(OneLine(logging.WARNING))
    address: str | list[str] = list(words)
    if len(words) == 1 and words[0].startswith(("http://", "https://")):
        address = words[0]
    gate = Gate(
        address,
        record,
        trusted=trusted,
        declared=_read_declared(read_only, idempotent),
        approve=approve,
        max_actions=max_actions,
        timeout=timeout,
        env=os.environ,
        say=say,
    )
    gate.run()


def _read_declared(
    read_only: Iterable[Iterable[str]], idempotent: Iterable[Iterable[str]]
) -> dict[str, ToolOptions]:
    """What's known about the tools. Each flag may be given several times."""
    declared: dict[str, ToolOptions] = {}
    for name in chain.from_iterable(read_only):
        declared[name] = {"read_only": True}
    for name in chain.from_iterable(idempotent):
        declared[name] = {**declared.get(name, {}), "idempotent": True}
    return declared

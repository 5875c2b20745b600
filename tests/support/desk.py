"""The refund desk in its own process, killed at any point and resumed.

Everything is real: the process, SIGKILL, the transcript file, the SQLite file. Only the model is
scripted. The points are numbered: before and after each model call, after each message is in the
file, before each SQLite statement of a tool (BEGIN, INSERT, COMMIT), and after a tool has done its
work but before its result is in the file.
"""

import os
import signal
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from datetime import date
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from demos.refund.offline import reply
from demos.refund.shop import INSTRUCTIONS, Shop
from think_agent import Agent, Assistant, Outcome, Request, ScriptedModel, Started, Tool
from think_agent.messages import MESSAGES, Message
from think_agent.transcript import TranscriptFile

TODAY = date(2026, 3, 1)
PROCESSES = get_context("forkserver")  # children start from a clean process, and quickly
PROCESSES.set_forkserver_preload(["tests.support.desk"])

Point = Callable[[str], None]


def work(folder: Path, text: str, point: Point) -> Outcome:
    """Begin or resume the run of this folder."""
    path = folder / "run.jsonl"
    shop = Shop(str(folder / "shop.db"), today=TODAY)
    shop._db.set_trace_callback(lambda statement: point(statement.split()[0]))

    def model(request: Request) -> Assistant:
        point("asked")
        said = reply(request)
        point("replied")
        return said

    agent = Agent(
        ScriptedModel(model, name="offline"),
        [watched(tool, point) for tool in shop.tools()],
        instructions=INSTRUCTIONS.read_text(encoding="utf-8"),
    )

    def written(event: object) -> None:
        if isinstance(event, (*MESSAGES, Outcome)):
            point(type(event).__name__)

    if path.exists() and said(path):
        return agent.resume(path, on_event=written)
    return agent.run(text, transcript=path, on_event=written)


def watched(tool: Tool, point: Point) -> Tool:
    """The tool, with a point after its work."""

    def function(**arguments: Any) -> Any:
        result = tool(**arguments)
        point("worked")
        return result

    return replace(tool, function=function)


def said(path: Path) -> list[Message]:
    """The messages in the file."""
    with closing(TranscriptFile(path, {}, now="")) as transcript:
        return transcript.messages


def each_started_once(messages: list[Message]) -> list[Message]:
    """The messages without the second Started of a call that was started twice."""
    return [
        message
        for before, message in zip([None, *messages], messages, strict=False)
        if not (isinstance(message, Started) and message == before and message.key == before.key)
    ]


def points(folder: Path, text: str) -> list[str]:
    """The names of all points of a run, in order."""
    seen: list[str] = []
    work(folder, text, seen.append)
    return seen


def die_at(folder: Path, text: str, number: int) -> None:
    """Work, and be killed at the point with this number. A process runs this."""
    passed = 0

    def point(name: str) -> None:
        nonlocal passed
        if passed == number:
            os.kill(os.getpid(), signal.SIGKILL)
        passed += 1

    work(folder, text, point)


def killed(folder: Path, text: str, number: int) -> bool:
    """Work in a fresh process that is killed at a point. False if it ended before that."""
    process = PROCESSES.Process(target=die_at, args=(folder, text, number))
    process.start()
    process.join()
    if process.exitcode not in (0, -signal.SIGKILL):
        raise RuntimeError(f"the desk ended with {process.exitcode}")
    return process.exitcode == -signal.SIGKILL

"""Recorded runs of another framework (`../shared/traces`), played again through an Agent. The model
gives the recorded replies, and the tools give the recorded results.

Both are compared as lines: `("user", text)`, `("assistant", text, [(tool, arguments)])` and
`("tool", content)`. Ids are left out, because the recording has some twice. Only the results of
think are different: they were empty, and the kit uses its constant.
"""

import gzip
import json
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from functools import cache
from typing import Any

import pytest

from tests.support.sizes import ROOT
from think_agent import THINK_MINIMAL, Agent, Model, Request, ScriptedModel, Tool
from think_agent.messages import Assistant, Message, ToolCall, ToolResult, User
from think_agent.policies.done_when import CheckFunction
from think_agent.think import RECORDED

# Those of historical_trajectories/gpt-4o-airline.json in github.com/sierra-research/tau-bench, each
# with its `task_id`, `trial`, `reward` and `messages`. The file lies beside the clone, not in it.
PATH = ROOT.parent / "shared/traces/tau-airline-gpt-4o.json.gz"
WRITES = ("book_*", "cancel_*", "update_*", "send_certificate")
END = Assistant("Here the recording ends.")
LAVISH = dict.fromkeys(("max_model_calls", "max_repeats", "patience", "max_result_chars"), 10**6)

needs_traces = pytest.mark.skipif(
    not PATH.is_file(), reason="the recorded runs (../shared/traces) are not here"
)
Line = tuple[Any, ...]
Checks = Iterable[CheckFunction]


@cache
def recorded() -> list[Any]:
    """The file as it is."""
    return json.loads(gzip.decompress(PATH.read_bytes()))


def runs(places: slice = slice(None)) -> "list[Replay]":
    """Recorded runs, to be played anew."""
    return [Replay(run["messages"]) for run in recorded()[places]]


def lines(messages: Iterable[Message]) -> list[Line]:
    """The messages as a model sees them."""
    found: list[Line] = []
    for message in messages:
        match message:
            case User(text=text):
                found.append(("user", text))
            case Assistant(text=text, tool_calls=calls):
                found.append(("assistant", text, [(call.name, call.arguments) for call in calls]))
            case ToolResult(content=content):
                found.append(("tool", content))
    return found


class Replay:
    """One run. `heard`: the history of every request, as lines."""

    def __init__(self, messages: list[dict[str, Any]]) -> None:
        self.instructions = messages[0]["content"]
        self.lines = [_line(message) for message in messages[1:]]
        self.ids = [call["id"] for m in messages for call in m.get("tool_calls") or ()]
        self.asked = [line[1] for line in self.lines if line[0] == "user"]
        self.heard: list[list[Line]] = []
        self._performed = 0

    def brain(self, request: Request) -> Assistant:
        """The recorded reply to a recorded history; to any other, the end."""
        history = lines(request.messages)
        self.heard.append(history)
        if self.lines[: len(history)] != history or len(history) == len(self.lines):
            return END
        _, text, calls = self.lines[len(history)]
        id = self.ids[sum(line[0] == "tool" for line in history)] if calls else ""
        return Assistant(text, tool_calls=tuple(ToolCall(id, *call) for call in calls))

    def agent(
        self, model: Model | None = None, *, gate: bool = False, done_when: Checks = ()
    ) -> Agent:
        """An agent that plays the run, on the script or on `model`."""
        names = sorted({call[0] for call, _ in self.actions()} - {"think"})
        tools = [self._tool(name, think_first=gate and writes(name)) for name in names]
        settings = {"force": "never", "silence": "accept", "think": THINK_MINIMAL, **LAVISH}
        model = model or ScriptedModel(self.brain)
        return Agent(model, tools, instructions=self.instructions, done_when=done_when, **settings)

    def actions(self) -> Iterator[tuple[tuple[str, dict[str, Any]], str]]:
        """Each call with its result."""
        for line, after in zip(self.lines, self.lines[1:], strict=False):
            if line[0] == "assistant" and line[2]:
                yield line[2][0], after[1]

    def first_uncovered(self) -> int | None:
        """The place of the first write without a thought of its turn right before it."""
        thought = False
        for place, (role, *_, calls) in enumerate(self.lines):
            thought = thought and role != "user"
            if role == "assistant" and calls:
                [(name, arguments)] = calls
                if writes(name) and not thought:
                    return place
                thought = name == "think" and bool(arguments["thought"].strip())
        return None

    def _tool(self, name: str, *, think_first: bool) -> Tool:
        def function(**arguments: Any) -> str:
            acted = [(call, result) for call, result in self.actions() if call[0] != "think"]
            call, result = acted[self._performed]
            assert call == (name, arguments)
            self._performed += 1
            return result

        shape = {"type": "object", "properties": {}}
        return Tool(
            name=name,
            description=name,
            parameters=shape,
            function=function,
            think_first=think_first,
        )


def writes(name: str) -> bool:
    """Does this tool change the world?"""
    return any(fnmatchcase(name, pattern) for pattern in WRITES)


def _line(message: dict[str, Any]) -> Line:
    match message:
        case {"role": "assistant"}:
            functions = [call["function"] for call in message.get("tool_calls") or ()]
            calls = [(one["name"], json.loads(one["arguments"])) for one in functions]
            return "assistant", message["content"] or "", calls
        case {"role": "tool", "name": "think"}:
            return "tool", RECORDED
    return message["role"], message["content"]

"""The offline provider: a scripted model, for machines without a language model.

connect("offline") plays `stand_in`, with any agent's tools connect("offline", script=function)
plays a function Request -> Assistant
connect("offline", pace=0.03) waits 0.03 s between the pieces of a stream

Limitations: example values follow only the type, the first enum value and the lower bound of a
schema, not patterns or lengths. The tool then reports the error, as it would to a model.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import asdict
from typing import Any

from ..messages import THINK_NAME, Assistant, Json, ToolCall
from ..model import Request
from ..streaming import Delta
from ..testing import think
from ..testing.scripted import Script, ScriptedModel
from ..text import json_text
from ..tools import signature
from ..turn import Turn
from ..wire.settings import Settings


class Offline(ScriptedModel):
    """A ScriptedModel with the provider name `offline`. It ignores the address, key and timeout,
    and rejects settings.
    """

    def __init__(
        self,
        model: str,
        *,
        script: Script | None = None,
        pace: float = 0.0,
        settings: Settings,
        **where: Any,
    ) -> None:
        settings.refuse("offline", *(asdict(settings).keys() - {"timeout"}))
        super().__init__(script or stand_in, name="offline", model=model)
        self._pace = pace

    def stream(self, request: Request) -> Iterator[Delta | Assistant]:
        for event in super().stream(request):
            time.sleep(self._pace)
            yield event

    async def astream(self, request: Request) -> AsyncIterator[Delta | Assistant]:
        for event in super().stream(request):
            await asyncio.sleep(self._pace)
            yield event


def stand_in(request: Request) -> Assistant:
    """The default script. It thinks, calls each `read_only` tool once with example values, and
    signals the end. For every other tool it says which call it would have made.
    """
    turn = Turn.of(request.messages)
    text = "[scripted stand-in, no language model]"
    if turn.request:
        text = f"{text} You said: {turn.request.text}"
    calls: list[ToolCall] = []
    has_think = False
    # Guarded tools first, while the thought covers them.
    for tool in sorted(request.tools, key=lambda tool: not tool.think_first):
        example = ToolCall("", tool.name, example_of(tool.parameters))
        if tool.name == THINK_NAME:
            has_think = True
        elif not tool.read_only:
            text = f"{text}\nIt would have called {signature(example)}."
        elif not turn.replies:
            calls.append(example)

    if request.output_schema:
        return Assistant(json_text(example_of(request.output_schema)))
    if has_think:
        calls.insert(0, think(text, should_continue=bool(calls)))
    if request.tool_choice == "none" or not calls:
        return Assistant(text)
    return Assistant(tool_calls=tuple(calls), stop_reason="tool_use")


def example_of(schema: Json) -> Any:
    """A value for a JSON schema."""
    match schema:
        case {"enum": [first, *_]} | {"const": first} | {"minimum": first}:
            return first
        case {"anyOf": [first, *_]} | {"oneOf": [first, *_]}:
            return example_of(first)
        case {"type": "object", "properties": inner}:
            return {name: example_of(inner[name]) for name in schema.get("required", ())}
        case {"type": "array", "items": item}:
            return [example_of(item)]
        case {"type": "integer" | "number"}:
            return 1
        case {"type": "boolean"}:
            return True
        case {"format": "date"}:
            return "2026-01-31"
    return "example"

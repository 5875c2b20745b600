"""A reply as it forms: Deltas.

Rule 1: a Delta only tells; nothing is ever decided by one. The reply that counts is the Assistant
        at the end of the stream, and it equals what `complete` would have returned.
Rule 2: five kinds, one per channel, so that a reader can show or hide each: native `thinking`, the
        `thought` of a think call, a `call` taking shape, the `commentary` of a provider that sets
        it apart, and the `answer`, the text meant for the user.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

from .messages import THINK_NAME, Assistant
from .text import json_text

WORDS = re.compile(r"\s*\S+\s*|\s+")


@dataclass(frozen=True, slots=True)
class Delta:
    """A piece of a reply. For `thought` and `call`, `name` is the tool's, and `index` counts the
    calls of the reply from 0.

    The `text` of a `call` is raw argument JSON (it may be empty when only the name is known yet);
    that of a `thought` is decoded.
    """

    kind: Literal["thinking", "thought", "call", "answer", "commentary"]
    text: str
    name: str = ""
    index: int = 0


@dataclass(frozen=True, slots=True)
class Notice:
    """Something a watcher of the run should know, such as a tool choice that was not honored."""

    text: str


def whole_call(name: str, arguments: Any, index: int = 0) -> list[Delta]:
    """The Deltas of a call that arrived in one piece."""
    if name == THINK_NAME and isinstance(arguments, dict):
        text = arguments.get("thought", "")
        return [Delta("thought", text, name, index)] if isinstance(text, str) and text else []
    text = arguments if isinstance(arguments, str) else json_text(arguments)
    return [Delta("call", text, name, index)]


def in_pieces(reply: Assistant) -> Iterator[Delta]:
    """The Deltas of a reply that did not stream, word by word."""
    yield from (Delta("thinking", word) for word in WORDS.findall(reply.thinking))
    yield from (Delta("commentary", word) for word in WORDS.findall(reply.commentary))
    yield from (Delta("answer", word) for word in WORDS.findall(reply.text))
    for number, call in enumerate(reply.tool_calls):
        for delta in whole_call(call.name, call.arguments, number):
            yield from (replace(delta, text=word) for word in WORDS.findall(delta.text))

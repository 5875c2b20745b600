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

from .messages import CARRIED, THINK_NAME, Assistant
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
        return [Delta("thought", str(arguments.get(CARRIED, "")), name, index)]
    if not isinstance(arguments, str):
        arguments = json_text(arguments)
    return [Delta("call", arguments, name, index)]


def in_pieces(reply: Assistant) -> Iterator[Delta]:
    """The Deltas of a reply that did not stream, word by word."""
    whole = [
        Delta("thinking", reply.thinking),
        Delta("commentary", reply.commentary),
        Delta("answer", reply.text),
    ]
    for number, call in enumerate(reply.tool_calls):
        whole += whole_call(call.name, call.arguments, number)
    for delta in whole:
        for word in WORDS.findall(delta.text):
            yield replace(delta, text=word)

"""Forms: a reply under a JSON schema, where the server honors no tool choice (Ollama, llama.cpp).

Rule 1: a forced thought is asked for as the arguments of `think`, and the closing reply as a JSON
        string or in the schema of its answer. The tools stay, so the prompt does not change.
Rule 2: a thought has the exit signal only if an action ran since the person spoke. A small model
        says "false" in half of its opening thoughts, and that would end the turn at once.
Rule 3: a server may ignore a form, so a reply is read by what came (`read_form`). A thought in its
        form becomes a call of `think`, a string the text in it. Anything else stays as it is.
Rule 4: what a server's parser does to a form is undone. It may take a thought for a call of
        whatever tool is named in it, write a part of the reply twice, or lose the end of it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pydantic_core

from ..messages import (
    CARRIED,
    THINK_NAME,
    Assistant,
    Force,
    Json,
    Spoken,
    ToolCall,
    ToolResult,
    User,
)
from ..model import Request
from ..streaming import Delta
from ..text import json_text
from .json_reading import json_at, json_value
from .pieces import CallReader, StringReader

TEXT: Json = {"type": "string"}
SIGNAL = "should_continue"
LONGEST_THOUGHT = 400  # characters; llama.cpp refuses a grammar with 2,000
LOST = "its end is missing: the server has lost it"


# Asking.


def form_of(request: Request) -> Json | None:
    """The schema that does what the tool choice of `request` asks. None if none does."""
    if request.tool_choice == "none" and request.tools:
        return request.output_schema or TEXT
    if request.tool_choice == Force(THINK_NAME):
        for tool in request.tools:
            if tool.name == THINK_NAME:
                return _thought(tool.parameters, with_signal=has_acted(request.messages))
    return None


def has_acted(messages: Sequence[Spoken]) -> bool:
    """Did an action run since the person spoke?"""
    for message in reversed(messages):
        if isinstance(message, User) and message.kind == "person":
            return False
        if isinstance(message, ToolResult) and message.name != THINK_NAME and not message.refused:
            return True
    return False


def has_ignored(messages: Sequence[Spoken], host: str) -> bool:
    """Did a reply from `host` ignore its tool choice?"""
    for message in messages:
        if (
            isinstance(message, Assistant)
            and message.host == host
            and message.enforced == "ignored"
        ):
            return True
    return False


def _thought(parameters: Json, *, with_signal: bool) -> Json:
    properties = {}
    for name, part in parameters["properties"].items():
        if name == SIGNAL and not with_signal:
            continue
        if part.get("type") == "string" and "enum" not in part:
            part = {"minLength": 1, "maxLength": LONGEST_THOUGHT, **part}
        properties[name] = part
    return {**parameters, "properties": properties, "required": list(properties)}


# Reading.


@dataclass(frozen=True)
class Found:
    """The value of a reply that is in its form, and its JSON. `is_lost`: the end is missing."""

    value: Any
    text: str
    is_lost: bool = False


def read_form(reply: Assistant, request: Request, form: Json) -> Assistant:
    """`reply` to a request for a form as what it means (rules 3 and 4)."""
    is_thought = request.tool_choice != "none"
    found = _found(reply, form)
    if found is None:
        return replace(reply, enforced="ignored" if reply.is_usable else None)
    if found.is_lost and reply.is_usable:  # else the server has said why it is cut
        reason = "malformed" if is_thought else "incomplete"
        reply = replace(reply, stop_reason=reason, mistake=LOST, cause=LOST)

    if is_thought:
        call = ToolCall("", THINK_NAME, found.value)
        reason = "tool_use" if reply.is_usable else reply.stop_reason
        reply = replace(reply, tool_calls=(call,), stop_reason=reason)
        return _said(reply, "")
    text = found.value if isinstance(found.value, str) else found.text
    return _said(replace(reply, tool_calls=()), text)


def _said(reply: Assistant, text: str) -> Assistant:
    """`reply` with this text in place of its form. Its native calls are made of `tool_calls`."""
    native = {key: value for key, value in reply.native.items() if key != "tool_calls"}
    return replace(reply, text=text, native={**native, "content": text}, enforced="schema")


def _found(reply: Assistant, form: Json) -> Found | None:
    text = reply.text.lstrip()
    whole = json_at(text)
    if whole:
        value, end = whole
        is_repeated = text[end:].rstrip() in text[:end]
        if is_repeated and _fits(value, form):
            return Found(value, text[:end])
        return None
    if len(reply.tool_calls) == 1:  # the parser may have taken the form for a call
        value = reply.tool_calls[0].arguments
        return Found(value, json_text(value)) if _fits(value, form) else None
    value = _beginning(text)
    return Found(value, text, is_lost=True) if _fits(value, form, is_lost=True) else None


def _fits(value: Any, form: Json, *, is_lost: bool = False) -> bool:
    """Has a value the form, as far as its keys say? With `is_lost`, keys may be missing."""
    if form == TEXT:
        return isinstance(value, str)
    if not isinstance(value, dict):
        return False
    keys: set[str] = set(form.get("properties", {}))
    return value.keys() == keys or (is_lost and value.keys() < keys)


def _beginning(text: str) -> Any:
    """The JSON value that a text begins, as far as it goes; None if it begins none."""
    try:
        return pydantic_core.from_json(text, allow_partial="trailing-strings")
    except ValueError:
        return None


# Streaming.


class FormReader:
    """Makes what a watcher may see of a form, while it arrives. A reply that does not begin like
    the form is passed on as it is.
    """

    def __init__(self, request: Request, form: Json) -> None:
        self._form = form
        self._is_thought = request.tool_choice != "none"
        self._reader: CallReader | StringReader | None = None
        self._has_begun = False

    def feed(self, delta: Delta) -> Iterator[Delta]:
        """The Deltas of the next Delta of the reply."""
        if delta.kind == "call":
            yield self._call(delta)
        elif delta.kind != "answer":
            yield delta
        elif self._has_begun or delta.text.strip():
            if not self._has_begun:
                self._begin(delta.text.strip()[0])
            if self._reader is None:
                yield delta
            else:
                yield from self._reader.feed(delta.text)

    def _begin(self, sign: str) -> None:
        self._has_begun = True
        if sign == '"' and self._form == TEXT:
            self._reader = StringReader()
        elif sign == "{" and self._is_thought:
            self._reader = CallReader(THINK_NAME)

    def _call(self, delta: Delta) -> Delta:
        """A call, or the thought that the server has taken for one."""
        value = json_value(delta.text)
        if self._is_thought and _fits(value, self._form):
            return Delta("thought", str(value[CARRIED]), THINK_NAME)
        return delta

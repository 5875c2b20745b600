"""Forms: a reply under a JSON schema, where the server honors no tool choice (Ollama, llama.cpp).

Rule 1: a forced thought is asked for as the arguments of `think`, and the closing reply as a JSON
        string or in the schema of its answer. The tools stay, so the prompt does not change.
Rule 2: a thought has the exit signal only if an action ran since the person spoke. A small model
        says "false" in half of its opening thoughts, and that would end the turn at once.
Rule 3: a server may ignore a form, so a reply is read by what came (`read_form`). A thought in its
        form becomes a call of `think`, a string the text in it. Anything else stays as it is.
Rule 4: a forced thought is bounded, or a small model would fill its reply with it. One that was cut
        at its bound says so in a notice.
Rule 5: what a server's parser does to a form is undone. It may take a thought for a call of
        whatever tool is named in it, write a part of the reply twice, or lose the end of it.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, NamedTuple

import pydantic_core

from ..messages import THINK_NAME, Assistant, Force, Json, Spoken, ToolCall, ToolResult, User
from ..model import Request
from ..streaming import Delta
from ..text import json_text
from .json_reading import json_at
from .pieces import CallReader, JsonReader

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
                return _shape_thought(tool.parameters, with_signal=has_acted(request.messages))
    return None


def has_acted(messages: Sequence[Spoken]) -> bool:
    """Did an action run since the person spoke?"""
    for message in reversed(messages):
        match message:
            case User(kind="person"):
                return False
            case ToolResult(name=name, refused="") if name != THINK_NAME:
                return True
    return False


def has_ignored(messages: Sequence[Spoken], host: str) -> bool:
    """Did a reply from `host` ignore its tool choice?"""
    for message in messages:
        match message:
            case Assistant(enforced="ignored") if message.host == host:
                return True
    return False


def _shape_thought(parameters: Json, *, with_signal: bool) -> Json:
    properties = {}
    for name, part in parameters["properties"].items():
        if name == SIGNAL and not with_signal:
            continue
        if part.get("type") == "string" and "enum" not in part:
            part = {"minLength": 1, "maxLength": LONGEST_THOUGHT, **part}
        properties[name] = part
    return {**parameters, "properties": properties, "required": list(properties)}


# Reading.


class Found(NamedTuple):
    """The value in a reply, None if there is none, and its JSON. `is_lost`: the end is missing."""

    value: Any
    text: str = ""
    is_lost: bool = False

    def fits(self, form: Json) -> bool:
        """Has the value the form, as far as its keys say? Some may be missing if the end is."""
        if form == TEXT:
            return isinstance(self.value, str)
        if not isinstance(self.value, dict):
            return False
        keys: set[str] = set(form.get("properties", {}))
        if self.is_lost:
            return self.value.keys() <= keys
        return self.value.keys() == keys


def read_form(reply: Assistant, request: Request, form: Json) -> Assistant:
    """`reply` to a request for a form as what it means (rules 3 to 5)."""
    is_thought = request.tool_choice != "none"
    found = _found(reply)
    if not found.fits(form):
        return replace(reply, enforced="ignored" if reply.is_usable else None)
    if found.is_lost and reply.is_usable:  # else the server has said why it is cut
        reason = "malformed" if is_thought else "incomplete"
        reply = replace(reply, stop_reason=reason, mistake=LOST, cause=LOST)

    text = found.text
    calls: tuple[ToolCall, ...] = ()
    if is_thought:
        text = ""
        calls = (ToolCall("", THINK_NAME, found.value),)
        if reply.is_usable:
            reply = replace(reply, stop_reason="tool_use")
        for length in _cut_lengths(found.value, form):
            reply = with_notice(reply, f"the forced thought was cut at {length} characters")
    elif isinstance(found.value, str):
        text = found.value
    native = {**reply.native, "content": text}
    native.pop("tool_calls", None)  # they are made of `tool_calls`
    return replace(reply, text=text, tool_calls=calls, native=native, enforced="schema")


def _found(reply: Assistant) -> Found:
    text = reply.text.lstrip()
    whole = json_at(text)
    if whole:
        value, end = whole
        if text[end:].rstrip() in text[:end]:  # nothing, or a part that was written twice
            return Found(value, text[:end])
    elif len(reply.tool_calls) == 1:  # the parser may have taken the form for a call
        value = reply.tool_calls[0].arguments
        return Found(value, json_text(value))
    else:
        with suppress(ValueError):
            value = pydantic_core.from_json(text, allow_partial="trailing-strings")
            return Found(value, text, is_lost=True)
    return Found(None)


def _cut_lengths(thought: Json, form: Json) -> Iterator[int]:
    """The lengths at which texts of a thought were cut. The sampler ends a text there, wherever in
    a sentence it is.
    """
    for name, part in form["properties"].items():
        length = part.get("maxLength")
        text = thought.get(name)
        if length is None or not isinstance(text, str):
            continue
        if len(text) >= length and not text.endswith((".", "!", "?")):
            yield length


def with_notice(reply: Assistant, notice: str) -> Assistant:
    """`reply` with another notice."""
    notices = [text for text in (reply.notice, notice) if text]
    return replace(reply, notice="; ".join(notices))


# Streaming.


class FormReader:
    """Makes what a watcher may see of a form, while it arrives. A text that does not begin like the
    form is passed on as it is. A call is not shown before the reply has been read.
    """

    _first = ""  # the first character of the reply

    def __init__(self, request: Request, form: Json) -> None:
        self._form = form
        self._is_thought = request.tool_choice != "none"
        self._call = CallReader(THINK_NAME)
        self._string = JsonReader()

    def feed(self, delta: Delta) -> list[Delta]:
        """The Deltas of the next Delta of the reply."""
        if delta.kind == "call":  # the server may have taken the thought for one
            return []
        if delta.kind != "answer":
            return [delta]

        if not self._first:
            self._first = delta.text.strip()[:1]
        if not self._first:
            return []
        if self._first == "{" and self._is_thought:
            return self._call.feed(delta.text)
        if self._first == '"' and self._form == TEXT:
            return [Delta("answer", text) for _, text in self._string.feed(delta.text)]
        return [delta]

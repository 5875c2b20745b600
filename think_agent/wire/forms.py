"""Forms: a JSON schema for the reply, where the server ignores tool choices (Ollama, llama.cpp).

Rule 1: for a forced thought the schema is the arguments of `think`; for the closing reply it's a
        JSON string or the answer's schema. The tools stay in the request, so the prompt doesn't
        change.
Rule 2: the thought has the exit signal only if an action has run since the person spoke. A small
        model writes "false" in half of its opening thoughts, which would end the turn at once.
Rule 3: a server may ignore the schema, so the actual reply decides (`read_form`). A thought in the
        form becomes a call of `think`, a string becomes text. Anything else stays unchanged.
Rule 4: a forced thought has a maximum length, or a small model would fill its reply with it. If it
        was cut there, a notice says so.
Rule 5: a server's parser may damage the reply, which is undone here: it may turn a thought into a
        call of a tool that's named in it, write a part twice, or lose the end.
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
    """The schema that enforces the tool choice of `request`. None if no schema can."""
    if request.tool_choice == "none" and request.tools:
        return request.output_schema or TEXT
    if request.tool_choice == Force(THINK_NAME):
        for tool in request.tools:
            if tool.name == THINK_NAME:
                return _shape_thought(tool.parameters, with_signal=has_acted(request.messages))
    return None


def has_acted(messages: Sequence[Spoken]) -> bool:
    """Has an action run since the person spoke?"""
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
    """The value in a reply (None if there is none) and its JSON. `is_lost`: the end is missing."""

    value: Any
    text: str = ""
    is_lost: bool = False

    def fits(self, form: Json) -> bool:
        """Does the value match the form, judging by its keys? Some may be missing with the end."""
        if form == TEXT:
            return isinstance(self.value, str)
        if not isinstance(self.value, dict):
            return False
        keys: set[str] = set(form.get("properties", {}))
        if self.is_lost:
            return self.value.keys() <= keys
        return self.value.keys() == keys


def read_form(reply: Assistant, request: Request, form: Json) -> Assistant:
    """Interpret `reply` to a request with a form (rules 3 to 5)."""
    is_thought = request.tool_choice != "none"
    found = _found(reply)
    if not found.fits(form):
        return replace(reply, enforced="ignored" if reply.is_usable else None)
    if found.is_lost and reply.is_usable:  # otherwise the server has said why it's cut off
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
    native.pop("tool_calls", None)  # rebuilt from `tool_calls`
    return replace(reply, text=text, tool_calls=calls, native=native, enforced="schema")


def _found(reply: Assistant) -> Found:
    text = reply.text.lstrip()
    whole = json_at(text)
    if whole:
        value, end = whole
        if text[end:].rstrip() in text[:end]:  # nothing, or a part written twice
            return Found(value, text[:end])
    elif len(reply.tool_calls) == 1:  # the parser may have turned the form into a call
        value = reply.tool_calls[0].arguments
        return Found(value, json_text(value))
    else:
        with suppress(ValueError):
            value = pydantic_core.from_json(text, allow_partial="trailing-strings")
            return Found(value, text, is_lost=True)
    return Found(None)


def _cut_lengths(thought: Json, form: Json) -> Iterator[int]:
    """The lengths at which texts of a thought were cut, possibly in the middle of a sentence."""
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
    """Turns a form into Deltas as it arrives. A text that doesn't begin like the form is passed on.
    A call isn't shown until the reply has been read.
    """

    _first = ""  # the first character of the reply

    def __init__(self, request: Request, form: Json) -> None:
        self._form = form
        self._is_thought = request.tool_choice != "none"
        self._call = CallReader(THINK_NAME)
        self._string = JsonReader()

    def feed(self, delta: Delta) -> list[Delta]:
        """The Deltas to show for the reply's next Delta."""
        if delta.kind == "call":  # the server may have turned the thought into one
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

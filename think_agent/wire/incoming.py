"""The one way in: what a provider sent becomes a reply of ours, and pieces of it become Deltas.

Rule 1: a reply enters by `checked_reply` and a Delta by `checked_delta`. Behind them texts are
        well-formed texts, arguments are an object of finite JSON or raw text, and calls have names.
Rule 2: only a reply that is known to be whole is one (`ended`): a reason that nobody has heard of
        ends half a reply.
"""

import json
from dataclasses import replace
from typing import Any

from ..messages import Assistant, Json, ToolCall
from ..streaming import Delta, whole_call
from ..text import json_text, well_formed
from .json_reading import json_object, json_value

TEXTS = ("text", "thinking", "commentary", "stop_reason", "model", "mistake", "cause")
ASKS_FOR_TOOLS = ("tool_calls", "function_call", "tool_use")  # as reasons to end
WHOLE = ("end_turn", "stop_sequence")  # how a reply ends whose calls are meant


class ErrorAnswer(Exception):
    """The provider says, inside an HTTP 200, that something is wrong. Its argument is the JSON."""


def checked_delta(delta: Delta) -> Delta:
    """`delta` with well-formed texts. AttributeError when they are none."""
    return replace(delta, text=well_formed(delta.text), name=well_formed(delta.name))


def checked_reply(reply: Assistant) -> Assistant:
    """`reply` as `messages.py` promises it. AttributeError when a text in it is none. What a model
    may have written is repaired: lone surrogates, numbers that JSON does not have, and arguments
    nested too deeply. A native form with any of these is dropped.
    """
    texts: Json = {name: well_formed(getattr(reply, name)) for name in TEXTS}
    calls = tuple([_checked_call(call) for call in reply.tool_calls])
    written = json.dumps(reply.native)
    native = json_value(written)
    if json.dumps(native) != written:  # what was signed must not be changed
        native = None
    return replace(reply, **texts, tool_calls=calls, native=native)


def _checked_call(call: ToolCall) -> ToolCall:
    """Arguments with NaN or Infinity in them, or nested too deeply, become raw text. The model gets
    to read that they are no object.
    """
    if not call.name:
        raise AttributeError("a call in it has no name")
    written = call.arguments
    if isinstance(written, dict):
        written = json_text(written)
    arguments = json_object(well_formed(written))
    return replace(call, id=well_formed(call.id), name=well_formed(call.name), arguments=arguments)


def ended(reason: Any, reasons: dict[str, str], calls: object) -> Json:
    """How a reply ended, as fields of it. Its calls are meant only where `reasons` has a whole
    reply for the reason; any other reason ends half a reply.
    """
    if reason in ASKS_FOR_TOOLS and not calls:  # the server announces a call that is not there
        return {"stop_reason": "malformed"}
    stop_reason = reasons.get(str(reason))
    if stop_reason is None:
        return {
            "stop_reason": "incomplete",
            "cause": f"the server stopped before the end; its reason: {reason}",
        }
    if calls and stop_reason in WHOLE:
        stop_reason = "tool_use"
    return {"stop_reason": stop_reason}


def first_choice(choices: list[Json]) -> Json:
    """The choice of index 0: one reply is one choice, however many a server sends."""
    for choice in choices:
        if not choice.get("index"):
            return choice
    return {}


def arguments_of(value: Any) -> Json | str:
    """Arguments as an object, however they came; as text when they are none."""
    if isinstance(value, dict):
        return value
    if not value or value == "null":  # Groq's word for no arguments
        return {}
    return json_object(value)


def deltas_of(part: Assistant, first: int = 0) -> list[Delta]:
    """What a watcher may see of a part of a reply; its calls are counted from `first`."""
    deltas = [Delta("thinking", part.thinking), Delta("answer", part.text)]
    deltas = [delta for delta in deltas if delta.text]
    for number, call in enumerate(part.tool_calls, first):
        deltas += whole_call(call.name, call.arguments, number)
    return deltas

"""The one way in: what a provider sent becomes a reply of ours, and pieces of it become Deltas.

Rule 1: a reply enters by `checked_reply` and a Delta by `checked_delta`. Behind them texts are
        well-formed texts, and arguments are an object of finite JSON or raw text.
Rule 2: only a reply that is known to be whole is one (`ended`): a reason that nobody has heard of
        ends half a reply.
"""

import json
from dataclasses import replace
from typing import Any, cast

from ..messages import WHOLE, Assistant, Json, from_json, to_json
from ..streaming import Delta, whole_call
from ..text import json_text, well_formed
from .json_reading import json_value

ASKS_FOR_TOOLS = ("tool_calls", "function_call", "tool_use")  # as reasons to end


class ErrorAnswer(Exception):
    """The provider says, inside an HTTP 200, that something is wrong. Its argument is the JSON."""


def checked_delta(delta: Delta) -> Delta:
    """`delta` with well-formed texts. AttributeError when they are none."""
    return replace(delta, text=well_formed(delta.text), name=well_formed(delta.name))


def checked_reply(reply: Assistant) -> Assistant:
    """`reply` as `messages.py` promises it. ValueError when a field of it is of another type. Lone
    surrogates, which a model may write, are repaired. A native form with one of these, with a
    number that JSON does not have, or nested too deeply, is dropped: it may be signed as it was.
    """
    written = json.dumps(reply.native)
    native = json_value(written)
    if json.dumps(native) != written:
        native = None
    whole = json_value(json_text(to_json(replace(reply, native=native))))
    return cast(Assistant, from_json(whole))


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


def arguments_of(value: Json | str | None) -> Json | str:
    """Arguments as an object, however they came; as text when they are none. So are those with NaN
    or Infinity in them, or nested too deeply: the model gets to read that they are no object.
    """
    if not value or value == "null":  # Groq's word for no arguments
        return {}
    if isinstance(value, dict):
        value = json_text(value)
    found = json_value(value)
    if isinstance(found, dict):
        return found
    return value


def deltas_of(part: Assistant, first: int = 0) -> list[Delta]:
    """What a watcher may see of a part of a reply; its calls are counted from `first`."""
    deltas = [Delta("thinking", part.thinking), Delta("answer", part.text)]
    deltas = [delta for delta in deltas if delta.text]
    for number, call in enumerate(part.tool_calls, first):
        deltas += whole_call(call.name, call.arguments, number)
    return deltas

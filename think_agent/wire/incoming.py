"""The one way in: what a provider sent becomes a reply of ours, and pieces of it become Deltas.

Rule 1: a reply enters by `checked_reply` and a Delta by `checked_delta`. Behind them texts are
        well-formed texts, arguments are an object of finite JSON or raw text, and calls have names.
Rule 2: only a reply that is known to be whole is one (`ended`): a reason that nobody has heard of
        ends half a reply.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from ..messages import Assistant, Json, ToolCall
from ..streaming import Delta, whole_call
from ..text import json_text, well_formed
from .json_reading import MAX_DEPTH, is_deeper, json_object

TEXTS = ("text", "thinking", "commentary", "stop_reason", "model", "mistake", "cause")
ASKS_FOR_TOOLS = ("tool_calls", "function_call", "tool_use")  # as reasons to end
WHOLE = ("end_turn", "stop_sequence")  # how a reply ends whose calls are meant


class ErrorAnswer(Exception):
    """The provider says, inside an HTTP 200, that something is wrong. Its argument is the JSON."""


def checked_delta(delta: Delta) -> Delta:
    """`delta` with a well-formed text. TypeError when it holds none."""
    if not isinstance(delta.text, str) or not isinstance(delta.name, str):
        raise TypeError("a piece of it is no text")
    text = well_formed(delta.text)
    return delta if text is delta.text else replace(delta, text=text)


def checked_reply(reply: Assistant) -> Assistant:
    """`reply` as `messages.py` promises it. TypeError when a part of it is not of its type. What a
    model may have written is repaired: lone surrogates, numbers that JSON does not have, and
    arguments nested too deeply.
    """
    parts = [getattr(reply, name) for name in TEXTS]
    for name, text in zip(TEXTS, parts, strict=True):
        if not isinstance(text, str):
            raise TypeError(f"its {name} is no text")
    parts.append(reply.native)
    for call in reply.tool_calls:
        _check_call(call)
        parts += [call.id, call.name, call.arguments]
    if _is_sound(parts):
        return reply
    return _repaired(reply)


def _check_call(call: ToolCall) -> None:
    if not isinstance(call.id, str):
        raise TypeError("a call in it has an id that is no text")
    if not isinstance(call.name, str) or not call.name:
        raise TypeError("a call in it has no name")
    if not isinstance(call.arguments, dict | str):
        raise TypeError("a call in it has arguments that are no object")


def _is_sound(parts: list[Any]) -> bool:
    """Can all of it be written to a file, and sent? This is quick, for most replies can."""
    try:
        text = json.dumps(parts, ensure_ascii=False, allow_nan=False)
        text.encode()
    except ValueError:  # NaN, or (as UnicodeEncodeError) a lone surrogate
        return False
    return text.count("{") + text.count("[") <= MAX_DEPTH  # so it is not nested any deeper


def _repaired(reply: Assistant) -> Assistant:
    changes: Json = {name: well_formed(getattr(reply, name)) for name in TEXTS}
    changes["tool_calls"] = tuple(_repaired_call(call) for call in reply.tool_calls)
    native = _as_sent(reply.native)
    is_signed = reply.signed and native is not None
    return replace(reply, **changes, native=native, signed=is_signed)


def _as_sent(native: Any) -> Any:
    """`native` with the halves of characters joined. None where it holds what cannot be sent or
    kept: a changed copy is of no use, for a signature would no longer fit.
    """
    try:
        native = json.loads(json.dumps(native, allow_nan=False))
        json_text(native).encode()
    except ValueError:  # NaN, or (as UnicodeEncodeError) a lone surrogate
        return None
    return None if is_deeper(native, MAX_DEPTH) else native


def _repaired_call(call: ToolCall) -> ToolCall:
    """Arguments with NaN or Infinity in them, or nested too deeply, become raw text. The model gets
    to read that they are no object.
    """
    arguments: Json | str = call.arguments
    if isinstance(arguments, dict):
        arguments = json_object(well_formed(json_text(arguments)))
    else:
        arguments = well_formed(arguments)
    return replace(call, id=well_formed(call.id), name=well_formed(call.name), arguments=arguments)


def ended(reason: Any, reasons: Mapping[str, str], calls: object) -> Json:
    """How a reply ended, as fields of it. Its calls are meant only where `reasons` has a whole
    reply for the reason; any other reason ends half a reply.
    """
    if reason in ASKS_FOR_TOOLS and not calls:  # the server announces a call that is not there
        return {"stop_reason": "malformed"}
    stop_reason = reasons.get(str(reason))
    if stop_reason is None:
        cause = "the server stopped before the end and gave no reason"
        if reason:
            cause = f"the server stopped before the end: {reason}"
        return {"stop_reason": "incomplete", "cause": cause}
    if calls and stop_reason in WHOLE:
        return {"stop_reason": "tool_use"}
    return {"stop_reason": stop_reason}


def worse(before: str | None, now: str | None, reasons: Mapping[str, str]) -> str | None:
    """Which of two reasons to end counts that one stream gave: the one for half a reply stays, or
    else the last one.
    """
    if before is None:
        return now or None
    if now and reasons.get(str(before)) in WHOLE:
        return now
    return before


def first_choice(choices: Iterable[Json]) -> Json:
    """The choice of index 0: one reply is one choice, however many a server sends."""
    for choice in choices:
        if not choice.get("index"):
            return choice
    return {}


def arguments_of(value: Any) -> Json | str:
    """Arguments as an object, however they came; as text when they are none."""
    if not value or value == "null":  # Groq's word for no arguments
        return {}
    return json_object(value if isinstance(value, str) else json_text(value))


def deltas_of(part: Assistant, first: int = 0) -> list[Delta]:
    """What a watcher may see of a part of a reply; its calls are counted from `first`."""
    deltas: list[Delta] = []
    if part.thinking:
        deltas.append(Delta("thinking", part.thinking))
    if part.text:
        deltas.append(Delta("answer", part.text))
    for number, call in enumerate(part.tool_calls, first):
        deltas += whole_call(call.name, call.arguments, number)
    return deltas

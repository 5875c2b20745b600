"""Incoming replies: what a provider sent becomes a reply of ours, and pieces of it become Deltas.

Rule 1: every reply passes `checked_reply`, and every Delta `checked_delta`. After that, texts are
        well-formed, and arguments are an object of finite JSON or raw text.
Rule 2: a reply is whole unless its stop reason is known to mean something else (`ended`). One with
        an unknown reason, or with none, is whole if its calls can be read and its tokens are
        counted. A stream that ends before its end is not (`BROKEN_OFF`).
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

from ..messages import COMPLETE, THINK_NAME, Assistant, Json, ToolCall, Usage, from_json, to_json
from ..streaming import Delta
from ..text import json_text, well_formed
from ..think import thought
from .json_reading import json_value, read_back

ASKS_FOR_TOOLS = ("tool_calls", "tool_call", "tool_use")  # stop reasons
BROKEN_OFF = "none, for the stream broke off"  # the reason that a Fold gives where no end has come
REASONING_ASKED = "reasoning_extraction"  # Anthropic's category
ASK_FOR_NOTES = "the instructions ask for the model's reasoning; ask for working notes instead"
WHOLE = ("id", "type", "role", "name", "format")  # fields that do not come in pieces


class ErrorAnswer(Exception):
    """The provider reports an error inside an HTTP 200. The argument is its JSON."""


def checked_delta(delta: Delta) -> Delta:
    """`delta` with well-formed texts. Raises AttributeError if they are not texts."""
    return replace(delta, text=well_formed(delta.text), name=well_formed(delta.name))


def checked_reply(reply: Assistant, **more: str | None) -> Assistant:
    """`reply` as `messages.py` promises it, with `more` fields. Raises ValueError if a field has
    another type. Lone surrogates, which a model may write, are replaced. A native form that has one
    is dropped: to repair it could break its signature. So is one that is nested too deeply, or has
    a number that JSON does not have.
    """
    record = to_json(reply) | more  # rule 1
    try:
        record = read_back(record, lone="strict")
    except (ValueError, RecursionError):
        record.pop("native", None)
        record = read_back(record)
    return cast(Assistant, from_json(record))


def ended(
    calls: Sequence[ToolCall], usage: Usage, reason: Any, reasons: Json, *why: str | None
) -> Json:
    """How a reply with these calls and this usage ended, as fields of it. `reasons` says what each
    known stop reason means. The calls of an incomplete reply may not run. `why` it was refused: the
    provider's category and words, as far as it gives them.
    """
    if reason in ASKS_FOR_TOOLS and not calls:  # the server announces a call that is not there
        return {"stop_reason": "malformed"}
    unknown = "end_turn" if _is_complete(calls, usage, reason) else "incomplete"
    stop_reason = reasons.get(str(reason), unknown)
    cause = ""
    if stop_reason == "incomplete":
        cause = f"the server stopped before the end; its reason: {reason}"
    elif stop_reason == "refusal":
        cause = ": ".join(filter(None, why)) or str(reason)
        if REASONING_ASKED in cause:
            cause = f"{ASK_FOR_NOTES} ({cause})"
    elif calls and stop_reason in COMPLETE:
        stop_reason = "tool_use"
    return {"stop_reason": stop_reason, "cause": cause}


def _is_complete(calls: Sequence[ToolCall], usage: Usage, reason: Any) -> bool:
    """Did the whole reply come, whose stop reason does not tell (rule 2)?"""
    if reason == BROKEN_OFF or usage == Usage():
        return False
    return all(isinstance(call.arguments, dict) for call in calls)


def first_choice(choices: list[Json] | None) -> Json:
    """The choice with index 0: one reply is one choice, however many a server sends."""
    for choice in choices or ():
        if not choice.get("index"):
            return choice
    return {}


def arguments_of(value: Json | str | None) -> Json | str:
    """Arguments as an object, in whatever form they came. They stay text if they are not an object,
    contain NaN or Infinity, or are nested too deeply: then the model reads that they are invalid.
    """
    if not value or value == "null":  # as Groq writes that there are no arguments
        return {}
    if isinstance(value, dict):
        try:
            return cast(Json, read_back(value))
        except (ValueError, RecursionError):
            return json_text(value)
    found = json_value(value)
    if isinstance(found, dict):
        return found
    return value


def deltas_of(part: Assistant, first: int = 0) -> list[Delta]:
    """What a watcher may see of a part of a reply. Its calls are numbered from `first` on."""
    deltas = [
        Delta("thinking", part.thinking),
        Delta("commentary", part.commentary),
        Delta("answer", part.text),
    ]
    deltas = [delta for delta in deltas if delta.text]
    for number, call in enumerate(part.tool_calls, first):
        deltas.append(whole_call(call, number))
    return deltas


def whole_call(call: ToolCall, index: int) -> Delta:
    """The Delta of a call that arrived in one piece."""
    if call.name == THINK_NAME and isinstance(call.arguments, dict):
        return Delta("thought", thought(call), call.name, index)
    arguments = call.arguments
    if not isinstance(arguments, str):
        arguments = json_text(arguments)
    return Delta("call", arguments, call.name, index)


def count(usage: Any, *path: str) -> int:
    """The number of tokens at `path` in a provider's `usage`; 0 if there is none."""
    try:
        for key in path:
            usage = usage[key]
        return int(usage)
    except (LookupError, TypeError, ValueError, OverflowError):
        return 0


def openai_usage(usage: Any, input: str, output: str) -> Usage:
    """The usage of both of OpenAI's APIs, which differ in the names of two fields."""
    details = f"{input}_tokens_details"
    return Usage(
        input_tokens=count(usage, f"{input}_tokens"),
        output_tokens=count(usage, f"{output}_tokens"),
        cached_tokens=count(usage, details, "cached_tokens"),
        written_tokens=count(usage, details, "cache_write_tokens"),
        reasoning_tokens=count(usage, f"{output}_tokens_details", "reasoning_tokens"),
    )


def text_of(content: Any, kind: str = "text") -> str:
    """The text of a content. If that is a list of parts, the text of those of a `kind`."""
    if not isinstance(content, list):
        return content or ""
    return "".join([text_of(part.get(kind)) for part in content])


def joined(pieces: list[Json]) -> Json:
    """A message, or a part of one, made of its pieces in a stream."""
    fields: defaultdict[str, list[Any]] = defaultdict(list)
    for piece in pieces:
        for key, value in piece.items():
            fields[key].append(value)
    return {key: _joined(key, values) for key, values in fields.items()}


def _joined(key: str, values: list[Any]) -> Any:
    """Names and ids are whole in the first piece. Texts, lists and objects are joined. Of anything
    else the last value counts. (Mistral sends its thoughts as a list of parts, then the answer as a
    text.)
    """
    if key in WHOLE:
        return values[0]
    if isinstance(values[0], dict):
        return joined(values)
    text = ""
    parts = []
    for value in values:
        if isinstance(value, str):
            text += value
        elif isinstance(value, list):
            parts += value
    if not parts:
        return text or values[-1]
    if text:
        parts.append({"type": "text", "text": text})
    return parts

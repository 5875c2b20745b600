"""Ollama's native API, `/api/chat`.

Rule 1: no tool choice is sent, because Ollama has none. A form replaces it (`forms.py`), next to
        the tools.
Rule 2: if the model may call a tool, no schema is sent: under a schema it can't call any.
Rule 3: nothing is cut silently. `truncate` is false, so a prompt that's too long is an error.
        `shift` is false, so a reply stops at the end of the window; by default the server drops the
        beginning of the prompt in the middle of a reply. Both are in every request, because another
        value of `shift` loads the model again. (Servers from before 2025-10 ignore them.)
Rule 4: content is text, never null. Everything else is sent unchanged, except for limits of a chat
        template. `text_hides_calls`: it shows a message's calls only if there is no text, so the
        text is left out. `short_ids`: it needs ids of nine letters and digits. `one_call`: it
        allows one call per message, so a reply with more becomes several messages, each followed by
        its result.
"""

from typing import Any

from ..messages import Assistant, Json, Usage
from ..model import Request
from ..streaming import Delta
from .chat import drop_repeated_calls, read_function_calls, write_messages
from .counts import read_count, read_first_count
from .incoming import (
    add_stop_reason,
    find_error_object,
    get_or_empty,
    make_deltas,
    merge_pieces,
    require_key,
)
from .outgoing import describe_function, drop_empty
from .settings import Settings

NAME = "ollama"
PATH = "/api/chat"
KEYS = ("done",)  # a response, or an event of it, has one of them
STREAMED = {"stream": True}
STOPPED = "none; usually the model has repeated itself"
REASONS = {
    "stop": "end_turn",
    "length": "max_tokens",
    "swallowed": "malformed",  # our own: there were tokens, but the server's parser left nothing
    STOPPED: "incomplete",
}


def to_wire(
    request: Request,
    model: str,
    settings: Settings,
    *,
    num_ctx: int,
    host: str,
    keep_alive: str | float | None = None,
    think: str | None = None,
    text_hides_calls: bool = False,
    short_ids: bool = False,
    one_call: bool = False,
) -> Json:
    """The body of a request. `think`: one of Ollama's own levels instead of
    `settings.reasoning`.
    """
    messages = write_messages(request, NAME, host, short_ids)
    if text_hides_calls:
        for message in messages:  # messages with calls are new dicts
            if "tool_calls" in message:
                message["content"] = ""
    if one_call:
        messages = _one_call_each(messages)

    level: Any = think or settings.reasoning
    schema = request.output_schema
    if request.tools and request.tool_choice == "auto":
        schema = None
    return drop_empty(
        model=model,
        messages=messages,
        options=drop_empty(
            num_ctx=num_ctx,
            num_predict=settings.output_of(request),
            temperature=settings.temperature,
            seed=settings.seed,
        ),
        stream=False,  # the default is true
        truncate=False,
        shift=False,
        keep_alive=keep_alive,
        think={"off": False}.get(level, level),
        tools=[
            {"type": "function", "function": describe_function(tool, False)}
            for tool in request.tools
        ],
        format=schema,
    )


def _one_call_each(messages: list[Json]) -> list[Json]:
    """Each reply with several calls as several replies, each followed by its result."""
    split = []
    rest = iter(messages)
    for message in rest:
        calls = message.get("tool_calls", ())
        if not calls:
            split.append(message)
        for call in calls:  # their results follow in the same order
            split += [{**message, "tool_calls": [call]}, next(rest)]
            message = {"role": "assistant", "content": ""}  # the text was in the first one
    return split


def find_error(response: Json) -> Any:
    """The error in a response with status 200; None if there is none."""
    return find_error_object(response)


def read_usage(response: Json) -> Usage:
    """The tokens of a response."""
    return Usage(
        read_first_count(response, ("prompt_eval_count",), ("usage", "prompt_tokens")),
        read_first_count(response, ("eval_count",), ("usage", "completion_tokens")),
        read_count(response, "prompt_eval_cached_count"),
    )


def from_wire(response: Json) -> Assistant:
    """The reply in a response."""
    require_key(response, "message")
    message = drop_repeated_calls(get_or_empty(response, "message", dict))
    reply = Assistant(
        get_or_empty(message, "content", str),
        get_or_empty(message, "thinking", str),
        read_function_calls(message),
        usage=read_usage(response),
        model=get_or_empty(response, "model", str),
        native={"role": "assistant", "content": "", **drop_empty(**message)},
    )
    reason = response.get("done_reason") or "stop"
    is_empty = not (reply.text.strip() or reply.tool_calls)
    if is_empty and reply.usage.output_tokens > 1 and reason == "stop":
        reason = "swallowed"
    if not response.get("done"):
        reason = STOPPED
    return add_stop_reason(reply, reason, REASONS)


class Fold:
    """Accumulates a stream's chunks into one response. Text and thinking come in pieces; calls
    aren't split.
    """

    ended = False
    _calls = 0

    def __init__(self) -> None:
        self._pieces: list[Json] = []  # of the message
        self._last: Json = {}

    def feed(self, event: Json) -> list[Delta]:
        self._last = event
        message = get_or_empty(event, "message", dict)
        self._pieces.append(drop_empty(**message))
        self.ended = event.get("done", False)
        part = from_wire({**event, "message": message})
        deltas = make_deltas(part, self._calls)
        self._calls += len(part.tool_calls)
        return deltas

    def result(self) -> Json:
        return {**self._last, "message": merge_pieces(self._pieces)}

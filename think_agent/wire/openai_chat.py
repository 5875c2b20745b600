"""OpenAI's Chat Completions, also used by vLLM, llama.cpp, LM Studio, OpenRouter and DeepSeek.

Rule 1: a reply calls tools if it has calls. Its `finish_reason` isn't enough: it's "stop" after a
        forced call.
Rule 2: a reply goes back unchanged, with its reasoning. Only what servers refuse is repaired:
        missing call ids, arguments that aren't JSON, nulls and empty lists, an answer that the
        server has parsed.
Rule 3: a reply is the first choice, however many a server sends. But if it announces calls and has
        none, they are those of the next choice that has some (Copilot, with Claude).
"""

from collections import defaultdict
from typing import Any

from ..messages import Assistant, Force, Json, Usage
from ..model import Request
from ..streaming import Delta
from ..text import json_text
from .calls import CallAssembler
from .chat import drop_repeated_calls, read_function_calls, write_messages
from .counts import merge_counts, read_openai_usage
from .incoming import (
    STREAM_BROKE_OFF,
    TOOL_STOP_REASONS,
    add_stop_reason,
    extract_text,
    find_error_object,
    find_meaning,
    first_choice,
    get_or_empty,
    make_deltas,
    merge_pieces,
    require_key,
)
from .outgoing import describe_function, drop_empty, select_choice
from .settings import Settings

NAME = "openai"
PATH = "/chat/completions"
KEYS = ("choices", "usage", "base_resp")  # a response, or an event of it, has one of them
STREAMED = {"stream": True, "stream_options": {"include_usage": True}}
STOPPED = {
    "stop": "end_turn",
    "tool_calls": "end_turn",
    "length": "max_tokens",
    "model_length": "max_tokens",
    "content_filter": "refusal",
    "error": "incomplete",
    "abort": "incomplete",  # vLLM, SGLang
    "insufficient_system_resource": "incomplete",  # DeepSeek
}
# MiniMax sends errors inside an HTTP 200, with a number. These aren't the server's fault; here they
# get OpenAI's names (from its page of error codes, read 2026-11-29).
MINIMAX_CODES = {
    1002: "rate_limit_exceeded",
    1004: "invalid_api_key",
    1008: "insufficient_quota",  # the balance is used up
    1026: "content_policy_violation",  # in the request
    1027: "content_policy_violation",  # in the reply
    1039: "rate_limit_exceeded",  # of tokens
    1041: "rate_limit_exceeded",  # of connections
    1042: "invalid_request_error",  # too many invisible characters
    2013: "invalid_request_error",
    2045: "rate_limit_exceeded",  # more requests too suddenly
    2049: "invalid_api_key",
    2056: "insufficient_quota",  # of five hours
}


def to_wire(
    request: Request,
    model: str,
    settings: Settings,
    *,
    strict: bool,
    max_name: str = "max_tokens",
    short_ids: bool = False,
    host: str,
) -> Json:
    """The body of a request. `max_name`: the server's name for the output limit; OpenAI's is
    `max_completion_tokens`. `short_ids`: call ids have nine letters and digits, as Mistral
    requires.
    """
    effort: str | None = settings.reasoning
    if effort == "off":
        effort = "none"
    form: Json = {}
    if request.output_schema is not None:
        form = {
            "type": "json_schema",
            "json_schema": {"name": "answer", "schema": request.output_schema, "strict": True},
        }
    choice: Any = select_choice(request)
    if isinstance(choice, Force):
        choice = {"type": "function", "function": {"name": choice.name}}
        if form:  # this forces the call instead (`forms.py`)
            choice = None
    return drop_empty(
        model=model,
        messages=write_messages(request, NAME, host, short_ids),
        temperature=settings.temperature,
        seed=settings.seed,
        reasoning_effort=effort,
        tools=[
            {"type": "function", "function": describe_function(tool, strict)}
            for tool in request.tools
        ],
        tool_choice=choice,
        response_format=form,
        **{max_name: settings.output_of(request)},
    )


def find_error(response: Json) -> Any:
    """The error in a response with status 200; None if there is none."""
    error = find_error_object(response)
    if error:
        return error
    choice = first_choice(get_or_empty(response, "choices", list))
    if choice.get("error"):  # OpenRouter's place for errors of the model's host
        return choice["error"]
    status = get_or_empty(response, "base_resp", dict)
    code = status.get("status_code")
    if not code:  # MiniMax's 0 means success
        return None
    return {"message": status.get("status_msg"), "code": MINIMAX_CODES.get(code, "server_error")}


def read_usage(response: Json) -> Usage:
    """The tokens of a response."""
    choice = first_choice(get_or_empty(response, "choices", list))
    return read_openai_usage(_find_usage(response, choice))


def _find_usage(response: Json, choice: Json) -> Any:
    """The counts in a response or a chunk. Kimi streams them in the choice, Groq apart."""
    apart = response.get("x_groq")
    if not isinstance(apart, dict):
        apart = {}
    return response.get("usage") or choice.get("usage") or apart.get("usage")


def from_wire(response: Json) -> Assistant:
    """The reply in a response."""
    require_key(response, "choices")
    choice = first_choice(get_or_empty(response, "choices", list))  # rule 3
    reason = choice.get("finish_reason")
    # Azure omits a message that it has filtered.
    message = drop_repeated_calls(_drop_empty(get_or_empty(choice, "message", dict)))
    if reason in TOOL_STOP_REASONS and "tool_calls" not in message:
        message |= _find_calls_elsewhere(response)  # rule 3
    if "refusal" in message:
        reason = "content_filter"
    reply = Assistant(
        *_split_texts(message),
        read_function_calls(message),
        usage=read_usage(response),
        model=get_or_empty(response, "model", str),
        native={"role": "assistant", "content": None, **message},
        signed=any(
            detail.get("signature") for detail in get_or_empty(message, "reasoning_details", list)
        ),
    )
    return add_stop_reason(reply, reason, STOPPED, message.get("refusal"))


def _drop_empty(message: Json) -> Json:
    """A message, or a piece of it, without empty fields."""
    plain = drop_empty(**message)  # rule 2
    if isinstance(plain.get("content"), dict):  # Cloudflare parses a JSON answer
        plain["content"] = json_text(plain["content"])
    return plain


def _find_calls_elsewhere(response: Json) -> Json:
    """The calls that the choices after the first one hold."""
    _, *others = get_or_empty(response, "choices", list)
    for choice in others:
        calls = get_or_empty(get_or_empty(choice, "message", dict), "tool_calls", list)
        if calls:
            return {"tool_calls": calls}
    return {}


def _split_texts(message: Json) -> tuple[str, str]:
    """The text and the reasoning. Mistral sends both in one list; some servers send the reasoning
    under two names.
    """
    content = message.get("content", message.get("refusal"))
    thinking = message.get("reasoning_content", message.get("reasoning"))
    if isinstance(content, list):
        thinking = extract_text(content, "thinking") or thinking
    return extract_text(content), extract_text(thinking)


class Fold:
    """Accumulates the chunks of a stream into one response."""

    ended = False
    _chunks = 0
    _counts = 0  # the number of chunks with token counts
    _ends_with_usage = False
    _has_content = False

    def __init__(self) -> None:
        self._response: Json = {}
        self._choice: Json = {}
        self._usage: Json = {}
        self._pieces: list[Json] = []  # of the message
        self._calls = CallAssembler()
        self._others: dict[Any, CallAssembler] = {}  # by the number of the choice

    def feed(self, chunk: Json) -> list[Delta]:
        self._response |= drop_empty(**chunk)
        choices = get_or_empty(chunk, "choices", list)
        choice = first_choice(choices)
        cut = self._find_cut()
        self._choice |= drop_empty(**choice)
        self._choice |= cut
        # Token counts normally come at the end, so a stream with usage is complete even without a
        # finish_reason. But some servers count in every chunk (xAI, vLLM). Their count shows the
        # end only if it comes without choices.
        usage = _find_usage(chunk, choice)
        self._usage = merge_counts(self._usage, usage)
        has_usage = bool(usage)
        self._chunks += 1
        self._counts += has_usage
        is_only_count = self._counts == 1 and self._chunks > 1
        self._ends_with_usage = has_usage and (is_only_count or not choices)
        self.ended = has_usage and not choices and "finish_reason" in self._choice

        piece = _drop_empty(get_or_empty(choice, "delta", dict))
        if not piece and not self._has_content:  # a whole message: the server doesn't stream
            piece = _drop_empty(get_or_empty(choice, "message", dict))
        self._has_content = self._has_content or not piece.keys() <= {"role"}
        calls = get_or_empty(piece, "tool_calls", list)
        self._pieces.append(piece)
        self._feed_others(choices)
        deltas = make_deltas(Assistant(*_split_texts(piece)))
        return deltas + self._calls.feed_all(calls)

    def _find_cut(self) -> Json:
        """Why the reply was cut, if it was. A gateway may send a "stop" of its own after that."""
        reason = self._choice.get("finish_reason")
        if find_meaning(reason, STOPPED) in (None, "end_turn"):
            return {}
        return {"finish_reason": reason}

    def _feed_others(self, choices: list[Json]) -> None:
        """The calls in the choices after the first one (rule 3)."""
        for choice in choices:
            index = choice.get("index")
            calls = get_or_empty(get_or_empty(choice, "delta", dict), "tool_calls", list)
            if index and calls:
                self._others.setdefault(index, CallAssembler()).feed_all(calls)

    def result(self) -> Json:
        message = merge_pieces(self._pieces)
        message["tool_calls"] = self._calls.whole()

        # One entry per type and index, because servers refuse a fragmented reasoning signature.
        entries: defaultdict[Any, list[Json]] = defaultdict(list)
        for piece in get_or_empty(message, "reasoning_details", list):
            entries[piece.get("type"), piece.get("index")].append(piece)
        message["reasoning_details"] = [merge_pieces(pieces) for pieces in entries.values()]

        choice = {**self._choice, "message": message}
        if not self._ends_with_usage or self._calls.may_be_cut:
            choice.setdefault("finish_reason", STREAM_BROKE_OFF)
        choices = [choice]
        for calls in self._others.values():
            choices.append({"index": 1, "message": {"tool_calls": calls.whole()}})
        return {**self._response, "choices": choices, "usage": self._usage}

"""OpenAI's Chat Completions, which vLLM, llama.cpp, LM Studio, OpenRouter and DeepSeek speak too.

Rule 1: a reply asks for tools if it has calls. Its `finish_reason` does not tell: it is "stop"
        after a forced call.
Rule 2: a reply goes back as it came, with its reasoning. Only what servers refuse to read again is
        repaired: missing call ids, arguments that are not JSON, nulls and empty lists, an answer
        that the server has parsed.
Rule 3: one reply is one choice, the first, however many a server sends.
"""

from collections import defaultdict
from typing import Any

from ..messages import Assistant, Force, Json
from ..model import Request
from ..streaming import Delta
from ..text import json_text
from .chat import chat_messages, function_calls
from .incoming import (
    STREAM_BROKE_OFF,
    ErrorAnswer,
    extract_text,
    first_choice,
    make_deltas,
    merge_pieces,
    read_openai_usage,
    read_stop_reason,
)
from .outgoing import choice_of, filled, openai_function
from .pieces import CallReader
from .settings import Settings

NAME = "openai"
PATH = "/chat/completions"
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


def to_wire(
    request: Request,
    model: str,
    settings: Settings,
    *,
    strict: bool,
    max_name: str = "max_tokens",
    host: str,
) -> Json:
    """The body of a request. `max_name`: the server's name for the bound on the output. OpenAI's is
    `max_completion_tokens`.
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
    choice: Any = choice_of(request)
    if isinstance(choice, Force):
        choice = {"type": "function", "function": {"name": choice.name}}
        if form:  # it forces the call instead (`forms.py`)
            choice = None
    return filled(
        model=model,
        messages=chat_messages(request, NAME, host),
        temperature=settings.temperature,
        seed=settings.seed,
        reasoning_effort=effort,
        tools=[
            {"type": "function", "function": openai_function(tool, strict)}
            for tool in request.tools
        ],
        tool_choice=choice,
        response_format=form,
        **{max_name: settings.output_of(request)},
    )


def from_wire(response: Json) -> Assistant:
    """The reply in a response."""
    choice = first_choice(response["choices"])  # rule 3
    if choice.get("error"):  # OpenRouter reports errors of the model's host here
        raise ErrorAnswer(choice["error"])
    reason = choice.get("finish_reason")
    message = _plain(choice.get("message") or {})  # Azure leaves out what it has filtered
    if "refusal" in message:
        reason = "content_filter"
    calls = function_calls(message)
    usage = read_openai_usage(response.get("usage"), "prompt", "completion")
    return Assistant(
        *_texts(message),
        calls,
        usage=usage,
        model=response.get("model", ""),
        native={"role": "assistant", "content": None, **message},
        signed=any(part.get("signature") for part in message.get("reasoning_details", ())),
        **read_stop_reason(calls, usage, reason, STOPPED, message.get("refusal")),
    )


def _plain(message: Json) -> Json:
    """A message, or a piece of one, without empty fields."""
    plain = filled(**message)  # rule 2
    if isinstance(plain.get("content"), dict):  # Cloudflare parses an answer in JSON
        plain["content"] = json_text(plain["content"])
    return plain


def _texts(message: Json) -> tuple[str, str]:
    """The text and the reasoning. Mistral sends both in one list. Some servers send the reasoning
    twice, under two names.
    """
    content = message.get("content", message.get("refusal"))
    thinking = message.get("reasoning_content", message.get("reasoning"))
    if isinstance(content, list):
        thinking = extract_text(content, "thinking")
    return extract_text(content), extract_text(thinking)


class Fold:
    """Accumulates the chunks of a stream into one response."""

    ended = False
    _counted = False

    def __init__(self) -> None:
        self._response: Json = {}
        self._choice: Json = {}
        self._pieces: list[Json] = []  # of the message
        self._calls: list[list[Json]] = []  # the pieces of each
        self._marks: set[Any] = set()  # index, id and name that pieces of the last call may have

    def feed(self, chunk: Json) -> list[Delta]:
        self._response |= filled(**chunk)
        choices = chunk.get("choices")
        choice = first_choice(choices)
        self._choice |= filled(**choice)
        # The usage comes last, in a chunk without choices. But some servers send it in every chunk.
        self._counted = bool(chunk.get("usage")) and not choices
        self.ended = self._counted and "finish_reason" in self._choice

        piece = _plain(choice.get("delta") or {})
        self._pieces.append(piece)
        deltas = make_deltas(Assistant(*_texts(piece)))
        for part in piece.get("tool_calls", ()):
            call = {**part}
            function = call.get("function", {})
            # Not the index alone: some servers give all calls the same one.
            marks = {call.pop("index", None), call.get("id"), function.get("name")}
            if marks - self._marks:
                self._marks = {None, "", *marks}
                self._reader = CallReader(function["name"], len(self._calls))
                self._calls.append([{"type": "function"}])
            self._calls[-1].append(call)
            deltas += self._reader.feed(function.get("arguments") or "")
        return deltas

    def result(self) -> Json:
        message = merge_pieces(self._pieces)
        calls = [merge_pieces(pieces) for pieces in self._calls]
        written = [call["function"].get("arguments") for call in calls]
        message["tool_calls"] = calls

        # One entry for each type and index: servers refuse the signature of reasoning in fragments.
        entries: defaultdict[Any, list[Json]] = defaultdict(list)
        for piece in message.get("reasoning_details", []):
            entries[piece.get("type"), piece.get("index")].append(piece)
        message["reasoning_details"] = [merge_pieces(pieces) for pieces in entries.values()]

        choice = {**self._choice, "message": message}
        if not (self._counted and all(written)):  # a call may have been cut off
            choice.setdefault("finish_reason", STREAM_BROKE_OFF)
        return {**self._response, "choices": [choice]}

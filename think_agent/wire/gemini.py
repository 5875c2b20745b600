"""Gemini's `generateContent`.

Rule 1: a reply goes back part by part, unchanged, because Gemini 3 checks the thought signatures. A
        call from another model gets a fixed signature that says so.
Rule 2: all results of a reply are in one content, in the order of its calls. A call may have no id;
        its result is then found by name and position.
Rule 3: a reply with calls asks for tools, unless it was cut or filtered. Its finish reason is
        "STOP", as of any other reply.
Rule 4: an answer without candidates and without a blocked prompt is an overload.
"""

from dataclasses import replace
from typing import Any

from ..messages import Assistant, Force, Json, ToolCall, ToolResult, Usage, User
from ..model import Request
from ..streaming import Delta
from .counts import merge_counts, read_count
from .incoming import (
    STREAM_BROKE_OFF,
    Identity,
    add_stop_reason,
    drop_repeats,
    find_error_object,
    first_choice,
    get_or_empty,
    make_deltas,
    parse_arguments,
)
from .outgoing import drop_empty, prepare_messages, wrap_arguments
from .settings import Settings

NAME = "gemini"
KEYS = (
    "candidates",
    "usageMetadata",
    "promptFeedback",
)  # a response or an event has one of these
STREAMED: Json = {}  # set by the path
NOT_BY_GEMINI = "skip_thought_signature_validator"  # Google's value for calls of other models
BUDGETS = {"off": 0, "low": 1024, "medium": 8192, "high": 24576}  # tokens
NO_CANDIDATES = {"code": 503, "message": "the answer holds no reply"}
STOPPED = {
    "STOP": "end_turn",
    "MAX_TOKENS": "max_tokens",
    "CONTINUATION": "max_tokens",
    "MALFORMED_FUNCTION_CALL": "malformed",
    "UNEXPECTED_TOOL_CALL": "malformed",
    "TOO_MANY_TOOL_CALLS": "malformed",
    "MALFORMED_RESPONSE": "malformed",
    "OTHER": "incomplete",
    "MISSING_THOUGHT_SIGNATURE": "incomplete",  # in the request
    "NO_IMAGE": "incomplete",
    "SAFETY": "refusal",
    "RECITATION": "refusal",
    "LANGUAGE": "refusal",
    "BLOCKLIST": "refusal",
    "PROHIBITED_CONTENT": "refusal",
    "SPII": "refusal",
    "ESCALATION": "refusal",
    "MODEL_ARMOR": "refusal",
    "PUP_LIMITED_DISABLED": "refusal",  # the account broke the policy on prohibited use
}


def to_wire(
    request: Request,
    model: str,
    settings: Settings,
    *,
    strict: bool,
    host: str,
) -> Json:
    """The body of a request. `model` isn't in it, but decides how reasoning is set. With `strict`,
    the sampler follows the tools' schemas.
    """
    generation = drop_empty(
        maxOutputTokens=settings.output_of(request),
        temperature=settings.temperature,
        seed=settings.seed,
        responseJsonSchema=request.output_schema,
        thinkingConfig=_reasoning(settings, model),
    )
    if request.output_schema is not None:
        generation["responseMimeType"] = "application/json"
    body = {"contents": _contents(request, host), "generationConfig": generation}
    if request.system:
        body["systemInstruction"] = {"parts": [{"text": request.system}]}
    if request.tools:
        declared = [
            {
                "name": tool.name,
                "description": tool.description,
                "parametersJsonSchema": tool.parameters,
            }
            for tool in request.tools
        ]
        body["tools"] = [{"functionDeclarations": declared}]
        body["toolConfig"] = drop_empty(functionCallingConfig=_write_tool_config(request, strict))
    return drop_empty(**body)


def _reasoning(settings: Settings, model: str) -> Json:
    """Gemini 2 has a token budget, later models have levels."""
    reasoning = settings.reasoning
    if not reasoning:
        return {}
    # "minimal" is the lowest level.
    wire: Json = {"thinkingLevel": {"off": "minimal"}.get(reasoning, reasoning)}
    if "gemini-2" in model:
        wire = {"thinkingBudget": BUDGETS[reasoning]}
    if reasoning != "off":
        wire["includeThoughts"] = True
    return wire


def _write_tool_config(request: Request, strict: bool) -> Json:
    match request.tool_choice:
        case Force(name):
            return {"mode": "ANY", "allowedFunctionNames": [name]}
        case "required":
            return {"mode": "ANY"}
        case "none":
            return {"mode": "NONE"}
    return {"mode": "VALIDATED"} if strict else {}


def _contents(request: Request, host: str) -> list[Json]:
    contents = []
    answers: list[Json] = []  # the results of one reply
    known: set[str] = set()  # ids of the calls as sent; Gemini's calls may have none
    for message in prepare_messages(request.messages, NAME, host=host):
        if isinstance(message, ToolResult):
            if not answers:
                contents.append({"role": "user", "parts": answers})
            kind = "error" if message.is_error else "output"
            answer = {"name": message.name, "response": {kind: message.content}}
            if message.call_id in known:  # rule 2
                answer["id"] = message.call_id
            answers.append({"functionResponse": answer})
        elif isinstance(message, User):
            contents.append({"role": "user", "parts": [{"text": message.text}]})
        else:
            content = message.native or _model_content(message)  # rule 1
            contents.append(content)
            known |= {part.get("functionCall", {}).get("id") for part in content["parts"]}
            answers = []
    return contents


def _model_content(message: Assistant) -> Json:
    """The content of a reply that Gemini didn't write."""
    parts: list[Json] = []
    if message.text.strip():
        parts.append({"text": message.text})
    signature = {"thoughtSignature": NOT_BY_GEMINI}  # on the first call only
    for call in message.tool_calls:
        function = {"id": call.id, "name": call.name, "args": wrap_arguments(call)}
        parts.append({"functionCall": function, **signature})
        signature = {}
    return {"role": "model", "parts": parts}


def find_error(response: Json) -> Any:
    """The error in a response with status 200; None if there is none."""
    error = find_error_object(response)
    if error:
        return error
    if get_or_empty(response, "candidates", list) or _find_block(response):
        return None
    return NO_CANDIDATES  # rule 4


def read_usage(response: Json) -> Usage:
    """The tokens of a response."""
    counts = response.get("usageMetadata")
    thoughts = read_count(counts, "thoughtsTokenCount")
    prompt = read_count(counts, "promptTokenCount")
    prompt += read_count(counts, "toolUsePromptTokenCount")
    output = read_count(counts, "candidatesTokenCount")
    total = read_count(counts, "totalTokenCount")
    if total != prompt + output:  # otherwise a gateway has counted the thoughts as output
        output += thoughts
    return Usage(
        input_tokens=prompt,
        output_tokens=max(output, total - prompt) if prompt else output,
        cached_tokens=read_count(counts, "cachedContentTokenCount"),
        reasoning_tokens=thoughts,
    )


def from_wire(response: Json) -> Assistant:
    """The reply in a response."""
    candidate = first_choice(get_or_empty(response, "candidates", list))
    blocked = _find_block(response)
    if blocked:
        candidate = {"finishReason": "SAFETY", "finishMessage": blocked}
    content = get_or_empty(candidate, "content", dict)
    parts = drop_repeats(get_or_empty(content, "parts", list), _identify)
    reply = _read_parts(parts)
    reason = candidate.get("finishReason")
    mistake = get_or_empty(candidate, "finishMessage", str)
    text = reply.text
    if reason == "MALFORMED_FUNCTION_CALL":
        text = ""  # it may be part of the call
    reply = replace(
        reply,
        text=text,
        mistake=mistake,
        usage=read_usage(response),
        model=get_or_empty(response, "modelVersion", str),
        native={**content, "parts": parts} if parts else None,
        signed=any("thoughtSignature" in part for part in parts),
    )
    return add_stop_reason(reply, reason, STOPPED, reason, mistake)


def _find_block(response: Json) -> str:
    """Why the prompt was blocked; empty if it wasn't."""
    feedback = get_or_empty(response, "promptFeedback", dict)
    reason = get_or_empty(feedback, "blockReason", str)
    if reason == "BLOCK_REASON_UNSPECIFIED":  # it's the default, and says nothing
        return ""
    message = get_or_empty(feedback, "blockReasonMessage", str)
    if reason and message:
        return f"{reason}: {message}"
    return reason


def _identify(part: Json) -> Identity | None:
    call = get_or_empty(part, "functionCall", dict)
    if not call:
        return None
    return call.get("id"), call.get("name"), parse_arguments(call.get("args"))


def _read_parts(parts: list[Json]) -> Assistant:
    """A reply from its parts."""
    text = ""
    thinking = ""
    calls = []
    for part in parts:
        call = part.get("functionCall")
        words = get_or_empty(part, "text", str)
        if call:
            name = get_or_empty(call, "name", str)
            arguments = parse_arguments(call.get("args"))
            calls.append(ToolCall(get_or_empty(call, "id", str), name, arguments))
        if part.get("thought"):
            thinking += words
        else:
            text += words
    return Assistant(text, thinking, tuple(calls))


class Fold:
    """Accumulates a stream's chunks into one response. Each chunk is a small response; calls aren't
    split. A finish reason may come in the middle, so only the end of the stream is the end.
    """

    ended = False
    _calls = 0

    def __init__(self) -> None:
        self._response: Json = {}
        self._candidate: Json = {}
        self._parts: list[Json] = [{}]  # a placeholder, left out at the end

    def feed(self, event: Json) -> list[Delta]:
        counts = merge_counts(self._response.get("usageMetadata"), event.get("usageMetadata"))
        self._response |= drop_empty(**event)
        self._response["usageMetadata"] = counts
        candidate = first_choice(get_or_empty(event, "candidates", list))
        self._candidate |= drop_empty(**candidate)
        content = get_or_empty(candidate, "content", dict)
        deltas = []
        for part in get_or_empty(content, "parts", list):
            part = {key: value for key, value in part.items() if value is not None}
            # Join pieces of plain text. A part with a signature, even an empty one, has to go back
            # unchanged.
            last = self._parts[-1]
            is_alike = "text" in part and part.keys() == last.keys() <= {"text", "thought"}
            if is_alike and part.get("thought") == last.get("thought"):
                last["text"] += part["text"]
            elif part not in ({}, {"text": ""}):
                self._parts.append(part)

            reply = _read_parts([part])
            deltas += make_deltas(reply, self._calls)
            self._calls += len(reply.tool_calls)
        return deltas

    def result(self) -> Json:
        self.ended = "finishReason" in self._candidate
        if not self._candidate:
            return self._response
        content = {"role": "model", "parts": self._parts[1:]}
        candidate = {"finishReason": STREAM_BROKE_OFF, **self._candidate, "content": content}
        return {**self._response, "candidates": [candidate]}

"""Gemini's `generateContent`.

Rule 1: a reply goes back part by part as it came, for Gemini 3 checks the thought signatures. A
        call that Gemini did not make carries the one signature that says so.
Rule 2: the results of a turn stand in one content, in the order of its calls: a call may have no
        id, and then only name and place tell which result is whose.
Rule 3: a reply with calls is a tool turn, unless it was cut or filtered; its finish reason is the
        "STOP" of any reply.
"""

from collections.abc import Sequence
from typing import Any

from ..messages import Assistant, Force, Json, Spoken, ToolCall, ToolChoice, ToolResult, Usage, User
from ..model import Request
from ..streaming import Delta
from ..tools import Tool
from . import common
from .common import Reasoning, Settings, arguments_of, count, ended, first_choice

NAME = "gemini"
NOT_BY_GEMINI = "skip_thought_signature_validator"  # Google's word for calls of other models
BUDGETS: dict[Reasoning, int] = {"off": 0, "low": 1024, "medium": 8192, "high": 24576}  # tokens
FILTERED = ("SAFETY", "RECITATION", "LANGUAGE", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII",
            "ESCALATION", "MODEL_ARMOR")  # fmt: skip
STOPPED = dict.fromkeys(FILTERED, "refusal") | {
    "STOP": "end_turn",
    "MAX_TOKENS": "max_tokens",
    "CONTINUATION": "max_tokens",
    "MALFORMED_FUNCTION_CALL": "malformed",
    "UNEXPECTED_TOOL_CALL": "malformed",
}


def to_wire(request: Request, model: str, settings: Settings) -> Json:
    """The body of a request. `model` is not in it, but decides how reasoning is asked for."""
    sent = common.sendable(request.messages, NAME, calls_in=_calls_in)
    generation: Json = settings.named(
        max_output_tokens="maxOutputTokens", temperature="temperature", seed="seed"
    )
    if request.output_schema is not None:
        generation["responseMimeType"] = "application/json"
        generation["responseJsonSchema"] = request.output_schema
    if settings.reasoning:
        generation["thinkingConfig"] = _reasoning(settings.reasoning, model)
    body: Json = {"contents": _contents(sent), "generationConfig": generation}
    if request.system:
        body["systemInstruction"] = {"parts": [{"text": request.system}]}
    if request.tools:
        body["tools"] = [{"functionDeclarations": [*map(_declared, request.tools)]}]
        if request.tool_choice != "auto":  # the default
            body["toolConfig"] = {"functionCallingConfig": _choice(request.tool_choice)}
    return body


def _reasoning(reasoning: Reasoning, model: str) -> Json:
    """Gemini 2 counts the tokens of its thoughts, later ones take a level."""
    if model.startswith("gemini-2"):
        asked: Json = {"thinkingBudget": BUDGETS[reasoning]}
    else:  # "minimal" is as near to none as it gets
        asked = {"thinkingLevel": "minimal" if reasoning == "off" else reasoning}
    return asked if reasoning == "off" else {**asked, "includeThoughts": True}


def _declared(tool: Tool) -> Json:
    named = {"name": tool.name, "description": tool.description}
    return {**named, "parametersJsonSchema": tool.parameters}


def _choice(choice: ToolChoice) -> Json:
    if isinstance(choice, Force):
        return {"mode": "ANY", "allowedFunctionNames": [choice.name]}
    return {"mode": "ANY" if choice == "required" else choice.upper()}


def _contents(messages: Sequence[Spoken]) -> list[Json]:
    contents: list[Json] = []
    answers: list[Json] = []  # to the calls of one reply
    known: set[object] = set()  # the ids of calls that were sent; one minted by us is not
    for message in messages:
        if isinstance(message, ToolResult):
            said = {"error" if message.is_error else "output": message.content}
            result: Json = {"name": message.name, "response": said}
            if message.call_id in known:
                result["id"] = message.call_id
            if not answers:
                contents.append({"role": "user", "parts": answers})
            answers.append({"functionResponse": result})
        elif isinstance(message, User):
            contents.append({"role": "user", "parts": [{"text": message.text}]})
        else:
            content = message.native or _model_content(message)
            contents.append(content)
            known |= {p["functionCall"].get("id") for p in content["parts"] if "functionCall" in p}
            answers = []
    return contents


def _model_content(message: Assistant) -> Json:
    """The content of a reply that Gemini did not write."""
    parts: list[Json] = [{"text": message.text}] if message.text.strip() else []
    for call in message.tool_calls:
        # The wire takes an object only; what the model wrote in its place is kept inside one.
        said = call.arguments if isinstance(call.arguments, dict) else {"invalid": call.arguments}
        parts.append({"functionCall": {"id": call.id, "name": call.name, "args": said}})
        if call is message.tool_calls[0]:
            parts[-1]["thoughtSignature"] = NOT_BY_GEMINI
    return {"role": "model", "parts": parts}


def _calls_in(native: Any) -> list[Json]:
    """TypeError where a call came without an object."""
    calls = [part["functionCall"] for part in native["parts"] if "functionCall" in part]
    if not all(isinstance(call.get("args", {}), dict) for call in calls):
        raise TypeError("arguments that are no object")
    return calls


def from_wire(response: Json, model: str = "") -> Assistant:
    """The reply in the JSON of a response; `model` is the one asked, in case none is named."""
    blocked = response.get("promptFeedback", {}).get("blockReason")  # then there are no candidates
    candidate = first_choice([{"finishReason": "SAFETY"}] if blocked else response["candidates"])
    content = candidate.get("content") or {}
    parts = content.get("parts") or []  # "content" may be {}, and "parts" be missing
    made = [part["functionCall"] for part in parts if "functionCall" in part]
    calls = tuple(
        ToolCall(call.get("id") or "", call["name"], arguments_of(call.get("args")))
        for call in made
    )
    half = any(call.get("willContinue") for call in made)
    end = ended(None if half else candidate.get("finishReason"), STOPPED, calls)
    malformed = end["stop_reason"] == "malformed"
    said = (part.get("text", "") for part in parts if not part.get("thought"))
    return Assistant(
        text="" if malformed else "".join(said),  # a part of the call, maybe
        thinking="".join(part.get("text", "") for part in parts if part.get("thought")),
        tool_calls=calls,
        mistake=(candidate.get("finishMessage") or "") if malformed else "",
        **end,
        usage=_usage(response.get("usageMetadata")),
        model=response.get("modelVersion") or model,
        provider=NAME,
        native=content if parts else None,
        signed=any("thoughtSignature" in part for part in parts),
    )


def _usage(usage: Json | None) -> Usage:
    """On the wire, output tokens come without the thoughts."""
    thoughts = count(usage, "thoughtsTokenCount")
    return Usage(
        input_tokens=count(usage, "promptTokenCount") + count(usage, "toolUsePromptTokenCount"),
        output_tokens=count(usage, "candidatesTokenCount") + thoughts,
        cached_tokens=count(usage, "cachedContentTokenCount"),
        reasoning_tokens=thoughts,
    )


class Fold:
    """Stream chunks into one response. Each chunk is a small response; calls come whole. A reason
    to end may stand in the middle: the stream has ended when no more of it comes.
    """

    def __init__(self) -> None:
        self.ended = False
        self._response: Json = {}
        self._candidate: Json = {}
        self._parts: list[Json] = []
        self._calls = 0

    def feed(self, event: Json) -> list[Delta]:
        self._response.update(event)  # the last token counts are the right ones
        candidate = first_choice(event.get("candidates") or ())
        before, now = self._candidate.get("finishReason"), candidate.get("finishReason")
        self._candidate |= {**candidate, "finishReason": common.worse(before, now, STOPPED)}
        for piece in (candidate.get("content") or {}).get("parts") or ():
            self._add(piece)
        part = from_wire({"candidates": [candidate]})
        deltas = common.deltas_of(part, self._calls)
        self._calls += len(part.tool_calls)
        return deltas

    def _add(self, part: Json) -> None:
        """Pieces of plain text grow together. A part with a signature, even an empty one, must go
        back as it came.
        """
        plain = part.keys() <= {"text", "thought"}
        text = part.get("text", "")
        if plain and self._parts and {**self._parts[-1], "text": text} == {**part, "text": text}:
            self._parts[-1]["text"] += text
        elif text or not plain:
            self._parts.append(dict(part))

    def result(self) -> Json:
        self.ended = bool(self._candidate.get("finishReason"))
        content = {"role": "model", "parts": self._parts}
        return {**self._response, "candidates": [{**self._candidate, "content": content}]}

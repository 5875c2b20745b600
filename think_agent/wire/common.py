"""What the five protocols share: what goes out, and the one door for what comes in.

Rule 1: a reply enters by `checked_reply` and a Delta by `checked_delta`. Behind them texts are
        well-formed texts, arguments are an object of finite JSON or raw text, and calls have names.
Rule 2: a count of tokens is never believed to be more than a number (`count`).
"""

import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from operator import attrgetter, itemgetter
from typing import Any, Literal, TypeAlias

import pydantic_core

from ..messages import Assistant, Force, Json, Message, Spoken, ToolCall, ToolResult, Usage, User
from ..model import Request
from ..streaming import Delta, whole_call
from ..text import MAX_DEPTH, json_object, json_text, json_value, well_formed
from ..tools import Tool

MAX_OUTPUT = 8192  # tokens
MOST_TOKENS = 10**12  # a larger number is no count
LEAST_OUTPUT = 16  # tokens; OpenAI's Responses API refuses less
TEXTS = ("text", "thinking", "commentary", "stop_reason", "model", "mistake", "cause")
texts_of = attrgetter(*TEXTS)
Reasoning: TypeAlias = Literal["off", "low", "medium", "high"]
CallsIn: TypeAlias = Callable[[Any], Sequence[Any]]  # those in a native message, or an error
Encode: TypeAlias = Callable[[ToolCall, Json], Json]  # a call, and what it was in its native form
NOTHING = re.compile(r"(?!)")
CALLED = ("tool_calls", "function_call", "tool_use")
WHOLE = ("end_turn", "stop_sequence")  # how a reply ends whose calls are meant


@dataclass(frozen=True, slots=True)
class Settings:
    """What is asked of a model in one meaning for all providers; None leaves it to the provider.

    `max_output_tokens` bounds one reply, native reasoning included.
    """

    reasoning: Reasoning | None = None
    max_output_tokens: int | None = None
    temperature: float | None = None
    seed: int | None = None

    def refuse(self, who: str, *names: str) -> None:
        """ValueError for the first of `names` that is set: `who` does not take it."""
        for name in names:
            if getattr(self, name) is not None:
                raise ValueError(f"{who} takes no {name}; leave it out")

    def bounded(self, most: int | None) -> "Settings":
        """These, with a bound on the output, also where there is none: a model that repeats itself
        goes on for ever. `most`: of one reply, which lowers the bound, and never raises it.
        """
        bound = self.max_output_tokens or MAX_OUTPUT
        most = bound if most is None else max(most, LEAST_OUTPUT)
        return Settings(self.reasoning, min(bound, most), self.temperature, self.seed)

    def named(self, **names: str) -> Json:
        """Those that are set, by the names that a provider has for them."""
        settings: Json = {}
        for name, wire in names.items():
            if (value := getattr(self, name)) is not None:
                settings[wire] = value
        return settings


def is_closed(schema: Json) -> bool:
    """Can a server that constrains the sampler (`strict`) take this schema? Every object must name
    all its properties, as required ones, and nothing may be in it that only some servers know.
    """
    if not schema.keys() <= {"type", "description", "enum", "const", "anyOf", "items",
                             "properties", "required", "additionalProperties"}:  # fmt: skip
        return False
    properties = schema.get("properties", {})
    names_all = properties and properties.keys() == set(schema.get("required", ()))
    takes_more = schema.get("additionalProperties") is not False
    if schema.get("type") == "object" and (takes_more or not names_all):
        return False
    inner = [*properties.values(), *schema.get("anyOf", ())]
    inner += [schema["items"]] if "items" in schema else []
    return all(is_closed(one) for one in inner)


class ErrorAnswer(Exception):
    """The provider says, inside an HTTP 200, that something is wrong. Its argument is the JSON."""


def sendable(
    messages: Sequence[Message], provider: str, dialect: str = "", calls_in: CallsIn | None = None
) -> list[Spoken]:
    """`messages` as `provider` may see them. Every translator starts from this.

    - `native` blobs of another provider or dialect are dropped: signatures do not travel. So are
      those that are of another shape, as a file may hold them: `calls_in` finds the calls in one.
    - Calls that were never answered (a truncated reply, a call that strayed into a final one) are
      dropped, and the native blob with them: every provider refuses a call without its result.
    - The results of a reply come right behind it, in the order of its calls.
    - What only the kit reads (Started, Verdict) is left out.
    - An assistant message with nothing left to say is left out: providers refuse empty ones.
    """
    kept: list[Spoken] = []
    results: dict[str, list[ToolResult]] = {}  # of one reply, by their call
    for message in reversed(messages):  # a `match` takes three times as long
        if isinstance(message, ToolResult):
            results.setdefault(message.call_id, []).append(message)
        elif isinstance(message, User):
            kept.append(message)
        elif isinstance(message, Assistant):
            calls, native = message.tool_calls, message.native
            answered, answers = [], []
            for call in calls:
                if found := results.get(call.id):  # ids may repeat
                    answered.append(call)
                    answers.append(found.pop())
            results.clear()
            fits = native is None and not message.commentary  # a text that only OpenAI knows
            if native is not None and (message.provider, message.dialect) == (provider, dialect):
                with suppress(KeyError, TypeError, AttributeError):
                    fits = calls_in is None or len(calls_in(native)) == len(calls)
            if not fits or len(answered) < len(calls):
                text = "\n\n".join(filter(None, (message.commentary, message.text)))
                changes: Json = {"tool_calls": tuple(answered), "native": None}
                message = replace(message, text=text, commentary="", **changes)
            kept += reversed(answers)
            if answered or message.text.strip() or message.commentary:
                kept.append(message)
    return kept[::-1]


def weaken(request: Request, refused: Mapping[str, str]) -> Request:
    """The request with the strongest tool choice that its server does not refuse."""
    choice = request.tool_choice
    if ("named" if isinstance(choice, Force) else choice) not in refused:
        return request
    if isinstance(choice, Force) and "required" not in refused:
        only = [tool for tool in request.tools if tool.name == choice.name]
        return replace(request, tools=only, tool_choice="required")
    return replace(request, tools=() if choice == "none" else request.tools, tool_choice="auto")


def checked_delta(delta: Delta) -> Delta:
    """`delta` with a well-formed text. TypeError when it holds none."""
    if not (isinstance(delta.text, str) and isinstance(delta.name, str)):
        raise TypeError("a piece of it is no text")
    text = well_formed(delta.text)
    return delta if text is delta.text else replace(delta, text=text)


def checked_reply(
    reply: Assistant, *, keep_native: bool = False, secrets: re.Pattern[str] = NOTHING
) -> Assistant:
    """`reply` as `messages.py` promises it. TypeError when a part of it is not of its type. What a
    model may have written is repaired: lone surrogates (but in its native form, where they can be
    sent back all the same), numbers that JSON does not have, and arguments nested too deeply. A
    server may have put one of the `secrets` into it, its key, say, which no file is to hold.
    """

    def clean(text: str) -> str:
        return secrets.sub("***", well_formed(text))

    parts = [*texts_of(reply), reply.native]
    for what, text in zip(TEXTS, parts, strict=False):
        if not isinstance(text, str):
            raise TypeError(f"its {what} is no text")
    for call in reply.tool_calls:
        if not (isinstance(call.name, str) and call.name and isinstance(call.id, str)):
            raise TypeError("a call in it has no name, or an id that is no text")
        if not isinstance(call.arguments, dict | str):
            raise TypeError("a call in it has arguments that are no object")
        parts += [call.id, call.name, call.arguments]
    try:
        said = json.dumps(parts, ensure_ascii=False, allow_nan=False)
        said.encode()
        if said.count("{") + said.count("[") <= MAX_DEPTH and not secrets.search(said):
            return reply  # it cannot be nested too deeply
    except ValueError:  # NaN, or (as UnicodeEncodeError) a lone surrogate
        pass
    text = json.dumps(reply.native) if keep_native else json_text(reply.native)
    native = json.loads(clean(text), parse_constant=str)
    calls = tuple(_repaired(call, clean) for call in reply.tool_calls)
    texts: Json = dict(zip(TEXTS, map(clean, texts_of(reply)), strict=True))
    if secrets.search(str(reply.tool_calls)):  # what the model did not mean is not run
        texts |= {"stop_reason": "malformed", "mistake": "a key or a password stood in it"}
    if secrets.search(text):  # and it is no longer what was signed
        native, texts = None, texts | {"signed": False}
    reply = replace(reply, **texts, tool_calls=calls, native=native)
    if json_value(json_text(native)) is None:  # nested too deeply for any file
        reply = replace(reply, native=None, signed=False)
    return reply


def _repaired(call: ToolCall, clean: Callable[[str], str]) -> ToolCall:
    """Arguments with NaN or Infinity in them, or nested too deeply, become raw text: the model gets
    to read that they are no object.
    """
    id, name, text = map(clean, (call.id, call.name, json_text(call.arguments)))
    arguments = json_object(text) if isinstance(call.arguments, dict) else json.loads(text)
    return replace(call, id=id, name=name, arguments=arguments)


def ended(reason: Any, reasons: Mapping[str, str], calls: object) -> Json:
    """How a reply ended, as fields of it. Only for a reason that `reasons` says to end a whole one
    are its calls meant; any other ends half a reply.
    """
    stop_reason = reasons.get(str(reason))
    if reason in CALLED and not calls:  # the server announces a call that is not there
        return {"stop_reason": "malformed"}
    if stop_reason is None:
        said = f": {reason}" if reason else " and gave no reason"
        return {"stop_reason": "incomplete", "cause": f"the server stopped before the end{said}"}
    return {"stop_reason": "tool_use" if calls and stop_reason in WHOLE else stop_reason}


def worse(before: str | None, now: str | None, reasons: Mapping[str, str]) -> str | None:
    """Which of two reasons counts that a stream gave for its end: one for half a reply stays."""
    return now or before if before is None or reasons.get(str(before)) in WHOLE else before


def first_choice(choices: Iterable[Json]) -> Json:
    """The choice of index 0: one reply is one choice, however many a server sends."""
    return next((choice for choice in choices if not choice.get("index")), {})


def count(usage: Any, *path: str) -> int:
    """The number of tokens at `path` of a provider's `usage`; 0 where there is none."""
    for key in path:
        usage = usage.get(key) if isinstance(usage, dict) else None
    try:
        return min(max(0, int(usage)), MOST_TOKENS)
    except (TypeError, ValueError, OverflowError):
        return 0


def openai_usage(usage: Any, input: str, output: str) -> Usage:
    """The usage of both of OpenAI's APIs, which differ in the names of two fields."""
    return Usage(
        input_tokens=count(usage, f"{input}_tokens"),
        output_tokens=count(usage, f"{output}_tokens"),
        cached_tokens=count(usage, f"{input}_tokens_details", "cached_tokens"),
        reasoning_tokens=count(usage, f"{output}_tokens_details", "reasoning_tokens"),
    )


def openai_function(tool: Tool, strict: bool) -> Json:
    """The declaration of a tool for both of OpenAI's APIs."""
    # Refused without `properties`, which a tool without parameters may leave out.
    parameters = {"type": "object", "properties": {}, **tool.parameters}
    function = {"name": tool.name, "description": tool.description, "parameters": parameters}
    return {**function, "strict": True} if strict and is_closed(tool.parameters) else function


def arguments_of(said: Any) -> Json | str:
    """Arguments as an object, however they came; as text when they are none."""
    if not said or said == "null":  # Groq's word for no arguments
        return {}
    return json_object(said if isinstance(said, str) else json_text(said))


def chat_messages(request: Request, who: str, encode: Encode, tool_name: str = "") -> list[Json]:
    """The messages of Chat Completions or Ollama's protocol. A native message goes back as it came,
    but for what `encode` says of its calls. `tool_name`: where a result names its tool.
    """
    # Ollama drops a field of the name `system` in silence.
    wire: list[Json] = [{"role": "system", "content": request.system}] if request.system else []
    for message in sendable(request.messages, who, calls_in=functions_in):
        if isinstance(message, ToolResult):
            id, content = message.call_id, message.content
            named = {tool_name: message.name} if tool_name else {}
            wire.append({"role": "tool", "tool_call_id": id, **named, "content": content})
        elif isinstance(message, User):
            wire.append({"role": "user", "content": message.text})
        else:
            said = message.native or {"role": "assistant", "content": message.text or None}
            if calls := message.tool_calls:
                before = said.get("tool_calls") or [{}] * len(calls)
                sent = list(map(encode, calls, before))
                if message.native and sent != before:  # servers add fields of their own
                    for at, was in enumerate(before):
                        function = was["function"] | sent[at]["function"]
                        sent[at] = was | sent[at] | {"function": function}
                said = {**said, "tool_calls": sent}
            wire.append(said)
    return wire


def functions_in(reply: Any) -> list[Json]:
    """The calls in a reply of Chat Completions or Ollama's protocol (`sendable`)."""
    if reply["role"] != "assistant":
        raise TypeError("it is no reply")
    return [*map(itemgetter("function"), reply.get("tool_calls") or ())]


def function_calls(message: Json) -> tuple[ToolCall, ...]:
    """The calls of a message in one of these protocols, which have one shape."""
    calls: list[ToolCall] = []
    for call in message.get("tool_calls") or ():
        function = call["function"]
        arguments = function.get("arguments")
        if not isinstance(arguments, dict):
            arguments = arguments_of(arguments)
        calls.append(ToolCall(call.get("id") or "", function["name"], arguments))
    return tuple(calls)


def arguments_text(call: ToolCall, before: Any = None) -> str:
    """The arguments of `call` as JSON text: as the model wrote them `before`, if that can be read.

    Servers refuse a history with invalid JSON in it; what was wrong, the tool result says.
    """
    if isinstance(call.arguments, str):
        return "{}"
    said = before if isinstance(before, str) else ""
    if said.startswith("{") and said.isprintable() and "\\ud" not in said.lower():  # no "null"
        return said
    try:
        return pydantic_core.to_json(call.arguments).decode()  # in a sixth of the time
    except ValueError:  # over a lone surrogate
        return json.dumps(call.arguments)


def text_of(content: str | list[Json] | None) -> str:
    """The text of a content, which may be a list of parts."""
    if isinstance(content, list):
        return "".join(part["text"] for part in content if part["type"] == "text")
    return content or ""


def joined(pieces: Iterable[Json]) -> Json:
    """A message out of its pieces in a stream: texts and lists grow, of all else the last counts.
    (Mistral's thoughts are a list of parts, and the answer behind them is a text.)
    """
    fields: defaultdict[str, list[Any]] = defaultdict(list)
    for piece in pieces:
        for key, value in piece.items():
            fields[key].append(value)
    whole: Json = {}
    for key, values in fields.items():
        text = "".join(value for value in values if isinstance(value, str))
        parts = [part for value in values if isinstance(value, list) for part in value]
        if text and parts:
            parts.append({"type": "text", "text": text})
        whole[key] = parts or text or values[-1]
    return whole


def deltas_of(part: Assistant, first: int = 0) -> list[Delta]:
    """What a watcher may see of a part of a reply; its calls are counted from `first`."""
    deltas = [Delta("thinking", part.thinking)] if part.thinking else []
    if part.text:
        deltas.append(Delta("answer", part.text))
    for number, call in enumerate(part.tool_calls, first):
        deltas += whole_call(call.name, call.arguments, number)
    return deltas


def read_history(wire: Iterable[Json], read: Callable[[Json], Assistant]) -> list[Spoken]:
    """The messages of a history that this or another program kept, in the roles of chats.

    `read` reads a reply; what its native message says beyond our fields is left out. A call without
    an id gets one. A result gets the name of its call, by its id or, where it names none, as the
    answer to the first open call (of its name). What a protocol has no field for is read from the
    text: a result that begins with "error" is one. System prompts are left out. Raises ValueError,
    KeyError or TypeError for what is none.
    """
    messages: list[Spoken] = []
    open_calls: list[ToolCall] = []
    number = 0
    for message in wire:
        match message["role"]:
            case "user":
                messages.append(User(text_of(message["content"])))
            case "assistant":
                reply = checked_reply(read(message))
                calls = enumerate(reply.tool_calls, number)
                open_calls = [replace(call, id=call.id or f"call_{n}") for n, call in calls]
                number += len(open_calls)
                reply = replace(reply, tool_calls=tuple(open_calls), native=None, provider="")
                messages.append(reply)
            case "tool":  # older programs name the tool alone, or nothing
                id, content = message.get("tool_call_id") or "", text_of(message["content"])
                name = message.get("tool_name") or message.get("name") or ""
                fit = (c for c in open_calls if id == c.id or (not id and name in ("", c.name)))
                if call := next(fit, None):
                    id, name = call.id, call.name
                    open_calls.remove(call)
                failed = message.get("is_error", content.lstrip().lower().startswith("error"))
                messages.append(ToolResult(id, name, content, is_error=failed))
            case role if role not in ("system", "developer"):
                raise ValueError(f"there is no role {role!r}")
    return messages

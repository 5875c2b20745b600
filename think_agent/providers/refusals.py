"""What a server refuses in a request, and what the kit sends instead.

Rule 1: only the kit's own additions can be left out: the fields in `FIELDS`, and a host's own
        content that's sent back to it (`find_echo`). Tools, messages, limits, the user's settings,
        and whatever a rule needs (`truncate`, `shift`, a choice of "none") are always sent.
Rule 2: a field is left out if a 400 or 422 says that it isn't supported. The kit then works without
        it (`instead`).
Rule 3: if a server refuses a tool choice, a weaker one is sent (`wire.outgoing.relax`).
Rule 4: at first, a `Lesson` applies to one request. Once a try succeeds with it, the provider keeps
        it, and a notice on that reply says so.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from ..messages import Force, Json, ToolChoice
from ..model import Request
from ..text import json_text


@dataclass
class Lesson:
    """What refusals have shown about a server. `options`: for `to_wire`. `refused`: kinds of tool
    choice, each with the refusal's text. `left_out`: names of fields.
    """

    options: Json = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    left_out: set[str] = field(default_factory=set)

    def add(self, other: "Lesson") -> None:
        self.options |= other.options
        self.refused |= other.refused
        self.left_out |= other.left_out


# Fields that the kit adds.


class Field(NamedTuple):
    """A field that can be left out. `keys`: its keys in a request's body. `named`: how servers name
    it. `instead`: what the kit does without it. `is_refused`: what a complaint about it says; empty
    if the name is enough.
    """

    keys: tuple[str, ...]
    named: str
    instead: str
    is_refused: str = ""


NOT_TAKEN = (
    r"not (be |a |an |yet )*(supported|permitted|allowed|available|accepted|valid|implemented|"
    r"enabled|recogni[sz]ed|compatible|combined|used|known)|"
    r"(does not|doesn't|do not|cannot|can't) (support|accept|allow|recogni[sz]e|use)|"
    r"unsupported|unavailable|unrecogni[sz]ed|unknown|unexpected|extra (inputs|fields|keys)|"
    r"additional propert|incompatible|cannot find field|"
    r"invalid (field|key|property|param(eter)?|argument|option|input|value)"
)
NO_FORM = rf"{NOT_TAKEN}|cannot|invalid|failed to|conversion failed|must be|should be|too "
# `format` alone also occurs with images, files and dates.
FORM_NAMES = (
    r"response[_ ]?(format|mime|schema|json)|json[_ ](mode|schema|object)|output_(config|format)|"
    r"text\.format|structured[_ -]?output|guided|grammar|^invalid (format|schema)|"
    r"(?<![\w ])(?<!image\.)(?<!audio\.)(?<!file\.)format\b"
)
# These are about the schema of a tool.
TOOL_SCHEMA = (
    r"schema for (a )?(function|tool)|(function|tool)s?\W*(input_)?(schema|parameters)|"
    r"tools[\[.]\d|input_schema|function_?declarations"
)
FIELDS = {
    "response_format": Field(
        ("response_format", "format", "responseJsonSchema"),
        rf"^(?!.*({TOOL_SCHEMA})).*({FORM_NAMES})",
        "the prompt asks for the form, and the kit checks it",
        NO_FORM,
    ),
    "stream_options": Field(
        ("stream_options",), "stream_options|include_usage", "tokens are estimated"
    ),
    "strict": Field(("strict",), r"\bstrict\b|VALIDATED", "the kit checks all arguments"),
    "prompt_cache_key": Field(
        ("prompt_cache_key",), "prompt_cache_key", "the server caches as it likes"
    ),
    "cache_control": Field(
        ("cache_control",), "cache_control|prompt[- ]caching", "nothing is cached"
    ),
}
SCHEMAS = ("parameters", "input_schema", "parametersJsonSchema", "schema", "format")
STRICT_KEY = "strict: false"  # OpenAI's Responses API treats a missing one as true


def find_refused(complaint: str, body: Json) -> list[str]:
    """The fields of `body` that a complaint calls unsupported (rule 2)."""
    keys = _keys_of(body)
    found = []
    for name, extra in FIELDS.items():
        is_sent = not keys.isdisjoint(extra.keys)
        if is_sent and _says(extra.named, complaint) and _says(extra.is_refused, complaint):
            found.append(name)
    if "strict" in found and not _is_strict(body):  # then the key itself isn't supported
        found[found.index("strict")] = STRICT_KEY
    if _says(NOT_TAKEN, complaint) and not _says(WANTED, complaint):
        for name in find_echo(body):
            # But not as a prefix of a longer name or path: `reasoning.effort` is a setting.
            if _says(rf"(?<!\w){re.escape(name)}(?!\w|\.\w)", complaint):
                found.append(name)
    return found


def describe_left_out(provider: str, name: str) -> str:
    """The notice about a field that's left out."""
    name = name.partition(":")[0]
    instead = "it is not sent back"
    if name in FIELDS:
        instead = FIELDS[name].instead
    return f"{provider}: the server does not take {name}, so it is left out ({instead})"


def ask_in_words(request: Request) -> Request:
    """`request` with its output schema as text, for a server that doesn't support schemas."""
    if request.output_schema is None:
        return request
    form = f"Write JSON of this schema, and nothing else:\n{json_text(request.output_schema)}"
    system = f"{request.system}\n\n{form}".lstrip()
    return replace(request, system=system, output_schema=None)


def change_options(options: Json, left_out: Iterable[str]) -> Json:
    """Options of `to_wire` that leave these fields out."""
    changed = {**options}
    if "strict" in left_out and "strict" in options:
        changed["strict"] = False
    if "cache_control" in left_out and "cache" in options:
        changed["cache"] = False
    return changed


def leave_fields_out(body: Json, left_out: Iterable[str]) -> Json:
    """`body` without those of these fields that no option of `to_wire` leaves out."""
    names = set(left_out)
    changed = {key: value for key, value in body.items() if key not in names}
    if STRICT_KEY in names:
        changed["tools"] = [
            {key: value for key, value in tool.items() if key != "strict"}
            for tool in body.get("tools", ())
        ]
    echoes = names - FIELDS.keys() - {STRICT_KEY}
    for place in OWN:
        if echoes and place in body:
            changed[place] = _strip_all(body[place], echoes)
    return changed


def _keys_of(body: Json) -> set[str]:
    """All keys in a body, at any depth, except in messages and schemas."""
    keys: set[str] = set()
    for key, value in body.items():
        keys.add(key)
        if key in OWN or key in SCHEMAS:
            continue
        inner = value if isinstance(value, list) else [value]
        for part in inner:
            if isinstance(part, dict):
                keys |= _keys_of(part)
    if "VALIDATED" in str(body.get("toolConfig")):  # Gemini's `strict`
        keys.add("strict")
    return keys


def _is_strict(body: Json) -> bool:
    """Must the sampler follow a schema?"""
    text = json_text(body.get("tools", []))
    return '"strict": true' in text or "VALIDATED" in str(body.get("toolConfig"))


# A host's own content that's sent back to it.

WANTED = r"missing|passed back|required|must be (passed|included|provided|present)|\bexpected"
OWN = ("messages", "input", "contents")  # where a body has its messages
SPOKEN_BY_MODELS = ("assistant", "model")
PARTS = ("content", "parts", "tool_calls")  # where a message has its parts
REASONING = ("reasoning", "thinking", "redacted_thinking")  # types of parts and items
ESSENTIAL = {  # the content of a message; everything else can be left out
    *PARTS,
    *("role", "type", "id", "text", "name", "input", "arguments", "args", "function"),
    *("functionCall", "call_id", "output", "tool_call_id", "tool_name", "functionResponse"),
}


def find_echo(body: Json) -> set[str]:
    """What's sent back to its host but isn't part of the conversation: keys such as
    `reasoning_content`, and types of parts such as `thinking`.
    """
    names: set[str] = set()
    for part in _find_own_parts(body):
        names |= part.keys() - ESSENTIAL
        if part.get("type") in REASONING:
            names.add(part["type"])
    return names


def _find_own_parts(body: Json) -> Iterator[Json]:
    for key in OWN:
        for message in body.get(key, ()):
            if _is_own(message):
                yield from _walk(message)


def _is_own(message: Json) -> bool:
    """Did the model write it? An item of OpenAI's Responses API may have no role."""
    role = message.get("role")
    if role is None:
        return message.get("type") != "function_call_output"
    return role in SPOKEN_BY_MODELS


def _walk(part: Json) -> Iterator[Json]:
    yield part
    for key in PARTS:
        inner = part.get(key)
        if isinstance(inner, list):
            for each in inner:
                yield from _walk(each)


def _strip_all(messages: list[Json], names: set[str]) -> list[Json]:
    """`messages` without these echoes. Only the model's own messages change."""
    kept = []
    for message in messages:
        if not _is_own(message):
            kept.append(message)
        elif message.get("type") not in names:
            kept.append(_strip(message, names))
    return kept


def _strip(part: Json, names: set[str]) -> Json:
    """A part without these keys and without inner parts of these types."""
    stripped = {}
    for key, value in part.items():
        if key in names and key not in ESSENTIAL:
            continue
        if key in PARTS and isinstance(value, list):
            value = [_strip(each, names) for each in value if each.get("type") not in names]
        stripped[key] = value
    return stripped


# Tool choices. Servers have no codes for them. The wordings are from Anthropic, DeepSeek,
# DashScope, LM Studio and Gemini.

REFUSED_CHOICE = re.compile(
    r"tool[_ ]?choice(?! requires)|Thinking mode does not support|"
    r"function[ _]?calling[ _]?(config|mode)",
    re.IGNORECASE,
)
ONLY_STRINGS = re.compile(r"type: 'object'|Supported string values", re.IGNORECASE)


def find_refused_choices(asked: ToolChoice, complaint: str) -> list[str]:
    """The kinds of tool choice that a server refuses with this `complaint`; empty if it's about
    something else.
    """
    if asked == "auto" or not REFUSED_CHOICE.search(complaint):
        return []
    if not isinstance(asked, Force):
        return [asked]
    if ONLY_STRINGS.search(complaint):  # an object isn't supported, but "required" may be
        return ["named"]
    return ["named", "required"]


def find_remedy(
    remedies: Iterable[tuple[str, str, Any]], options: Mapping[str, Any], complaint: str
) -> Json:
    """The option of `to_wire` that answers a complaint; empty if there is none."""
    for words, option, value in remedies:
        if re.search(words, complaint) and options.get(option) != value:
            return {option: value}
    return {}


def _says(pattern: str, complaint: str) -> bool:
    return re.search(pattern, complaint, re.IGNORECASE | re.DOTALL) is not None

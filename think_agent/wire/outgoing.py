"""Outgoing requests: what a provider may see of the messages, the tools and the tool choice.

Rule 1: what a provider wrote (`native`) goes back unchanged to the host that wrote it, and to no
        other: signatures are not valid elsewhere. Where they cover the instructions and the tools,
        these must be the same, too. For all others it is built from its fields.
Rule 2: how a message is sent depends on the messages before it, and never on later ones (except the
        results of its own calls). So each request begins with the bytes of the one before, and a
        provider's cache recognizes them.
"""

import json
import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Any

import pydantic_core

from ..messages import (
    Assistant,
    Force,
    Json,
    Message,
    Spoken,
    ToolCall,
    ToolChoice,
    ToolResult,
    User,
    take_answered,
)
from ..model import Request
from ..tools import Tool

GOOD_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")  # ids of calls that every provider takes
# Without it, a model that is shown think alone takes its other tools for gone.
ONE_TOOL = (
    "For this reply you are shown one tool. Your other tools are there again in the next one."
)
KNOWN_TO_ALL = {  # keywords of JSON schema that every server with `strict` understands
    "type",
    "description",
    "enum",
    "const",
    "anyOf",
    "items",
    "properties",
    "required",
    "additionalProperties",
}
body_text = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode
"""A body as text. Raises TypeError or ValueError for what JSON does not have: it is the mistake of
whoever wrote a tool.
"""
# Those calls of a reply that have a result, each with it.
Answered = list[tuple[ToolCall, ToolResult]]


def sendable(
    messages: Sequence[Message],
    provider: str,
    dialect: str = "",
    host: str | None = None,
    native: type = dict,
    short_ids: bool = False,
    signed_under: str | None = None,
) -> Iterator[Spoken]:
    """`messages` as `provider` may see them. Every translator starts from this.

    - `native` of another provider, dialect or host (None: of any) is dropped, and so is one that is
      not of the type `native`: OpenAI's two APIs have the same provider name. So is one that was
      signed under something else (None: under anything).
    - A call without a result is dropped, and `native` with it: every provider refuses it. Such
      calls come from a reply that was cut, or from a final reply.
    - The results of a reply come right after it.
    - Ids of calls that the provider did not write itself are made valid and unique.
      With `short_ids` all ids are replaced by nine letters and digits.
    - A message that only the kit reads is left out, and so is an empty reply.
    """
    ids: set[str] = set()
    for reply, answered in with_results(messages):
        if isinstance(reply, User):
            yield reply
        elif answered or reply.words:
            goes_back = False  # as it came (rule 1)
            by = reply.provider, reply.dialect
            if by == (provider, dialect) and host in (None, reply.host):
                is_whole = len(answered) == len(reply.tool_calls)
                is_valid = signed_under is None or reply.signed_under in ("", signed_under)
                goes_back = is_whole and is_valid and isinstance(reply.native, native)
            yield from _sent(reply, answered, ids, goes_back, short_ids)


def with_results(messages: Iterable[Message]) -> list[tuple[User | Assistant, Answered]]:
    """What is said by users and by models. Each result is with its reply."""
    said: list[tuple[User | Assistant, Answered]] = []
    answered: Answered = []
    open_calls: deque[ToolCall] = deque()
    for message in messages:  # a `match` takes three times as long
        if isinstance(message, ToolResult):
            call = take_answered(open_calls, message)
            if call:
                answered.append((call, message))
        elif isinstance(message, (User, Assistant)):
            answered = []
            said.append((message, answered))
        if isinstance(message, Assistant):
            open_calls = deque(message.tool_calls)
    return said


def _sent(
    reply: Assistant, answered: Answered, ids: set[str], goes_back: bool, short_ids: bool
) -> list[Spoken]:
    """A reply and its results. If it does not go back as it came, it loses its native form, and its
    calls get ids that every provider takes and no other call has.
    """
    calls = []
    results = []
    for call, result in answered:
        is_kept = goes_back or (call.id not in ids and GOOD_ID.fullmatch(call.id))
        if short_ids or not is_kept:
            id = f"call{len(ids):05}"  # rule 2: by the messages before
            call = replace(call, id=id)
            result = replace(result, call_id=id)
        ids.add(call.id)
        calls.append(call)
        results.append(result)
    # `replace` takes longer than all the rest, so it is called only where something changes.
    if tuple(calls) != reply.tool_calls:
        reply = replace(reply, tool_calls=tuple(calls))
    has_own_form = reply.commentary or reply.native is not None
    if has_own_form and not goes_back:  # only OpenAI knows a commentary
        reply = replace(reply, text=reply.words, commentary="", native=None)
    return [reply, *results]


def relax(request: Request, refused: Mapping[str, str]) -> Request:
    """The request with the strongest tool choice that its server takes."""
    choice = request.tool_choice
    if isinstance(choice, Force):
        if "named" not in refused:
            return request
        if "required" not in refused:
            tools = [tool for tool in request.tools if tool.name == choice.name]
            system = f"{request.system}\n\n{ONE_TOOL}".lstrip()
            return replace(request, tools=tools, tool_choice="required", system=system)
    elif choice not in refused:
        return request
    if choice == "none":
        request = replace(request, tools=())
    return replace(request, tool_choice="auto")


def choice_of(request: Request) -> ToolChoice | None:
    """The tool choice that has to be sent. None for the default, and without tools."""
    if request.tools and request.tool_choice != "auto":  # some servers refuse even "auto"
        return request.tool_choice
    return None


def digest(*values: Any) -> str:
    """A short digest of JSON values: the same for the same values, in every process."""
    return sha256(pydantic_core.to_json(values)).hexdigest()[:16]


def is_closed(schema: Json) -> bool:
    """Can a server that constrains the sampler (`strict`) take this schema? Every object must list
    all its properties as required, and have no keyword that only some servers know.
    """
    if not schema.keys() <= KNOWN_TO_ALL:
        return False
    properties = schema.get("properties", {})
    if schema.get("type") == "object":
        if not properties or properties.keys() != set(schema.get("required", ())):
            return False
        if schema.get("additionalProperties") is not False:
            return False
    inner = [*properties.values(), *schema.get("anyOf", ())]
    if "items" in schema:
        inner.append(schema["items"])
    return all(is_closed(part) for part in inner)


def openai_function(tool: Tool, strict: bool) -> Json:
    """The declaration of a tool for both of OpenAI's APIs."""
    # The APIs require `properties`, which a tool without parameters may leave out.
    function: Json = {
        "name": tool.name,
        "description": tool.description,
        "parameters": {"type": "object", "properties": {}, **tool.parameters},
    }
    if strict and is_closed(tool.parameters):
        function["strict"] = True
    return function


def arguments_object(call: ToolCall) -> Json:
    """The arguments of `call`. Providers take only an object. What the model wrote instead of one
    is wrapped, so that the model can see it.
    """
    if isinstance(call.arguments, dict):
        return call.arguments
    return {"invalid": call.arguments}


def arguments_text(call: ToolCall, written: Any) -> str:
    """The arguments of `call` as JSON text: the text that the model has `written`, if a strict
    reader reads the same. (Ours accepts line breaks in strings, and reads "null" as an object.)
    """
    if isinstance(written, str):
        try:
            if pydantic_core.from_json(written) == call.arguments:
                return written
        except ValueError:
            pass
    return pydantic_core.to_json(arguments_object(call)).decode()  # six times as fast as json


def filled(**fields: Any) -> Json:
    """These fields, without the empty ones."""
    return {key: value for key, value in fields.items() if value not in (None, "", [], {})}

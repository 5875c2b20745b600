"""What a provider may see: of the messages, the tools and the tool choice of a request.

Rule 1: what a provider wrote goes back to the host that wrote it, as it came (`native`), and to
        nobody else: signatures do not travel. For all others it is built from its fields.
Rule 2: how a message is sent depends on what stands before it, and (but for the results of its own
        calls) never on what comes later. So each request begins with the bytes of the one before,
        and a provider's cache knows it by them.
"""

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
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
    pairs,
)
from ..model import Request
from ..tools import Tool

GOOD_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")  # of a call: what every provider takes
KNOWN_TO_ALL = {  # the words of JSON schema that every server with `strict` understands
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


def sendable(
    messages: Sequence[Message],
    provider: str,
    dialect: str = "",
    host: str | None = None,
    native: type = dict,
    short_ids: bool = False,
) -> list[Spoken]:
    """`messages` as `provider` may see them. Every translator starts from this.

    - `native` of another provider, dialect or host (None: of any) is dropped, and so is one that is
      not of the type `native`: OpenAI's two APIs have one name.
    - A call without a result is dropped, and `native` with it: every provider refuses it. Such
      calls stand in a reply that was cut, or strayed into a final one.
    - The results of a reply come right behind it.
    - Ids of calls that the provider did not write itself are made such as it takes, and unique.
      With `short_ids` all of them are made, of nine letters and digits.
    - A message that only the kit reads is left out, and so is a reply that has nothing to say.
    """
    exchanges: list[Any] = []  # messages; with each reply, those of its calls that have a result
    for message, call in pairs(messages):  # a `match` takes three times as long
        if isinstance(message, User | Assistant):
            exchanges.append((message, []))
        elif call is not None:
            exchanges[-1][1].append((call, message))

    sent: list[Spoken] = []
    ids: set[str] = set()
    for message, answered in exchanges:
        if isinstance(message, User):
            sent.append(message)
        elif answered or message.words:
            goes_back = all(
                [
                    (message.provider, message.dialect) == (provider, dialect),
                    host in (None, message.host),
                    len(answered) == len(message.tool_calls),
                    isinstance(message.native, native),
                ]
            )
            sent += _exchange(message, answered, ids, goes_back, short_ids)
    return sent


def _exchange(
    reply: Assistant,
    answered: list[tuple[ToolCall, ToolResult]],
    ids: set[str],
    goes_back: bool,
    short_ids: bool,
) -> list[Spoken]:
    """A reply and its results. One that does not go back as it came is without its native form,
    and its calls have ids that no provider refuses and no other call has.
    """
    calls = []
    results = []
    for call, result in answered:
        is_good = GOOD_ID.fullmatch(call.id) and call.id not in ids
        if short_ids or not (goes_back or is_good):
            id = f"call{len(ids):05}"
            call = replace(call, id=id)
            result = replace(result, call_id=id)
        ids.add(call.id)
        calls.append(call)
        results.append(result)
    if not goes_back:
        text = reply.text
        if reply.commentary:
            text = f"{reply.commentary}\n\n{text}".strip()  # only OpenAI tells the first apart
        reply = replace(reply, text=text, commentary="", native=None)
    return [replace(reply, tool_calls=tuple(calls)), *results]


def relax(request: Request, refused: Mapping[str, str]) -> Request:
    """The request with the strongest tool choice that its server does not refuse."""
    choice = request.tool_choice
    tools = request.tools
    if isinstance(choice, Force) and "named" in refused:
        tools = [tool for tool in tools if tool.name == choice.name]
        choice = "required"
    if choice in refused:
        tools = request.tools
        if choice == "none":
            tools = ()
        choice = "auto"
    return replace(request, tools=tools, tool_choice=choice)


def choice_of(request: Request) -> ToolChoice | None:
    """The tool choice that has to be said: not the default, and none without tools."""
    if request.tools and request.tool_choice != "auto":  # some servers refuse even to hear it
        return request.tool_choice
    return None


def is_closed(schema: Json) -> bool:
    """Can a server that constrains the sampler (`strict`) take this schema? Every object must name
    all its properties, as required ones, and nothing may be in it that only some servers know.
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
    # Refused without `properties`, which a tool without parameters may leave out.
    function: Json = {
        "name": tool.name,
        "description": tool.description,
        "parameters": {"type": "object", "properties": {}, **tool.parameters},
    }
    if strict and is_closed(tool.parameters):
        function["strict"] = True
    return function


def arguments_object(call: ToolCall) -> Json:
    """The arguments of `call`. No provider takes a history with anything else than an object in
    it: what the model wrote in its place is wrapped, for the model to see.
    """
    if isinstance(call.arguments, dict):
        return call.arguments
    return {"invalid": call.arguments}


def arguments_text(call: ToolCall, written: Any) -> str:
    """The arguments of `call` as JSON text: as the model had `written` them, where a strict reader
    reads the same in it. (Ours lets line breaks pass, and takes "null" for an object.)
    """
    if isinstance(written, str):
        with suppress(ValueError):
            if pydantic_core.from_json(written) == call.arguments:
                return written
    return pydantic_core.to_json(arguments_object(call)).decode()  # six times as fast as json


def filled(**fields: Any) -> Json:
    """These fields, but for those that say nothing."""
    return {key: value for key, value in fields.items() if value not in (None, "", [], {})}

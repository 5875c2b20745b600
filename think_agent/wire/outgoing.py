"""Outgoing requests: prepare messages, tools and the tool choice for a provider.

Rule 1: a provider's own message (`native`) goes back unchanged, but only to the host that wrote it,
        because signatures aren't valid elsewhere. If they cover the instructions and tools, these
        must be the same. For all others it's built from the message's fields.
Rule 2: how a message is sent depends only on earlier messages and the results of its own calls. So
        each request begins with the same bytes as the one before, which prompt caches need.
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

GOOD_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")  # call ids that every provider accepts
# Without it, a model that sees only `think` concludes that its other tools are gone.
ONE_TOOL = (
    "For this reply you are shown one tool. Your other tools are there again in the next one."
)
KNOWN_TO_ALL = {  # JSON schema keywords that every server with `strict` understands
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
encode_body = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode
"""A body as text. Raises TypeError or ValueError for what JSON doesn't have: that's a mistake in a
tool.
"""
# A reply's calls that have a result, with that result.
Answered = list[tuple[ToolCall, ToolResult]]


def prepare_messages(
    messages: Sequence[Message],
    provider: str,
    dialect: str = "",
    host: str | None = None,
    native: type = dict,
    short_ids: bool = False,
    signed_under: str | None = None,
) -> Iterator[Spoken]:
    """`messages` prepared for `provider`. Every translator starts from this.

    - `native` of another provider, dialect or host (None: of any) is dropped, and so is one that is
      not of the type `native`: OpenAI's two APIs have the same provider name. So is one that was
      signed under something else (None: under anything).
    - A call without a result is dropped, and `native` with it, because every provider refuses it.
      Such calls are in truncated and closing replies.
    - A reply's results come right after it.
    - Call ids from elsewhere are made valid and unique. With `short_ids` all ids are replaced by
      nine letters and digits.
    - Messages that only the kit reads are left out, and so are empty replies.
    """
    ids = CallIds(short=short_ids)
    for reply, answered in pair_results(messages):
        if isinstance(reply, User):
            yield reply
            continue
        if not answered and not reply.words:  # most providers refuse an empty reply
            continue

        is_own = (reply.provider, reply.dialect) == (provider, dialect)
        if host is not None and host != reply.host:
            is_own = False
        is_whole = len(answered) == len(reply.tool_calls)
        is_valid = signed_under is None or reply.signed_under in ("", signed_under)
        goes_back = is_own and is_whole and is_valid and isinstance(reply.native, native)
        is_plain = reply.native is None and not reply.commentary and reply.text == reply.words
        if not (goes_back or is_plain):  # rule 1
            # Only OpenAI has commentary. For all others it's the text, unless there is another
            # text.
            reply = replace(reply, text=reply.words, commentary="", native=None)
        calls = []
        results = []
        for call, result in answered:
            id = ids.take(call.id, is_own=goes_back)
            # Each request goes through all messages, and a copy takes longer than everything else.
            if id != call.id:
                call = replace(call, id=id)
                result = replace(result, call_id=id)
            calls.append(call)
            results.append(result)
        if tuple(calls) != reply.tool_calls:
            reply = replace(reply, tool_calls=tuple(calls))
        yield reply
        yield from results


class CallIds:
    """Gives a request's calls valid and unique ids.

    `short`: all of them have nine letters and digits.
    """

    def __init__(self, *, short: bool) -> None:
        self._short = short
        self._taken: set[str] = set()

    def take(self, id: str, *, is_own: bool) -> str:
        """The id to send for this id. `is_own`: the server itself wrote it."""
        is_good = is_own or (id not in self._taken and GOOD_ID.fullmatch(id))
        if self._short or not is_good:
            id = self._make()
        self._taken.add(id)
        return id

    def _make(self) -> str:
        # Numbered by the ids before it (rule 2). A random id would differ in the next request and
        # miss the prompt cache.
        number = len(self._taken)
        while f"call{number:05}" in self._taken:
            number += 1
        return f"call{number:05}"


def pair_results(messages: Iterable[Message]) -> list[tuple[User | Assistant, Answered]]:
    """The users' messages and the models' replies, each with its results."""
    said: list[tuple[User | Assistant, Answered]] = []
    answered: Answered = []
    open_calls: deque[ToolCall] = deque()
    # Each request goes through all messages, and `match` is three times as slow as `isinstance`.
    for message in messages:
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


def relax(request: Request, refused: Mapping[str, str]) -> Request:
    """The request with the strongest tool choice that its server supports. `refused`: the kinds it
    doesn't support (`"named"`, `"required"`, `"none"`), each with the refusal's text.
    """
    choice = request.tool_choice
    if isinstance(choice, Force):
        if "named" not in refused:
            return request
        if "required" not in refused:
            # "required" means any tool, so offer only the one that's meant.
            tools = [tool for tool in request.tools if tool.name == choice.name]
            system = f"{request.system}\n\n{ONE_TOOL}".lstrip()
            return replace(request, tools=tools, tool_choice="required", system=system)
    elif choice not in refused:
        return request
    if choice == "none":  # without tools, none can be called
        request = replace(request, tools=())
    return replace(request, tool_choice="auto")


def select_choice(request: Request) -> ToolChoice | None:
    """The tool choice to send. None for the default, and without tools."""
    if request.tools and request.tool_choice != "auto":  # some servers refuse even "auto"
        return request.tool_choice
    return None


def make_digest(*values: Any) -> str:
    """A short digest of JSON values, the same in every process."""
    return sha256(pydantic_core.to_json(values)).hexdigest()[:16]


def is_closed(schema: Json) -> bool:
    """Can a server constrain its sampler (`strict`) to this schema? Every object must list all its
    properties as required, without keywords that only some servers know.
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


def describe_function(tool: Tool, strict: bool) -> Json:
    """The declaration of a tool for both of OpenAI's APIs."""
    # The APIs require `properties`, which a tool without parameters may omit.
    function: Json = {
        "name": tool.name,
        "description": tool.description,
        "parameters": {"type": "object", "properties": {}, **tool.parameters},
    }
    if strict and is_closed(tool.parameters):
        function["strict"] = True
    return function


def wrap_arguments(call: ToolCall) -> Json:
    """The arguments of `call`. Providers accept only an object. Anything else that the model wrote
    is wrapped, so that the model can see it.
    """
    if isinstance(call.arguments, dict):
        return call.arguments
    return {"invalid": call.arguments}


def write_arguments(call: ToolCall, written: Any) -> str:
    """The arguments of `call` as JSON text: the model's own text, if a strict reader gets the same
    value. (The kit's reader accepts line breaks in strings, and "null" as an object.)
    """
    if isinstance(written, str):
        try:
            if pydantic_core.from_json(written) == call.arguments:
                return written
        except ValueError:
            pass
    return pydantic_core.to_json(wrap_arguments(call)).decode()  # six times as fast as json


def drop_empty(**fields: Any) -> Json:
    """These fields, without the empty ones."""
    return {key: value for key, value in fields.items() if value not in (None, "", [], {})}

"""What the local servers of OpenAI's two APIs share: keys, the shape of errors, checks of tools.

Written from OpenAI's documents and the SDK's request types, without the adapter. `openai_chat.py`
and `openai_responses.py` hold the two protocols.
"""

import json
import re
from typing import Any

from tests.servers import Protocol, Reply, check, fits, in_order, shown_tool
from think_agent import Assistant, Force, Request, Tool
from think_agent.messages import Json, Message, ToolChoice

TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


def error(
    status: int, message: str, *, code: str | None = None, param: str | None = None, **headers: str
) -> Reply:
    """An HTTP error as OpenAI sends it."""
    kind = "invalid_request_error" if status < 429 else code or "server_error"
    body = {"error": {"message": message, "type": kind, "param": param, "code": code}}
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Reply(status, body, headers=named)


class OpenAIProtocol(Protocol):
    """Any key but an empty one is good, unless `key` says which one."""

    path: str
    body_type: type
    """The SDK's TypedDict of the request body."""

    def accepts(self, path: str, headers: Any) -> Reply | None:
        if path != f"/v1{self.path}":
            return error(404, f"Invalid URL (POST {path})")
        scheme, _, key = (headers.get("authorization") or "").partition(" ")
        if scheme != "Bearer" or not key:
            return error(401, "You didn't provide an API key.")
        if self.key is not None and key != self.key:
            return error(401, f"Incorrect API key provided: {key}.", code="invalid_api_key")
        return None

    def refusal(self, message: str) -> Reply:
        if message.startswith("The model "):
            return error(404, message, code="model_not_found")
        return error(400, message)

    def decode(self, path: str, body: Json) -> Request:
        typed = self.typed(body)
        check(fits(self.body_type, typed), f"Unrecognized request arguments in {typed}")
        check(self.knows(body["model"]), f"The model `{body['model']}` does not exist.")
        tools = self.tools(body.get("tools", []))
        system, messages = self.messages(body)
        if schema := self.schema(body):
            check_strict(schema)
        choice = self.choice(body, tools)
        return Request(
            in_order(messages, goes_on=True),
            tools,
            tool_choice=choice,
            system=system,
            output_schema=schema,
        )

    def typed(self, body: Json) -> Json:
        """What of the body the SDK's type has to allow."""
        return {key: value for key, value in body.items() if key != "stream"}

    def messages(self, body: Json) -> tuple[str, list[Message]]:
        """The system prompt of the request, and its messages."""
        raise NotImplementedError

    def schema(self, body: Json) -> Json | None:
        """That of the answer, where one is asked for."""
        raise NotImplementedError

    def tools(self, wire: list[Json]) -> tuple[Tool, ...]:
        """The tools of the request."""
        tools = []
        for index, tool in enumerate(wire):
            function = tool.get("function", tool)
            name = function.get("name", "")
            check(TOOL_NAME.fullmatch(name), f"Invalid 'tools[{index}].function.name'")
            parameters = function.get("parameters") or {}
            whole = parameters.get("type") == "object" and "properties" in parameters
            check(whole, f"Invalid schema for function '{name}': missing properties.")
            if function.get("strict"):
                check_strict(parameters)
            tools.append(shown_tool(name, function["description"], parameters))
        return tuple(tools)

    def choice(self, body: Json, tools: tuple[Tool, ...]) -> ToolChoice:
        """The tool choice of the request."""
        check(tools or "tools" not in body, "[] is too short - 'tools'")
        if "tool_choice" not in body:
            return "auto"
        check(tools, "'tool_choice' is only allowed when 'tools' are specified.")
        choice = body["tool_choice"]
        if choice in ("auto", "none", "required"):
            return choice
        name = choice.get("function", choice).get("name")
        known = {tool.name for tool in tools}
        check(name in known, f"Tool choice '{name}' not found in 'tools' parameter.")
        return Force(name)


def check_strict(schema: Json) -> None:
    """Refuse a schema that strict mode refuses."""
    where = "Invalid schema for response_format 'answer': In context=(), "
    closed = schema.get("additionalProperties") is False
    check(closed, f"{where}'additionalProperties' is required to be supplied and to be false.")
    all_required = set(schema.get("required", ())) == set(schema.get("properties", {}))
    check(all_required, f"{where}'required' is required to include every key in properties.")


def usage(reply: Assistant, input: str, output: str) -> Json:
    """The tokens of a reply, under the names of either API."""
    used = reply.usage
    return {
        f"{input}_tokens": used.input_tokens,
        f"{output}_tokens": used.output_tokens,
        "total_tokens": used.input_tokens + used.output_tokens,
        f"{input}_tokens_details": {"cached_tokens": used.cached_tokens},
        f"{output}_tokens_details": {"reasoning_tokens": used.reasoning_tokens},
    }


def arguments_of(text: str) -> Json:
    """Arguments in a history. Ollama's compatible endpoint and others refuse what is no object."""
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    check(isinstance(value, dict), "invalid tool call arguments")
    return value

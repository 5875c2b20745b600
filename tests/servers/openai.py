"""What the local servers of OpenAI's two APIs share: keys, the shape of errors, checks of tools.

Written from OpenAI's documents and the SDK's request types, without the adapter. `openai_chat.py`
and `openai_responses.py` hold the two protocols.
"""

import json
import re
from typing import Any

from tests.servers import Protocol, Reply, check, shown_tool
from think_agent import Force, Tool
from think_agent.messages import Json, ToolChoice

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

    def check_body(self, body: Json) -> None:
        known = {*self.body_type.__annotations__, "stream"}
        check(body.keys() <= known, f"Unrecognized request arguments: {body.keys() - known}")
        check(isinstance(body.get("model"), str), "you must provide a model parameter")
        check(self.knows(body["model"]), f"The model `{body['model']}` does not exist.")

    def tools(self, functions: list[Json]) -> tuple[Tool, ...]:
        """The tools of the request, from their function objects."""
        tools = []
        for index, function in enumerate(functions):
            name = function.get("name", "")
            check(TOOL_NAME.fullmatch(name), f"Invalid 'tools[{index}].function.name'")
            parameters = function.get("parameters") or {}
            whole = parameters.get("type") == "object" and "properties" in parameters
            check(whole, f"Invalid schema for function '{name}': missing properties.")
            if function.get("strict"):
                check_strict(parameters)
            tools.append(shown_tool(name, function["description"], parameters))
        return tuple(tools)

    def choice(self, body: Json, name: Any, tools: tuple[Tool, ...]) -> ToolChoice:
        """The tool choice of the request; `name` is the one it names, if any."""
        check(tools or "tools" not in body, "[] is too short - 'tools'")
        if "tool_choice" not in body:
            return "auto"
        check(tools, "'tool_choice' is only allowed when 'tools' are specified.")
        if body["tool_choice"] in ("auto", "none", "required"):
            return body["tool_choice"]
        known = {tool.name for tool in tools}
        check(name in known, f"Tool choice '{name}' not found in 'tools' parameter.")
        return Force(name)


def check_strict(schema: Json) -> None:
    """Refuse a schema that strict mode refuses."""
    closed = schema.get("additionalProperties") is False
    check(closed, "Invalid schema: 'additionalProperties' is required and to be false.")
    all_required = set(schema.get("required", ())) == set(schema.get("properties", {}))
    check(all_required, "Invalid schema: 'required' must list every key in properties.")


def arguments_of(text: Any) -> Json:
    """Arguments in a history. Ollama's compatible endpoint and others refuse what is no object."""
    check(isinstance(text, str), "Invalid type for 'arguments': expected a string.")
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    check(isinstance(value, dict), "invalid tool call arguments")
    return value

"""What the local servers of OpenAI's two APIs share: keys, the shape of errors, checks of tools.

Written from PROVIDERS.md and the SDK's request types, without the adapter. `openai_chat.py` and
`openai_responses.py` hold the two protocols.
"""

import json
import re
from typing import Any

from pydantic import TypeAdapter, ValidationError

from tests.servers import Protocol, Reply
from think_agent import Force, Tool
from think_agent.messages import Json, ToolChoice

TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


def error(
    status: int, message: str, *, code: str | None = None, param: str | None = None, **headers: str
) -> Reply:
    """An HTTP error as OpenAI sends it."""
    kind = "invalid_request_error" if status < 429 else code or "server_error"
    body = {"error": {"message": message, "type": kind, "param": param, "code": code}}
    return Reply(
        status, body, headers={name.replace("_", "-"): value for name, value in headers.items()}
    )


class OpenAIProtocol(Protocol):
    """Any key but an empty one is good, unless `key` says which one."""

    path: str
    body_type: type
    """The SDK's TypedDict of the request body."""

    def __init__(self, key: str | None = None, models: set[str] | None = None) -> None:
        self.key = key
        self.models = models

    def accepts(self, path: str, headers: Any) -> Reply | None:
        if path != f"/v1{self.path}":
            return error(404, f"Invalid URL (POST {path})")
        scheme, _, key = (headers.get("authorization") or "").partition(" ")
        if scheme != "Bearer" or not key:
            return error(401, "You didn't provide an API key.")
        if self.key is not None and key != self.key:
            return error(401, f"Incorrect API key provided: {key}.", code="invalid_api_key")
        return None

    def is_stream(self, path: str, body: Json) -> bool:
        return body.get("stream") is True

    def refusal(self, message: str) -> Reply:
        if message.startswith("The model "):
            return error(404, message, code="model_not_found")
        return error(400, message)

    def check_body(self, body: Json) -> None:
        known = {*self.body_type.__annotations__, "stream"}
        for key in body:
            if key not in known:
                raise ValueError(f"Unrecognized request argument supplied: {key}")
        if not isinstance(body.get("model"), str):
            raise ValueError("you must provide a model parameter")
        if self.models is not None and body["model"] not in self.models:
            raise ValueError(
                f"The model `{body['model']}` does not exist or you do not have access to it."
            )

    def tools(self, functions: list[Json]) -> tuple[Tool, ...]:
        """The tools of the request, from their function objects."""
        tools = []
        for index, function in enumerate(functions):
            if not TOOL_NAME.fullmatch(function.get("name", "")):
                raise ValueError(f"Invalid 'tools[{index}].function.name'")
            parameters = function.get("parameters") or {}
            if parameters.get("type") != "object" or "properties" not in parameters:
                raise ValueError(
                    f"Invalid schema for function '{function['name']}': In context=(), "
                    "object schema missing properties."
                )
            if function.get("strict"):
                check_strict(parameters)
            tools.append(
                Tool(
                    name=function["name"],
                    description=function["description"],
                    parameters=parameters,
                )
            )
        return tuple(tools)

    def choice(self, body: Json, name: Any, tools: tuple[Tool, ...]) -> ToolChoice:
        """The tool choice of the request; `name` is the one it names, if any."""
        if "tools" in body and not tools:
            raise ValueError("[] is too short - 'tools'")
        if "tool_choice" not in body:
            return "auto"
        if not tools:
            raise ValueError("'tool_choice' is only allowed when 'tools' are specified.")
        if body["tool_choice"] in ("auto", "none", "required"):
            return body["tool_choice"]
        if name not in {tool.name for tool in tools}:
            raise ValueError(f"Tool choice '{name}' not found in 'tools' parameter.")
        return Force(name)


def conforms(adapter: TypeAdapter[Any], value: Any, where: str) -> None:
    """ValueError in the API's manner when `value` is not of the SDK's type."""
    try:
        checked = adapter.validate_python(value)
        for field in checked.values():  # pydantic validates an Iterable only as it is read
            if type(field).__name__ == "ValidatorIterator":
                list(field)
    except ValidationError as problem:
        raise ValueError(f"Invalid value for '{where}': {problem.errors()[0]['msg']}") from problem


def check_strict(schema: Json) -> None:
    """ValueError for a schema that strict mode refuses."""
    if schema.get("additionalProperties") is not False:
        raise ValueError(
            "Invalid schema: 'additionalProperties' is required to be supplied and to be false."
        )
    if set(schema.get("required", ())) != set(schema.get("properties", {})):
        raise ValueError("Invalid schema: 'required' must list every key in properties.")


def arguments_of(text: Any) -> Json:
    """Arguments in a history. Ollama's compatible endpoint and others refuse what is no object."""
    if not isinstance(text, str):
        raise ValueError(
            f"Invalid type for 'arguments': expected a string, but got {type(text).__name__}."
        )
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise ValueError("invalid tool call arguments")
    return value


def text_of(arguments: Json | str) -> str:
    return arguments if isinstance(arguments, str) else json.dumps(arguments)

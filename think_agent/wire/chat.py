"""What Chat Completions and Ollama's protocol share: the shape of their messages."""

from ..messages import Assistant, Json, ToolCall, ToolResult, User
from ..model import Request
from .incoming import Identity, drop_repeats, get_or_empty, parse_arguments
from .outgoing import prepare_messages, wrap_arguments, write_arguments

NEW_CALL: Json = {"type": "function", "function": {}}


def write_messages(
    request: Request, provider: str, host: str, short_ids: bool = False
) -> list[Json]:
    """The messages of a request. A native message goes back unchanged, except for its calls' ids
    and arguments. Ollama expects arguments as an object, not as JSON text, and the tool's name in a
    result.
    """
    is_ollama = provider == "ollama"
    wire: list[Json] = []
    if request.system:  # Ollama silently ignores a field named `system`
        wire.append({"role": "system", "content": request.system})
    for message in prepare_messages(request.messages, provider, host=host, short_ids=short_ids):
        if isinstance(message, ToolResult):
            result = {"role": "tool", "tool_call_id": message.call_id, "content": message.content}
            if is_ollama:
                result["tool_name"] = message.name
            wire.append(result)
        elif isinstance(message, User):
            wire.append({"role": "user", "content": message.text})
        else:
            wire.append(_reply(message, is_ollama))
    return wire


def _reply(reply: Assistant, is_ollama: bool) -> Json:
    """The provider's own message, or a new one. Fields added by a server are kept."""
    content = reply.text or None
    if is_ollama:
        content = reply.text
    wire = reply.native or {"role": "assistant", "content": content}
    if not reply.tool_calls:
        return wire
    written = iter(wire.get("tool_calls", ()))
    calls = []
    for call in reply.tool_calls:
        own = next(written, NEW_CALL)
        function = {**own["function"], "name": call.name}
        if is_ollama:
            function["arguments"] = wrap_arguments(call)
        else:
            function["arguments"] = write_arguments(call, function.get("arguments"))
        calls.append({**own, "id": call.id, "function": function})
    return {**wire, "tool_calls": calls}


def drop_repeated_calls(message: Json) -> Json:
    """`message` without the calls that come again."""
    calls = get_or_empty(message, "tool_calls", list)
    kept = drop_repeats(calls, _identify)
    if len(kept) == len(calls):
        return message
    return {**message, "tool_calls": kept}


def _identify(call: Json) -> Identity:
    function = get_or_empty(call, "function", dict)
    return call.get("id"), function.get("name"), parse_arguments(function.get("arguments"))


def read_function_calls(message: Json) -> tuple[ToolCall, ...]:
    """The calls of a message, which are the same in both protocols."""
    calls = []
    for call in get_or_empty(message, "tool_calls", list):
        function = get_or_empty(call, "function", dict)
        arguments = parse_arguments(function.get("arguments"))
        name = get_or_empty(function, "name", str)
        calls.append(ToolCall(get_or_empty(call, "id", str), name, arguments))
    return tuple(calls)

"""The other side of the benchmark: the loop as a competent user writes it on each SDK.

It uses the typed API of each SDK's documentation, and does what the kit does: `think` is forced
first, and after its exit signal comes one call without tools. A loop is a generator that yields the
arguments of the SDK's call, so that it is written once for sync and async.

`python -m tests.benchmarks.by_hand PROVIDER URL` holds one conversation and prints the seconds that
the imports took.
"""

import json
import sys
import time
from collections.abc import Awaitable, Callable, Generator
from typing import Any

from tests.benchmarks.conversation import FUNCTIONS, INSTRUCTIONS, KEY, MODEL, REQUEST, TOOLS

Loop = Generator[dict[str, Any], Any, str]
Send = Callable[..., Any]
FORCED = {"type": "function", "function": {"name": "think"}}


def act(name: str, arguments: dict[str, Any]) -> str:
    """The result of a call, as text."""
    return "Thought recorded." if name == "think" else json.dumps(FUNCTIONS[name](**arguments))


def leaves(name: str, arguments: dict[str, Any]) -> bool:
    return name == "think" and arguments["should_continue"] == "false"


def openai_chat() -> Loop:
    tools = [{"type": "function", "function": tool} for tool in TOOLS]
    messages: list[Any] = [
        {"role": "system", "content": INSTRUCTIONS},
        {"role": "user", "content": REQUEST},
    ]
    choice: dict[str, Any] = {"tool_choice": FORCED}
    while True:
        response = yield {"model": MODEL, "messages": messages, "tools": tools, **choice}
        message = response.choices[0].message
        if not message.tool_calls:
            return str(message.content)
        messages.append(message)
        choice = {}
        for call in message.tool_calls:
            name, arguments = call.function.name, json.loads(call.function.arguments)
            result = act(name, arguments)
            messages.append({"role": "tool", "tool_call_id": call.id, "content": result})
            if leaves(name, arguments):
                choice = {"tool_choice": "none"}


def openai_responses() -> Loop:
    tools = [{"type": "function", "strict": False, **tool} for tool in TOOLS]
    items: list[Any] = [{"role": "user", "content": REQUEST}]
    choice: dict[str, Any] = {"tool_choice": {"type": "function", "name": "think"}}
    while True:
        response = yield {
            "model": MODEL,
            "instructions": INSTRUCTIONS,
            "input": items,
            "tools": tools,
            "store": False,
            "include": ["reasoning.encrypted_content"],
            **choice,
        }
        calls = [item for item in response.output if item.type == "function_call"]
        if not calls:
            return str(response.output_text)
        items += response.output
        choice = {}
        for call in calls:
            arguments = json.loads(call.arguments)
            result = {"call_id": call.call_id, "output": act(call.name, arguments)}
            items.append({"type": "function_call_output", **result})
            if leaves(call.name, arguments):
                choice = {"tool_choice": "none"}


def anthropic() -> Loop:
    tools = [
        {
            "name": tool["name"],
            "description": tool["description"],
            "input_schema": tool["parameters"],
        }
        for tool in TOOLS
    ]
    messages: list[Any] = [{"role": "user", "content": REQUEST}]
    choice: dict[str, Any] = {"tool_choice": {"type": "tool", "name": "think"}}
    while True:
        response = yield {
            "model": MODEL,
            "max_tokens": 8192,
            "system": INSTRUCTIONS,
            "messages": messages,
            "tools": tools,
            **choice,
        }
        calls = [block for block in response.content if block.type == "tool_use"]
        if not calls:
            return str(response.content[0].text)
        messages.append({"role": "assistant", "content": response.content})
        choice, results = {}, []
        for call in calls:
            content = act(call.name, call.input)
            results.append({"type": "tool_result", "tool_use_id": call.id, "content": content})
            if leaves(call.name, call.input):
                choice = {"tool_choice": {"type": "none"}}
        messages.append({"role": "user", "content": results})


def gemini() -> Loop:
    from google.genai import types

    declarations = [
        types.FunctionDeclaration(
            name=tool["name"],
            description=tool["description"],
            parameters_json_schema=tool["parameters"],
        )
        for tool in TOOLS
    ]
    config = types.GenerateContentConfig(
        system_instruction=INSTRUCTIONS,
        tools=[types.Tool(function_declarations=declarations)],
        automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True),
    )

    def choosing(mode: str, names: list[str] | None = None) -> types.GenerateContentConfig:
        calling = types.FunctionCallingConfig(
            mode=types.FunctionCallingConfigMode(mode), allowed_function_names=names
        )
        return config.model_copy(
            update={"tool_config": types.ToolConfig(function_calling_config=calling)}
        )

    contents = [types.Content(role="user", parts=[types.Part(text=REQUEST)])]
    chosen = choosing("ANY", ["think"])
    while True:
        response = yield {"model": MODEL, "contents": contents, "config": chosen}
        if not response.function_calls:
            return str(response.text)
        contents.append(response.candidates[0].content)
        chosen, parts = config, []
        for call in response.function_calls:
            answer = {"output": act(call.name, call.args)}
            result = types.FunctionResponse(id=call.id, name=call.name, response=answer)
            parts.append(types.Part(function_response=result))
            if leaves(call.name, call.args):
                chosen = choosing("NONE")
        contents.append(types.Content(role="user", parts=parts))


def ollama() -> Loop:
    tools = [{"type": "function", "function": tool} for tool in TOOLS]
    messages: list[Any] = [
        {"role": "system", "content": INSTRUCTIONS},
        {"role": "user", "content": REQUEST},
    ]
    while True:
        options = {"num_ctx": 16384}
        response = yield {"model": MODEL, "messages": messages, "tools": tools, "options": options}
        message = response.message
        if not message.tool_calls:
            return str(message.content)
        messages.append(message)
        for call in message.tool_calls:
            name, arguments = call.function.name, call.function.arguments
            result = act(name, arguments)
            messages.append({"role": "tool", "tool_name": name, "content": result})
            if leaves(name, arguments):
                tools = []


LOOPS: dict[str, Callable[[], Loop]] = {
    "openai-responses": openai_responses,
    "openai-chat": openai_chat,
    "anthropic": anthropic,
    "gemini": gemini,
    "ollama": ollama,
}


def sender(provider: str, url: str, *, waits: bool) -> Send:
    """The SDK's typed call, on a client of its own."""
    match provider:
        case "openai-chat" | "openai-responses":
            import openai

            make = openai.AsyncOpenAI if waits else openai.OpenAI
            client = make(base_url=f"{url}/v1", api_key=KEY)
            send: Send = (
                client.chat.completions.create
                if provider == "openai-chat"
                else client.responses.create
            )
            return send
        case "anthropic":
            import anthropic

            kind = anthropic.AsyncAnthropic if waits else anthropic.Anthropic
            return kind(base_url=url, api_key=KEY).messages.create
        case "gemini":
            from google import genai
            from google.genai import types

            api = genai.Client(api_key=KEY, http_options=types.HttpOptions(base_url=url))
            models = api.aio.models if waits else api.models
            # The client is kept in sight: it closes its connections when it is collected.
            return lambda *, client=api, **arguments: models.generate_content(**arguments)
        case "ollama":
            import ollama

            return ollama.AsyncClient(url).chat if waits else ollama.Client(url).chat
    raise ValueError(provider)


def talker(provider: str, url: str) -> Callable[[], str]:
    """Holds one conversation at each call; the client stays."""
    send, loop_of = sender(provider, url, waits=False), LOOPS[provider]

    def talk() -> str:
        loop, response = loop_of(), None
        while True:
            try:
                arguments = loop.send(response)
            except StopIteration as end:
                return str(end.value)
            response = send(**arguments)

    return talk


def async_talker(provider: str, url: str) -> Callable[[], Awaitable[str]]:
    """`talker`, on the async client."""
    send, loop_of = sender(provider, url, waits=True), LOOPS[provider]

    async def talk() -> str:
        loop, response = loop_of(), None
        while True:
            try:
                arguments = loop.send(response)
            except StopIteration as end:
                return str(end.value)
            response = await send(**arguments)

    return talk


if __name__ == "__main__":
    start = time.perf_counter()
    talk = talker(sys.argv[1], sys.argv[2])
    print(time.perf_counter() - start)
    talk()

"""The loop as a competent user writes it, in three ways, to compare the kit with.

- `typed`: with the typed API of each SDK's documentation;
- `raw`: with each SDK's entry point for plain JSON;
- `http`: with an HTTP client and no SDK, which is as cheap as it can get.

All do what the kit does: `think` is forced first, and after its exit signal comes one call without
tools. Each protocol is a class; the typed APIs take the same body, as arguments. The loop is a
generator that yields bodies, so it is written once for sync and async.

`python -m tests.benchmarks.by_hand SIDE PROVIDER URL COUNT` prints the seconds of the imports and
holds COUNT conversations, at once if there are several.
"""

import json
from collections.abc import Awaitable, Callable, Generator
from typing import Any, ClassVar

from tests.benchmarks.conversation import (
    FUNCTIONS,
    INSTRUCTIONS,
    KEY,
    MODEL,
    REQUEST,
    TOOLS,
    hold,
)

Json = dict[str, Any]
Called = tuple[str, str, Json]  # id, name, arguments
Done = list[tuple[str, str, str]]  # id, name, result
Read = tuple[list[Any], list[Called], Any]  # what goes back, the calls, the text
Loop = Generator[Json | str, Any, None]  # of bodies, and at the end the answer

USER = {"role": "user", "content": REQUEST}
SYSTEM = {"role": "system", "content": INSTRUCTIONS}
FUNCTION_TOOLS = [{"type": "function", "function": tool} for tool in TOOLS]


def with_schema_as(key: str, tool: Json) -> Json:
    """A tool's declaration with its parameters under the protocol's own key."""
    return {**{k: v for k, v in tool.items() if k != "parameters"}, key: tool["parameters"]}


class Chat:
    path, history = "/chat/completions", "messages"
    forced: ClassVar[Json] = {"tool_choice": {"type": "function", "function": {"name": "think"}}}
    last: ClassVar[Json] = {"tool_choice": "none"}

    def body(self) -> Json:
        return {"model": MODEL, "messages": [SYSTEM, USER], "tools": FUNCTION_TOOLS}

    def read(self, response: Any) -> Read:
        message = response["choices"][0]["message"]
        made = ((call["id"], call["function"]) for call in message.get("tool_calls") or ())
        calls = [(id, f["name"], json.loads(f["arguments"])) for id, f in made]
        return [message], calls, message["content"]

    def read_typed(self, response: Any) -> Read:
        message = response.choices[0].message
        made = ((call.id, call.function) for call in message.tool_calls or ())
        calls = [(id, f.name, json.loads(f.arguments)) for id, f in made]
        return [message], calls, message.content

    def results(self, done: Done) -> list[Json]:
        return [self.result(*each) for each in done]

    def result(self, id: str, name: str, text: str) -> Json:
        return {"role": "tool", "tool_call_id": id, "content": text}


class Responses(Chat):
    path, history = "/responses", "input"
    forced: ClassVar[Json] = {"tool_choice": {"type": "function", "name": "think"}}

    def body(self) -> Json:
        return {
            "model": MODEL,
            "instructions": INSTRUCTIONS,
            "input": [USER],
            "tools": [{"type": "function", "strict": False, **tool} for tool in TOOLS],
            "store": False,
            "include": ["reasoning.encrypted_content"],
        }

    def read(self, response: Any) -> Read:
        items = response["output"]
        made = [item for item in items if item["type"] == "function_call"]
        calls = [(item["call_id"], item["name"], json.loads(item["arguments"])) for item in made]
        return items, calls, items[-1].get("content", [{}])[0].get("text")

    def read_typed(self, response: Any) -> Read:
        made = [item for item in response.output if item.type == "function_call"]
        calls = [(item.call_id, item.name, json.loads(item.arguments)) for item in made]
        return response.output, calls, response.output_text

    def result(self, id: str, name: str, text: str) -> Json:
        return {"type": "function_call_output", "call_id": id, "output": text}


class Anthropic(Chat):
    path = "/v1/messages"
    forced: ClassVar[Json] = {"tool_choice": {"type": "tool", "name": "think"}}
    last: ClassVar[Json] = {"tool_choice": {"type": "none"}}

    def body(self) -> Json:
        tools = [with_schema_as("input_schema", tool) for tool in TOOLS]
        body = {"model": MODEL, "max_tokens": 8192, "system": INSTRUCTIONS, "messages": [USER]}
        return {**body, "tools": tools}

    def read(self, response: Any) -> Read:
        content = response["content"]
        made = [block for block in content if block["type"] == "tool_use"]
        calls = [(block["id"], block["name"], block["input"]) for block in made]
        return [{"role": "assistant", "content": content}], calls, content[0].get("text")

    def read_typed(self, response: Any) -> Read:
        content = response.content
        made = [block for block in content if block.type == "tool_use"]
        calls = [(block.id, block.name, block.input) for block in made]
        return [{"role": "assistant", "content": content}], calls, getattr(content[0], "text", "")

    def results(self, done: Done) -> list[Json]:
        return [{"role": "user", "content": super().results(done)}]

    def result(self, id: str, name: str, text: str) -> Json:
        return {"type": "tool_result", "tool_use_id": id, "content": text}


class Ollama(Chat):
    path = "/api/chat"
    forced: ClassVar[Json] = {}
    last: ClassVar[Json] = {"tools": []}

    def body(self) -> Json:
        return {**super().body(), "options": {"num_ctx": 16384}, "stream": False}

    def read(self, response: Any) -> Read:
        message = response["message"]
        made = (call["function"] for call in message.get("tool_calls") or ())
        return [message], [("", f["name"], f["arguments"]) for f in made], message["content"]

    def read_typed(self, response: Any) -> Read:
        message = response.message
        made = (call.function for call in message.tool_calls or ())
        return [message], [("", f.name, f.arguments) for f in made], message.content

    def result(self, id: str, name: str, text: str) -> Json:
        return {"role": "tool", "tool_name": name, "content": text}


class Gemini(Chat):
    path, history = f"/v1beta/models/{MODEL}:generateContent", "contents"
    forced: ClassVar[Json] = {
        "toolConfig": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["think"]}}
    }
    last: ClassVar[Json] = {"toolConfig": {"functionCallingConfig": {"mode": "NONE"}}}

    def body(self) -> Json:
        tools = [with_schema_as("parametersJsonSchema", tool) for tool in TOOLS]
        return {
            "contents": [{"role": "user", "parts": [{"text": REQUEST}]}],
            "systemInstruction": {"parts": [{"text": INSTRUCTIONS}]},
            "tools": [{"functionDeclarations": tools}],
        }

    def read(self, response: Any) -> Read:
        content = response["candidates"][0]["content"]
        made = [part["functionCall"] for part in content["parts"] if "functionCall" in part]
        calls = [(call.get("id", ""), call["name"], call["args"]) for call in made]
        return [content], calls, content["parts"][0].get("text")

    def read_typed(self, response: Any) -> Read:
        calls = [(call.id, call.name, call.args) for call in response.function_calls or ()]
        return [response.candidates[0].content], calls, None if calls else response.text

    def results(self, done: Done) -> list[Json]:
        return [{"role": "user", "parts": super().results(done)}]

    def result(self, id: str, name: str, text: str) -> Json:
        answer = {"id": id, "name": name, "response": {"output": text}}
        return {"functionResponse": answer}


PROTOCOLS: dict[str, type[Chat]] = {
    "openai-responses": Responses,
    "openai-chat": Chat,
    "anthropic": Anthropic,
    "gemini": Gemini,
    "ollama": Ollama,
}


def act(name: str, arguments: Json) -> str:
    """The result of a call, as text."""
    return "Thought recorded." if name == "think" else json.dumps(FUNCTIONS[name](**arguments))


def conversation(protocol: Chat, read: Callable[[Any], Read]) -> Loop:
    body, choice = protocol.body(), protocol.forced
    while True:
        response = yield {**body, **choice}
        items, calls, text = read(response)
        if not calls:
            yield str(text)
            return
        done = [(id, name, act(name, arguments)) for id, name, arguments in calls]
        body[protocol.history] = [*body[protocol.history], *items, *protocol.results(done)]
        signals = [arguments.get("should_continue") for _, _, arguments in calls]
        choice = protocol.last if "false" in signals else {}


def sender(side: str, provider: str, url: str, *, waits: bool) -> tuple[Any, Callable[[Any], Any]]:
    """A function that sends a body with a new client, and a function that reads its reply."""
    path = PROTOCOLS[provider].path
    same: Callable[[Any], Any] = lambda response: response  # noqa: E731
    if side == "http":
        import httpx

        http = (httpx.AsyncClient if waits else httpx.Client)(timeout=60)
        whole = f"{url}/v1{path}" if provider.startswith("openai") else url + path
        headers = {"authorization": f"Bearer {KEY}"}
        return lambda **body: http.post(whole, json=body, headers=headers), _json
    match provider:
        case "openai-chat" | "openai-responses":
            import openai

            client: Any = (openai.AsyncOpenAI if waits else openai.OpenAI)(
                base_url=f"{url}/v1", api_key=KEY
            )
            typed = (
                client.chat.completions if provider == "openai-chat" else client.responses
            ).create
        case "anthropic":
            import anthropic

            kind = anthropic.AsyncAnthropic if waits else anthropic.Anthropic
            client = kind(base_url=url, api_key=KEY)
            typed = client.messages.create
        case "gemini":
            from google import genai
            from google.genai import types

            api = genai.Client(api_key=KEY, http_options=types.HttpOptions(base_url=url))
            if side == "raw":
                request = api._api_client.async_request if waits else api._api_client.request
                name = path.removeprefix("/v1beta/")
                return lambda *, client=api, **body: request("post", name, body), _body
            ask = (api.aio.models if waits else api.models).generate_content
            # The client is kept alive: it closes its connections when it is collected.
            return (
                lambda *, client=api, contents, **config: ask(
                    model=MODEL, contents=contents, config=config
                )
            ), same
        case _:
            import ollama

            client = ollama.AsyncClient(url) if waits else ollama.Client(url)
            if side == "raw":
                return lambda **body: client._request_raw("POST", path, json=body), _json
            typed = client.chat
    if side == "raw":
        return lambda **body: client.post(path, body=body, cast_to=object), same
    return typed, same


def _json(response: Any) -> Any:
    return response.json()


def _body(response: Any) -> Any:
    return json.loads(response.body)


def started(side: str, provider: str) -> Loop:
    """A conversation at its beginning."""
    protocol = PROTOCOLS[provider]()
    return conversation(protocol, protocol.read_typed if side == "typed" else protocol.read)


def talker(side: str, provider: str, url: str) -> Callable[[], Json | str]:
    """Holds one conversation at each call; the client stays."""
    send, parse = sender(side, provider, url, waits=False)

    def talk() -> Json | str:
        loop = started(side, provider)
        step = next(loop)
        while isinstance(step, dict):
            step = loop.send(parse(send(**step)))
        return step

    return talk


def async_talker(side: str, provider: str, url: str) -> Callable[[], Awaitable[Json | str]]:
    """`talker`, on the async client."""
    send, parse = sender(side, provider, url, waits=True)

    async def talk() -> Json | str:
        loop = started(side, provider)
        step = next(loop)
        while isinstance(step, dict):
            step = loop.send(parse(await send(**step)))
        return step

    return talk


if __name__ == "__main__":
    hold(talker, async_talker)

"""The loop of lesson 01 on four providers, each through its own SDK.

    python demos/01b_four_providers.py anthropic "I want a refund on ORD-001."

Or `ollama`, `openai`, `gemini`. The offline run of this loop is lesson 01, which has the script.

Rule 1: `messages` is in the form of the provider, so what it signed is sent back unchanged.
Rule 2: A class reads three things from a reply: its text, its calls, and whether it was cut.
Rule 3: Each provider forces a thought in its own way, and each may refuse to.

Limitations: like lesson 01; the names of the models are as of 2026-11-24.
remember: the loop stays the same; a provider is one way to ask and one to give results
"""

import importlib
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

# Its name begins with a digit, so an `import` statement can't name it.
lesson: Any = importlib.import_module("demos.01_from_scratch")
TEXT = lesson.TEXT


@contextmanager
def translate_errors(*kinds: type[Exception]) -> Iterator[None]:
    """Raise what an SDK raises as a ModelError, in one line."""
    try:
        yield
    except kinds as error:
        raise lesson.ModelError(" ".join(str(error).split())) from error


class Provider:
    """A conversation with a model."""

    def __init__(self) -> None:
        self.messages: list[Any] = []

    def add_question(self, text: str) -> None:
        self.messages.append({"role": "user", "content": text})


class Ollama(Provider):
    """It ignores a tool choice, but follows a schema (`format`) although it has tools. So a forced
    thought is an object and the closing reply is a string: neither can be a call.
    """

    name = "qwen3.5:4b"

    def ask(self, choice: str) -> Any:
        import ollama

        properties = lesson.TOOLS["think"].parameters
        thought = {"type": "object", "properties": properties, "required": list(properties)}
        schemas: dict[str, Any] = {"think": thought, "none": TEXT}
        with translate_errors(ollama.ResponseError, ConnectionError):
            response = ollama.Client().chat(
                self.name,
                [{"role": "system", "content": lesson.RULES}, *self.messages],
                tools=[{"type": "function", "function": tool} for tool in lesson.describe_tools()],
                format=schemas.get(choice),
                options={"num_ctx": 8192},  # the default may be too short for the conversation
            )
        message = response.message
        text = message.content or ""
        functions = [call.function for call in message.tool_calls or ()]
        calls = [lesson.Call("", each.name, dict(each.arguments)) for each in functions]
        if choice == "think" and not calls:
            calls = [lesson.read_call("", "think", text)]
            text = ""
        if choice == "none":
            text = read_text(text)
        made = [{"function": {"name": each.name, "arguments": each.arguments}} for each in calls]
        self.messages.append({"role": "assistant", "content": text, "tool_calls": made})
        return lesson.Reply(text, calls, is_cut=response.done_reason == "length")

    def add_results(self, results: list[Any]) -> None:
        for result in results:
            message = {"role": "tool", "tool_name": result.call.name, "content": result.text}
            self.messages.append(message)


def read_text(written: str) -> str:
    """The text in a JSON string, or the text as it is if it's something else."""
    try:
        text = json.loads(written)
    except ValueError:
        return written
    return text if isinstance(text, str) else written


class Anthropic(Provider):
    """All results of a reply are in one message."""

    name = "claude-haiku-5-5"

    def ask(self, choice: str) -> Any:
        import anthropic

        tools = []
        for tool in lesson.describe_tools():
            schema = tool.pop("parameters")
            tools.append({**tool, "input_schema": schema})
        force_think = {"type": "tool", "name": "think"}
        body: Any = {
            "model": self.name,
            "max_tokens": 4096,
            "system": lesson.RULES,
            "messages": self.messages,
            "tools": tools,
            "tool_choice": force_think if choice == "think" else {"type": choice},
        }
        # Without a key, the SDK raises a TypeError.
        with translate_errors(anthropic.AnthropicError, TypeError):
            message = anthropic.Anthropic().messages.create(**body)
        self.messages.append({"role": "assistant", "content": message.content})
        text = "".join(block.text for block in message.content if block.type == "text")
        blocks = [block for block in message.content if block.type == "tool_use"]
        calls = [lesson.Call(block.id, block.name, block.input) for block in blocks]
        return lesson.Reply(text, calls, is_cut=message.stop_reason == "max_tokens")

    def add_results(self, results: list[Any]) -> None:
        blocks = []
        for result in results:
            block = {"type": "tool_result", "tool_use_id": result.call.id, "content": result.text}
            blocks.append(block)
        self.messages.append({"role": "user", "content": blocks})


class OpenAI(Provider):
    """The Responses API has items instead of messages: its reasoning, a text, a call, a result."""

    name = "gpt-6-luna"

    def ask(self, choice: str) -> Any:
        import openai

        tools = []
        for tool in lesson.describe_tools():
            tools.append({"type": "function", "strict": False, **tool})
        force_think = {"type": "function", "name": "think"}
        body: Any = {
            "model": self.name,
            "instructions": lesson.RULES,
            "input": self.messages,
            "tools": tools,
            "tool_choice": force_think if choice == "think" else choice,
        }
        with translate_errors(openai.OpenAIError):
            response = openai.OpenAI().responses.create(**body)
        self.messages.extend(response.output)
        items = [item for item in response.output if item.type == "function_call"]
        calls = [lesson.read_call(item.call_id, item.name, item.arguments) for item in items]
        return lesson.Reply(response.output_text, calls, is_cut=response.status == "incomplete")

    def add_results(self, results: list[Any]) -> None:
        for result in results:
            item = {"call_id": result.call.id, "output": result.text}
            self.messages.append({"type": "function_call_output", **item})


class Gemini(Provider):
    """A message is a content, which has parts."""

    name = "gemini-3.8-flash"

    def add_question(self, text: str) -> None:
        self.messages.append({"role": "user", "parts": [{"text": text}]})

    def ask(self, choice: str) -> Any:
        import httpx2
        from google import genai

        tools = []
        for tool in lesson.describe_tools():
            schema = tool.pop("parameters")
            tools.append({**tool, "parameters_json_schema": schema})
        calling: Any = {"mode": choice.upper()}
        if choice == "think":
            calling = {"mode": "ANY", "allowed_function_names": ["think"]}
        config: Any = {
            "system_instruction": lesson.RULES,
            "tools": [{"function_declarations": tools}],
            "tool_config": {"function_calling_config": calling},
        }
        # Without a key, the SDK raises a ValueError.
        with translate_errors(genai.errors.APIError, httpx2.HTTPError, ValueError):
            client = genai.Client()
            response = client.models.generate_content(
                model=self.name, contents=self.messages, config=config
            )
        candidate = response.candidates[0] if response.candidates else None
        if candidate is None or candidate.content is None:
            raise lesson.ModelError("Gemini gave no reply")
        self.messages.append(candidate.content)
        parts = candidate.content.parts or []
        text = "".join(part.text for part in parts if part.text and not part.thought)
        functions = [part.function_call for part in parts if part.function_call]
        calls = [lesson.Call(each.id, each.name, each.args or {}) for each in functions]
        return lesson.Reply(text, calls, is_cut=candidate.finish_reason == "MAX_TOKENS")

    def add_results(self, results: list[Any]) -> None:
        parts = []
        for result in results:
            answer = {"id": result.call.id, "name": result.call.name}
            parts.append({"function_response": {**answer, "response": {"output": result.text}}})
        self.messages.append({"role": "user", "parts": parts})


PROVIDERS = {"ollama": Ollama, "anthropic": Anthropic, "openai": OpenAI, "gemini": Gemini}


def main() -> None:
    if len(sys.argv) != 3 or sys.argv[1] not in PROVIDERS:
        names = "|".join(PROVIDERS)
        print(f"usage: python demos/01b_four_providers.py {names} QUESTION", file=sys.stderr)
        sys.exit(2)
    try:
        way_out, answer = lesson.run(PROVIDERS[sys.argv[1]](), sys.argv[2])
    except (ImportError, lesson.ModelError) as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(1)
    print(f"{way_out}: {answer}")


if __name__ == "__main__":
    main()

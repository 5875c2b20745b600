"""An agent that thinks before it acts and says when it is done: the whole pattern, in one file.

Rule 1: `think` is a tool that does nothing. Its value is its arguments: a note, and an exit signal.
Rule 2: the first reply to a person has to be a thought. The provider is told to force it.
Rule 3: the gate. A guarded tool runs only behind a thought that the model wrote after it had read
        the latest result. Any other call of it is refused, and then a thought is forced.
Rule 4: two ways out. After the signal comes one closing reply, in which no tool can be called. A
        reply that calls no tool (silence) is the answer, too.
Rule 5: there is a limit, and what the model gets wrong goes back to it, as the result of its call.

    python 01_from_scratch.py ollama "I want a refund on ORD-001."      or anthropic, openai, gemini

Limitations: all arguments are texts, nothing is streamed or saved, and a cut reply counts as whole.

remember: the loop is one screen, and all that it knows is the list of messages.
"""

import inspect
import json
import sys
from typing import Any, Literal, NamedTuple

RULES = "Refund an order if it is at most 30 days old. Look it up, think, and only then refund it."
ORDERS = {"ORD-001": "a laptop stand, 13 days old", "ORD-002": "a keyboard, 44 days old"}


def think(thought: str, should_continue: str = "true") -> str:
    """Write down working notes: what is known, which rule applies, what comes next. Set
    should_continue to "false" only when all is done and what is left is to tell the user."""
    return "Thought recorded."


def look_up(order_id: str) -> str:
    """Look up an order by its number, such as ORD-001."""
    return ORDERS.get(order_id, f"error: there is no order {order_id}")


def refund(order_id: str) -> str:
    """Pay the price of an order back. This cannot be undone."""
    return f"{order_id} is refunded."


TOOLS: dict[str, Any] = {"think": think, "look_up": look_up, "refund": refund}
GUARDED = {"refund"}
TEXT = {"type": "string"}
ARGUMENTS = {"should_continue": {"type": "string", "enum": ["true", "false"]}}  # any other: TEXT
Choice = Literal["think", "auto", "none"]  # call `think`; call what you like; call nothing


class Call(NamedTuple):
    name: str
    arguments: dict[str, Any]
    id: str | None = None


def run(model: "Model", question: str, limit: int = 20) -> tuple[str, str]:
    """Work until the model is done. Returns the way out, and the answer."""
    model.say(question)
    choice: Choice = "think"  # rule 2
    is_covered = False  # is there a thought behind the next call?
    for _ in range(limit):  # rule 5
        text, calls = model.ask(choice)
        if not calls:
            return "silence", text  # rule 4
        choice = "auto"
        results = []
        has_acted = says_done = False
        for call in calls:
            if call.name in GUARDED and not is_covered:  # rule 3
                results.append((call, "error: not run. Think first, then call it again."))
                choice = "think"
                continue
            results.append((call, perform(call)))
            says_done = str(call.arguments.get("should_continue")).lower() == "false"
            has_acted = has_acted or call.name != "think"
            is_covered = not has_acted  # a thought beside an action has not read its result
        model.tell(results)
        if says_done and choice == "auto":
            return "signal", model.ask("none")[0]  # rule 4
    return "limit", model.ask("none")[0]


def perform(call: Call) -> str:
    """The result of a call. What the model got wrong is a result, too (rule 5)."""
    print(f"  {call.name} {call.arguments}")
    try:
        tool = TOOLS[call.name]
        inspect.signature(tool).bind(**call.arguments)
    except (KeyError, TypeError) as error:
        return f"error: {error!r}"
    return str(tool(**call.arguments))


def described(parameters: str, **more: object) -> list[dict[str, Any]]:
    """The tools, for a provider that expects their schemas under the name `parameters`."""
    tools = []
    for name, function in TOOLS.items():
        names = inspect.signature(function).parameters
        arguments = {name: ARGUMENTS.get(name, TEXT) for name in names}
        schema = {"type": "object", "properties": arguments, "required": list(arguments)}
        tools.append({"name": name, "description": function.__doc__, parameters: schema, **more})
    return tools


def json_in(text: str, otherwise: Any) -> Any:
    """The JSON that a model wrote; something else, if it wrote something else."""
    try:
        return json.loads(text)
    except ValueError:
        return otherwise


class Model:
    """A conversation with a model. `messages` is all its state, in the form of its provider, so
    what the provider signed goes back as it came. Each provider adds two methods. `ask`: the next
    reply, as text and calls. `tell`: the results of these calls."""

    def __init__(self) -> None:
        self.messages: list[Any] = []

    def say(self, text: str) -> None:
        self.messages.append({"role": "user", "content": text})

    def ask(self, choice: Choice) -> tuple[str, list[Call]]:
        raise NotImplementedError

    def tell(self, results: list[tuple[Call, str]]) -> None:
        raise NotImplementedError


class Ollama(Model):
    """It ignores a tool choice, but honors a schema (`format`) beside the tools. So a forced
    thought is an object, and the closing reply is a string: neither can be a call."""

    name = "qwen3.5:4b"

    def ask(self, choice: Choice) -> tuple[str, list[Call]]:
        import ollama

        thought = {"type": "object", "properties": {"thought": TEXT}, "required": ["thought"]}
        form: Any = {"think": thought, "none": TEXT}.get(choice)
        tools = [{"type": "function", "function": tool} for tool in described("parameters")]
        messages = [{"role": "system", "content": RULES}, *self.messages]
        window = {"num_ctx": 8192}  # if it is not set, early messages may be dropped
        reply = ollama.chat(self.name, messages, tools=tools, format=form, options=window).message
        text = reply.content or ""
        calls = [Call(c.function.name, dict(c.function.arguments)) for c in reply.tool_calls or ()]
        if choice == "think" and not calls:
            text, calls = "", [Call("think", json_in(text, {}))]
        if choice == "none":
            text = json_in(text, text)
        functions = [{"function": {"name": c.name, "arguments": c.arguments}} for c in calls]
        self.messages.append({"role": "assistant", "content": text, "tool_calls": functions})
        return text, calls

    def tell(self, results: list[tuple[Call, str]]) -> None:
        for call, result in results:
            self.messages.append({"role": "tool", "tool_name": call.name, "content": result})


class Anthropic(Model):
    """It wants all results of a reply in one message."""

    name = "claude-haiku-5-5"

    def ask(self, choice: Choice) -> tuple[str, list[Call]]:
        import anthropic

        how = {"type": "tool", "name": "think"} if choice == "think" else {"type": choice}
        body: Any = {"model": self.name, "max_tokens": 4096, "system": RULES, "tool_choice": how}
        body |= {"messages": self.messages, "tools": described("input_schema")}
        blocks = anthropic.Anthropic().messages.create(**body).content
        self.messages.append({"role": "assistant", "content": blocks})
        text = "".join(block.text for block in blocks if block.type == "text")
        return text, [Call(b.name, b.input, b.id) for b in blocks if b.type == "tool_use"]

    def tell(self, results: list[tuple[Call, str]]) -> None:
        blocks = [{"type": "tool_result", "tool_use_id": c.id, "content": r} for c, r in results]
        self.messages.append({"role": "user", "content": blocks})


class OpenAI(Model):
    """It speaks in items: what it reasoned, what it says, each call and each result is one."""

    name = "gpt-6-luna"

    def ask(self, choice: Choice) -> tuple[str, list[Call]]:
        import openai

        how = {"type": "function", "name": "think"} if choice == "think" else choice
        tools = described("parameters", type="function", strict=False)
        body: Any = {"model": self.name, "instructions": RULES, "tools": tools, "tool_choice": how}
        reply = openai.OpenAI().responses.create(**body, input=self.messages)
        self.messages += reply.output
        made = [item for item in reply.output if item.type == "function_call"]
        return reply.output_text, [Call(c.name, json_in(c.arguments, {}), c.call_id) for c in made]

    def tell(self, results: list[tuple[Call, str]]) -> None:
        kind = {"type": "function_call_output"}
        self.messages += [{**kind, "call_id": call.id, "output": text} for call, text in results]


class Gemini(Model):
    """It calls a message a content, which has parts."""

    name = "gemini-3.8-flash"

    def say(self, text: str) -> None:
        self.messages.append({"role": "user", "parts": [{"text": text}]})

    def ask(self, choice: Choice) -> tuple[str, list[Call]]:
        from google import genai

        forced = {"mode": "ANY", "allowed_function_names": ["think"]}
        how = {"function_calling_config": forced if choice == "think" else {"mode": choice.upper()}}
        tools = [{"function_declarations": described("parameters_json_schema")}]
        config: Any = {"system_instruction": RULES, "tools": tools, "tool_config": how}
        client: Any = genai.Client()
        question = {"model": self.name, "contents": self.messages, "config": config}
        content = client.models.generate_content(**question).candidates[0].content
        self.messages.append(content)
        text = "".join(part.text for part in content.parts if part.text and not part.thought)
        made = [part.function_call for part in content.parts if part.function_call]
        return text, [Call(call.name, call.args, call.id) for call in made]

    def tell(self, results: list[tuple[Call, str]]) -> None:
        answers = [{"id": c.id, "name": c.name, "response": {"output": r}} for c, r in results]
        parts = [{"function_response": answer} for answer in answers]
        self.messages.append({"role": "user", "parts": parts})


PROVIDERS = {"ollama": Ollama, "anthropic": Anthropic, "openai": OpenAI, "gemini": Gemini}

if __name__ == "__main__":
    provider, question = sys.argv[1:] or ("ollama", "I want a refund on ORD-001.")
    print("{}: {}".format(*run(PROVIDERS[provider](), question)))

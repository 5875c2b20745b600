"""An agent that thinks before it acts and says when it's done: the whole pattern, in one file.

    python 01_from_scratch.py                 a script plays the model
    python 01_from_scratch.py http://127.0.0.1:11434/v1 qwen3.5:4b "I want a refund on ORD-001."

Rule 1: `think` does nothing. Its value is in its arguments: a note, and the exit signal.
Rule 2: The first reply should be a thought. A server may ignore that (Ollama does, here).
Rule 3: A guarded tool runs only behind a thought. A thought expires once a tool has run after it
        and the model has read the result.
Rule 4: The model ends a run in one of two ways. By signal: one closing reply follows, in which it
        can't call a tool. By silence: a reply that calls no tool is the answer.
Rule 5: A limit or a cut reply ends the run. What the model gets wrong is the result of its call.

Limitations: arguments are texts; nothing is streamed, retried or saved; silence is believed.
remember: the loop fits on a screen, and `messages` is the only state that a server sees
"""

import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import httpx

Json = dict[str, Any]
Choice = Literal["think", "auto", "none"]  # must call think; is free; can't call a tool

RULES = "Refund an order if it is at most 30 days old. Look it up, think, and only then refund it."
ORDERS = {"ORD-001": "a laptop stand, 13 days old", "ORD-002": "a keyboard, 44 days old"}


# The tools.


def think(thought: str, should_continue: str = "true") -> str:
    return "Thought recorded."


def look_up(order_id: str) -> str:
    return ORDERS.get(order_id, f"error: there is no order {order_id}")


def refund(order_id: str) -> str:
    if order_id not in ORDERS:
        return f"error: there is no order {order_id}"
    return f"{order_id} is refunded."


@dataclass
class Tool:
    function: Callable[..., str]
    description: str
    parameters: Json  # a JSON schema for each; all are required
    is_guarded: bool = False


TEXT = {"type": "string"}
TOOLS = {
    "think": Tool(
        think,
        "Write down working notes: what is known, which rule applies, what comes next. Set "
        'should_continue to "false" only when all is done and what is left is to tell the user.',
        {"thought": TEXT, "should_continue": {"type": "string", "enum": ["true", "false"]}},
    ),
    "look_up": Tool(look_up, "Look up an order, such as ORD-001.", {"order_id": TEXT}),
    "refund": Tool(
        refund,
        "Pay back the price of an order. This cannot be undone.",
        {"order_id": TEXT},
        is_guarded=True,
    ),
}


def describe_tools() -> list[Json]:
    """The tools as the model sees them."""
    tools = []
    for name, tool in TOOLS.items():
        required = list(tool.parameters)
        schema = {"type": "object", "properties": tool.parameters, "required": required}
        tools.append({"name": name, "description": tool.description, "parameters": schema})
    return tools


# The loop.


@dataclass
class Call:
    id: str
    name: str
    arguments: Json
    is_readable: bool = True  # False: the arguments weren't a JSON object


@dataclass
class Reply:
    text: str
    calls: list[Call]
    is_cut: bool = False


@dataclass
class Result:
    call: Call
    text: str
    has_run: bool = True


def run(
    model: "ChatCompletions", question: str, limit: int = 20, show: Callable[[str], None] = print
) -> tuple[str, str]:
    """Work until the model is done. Returns the way out and the answer."""
    model.add_question(question)
    gate = Gate()
    choice: Choice = "think"  # rule 2
    for _ in range(limit):  # rule 5
        reply = model.ask(choice)
        if reply.is_cut:
            return "truncated", reply.text  # a part of its calls may be missing, so none is run
        if not reply.calls:
            return "silence", reply.text  # rule 4

        gate.begin_reply()
        results = []
        for call in reply.calls:
            result = gate.answer(call)
            show(f"{call.name} {call.arguments} -> {result.text!r}")
            results.append(result)
        model.add_results(results)

        # If a call was refused, the model hasn't read that yet, so its signal doesn't count.
        all_ran = all(result.has_run for result in results)
        if all_ran and says_done(reply.calls):
            closing = model.ask("none")  # rule 4
            if closing.is_cut:
                return "truncated", closing.text
            return "signal", closing.text
        choice = "think" if gate.needs_thought else "auto"
    return "limit", model.ask("none").text


class Gate:
    """Rule 3. A model writes all calls of a reply before it reads the result of the first one. So
    one thought covers two guarded calls of a reply, but none that comes after another tool in it.
    """

    def __init__(self) -> None:
        self.has_thought = False
        self.has_acted = False  # did a tool run after that thought?
        self.has_looked = False  # was a tool that isn't guarded called in this reply?
        self.needs_thought = False  # was a call refused, and no thought came after it?

    def begin_reply(self) -> None:
        """The model has read all results. If a tool ran after the last thought, that expires."""
        if self.has_acted:
            self.has_thought = False
        self.has_acted = False
        self.has_looked = False
        self.needs_thought = False

    def answer(self, call: Call) -> Result:
        """Run a call, or refuse it."""
        if call.name == "think":
            return self.read_thought(call)
        if call.name not in TOOLS or not TOOLS[call.name].is_guarded:
            self.has_looked = True
        elif not self.has_thought or self.has_looked:
            self.needs_thought = True
            return Result(call, "error: not run. Think first, then call it again.", has_run=False)
        mistake = find_mistake(call)
        if mistake:
            return Result(call, f"error: not run. {mistake}", has_run=False)
        self.has_acted = True
        try:
            text = TOOLS[call.name].function(**call.arguments)
        except Exception as error:  # rule 5; the model may know another way
            text = f"error: {error}"
        return Result(call, text)

    def read_thought(self, call: Call) -> Result:
        thought = call.arguments.get("thought")
        if not isinstance(thought, str) or not any(char.isalnum() for char in thought):
            return Result(call, 'error: the thought is missing. Write it into "thought".')
        self.has_thought = True
        self.has_acted = False
        self.needs_thought = False
        return Result(call, think(thought))


def says_done(calls: list[Call]) -> bool:
    """The exit signal: what the last thought of a reply says. No other tool can give it."""
    signal = ""
    for call in calls:
        if call.name == "think":
            signal = str(call.arguments.get("should_continue"))
    return signal.strip().lower() == "false"


def find_mistake(call: Call) -> str:
    """What's wrong with a call, for the model to read. Empty if nothing is."""
    if call.name not in TOOLS:
        return f"There is no tool {call.name}."
    if not call.is_readable:
        return "The arguments must be a JSON object."
    parameters = TOOLS[call.name].parameters
    for name in parameters:
        if not isinstance(call.arguments.get(name), str):
            return f"The argument {name} must be a text."
    for name in call.arguments:
        if name not in parameters:
            return f"There is no argument {name}."
    return ""


# The model: a server that speaks Chat Completions, or a script.


class ModelError(Exception):
    """The model gave no reply. The text is one line for the user."""


class ChatCompletions:
    """A conversation with a model. Any class with `add_question`, `ask` and `add_results` will do:
    lesson 01b has four more.
    """

    def __init__(self, url: str, name: str) -> None:
        self.url = url
        self.name = name
        self.messages: list[Json] = [{"role": "system", "content": RULES}]

    def add_question(self, text: str) -> None:
        self.messages.append({"role": "user", "content": text})

    def ask(self, choice: Choice) -> Reply:
        force_think = {"type": "function", "function": {"name": "think"}}
        body = {
            "model": self.name,
            "messages": self.messages,
            "tools": [{"type": "function", "function": tool} for tool in describe_tools()],
            "tool_choice": force_think if choice == "think" else choice,
        }
        reply = read_reply(self.post(body))
        self.messages.append(write_reply(reply))
        return reply

    def add_results(self, results: list[Result]) -> None:
        for result in results:
            message = {"role": "tool", "tool_call_id": result.call.id, "content": result.text}
            self.messages.append(message)

    def post(self, body: Json) -> Any:
        """Send a request. Returns the JSON of the response."""
        key = os.environ.get("OPENAI_API_KEY", "none")
        headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
        url = f"{self.url}/chat/completions"
        content = json.dumps(body)  # in ASCII: a model may write half a character
        try:
            response = httpx.post(url, content=content, headers=headers, timeout=600)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise ModelError(f"{self.url} can't be reached: {error}") from error
        if response.is_error:
            why = " ".join(response.text.split())[:300]
            raise ModelError(f"{self.url} refused the request ({response.status_code}): {why}")
        try:
            return response.json()
        except ValueError as error:
            raise ModelError(f"{self.url} doesn't speak Chat Completions") from error


def read_reply(response: Any) -> Reply:
    """A response in our form."""
    try:
        [choice] = response["choices"]
        message = choice["message"]
        items = message.get("tool_calls") or []
        functions = [(item["id"], item["function"]) for item in items]
        calls = [read_call(id, str(each["name"]), each["arguments"]) for id, each in functions]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ModelError("the server's response is not a chat completion") from error
    return Reply(message.get("content") or "", calls, choice.get("finish_reason") == "length")


def read_call(id: str, name: str, written: str) -> Call:
    """A call. The model writes its arguments as JSON in a text, so they can be anything."""
    try:
        arguments = json.loads(written)
    except (TypeError, ValueError, RecursionError):
        arguments = None
    if not isinstance(arguments, dict):
        return Call(id, name, {}, is_readable=False)
    return Call(id, name, arguments)


def write_reply(reply: Reply) -> Json:
    """A reply as the server wants it back."""
    message: Json = {"role": "assistant", "content": reply.text}
    calls = []
    for call in reply.calls:
        function = {"name": call.name, "arguments": json.dumps(call.arguments)}
        calls.append({"id": call.id, "type": "function", "function": function})
    if calls:
        message["tool_calls"] = calls
    return message


SCRIPT: list[str | list[tuple[str, Json]]] = [  # a text, or the calls of a reply
    [("think", {"thought": "I don't know how old ORD-001 is.", "should_continue": "true"})],
    # This refund doesn't run: when the model wrote the thought, it hadn't read the look-up.
    [("look_up", {"order_id": "ORD-001"}), ("refund", {"order_id": "ORD-001"})],
    [("think", {"thought": "13 days is at most 30: refund it.", "should_continue": "true"})],
    [("refund", {"order_id": "ORD-001"})],
    [("think", {"thought": "It is refunded. That was all.", "should_continue": "false"})],
    "I refunded ORD-001, your laptop stand.",
]


class Script(ChatCompletions):
    """Plays SCRIPT, in the form in which a server would send it. No language model is at work."""

    def __init__(self) -> None:
        super().__init__("", "script")
        self.replies = list(SCRIPT)

    def post(self, body: Json) -> Any:
        reply = self.replies.pop(0)
        if isinstance(reply, str):
            message = write_reply(Reply(reply, []))
        else:
            place = len(self.messages)
            calls = [Call(f"{place}.{n}", *call) for n, call in enumerate(reply)]
            message = write_reply(Reply("", calls))
        return {"choices": [{"message": message, "finish_reason": "stop"}]}


def main() -> None:
    if len(sys.argv) == 1:
        print("[a script, no language model]")
        model: ChatCompletions = Script()
        question = "I want a refund on ORD-001."
    elif len(sys.argv) == 4:
        model = ChatCompletions(sys.argv[1].rstrip("/"), sys.argv[2])
        question = sys.argv[3]
    else:
        print("usage: python 01_from_scratch.py [URL MODEL QUESTION]", file=sys.stderr)
        sys.exit(2)
    try:
        way_out, answer = run(model, question)
    except ModelError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(1)
    print(f"{way_out}: {answer}")


if __name__ == "__main__":
    main()

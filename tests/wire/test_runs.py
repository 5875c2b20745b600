"""What a whole run sends: each request begins with the one before it, and is what the SDK's own
types allow.
"""

import collections.abc
import itertools
import json
from dataclasses import replace
from types import UnionType
from typing import Annotated, Any, Literal, NotRequired, Required, Union, get_args, get_origin

import ollama
import pydantic
import pytest
from anthropic.types.message_create_params import MessageCreateParamsNonStreaming
from google.genai import types
from hypothesis import given, settings
from hypothesis import strategies as st
from openai.types.chat.completion_create_params import CompletionCreateParamsNonStreaming
from openai.types.responses.response_create_params import ResponseCreateParamsNonStreaming
from typing_extensions import get_type_hints, is_typeddict

from tests.servers import Protocol
from tests.servers.anthropic import without_marks
from tests.support.providers import SPEAKS
from tests.support.wires import WIRES, reply_of, to_wire
from think_agent import Agent, Assistant, Model, Request, ToolCall, tool
from think_agent.messages import Json
from think_agent.testing import think

CHANGES = {"tool_choice", "toolConfig"}  # what may differ between two requests of a run
GROWS = ("messages", "contents", "input")


@tool(read_only=True)
def look(order: str) -> str:
    """Look an order up."""
    return f"{order}: shipped"


@tool
def pay(order: str, note: str = "") -> str:
    """Pay an order back."""
    if not order:
        raise ValueError("no order")
    return f"{order}: paid"


class Speaking(Model):
    """A script in the JSON of a protocol. `bodies` is what was sent. The test server of that
    protocol reads each body, as strictly as the real one, and writes the replies.
    """

    def __init__(self, wire: str, script: list[Assistant]) -> None:
        self.wire = wire
        self.script = script
        self.bodies: list[Json] = []
        self.protocol: Protocol = SPEAKS[wire][0]()

    def complete(self, request: Request) -> Assistant:
        reply = self.script[len(self.bodies) % len(self.script)]
        options = {} if self.wire == "ollama" else {"strict": True}
        body = json.loads(json.dumps(to_wire(self.wire, request, **options)))
        self.protocol.decode("", body)
        self.bodies.append(body)
        response = json.loads(json.dumps(self.protocol.encode(reply, body)))
        return reply_of(self.wire, response)


texts = st.sampled_from(["", " ", "Let me see.", 'It is "paid"]}', "Grüße \N{THOUGHT BALLOON}"])
orders = st.fixed_dictionaries({"order": st.sampled_from(["", "ORD-1", 5])})
thoughts = st.builds(think, texts, st.booleans())
calls = thoughts | st.builds(ToolCall, st.just(""), st.sampled_from(["look", "pay"]), orders)
replies = st.builds(
    Assistant,
    text=texts,
    thinking=st.sampled_from(["", "Hm."]),
    tool_calls=st.lists(calls, max_size=3).map(tuple),
    stop_reason=st.sampled_from(["end_turn", "end_turn", "end_turn", "max_tokens"]),
)


def run(wire: str, script: list[Assistant], force: Any) -> list[Json]:
    """The bodies of a talk of two turns."""
    model = Speaking(wire, script)
    agent = Agent(model, [look, pay], instructions="Be kind.", force=force, max_model_calls=6)
    first = agent.run("Pay ORD-1.")
    agent.run("And ORD-2?", transcript=first.transcript)
    return model.bodies


runs = given(st.lists(replies, min_size=1, max_size=5), st.sampled_from(["first", "always"]))


@pytest.mark.parametrize("wire", WIRES)
@settings(max_examples=40)
@runs
def test_a_request_begins_with_the_bytes_of_the_one_before(wire, script, force):
    """But for the tool choice, and the marks for a cache; and Ollama's final call has no tools."""
    bodies = [without_marks(body) for body in run(wire, script, force)]
    for before, after in itertools.pairwise(bodies):
        [grows] = before.keys() & set(GROWS)
        # The last message may yet grow: what is said to a reply that is left out is added to it.
        begins = json.dumps(before[grows]).rstrip("]}")
        assert json.dumps(after[grows]).startswith(begins)
        changes = {*CHANGES, grows, *(["tools"] if wire == "ollama" else [])}
        for key in (before.keys() | after.keys()) - changes:
            assert json.dumps(before[key]) == json.dumps(after[key])


GEMINI = {
    "contents": list[types.Content],
    "tools": list[types.Tool],
    "toolConfig": types.ToolConfig,
    "systemInstruction": types.Content,
    "generationConfig": types.GenerationConfig,
}
BODIES = {
    "anthropic": MessageCreateParamsNonStreaming,
    "openai-chat": CompletionCreateParamsNonStreaming,
    "openai-responses": ResponseCreateParamsNonStreaming,
}


def fits(kind: Any, value: Any) -> bool:
    """Is `value` of an SDK's type, without a key that the type does not name?"""
    origin = get_origin(kind)
    if kind in (Any, object):
        return True
    if origin in (Annotated, Required, NotRequired):
        return fits(get_args(kind)[0], value)
    if origin in (Union, UnionType):
        return any(fits(one, value) for one in get_args(kind))
    if origin is Literal:
        return value in get_args(kind)
    if is_typeddict(kind):
        hints = get_type_hints(kind, include_extras=True)
        needed = {key for key, hint in hints.items() if get_origin(hint) is Required}
        if not isinstance(value, dict) or not needed <= value.keys() <= hints.keys():
            return False
        return all(fits(hints[key], inner) for key, inner in value.items())
    if origin in (list, collections.abc.Iterable, collections.abc.Sequence):
        return isinstance(value, list) and all(fits(get_args(kind)[0], one) for one in value)
    return isinstance(value, int if kind is float else origin or kind)


def is_allowed(wire: str, body: Json) -> bool:
    if wire == "gemini":  # its SDK has no type for the whole
        try:
            for key, value in body.items():
                pydantic.TypeAdapter(GEMINI[key]).validate_python(value)
        except pydantic.ValidationError:
            return False
        return True
    if wire == "ollama":  # its types let any key pass, and do not name this one of the API
        return body.keys() <= {*ollama._types.ChatRequest.model_fields, "truncate"}
    return fits(BODIES[wire], body)


SCRIPT = [
    Assistant("Let me see.", "Hm.", (think("Look first."),)),
    Assistant("", "Hm.", (think("Look."), ToolCall("", "look", {"order": "ORD-1"}))),
    Assistant("", "", (ToolCall("", "pay", {"order": ""}), ToolCall("", "pay", {"order": "1"}))),
    Assistant("", "", (think("Done.", False),)),
    Assistant("It is paid."),
]


@pytest.mark.parametrize("wire", WIRES)
def test_every_body_is_what_the_types_of_the_sdk_allow(wire):
    script = SCRIPT
    if wire == "openai-chat":  # that has no key for reasoning; other hosts have added theirs
        script = [replace(reply, thinking="") for reply in SCRIPT]
    bodies = run(wire, script, "first")
    assert len(bodies) > 6
    assert all(is_allowed(wire, body) for body in bodies)


@pytest.mark.parametrize("wire", ["anthropic", "openai-chat", "openai-responses", "gemini"])
def test_a_key_that_the_types_of_the_sdk_do_not_name_is_found(wire):
    [body, *_] = run(wire, SCRIPT, "first")
    [grows] = body.keys() & set(GROWS)
    body[grows][0]["colour"] = "red"
    assert not is_allowed(wire, body)

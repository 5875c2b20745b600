"""What a whole run sends: each request begins with the one before it, and is what the SDK's own
types allow.
"""

import itertools
import json
from typing import Any

import ollama
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.servers import Protocol
from tests.servers.anthropic import without_marks
from tests.support.providers import SPEAKS
from tests.support.wires import WIRES, reply_of, to_wire
from think_agent import Agent, Assistant, Model, Request, ToolCall, tool
from think_agent.messages import Json
from think_agent.testing import think

CHANGES = {"tool_choice", "toolConfig"}  # what may differ between two requests of a run
GROWS = ("messages", "contents", "input")
SDKS = sorted(WIRES.keys() - {"ollama"})
# The types of Ollama let any key pass, and do not name this one of the API.
OLLAMA = {*ollama._types.ChatRequest.model_fields, "truncate", "shift"}


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

    def __init__(self, wire: str, script: list[Assistant], options: Json) -> None:
        self.wire = wire
        self.options = options
        self.script = script
        self.bodies: list[Json] = []
        self.protocol: Protocol = SPEAKS[wire][0]()

    def complete(self, request: Request) -> Assistant:
        reply = self.script[len(self.bodies) % len(self.script)]
        body = json.loads(json.dumps(to_wire(self.wire, request, **self.options)))
        assert self.wire != "ollama" or body.keys() <= OLLAMA
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


def run(wire: str, script: list[Assistant], force: Any, **options: bool) -> list[Json]:
    """The bodies of a talk of two turns."""
    model = Speaking(wire, script, options)
    agent = Agent(model, [look, pay], instructions="Be kind.", force=force, max_model_calls=6)
    first = agent.run("Pay ORD-1.")
    agent.run("And ORD-2?", transcript=first.transcript)
    return model.bodies


OPTIONS = [("ollama", "text_hides_calls"), ("ollama", "short_ids"), ("ollama", "one_call")]
OPTIONS += [(wire, "strict") for wire in SDKS]


@pytest.mark.parametrize(("wire", "option"), OPTIONS)
@settings(max_examples=40)
@given(st.lists(replies, min_size=1, max_size=5), st.sampled_from(["first", "always"]))
def test_a_request_begins_with_the_bytes_of_the_one_before(wire, option, script, force):
    """But for the tool choice, and the marks for a cache; and Ollama's final call has no tools."""
    bodies = [without_marks(body) for body in run(wire, script, force, **{option: True})]
    for before, after in itertools.pairwise(bodies):
        [grows] = before.keys() & set(GROWS)
        # The last message may yet grow: what is said to a reply that is left out is added to it.
        begins = json.dumps(before[grows]).rstrip("]}")
        assert json.dumps(after[grows]).startswith(begins)
        changes = {*CHANGES, grows, *(["tools"] if wire == "ollama" else [])}
        for key in (before.keys() | after.keys()) - changes:
            assert json.dumps(before[key]) == json.dumps(after[key])


@pytest.mark.parametrize("wire", SDKS)
def test_the_server_finds_a_key_that_no_type_of_the_sdk_names(wire):
    """So every body of these tests is what the types allow."""
    [body, *_] = run(wire, [Assistant("It is paid.")], "never")
    protocol = SPEAKS[wire][0]()
    protocol.decode("", body)
    [grows] = body.keys() & set(GROWS)
    for place in (body, body[grows][0], body["tools"][0]):
        place["colour"] = "red"
        with pytest.raises(ValueError, match=r"colour|Extra inputs|Unrecognized"):
            protocol.decode("", body)
        del place["colour"]

"""What a provider may see of a conversation, also of one that another wrote."""

from dataclasses import replace

import pytest

from tests.support.agents import of_kind
from tests.support.wires import WIRES, to_wire
from think_agent import Assistant, Request, ToolCall, ToolResult, User
from think_agent.wire.outgoing import GOOD_ID, prepare_messages

CALL = ToolCall("c1", "pay", {"n": 1})
WRITTEN = '{"n":  1}'  # with two spaces, as we would not write it
USE = {"type": "tool_use", "id": "c1", "name": "pay", "input": {"n": 1}}
FUNCTION = {"name": "pay", "arguments": WRITTEN}
NATIVE = {
    "anthropic": {"content": [{"type": "redacted_thinking", "data": "x"}, USE]},
    "openai-chat": {"role": "assistant", "tool_calls": [{"id": "c1", "function": FUNCTION}]},
    "openai-responses": [{"type": "function_call", "call_id": "c1", **FUNCTION}],
    "gemini": {"parts": [{"functionCall": {"name": "pay", "args": {"n": 1}}}]},
    "ollama": {"role": "assistant", "thinking": "Hm.", "tool_calls": [{"function": {}}]},
}


@pytest.mark.parametrize("wire", WIRES)
def test_native_goes_back_to_the_host_and_api_that_wrote_it_and_to_no_other(wire):
    plain = Assistant("", tool_calls=(CALL,))
    provider = WIRES[wire][0].NAME
    written = replace(plain, provider=provider, host="a.example", native=NATIVE[wire])

    def sent(reply, wire, host="a.example"):
        request = Request([User("Pay."), reply, ToolResult("c1", "pay", "paid")])
        return to_wire(wire, request, host=host)

    assert sent(written, wire) != sent(plain, wire)
    assert sent(written, wire, "b.example") == sent(plain, wire, "b.example")
    for other in WIRES.keys() - {wire}:
        assert sent(written, other) == sent(plain, other)


IDS = ["call_0", "call_0", "tool.1:x", "tool 1 x", "f" * 80, "f" * 81, ""]


def conversation(ids, **fields):
    """A reply with a call of each of these ids, twice."""
    calls = tuple(ToolCall(id, "pay", {"n": n}) for n, id in enumerate(ids))
    messages = []
    for _ in range(2):
        results = [ToolResult(call.id, "pay", f"paid {call.arguments['n']}") for call in calls]
        messages += [User("Pay."), Assistant("", tool_calls=calls, **fields), *results]
    return messages


def test_ids_of_other_providers_are_made_valid_and_unique_also_in_the_results():
    sent = list(prepare_messages(conversation(IDS), "openai"))
    calls = [call for reply in of_kind(sent, Assistant) for call in reply.tool_calls]
    results = of_kind(sent, ToolResult)
    assert len({call.id for call in calls}) == len(calls) == 2 * len(IDS)
    assert all(GOOD_ID.fullmatch(call.id) for call in calls)
    assert [(call.id, f"paid {call.arguments['n']}") for call in calls] == [
        (result.call_id, result.content) for result in results
    ]
    assert calls[0].id == "call_0"  # a good one stays
    whole = list(prepare_messages(conversation(IDS)[: len(IDS) + 2], "openai"))
    assert sent[: len(whole)] == whole  # whatever comes later


def test_ids_that_a_provider_wrote_itself_stay():
    own = conversation(IDS, native={"role": "assistant"}, provider="openai")
    sent = list(prepare_messages(own, "openai"))
    assert sent == own
    # Copies would make each request of a long conversation several times as slow.
    assert all(a is b for a, b in zip(sent, own, strict=True))


def test_a_call_without_its_result_is_not_sent():
    calls = (CALL, ToolCall("c2", "pay", {}))
    reply = Assistant("Paying.", tool_calls=calls, provider="openai", native={"role": "assistant"})
    messages = [User("Pay."), reply, ToolResult("c1", "pay", "paid"), ToolResult("c9", "pay", "?")]
    _, sent, result = prepare_messages(messages, "openai")
    assert sent.tool_calls == (CALL,)
    assert sent.native is None
    assert result.call_id == "c1"


@pytest.mark.parametrize(("text", "sent"), [("Lost.", "Lost."), ("", "Looking.")])
def test_to_another_provider_commentary_is_text_where_it_is_the_answer(text, sent):
    reply = Assistant(text, commentary="Looking.", provider="openai")
    assert list(prepare_messages([reply], "ollama")) == [Assistant(sent, provider="openai")]

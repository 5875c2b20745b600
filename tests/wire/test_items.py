"""How servers stream the items of a response (the Responses API), through the real SDK. Each row is
a shape that was reported of some server; the ids and texts are made up.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.answers import STREAMED, reply_to
from tests.support.counting import grows_evenly
from tests.support.pieces import told
from tests.support.wires import folded
from think_agent.messages import Json
from think_agent.wire.items import ItemAssembler

RESPONSES = "openai-responses"
USAGE = {"input_tokens": 12, "output_tokens": 7, "total_tokens": 19}
ONE = '{"id": "1"}'
TWO = '{"id": "2"}'
LOOK_1 = ("look", {"id": "1"})
LOOK_2 = ("look", {"id": "2"})


def event(kind: str, **fields: Any) -> Json:
    """An event, without the fields that are None."""
    return {"type": f"response.{kind}", **{k: v for k, v in fields.items() if v is not None}}


def begins(item: Json, index: int | None = 0) -> Json:
    return event("output_item.added", output_index=index, item=item)


def done(item: Json, index: int | None = 0) -> Json:
    return event("output_item.done", output_index=index, item=item)


def words(text: str, index: int | None = 0, id: str | None = "msg") -> Json:
    return event("output_text.delta", output_index=index, item_id=id, content_index=0, delta=text)


def arguments(text: str, index: int | None = 0, id: str | None = "fc_1") -> Json:
    return event("function_call_arguments.delta", output_index=index, item_id=id, delta=text)


def by_call(text: str, number: int) -> Json:
    """A piece of arguments that names its call alone."""
    return event("function_call_arguments.delta", call_id=f"call_{number}", delta=text)


def thinks(text: str, index: int | None = 0, id: str | None = "rs") -> Json:
    return event(
        "reasoning_text.delta", output_index=index, item_id=id, content_index=0, delta=text
    )


def ends(*output: Json) -> Json:
    response = {"status": "completed", "model": "m", "output": [*output], "usage": USAGE}
    return event("completed", response=response)


def call(written: str, number: int = 1, **more: Any) -> Json:
    ids = {"id": f"fc_{number}", "call_id": f"call_{number}"}
    return {"type": "function_call", "name": "look", "arguments": written, **ids, **more}


def says(text: str, **more: Any) -> Json:
    part = {"type": "output_text", "text": text, "annotations": []}
    return {"type": "message", "id": "msg", "role": "assistant", "content": [part], **more}


def reasons(text: str = "Hm.", **more: Any) -> Json:
    summary = [{"type": "summary_text", "text": text}]
    return {"type": "reasoning", "id": "rs", "summary": summary, **more}


class Case(NamedTuple):
    server: str  # or its report
    events: Sequence[Json]
    calls: Sequence[tuple[str, Any]] = ()
    text: str = ""
    thinking: str = ""


CASES = [
    Case(
        "a well-behaved one",
        [
            *[begins(reasons("", summary=[])), done(reasons())],
            *[begins(says(""), 1), words("I ", 1), words("look.", 1), done(says("I look."), 1)],
            *[begins(call(""), 2), arguments(ONE, 2), done(call(ONE), 2)],
            ends(reasons(), says("I look."), call(ONE)),
        ],
        [LOOK_1],
        "I look.",
        "Hm.",
    ),
    Case(
        "no output_index: lemonade #3607",
        [
            *[begins(reasons("", summary=[]), None), thinks("Hm.", None), done(reasons(), None)],
            *[begins(call(""), None), arguments(ONE, None), done(call(ONE), None)],
            ends(reasons(), call(ONE)),
        ],
        [LOOK_1],
        thinking="Hm.",
    ),
    Case(
        "no output_index, two calls by turns",
        [
            *[begins(call("", 1), None), begins(call("", 2), None)],
            *[arguments('{"id": ', None, "fc_1"), arguments('{"id": ', None, "fc_2")],
            *[arguments('"1"}', None, "fc_1"), arguments('"2"}', None, "fc_2")],
            ends(),
        ],
        [LOOK_1, LOOK_2],
    ),
    Case(
        "one output_index for all: open-responses-server #63",
        [
            *[begins(says("")), words("I look."), done(says("I look."))],
            *[begins(call("")), arguments(ONE, 0, "other"), done(call(ONE))],
            ends(says("I look."), call(ONE)),
        ],
        [LOOK_1],
        "I look.",
    ),
    Case(
        "one output_index for two calls",
        [
            *[begins(call("", 1)), arguments(ONE, 0, "fc_1"), done(call(ONE, 1))],
            *[begins(call("", 2)), arguments(TWO, 0, "fc_2"), done(call(TWO, 2))],
            ends(),
        ],
        [LOOK_1, LOOK_2],
    ),
    Case(
        "output_index from 1 on: sglang #12644",
        [begins(call(""), 1), arguments(ONE, 1), done(call(ONE), 1), ends(call(ONE))],
        [LOOK_1],
    ),
    Case(
        "pieces before their item: llm-gateway #2064, openai-python #3010",
        [
            *[words("I look.", 0), begins(says(""), 0), done(says("I look."), 0)],
            *[arguments(ONE, 1), begins(call(""), 1), done(call(""), 1)],
            ends(),
        ],
        [LOOK_1],
        "I look.",
    ),
    Case(
        "pieces before their item, without ids",
        [arguments(ONE, 0, None), begins(call("", id=None), 0), ends()],
        [LOOK_1],
    ),
    Case(
        "done items are empty: agentgateway #2281, cindy #4509",
        [
            *[begins(says("", content=[])), words("I look."), done(says("", content=[]))],
            *[begins(call(""), 1), arguments(ONE, 1), done(call("{}"), 1)],
            ends(),
        ],
        [LOOK_1],
        "I look.",
    ),
    Case(
        "done items have empty parts, and the end is as empty",
        [
            *[begins(says("")), words("Yes."), done(says(""))],
            ends(says("")),
        ],
        text="Yes.",
    ),
    Case(
        "done items are empty, but the end is not",
        [begins(call("")), done(call("")), ends(call(ONE))],
        [LOOK_1],
    ),
    Case(
        "no item is done: vllm #39586",
        [begins(call("")), arguments('{"id": '), arguments('"1"}'), ends(call(ONE))],
        [LOOK_1],
    ),
    Case(
        "no item is done, and the end is empty",
        [begins(says("")), words("Yes."), ends()],
        text="Yes.",
    ),
    Case(
        "only the end has items: Switchyard #777", [ends(reasons(), call(ONE))], [LOOK_1], "", "Hm."
    ),
    Case(
        "only the end has the call: Switchyard #796",
        [begins(reasons()), done(reasons()), ends(reasons(), call(ONE))],
        [LOOK_1],
        thinking="Hm.",
    ),
    Case(
        "only the end has the second call",
        [begins(call("")), arguments(ONE), done(call(ONE)), ends(call(ONE), call(TWO, 2))],
        [LOOK_1, LOOK_2],
    ),
    Case(
        "the end lacks the first of two calls",
        [
            *[begins(call("")), arguments(ONE), done(call(ONE))],
            *[begins(call("", 2), 1), arguments(TWO, 1, "fc_2"), done(call(TWO, 2), 1)],
            ends(call(TWO, 2)),
        ],
        [LOOK_1, LOOK_2],
    ),
    Case(
        "the end lacks the text that was streamed",
        [begins(says("")), words("I look."), done(says("I look.")), ends(call(ONE))],
        [LOOK_1],
        "I look.",
    ),
    Case(
        "a new id in every event: Copilot (litellm #30072)",
        [
            *[begins(says("", id="a")), words("Ye", 0, "b"), words("s.", 0, "c")],
            *[done(says("Yes.", id="d")), ends(says("Yes.", id="e"))],
        ],
        text="Yes.",
    ),
    Case(
        "a new id when it's done, and at the end: mistral.rs #1944",
        [
            *[begins(says("", id="a")), words("Yes.", 0, "a")],
            *[done(says("Yes.", id="b")), ends(says("Yes.", id="c"))],
        ],
        text="Yes.",
    ),
    Case(
        "a new call_id as well",
        [
            *[begins(call("", 1)), arguments(ONE), done(call(ONE, 2)), ends(call(ONE, 3))],
        ],
        [LOOK_1],
    ),
    Case(
        "new ids at the end, and the JSON is written in another way",
        [
            *[begins(call("", 1)), arguments(ONE), done(call(ONE))],
            ends(call('{"id":"1"}', 3, id="other")),
        ],
        [LOOK_1],
    ),
    Case(
        "a new id at the end, and the text is stripped",
        [
            *[begins(says("", id="a")), words("Yes.\n", 0, "a"), done(says("Yes.\n", id="a"))],
            ends(says("Yes.", id="b")),
        ],
        text="Yes.\n",
    ),
    Case(
        "the ids of reasoning differ in each piece: litellm #36375",
        [
            *[begins(reasons("", summary=[])), thinks("H", 0, "x"), thinks("m.", 0, "y")],
            *[done(reasons("", summary=[])), ends(reasons("", summary=[]))],
        ],
        thinking="Hm.",
    ),
    Case(
        "only the end of a text: gemini-web2api #57",
        [event("output_text.done", output_index=0, item_id="m", text="Yes."), ends()],
        text="Yes.",
    ),
    Case(
        "only the end of the arguments",
        [
            begins(call("")),
            event("function_call_arguments.done", output_index=0, item_id="fc_1", arguments=ONE),
            ends(),
        ],
        [LOOK_1],
    ),
    Case(
        "an item that only began",
        [begins(call("")), ends(says("Yes."))],
        text="Yes.",
    ),
    Case(
        "call_id in place of item_id: DeepSeek (opencodex #1361)",
        [
            *[begins(call("", 1), None), begins(call("", 2), None)],
            *[by_call('{"id": ', 1), by_call('{"id": ', 2), by_call('"1"}', 1), by_call('"2"}', 2)],
            ends(),
        ],
        [LOOK_1, LOOK_2],
    ),
    Case(
        "items without an id: opencode #45081",
        [
            *[begins(call("", 1, id=None), None), begins(call("", 2, id=None), None)],
            *[arguments('{"id": ', None, "call_1"), arguments('{"id": ', None, "call_2")],
            *[arguments('"1"}', None, "call_1"), arguments('"2"}', None, "call_2")],
            ends(),
        ],
        [LOOK_1, LOOK_2],
    ),
    Case(
        "the id has another name in done: Bedrock (opencode #46885)",
        [
            *[begins(call("")), arguments(ONE)],
            done(call(ONE, id=None, item_id="fc_1", output_index=0)),
            ends(call(ONE, id=None, item_id="fc_1", output_index=0)),
        ],
        [LOOK_1],
    ),
    Case(
        "the text in a part alone",
        [
            begins(says("", content=[])),
            event("content_part.done", item_id="msg", part={"type": "output_text", "text": "Yes."}),
            ends(),
        ],
        text="Yes.",
    ),
    Case(
        "a summary in a part alone",
        [
            begins(reasons("", summary=[])),
            event(
                "reasoning_summary_part.done",
                item_id="rs",
                part={"type": "summary_text", "text": "Hm."},
            ),
            *[begins(says(""), 1), words("Yes.", 1), ends()],
        ],
        text="Yes.",
        thinking="Hm.",
    ),
    Case(
        "the end has another name",
        [begins(says("")), words("Yes."), event("done", response=ends(says("Yes."))["response"])],
        text="Yes.",
    ),
    Case(
        "a call twice at the end",
        [begins(call("")), arguments(ONE), done(call(ONE)), ends(call(ONE), call(ONE))],
        [LOOK_1],
    ),
    Case(
        "reasoning that is only in done: langchain #37625",
        [done(reasons()), begins(says(""), 1), words("Yes.", 1), done(says("Yes."), 1), ends()],
        text="Yes.",
        thinking="Hm.",
    ),
]


@pytest.mark.parametrize("way", STREAMED)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.server)
def test_what_was_streamed_and_what_the_end_says_are_one_reply(case, way):
    reply = reply_to(RESPONSES, way, case.events)
    assert [(made.name, made.arguments) for made in reply.tool_calls] == list(case.calls)
    assert reply.text == case.text
    assert reply.thinking == case.thinking
    assert reply.stop_reason == ("tool_use" if case.calls else "end_turn")
    assert not reply.usage.estimated


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.server)
def test_all_of_it_is_shown_once(case):
    reply, deltas = folded(RESPONSES, *case.events)
    assert told(deltas, "answer") == reply.text
    assert told(deltas, "thinking") == reply.thinking
    for number, (name, _) in enumerate(case.calls):
        shown = [delta for delta in deltas if delta.index == number and delta.kind == "call"]
        assert {delta.name for delta in shown} == {name}
        assert "".join(delta.text for delta in shown) in (ONE, TWO)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.server)
def test_a_stream_that_broke_off_anywhere_is_not_usable(case):
    for length in range(len(case.events)):
        assert not folded(RESPONSES, *case.events[:length])[0].is_usable


@pytest.mark.parametrize("way", STREAMED)
def test_arguments_may_be_an_object(way):
    written: Any = {"id": "1"}
    events = [
        *[begins(call("")), arguments(written), done(call(written)), ends(call(written))],
    ]
    reply = reply_to(RESPONSES, way, events)
    assert [(made.name, made.arguments) for made in reply.tool_calls] == [LOOK_1]


@pytest.mark.parametrize("way", STREAMED)
def test_what_was_shown_before_a_failure_is_an_unfinished_reply(way):
    error = {"code": "server_error", "message": "Something went wrong."}
    response = {"status": "failed", "output": [], "error": error, "usage": USAGE}
    failed = event("failed", response=response)
    reply = reply_to(RESPONSES, way, [begins(says("")), words("Half an"), failed])
    assert reply.text == "Half an"
    assert reply.stop_reason == "incomplete"
    assert "Something went wrong" in reply.cause


def test_a_piece_of_a_call_that_never_came_makes_a_reply_unusable():
    reply, deltas = folded(RESPONSES, arguments(ONE), ends())
    assert reply.stop_reason == "malformed"
    assert deltas == []


def test_encrypted_reasoning_is_taken_from_where_it_is_whole():
    """At the beginning of an item it may be a part of it."""
    early = reasons("", summary=[], encrypted_content="gA")
    whole = reasons(encrypted_content="gAAA")
    for events in ([begins(early), done(whole)], [begins(early), ends(whole)]):
        reply, _ = folded(RESPONSES, *events)
        assert reply.native == [whole]
    reply, _ = folded(RESPONSES, begins(early), thinks("Hm."), ends())
    assert "encrypted_content" not in reply.native[0]


# Any items, cut and mixed in any way, told of in any order.

TEXTS = st.text(min_size=1, max_size=8)


@st.composite
def streams(draw: st.DrawFn) -> tuple[list[Json], list[Json]]:
    """Items, and the events of their stream. An item may be done, and in the end, or not: what
    there is of it is enough. Each of its events has its id.
    """
    items = []
    waiting = []
    for number in range(draw(st.integers(0, 3))):
        text = draw(TEXTS)
        item = draw(st.sampled_from([call(text, number), says(text, id=f"msg_{number}")]))
        piece = arguments if item["type"] == "function_call" else words
        blank = call("", number) if item["type"] == "function_call" else {**item, "content": []}
        place = draw(st.integers(0, len(text)))
        index = draw(st.sampled_from([None, 0, number]))
        pieces = [piece(part, index, item["id"]) for part in (text[:place], text[place:])]
        events = [begins(blank, index), *pieces]
        if draw(st.booleans()):
            events.append(done(draw(st.sampled_from([item, blank])), index))
        items.append(item)
        waiting.append(events)
    events = [rest.pop(0) for rest in waiting]  # an item is where it began
    while any(waiting):
        events.append(draw(st.sampled_from([rest for rest in waiting if rest])).pop(0))
    return items, [*events, ends(*draw(st.sampled_from([[], items, items[:1], items[1:]])))]


@given(streams())
def test_any_mixture_of_events_is_the_items_that_were_streamed(items_and_events):
    items, events = items_and_events
    reply, _ = folded(RESPONSES, *events)
    whole, _ = folded(RESPONSES, ends(*items))
    assert reply.text == whole.text
    assert reply.tool_calls == whole.tool_calls
    assert [item["id"] for item in reply.native] == [item["id"] for item in items]


def test_a_piece_of_a_long_text_costs_no_more_than_the_first():
    def stream(pieces: int) -> None:
        items = ItemAssembler()
        items.add_item(begins(says("")), is_done=False)
        for _ in range(pieces):
            items.add_piece("output_text", words("text "))

    assert grows_evenly(stream, 100, 1000)

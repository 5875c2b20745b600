"""How servers of Chat Completions stream their calls, through the real SDK. Each row is a shape
that was reported of some server; the ids and names are made up.
"""

import itertools
import json
from collections.abc import Sequence
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.answers import STREAMED, reply_to
from tests.support.counting import grows_evenly
from tests.support.pieces import told
from tests.support.wires import folded
from think_agent import Delta
from think_agent.messages import Json
from think_agent.wire.calls import CallAssembler

COUNTED = {"choices": [], "usage": {"prompt_tokens": 12, "completion_tokens": 7}}
NO_INDEX: Any = object()
ONE = '{"id": "1"}'
TWO = '{"id": "2"}'
LOOK_1 = ("look", {"id": "1"})
LOOK_2 = ("look", {"id": "2"})
PAY_5 = ("pay", {"amount": 5})


def piece(arguments: Any = None, name: Any = None, id: Any = None, index: Any = 0) -> Json:
    """A piece of a call. What is None is left out."""
    function = {"name": name, "arguments": arguments}
    made: Json = {"function": {key: value for key, value in function.items() if value is not None}}
    if id is not None:
        made["id"] = id
    if index is not NO_INDEX:
        made["index"] = index
    return made


def chunk(*pieces: Json, finish: str | None = None) -> Json:
    choice = {"index": 0, "delta": {"tool_calls": [*pieces]}, "finish_reason": finish}
    return {"choices": [choice]}


class Case(NamedTuple):
    server: str  # or its report
    pieces: Sequence[Json]
    makes: Sequence[tuple[str, Any]]  # the calls: name and arguments


ONE_CALL = [
    Case("a well-behaved one", [piece("", "look", "a"), piece(ONE)], [LOOK_1]),
    Case(
        "the id changes: GLM at Mistral (mistral-vibe #1127)",
        [piece("", "look", "a"), piece('{"id": ', id="b"), piece('"1"}', id="c")],
        [LOOK_1],
    ),
    Case(
        "the id changes and the name is empty: OCI (litellm #40040)",
        [piece("", "look", "a"), piece('{"id": ', "", "b"), piece('"1"}', "", "c")],
        [LOOK_1],
    ),
    Case(
        "the id changes and the name comes again",
        [piece("", "look", "a"), piece('{"id": ', "look", "b"), piece('"1"}', "look", "c")],
        [LOOK_1],
    ),
    Case(
        "the id becomes null, as a word (langchainjs #11505)",
        [piece('{"id": ', "look", "a"), piece('"1"}', "", "null")],
        [LOOK_1],
    ),
    Case(
        "the id, the name and the function become null (sglang #35542)",
        [
            piece('{"id": ', "look", "a"),
            {"index": 0, "id": None, "function": {"name": None, "arguments": '"1"}'}},
            {"index": 0, "id": None, "type": None, "function": None},
        ],
        [LOOK_1],
    ),
    Case(
        "the id comes late",
        [piece("", "look"), piece('{"id": ', id="a"), piece('"1"}', id="a")],
        [LOOK_1],
    ),
    Case(
        "the name comes late: MiMo at DeepInfra (opencode #26433)",
        [piece("", id="a"), piece('{"id": ', "look"), piece('"1"}')],
        [LOOK_1],
    ),
    Case(
        "the name comes last",
        [piece('{"id": ', id="a"), piece('"1"}'), piece(name="look")],
        [LOOK_1],
    ),
    Case(
        "the index is in the first piece only",
        [piece("", "look", "a"), piece(ONE, index=NO_INDEX)],
        [LOOK_1],
    ),
    Case(
        "the index is missing in the first piece only",
        [piece("", "look", "a", NO_INDEX), piece(ONE)],
        [LOOK_1],
    ),
    Case("the arguments are an object", [piece({"id": "1"}, "look", "a")], [LOOK_1]),
    Case(
        "an empty piece at an index of its own",
        [piece(ONE, "look", "a"), piece("", index=1)],
        [LOOK_1],
    ),
    Case(
        "the call comes again, whole",
        [piece("", "look", "a"), piece(ONE), piece(ONE, "look", "a")],
        [LOOK_1],
    ),
    Case(
        "the call comes again, in pieces",
        [
            *[piece("", "look", "a"), piece(ONE)],
            *[piece("", "look", "a"), piece('{"id": ', id="a"), piece('"1"}')],
        ],
        [LOOK_1],
    ),
    Case(
        "the call comes again, as JSON in a JSON text (litellm #20480)",
        [piece('{"id": ', "look", "a"), piece('"1"}', id="a"), piece(json.dumps(ONE), "look", "a")],
        [LOOK_1],
    ),
    Case(
        "the call comes again, and it has no id",
        [piece("", "look"), piece(ONE), piece('{"id":"1"}', "look")],
        [LOOK_1],
    ),
    Case(
        "the id changes and the name comes again, with nothing",
        [piece(ONE, "look", "a"), piece("", "look", "b")],
        [LOOK_1],
    ),
    Case(
        "the call comes again without its arguments",
        [piece("", "look", "a"), piece(ONE), piece("", "look")],
        [LOOK_1],
    ),
    Case(
        "the index rises with each piece: Nebius, Cerebras (dirac #215)",
        [piece("", "look", "a", 0), piece('{"id": ', index=1), piece('"1"}', index=2)],
        [LOOK_1],
    ),
    Case(
        "the index rises, and the name and the id are empty",
        [piece('{"id": ', "look", "a", 0), piece('"1"}', "", "", 1)],
        [LOOK_1],
    ),
    Case(
        "the index is a text",
        [piece("", "look", "a", "0"), piece(ONE, index="0")],
        [LOOK_1],
    ),
]
# What is shown of these can't be taken back: it isn't JSON.
TWICE = [
    Case(
        "an empty object comes first: gateways to Claude",
        [piece("{}", "look", "a"), piece('{"id": '), piece('"1"}')],
        [LOOK_1],
    ),
    Case(
        "another id in each piece, and the name twice",
        [piece("", "look", "a"), piece("", "look", "b"), piece(ONE, id="c")],
        [LOOK_1],
    ),
    Case(
        "the same, without an index",
        [
            *[piece("", "look", "a", NO_INDEX), piece("", "look", "b", NO_INDEX)],
            *[piece('{"id": ', id="c", index=NO_INDEX), piece('"1"}', id="d", index=NO_INDEX)],
        ],
        [LOOK_1],
    ),
    Case(
        "the same, and all arguments have the last id",
        [
            *[piece("", "look", "a", NO_INDEX), piece("", "look", "b", NO_INDEX)],
            *[piece('{"id": ', id="b", index=NO_INDEX), piece('"1"}', id="b", index=NO_INDEX)],
        ],
        [LOOK_1],
    ),
    Case(
        "the name three times, each with another id",
        [
            *[piece("", "look", "a"), piece("", "look", "b"), piece("", "look", "c")],
            *[piece('{"id": ', "look", "d"), piece('"1"}', "look", "e")],
        ],
        [LOOK_1],
    ),
    Case(
        "an empty object comes first, and the name again",
        [piece("{}", "look", "a"), piece('{"id": ', "look", "a"), piece('"1"}')],
        [LOOK_1],
    ),
    Case(
        "an empty object comes last",
        [piece("", "look", "a"), piece(ONE), piece("{}")],
        [LOOK_1],
    ),
    Case(
        "the arguments come again, without a name",
        [piece("", "look", "a"), piece(ONE), piece('{"id":"1"}')],
        [LOOK_1],
    ),
    Case(
        "each piece has all that came before",
        [piece("", "look", "a"), piece('{"id": ', "look", "a"), piece(ONE, "look", "a")],
        [LOOK_1],
    ),
    Case(
        "a JSON text in a JSON text",
        [piece(json.dumps(ONE), "look", "a")],
        [LOOK_1],
    ),
]
SEVERAL_CALLS = [
    Case(
        "pieces by turns (Qwen-Agent #943, headroom #2890)",
        [
            *[piece("", "look", "a", 0), piece("", "look", "b", 1)],
            *[piece('{"id": ', index=0), piece('{"id": ', index=1)],
            *[piece('"1"}', index=0), piece('"2"}', index=1)],
        ],
        [LOOK_1, LOOK_2],
    ),
    Case(
        "all at index 0: Ollama's /v1 (ollama #15457, vercel/ai #14277)",
        [piece(ONE, "look", "a"), piece(TWO, "look", "b")],
        [LOOK_1, LOOK_2],
    ),
    Case(
        "all at index 0, in pieces",
        [piece("", "look", "a"), piece(ONE), piece("", "look", "b"), piece(TWO)],
        [LOOK_1, LOOK_2],
    ),
    Case(
        "all at index 0, with the same arguments",
        [piece(ONE, "look", "a"), piece(ONE, "look", "b")],
        [LOOK_1, LOOK_1],
    ),
    Case(
        "all at index 0, of two tools (gcli2api #406)",
        [piece('{"id": ', "look", "a"), piece('"1"}'), piece('{"amount": 5}', "pay", "b")],
        [LOOK_1, PAY_5],
    ),
    Case(
        "all at index 0, by turns, told apart by their ids",
        [
            *[piece("", "look", "a"), piece("", "pay", "b")],
            *[piece('{"id": ', id="a"), piece('{"amount": ', id="b")],
            *[piece('"1"}', id="a"), piece("5}", id="b")],
        ],
        [LOOK_1, PAY_5],
    ),
    Case(
        "all at index 0, with one id for all",
        [
            *[piece("", "look", "x"), piece(ONE, id="x")],
            *[piece("", "pay", "x"), piece('{"amount": 5}', id="x")],
        ],
        [LOOK_1, PAY_5],
    ),
    Case(
        "all at index 0, without ids",
        [piece(ONE, "look"), piece("", "look"), piece(TWO)],
        [LOOK_1, LOOK_2],
    ),
    Case(
        "no index: Gemini's compatible endpoint (OpenMAIC #1556)",
        [piece(ONE, "look", "a", NO_INDEX), piece(TWO, "look", "b", NO_INDEX)],
        [LOOK_1, LOOK_2],
    ),
    Case(
        "an index in first pieces only",
        [
            *[piece("", "look", "a", 0), piece(ONE, index=NO_INDEX)],
            *[piece("", "look", "b", 1), piece(TWO, index=NO_INDEX)],
        ],
        [LOOK_1, LOOK_2],
    ),
    Case(
        "each call comes again at the end, at index 0",
        [
            *[piece(ONE, "look", "a"), piece('{"amount": 5}', "pay", "b")],
            *[piece(ONE, "look", "a"), piece('{"amount": 5}', "pay", "b")],
        ],
        [LOOK_1, PAY_5],
    ),
    Case(
        "another id in each piece, beside a call that gets its name late",
        [
            *[piece(id="a", index=0), piece(name="pay", id="b", index=1)],
            *[piece('{"amount": 5}', "pay", "c", 1), piece('{"id": ', "look", "x", 0)],
            piece('"1"}', index=0),
        ],
        [LOOK_1, PAY_5],
    ),
    Case(
        "the second call begins at the index of the first: DeepSeek at a gateway (agno #8880)",
        [
            *[piece("", "look", "a", 0), piece(ONE, index=0)],
            *[piece("", "look", "b", 0), piece('{"id": ', index=1), piece('"2"}', index=1)],
        ],
        [LOOK_1, LOOK_2],
    ),
    Case(
        "the same, with another tool",
        [
            *[piece("", "look", "a", 0), piece(ONE, index=0)],
            *[piece("", "pay", "b", 0), piece('{"amount": 5}', index=1)],
        ],
        [LOOK_1, PAY_5],
    ),
    Case(
        "the index is that of another call, and the id is right",
        [
            *[piece("", "look", "a", 0), piece("", "look", "b", 1)],
            *[piece(ONE, id="a", index=0), piece(TWO, id="b", index=0)],
        ],
        [LOOK_1, LOOK_2],
    ),
    Case(
        "no index, by turns, told apart by their ids",
        [
            *[piece("", "look", "a", NO_INDEX), piece("", "look", "b", NO_INDEX)],
            *[piece(ONE, id="a", index=NO_INDEX), piece(TWO, id="b", index=NO_INDEX)],
        ],
        [LOOK_1, LOOK_2],
    ),
    Case(
        "all at index 0, by turns, of one tool",
        [
            *[piece("", "look", "a"), piece("", "look", "b")],
            *[piece('{"id": ', id="a"), piece('{"id": ', id="b")],
            *[piece('"1"}', id="a"), piece('"2"}', id="b")],
        ],
        [LOOK_1, LOOK_2],
    ),
    Case(
        "a call that comes again is followed by another one",
        [piece(ONE, "look", "a"), piece("", "look", "a"), piece(TWO, "look", "b")],
        [LOOK_1, LOOK_2],
    ),
]
# Arguments that are no object: the call can't run, and the model reads why.
BROKEN = [
    Case(
        "two halves without a name between them",
        [piece(ONE, "look", "a"), piece(TWO)],
        [("look", ONE + TWO)],
    ),
    Case(
        "a second call whose arguments break off",
        [piece(ONE, "look"), piece('{"id": "2', "look")],
        [LOOK_1, ("look", '{"id": "2')],
    ),
]
CASES = [*ONE_CALL, *TWICE, *SEVERAL_CALLS, *BROKEN]


@pytest.mark.parametrize("way", STREAMED)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.server)
def test_a_piece_belongs_to_the_call_of_its_index(case, way):
    chunks = [*[chunk(one) for one in case.pieces], chunk(finish="tool_calls"), COUNTED]
    reply = reply_to("openai-chat", way, chunks)
    assert [(call.name, call.arguments) for call in reply.tool_calls] == case.makes
    assert reply.stop_reason == "tool_use"
    assert not reply.usage.estimated


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.server)
def test_it_makes_no_difference_which_pieces_come_in_one_chunk(case):
    chunks = [chunk(*case.pieces), chunk(finish="tool_calls"), COUNTED]
    reply = reply_to("openai-chat", "streamed", chunks)
    assert [(call.name, call.arguments) for call in reply.tool_calls] == case.makes


@pytest.mark.parametrize("case", [*ONE_CALL, *SEVERAL_CALLS], ids=lambda case: case.server)
def test_what_is_shown_of_a_call_is_that_call(case):
    calls = CallAssembler()
    deltas = [delta for one in case.pieces for delta in calls.feed(one)]
    for number, (name, arguments) in enumerate(case.makes):
        shown = [delta for delta in deltas if delta.index == number]
        assert {delta.name for delta in shown} == {name}
        assert json.loads(told(shown, "call")) == arguments
    assert {delta.index for delta in deltas} == set(range(len(case.makes)))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.server)
def test_a_stream_that_broke_off_anywhere_is_not_usable(case):
    for length in range(len(case.pieces) + 1):
        chunks = [chunk(one) for one in case.pieces[:length]]
        assert not folded("openai-chat", *chunks)[0].is_usable


BY_PLACE = [
    Case(
        "names and arguments",
        [piece("", "look", "a", NO_INDEX), piece("", "look", "b", NO_INDEX)],
        [LOOK_1, LOOK_2],
    ),
    Case(
        "ids first, names later: SGLang (vercel/ai #15879)",
        [piece("", id="a", index=NO_INDEX), piece("", id="b", index=NO_INDEX)],
        [LOOK_1, LOOK_2],
    ),
]


@pytest.mark.parametrize("way", STREAMED)
@pytest.mark.parametrize("case", BY_PLACE, ids=lambda case: case.server)
def test_without_an_index_the_place_in_the_chunk_tells(case, way):
    """term-llm #314."""
    rest = [piece(ONE, "look", index=NO_INDEX), piece(TWO, "look", index=NO_INDEX)]
    chunks = [chunk(*case.pieces), chunk(*rest), chunk(finish="tool_calls"), COUNTED]
    reply = reply_to("openai-chat", way, chunks)
    assert [(call.name, call.arguments) for call in reply.tool_calls] == case.makes


NAMELESS = {"id": "a", "type": "function", "function": {"arguments": ONE}}
NAMELESS_WHOLE = {
    "choices": [{"message": {"tool_calls": [NAMELESS]}, "finish_reason": "tool_calls"}],
    "usage": COUNTED["usage"],
}
NAMELESS_STREAMED = [chunk({**NAMELESS, "index": 0}), chunk(finish="tool_calls"), COUNTED]


@pytest.mark.parametrize(
    ("way", "answer"),
    [
        ("plain", NAMELESS_WHOLE),
        ("async", NAMELESS_WHOLE),
        ("streamed", NAMELESS_STREAMED),
        ("async streamed", NAMELESS_STREAMED),
    ],
)
def test_a_call_without_a_name_makes_a_reply_unusable(way, answer):
    reply = reply_to("openai-chat", way, answer)
    assert reply.stop_reason == "malformed"
    assert "without its tool's name" in reply.mistake


def test_a_thought_waits_for_the_name_of_its_tool_and_is_shown_then():
    calls = CallAssembler()
    assert calls.feed(piece('{"thought": "Look', id="a")) == []
    assert calls.feed(piece(name="think")) == [Delta("thought", "Look", "think")]
    assert calls.feed(piece(" first.")) == [Delta("thought", " first.", "think")]


# Any calls, cut and mixed in any way.

ARGUMENTS = st.dictionaries(st.text(max_size=3), st.integers() | st.text(max_size=5), max_size=3)
NO_TEXT = st.sampled_from([None, ""])
MADE = st.lists(st.tuples(st.sampled_from(["look", "pay", "think"]), ARGUMENTS), max_size=4)


def cut(draw: st.DrawFn, text: str) -> list[str]:
    places = draw(st.lists(st.integers(0, len(text)), max_size=3))
    edges = [0, *sorted(places), len(text)]
    return [text[start:end] for start, end in itertools.pairwise(edges)]


@st.composite
def pieces_of(draw: st.DrawFn, number: int, name: str, arguments: Json) -> list[Json]:
    """The pieces of a call at the index of its number. Its name comes at any time, also again, and
    its id is any that servers write. The first piece says at least that there is a call.
    """
    texts = cut(draw, json.dumps(arguments))
    named_at = draw(st.integers(0, len(texts) - 1))
    pieces = []
    for place, text in enumerate(texts):
        is_named_again = place > named_at and text and draw(st.booleans())
        shown_name = name if place == named_at or is_named_again else draw(NO_TEXT)
        id = f"id_{number}" if place == 0 else draw(NO_TEXT | st.sampled_from(["null", "x", text]))
        pieces.append(piece(text, shown_name, id, number))
    return pieces


@st.composite
def mixed(draw: st.DrawFn) -> tuple[list[tuple[str, Json]], list[Json]]:
    """Calls, and their pieces: those of one call in order, those of several in any order."""
    made = draw(MADE)
    waiting = [draw(pieces_of(number, *call)) for number, call in enumerate(made)]
    # The first pieces come in order: a call is where its first piece was.
    pieces = [rest.pop(0) for rest in waiting]
    while any(waiting):
        rest = draw(st.sampled_from([rest for rest in waiting if rest]))
        pieces.append(rest.pop(0))
    return made, pieces


def read(pieces: Sequence[Json]) -> list[tuple[str, Any]]:
    calls = CallAssembler()
    for one in pieces:
        calls.feed(one)
    return [
        (call["function"]["name"], json.loads(call["function"]["arguments"]))
        for call in calls.whole()
    ]


@given(mixed())
def test_any_mixture_of_pieces_is_the_calls_that_were_cut(calls_and_pieces):
    made, pieces = calls_and_pieces
    assert read(pieces) == made


@given(MADE, st.data())
def test_any_calls_at_one_index_are_told_apart_by_name_and_id(made, data):
    """As servers send them that number every call 0: one after the other."""
    pieces = []
    for number, (name, arguments) in enumerate(made):
        first, *rest = cut(data.draw, json.dumps(arguments))
        pieces.append(piece(first, name, f"call_{number}"))
        pieces += [piece(text, id=data.draw(st.sampled_from([None, ""]))) for text in rest]
    assert read(pieces) == made


def test_a_piece_of_a_long_call_costs_no_more_than_the_first():
    def stream(pieces: int) -> None:
        calls = CallAssembler()
        calls.feed(piece('{"id": "', "look", "a"))
        for number in range(pieces):
            calls.feed(piece("text ", "look", f"id_{number}"))

    assert grows_evenly(stream, 100, 1000)

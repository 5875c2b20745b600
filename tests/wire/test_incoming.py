"""How replies and Deltas are checked, and what the translators may import."""

import re
from pathlib import Path

import pytest

import think_agent.wire
from think_agent import Assistant, ToolCall
from think_agent.streaming import Delta
from think_agent.wire.counts import read_count
from think_agent.wire.incoming import parse_arguments, validate_delta, validate_reply

WIRE = Path(think_agent.wire.__file__).parent
ROOT = {"errors", "messages", "model", "streaming", "text", "think", "tools"}
OTHERS = {
    "collections",
    "contextlib",
    "dataclasses",
    "hashlib",
    "itertools",
    "json",
    "re",
    "typing",
}
OTHERS |= {"pydantic", "pydantic_core"}  # no SDK: the root has them, too
MAY = {"": OTHERS, "..": ROOT}  # by the dots before it


@pytest.mark.parametrize("path", sorted(WIRE.glob("*.py")), ids=lambda path: path.name)
def test_a_translator_imports_the_root_and_no_sdk(path):
    imports = re.findall(r"^\s*(?:from|import) (\.*)(\w*)", path.read_text("utf-8"), re.MULTILINE)
    for dots, name in imports:
        if dots in MAY:
            assert name in MAY[dots]


def test_a_valid_reply_stays_as_it_is():
    reply = Assistant("Grüße", "…", (ToolCall("a", "f", {"x": 1}),), native={"input": {"x": 1.0}})
    assert validate_reply(reply) == reply


def test_lone_surrogates_are_replaced_and_pairs_are_joined():
    call = ToolCall("\udfff", "f\ud800", {"k\ud800": ["\ud800"]})
    reply = Assistant("a\ud800b", "\ud83d\ude00", (call,), model="m\ud800")
    repaired = ToolCall("\ufffd", "f\ufffd", {"k\ufffd": ["\ufffd"]})
    assert validate_reply(reply) == Assistant(
        "a\ufffdb", "\U0001f600", (repaired,), model="m\ufffd"
    )


def test_a_native_form_keeps_what_was_joined_but_is_dropped_where_a_character_was_replaced():
    halves = {"text": "\ud83d\ude00"}
    checked = validate_reply(Assistant("\ud83d\ude00", native=halves))
    assert checked == Assistant("\U0001f600", native={"text": "\U0001f600"})
    lone = {"text": "\ud800"}
    assert validate_reply(Assistant("\ud800", native=lone)) == Assistant("\ufffd")


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity"])
def test_arguments_with_a_number_that_json_does_not_have_become_text(number):
    arguments = {"amount": float(number)}
    assert parse_arguments(arguments) == f'{{"amount": {number}}}'


def test_a_native_form_that_cannot_be_sent_is_dropped():
    checked = validate_reply(Assistant("Hi", native={"input": [float("nan")]}, signed=True))
    assert checked.text == "Hi"
    assert checked.native is None


@pytest.mark.parametrize(
    "reply",
    [
        Assistant(text=5),
        Assistant(thinking=None),
        Assistant(stop_reason=None),
        Assistant(model=5),
        Assistant(tool_calls=(ToolCall(None, "f"),)),
        Assistant(tool_calls=(ToolCall("a", 5),)),
        Assistant(tool_calls=(ToolCall("a", "f", [1]),)),
    ],
)
def test_a_field_of_another_type_is_an_error(reply):
    with pytest.raises(ValueError, match="Input should be"):
        validate_reply(reply)


def test_a_delta_is_well_formed_text():
    assert validate_delta(Delta("answer", "a\ud800")) == Delta("answer", "a\ufffd")
    for delta in (Delta("answer", 5), Delta("call", "{}", None)):
        with pytest.raises(AttributeError):
            validate_delta(delta)


@pytest.mark.parametrize("value", [None, "many", [], float("nan"), float("inf"), {"n": 5}])
def test_a_count_that_is_not_a_number_is_0(value):
    assert read_count({"output": {"tokens": value}}, "output", "tokens") == 0
    assert read_count(value, "tokens") == 0


@pytest.mark.parametrize("value", [12, "12", 12.9, " 12 "])
def test_a_count_of_tokens_is_read_as_a_number(value):
    assert read_count({"output": {"tokens": value}}, "output", "tokens") == 12

"""Text from a model, a tool or a server is made safe to display, and is shortened (`text.py`)."""

import re
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from think_agent.text import (
    canonical,
    is_blank,
    remove_fence,
    sanitize,
    shorten,
    well_formed,
    write_out,
)

CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


@dataclass(frozen=True)
class Case:
    name: str
    text: str
    becomes: str


# Rule 1: text is displayed only after `sanitize`.

SANITIZED = [
    Case("printable text", "ORD-001: 89 €", "ORD-001: 89 €"),
    Case("line breaks and tabs stay", "a\n\tb", "a\n\tb"),
    Case("a Windows line break is one", "a\r\nb", "a\nb"),
    Case("a terminal's control code", "\x1b[2J", r"\x1b[2J"),
    Case("text that runs from right to left", "\u202eabc", r"\u202eabc"),
    Case("a lone surrogate", "\ud800", r"\ud800"),
    Case("a joiner, which is part of emoji", "a\u200db", "a\u200db"),
    Case("a space of another width", "a\u2003b", "a\u2003b"),
]


@pytest.mark.parametrize("case", SANITIZED, ids=lambda case: case.name)
def test_sanitize_escapes_control_and_invisible_characters(case):
    assert sanitize(case.text) == case.becomes


@given(st.text())
def test_sanitized_text_holds_no_control_characters_and_loses_nothing(text):
    shown = sanitize(text)
    assert not CONTROLS.search(shown)
    shown.encode()
    plain = [char for char in text.replace("\r\n", "\n") if char.isprintable()]
    assert all(char in shown for char in plain)


def test_the_characters_to_keep_may_be_given():
    assert sanitize("a\n\tb", keep="") == r"a\n\tb"


@pytest.mark.parametrize("unseen", ["\u200d", "\u3164", "\u2800", "\ufe0f"], ids=ascii)
def test_write_out_escapes_what_is_printable_but_invisible_too(unseen):
    assert write_out(f"a{unseen}b") == "a" + unseen.encode("unicode_escape").decode() + "b"


# Rule 2: text from outside passes through `well_formed`.

WELL_FORMED = [
    Case("plain text", "a€", "a€"),
    Case("a lone surrogate", "a\ud800b", "a\ufffdb"),
    Case("a surrogate pair", "\ud83d\ude00", "\U0001f600"),
]


@pytest.mark.parametrize("case", WELL_FORMED, ids=lambda case: case.name)
def test_well_formed_joins_surrogate_pairs_and_replaces_lone_ones(case):
    assert well_formed(case.text) == case.becomes


def test_well_formed_raises_for_a_lone_surrogate_if_it_is_strict():
    with pytest.raises(UnicodeDecodeError):
        well_formed("\ud800", lone="strict")


# The rest.

SHORTENED = [
    Case("short", "a b", "a b"),
    Case("several lines are one", " a\n\n  b ", "a b"),
    Case("as long as the limit", "abcde", "abcde"),
    Case("longer", "abcdef", "abcd…"),
]


@pytest.mark.parametrize("case", SHORTENED, ids=lambda case: case.name)
def test_shorten_makes_one_line_of_at_most_the_limit(case):
    assert shorten(case.text, limit=5) == case.becomes


FENCED = [
    Case("no fence", ' {"a": 1}\n', '{"a": 1}'),
    Case("a fence with a language", '```json\n{"a": 1}\n```', '{"a": 1}'),
    Case("a fence without one", '```\n{"a": 1}\n```', '{"a": 1}'),
    Case("a fence that is not closed", '```json\n{"a": 1}', '{"a": 1}'),
    Case("text before the fence", 'Here: ```json\n{"a": 1}\n```', 'Here: ```json\n{"a": 1}\n```'),
]


@pytest.mark.parametrize("case", FENCED, ids=lambda case: case.name)
def test_a_code_fence_around_the_whole_text_is_removed(case):
    assert remove_fence(case.text) == case.becomes


@pytest.mark.parametrize("blank", ["", " \n", "...", "\u200b", "—"], ids=ascii)
def test_text_without_a_letter_or_a_digit_is_blank(blank):
    assert is_blank(blank)


@pytest.mark.parametrize("text", ["a", "...1", "ü", "é."])
def test_text_with_a_letter_or_a_digit_is_not_blank(text):
    assert not is_blank(text)


def test_equal_values_have_the_same_canonical_text():
    assert canonical({"b": 1, "a": 2}) == canonical({"a": 2, "b": 1})

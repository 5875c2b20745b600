"""Settings mean the same on all wires: reasoning, bound, temperature, seed; and strict schemas."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from tests.support.wires import WIRES as PROTOCOLS
from tests.support.wires import to_gemini, to_wire
from think_agent import Force, Request, Tool, User
from think_agent.messages import Json
from think_agent.think import THINK
from think_agent.wire.outgoing import is_closed
from think_agent.wire.settings import Settings

ASK = Request([User("hi")], [THINK])
WIRES: dict[str, Callable[..., Json]] = {
    **{name: partial(to_wire, name) for name in PROTOCOLS},
    "gemini 2": partial(to_gemini, model="gemini-2.5-pro"),
}


def added(wire: str, settings: Settings) -> dict[str, Any]:
    """What the settings add to a body, by dotted paths."""

    def flat(value: Any, path: str = "") -> dict[str, Any]:
        if not isinstance(value, dict) or not value:
            return {path: value}
        return {k: v for key in value for k, v in flat(value[key], f"{path}.{key}").items()}

    plain = flat(WIRES[wire](ASK, Settings()))
    return {k: v for k, v in flat(WIRES[wire](ASK, settings)).items() if plain.get(k, k) != v}


SUMMARY = {".reasoning.effort": "low", ".reasoning.summary": "auto"}
SHOWN = {".thinking.type": "adaptive", ".thinking.display": "summarized"}
THOUGHTS = ".generationConfig.thinkingConfig"


@pytest.mark.parametrize(
    ("wire", "off", "low"),
    [
        ("anthropic", {".thinking.type": "disabled"}, {**SHOWN, ".output_config.effort": "low"}),
        ("openai-chat", {".reasoning_effort": "none"}, {".reasoning_effort": "low"}),
        ("openai-responses", {".reasoning.effort": "none"}, SUMMARY),
        (
            "gemini",
            {f"{THOUGHTS}.thinkingLevel": "minimal"},
            {f"{THOUGHTS}.thinkingLevel": "low", f"{THOUGHTS}.includeThoughts": True},
        ),
        (
            "gemini 2",
            {f"{THOUGHTS}.thinkingBudget": 0},
            {f"{THOUGHTS}.thinkingBudget": 1024, f"{THOUGHTS}.includeThoughts": True},
        ),
        ("ollama", {".think": False}, {".think": "low"}),
    ],
)
def test_reasoning_is_asked_for_in_one_place(wire, off, low):
    assert added(wire, Settings(reasoning="off")) == off
    assert added(wire, Settings(reasoning="low")) == low
    levels = [str(added(wire, Settings(reasoning=one))) for one in ("low", "medium", "high")]
    assert len(set(levels)) == 3


CHOICES: dict[str, list[Json]] = {  # any tool, none, and the one; "auto" is the default
    "anthropic": [
        {"tool_choice": {"type": "any"}},
        {"tool_choice": {"type": "none"}},
        {"tool_choice": {"type": "tool", "name": "think"}},
    ],
    "openai-chat": [
        {"tool_choice": "required"},
        {"tool_choice": "none"},
        {"tool_choice": {"type": "function", "function": {"name": "think"}}},
    ],
    "openai-responses": [
        {"tool_choice": "required"},
        {"tool_choice": "none"},
        {"tool_choice": {"type": "function", "name": "think"}},
    ],
    "gemini": [
        {"toolConfig": {"functionCallingConfig": config}}
        for config in ({"mode": "ANY"}, {"mode": "NONE"},
                       {"mode": "ANY", "allowedFunctionNames": ["think"]})
    ],
    "ollama": [{}] * 3,
}  # fmt: skip


@pytest.mark.parametrize("wire", CHOICES)
def test_a_tool_choice_is_all_that_changes(wire):
    """The tools stay the same: they are part of the cached prefix."""
    auto = to_wire(wire, ASK)
    assert not {"tool_choice", "toolConfig"} & auto.keys()
    for choice, added in zip(("required", "none", Force("think")), CHOICES[wire], strict=True):
        assert to_wire(wire, replace(ASK, tool_choice=choice)) == auto | added


OUTPUT = {
    "anthropic": {".max_tokens": 20},
    "openai-chat": {".max_tokens": 20, ".temperature": 0.0, ".seed": 7},
    "openai-responses": {".max_output_tokens": 20, ".temperature": 0.0},
    "gemini": {f".generationConfig.{k}": v for k, v in
               {"maxOutputTokens": 20, "temperature": 0.0, "seed": 7}.items()},
    "ollama": {f".options.{k}": v for k, v in
               {"num_predict": 20, "temperature": 0.0, "seed": 7}.items()},
}  # fmt: skip


@pytest.mark.parametrize("wire", OUTPUT)
def test_bound_temperature_and_seed_are_sent_under_the_names_of_each_wire(wire):
    assert added(wire, Settings(None, 20, 0.0, 7)) == OUTPUT[wire]


CLOSED = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"],
          "additionalProperties": False}  # fmt: skip


@pytest.mark.parametrize(
    ("schema", "closed"),
    [
        (THINK.parameters, True),
        (CLOSED, True),
        ({**CLOSED, "properties": {"a": CLOSED}}, True),
        ({**CLOSED, "properties": {"a": {"anyOf": [CLOSED, {"type": "null"}]}}}, True),
        ({"type": "object", "properties": {}, "additionalProperties": False}, False),
        ({**CLOSED, "required": []}, False),
        ({**CLOSED, "additionalProperties": True}, False),
        ({**CLOSED, "properties": {"a": {"type": "string", "pattern": "x"}}}, False),
        ({**CLOSED, "properties": {"a": {"type": "array", "items": {"type": "object"}}}}, False),
    ],
)
def test_which_schemas_are_closed(schema, closed):
    assert is_closed(schema) == closed


def strict(wire: str, *tools: Tool) -> list[bool]:
    """Which of the tools are sent as strict ones."""
    sent = to_wire(wire, Request([User("hi")], tools), strict=True)["tools"]
    return [tool.get("function", tool).get("strict", False) for tool in sent]


@pytest.mark.parametrize("wire", ["anthropic", "openai-chat", "openai-responses"])
def test_only_closed_schemas_are_sent_as_strict(wire):
    loose = Tool(name="loose", description="", parameters={**CLOSED, "required": []})
    assert strict(wire, THINK, loose) == [True, False]


def with_unions(number: int) -> Tool:
    properties = {f"a{place}": {"anyOf": [CLOSED]} for place in range(number)}
    schema = {**CLOSED, "properties": properties, "required": list(properties)}
    return Tool(name="either", description="", parameters=schema)


def test_anthropic_takes_twenty_strict_tools_and_sixteen_unions_in_all_of_them():
    assert sum(strict("anthropic", *[THINK] * 25)) == 20
    assert strict("anthropic", with_unions(16), with_unions(1)) == [True, False]

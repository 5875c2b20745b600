"""`connect`, and what is known or asked of a model before the first request."""

from dataclasses import replace

import pytest

from tests.servers import Reply, bare
from tests.servers.anthropic import AnthropicProtocol
from tests.support.providers import (
    ASK,
    HELLO,
    KEY,
    SPEAKS,
    every_provider,
    every_way,
    failure,
    model_of,
    says,
    talking,
)
from think_agent import THINK, Assistant, BadRequest, Request, User, connect
from think_agent.providers.reasoning import GEMINI, OPENAI, check_reasoning
from think_agent.providers.successors import describe_end

LEVELS = ("off", "low", "medium", "high")


@pytest.mark.parametrize(
    ("spec", "options", "words"),
    [
        ("openai", {"model": "gpt-6-sol"}, "a model is named as in openai:MODEL"),
        ("gpt-6-luna", {}, "unknown provider 'gpt-6-luna'; write PROVIDER:MODEL"),
        ("antropic:claude-haiku-5-5", {}, "with one of: ollama, anthropic, openai, gemini"),
        ("anthropic", {"temperature": 0.5}, "anthropic's API takes no temperature"),
        ("openai", {"seed": 1}, "Responses API takes no seed"),
        ("gemini", {"num_ctx": 5}, "gemini takes no num_ctx"),
        ("offline", {"reasoning": "low"}, "offline takes no reasoning"),
        ("offline", {"per_minute": 5}, "offline takes no per_minute"),
        ("ollama", {"per_minute": 0}, "per_minute: .* greater than 0, got 0"),
        (
            "openai",
            {"reasoning": "much"},
            "reasoning: .*'off', 'low', 'medium' or 'high', got 'much'",
        ),
        ("openai", {"max_output_tokens": 0}, "max_output_tokens: .* greater than 0, got 0"),
        ("openai", {"max_output_tokens": True}, "max_output_tokens: .* valid integer, got True"),
        ("openai", {"temperature": -0.1}, "temperature: .* greater than or equal to 0, got -0.1"),
        ("openai", {"temperature": float("nan")}, "temperature: .* finite number, got nan"),
        ("openai", {"seed": "1"}, "seed: .* valid integer, got '1'"),
        ("openai", {"timeout": None}, "timeout: .* valid number, got None"),
    ],
)
def test_a_setting_that_is_not_taken_is_an_error_of_one_line(spec, options, words):
    with pytest.raises(ValueError, match=words) as caught:
        connect(spec, api_key=KEY, **options)
    assert "\n" not in str(caught.value)


# Reasoning, by a table.


@pytest.mark.parametrize(
    ("table", "model", "levels"),
    [
        (OPENAI, "gpt-6-luna", LEVELS),
        (OPENAI, "gpt-6-luna-2026-09-22", LEVELS),
        (OPENAI, "gpt-6-astra", LEVELS[1:]),
        (OPENAI, "gpt-6.1-sol", LEVELS[1:]),
        (OPENAI, "gpt-6.1-terra", LEVELS),
        (OPENAI, "gpt-6.2-sol", LEVELS[1:]),
        (OPENAI, "gpt-6.2-astra", LEVELS[1:]),
        (OPENAI, "gpt-6-rosalind", LEVELS),
        (OPENAI, "gpt-5.5-pro", ("medium", "high")),
        (OPENAI, "gpt-5.2-chat-latest", ("medium",)),
        (OPENAI, "gpt-5-pro", ("high",)),
        (OPENAI, "gpt-5-mini", LEVELS[1:]),
        (OPENAI, "o3", LEVELS[1:]),
        (OPENAI, "gpt-4o", ()),
        (OPENAI, "of-tomorrow", LEVELS),
        (GEMINI, "gemini-3.8-flash", LEVELS[1:]),
        (GEMINI, "gemini-3.1-pro-preview", LEVELS[1:]),
        (GEMINI, "gemini-3-pro-preview", ("low", "high")),
        (GEMINI, "gemini-2.5-pro", LEVELS[1:]),
        (GEMINI, "gemini-2.5-flash", LEVELS),
        (GEMINI, "gemini-2.0-flash", ()),
        (GEMINI, "gemini-5-of-tomorrow", LEVELS),
    ],
)
def test_the_levels_of_reasoning_that_a_table_knows(table, model, levels):
    check_reasoning(model, None, table)
    for level in LEVELS:
        if level in levels:
            check_reasoning(model, level, table)
        else:
            with pytest.raises(ValueError, match=model):
                check_reasoning(model, level, table)


@pytest.mark.parametrize(
    ("spec", "reasoning", "words"),
    [
        ("openai:gpt-6-astra", "off", "gpt-6-astra takes no reasoning='off'; use one of: low"),
        ("openai:ft:gpt-4o:acme", "low", "gpt-4o:acme takes no .* use one of: none at all"),
        ("openai:gpt-5.5-pro", "low", "use one of: medium, high, none at all"),
        ("gemini", "off", "gemini-3.8-flash takes no reasoning='off'"),
        ("gemini:models/gemini-2.5-pro", "off", "gemini-2.5-pro takes no reasoning='off'"),
    ],
)
def test_connect_refuses_reasoning_that_the_model_is_known_to_refuse(spec, reasoning, words):
    with pytest.raises(ValueError, match=words):
        connect(spec, api_key=KEY, reasoning=reasoning)


def test_the_table_is_for_the_official_host_alone():
    connect("openai:gpt-4o", base_url="http://127.0.0.1:1/v1", reasoning="low")


# Models that were shut down.


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ("gpt-4o", "retires gpt-4o on 2027-01-14 and names gpt-6-luna as its successor"),
        ("gpt-4o-2024-11-20", "names gpt-6-luna"),
        ("ft:gpt-4o-2024-08-06:acme::abc", "names gpt-6-luna"),
        ("openai/gpt-5-mini", "names gpt-6.1-terra"),
        ("models/gemini-2.5-pro", "names gemini-3.8-flash"),
        ("claude-sonnet-4-20250514", "names claude-sonnet-4-6"),
        ("claude-opus-4-5-20251101", "on 2027-01-22 and names claude-opus-5-5"),
        ("claude-sonnet-4-5", "retires claude-sonnet-4-5 on 2026-11-30"),
    ],
)
def test_the_end_of_a_model_and_its_successor(model, words):
    assert words in describe_end(model)


@pytest.mark.parametrize("model", ["gpt-6-luna", "gpt-4o-of-tomorrow", "claude-haiku-5-5", "x"])
def test_other_models_have_no_end(model):
    assert describe_end(model) == ""


@pytest.mark.parametrize(
    ("provider", "model", "successor"),
    [
        ("openai-chat", "gpt-4o", "gpt-6-luna"),
        ("openai-responses", "gpt-5", "gpt-6.1-sol"),
        ("anthropic", "claude-opus-4-5", "claude-opus-5-5"),
        ("gemini", "gemini-2.5-flash", "gemini-3.5-flash-lite"),
    ],
)
def test_a_model_that_is_not_found_names_its_successor(provider, model, successor):
    with talking(provider) as (server, _):
        gone = bare(model_of(provider, server, model))
        server.canned = [Reply(404, {"error": {"message": f"The model {model} does not exist"}})]
        assert f"names {successor} as its successor" in str(failure(gone))


# Reasoning, asked of Anthropic.


def capabilities(*types: str, efforts: tuple[str, ...] = LEVELS[1:]) -> dict:
    """What the API says of a model: its kinds of thinking, its levels of effort."""
    kinds = ("adaptive", "between_tools", "disabled", "enabled")
    levels = ("low", "medium", "high", "xhigh", "max")
    thinking = {kind: {"supported": kind in types} for kind in kinds}
    effort = {level: {"supported": level in efforts} for level in levels}
    return {"id": "m", "capabilities": {"thinking": {"types": thinking}, "effort": effort}}


HAIKU = capabilities("adaptive", "disabled")
OPUS = capabilities("adaptive")
SONNET = capabilities("adaptive", "between_tools")
BY_BUDGET = capabilities("enabled", "disabled", efforts=())
ADAPTIVE = {"type": "adaptive", "display": "summarized"}


class Asked(AnthropicProtocol):
    """A server that is asked what its model can do."""

    def __init__(self, answer: object, status: int = 200) -> None:
        super().__init__()
        self.answer = Reply(status, answer)
        self.paths: list[str] = []

    def other(self, method: str, path: str, body: object) -> Reply | None:
        if method != "GET":
            return None
        self.paths.append(path)
        return self.answer


@every_way
@pytest.mark.parametrize(
    ("says_it_can", "reasoning", "thinking", "effort"),
    [
        (HAIKU, "off", {"type": "disabled"}, None),
        (HAIKU, "low", ADAPTIVE, "low"),
        (SONNET, "off", {"type": "between_tools"}, None),
        (SONNET, "high", ADAPTIVE, "high"),
        (OPUS, "medium", ADAPTIVE, "medium"),
    ],
)
def test_reasoning_is_asked_for_as_the_model_takes_it(
    way, says_it_can, reasoning, thinking, effort
):
    protocol = Asked(says_it_can)
    with talking("anthropic", protocol=protocol, reasoning=reasoning) as (server, model):
        for _ in range(2):
            assert ASK[way](model, HELLO).text == "Hello."
        for body in server.requests:
            assert body["thinking"] == thinking
            assert body.get("output_config", {}).get("effort") == effort
    assert protocol.paths == ["/v1/models/claude-haiku-5-5"]  # once


@every_way
@pytest.mark.parametrize(
    ("says_it_can", "reasoning", "words"),
    [
        (OPUS, "off", "takes no reasoning='off'; use one of: low, medium, high, none at all"),
        (BY_BUDGET, "low", "takes no reasoning='low'; use one of: off, none at all"),
        (capabilities(), "low", "takes no reasoning='low'; use one of: none at all"),
        (capabilities("adaptive", efforts=("high",)), "low", "use one of: high, none at all"),
    ],
)
def test_what_a_model_cannot_do_is_refused_before_the_request(way, says_it_can, reasoning, words):
    protocol = Asked(says_it_can)
    with talking("anthropic", protocol=protocol, reasoning=reasoning) as (server, model):
        for _ in range(2):
            error = failure(model, way)
            assert type(error) is BadRequest
            assert words in str(error)
        with pytest.raises(BadRequest, match=r"claude-haiku-5-5"):
            model.check()
        assert server.requests == []


NOT_FOUND = {"type": "error", "error": {"type": "not_found_error", "message": "Not Found"}}


@pytest.mark.parametrize(
    "protocol",
    [
        Asked(NOT_FOUND, 404),
        Asked("<html>Welcome</html>"),
        Asked({"id": "m"}),
        Asked({"id": "m", "capabilities": None}),
        Asked([1]),
        Asked({"id": "m", "capabilities": {"thinking": "yes", "effort": {}}}),
    ],
)
def test_a_server_that_does_not_tell_is_tried(protocol):
    for reasoning, thinking in (("low", ADAPTIVE), ("off", {"type": "disabled"})):
        with talking("anthropic", protocol=protocol, reasoning=reasoning) as (server, model):
            assert model.complete(HELLO).text == "Hello."
            assert server.requests[0]["thinking"] == thinking


def test_the_server_is_not_asked_where_nothing_depends_on_it():
    for options in ({}, {"thinking": {"type": "adaptive"}, "reasoning": "low"}):
        protocol = Asked(OPUS)
        with talking("anthropic", protocol=protocol, **options) as (_, model):
            model.check()
            model.complete(HELLO)
        assert protocol.paths == []


@pytest.mark.parametrize("name", ["claude-opus-5-5", "claude-sonnet-5-5-20261001"])
def test_the_notes_between_calls_are_asked_for(name):
    """These models write them as thinking, which is empty unless it is asked for."""
    given = {"type": "adaptive"}
    with talking("anthropic") as (server, other):
        model_of("anthropic", server, name).complete(HELLO)
        model_of("anthropic", server, name, thinking=given).complete(HELLO)
        other.complete(HELLO)
        sent = [body.get("thinking") for body in server.requests]
    assert sent == [ADAPTIVE, given, None]


# What a server may not know.


def test_anthropic_is_not_asked_to_cache_where_that_is_turned_off():
    with talking("anthropic", cache=False) as (server, model):
        model.complete(HELLO)
        assert "cache_control" not in server.requests[0]


@every_way
def test_a_server_that_knows_no_cache_is_asked_without(way):
    refusal = {"error": {"message": "cache_control: Extra inputs are not permitted"}}
    with talking("anthropic") as (server, model):
        server.canned = [Reply(400, refusal)]
        for _ in range(2):
            assert ASK[way](model, HELLO).text == "Hello."
        assert ["cache_control" in body for body in server.requests] == [True, False, False]


NO_STRICT = "Unknown parameter: 'tools[0].strict'."


@every_way
@pytest.mark.parametrize(
    ("provider", "complaint", "is_strict"),
    [
        ("gemini", "Function calling mode VALIDATED is not supported", "VALIDATED"),
        ("openai-chat", NO_STRICT, "'strict': True"),
        ("openai-responses", NO_STRICT, "'strict': True"),
    ],
    ids=["gemini", "openai-chat", "openai-responses"],
)
def test_a_server_that_takes_no_strict_schemas_is_asked_without(
    way, provider, complaint, is_strict
):
    """Also in a conversation that has begun: on another server, with them."""
    begun = Request([User("Hi"), Assistant("So?"), User("Yes.")], [THINK])
    with talking(provider, strict=True) as (server, model):
        server.canned = [Reply(400, {"error": {"message": complaint}})]
        replies = [ASK[way](model, begun) for _ in range(2)]
        assert [reply.text for reply in replies] == ["Hello."] * 2
        assert ["does not take strict" in reply.notice for reply in replies] == [True, False]
        assert [is_strict in str(body) for body in server.requests] == [True, False, False]


# What a provider wrote goes back to the host that wrote it.


@every_provider
def test_what_one_host_wrote_is_not_sent_to_another(provider):
    with talking(provider, says(Assistant("Hello.", "Hm."))) as (server, model):
        reply = model.complete(HELLO)
        assert reply.host == "127.0.0.1"
        url = model.url.replace("127.0.0.1", "localhost")
        elsewhere = bare(model_of(provider, server, base_url=url))
    native = Request([User("Hi"), reply, User("So?")])
    plain = Request([User("Hi"), replace(reply, native=None), User("So?")])
    assert elsewhere.to_wire(native) == model.to_wire(plain)


@every_provider
def test_a_warning_about_a_key_names_the_line_that_connects(provider, monkeypatch):
    for variable in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "OLLAMA_API_KEY"):
        monkeypatch.setenv(variable, "a-key-of-the-environment")
    with pytest.warns(UserWarning, match="is not sent over plain http") as caught:
        connect(SPEAKS[provider][1], base_url="http://models.example")
    assert {warning.filename for warning in caught} == {__file__}

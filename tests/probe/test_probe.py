"""What `think-agent probe` finds out: from servers that differ on purpose, and from values."""

import json
import os
import re
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from tests.servers import Protocol, ProviderServer, serve
from tests.servers.anthropic import AnthropicProtocol
from tests.servers.ollama import TEMPLATES, OllamaServer, tokens_of
from tests.servers.openai_chat import Chat
from tests.support.commands import run_here
from tests.support.providers import KEY, SPEAKS, every_provider, model_of
from think_agent import (
    Assistant,
    BadRequest,
    Force,
    Request,
    ScriptedModel,
    ToolCall,
    ToolResult,
    Usage,
    connect,
)
from think_agent.probe.asking import observe
from think_agent.probe.report import FEATURES, PROMPT, QUESTIONS, Row, Seen, judge, recommend

DATA = Path(__file__).parents[1] / "data"
USED = Usage(20, 5)
UNSENT = "no (not sent: it is known not to be supported)"
WORDS = "one two three four five six seven eight nine ten"


def able(request: Request) -> Assistant:
    """A brain that obeys, on a server that counts its prompts."""
    return replace(obedient(request), usage=Usage(tokens_of(request), 5))


def obedient(request: Request) -> Assistant:
    said = [message for message in request.messages if not isinstance(message, Assistant)][-1]
    text = getattr(said, "text", "")
    names = [tool.name for tool in request.tools]
    match request.tool_choice:
        case Force(name="think"):
            notes = {"thought": "First Oslo.", "should_continue": "true"}
            return called(ToolCall("", "think", notes))
        case Force() | "required":
            return called(weather("Oslo"))
        case "none":
            return spoken("I cannot look that up.")
    if request.output_schema is not None:
        return spoken('{"city": "Oslo", "unit": "celsius"}')
    if isinstance(said, ToolResult):
        return spoken("Nothing is known of it.")
    if "weather" in text and "weather" in names:
        return called(*[weather(city) for city in ("Paris", "Oslo") if city in text])
    if "password" in text:
        return spoken(text.splitlines()[0])
    return spoken(WORDS if "Count" in text else "Oslo")


def spoken(text: str) -> Assistant:
    return Assistant(text=text, stop_reason="end_turn", usage=USED)


def called(*calls: ToolCall) -> Assistant:
    return Assistant(tool_calls=calls, stop_reason="tool_use", usage=USED)


def weather(city: str, **more: str) -> ToolCall:
    return ToolCall("", "weather", {"city": city, "unit": "celsius", **more})


def musing(request: Request) -> Assistant:
    """The same brain with native thinking."""
    return replace(able(request), thinking="Let me see.")


def careless(request: Request) -> Assistant:
    """A small model on a server that takes everything and does little of it: no choice, no schema,
    one call at a time and not by its schema, four thousand characters of memory, no usage.
    """
    cut = tuple(
        replace(message, text=message.text[-4000:]) if getattr(message, "text", "") else message
        for message in request.messages
    )
    reply = able(replace(request, messages=cut, tool_choice="auto", output_schema=None))
    calls = tuple(replace(c, arguments={"city": "Oslo", "unit": "C"}) for c in reply.tool_calls[:1])
    return replace(reply, tool_calls=calls, usage=Usage())


def blind() -> Protocol:
    """An Ollama whose template shows the tools only beside the newest user message."""
    return OllamaServer(template=TEMPLATES["llama3.1"], made=8192)


def probe(server: ProviderServer, spec: str, *flags: str) -> subprocess.CompletedProcess[str]:
    """The command, asked about a model on the server."""
    keys = dict.fromkeys(("ANTHROPIC_API_KEY", "OPENAI_API_KEY"), KEY)
    url = server.url
    if spec.startswith("openai"):
        url += "/v1"
    words = ["probe", "--provider", spec, "--base-url", url, *flags]
    return run_here("think_agent", *words, **keys)


@pytest.mark.parametrize(
    ("name", "protocol", "spec", "brain", "mode"),
    [
        ("honors", Chat, "openai:able", musing, "honor"),
        ("refuses", AnthropicProtocol, "anthropic:wary", musing, "refuse"),
        ("ignores", Chat, "openai:careless", careless, "ignore"),
        ("ollama", OllamaServer, "ollama:qwen2.5:7b", able, "honor"),
        ("blind", blind, "ollama:llama3.1:8b", able, "honor"),
    ],
)
def test_different_servers_get_different_and_right_tables(name, protocol, spec, brain, mode):
    """To store them anew: WRITE_TABLES=1 python -m pytest tests/probe"""
    with serve(protocol(), brain, mode) as server:
        done = probe(server, spec)
        calls = len(server.requests)
    assert done.returncode == 0
    announced = re.search(r"probe: up to (\d+) calls to", done.stderr)
    assert announced
    errors = re.findall(r"^\| (\w+)[\w ]*\| error", done.stdout, re.MULTILINE)
    asked_again = len([row for row in errors if row != "forcing"])  # it is read from another's
    assert calls <= int(announced[1]) + asked_again <= 14
    stored = DATA / f"probe_{name}.txt"
    if os.environ.get("WRITE_TABLES"):
        stored.write_text(done.stdout)
    assert done.stdout == stored.read_text()


@every_provider
def test_a_capable_model_gets_yes_in_every_row_through_every_adapter(provider):
    with serve(SPEAKS[provider][0](), able) as server:
        rows = judge(observe(model_of(provider, server)))
    not_done = {row.name: row.text for row in rows if row.result != "yes"}
    expected = {"forcing while thinking": "unknown (the model showed no native thinking)"}
    if provider == "ollama":
        expected["required"] = UNSENT
    else:
        expected[BEHIND] = f"unknown ({UNSEEN_PROMPT})"
    assert not_done == expected
    assert recommend(rows).force == "first"
    assert recommend(rows).dialect == "native"


def test_json_prints_one_object():
    with serve(Chat(), able) as server:
        done = probe(server, "openai:m", "--json")
    printed = json.loads(done.stdout)
    assert [row["code"] for row in printed["rows"]] == [feature.code for feature in FEATURES]
    assert printed["recommended"]["dialect"] == "native"
    assert printed["provider"] == "openai"
    assert printed["model"] == "m"


def test_a_wrong_key_ends_the_probe_at_once():
    with serve(AnthropicProtocol(key="right"), able) as server:
        done = probe(server, "anthropic:m")
        assert len(server.requests) == 1
    assert done.returncode == 1
    assert done.stdout == ""
    _, error = done.stderr.splitlines()
    assert error.startswith("error: anthropic: invalid x-api-key")
    assert KEY not in done.stderr


@pytest.mark.parametrize("failing", [name for name in QUESTIONS if name != "plain"])
def test_an_error_is_the_text_of_its_rows_and_the_other_questions_are_asked(failing):
    def brain(request: Request) -> Assistant:
        if request == QUESTIONS[failing]:
            raise BadRequest("no such thing here")
        return able(request)

    rows = judge(observe(ScriptedModel(brain)))
    asked = {feature.code: feature.question for feature in FEATURES}
    for row in rows:
        if asked[row.code] == failing:
            assert row.text == "error (no such thing here)"
        else:
            assert row.result in ("yes", "unknown")


def test_a_tool_choice_that_the_provider_refuses_is_not_sent():
    with serve(AnthropicProtocol(), able) as server:
        model = connect("anthropic:claude-opus-5-5", base_url=server.url, api_key=KEY, timeout=20)
        rows = {row.name: row for row in judge(observe(model))}
        assert len(server.requests) == len(QUESTIONS) - 2
    assert rows["named forcing"].text == UNSENT
    assert rows["none"].result == "yes"


def test_where_a_choice_by_name_is_refused_required_still_forces():
    """LM Studio: only strings are taken. The kit then asks `required` with that tool alone."""

    class OnlyStrings(Chat):
        def decode(self, path, body):
            if isinstance(body.get("tool_choice"), dict):
                raise ValueError("Invalid tool_choice type: 'object'. Supported string values: ...")
            return super().decode(path, body)

    def brain(request: Request) -> Assistant:
        if [tool.name for tool in request.tools] == ["think"]:
            request = replace(request, tool_choice=Force("think"))
        return able(request)

    with serve(OnlyStrings(), brain) as server:
        model = connect("openai:m", base_url=server.url + "/v1", timeout=20)
        rows = {row.name: row for row in judge(observe(model))}
    assert rows["named forcing"].text == "yes"


# By values.

GOOD = observe(ScriptedModel(able))
CUT = Assistant("Well, you see", stop_reason="max_tokens", usage=USED)
EXTRA = "day: there is no such field"
NO_OBJECT = "Input should be an object, got [1]"
MISSING = "unit: this field is required"
PARIS_TODAY = called(weather("Paris", day="today"))
GUESSED = Assistant(WORDS, usage=Usage(1, 1, estimated=True))
HALF = spoken('{"city": "Oslo"}')
FOUND = called(replace(weather("Oslo"), recovered=True))
ONE = called(weather("Oslo"))
REASONED = replace(GOOD["named"].reply, usage=Usage(9, 9, 0, 4))
CALLED, SPOKE = "silently ignored (it called weather)", "silently ignored (it answered in words)"
HIDDEN = "its template hides the tools there; native tool calling goes blind"
UNSEEN_PROMPT = "this server does not show its prompts"
BEHIND = "tools shown after a result"
AT_LIMIT = "no (the reply reached its token limit first)"
UNSEEN = "no (the first line of about 5,000 tokens was not repeated)"


@pytest.mark.parametrize(
    ("row", "question", "reply", "text"),
    [
        ("plain answer", "plain", spoken(" "), "no (an empty reply)"),
        ("tool call", "calls", spoken("Sunny."), "no (it answered in words)"),
        ("tool call", "calls", FOUND, "yes (found in its text)"),
        ("parallel calls", "calls", ONE, "no (1 of 2 calls)"),
        ("named forcing", "named", ONE, CALLED),
        ("named forcing", "named", CUT, AT_LIMIT),
        ("required", "required", spoken("Hi"), SPOKE),
        ("required", "required", Seen(spoken("Hi"), "not for you"), "error (not for you)"),
        ("none", "none", ONE, CALLED),
        ("forcing while thinking", "plain", REASONED, "no (when it is forced it does not think)"),
        ("forcing while thinking", "named", REASONED, "yes"),
        ("arguments obey the schema", "calls", PARIS_TODAY, f"no (weather: {EXTRA})"),
        ("arguments obey the schema", "calls", spoken("x"), "unknown (no call was made)"),
        ("structured output", "schema", CUT, AT_LIMIT),
        ("structured output", "schema", spoken("[1]"), f"silently ignored ({NO_OBJECT})"),
        ("structured output", "schema", HALF, f"silently ignored ({MISSING})"),
        ("streaming", "stream", Seen(spoken(WORDS), pieces=1), "no (it came in one piece)"),
        ("usage reported", "stream", Seen(GUESSED), "no (not when it streams)"),
        ("usage reported", "plain", GUESSED, "no"),
        ("empty content in history", "empty", spoken(""), "no (an empty reply)"),
        ("start of a long message seen", "long", spoken("Which password?"), UNSEEN),
        (BEHIND, PROMPT, Seen(prompt="a kestrel and a heron"), f"no ({HIDDEN})"),
        (BEHIND, PROMPT, Seen(prompt="kestrel heron receipt"), "yes"),
        (BEHIND, PROMPT, Seen(error="not now"), "error (not now)"),
        (BEHIND, PROMPT, Seen(), f"unknown ({UNSEEN_PROMPT})"),
    ],
)
def test_rows_by_values(row, question, reply, text):
    seen = reply if isinstance(reply, Seen) else Seen(reply)
    rows = {found.name: found.text for found in judge({**GOOD, question: seen})}
    assert rows[row] == text


@pytest.mark.parametrize(
    ("calls", "forcing", "schemas", "shown", "force", "dialect"),
    [
        ("yes", "yes", "yes", "unknown", "first", "native"),
        ("yes", "silently ignored", "no", "unknown", "never", "native"),
        ("yes", "error", "yes", "unknown", "never", "native"),
        ("no", "yes", "yes", "unknown", "first", "json"),
        ("yes", "yes", "no", "no", "first", "json"),
        ("yes", "yes", "no", "yes", "first", "native"),
        ("error", "no", "silently ignored", "unknown", "first", "react"),
    ],
)
def test_the_recommendation_by_values(calls, forcing, schemas, shown, force, dialect):
    results = {"calls": calls, "named": forcing, "schema": schemas, "behind": shown}
    advice = recommend([Row(code, code, result) for code, result in results.items()])
    assert advice.force == force
    assert advice.dialect == dialect

"""Lesson 01 keeps the kit's rules: the gate, the two ways out, and mistakes that the model reads.

Its loop plays the kit's own table of the gate and random scripts; the kit's loop is the oracle.
Lesson 01b is played through each provider's own SDK.
"""

import importlib
import json
import shutil
import subprocess
import sys
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.policies.test_gate import TABLE, reply_with
from tests.servers import Reply, serve
from tests.servers.anthropic import AnthropicProtocol
from tests.servers.gemini import KEY, GeminiProtocol
from tests.servers.ollama import OllamaServer
from tests.servers.openai_chat import Chat
from tests.servers.openai_responses import Responses
from tests.support.agents import NOTHING
from tests.support.commands import environment, run, run_here
from tests.support.sizes import ROOT
from think_agent import Agent, Assistant, Force, ScriptedModel, ToolCall, ToolResult, tool
from think_agent.testing import call, think

FILE = ROOT / "demos/01_from_scratch.py"
FOUR = "demos.01b_four_providers"
lesson: Any = importlib.import_module("demos.01_from_scratch")
QUESTION = "I want a refund on ORD-001."
REFUND = call("refund", order_id="ORD-001")
LOOK = call("look_up", order_id="ORD-001")
DONE = think("Nothing is left to do.", should_continue=False)


class WireScript(lesson.ChatCompletions):
    """Lesson 01's model, whose server answers with these messages. It keeps what was asked."""

    def __init__(self, *replies: Assistant) -> None:
        super().__init__("", "script")
        self.replies = list(replies)
        self.choices: list[Any] = []
        self.results: list[Any] = []

    def post(self, body):
        self.choices.append(body["tool_choice"])
        reply = self.replies.pop(0) if self.replies else Assistant("The end.")
        items = []
        for number, each in enumerate(reply.tool_calls):
            written = each.arguments
            if not isinstance(written, str):
                written = json.dumps(written)
            function = {"name": each.name, "arguments": written}
            items.append({"id": f"call_{number}", "type": "function", "function": function})
        message = {"role": "assistant", "content": reply.text or None, "tool_calls": items}
        reason = "length" if reply.stop_reason == "max_tokens" else "stop"
        return {"choices": [{"message": message, "finish_reason": reason}]}

    def add_results(self, results):
        super().add_results(results)
        self.results += results

    @property
    def ran(self) -> list[tuple[str, Any]]:
        """The calls of tools that ran, without think."""
        done = [result.call for result in self.results if result.has_run]
        return [(each.name, each.arguments) for each in done if each.name != "think"]


def play(*replies: Assistant, limit: int = 20) -> tuple[WireScript, str, str]:
    model = WireScript(*replies)
    way_out, answer = lesson.run(model, QUESTION, limit=limit, show=lambda line: None)
    return model, way_out, answer


def make_reply(*calls: ToolCall, text: str = "", stop_reason: Any = "tool_use") -> Assistant:
    return Assistant(text, tool_calls=calls, stop_reason=stop_reason)


# The kit's table of the gate.


def translate(words: str) -> Assistant:
    """A reply of the table with the lesson's tools. Chat Completions has no malformed replies, but
    calls with arguments that can't be read.
    """
    reply = reply_with(words)
    calls = []
    for each in reply.tool_calls:
        if reply.stop_reason == "malformed":
            calls.append(ToolCall("", each.name, '{"thought": "the'))
        elif each.name == "think":
            calls.append(each)
        else:
            calls.append(REFUND if each.name == "pay" else LOOK)
    return make_reply(*calls, stop_reason=reply.stop_reason)


CARRIED = ("pay!", "pay_")  # thoughts in the arguments of a call: the lesson has none
WITHOUT_CARRIED = {
    name: row for name, row in TABLE.items() if not any(c in " ".join(row[0]) for c in CARRIED)
}


@pytest.mark.parametrize(("replies", "right"), WITHOUT_CARRIED.values(), ids=WITHOUT_CARRIED)
def test_the_gate_is_the_kits_gate(replies, right):
    model, _, _ = play(*map(translate, replies))
    names = {"refund": "pay", "look_up": "look"}
    assert " ".join(names[name] for name, _ in model.ran) == right


# The kit's loop as the oracle.


@tool(think_first=True, repeats=True)
def refund(order_id: str) -> str:
    """Refund it."""
    return "refunded"


@tool(repeats=True)
def look_up(order_id: str) -> str:
    """Look it up."""
    return "a laptop stand"


def play_in_the_kit(replies, limit: int):
    """The agent has no limit that the lesson does not have, and believes silence."""
    left = list(replies)

    def reply(request):
        return left.pop(0) if left else Assistant("The end.")

    agent = Agent(
        ScriptedModel(reply),
        [refund, look_up],
        silence="accept",
        max_model_calls=limit + 1,  # one of them is the closing reply
        patience=1000,
        max_repeats=1000,
        max_thoughts_in_a_row=1000,
    )
    return agent.run(QUESTION)


calls = st.sampled_from(
    [
        REFUND,
        REFUND,
        LOOK,
        think("13 days."),
        think("13 days."),
        DONE,
        think(" \n"),
        call("think"),
        call("think", should_continue="false"),
        call("think", thought="Hm.", should_continue=False),
        call("think", thought="Hm.", should_continue="perhaps"),
        ToolCall("", "think", '{"thought": "cut'),
        ToolCall("", "think", "[1]"),
        call("refund", order_id=1),
        call("refund"),
        ToolCall("", "refund", "null"),
        call("look_up", order_id=["ORD-001"]),
        call("look_up", order_id="false"),
        call("look_up", order_id="ORD-001", should_continue="false"),
        call("fly", should_continue="false"),
    ]
)
stop_reasons = st.sampled_from(["tool_use"] * 12 + ["max_tokens"])
replies = st.builds(
    lambda made, stop: make_reply(*made, text="Some words.", stop_reason=stop),
    st.lists(calls, min_size=1, max_size=4),
    stop_reasons,
)
scripts = st.lists(replies, max_size=9)
limits = st.integers(min_value=1, max_value=9)


@settings(max_examples=300, deadline=None)
@given(scripts, limits)
def test_a_script_runs_the_same_calls_and_ends_as_in_the_kit(script, limit):
    model, way_out, answer = play(*script, limit=limit)
    outcome = play_in_the_kit(script, limit)
    assert model.ran == [(each.call.name, each.call.arguments) for each in outcome.actions]
    assert way_out == outcome.exit
    assert answer == outcome.answer


# What the model gets wrong.


@dataclass
class Case:
    made: ToolCall
    reads: str


MISTAKES = {
    "no thought": Case(call("think"), 'error: the thought is missing. Write it into "thought".'),
    "a blank thought": Case(think("  "), "error: the thought is missing."),
    "a thought under another name": Case(call("think", note="x"), "error: the thought is missing."),
    "a thought that is no text": Case(call("think", thought=[1]), "error: the thought is missing."),
    "an unreadable thought": Case(ToolCall("", "think", '{"tho'), "error: the thought is missing."),
    "unreadable": Case(ToolCall("", "look_up", '{"ord'), "error: not run. The arguments must be a"),
    "a list": Case(ToolCall("", "look_up", "[]"), "error: not run. The arguments must be a JSON"),
    "null": Case(ToolCall("", "look_up", "null"), "error: not run. The arguments must be a JSON"),
    "a text": Case(ToolCall("", "look_up", '"x"'), "error: not run. The arguments must be a JSON"),
    "a list in it": Case(call("look_up", order_id=["ORD-001"]), "error: not run. The argument"),
    "an object in it": Case(call("look_up", order_id={}), "error: not run. The argument order_id"),
    "null in it": Case(call("look_up", order_id=None), "error: not run. The argument order_id"),
    "no argument": Case(call("look_up"), "error: not run. The argument order_id must be a text."),
    "one too many": Case(call("look_up", order_id="x", n="1"), "error: not run. There is no arg"),
    "no such tool": Case(call("fly"), "error: not run. There is no tool fly."),
    "no such order": Case(call("look_up", order_id="x"), "error: there is no order x"),
}


@pytest.mark.parametrize("case", MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_the_result_of_its_call(case):
    model, _, _ = play(make_reply(case.made))
    assert model.results[0].text.startswith(case.reads)


@pytest.mark.parametrize("case", MISTAKES.values(), ids=MISTAKES)
def test_after_a_mistake_nothing_guarded_runs_without_a_thought(case):
    model, _, _ = play(make_reply(case.made), make_reply(REFUND))
    assert ("refund", REFUND.arguments) not in model.ran


@pytest.mark.parametrize("blank", NOTHING, ids=ascii)
def test_a_blank_thought_is_no_thought(blank):
    model, _, _ = play(make_reply(think(blank)), make_reply(REFUND))
    assert model.ran == []


@pytest.mark.parametrize(
    "made",
    [
        call("look_up", order_id="false"),
        call("look_up", order_id="ORD-001", should_continue="false"),
        call("fly", should_continue="false"),
    ],
    ids=["its argument", "an argument of its own", "an unknown tool"],
)
def test_only_think_gives_the_exit_signal(made):
    model, way_out, _ = play(make_reply(made))
    assert way_out == "silence"
    assert model.choices[-1] == "auto"


def test_an_exception_of_a_tool_is_the_result_of_its_call(monkeypatch):
    def fail(order_id: str) -> str:
        raise ConnectionError("the shop does not answer")

    failing = lesson.Tool(fail, "Look up an order.", {"order_id": lesson.TEXT})
    monkeypatch.setitem(lesson.TOOLS, "look_up", failing)
    model, _, _ = play(make_reply(LOOK))
    assert model.results[0].text == "error: the shop does not answer"


def test_arguments_in_no_text_are_unreadable():
    """Some servers send null, or an object."""
    assert not lesson.read_call("call_1", "look_up", None).is_readable
    assert not lesson.read_call("call_1", "look_up", {"order_id": "ORD-001"}).is_readable


def test_arguments_that_are_nested_too_deep_are_unreadable():
    assert not lesson.read_call("call_1", "look_up", "[" * 100_000).is_readable


def test_no_call_of_a_reply_that_was_cut_runs():
    model, way_out, _ = play(make_reply(think("Look."), LOOK, stop_reason="max_tokens"))
    assert way_out == "truncated"
    assert model.ran == []


def test_arguments_that_were_not_json_go_back_as_json():
    """Some servers refuse a conversation in which they can't read the arguments."""
    model, _, _ = play(make_reply(ToolCall("", "look_up", '{"ord')))
    [item] = model.messages[2]["tool_calls"]
    assert item["function"]["arguments"] == "{}"


def test_a_thought_is_forced_at_first_and_after_a_refusal():
    model, _, _ = play(make_reply(REFUND), make_reply(think("Why?")), make_reply(REFUND, DONE))
    force_think = {"type": "function", "function": {"name": "think"}}
    assert model.choices == [force_think, force_think, "auto", "none"]


# The commands.


def run_alone(folder, *words: str, **env: str):
    """Lesson 01 by itself, copied into an empty folder."""
    shutil.copy(FILE, folder)
    command = [sys.executable, "-I", FILE.name, *words]
    return subprocess.run(
        command, cwd=folder, env=environment(**env), capture_output=True, text=True, check=False
    )


def test_without_arguments_a_script_plays_and_says_so(tmp_path):
    done = run_alone(tmp_path)
    first, *_, last = done.stdout.splitlines()
    assert first == "[a script, no language model]"
    assert last == "signal: I refunded ORD-001, your laptop stand."
    assert done.stderr == ""


def test_the_script_shows_a_refusal_and_what_it_thinks_is_true(tmp_path):
    shown = run_alone(tmp_path).stdout
    looked, refused, reason, refunded = shown.splitlines()[2:6]
    assert looked.endswith("'a laptop stand, 13 days old'")
    assert "error: not run. Think first" in refused
    assert "13 days is at most 30" in reason
    assert refunded.endswith("'ORD-001 is refunded.'")


RUN = [
    think("Look first."),
    (LOOK, REFUND),
    think("13 days is at most 30."),
    REFUND,
    DONE,
    "It is refunded.",
]
READ = [
    "Thought recorded.",
    "a laptop stand, 13 days old",
    "error: not run. Think first, then call it again.",
    "Thought recorded.",
    "ORD-001 is refunded.",
    "Thought recorded.",
]
CHOICES = [Force("think"), "auto", Force("think"), "auto", "auto", "none"]


def record(asked, script):
    """A script as a server's brain, which keeps each request."""
    model = ScriptedModel(script)

    def reply(request):
        asked.append(request)
        return model.complete(request)

    return reply


def read_results(request) -> list[str]:
    return [m.content for m in request.messages if isinstance(m, ToolResult)]


def test_it_runs_on_a_server_for_chat_completions(tmp_path):
    asked = []
    with serve(Chat(), record(asked, RUN)) as server:
        done = run_alone(tmp_path, server.url + "/v1", "a-model", QUESTION, OPENAI_API_KEY="a-key")
    assert done.stdout.splitlines()[-1:] == ["signal: It is refunded."], done.stderr
    assert read_results(asked[-1]) == READ
    assert [request.tool_choice for request in asked] == CHOICES


def test_half_a_character_in_an_argument_is_sent_back(tmp_path):
    asked = []
    script = [call("look_up", order_id="\ud800"), "There is no such order."]
    with serve(Chat(), record(asked, script)) as server:
        done = run_alone(tmp_path, server.url + "/v1", "a-model", QUESTION)
    assert done.stderr == ""
    assert read_results(asked[-1]) == ["error: there is no order \ud800"]


SERVERS = {  # the server, and the variables that lead the SDK there
    "ollama": (OllamaServer, "OLLAMA_HOST", "OLLAMA_API_KEY"),
    "anthropic": (AnthropicProtocol, "ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY"),
    "openai": (Responses, "OPENAI_BASE_URL", "OPENAI_API_KEY"),
    "gemini": (GeminiProtocol, "GOOGLE_GEMINI_BASE_URL", "GEMINI_API_KEY"),
}


def run_on(provider: str, script) -> tuple[Any, list[Any]]:
    """Lesson 01b on a local server. Returns the command and what it asked."""
    protocol, address, key = SERVERS[provider]
    asked: list[Any] = []
    spoken = protocol()
    spoken.wants_no_shift = False
    with serve(spoken, record(asked, script)) as server:
        url = server.url + "/v1" * (provider == "openai")
        return run_here(FOUR, provider, QUESTION, **{address: url, key: KEY}), asked


@pytest.mark.parametrize("provider", SERVERS)
def test_the_loop_runs_on_each_providers_own_sdk(provider):
    done, asked = run_on(provider, RUN)
    assert done.stdout.splitlines()[-1:] == ["signal: It is refunded."], done.stderr
    assert read_results(asked[-1]) == READ
    assert [request.tool_choice for request in asked] == CHOICES


@pytest.mark.parametrize("provider", SERVERS)
def test_each_provider_says_if_a_reply_was_cut(provider):
    done, _ = run_on(provider, [think("Look."), make_reply(LOOK, stop_reason="max_tokens")])
    assert done.stdout.splitlines()[-1].startswith("truncated: "), done.stderr


def test_a_refused_request_is_one_line_with_the_servers_reason(tmp_path):
    with serve(Chat(models=["m"]), lambda request: Assistant("Hi.")) as server:
        done = run_alone(tmp_path, server.url + "/v1", "another", QUESTION)
    assert done.returncode == 1
    [line] = done.stderr.splitlines()
    assert "(404)" in line
    assert "The model `another` does not exist." in line


@pytest.mark.parametrize("body", ["<html>", {"choices": []}, {"choices": [1]}, [], "null"])
def test_a_server_that_speaks_something_else_is_one_line(body, tmp_path):
    with serve(Chat(), lambda request: Assistant("Hi.")) as server:
        server.canned.append(Reply(body=body))
        done = run_alone(tmp_path, server.url + "/v1", "m", QUESTION)
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1, done.stderr


WRONG = {  # the arguments: the exit code, and a part of the line
    "no server": (["http://127.0.0.1:9/v1", "m", "Hi"], 1, "can't be reached: [Errno"),
    "no URL": (["nope", "m", "Hi"], 1, "can't be reached: Request URL is missing"),
    "a URL that is none": (["http://[", "m", "Hi"], 1, "can't be reached: "),
    "one argument": (["http://127.0.0.1:9/v1"], 2, "usage: "),
    "two arguments": (["http://127.0.0.1:9/v1", "m"], 2, "usage: "),
}


@pytest.mark.parametrize(("words", "code", "shown"), WRONG.values(), ids=WRONG)
def test_an_error_is_one_line(words, code, shown, tmp_path):
    done = run_alone(tmp_path, *words)
    assert done.returncode == code
    [line] = done.stderr.splitlines()
    assert shown in line


WRONG_FOR_FOUR = {
    "no provider": ([], 2, "usage: "),
    "no question": (["ollama"], 2, "usage: "),
    "an unknown provider": (["nope", "Hi"], 2, "ollama|anthropic|openai|gemini"),
    "no Ollama": (["ollama", "Hi"], 1, "Failed to connect to Ollama"),
    "no key of Anthropic": (["anthropic", "Hi"], 1, "authentication"),
    "no key of OpenAI": (["openai", "Hi"], 1, "OPENAI_API_KEY"),
    "no key of Gemini": (["gemini", "Hi"], 1, "API key"),
}
KEYS = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "OPENAI_API_KEY", "GEMINI_API_KEY")


@pytest.mark.parametrize(("words", "code", "shown"), WRONG_FOR_FOUR.values(), ids=WRONG_FOR_FOUR)
def test_an_error_of_a_provider_is_one_line(words, code, shown, monkeypatch):
    for name in (*KEYS, "GOOGLE_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    done = run_here(FOUR, *words)
    assert done.returncode == code
    [line] = done.stderr.splitlines()
    assert shown in line


def test_the_four_run_as_a_script():
    done = run("demos/01b_four_providers.py", "nope", "Hi")
    assert done.returncode == 2
    assert done.stderr.startswith("usage: python demos/01b_four_providers.py ollama|")


def test_lesson_01_imports_nothing_of_the_kit():
    assert "think_agent" not in FILE.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["demos.01_from_scratch", FOUR])
def test_its_docstring_is_short(name):
    assert len(importlib.import_module(name).__doc__.splitlines()) <= 15

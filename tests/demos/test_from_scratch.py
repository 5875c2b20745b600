"""The one-file edition: copied into an empty folder, it runs on each provider's own SDK."""

import shutil
import subprocess
import sys
from itertools import product

import pytest

from tests.servers import serve
from tests.servers.anthropic import AnthropicProtocol
from tests.servers.gemini import KEY, GeminiProtocol
from tests.servers.ollama import OllamaServer
from tests.servers.openai_responses import Responses
from tests.support.commands import environment
from tests.support.sizes import ROOT
from think_agent import Force, Request, ScriptedModel, ToolResult
from think_agent.testing import call, think

FILE = ROOT / "demos/01_from_scratch.py"
SERVERS = {  # the server, and the variables that lead the SDK there
    "ollama": (OllamaServer, "OLLAMA_HOST", ""),
    "anthropic": (AnthropicProtocol, "ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY"),
    "openai": (Responses, "OPENAI_BASE_URL", "OPENAI_API_KEY"),
    "gemini": (GeminiProtocol, "GOOGLE_GEMINI_BASE_URL", "GEMINI_API_KEY"),
}
REFUND = call("refund", order_id="ORD-001")
DONE = think("Nothing is left to do.", should_continue=False)
RUNS = {  # what the model replies; how it ends, and what the tools answered
    "signal": (
        [think("Look first."), (call("look_up", order_id="ORD-001"), REFUND), think("13 days."),
         REFUND, DONE, "It is refunded."],
        "signal: It is refunded.",
        ["Thought", "a laptop", "error: not run", "Thought", "ORD-001 is refunded", "Thought"],
    ),
    "silence": ([think("Small talk."), "You are welcome."], "silence: You are", ["Thought"]),
    "a thought covers one call, and no result that it has not read": (
        [think("Pay."), (REFUND, REFUND), think("Again?"),
         (call("look_up", order_id="?"), think("Now."), REFUND), think("No."), DONE, "Once."],
        "signal: Once.",
        ["Thought", "ORD-001 is", "error: not", "Thought", "error: there", "Thought", "error: not",
         "Thought", "Thought"],
    ),
    "mistakes": (
        [think("Try."), (call("fly"), call("look_up", number=1)), "I cannot."],
        "silence: I cannot.",
        ["Thought", "error: KeyError('fly')", "error: TypeError"],
    ),
    "a signal beside a refused call does not count": (
        [think("Pay."), call("look_up", order_id="ORD-001"), (REFUND, DONE), think("Refused."),
         DONE, "Done."],
        "signal: Done.",
        ["Thought", "a laptop", "error: not run", "Thought", "Thought", "Thought"],
    ),
    "limit": ([think("Hm.")] * 20 + ["No."], "limit: No.", ["Thought"] * 20),
}  # fmt: skip


CASES = [
    *product(SERVERS, ["signal"]),
    *product(["ollama"], list(RUNS)[1:]),  # what is the same on every provider
]


@pytest.mark.parametrize(("provider", "name"), CASES)
def test_it_runs_alone_on_every_provider(provider, name, tmp_path):
    replies, end, answered = RUNS[name]
    protocol, address, key = SERVERS[provider]
    asked: list[Request] = []
    script = ScriptedModel(replies)

    def brain(request):
        asked.append(request)
        return script.complete(request)

    shutil.copy(FILE, tmp_path)
    spoken = protocol()
    spoken.wants_no_shift = False
    with serve(spoken, brain) as server:
        url = server.url + "/v1" * (provider == "openai")
        done = subprocess.run(
            [sys.executable, "-I", FILE.name, provider, "I want a refund on ORD-001."],
            cwd=tmp_path, env=environment(**{address: url, key: KEY}), capture_output=True,
            text=True, check=False,
        )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[-1].startswith(end)
    results = [m.content for m in asked[-1].messages if isinstance(m, ToolResult)]
    assert [
        content[: len(start)] for content, start in zip(results, answered, strict=True)
    ] == answered
    choices = [request.tool_choice for request in asked]
    assert choices[0] == Force("think")
    for number, request in enumerate(asked[1:], 1):
        is_refused = "not run" in "".join(_last_results(request))
        is_closing = number == len(replies) - 1 and not end.startswith("silence")
        assert choices[number] == (
            "none" if is_closing else Force("think") if is_refused else "auto"
        )


def _last_results(request):
    contents = []
    for message in reversed(request.messages):
        if not isinstance(message, ToolResult):
            break
        contents.append(message.content)
    return contents


def test_it_stands_alone_and_begins_with_five_rules():
    source = FILE.read_text(encoding="utf-8")
    assert "think_agent" not in source
    assert [f"\nRule {number}: " in source for number in range(1, 7)] == [True] * 5 + [False]

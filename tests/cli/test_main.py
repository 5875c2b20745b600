"""The command `think-agent`: its help, and its messages for what is missing or misspelled."""

import inspect
import re
import signal
import subprocess
import sys
from itertools import product

import click
import pytest

from demos.refund.__main__ import refund
from tests.servers import serve
from tests.servers.ollama import OllamaServer as Ollama
from tests.support.commands import ROOT, run_here
from think_agent import Agent, Assistant, cli, connect
from think_agent.cli.choosing import limit_option, model_option
from think_agent.cli.eval import command as evaluate
from think_agent.cli.eval import run_option
from think_agent.cli.main import COMMANDS, think_agent
from think_agent.cli.options import Group, flags
from think_agent.evaluation.command import Evaluation

EVAL = f"think_agent eval {ROOT}/demos/refund/cases.jsonl"
PLACES = ("flag", "variable", "file", "nowhere")  # where a setting may be; the strongest first


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ("think_agent", 2, "Commands:\n  audit "),
        ("think_agent eval", 2, "Missing argument 'CASES'"),
        ("think_agent audit", 2, "Missing argument 'RUN.jsonl'"),
        ("think_agent --version", 0, "0."),
        ("demos.fleet", 2, "Commands:\n  enqueue "),
    ],
)
def test_a_command_without_its_argument_explains_itself(words, code, said):
    done = run_here(*words.split())
    assert done.returncode == code
    assert said in done.stdout + done.stderr


def test_the_help_of_a_group_cuts_no_line():
    said = run_here("think_agent", "--help", COLUMNS="60").stdout.partition("Commands:")[2]
    assert "..." not in said
    assert max(map(len, said.splitlines())) <= 60


def test_the_help_of_the_command_loads_no_audit_and_no_dialect():
    code = (
        "import sys\nfrom think_agent.cli.main import main\nsys.argv = ['think-agent', '--help']\n"
        "main()\nprint(*sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    loaded = done.stdout.splitlines()[-1].split()
    heavy = ("audit", "dialects", "evaluation", "probe")
    assert [
        name for name in loaded if name.startswith(tuple(f"think_agent.{h}" for h in heavy))
    ] == []
    assert "think_agent.cli.main" in loaded


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_the_command_says_what_the_help_of_each_command_says(name):
    command = think_agent.get_command(click.Context(think_agent), name)
    _, text = COMMANDS[name]
    assert command.help.replace("\n", " ").startswith(text.removesuffix("."))


def test_the_package_of_the_commands_gives_its_names():
    assert [getattr(cli, name).__name__ for name in cli.__all__] == cli.__all__
    with pytest.raises(ImportError, match="cannot import name 'wathc'"):
        from think_agent.cli import wathc  # noqa: F401


def test_the_help_of_probe_offers_only_what_probe_takes():
    """It has no run: no limits, no approval, no forcing, no transcript."""
    said = run_here("think_agent", "probe", "--help").stdout
    flags = set(re.findall(r"^  (--[a-z-]+)", said, re.MULTILINE))
    model = "provider model base-url timeout num-ctx reasoning max-output-tokens temperature seed"
    others = "per-minute json config show-config help"
    assert flags == {f"--{name}" for name in f"{model} {others}".split()}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("evla", "No such command 'evla'. Did you mean 'eval'?"),
        ("probe --provder ollama", "--provider"),
        ("probe --provider gemni", "unknown provider 'gemni'"),
        ("probe --provider auto", "--provider: name a real one"),
    ],
)
def test_a_misspelling_is_answered_in_one_line_with_a_suggestion(words, said):
    done = run_here("think_agent", *words.split())
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert said in done.stderr


@pytest.mark.parametrize("command", ["think_agent probe", EVAL, "demos.refund"])
@pytest.mark.parametrize(("provider", "url"), list(product(PLACES, PLACES[:3])))
def test_a_base_url_from_a_weaker_place_than_the_provider_is_left_out(
    tmp_path, command, provider, url
):
    """It was meant for another provider. Its server must not get the key of this one."""
    said = [("provider", "openai:m", provider), ("base_url", "http://h", url)]
    flags = [f"--{name.replace('_', '-')}={value}" for name, value, at in said if at == "flag"]
    env = {f"THINK_AGENT_{name.upper()}": value for name, value, at in said if at == "variable"}
    lines = [f"{name} = '{value}'" for name, value, at in said if at == "file"]
    config = tmp_path / "agent.toml"
    config.write_text("\n".join(["[think_agent]", *lines]))
    words = [*command.split(), *flags, "--config", str(config), "--show-config"]
    done = run_here(*words, **env)
    is_kept = PLACES.index(url) <= PLACES.index(provider)
    assert done.returncode == 0, done
    assert ("http://h" in done.stdout) == is_kept, done
    assert done.stderr.count("\n") == done.stderr.count(": left out, it was meant") == (not is_kept)


@pytest.mark.parametrize(
    ("provider", "module", "package"),
    [
        ("anthropic", "anthropic", "think-agent[anthropic]"),
        ("openai", "openai", "think-agent[openai]"),
        ("gemini", "google.genai", "think-agent[gemini]"),
        ("ollama", "ollama", "think-agent"),
        ("auto", "ollama", "think-agent"),
    ],
)
def test_a_missing_sdk_is_named_with_the_command_that_installs_it(
    monkeypatch, provider, module, package
):
    """The command works in the clone and outside. With `auto` the scripted model takes over, if
    there is a server: without one, the SDK is not loaded.
    """
    monkeypatch.setitem(sys.modules, module, None)
    adapter = f"think_agent.providers.{provider.replace('auto', 'ollama')}"
    monkeypatch.delitem(sys.modules, adapter, raising=False)
    with serve(Ollama(), lambda request: Assistant("")) as server:
        done = run_here("demos.refund", "x", "--provider", provider, OLLAMA_HOST=server.url)
    assert "its SDK is not installed" in done.stderr
    assert done.stderr.splitlines()[0].endswith(f'pip install "{package}"')
    if provider == "auto":
        assert done.returncode == 0
        assert "refund desk · offline:stand-in" in done.stdout
    else:
        assert done.returncode == 1
        assert done.stdout == ""
        assert done.stderr.count("\n") == 1


def test_where_ollama_has_only_models_without_tools_their_flag_is_offered():
    protocol = Ollama(models=["gemma3:4b"], capabilities={"gemma3:4b": ("completion",)})
    with serve(protocol, lambda request: Assistant("")) as server:
        done = run_here("demos.refund", "x", OLLAMA_HOST=server.url)
    assert "to use what is installed: --provider ollama:gemma3:4b" in done.stderr
    assert "refund desk · offline:stand-in" in done.stdout


@pytest.mark.parametrize(
    ("provider", "shown"),
    [
        ("auto", "32,768 tokens, by the Modelfile"),
        ("ollama:qwen3.5:4b", "32,768 tokens, by the Modelfile"),
        ("ollama:none", "not known (ollama: "),
        ("offline", ""),
    ],
)
@pytest.mark.parametrize("command", ["think_agent probe", "demos.refund"])
def test_show_config_prints_the_context_window_of_ollama(command, provider, shown):
    with serve(Ollama(models=["qwen3.5:4b"], made=32768), lambda request: Assistant("")) as server:
        words = ["--provider", provider, "--show-config"]
        done = run_here(*command.split(), *words, OLLAMA_HOST=server.url)
    rows = [line for line in done.stdout.splitlines() if line.startswith("context window")]
    assert [row.startswith(f"context window     {shown}") for row in rows] == [True] * bool(shown)
    assert done.returncode == 0


@pytest.mark.skipif(sys.platform != "linux", reason="/dev/full is Linux's")
@pytest.mark.parametrize("form", ["--json", "--quiet"])
def test_a_full_disk_is_reported_in_one_line(form):
    command = f"demos.refund --provider offline {form} ORD-001"
    words = ["sh", "-c", f"exec {sys.executable} -m {command} >/dev/full"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("error: [Errno 28] No space left on device")


WAITS = """
import asyncio, sys, time
import click
from think_agent.cli.main import run

async def later():
    print("ready", flush=True)
    await asyncio.sleep(60)

@click.command()
@click.option("--aside", is_flag=True)
def wait(aside):
    if aside:
        asyncio.run(later())
    print("ready", flush=True)
    time.sleep(60)

sys.exit(run(wait, "wait"))
"""


@pytest.mark.parametrize("words", [[], ["--aside"]])
@pytest.mark.parametrize("interrupt", [signal.SIG_DFL, signal.SIG_IGN])
def test_sigterm_stops_a_command_also_one_that_a_script_started_in_the_background(words, interrupt):
    """A shell lets what it starts with `&` ignore SIGINT."""
    with subprocess.Popen(
        [sys.executable, "-c", WAITS, *words],
        cwd=ROOT,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGINT, interrupt),
    ) as process:
        assert process.stdout.readline() == "ready\n"
        process.terminate()
        try:
            _, shown = process.communicate(timeout=30)
        finally:
            process.kill()
    assert process.returncode == 130
    assert shown.strip() == "stopped"


def test_each_flag_of_the_model_and_each_limit_reaches_what_it_is_for():
    connects = inspect.signature(connect).parameters.keys()
    limits = names_in(limit_option, refund)
    runs = names_in(run_option, evaluate)
    assert names_in(model_option, refund) - connects == {"provider", "model", "num_ctx"}
    assert {"max_cost", "patience"} < limits <= inspect.signature(Agent).parameters.keys()
    assert {"trials", "base_url"} < runs
    assert runs <= inspect.signature(Evaluation).parameters.keys() | connects


def names_in(group: Group, command: click.Command) -> set[str]:
    """The names of the flags of a command that are in a group of its help."""
    return {name for name, flag in flags(command).items() if flag.group is group}

"""The names of settings: what belongs to no command is an error, and an alias has an effect."""

import json
from typing import NamedTuple

import click
import pytest

from demos.fleet.__main__ import main as fleet
from demos.refund.__main__ import refund
from tests.support.commands import ROOT, in_a_terminal, run_here, text_of
from think_agent.cli.main import COMMANDS, think_agent
from think_agent.cli.names import ALIASES, INSTEAD, SETTINGS
from think_agent.cli.options import flags

DESK = ("demos.refund", "ORD-001", "--provider", "offline")
WORDS = {  # of some commands, each with the words that it needs
    "refund": DESK,
    "probe": ("think_agent", "probe", "--provider", "openai:m"),
    "eval": ("think_agent", "eval", f"{ROOT}/demos/refund/cases.jsonl"),
    "lesson": ("demos.03_both_exits",),
}


class Unknown(NamedTuple):
    """A name that no command knows, and what its error says to do."""

    name: str
    advice: str


UNKNOWN = [
    Unknown("max_turns", "a turn is a whole request here; use max_model_calls or max_actions"),
    Unknown("max_steps", "use max_model_calls, or max_actions"),
    Unknown("budget", "use max_cost, max_tokens or max_seconds"),
    Unknown("max_calls", "the nearest names are max_model_calls, "),
    Unknown("max_tokens_total", "the nearest names are max_tokens, "),
    Unknown("timeout_seconds", "the nearest names are max_seconds, timeout and "),
    Unknown("on_error", "the nearest names are on_tool_error, "),
    Unknown("max_cots", "did you mean max_cost?"),
    Unknown("temprature", "did you mean temperature?"),
    Unknown("enabled", "the nearest names are "),
    Unknown("max_context_entries", "an entry isn't a turn; keep_turns says"),
    Unknown("context_strategy", "nothing is summarized; keep_turns"),
    Unknown("send_intermediate_responses", "text next to an action is always shown"),
    Unknown("help", "the nearest names are "),
    Unknown("version", "the nearest names are "),
]


@pytest.mark.parametrize("command", [name for name in WORDS if name != "lesson"])
@pytest.mark.parametrize("unknown", UNKNOWN, ids=lambda unknown: unknown.name)
def test_a_name_in_the_file_that_no_command_knows_is_an_error(tmp_path, command, unknown):
    config = tmp_path / "agent.toml"
    config.write_text(f"[think_agent]\n{unknown.name} = 1\n")
    done = run_here(*WORDS[command], "--config", str(config))
    assert done.returncode == 2, done.stderr
    assert done.stdout == "", done.stderr
    assert done.stderr.count("\n") == 1, done.stderr
    assert f"{unknown.name}: there is no such setting; {unknown.advice}" in done.stderr
    assert str(config) in done.stderr


@pytest.mark.parametrize("command", WORDS)
@pytest.mark.parametrize("unknown", UNKNOWN, ids=lambda unknown: unknown.name)
def test_a_variable_that_no_command_knows_is_an_error(command, unknown):
    variable = f"THINK_AGENT_{unknown.name.upper()}"
    done = run_here(*WORDS[command], **{variable: "1"})
    assert done.returncode == 2, done.stderr
    assert done.stdout == "", done.stderr
    assert done.stderr.count("\n") == 1, done.stderr
    assert f"{unknown.name}: there is no such setting; {unknown.advice}" in done.stderr
    assert f"({variable})" in done.stderr


@pytest.mark.parametrize("unknown", UNKNOWN, ids=lambda unknown: unknown.name)
def test_a_flag_that_there_is_not_is_an_error_with_the_nearest(unknown):
    if unknown.name in ("help", "version"):
        return
    done = run_here(*DESK, f"--{unknown.name.replace('_', '-')}=1")
    assert done.returncode == 2, done.stderr
    assert done.stdout == "", done.stderr
    assert done.stderr.count("\n") == 1, done.stderr
    advice = ("Did you mean", "did you mean", "use ", "nearest", "keep_turns", "is always shown")
    assert any(text in done.stderr for text in advice)


class Wrong(NamedTuple):
    """A file of settings that is refused, and why."""

    file: str
    because: str


WRONG = [
    Wrong("max_actions = 1\n[think_agent]", "max_actions belongs below [think_agent]"),
    Wrong("[think_agent]\nconfig = 'b.toml'", "config: a file of settings cannot name another"),
    Wrong("[think_agent.limits]\nmax_actions = 1", "limits: there is no such setting"),
    Wrong("[think_agent]\nmax-actions = 1", "max-actions: there is no such setting; did you mean"),
    Wrong("[think_agent]\nMAX_ACTIONS = 1", "MAX_ACTIONS: there is no such setting"),
    Wrong("[think_agent]\n'' = 1", ": there is no such setting"),
    Wrong("[think_agent.prices.m]\ninput = 1\noutput = 1\ncahced = 1", "m.cahced"),
    Wrong("[think_agent]\nmax_iterations = 'x'", "--max-model-calls "),
    Wrong(
        "[think_agent]\nmax_iterations = 3\nmax_model_calls = 3",
        "max_iterations and max_model_calls are the same setting",
    ),
    Wrong(
        "[think_agent]\nfailure_handling = 'retry'",
        "failure_handling: 'retry' isn't a choice; use ask_user or abort",
    ),
    Wrong("[autonomous_agent]\nenabled = true", "a section [think_agent]"),
]


@pytest.mark.parametrize("wrong", WRONG, ids=lambda wrong: wrong.file)
def test_nothing_in_the_file_is_passed_over_in_silence(tmp_path, wrong):
    config = tmp_path / "agent.toml"
    config.write_text(wrong.file)
    done = run_here(*DESK, "--config", str(config))
    assert done.returncode == 2, done.stderr
    assert done.stdout == "", done.stderr
    assert done.stderr.count("\n") == 1, done.stderr
    assert wrong.because in done.stderr


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("THINK_AGENT_TEST_POSTGRES", "postgresql://h"),  # of the tests
        ("MY_THINK_AGENT_MAX_COTS", "1"),  # of another program
        ("THINK_AGENT_SHARD", "1/2"),  # of another command
        ("THINK_AGENT_FLEET", "sqlite:///x.db"),
        ("THINK_AGENT_MAX_ACTIONS", ""),  # not set
    ],
)
def test_these_variables_mean_nothing_to_the_desk(variable, value):
    done = run_here(*DESK, **{variable: value})
    assert done.returncode == 0
    assert done.stderr == ""


def test_a_setting_of_another_command_is_not_the_request(tmp_path):
    """`text` is a flag of `audit`, and the request of the desk."""
    config = tmp_path / "agent.toml"
    config.write_text("[think_agent]\ntext = true\n")
    done = run_here("demos.refund", "--provider", "offline", "--config", str(config))
    assert done.returncode == 2
    assert done.stdout == ""
    assert "the request is empty" in done.stderr


def test_settings_are_the_flags_of_all_commands():
    """A new flag belongs into `think_agent/cli/names.py`."""
    context = click.Context(think_agent)
    commands: list[click.Command] = [refund, *fleet.commands.values()]
    for name in COMMANDS:
        command = think_agent.get_command(context, name)
        assert command
        commands.append(command)
    found = {name for command in commands for name in flags(command)}
    assert found | {"prices"} == SETTINGS


def test_an_alias_is_the_name_of_nothing_else():
    assert not SETTINGS & (ALIASES.keys() | INSTEAD.keys())
    assert {alias.setting for alias in ALIASES.values()} <= SETTINGS


# What an alias does.


class Effect(NamedTuple):
    """A setting under another design's name; how a run ends, and after how many model calls."""

    name: str
    value: str
    script: str
    exit: str
    calls: int


EFFECTS = [
    Effect("max_iterations", "3", "careful", "limit", 3),
    Effect("max_consecutive_failures", "1", "stubborn", "gave_up", 3),
    Effect("max_consecutive_failures", "2", "stubborn", "gave_up", 5),
    Effect("failure_handling", "abort", "stubborn", "gave_up", 5),  # at the first error
    Effect("failure_handling", "ask_user", "stubborn", "gave_up", 6),  # no person can be asked
]


@pytest.mark.parametrize("place", ["file", "variable"])
@pytest.mark.parametrize("effect", EFFECTS, ids=lambda effect: f"{effect.name}={effect.value}")
def test_an_alias_has_the_effect_of_its_setting(tmp_path, place, effect):
    words = ["demos.refund", "Refund ORD-002", "--provider", f"offline:{effect.script}", "--json"]
    env = {}
    if place == "file":
        config = tmp_path / "agent.toml"
        config.write_text(f"[think_agent]\n{effect.name} = '{effect.value}'\n")
        words += ["--config", str(config)]
    else:
        env[f"THINK_AGENT_{effect.name.upper()}"] = effect.value
    data = json.loads(run_here(*words, **env).stdout)
    assert data["exit"] == effect.exit
    assert data["model_calls"] == effect.calls


def test_where_a_person_can_be_asked_ask_user_asks(tmp_path):
    config = tmp_path / "agent.toml"
    config.write_text("[think_agent]\napprove = 'ask'\nfailure_handling = 'ask_user'\n")
    words = ["-m", "demos.refund", "Refund ORD-002", "--provider", "offline:stubborn"]
    screen, code, _ = in_a_terminal([*words, "--config", str(config)], keys=[("\n> ", "q\r")])
    assert "✗ process_refund" in text_of(screen)  # the person sees what was done
    assert "gave up" not in text_of(screen)
    assert code == 3


def test_a_variable_wins_over_the_file_whatever_their_names(tmp_path):
    config = tmp_path / "agent.toml"
    config.write_text("[think_agent]\nmax_iterations = 9\nfailure_handling = 'abort'\n")
    words = [*DESK, "--config", str(config), "--show-config"]
    done = run_here(*words, THINK_AGENT_MAX_MODEL_CALLS="7")
    rows = {line.split()[0]: line.split()[1:] for line in done.stdout.splitlines()}
    assert rows["max_model_calls"] == ["7", "THINK_AGENT_MAX_MODEL_CALLS"]
    assert rows["on_tool_error"] == ["fail_fast", str(config)]
    done = run_here(*words, THINK_AGENT_MAX_ITERATIONS="8")
    rows = {line.split()[0]: line.split()[1:] for line in done.stdout.splitlines()}
    assert rows["max_model_calls"] == ["8", "THINK_AGENT_MAX_ITERATIONS"]

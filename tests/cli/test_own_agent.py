"""`think-agent chat FILE:AGENT`: a conversation with an agent that somebody wrote in a file."""

from typing import NamedTuple

import pytest

from tests.support.commands import run_here

SILENT = """
class Silent(Exception):
    def __str__(self):
        raise ValueError
raise Silent
"""
AGENTS = """
from dataclasses import dataclass
from shelf import TEA

from think_agent import Agent, Model, ScriptedModel, tool
from think_agent.testing import call

@dataclass
class Stock:
    tea: "int" = TEA

@tool(read_only=True)
def look() -> str:
    "What is in stock."
    return f"{Stock().tea} packets of tea"

agent = Agent(ScriptedModel([call("look"), "Three packets."]), [look], force="never")

def make_agent(model: Model) -> Agent:
    return Agent(model, [look])

def made_here() -> Agent:
    return Agent(ScriptedModel(["I need no model."]), force="never", silence="accept")

def broken(model: Model) -> Agent:
    return Agent(model, [look, look])

number = 3
if __name__ == "__main__":
    raise SystemExit("this is not for chat")
"""


@pytest.fixture
def folder(tmp_path):
    """A file with agents, and a neighbor that it imports."""
    (tmp_path / "shelf.py").write_text("TEA = 3\n")
    return tmp_path


def chat(folder, agent: str, *flags: str, text: str = AGENTS):
    """Talk with an agent of a file: one request. Each test's file has a name of its own."""
    file = folder / f"agents_{folder.name}.py"
    file.write_text(text)
    return run_here("think_agent", "chat", f"{file}:{agent}", *flags, stdin="What is left?\n")


def test_an_agent_of_a_file_answers(folder):
    done = chat(folder, "agent")
    assert done.returncode == 0, done.stderr
    assert "3 packets of tea" in done.stdout
    assert "Three packets." in done.stdout


def test_a_function_gets_the_model_that_the_flags_choose(folder):
    done = chat(folder, "make_agent", "--provider", "offline")
    assert done.returncode == 0, done.stderr
    assert "look()" in done.stdout  # the usual script calls each tool that only reads


def test_a_function_may_choose_the_model_itself(folder):
    assert "I need no model." in chat(folder, "made_here").stdout


class Case(NamedTuple):
    agent: str
    said: str
    flags: tuple[str, ...] = ()
    text: str = AGENTS


@pytest.mark.parametrize(
    "case",
    [
        Case("agnet", "there is no 'agnet' in it; its agents: agent"),
        Case("agent", "there is no 'agent' in it; it has no Agent at the top level", text=""),
        Case("number", ":number is a int; name an Agent"),
        Case("agent", "--provider: ", ("--provider", "offline")),
        Case("made_here", "has its own model; leave it out", ("--seed", "1")),
        Case("broken", "raised ValueError: two tools are named 'look'", ("--provider", "offline")),
        Case("agent", "SyntaxError: invalid syntax", text="\n1 +* 2"),
        Case("agent", "line 2)", text="\n1 +* 2"),
        Case("agent", "raised KeyError: 'nope'", text="\n\n{}['nope']"),
        Case("agent", "raised Silent (", text=SILENT),
        Case("agent", "line 3)", text="\n\n{}['nope']"),
        Case(
            "agent", "raised ModuleNotFoundError: No module named 'nowhere'", text="import nowhere"
        ),
    ],
    ids=lambda case: case.said,
)
def test_a_mistake_is_one_line(folder, case):
    done = chat(folder, case.agent, *case.flags, text=case.text)
    assert done.returncode == 2, done.stderr
    assert done.stdout == "", done.stderr
    assert done.stderr.count("\n") == 1, done.stderr
    assert case.said in done.stderr


@pytest.mark.parametrize("agent", ["agents.py", "agents.py:", ":agent", "no_such_file.py:agent"])
def test_what_names_no_agent_is_one_line(agent):
    done = run_here("think_agent", "chat", agent)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert agent.partition(":")[0] in done.stderr


def test_a_file_named_as_a_module_is_refused(tmp_path):
    """Otherwise the kit would import it in the place of that module."""
    (tmp_path / "click.py").write_text(AGENTS)
    done = run_here("think_agent", "chat", f"{tmp_path}/click.py:agent")
    assert "a module is named 'click' already; rename the file" in done.stderr

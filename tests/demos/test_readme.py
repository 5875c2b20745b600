"""The READMEs are right: their blocks run, their tables are current, their links exist.

A block that is not run here has a comment above it which says why, or where it is run.
"""

import json
import os
import re
import shlex
import subprocess
import sys
from typing import Any

import pytest

from demos.refund.checks import make_checks
from demos.refund.dialects import speak_dialect
from demos.refund.shop import Shop
from demos.refund.stand_ins import STAND_INS
from tests import readme
from tests.readme import ROOT
from tests.support.agents import by_place
from tests.support.commands import environment, run_here
from think_agent import Agent, ScriptedModel, Turn, connect, next_step
from think_agent.dialects import in_dialect
from think_agent.testing import call, think

PAGES = {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in readme.readmes()}
TEXT = PAGES["README.md"]
FENCED = re.compile(r"(?:<!-- ([^\n]*) -->\n)?^```(\w*)\n(.*?)^```", re.DOTALL | re.MULTILINE)
SLOW = {"think_agent/evaluation/README.md": pytest.mark.slow}  # each block is an evaluation
PROGRAMS = [
    pytest.param(code, id=f"{name}-{number}", marks=SLOW.get(name, ()))
    for name, text in PAGES.items()
    for number, code in enumerate(readme.programs(text), 1)
    if "from pantry import" not in code  # that one is a test of its own, below
]
COMMANDS = [
    pytest.param(code, id=f"{name}-{number}", marks=SLOW.get(name, ()))
    for name, text in PAGES.items()
    for number, (why, language, code) in enumerate(FENCED.findall(text), 1)
    if language == "sh" and not why
]
LINK = re.compile(r"\[[^\]]*\]\([^)]*\)")
QUOTED = re.compile(r"\barXiv \d|\b[\w-]+ #\d{2,}")


@pytest.fixture
def clone(tmp_path, monkeypatch):
    """A folder that looks like the clone, in which blocks may write."""
    for name in ("demos", "tests", "think_agent"):
        (tmp_path / name).symlink_to(ROOT / name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def executed(code: str) -> dict[str, Any]:
    """The names that a block of a README defines."""
    names: dict[str, Any] = {"__name__": "readme"}
    exec(compile(code, "a block of a README", "exec"), names)
    return names


@pytest.mark.parametrize("code", PROGRAMS)
def test_every_code_block_runs(code, clone):
    if "dbos" in code:
        pytest.importorskip("dbos")
    if "otel" in code:
        pytest.importorskip("opentelemetry")
    executed(code.replace('connect("ollama")', 'connect("offline")'))


@pytest.mark.parametrize("code", COMMANDS)
def test_every_command_runs(code, clone):
    for line in code.splitlines():
        words = shlex.split(line)
        module, *flags = ["think_agent", *words[1:]] if words[0] == "think-agent" else words[2:]
        assert words[:2] in (["python", "-m"], ["think-agent", words[1]])
        done = run_here(module, *flags)
        assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"


def test_every_block_runs_or_says_where():
    for name, text in PAGES.items():
        for why, language, code in FENCED.findall(text):
            assert why or language in ("python", "sh", "toml", "mermaid"), f"{name}: {code}"


def test_an_extra_is_installed_without_losing_the_editable_clone():
    modules = [path.read_text() for path in ROOT.glob("think_agent/**/*.py")]
    commands = re.findall(r"pip install [^`\n]*", "\n".join([*PAGES.values(), *modules]))
    ours = [one for one in commands if re.search(r" [\"{]?(\.|extra)", one)]
    assert len(ours) > 5
    assert [one for one in ours if " -e " not in one] == []


def test_the_toml_is_a_config_that_the_desk_takes(clone):
    pages = "".join(PAGES.values())
    [code] = [code for _, kind, code in FENCED.findall(pages) if kind == "toml"]
    (clone / "agent.toml").write_text(code)
    done = run_here("demos.refund", "--config", "agent.toml", "I want a refund on order ORD-001")
    assert done.returncode == 0, done.stderr


def test_the_made_parts_are_current():
    stale = [str(path.relative_to(ROOT)) for path in readme.outdated()]
    assert stale == [], "run: python -m tests.readme --write"


def test_the_readme_begins_with_a_setup_that_ci_runs():
    first, second = [code for _, kind, code in FENCED.findall(TEXT) if kind == "sh"][:2]
    assert "-m demos.refund" in first
    assert '".[dev]"' in second
    assert second.rstrip().endswith("-m pytest")


@pytest.mark.parametrize("force", ["first", "always"])
@pytest.mark.parametrize("dialect", ["native", "json"])
@pytest.mark.parametrize("name", STAND_INS)
def test_the_loop_in_short_is_the_loop(name, dialect, force):
    """At every message of whole runs of the desk, but for replies that are broken."""
    [block] = [b for b in readme.programs(PAGES["think_agent/README.md"]) if "def in_short" in b]
    in_short = executed(block)["in_short"]
    shop = Shop(":memory:")
    model = in_dialect(connect("offline", script=speak_dialect(STAND_INS[name], dialect)), dialect)
    agent = Agent(model, shop.tools(), force=force, done_when=make_checks(shop))
    messages = agent.run("Please refund ORD-001 and ORD-003").transcript
    for end in range(1, len(messages) + 1):
        turn = Turn.of(messages[:end])
        if turn.reply is None or turn.reply.is_usable:
            assert in_short(turn) == next_step(turn)


def test_your_own_agent_is_made_as_the_section_says(tmp_path):
    """The first block is `pantry.py`, which the second imports; the third is its test."""
    section = TEXT.split("## Your own agent")[1].split("\n## ")[0]
    agent, paused, its_test = (code for _, code in readme.PYTHON.findall(section))
    (tmp_path / "pantry.py").write_text(agent)
    (tmp_path / "test_pantry.py").write_text(its_test)
    env = environment(PYTHONPATH=os.pathsep.join([str(ROOT), str(tmp_path)]))
    test = ["-m", "pytest", "-p", "no:cacheprovider", "test_pantry.py"]
    (tmp_path / "paused.py").write_text(paused)
    for words, shown in (
        (test, "1 passed"),
        (["pantry.py"], "5 packets of coffee are on their"),
        (["paused.py"], "I ordered five packets"),
    ):
        command = [sys.executable, *words]
        assert shown in subprocess.check_output(command, cwd=tmp_path, text=True, env=env)


# The agent behind HTTP, of demos/README.md.

DUE = (think("It is due."), call("pay", dollars=80))
PAID = think("Paid.", should_continue=False)


@pytest.fixture
def connect_client(tmp_path):
    """Makes a client of a new app on a script. Each app has nothing but the files, as another
    process would.
    """
    testclient = pytest.importorskip("fastapi.testclient", reason='pip install -e ".[web]"')
    block = next(code for code in readme.programs(PAGES["demos/README.md"]) if "fastapi" in code)
    make_app = executed(block)["make_app"]

    def make(*script: Any) -> Any:
        return testclient.TestClient(make_app(ScriptedModel(by_place(*script)), tmp_path))

    return make


def say(client: Any, text: str = "Pay the bill.", name: str = "bill") -> list[dict[str, Any]]:
    """The events that the stream sends."""
    lines = client.post(f"/{name}", json={"text": text}).text.splitlines()
    return [json.loads(line.removeprefix("data: ")) for line in lines if line]


def answer(client: Any, question: str, decision: str = "yes") -> Any:
    return client.post("/bill/answer", json={"question": question, "decision": decision})


def test_behind_http_a_run_streams_and_pauses_with_its_question(connect_client):
    events = say(connect_client(DUE))
    assert "It is due." in "".join(event.get("thought", "") for event in events)
    assert events[-1]["exit"] == "needs_human"
    assert events[-1]["asked"] == "Run pay(dollars=80)?"


def test_behind_http_another_process_takes_the_answer(connect_client):
    question = say(connect_client(DUE))[-1]["question"]
    given = answer(connect_client(DUE, PAID, "It is paid."), question)
    assert given.json() == {"exit": "signal", "answer": "It is paid."}


@pytest.mark.parametrize("decision", ["yes", "no"])
def test_behind_http_a_second_answer_is_a_conflict(connect_client, decision):
    question = say(connect_client(DUE))[-1]["question"]
    client = connect_client(DUE, PAID, "It is paid.")
    answer(client, question)
    again = answer(client, question, decision)
    assert again.status_code == 409
    assert "no question waits" in again.text


def test_behind_http_the_answer_to_another_question_is_a_conflict(connect_client):
    say(connect_client(DUE))
    given = answer(connect_client(), "an-id-of-yesterday")
    assert given.status_code == 409
    assert "another question waits" in given.text


def test_behind_http_an_answer_without_a_question_is_a_conflict(connect_client, tmp_path):
    given = answer(connect_client(), "any")
    assert given.status_code == 409
    assert given.json() == {"detail": "bill.jsonl: there is no such file; nothing to resume"}


def test_behind_http_a_model_error_is_the_last_event_of_the_stream(connect_client):
    events = say(connect_client())
    assert list(events[-1]) == ["error"]
    assert "the script has ended" in events[-1]["error"]


def test_behind_http_a_model_error_after_an_answer_is_a_bad_gateway(connect_client):
    client = connect_client(DUE)
    assert answer(client, say(client)[-1]["question"]).status_code == 502


def test_behind_http_a_new_message_closes_the_question(connect_client):
    question = say(connect_client(DUE))[-1]["question"]
    client = connect_client(DUE, think("Not now.", should_continue=False), "It is not paid.")
    assert say(client, "Wait, don't!")[-1]["answer"] == "It is not paid."
    assert answer(client, question).status_code == 409


def test_behind_http_a_name_is_no_path(connect_client):
    assert connect_client().post("/..", json={"text": "hi"}).status_code in (404, 405, 422)


@pytest.mark.parametrize("name", PAGES)
def test_what_is_linked_is_there(name):
    text = re.sub(r"```.*?```", "", PAGES[name], flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if target.startswith("https://"):
            continue
        path, _, anchor = target.partition("#")
        page = (ROOT / name).parent / path if path else ROOT / name
        assert page.exists(), target
        if anchor:
            titles = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
            assert anchor in map(_anchor, titles), target
    for path in re.findall(r"`((?:tests|demos|think_agent)/[\w/]+\.\w+)`", text):
        assert "NAME" in path or (ROOT / path).exists(), path


@pytest.mark.parametrize("name", PAGES)
def test_who_is_quoted_is_linked(name):
    assert QUOTED.findall(LINK.sub("", PAGES[name])) == []


def _anchor(title: str) -> str:
    """The anchor that GitHub makes of a title."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")

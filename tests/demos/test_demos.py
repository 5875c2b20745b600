"""Each lesson runs as a script and as a module, and shows its subject."""

import importlib.util
import json
import re
from dataclasses import replace
from itertools import product

import httpx2
import openai
import pytest

from tests.servers import serve
from tests.servers.openai_chat import Chat
from tests.support.commands import run, run_here
from tests.support.sizes import ROOT
from think_agent import Agent, Assistant, ScriptedModel, Turn, connect

LABEL = "[scripted stand-in, no language model]"
SHOWS = {  # what each lesson prints about its subject
    "02_silence_is_not_a_signal": [
        r"without the signal: exit silence, orders looked up: 1",
        r"required each time: exit signal, orders looked up: 2",
    ],
    "03_both_exits": [
        r"1\. next_step: .* free to choose\n +force_first: .* asked to call think\n +-> think: ",
        r"without tools\n +-> ORD-001.*\n.* next_step: end \(signal\)",
        r"-> You are welcome!\n.* next_step: end \(silence\)",
    ],
    "04_swap_the_provider": [r"scripted:\S+: ORD-001 is a", r"(offline|openai):\S+: ORD-002 is a"],
    "05_forcing": [
        r'"first": exit signal, 1 action\(s\)\n  force think -> think\n  auto  ',
        r"the trap: exit limit, 0 action",
    ],
    "06_streaming_thoughts": [
        r"thought: Look .*first\.\ncall: ",
        r"The answer as one text: ORD-001",
    ],
    "07_approval": [
        r"no approver\n  exit needs_human: Run refund.*\n  a day later, exit signal: \$580 paid",
        r"\$580 paid for",
        r"half of it\n(.*\n)+.*\$290 paid for",
        r"not run: Ada said no \(the arm was never sent back\)",
    ],
    "08_crash_and_resume": [
        r"Started refund\n\nresumed",
        r'\$45 for ORD-003 had been paid already\.\n\(It was tried before; .*reason="broken"',
        r"calls of refund: \['ORD-001', 'ORD-001', 'ORD-003', 'ORD-003'\], payments: \[89, 45\]",
    ],
    "09_no_tool_calling": [
        r'"task_complete": false, "actions": \[\{"tool": "lookup_order"',
        r'Action: lookup_order\n +Action Input: \{"order_id": "ORD-001"\}',
        r"exit signal: ORD-001(.|\n)*exit signal: ORD-001",
    ],
    "10_does_it_help": [
        r"With 20 cases and 1 trial of each, a remedy .* gains \d\d points",
        r'"never": right on 3 of 20',
        r'"first": right on 7 of 20',
        r"never-think, without a thought: 3\n(.*\n)+five-rules, without a thought: 7",
        r"chance has no part in",
    ],
    "11_who_may_say_that_it_is_done": [
        r"silence +1 of 2 orders, exit silence: Got ORD-001",
        r"heartbeat +1 of 2",
        r"edge +2 of 2 orders, exit signal: .*\nphase",
        r"phase +2 of 2 .*\nstop tool +2 of 2 .*\ntask_completed +2 of 2 .*\nshould_con.* +2 of 2",
    ],
    "12_architect_and_editor": [
        r'"first"\n  architect -> think\n  editor    -> lookup_order',
        r'"always"\n(  .*\n)+  architect -> think\n  editor    -> the answer',
    ],
    "13_did_the_thought_matter": [
        r"costs, .* 60 calls\n\nfaithful\n  kept +\d of 20 .* 0 in words\n  dropped +20 of 20 ",
        r"unfaithful\n  kept +\d of 20 changed, 0 in words\n  dropped +\d of 20",
    ],
    "14_said_and_true": [
        r"silence: exit silence, 1 of 2 refunds\. All done",
        r"the flag: exit signal, 1 of 2 refunds\. All done",
        r"opinion: exit signal, 1 of 2 refunds\. .*\n  second_opinion: nothing is missing\n\n",
        r"the books: exit signal, 2 of 2 refunds\. .*\n  second_opinion: nothing is missing\n"
        r"  in_the_books: ORD-003: not in the books\n(.*\n)+  in_the.*: nothing is",
    ],
    "15_where_did_this_come_from": [
        r"left\? \(exit signal\)\n  told: .*succeeded, got '2'.*\n  A packet is \$4\. .*\[1\]",
        r"Is there tea\? \(exit signal\)\n  told: .*succeeded, got '7'.*\n  A packet is \$4\.",
        r"What does tea cost\? \(exit signal\)\n  told: nothing\n  A packet is \$5\. \[1\]",
    ],
    "16_strangers_tools": [
        r"not trusted\n  asked: Run price(.*\n)+  charged for: nothing",
        r"\ntrusted\n  exit signal: A packet of tea is \$4\.\n  charged for: \['tea'\]",
        r"you know better\n  asked: Run price(.*\n)+  charged for: nothing\n\nremember",
    ],
    "20_for_and_against": [
        r'Run refund\(order_id="ORD-004", dollars=580\)\?\n    for: .*\n    against: .*photo',
        r"exit silence: error: not run: Ada said no \(ask for a photo first\)",
    ],
    "17_all_at_once_or_one_by_one": [
        r"not asked again\.\n  model calls: 1; .*60\.\n  find_price.*error: .*\n  mult.* -> 60\n",
        r"at a time\.\n  model calls: 8; .*\$135\.\n  find_price.*error: .*\n(.*\n)  mult.* -> 135",
    ],
    "18_observers": [
        r"console\n  node begins: What is ORD-001\?\n(.*\n)*  tool calls: lookup_order\n",
        r"  tool result: lookup_order: ORD-001: .*\n(.*\n)*  node ends: signal\n",
        r"list\n  User .*Assistant ToolResult .* Ended Outcome\n",
        r"spans\n  chat \S+, execute_tool think, .*execute_tool lookup_order, .*invoke_agent\n",
    ],
    "19_three_ways_to_fail": [
        r"tell_model\n  exit signal: .*1\.08\n  recorded: .*main.*\n  recorded: .*mirror.* 1\.08",
        r"fail_fast\n  exit gave_up: .*\n  recorded: .*main source does not answer\n\n",
        r"raise\n  raised here: the main source does not answer\n  recorded: .*error: Connection",
    ],
}
LESSONS = sorted(SHOWS)
ON_A_SERVER = {  # what differs there
    # A server cuts a text into other pieces.
    "06_streaming_thoughts": SHOWS["06_streaming_thoughts"][1:],
    # `hasty` looks for refusals of the kit, which look like other results on the wire.
    "10_does_it_help": [r"right on \d+ of 20"],
    # On the wire the kit's question looks like a person's, and then this script begins again.
    "11_who_may_say_that_it_is_done": [r"silence +1 of 2", r"task_completed +2 of 2"],
    "13_did_the_thought_matter": [r"\nlocal\n  kept +\d of 20 .*\n  dropped +20 of 20 "],
}


def check(name: str, lines: list[str], shows: list[str]) -> None:
    assert lines[-1].startswith("remember: ")
    for pattern in shows:
        assert re.search(pattern, "\n".join(lines)), pattern


def test_these_are_all_lessons():
    found = [path.stem for path in sorted((ROOT / "demos").glob("[0-9][0-9]*_*.py"))]
    assert found == ["01_from_scratch", "01b_four_providers", *LESSONS]


def test_the_course_lists_its_lessons():
    shown = run_here("demos").stdout
    for name in ("refund", *LESSONS, "fleet"):
        assert f"\n{name} " in shown
        assert importlib.util.find_spec(f"demos.{name}")


@pytest.mark.parametrize("name", LESSONS)
def test_the_docstring_of_a_lesson_is_short_and_says_what_is_new(name):
    docstring = importlib.import_module(f"demos.{name}").__doc__
    assert len(docstring.splitlines()) <= 15
    assert "\nRule 1: " in docstring
    assert f"\nSince lesson {int(name[:2]) - 1:02}: " in docstring


@pytest.mark.parametrize("name", LESSONS)
def test_a_lesson_shows_what_it_is_about_and_twice_the_same(name):
    one, other = run(f"demos/{name}.py"), run_here(f"demos.{name}")
    assert one.returncode == 0
    assert one.stderr == ""
    assert other.returncode == 0
    assert other.stdout == one.stdout
    first, *lines = one.stdout.splitlines()
    assert first == LABEL
    check(name, lines, SHOWS[name])


@pytest.mark.parametrize("name", LESSONS)
def test_a_lesson_is_the_same_lesson_on_a_provider(name):
    """The lesson's own script plays the model, on a server for Chat Completions."""
    lesson = importlib.import_module(f"demos.{name}")
    with serve(Chat(), lesson.stand_in) as server:
        there = ["--provider", "openai:local", "--base-url", server.url + "/v1"]
        done = run_here(f"demos.{name}", *there, OPENAI_API_KEY="a-test-key")
        assert server.requests
    assert done.returncode == 0
    assert done.stderr == ""
    first, *lines = done.stdout.splitlines()
    assert first == "[openai:local]"
    check(name, lines, ON_A_SERVER.get(name, SHOWS[name]))


def test_no_thought_is_changed_where_the_history_is_signed(capsys):
    lesson = importlib.import_module("demos.13_did_the_thought_matter")
    asked = []

    def signing(request):
        asked.append(request)
        return replace(lesson.stand_in(request), signed=True)

    lesson.lesson(ScriptedModel(signing, name="anthropic"))
    shown = capsys.readouterr().out
    assert shown.index("costs, ") < shown.index("cannot be said: anthropic signs its history")
    assert not any(request.tools == [lesson.decide] for request in asked)


def test_a_changed_thought_is_all_that_changes(capsys):
    lesson = importlib.import_module("demos.13_did_the_thought_matter")
    asked = []

    def watched(request):
        if list(request.tools) == [lesson.decide]:
            asked.append(request.messages)
        return lesson.stand_in(request)

    lesson.lesson(ScriptedModel(watched))
    first, second = lesson.CASES
    thoughts = {(m[0].text, *(t.text for t in Turn.of(m).thoughts)) for m in asked}
    assert len(asked) == 60
    assert thoughts == {(first,), (second,), *product((first, second), repeat=2)}


@pytest.mark.parametrize("name", LESSONS)
def test_every_look_up_is_read_only(name):
    lesson = importlib.import_module(f"demos.{name}")
    look_up = getattr(lesson, "lookup_order", None)
    assert look_up is None or look_up.read_only


@pytest.mark.parametrize(
    ("answer", "exit"),
    [
        ({"type": "predicate", "probability": 0.97}, "signal"),
        ({"type": "predicate", "probability": 0.2}, "unmet"),
        ({"type": "refusal"}, "unmet"),
    ],
)
def test_at_openai_the_second_opinion_is_a_decision(answer, exit):
    lesson = importlib.import_module("demos.14_said_and_true")
    asked = []

    def decide(request):
        """Answers the official SDK like OpenAI's server for decisions."""
        asked.append((request.url.path, json.loads(request.content)))
        return httpx2.Response(200, json={"answers": [answer], "model": "gpt-6-luna"})

    at_openai = connect("openai:gpt-6-luna", api_key="a-test-key")
    transport = httpx2.MockTransport(decide)
    at_openai.client = openai.OpenAI(
        api_key="a-test-key", http_client=httpx2.Client(transport=transport), max_retries=0
    )
    opinion = lesson.make_opinion_check(at_openai)
    outcome = Agent(
        ScriptedModel(lesson.stand_in), [lesson.refund], done_when=[opinion], max_model_calls=9
    ).run("Refund ORD-001 and ORD-003, please.")
    path, body = asked[0]
    assert path == "/v1/decisions"
    assert body["model"] == "gpt-6-luna"
    assert body["questions"][0]["type"] == "predicate"
    assert "Asked: Refund ORD-001 and ORD-003" in body["input"]
    assert '✓ refund(order_id="ORD-001")' in body["input"]
    assert outcome.exit == exit


@pytest.mark.parametrize(("answer", "is_content"), [("true", True), ("false", False), ("?", False)])
def test_a_second_opinion_adds_a_doubt_and_takes_none_away(answer, is_content):
    lesson = importlib.import_module("demos.14_said_and_true")
    judge = ScriptedModel(lambda request: Assistant(f'{{"answer": {answer}}}'))
    model = ScriptedModel(lambda request: Assistant("All done."))
    lesson.books.clear()
    checks = [lesson.make_opinion_check(judge), lesson.in_the_books]
    outcome = Agent(model, [lesson.refund], force="never", done_when=checks).run("Refund both.")
    opinion, books = outcome.checks
    assert (opinion.missing is None) == is_content
    assert outcome.exit == "unmet"
    assert books.missing == "ORD-001, ORD-003: not in the books"


def test_the_help_of_a_lesson_says_how_it_is_called():
    shown = run("-m", "demos.02_silence_is_not_a_signal", "--help").stdout
    assert shown.startswith("Usage: python -m demos.02_silence_is_not_a_signal [OPTIONS]\n")


@pytest.mark.parametrize("flag", ["--provider=nope", "--bogus"])
def test_a_wrong_flag_is_one_line(flag):
    done = run_here("demos.03_both_exits", flag)
    assert done.returncode == 2, done.stderr
    assert len(done.stderr.splitlines()) == 1, done.stderr

"""Can this record be true? And would this agent do the same today? The two kinds are kept apart:
the first knows forgeries and never gives a false alarm, the second knows what has changed since.
"""

import json
import random
from dataclasses import replace
from uuid import uuid4

import pytest

from demos.refund.checks import make_checks
from demos.refund.shop import Shop
from demos.refund.stand_ins import STAND_INS
from tests.audit.forms import in_each_form, to_text
from tests.audit.test_audit import run_audit
from tests.core.test_oracle import CASES, random_world
from tests.support.forgeries import FORGERIES, TOOLS, count, records
from tests.support.traces import needs_traces, runs
from think_agent import (
    Agent,
    Assistant,
    Ended,
    Paused,
    Refuse,
    ScriptedModel,
    Started,
    ToolCall,
    ToolResult,
    User,
    Verdict,
    connect,
)
from think_agent.audit import check, read, rules
from think_agent.audit.check import Findings
from think_agent.audit.reading import Record, Unreadable
from think_agent.audit.rules import RULES
from think_agent.dialects import in_dialect
from think_agent.messages import Checked
from think_agent.running import STOPPED_IN_IT
from think_agent.testing import call, think

KEPT = {kept.name: kept for kept in records()}


def of(agent, messages):
    """A record as a file would have it."""
    return Record(json.loads(json.dumps(agent.made_of())), tuple(messages))


def texts(found):
    return [finding.text for finding in found]


# Forgeries.


@pytest.mark.parametrize("name", KEPT)
def test_a_sound_record_has_no_findings(name):
    kept = KEPT[name]
    found = check(kept.record(kept.messages), kept.agent)
    assert found.impossible == []
    assert found.otherwise == []
    assert found.steps > 0


ALWAYS = [one.what for one in FORGERIES if not one.because]
NEVER = [
    "a failure is none",
    "other words of a thought",
    "other words of a result",
    "other words of a reply",
    "other words of a person",
    "another model replied",
    "the end is cut off",
    "the last turn is left out",
]
WITH_AGENT = [  # in every place, with the plans of the agent
    "a check is taken out",
    "a reply is taken out",
    "two neighbors change places",
    "a result has other arguments",
    "what was refused has run",
    "another exit",
    "another answer at the end",
]


@pytest.mark.parametrize("what", ALWAYS)
def test_the_record_alone_gives_this_forgery_away_in_every_place(what):
    counted = count(what)
    assert counted.places > 0
    assert counted.alone == counted.places


@pytest.mark.parametrize("what", WITH_AGENT)
def test_with_its_agent_this_forgery_is_noticed_in_every_place(what):
    counted = count(what)
    assert 0 < counted.alone < counted.places
    assert counted.with_agent == counted.places


@pytest.mark.parametrize("what", NEVER)
def test_this_cannot_be_noticed_and_the_page_says_so(what):
    counted = count(what)
    assert counted.places > 0
    assert counted.alone == 0
    assert counted.with_agent == 0


def test_every_kind_of_forgery_is_tried():
    known = {*ALWAYS, *NEVER, *WITH_AGENT}
    sometimes = {one.what for one in FORGERIES} - known
    assert all(count(what).alone > 0 for what in sometimes - {"another person decided"})
    assert all(one.because for one in FORGERIES if one.what in sometimes)


# Each rule, on the smallest record that breaks it.

GO = User("Go")
PAY = ToolCall("c", "pay", {"cents": 5})
LOOK = ToolCall("c", "look", {})
ASKS = Assistant(tool_calls=(PAY,), stop_reason="tool_use")
LOOKS = Assistant(tool_calls=(LOOK,), stop_reason="tool_use")
STARTED = Started("c", "pay")
PAID = ToolResult("c", "pay", "paid")
READ = ToolResult("c", "look", "5")
REFUSED = ToolResult("c", "pay", "error: not run", is_error=True, refused="gate")
DONE = Assistant("Done.")
WAITS = Paused("Run pay?", "c", id="q")
YES = Verdict("yes", "c", arguments={"cents": 5}, question="q")
KNOWN = {
    "pay": {"name": "pay"},
    "look": {"name": "look", "read_only": True},
    "think": {"name": "think"},
}
GUARDED = {"think_first": True}
NEEDS_YES = {"needs_approval": "always"}
BROKEN = [  # the rule, what it says, the tool `pay`, and the messages
    ("a_person_begins", "no person has spoken", {}, [DONE]),
    ("calls_are_answered_in_order", "no call waits", {}, [GO, PAID]),
    (
        "calls_are_answered_in_order",
        "not about the next",
        {},
        [GO, ASKS, replace(PAID, call_id="d")],
    ),
    ("calls_are_answered_in_order", "the call is of pay", {}, [GO, ASKS, replace(READ)]),
    (
        "calls_are_answered_in_order",
        "whose calls are not run",
        {},
        [GO, replace(ASKS, tool_choice="none"), PAID],
    ),
    ("no_call_is_dropped", "the call of pay has no result", {}, [GO, ASKS, GO]),
    ("no_call_is_dropped", "the call of pay has no result", {}, [GO, ASKS, Ended("signal")]),
    (
        "stopped_calls_are_followed_by_a_request",
        "dropped for a new request",
        {},
        [GO, ASKS, replace(REFUSED, refused="stopped"), DONE],
    ),
    ("an_end_is_an_end", "the turn had ended", {}, [GO, DONE, Ended("silence"), DONE]),
    ("a_pause_waits", "no one decided", NEEDS_YES, [GO, ASKS, WAITS, STARTED]),
    ("a_pause_waits", "another question", {}, [GO, ASKS, WAITS, replace(YES, question="r")]),
    ("a_guarded_call_has_a_thought", "without a thought", GUARDED, [GO, ASKS, STARTED]),
    ("a_no_is_a_no", "a person had said no", {}, [GO, ASKS, Verdict("no", "c"), STARTED]),
    ("what_needs_a_yes_has_one", "without a person's yes", NEEDS_YES, [GO, ASKS, STARTED]),
    (
        "what_needs_a_yes_has_one",
        "ran from a text",
        {},
        [GO, replace(ASKS, tool_calls=(replace(PAY, recovered=True),)), STARTED],
    ),
    (
        "what_needs_a_yes_has_one",
        "may have happened",
        {},
        [GO, ASKS, STARTED, replace(PAID, is_error=True, in_doubt=True), ASKS, STARTED],
    ),
    ("a_start_comes_first", "its start is missing", {}, [GO, ASKS, PAID]),
    ("a_start_comes_first", "no start of look", {}, [GO, LOOKS, replace(STARTED, name="look")]),
    (
        "a_tool_exists",
        "there is no tool 'fly'",
        {},
        [GO, Assistant(tool_calls=(replace(PAY, name="fly"),)), replace(PAID, name="fly")],
    ),
    (
        "a_tool_exists",
        "a JSON object",
        {},
        [GO, replace(ASKS, tool_calls=(replace(PAY, arguments="{"),)), STARTED],
    ),
    (
        "what_ran_is_what_was_decided",
        "than those of the yes",
        {},
        [GO, ASKS, replace(YES, arguments={"cents": 3}), STARTED],
    ),
    (
        "what_ran_is_what_was_decided",
        "than those of its start",
        {},
        [GO, ASKS, STARTED, replace(PAID, arguments={"cents": 3})],
    ),
    ("a_yes_says_to_what", "to which arguments", {}, [GO, ASKS, replace(YES, arguments=None)]),
    ("a_refusal_is_an_error", "an error", GUARDED, [GO, ASKS, replace(REFUSED, is_error=False)]),
    ("a_refusal_is_an_error", "never started", {}, [GO, ASKS, replace(PAID, in_doubt=True)]),
    (
        "a_refusal_is_an_error",
        "as if nothing",
        {},
        [GO, ASKS, STARTED, replace(REFUSED, refused="x")],
    ),
    ("a_refusal_has_its_reason", "does not need", {}, [GO, ASKS, REFUSED]),
    (
        "a_refusal_has_its_reason",
        "there is one",
        GUARDED,
        [
            GO,
            Assistant(tool_calls=(think("due"), PAY)),
            ToolResult("", "think", "Noted."),
            REFUSED,
        ],
    ),
    ("a_refusal_has_its_reason", "said no", {}, [GO, ASKS, replace(REFUSED, refused="person")]),
    ("a_refusal_has_its_reason", "it was not", {}, [GO, ASKS, replace(REFUSED, refused="text")]),
    ("a_refusal_has_its_reason", "had not", {}, [GO, ASKS, replace(REFUSED, refused="repeat")]),
    ("a_reply_follows_something_new", "nothing new", {}, [GO, DONE, DONE]),
    (
        "a_closing_reply_is_asked_as_one",
        "not asked as a closing reply",
        {},
        [
            GO,
            Assistant(tool_calls=(think("done", should_continue=False),)),
            ToolResult("", "think", "Noted."),
            DONE,
        ],
    ),
    (
        "a_closing_reply_is_asked_as_one",
        "nothing had closed",
        {},
        [GO, replace(DONE, tool_choice="none")],
    ),
    (
        "the_kit_has_a_reason_to_speak",
        "no check has found",
        {},
        [GO, DONE, User("?", kind="check")],
    ),
    ("the_kit_has_a_reason_to_speak", "it was not", {}, [GO, DONE, User("?", kind="nudge")]),
    ("the_kit_has_a_reason_to_speak", "and it could", {}, [GO, DONE, User("?", kind="format")]),
    ("the_kit_has_a_reason_to_speak", "there was none", {}, [GO, DONE, User("?", kind="repeat")]),
    ("an_end_has_its_reason", "'signal'", {}, [GO, DONE, Ended("signal")]),
    ("an_end_has_its_reason", "'declined'", {}, [GO, DONE, Ended("declined")]),
    ("an_end_has_its_reason", "'silence'", {}, [GO, DONE, Checked("all", "B"), Ended("silence")]),
    ("an_answer_was_said", "in no reply", {}, [GO, DONE, Ended("silence", "All is well.")]),
    ("an_answer_was_said", "recorded twice", {}, [GO, DONE, Ended("silence", "Done.")]),
]


@pytest.mark.parametrize(
    ("rule", "says", "guards", "messages"),
    BROKEN,
    ids=[f"{rule}: {says}" for rule, says, *_ in BROKEN],
)
def test_the_last_message_breaks_this_rule_alone(rule, says, guards, messages):
    tools = {**KNOWN, "pay": {"name": "pay", **guards}}
    record = Record({"tools": list(tools.values())}, tuple(messages))
    found = [finding for finding in check(record).impossible if says in finding.text]
    assert [finding.place for finding in found] == [len(messages) - 1]
    others = [one for one in RULES if one.__name__ != rule]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rules, "RULES", others)
        assert found[0] not in check(record).impossible


def test_every_rule_is_tried():
    assert {rule.__name__ for rule in RULES} == {rule for rule, *_ in BROKEN}


# No false alarm of the first kind.


def lived(seed):
    """Records of a random world: from its begin, resumed anywhere, and with another request."""
    world = random_world(seed)
    world.begin()
    yield world
    rng = random.Random(seed)
    for _ in range(2):
        resumed = world.again(world.messages[: rng.randrange(2, len(world.messages) + 1)])
        resumed.resume()
        yield resumed
        cut = resumed.again(resumed.messages[: rng.randrange(2, len(resumed.messages) + 1)])
        cut.begin("and now?")
        yield cut


@pytest.mark.parametrize("seed", range(60))
def test_no_record_of_a_random_run_is_called_impossible(seed):
    for world in lived(seed):
        agent = world.agent()
        assert check(of(agent, world.messages)).impossible == []


@pytest.mark.parametrize("seed", range(200, 215))
def test_the_agent_of_a_random_run_would_do_the_same_today(seed):
    for world in lived(seed):
        if world.policy:
            continue  # it counts what the world has said so far
        agent = world.agent()
        assert check(of(agent, world.messages), agent).otherwise == []


@pytest.mark.parametrize("name", CASES)
def test_no_run_that_was_found_hard_is_called_impossible(name):
    world, _ = CASES[name]
    world = replace(world, messages=[], texts=[], ran=[])
    world.begin()
    assert check(of(world.agent(), world.messages)).impossible == []


@pytest.mark.parametrize("dialect", ["native", "json", "react"])
@pytest.mark.parametrize("name", STAND_INS)
def test_no_run_of_the_desk_is_called_impossible(name, dialect):
    from demos.refund.dialects import speak_dialect

    shop = Shop(":memory:", manager=True)
    model = in_dialect(connect("offline", script=speak_dialect(STAND_INS[name], dialect)), dialect)
    agent = Agent(model, shop.tools(), done_when=make_checks(shop))
    outcome = agent.run("Please refund ORD-001 and ORD-004")
    assert check(of(agent, outcome.transcript)).impossible == []


@needs_traces
def test_no_recorded_run_that_is_played_again_is_called_impossible():
    for replay in runs(slice(None, None, 10)):
        agent = replay.agent(gate=True)
        transcript = ()
        for text in replay.asked[:1]:
            transcript = agent.run(text, transcript=transcript).transcript
        assert check(of(agent, transcript)).impossible == []


def test_what_an_earlier_run_left_open_is_no_forgery():
    stopped = KEPT["a yes"].messages[:5]
    assert isinstance(stopped[-1], Started)
    for left in (KEPT["a pause"].messages, stopped):
        agent = Agent(ScriptedModel(["Well."]), TOOLS, force="never", silence="accept")
        messages = agent.run("Something else.", transcript=left).transcript
        assert check(of(agent, messages)).impossible == []
    assert any(getattr(message, "content", "") == STOPPED_IN_IT for message in messages)


# A file.


@pytest.fixture
def path(tmp_path):
    return tmp_path / "run.jsonl"


PANTRY = '''
from think_agent import Agent, ScriptedModel, tool

@tool(think_first=True)
def order(item: str) -> str:
    """Order it."""
    raise AssertionError("no tool runs")

def never_orders(step, turn):
    from think_agent import CallTool, Refuse
    if isinstance(step, CallTool) and step.call.name == "order":
        return Refuse(step.call, "rule", "we order nothing any more.")
    return step

agent = Agent(ScriptedModel([]), [order])
stricter = Agent(ScriptedModel([]), [order], policies=[never_orders])

def made(model):
    return Agent(model, [order])
'''


@pytest.fixture
def pantry(tmp_path):
    file = tmp_path / f"pantry_{uuid4().hex}.py"  # a module of each name can be run once
    file.write_text(PANTRY)
    return file


@pytest.fixture
def kept(path):
    """A run of an agent like that of the pantry, in a file."""
    from think_agent import tool

    @tool(think_first=True)
    def order(item: str) -> str:
        """Order it."""
        return f"ordered {item}"

    script = [(think("None left."), call("order", item="tea")), think("Done.", False), "Ordered."]
    Agent(ScriptedModel(script), [order]).run("Do we need tea?", transcript=path)
    return path


def forge(path, old, new):
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def test_the_line_of_a_finding_is_that_of_the_file(kept):
    lines = kept.read_text().splitlines()
    started = next(number for number, line in enumerate(lines, 1) if '"started"' in line)
    kept.write_text("\n".join(line for line in lines if '"started"' not in line) + "\n")
    [finding] = check(read(kept)).impossible
    assert finding.where == f"line {started}"  # that of the result, whose start is missing


def test_a_header_holds_for_what_comes_after_it(kept):
    """In another process the tool is not guarded any more: then no thought is needed."""
    header, *lines = kept.read_text().splitlines()
    other = header.replace('"think_first":true', '"think_first":false')
    assert other != header
    more = [User("And milk?"), ASKS_FOR_MILK, Started("m", "order"), ToolResult("m", "order", "ok")]
    from think_agent.messages import to_json

    said = [json.dumps(to_json(message)) for message in more]
    kept.write_text("\n".join([header, *lines, *said]) + "\n")
    assert texts(check(read(kept)).impossible) == ["order ran without a thought"]
    kept.write_text("\n".join([header, *lines, other, *said]) + "\n")
    assert check(read(kept)).impossible == []


ASKS_FOR_MILK = Assistant(
    tool_calls=(ToolCall("m", "order", {"item": "milk"}),), stop_reason="tool_use"
)


def test_a_line_that_cannot_be_read_is_a_finding_unless_it_is_the_last(kept):
    whole = kept.read_text().splitlines()
    kept.write_text("\n".join([*whole, '{"type": "us']))
    assert check(read(kept)).impossible == []  # a run that was killed leaves such a line
    kept.write_text("\n".join([*whole[:4], "{", *whole[5:]]))
    [finding] = check(read(kept)).impossible
    assert finding.where == "line 5"
    assert "cannot be read" in finding.text


def test_a_record_without_a_header_is_judged_as_far_as_it_goes():
    guarded = [GO, ASKS, STARTED, PAID]
    assert check(Record({}, tuple(guarded))).impossible == []
    assert check(Record({}, (GO, ASKS, Verdict("no", "c"), STARTED))).impossible


# The command.


def test_the_command_says_that_a_record_can_be_true(kept, pantry, capsys):
    assert run_audit("--check", f"{pantry}:agent", kept) == 0
    out = capsys.readouterr().out
    assert "✓ the record can be true" in out
    assert "this agent would do the same today" in out


def test_a_function_that_makes_the_agent_may_take_a_model(kept, pantry, capsys):
    assert run_audit("--check", f"{pantry}:made", kept) == 0
    assert "this agent would do the same today" in capsys.readouterr().out


def test_the_command_keeps_the_two_kinds_apart(kept, pantry, capsys):
    assert run_audit("--check", f"{pantry}:stricter", kept) == 0  # the record is sound
    out = capsys.readouterr().out
    assert "✓ the record can be true" in out
    assert "today this agent would do otherwise in 1 place" in out
    assert "today: refuse order (rule): we order nothing any more." in out


def test_the_command_ends_with_3_if_the_record_cannot_be_true(kept, pantry, capsys):
    forge(kept, "None left.", " ")
    assert run_audit("--check", f"{pantry}:agent", kept) == 3
    out = capsys.readouterr().out
    assert "! the record cannot be true: 1 message that no run writes" in out
    assert "order ran without a thought" in out


def test_of_a_run_of_the_demo_no_agent_has_to_be_named(tmp_path, capsys):
    from tests.support.commands import run_here

    path = tmp_path / "desk.jsonl"
    run_here(
        "demos.refund", "ORD-001 and ORD-004", "--provider", "offline", "--transcript", str(path)
    )
    for words in (["--check", path], [path, "--check"]):
        assert run_audit(*words) == 0
        out = capsys.readouterr().out
        assert "✓ the record can be true" in out
        assert "this agent would do the same today" in out


def test_the_check_is_in_every_form(kept, pantry, tmp_path, capsys):
    forge(kept, "None left.", " ")
    page = tmp_path / "page.html"
    assert run_audit("--check", f"{pantry}:agent", kept, "--html", page, "--json") == 3
    shown = page.read_text()
    assert "the record cannot be true" in shown
    assert "order ran without a thought" in shown
    checked = json.loads(capsys.readouterr().out)["checked"]
    assert checked["impossible"][0]["text"] == "order ran without a thought"
    assert checked["impossible"][0]["step"] == 1


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--check"], "Missing argument 'RUN.jsonl'"),
        (["--check", "nothing.py:agent", "RUN"], "there is no such file"),
        (["--check", "PANTRY:nobody", "RUN"], "its agents: agent, stricter"),
        (["--check", "RUN"], "this isn't a run of the demo; name its agent"),
        (["--check", "PANTRY:agent", "LOG"], "isn't a record of this kit"),
    ],
    ids=["no file", "no such file", "no such agent", "no run of the demo", "another program's"],
)
def test_a_wrong_word_is_one_line(kept, pantry, tmp_path, capsys, words, says):
    log = tmp_path / "log.json"
    log.write_text('[{"role": "user", "content": "hi"}]')
    put = {"RUN": str(kept), "PANTRY": str(pantry), "LOG": str(log)}
    typed = []
    for word in words:
        for name, value in put.items():
            word = word.replace(name, value)
        typed.append(word)
    assert run_audit(*typed) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert says in err


def test_what_is_redacted_is_hidden_in_findings_too():
    agent = KEPT["a yes"].agent
    messages = [
        replace(message, arguments={"order": "SECRET-9", "cents": 5})
        if isinstance(message, Verdict)
        else message
        for message in KEPT["a yes"].messages
    ]
    findings = check(of(agent, messages), agent)
    assert findings.impossible
    _, forms = in_each_form(messages, findings=findings, redact=["order"])
    assert not any("SECRET-9" in text for text in forms.values())


def test_findings_are_empty_by_default():
    assert Findings().impossible == []
    assert Findings().otherwise == []
    assert Findings().steps is None


def test_an_unreadable_first_line_is_told_once():
    record = Record({}, (Unreadable(1, "{", "no JSON"), GO, DONE, Ended("silence")))
    assert texts(check(record).impossible) == [
        "it cannot be read; what follows in its turn is not judged"
    ]


def test_the_text_form_names_the_line(kept):
    forge(kept, "None left.", " ")
    record = read(kept)
    from think_agent.audit import report

    shown = to_text(report(record.entries, header=record.header, findings=check(record)))
    assert "line 5: order ran without a thought" in shown


def test_a_refusal_by_a_policy_of_ones_own_has_a_code_of_its_own():
    """The rules know nothing of it."""

    def rule(step, turn):
        is_order = getattr(getattr(step, "call", None), "name", "") == "ship"
        return Refuse(step.call, "house rule", "not today.") if is_order else step

    kept = KEPT["no approval"]
    agent = Agent(kept.agent.model, list(kept.agent.tools.values()), force="never", policies=[rule])
    outcome = agent.run("Do it.")
    assert check(of(agent, outcome.transcript), agent) == Findings(steps=8)

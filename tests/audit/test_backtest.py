"""Backtest: where a policy would have stepped in, in runs of yesterday."""

import json
import re

from tests.readme import ROOT
from tests.support.agents import pay
from tests.support.traces import needs_traces, recorded
from think_agent import Agent, AskHuman, CallModel, Done, Refuse, ScriptedModel, Verdict, tool
from think_agent.audit import backtest
from think_agent.messages import Ended, Paused, ToolResult
from think_agent.policies.doubt import doubt
from think_agent.policies.gate import gate
from think_agent.policies.silence import confirm_silence
from think_agent.testing import call, think

FENCED = re.compile(r"^```py\n(.*?)^```", re.DOTALL | re.MULTILINE)


def ran(*replies, guarded=True, **settings):
    tools = [pay if guarded else tool(pay.function)]
    agent = Agent(ScriptedModel(replies), tools, force="never", **settings)
    return agent.run("Pay").transcript


def test_it_says_where_a_policy_would_have_stepped_in_and_what_it_would_have_done():
    done = think("Paid.", should_continue=False)
    careful = ran((think("It is due."), call("pay", cents=1)), done, "Paid.")
    gated = ran(call("pay", cents=1), (think("Due."), call("pay", cents=1)), done, "Paid.")
    hasty = ran(call("pay", cents=1), call("pay", cents=2), done, "Paid.", guarded=False)
    announced = ran(think("I will pay."), "I will pay now.", silence="accept")
    runs = [careful, gated, hasty, announced]

    found = backtest(gate({"pay"}), runs)  # in `gated` it did so then, too
    assert {(difference.run, difference.step.call.arguments["cents"]) for difference in found} == {
        (2, 1),
        (2, 2),
    }
    for run, place, step in found:
        assert isinstance(runs[run][place + 1], ToolResult), "Started is the first of its step"
        assert type(step) is Refuse
        assert step.code == "gate"

    [(run, place, step)] = backtest(confirm_silence(can_think=True), runs)
    assert run == 3
    assert type(step) is CallModel
    assert step.say.kind == "silence"
    assert isinstance(runs[run][place], Ended)
    assert backtest(lambda step, turn: step, runs) == []


def test_doubt_alone_knows_a_call_by_its_words():
    """No policy before it has validated the calls, and one of them is of no tool."""

    @tool
    def order(cents: int) -> str:
        """Order."""
        raise ConnectionError("no answer")

    model = ScriptedModel([(call("order", cents=1), call("fly")), call("order", cents=1), "Hm."])
    run = Agent(model, [order], approve=lambda asked: False).run("Order").transcript
    assert backtest(doubt({"order": order}), [run]) == []  # it asked then, too
    before_the_question = next(i for i, m in enumerate(run) if isinstance(m, Verdict))
    unasked = [m for m in run[:before_the_question] if not isinstance(m, Paused)]
    [(_, _, step)] = backtest(doubt({"order": order}), [unasked])
    assert isinstance(step, AskHuman)


def test_the_end_of_an_open_turn_is_a_step_too():
    messages = ran("Done.")[:-1]  # the log of another program does not say how a turn ended
    found = backtest(
        lambda step, turn: Done("limit") if isinstance(step, Done) else step, [messages]
    )
    assert found == [(0, len(messages), Done("limit"))]


@needs_traces
def test_the_finding_of_the_readme_is_true(tmp_path, monkeypatch, capsys):
    """The block as it stands there, and the sentences below it, on the recorded runs."""
    page = (ROOT / "think_agent/audit/README.md").read_text()
    [block] = [code for code in FENCED.findall(page) if "backtest(" in code]
    path = tmp_path / "tau-bench/historical_trajectories/gpt-4o-airline.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(recorded()))
    monkeypatch.chdir(tmp_path)
    shown = {}
    exec(compile(block, "the block of the README", "exec"), shown)
    assert f"# {capsys.readouterr().out}" in f"{block}\n"

    rewarded = {number for number, run in enumerate(recorded()) if run["reward"] == 1}
    went_through, failed = set(), []
    for run, place, step in shown["found"]:
        content = shown["runs"][run].messages[place].content
        if content.startswith("Error: flight"):
            assert "not available" in content
            failed.append(run)
        else:
            assert step.call.arguments["reservation_id"] in content
            went_through.add(run)
    assert len(failed) == 12
    assert len(went_through) == 5
    assert len(rewarded) == 84
    assert went_through & rewarded == set()
    assert {*failed} - went_through <= rewarded

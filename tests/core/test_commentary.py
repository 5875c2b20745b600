"""A text beside a call is commentary: an answer is only what ends a turn. On all five protocols, in
json, and wherever a reply is shown.
"""

import asyncio
import io
import json
from collections.abc import Sequence
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from rich.console import Console

from demos.web.shown import rows
from tests.servers import serve
from tests.support.pieces import gathered, told
from tests.support.providers import SPEAKS, every_provider, model_of, says
from tests.support.strategies import scripts
from think_agent import Agent, Assistant, Delta, Outcome, ScriptedModel, Turn, User, tool
from think_agent.audit import report, to_html
from think_agent.cli.console import LOOK, RunView
from think_agent.dialects import json_plan
from think_agent.streaming import join_answer
from think_agent.testing import call, think
from think_agent.think import is_remark

REMARK = "Let me look that up."
ANSWER = "It is 1."


@tool
def look(n: int = 1) -> str:
    """Look a number up."""
    if n == 0:
        raise ValueError("there is no such number")
    return str(n)


@tool(needs_approval=True)
def pay(n: int = 1) -> str:
    """Pay it."""
    return str(n)


LOOKS = Assistant(REMARK, tool_calls=(call("look", n=1),))
PAYS = Assistant(REMARK, tool_calls=(call("pay", n=1),))
MORE = think("There is more to do.")
DONE = think("All is done.", should_continue=False)


class Case(NamedTuple):
    text: str  # where it is
    replies: Sequence[Any]
    answer: str = ANSWER
    settings: Any = {}  # noqa: RUF012


NATIVE = [
    Case("beside a call", [LOOKS, ANSWER]),
    Case("beside two calls, one after the other", [LOOKS, LOOKS, ANSWER]),
    Case("beside a thought", [Assistant(REMARK, tool_calls=(MORE,)), LOOKS, ANSWER]),
    Case("beside the signal", [LOOKS, Assistant(REMARK, tool_calls=(DONE,)), ANSWER]),
    Case("beside a call that fails", [Assistant(REMARK, tool_calls=(call("look", n=0),)), ANSWER]),
    Case("beside a call in a closing reply", [DONE, Assistant(ANSWER, tool_calls=(MORE,))]),
    Case("alone, and confirmed", [MORE, LOOKS, ANSWER, DONE], settings={"silence": "ask"}),
    Case("alone, but not the last", [MORE, REMARK, LOOKS, ANSWER], settings={"silence": "ask"}),
    Case("before a limit", [LOOKS, LOOKS, ANSWER], settings={"max_actions": 2}),
    Case("that breaks off", [Assistant("It is", stop_reason="max_tokens")], "It is"),
    Case("that can't be read", [Assistant("{", stop_reason="malformed"), ANSWER]),
]


def agent_of(case: Case) -> Agent:
    settings = {"force": "never", "silence": "accept", **case.settings}
    return Agent(ScriptedModel(case.replies), [look, pay], **settings)


@pytest.mark.parametrize("case", NATIVE, ids=lambda case: case.text)
def test_the_deltas_of_a_run_join_to_its_answer(case):
    events = list(agent_of(case).stream("go"))
    assert isinstance(events[-1], Outcome)
    assert join_answer(events) == events[-1].answer == case.answer
    assert asyncio.run(gathered(agent_of(case).astream("go")))[-1] == events[-1]


@given(scripts)
def test_the_deltas_of_any_run_join_to_its_answer(script):
    """If the model gave one: other ends have words of the kit."""

    def scripted(request):
        place = sum(isinstance(message, Assistant) for message in request.messages)
        return script[place % len(script)]

    agent = Agent(ScriptedModel(scripted), [look], max_model_calls=6)
    *events, outcome = agent.stream("go")
    if outcome.exit in ("signal", "silence"):
        assert join_answer(events) == outcome.answer


def test_an_answer_so_far_may_turn_out_to_be_a_remark():
    arriving = [Delta("answer", "Let me "), Delta("answer", "look.")]
    assert join_answer([*arriving, Assistant("Let me look.")]) == "Let me look."
    assert join_answer([*arriving, LOOKS]) == ""


def test_a_run_that_waits_for_a_person_has_no_answer_yet():
    outcome = Agent(ScriptedModel([PAYS]), [pay], force="never").run("go")
    assert outcome.exit == "needs_human"
    assert outcome.turn.last_words == ""


def plan(response: str, *actions: Any, is_complete: bool = False) -> str:
    written = {"understanding": "", "reasoning": "It is asked for.", "task_complete": is_complete}
    return json.dumps({**written, "actions": [*actions], "response": response})


ACT = {"tool": "look", "arguments": {"n": 1}}
IN_JSON = [
    Case("beside an action", [plan(REMARK, ACT), plan(ANSWER, is_complete=True)]),
    Case("beside a thought", [plan(REMARK), plan(ANSWER, is_complete=True)]),
    Case("in a plan that is complete", [plan(ANSWER, is_complete=True)]),
    Case(
        "in a plan that is complete but acts",
        [plan(REMARK, ACT, is_complete=True), plan(ANSWER, is_complete=True)],
    ),
]


@pytest.mark.parametrize("case", IN_JSON, ids=lambda case: case.text)
def test_in_json_they_do_as_well(case):
    agent = Agent(json_plan(ScriptedModel(case.replies)), [look], force="never")
    events = list(agent.stream("go"))
    assert join_answer(events) == events[-1].answer == ANSWER


@every_provider
def test_a_remark_goes_back_to_the_provider_as_it_came(provider):
    with serve(SPEAKS[provider][0](), says(LOOKS, ANSWER)) as server:
        agent = Agent(model_of(provider, server), [look], force="never", silence="accept")
        events = list(agent.stream("go"))
    outcome = events[-1]
    reply = outcome.turn.replies[0]
    assert reply.text == REMARK
    assert reply.commentary == ""
    assert is_remark(reply)
    assert json.dumps(server.requests[-1]).count(REMARK) == 1
    assert told(events, "answer") == REMARK + ANSWER  # they are shown as they come
    assert join_answer(events) == outcome.answer == ANSWER


# Where a reply is shown.


def test_the_console_shows_a_remark_unlike_the_answer():
    out = io.StringIO()
    terminal = Console(file=out, force_terminal=True, width=60, color_system="standard")
    agent = Agent(ScriptedModel([LOOKS, ANSWER]), [look], force="never", silence="accept")
    with RunView(terminal) as view:
        agent.run("go", on_event=view)
    assert LOOK["commentary"] == ("💬", "dim")
    assert f"\x1b[2m{REMARK}" in out.getvalue()
    assert f"\n{ANSWER}" in out.getvalue()


@pytest.mark.parametrize(
    ("reply", "kinds"),
    [
        (LOOKS, ["commentary", "call"]),
        (Assistant(REMARK, tool_calls=(MORE,)), ["commentary", "thought"]),
        (Assistant(ANSWER), ["answer"]),
        (Assistant(ANSWER, tool_calls=(MORE,), tool_choice="none"), ["thought", "answer"]),
        (Assistant(ANSWER, tool_calls=(DONE,), dialect="json"), ["thought", "answer"]),
        (Assistant(REMARK, tool_calls=(MORE,), dialect="json"), ["commentary", "thought"]),
    ],
)
def test_the_page_of_the_desk_shows_a_remark_as_commentary(reply, kinds):
    assert [row["kind"] for row in rows(reply)] == kinds


def test_the_page_of_the_audit_calls_a_remark_commentary():
    outcome = agent_of(NATIVE[0]).run("go")
    page = to_html(report(outcome.transcript))
    assert "<h4>Commentary</h4>" in page
    assert "<h4>Said</h4>" not in page
    assert Turn.of([User("go"), LOOKS]).last_words == ""

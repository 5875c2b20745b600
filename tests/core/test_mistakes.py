"""Whose mistake it is stays visible. What a tool raises is a result for the model, a Notice with
file and line for whoever watches, and a traceback in the log.
"""

import inspect
import logging

import pytest

from tests.support.agents import agent, of_kind, results
from tests.support.providers import WAYS
from think_agent import NothingDone, Notice, tool
from think_agent.mistakes import place_of
from think_agent.testing import call, think

PRICES = {"ORD-1": {"price": 8900}}


@tool
def refund(order: str) -> int:
    """Refund an order."""
    return PRICES[order]["pirce"]


LINE = inspect.getsourcelines(refund.function)[1] + 3


def watched(*replies, **settings):
    """The texts of the notices of a run, and its outcome."""
    shown = []
    outcome = agent(*replies, **settings).run("go", on_event=shown.append)
    return [notice.text for notice in of_kind(shown, Notice)], outcome


def test_an_error_of_a_tool_has_a_line_for_its_author_and_a_result_for_the_model(caplog):
    notices, outcome = watched(call("refund", order="ORD-1"), "I could not.", tools=[refund])
    assert notices == [f"refund raised KeyError: 'pirce' ({__file__}, line {LINE})"]
    [record] = caplog.records
    assert record.name == "think_agent"
    assert record.levelno == logging.ERROR
    assert record.exc_info[0] is KeyError
    [result] = results(outcome)
    assert result.content.startswith("error: KeyError: 'pirce'")


def test_an_error_inside_a_library_is_placed_in_the_users_own_code(caplog):
    import json

    @tool
    def parse(text: str) -> int:
        """Parse it."""
        return json.loads(text)

    [notice], _ = watched(call("parse", text="{"), "I could not.", tools=[parse])
    line = inspect.getsourcelines(parse.function)[1] + 3
    assert notice.endswith(f"({__file__}, line {line})")


def test_nothing_done_is_a_message_and_no_mistake(caplog):
    @tool
    def buy() -> str:
        """Buy."""
        raise NothingDone("sold out")

    notices, _ = watched(call("buy"), "Sold out.", tools=[buy])
    assert notices == []
    assert not caplog.records


def test_an_error_that_passed_no_code_of_the_user_has_no_place():
    assert place_of(ValueError("never raised")) == ""


@pytest.mark.parametrize("way", WAYS)
def test_on_request_an_error_of_a_tool_is_recorded_and_then_raised(way):
    pays = (think("due"), call("refund", order="ORD-1"))
    desk = agent(pays, "I could not.", tools=[refund], on_tool_error="raise")
    with pytest.raises(KeyError, match="pirce") as raised:
        way(desk, "go")
    transcript = raised.value.transcript
    assert results(transcript)[-1].in_doubt
    outcome = agent(pays, "I could not.", tools=[refund]).resume(transcript)
    assert outcome.exit == "silence"
    assert outcome.answer == "I could not."
    assert len(results(outcome, "refund")) == 1

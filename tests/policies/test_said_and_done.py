"""What a check can know from what a run says, on recorded runs (`tests/said_and_done.py`)."""

import pytest

from tests.said_and_done import confirmed_and_never_called, found
from tests.support.traces import needs_traces
from think_agent import Assistant, Turn, User
from think_agent.testing import call

ASKED = Assistant("I will cancel ABC123. Would you like to proceed?")


@pytest.mark.parametrize(
    ("messages", "is_open"),
    [
        ([ASKED, User("Yes, please."), Assistant("Done!")], True),
        ([ASKED, User("Yes."), Assistant(tool_calls=(call("cancel_reservation"),))], False),
        ([ASKED, User("Yes."), Assistant(tool_calls=(call("transfer_to_human_agents"),))], False),
        ([ASKED, User("Yes."), Assistant(tool_calls=(call("get_user_details"),))], True),
        ([ASKED, User("No, wait."), Assistant("As you like.")], False),
        ([Assistant("Anything else?"), User("Yes, bye."), Assistant("Bye.")], False),
    ],
)
def test_a_confirmed_action_is_open_until_a_write_is_called(messages, is_open):
    turn = Turn.of([User("Cancel it."), *messages])
    assert (confirmed_and_never_called(turn) is not None) == is_open


@needs_traces
def test_text_alone_finds_few_of_the_recorded_failures():
    runs = list(found())
    assert [run.number for run in runs] == [24, 33, 159, 167, 196]
    assert [run.number for run in runs if run.is_right] == [24, 167]

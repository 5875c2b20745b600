"""ScriptedModel: what a reply of its script may be."""

import pytest

from think_agent import Assistant, ModelError, Request, ScriptedModel, User
from think_agent.testing import call

ASKED = Request([User("go")])
CALL = call("look", item="tea")


@pytest.mark.parametrize(
    ("reply", "calls", "text"),
    [
        ("a text", (), "a text"),
        (CALL, (CALL,), ""),
        ((CALL, CALL), (CALL, CALL), ""),
        ([CALL], (CALL,), ""),
        (Assistant("whole"), (), "whole"),
    ],
)
def test_a_reply_is_a_text_some_calls_or_an_assistant(reply, calls, text):
    given = ScriptedModel([reply]).complete(ASKED)
    assert given.tool_calls == calls
    assert given.text == text
    assert ScriptedModel(lambda request: given).complete(ASKED) == given


def test_a_text_alone_is_one_reply_and_a_script_that_is_over_is_an_error():
    model = ScriptedModel("all of it")
    assert model.complete(ASKED).text == "all of it"
    with pytest.raises(ModelError, match=r"has no reply to .*'go'"):
        model.complete(ASKED)


@pytest.mark.parametrize("reply", [None, 3, (CALL, "text"), {"text": "hi"}])
def test_a_reply_of_another_type_is_an_error_that_shows_it(reply):
    with pytest.raises(TypeError, match="isn't a reply: use a text"):
        ScriptedModel([reply]).complete(ASKED)

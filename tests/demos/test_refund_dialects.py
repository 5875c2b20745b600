"""The refund desk on a scripted model without tool calling, in each dialect."""

import json

import pytest

from demos.refund.dialects import speak_dialect
from demos.refund.offline import reply
from demos.refund.session import speak
from demos.refund.shop import Shop
from demos.refund.stand_ins import STAND_INS
from tests.support.commands import run_here
from tests.support.providers import RIGHT, decided
from tests.support.providers import desk as desk_on
from think_agent import THINK_MINIMAL, Agent, Assistant, Force, ToolCall, connect

FOUR = "Please refund ORD-001, ORD-002, ORD-003 and ORD-004"
HOW = {  # how the thoughts came: what a plan reasons beside an action isn't forced
    ("native", "never"): {"volunteered"},
    ("native", "first"): {"forced", "volunteered"},
    ("native", "always"): {"forced"},
    ("json", "never"): {"volunteered"},
    ("json", "first"): {"volunteered"},
    ("json", "always"): {"schema"},
    ("react", "never"): {"volunteered"},
    ("react", "first"): {"volunteered"},
    ("react", "always"): {"volunteered"},  # a request in words
}


def desk(dialect, shop, script=reply, **options):
    model = speak(connect("offline", script=speak_dialect(script, dialect)), dialect)
    return desk_on(model, shop, **options)


@pytest.mark.parametrize(("dialect", "force"), HOW)
def test_four_orders_are_decided_right_behind_thoughts_of_the_right_kind(dialect, force):
    shop = Shop()
    outcome = desk(dialect, shop, force=force).run(FOUR)
    assert decided(shop) == RIGHT
    assert outcome.exit == "signal"
    assert all(order in outcome.answer for order in RIGHT)
    assert all(action.thought for action in outcome.actions)
    assert {action.how for action in outcome.actions} == HOW[dialect, force]


@pytest.mark.parametrize("dialect", ["json", "react"])
def test_the_command_line_speaks_it(dialect):
    done = run_here("demos.refund", FOUR, "--provider", "offline", "--dialect", dialect, "--json")
    data = json.loads(done.stdout)
    assert {d["order_id"]: d["decision"] for d in data["decisions"]} == RIGHT
    assert done.returncode == 0
    assert data["exit"] == "signal"


@pytest.mark.parametrize("dialect", ["native", "json", "react"])
def test_a_script_that_never_thinks_cannot_refund(dialect):
    def hasty(request):
        if request.tool_choice == "none":
            return Assistant(text="Done!")
        arguments = {"order_id": "ORD-001", "decision": "approve", "reason": "asked"}
        return Assistant(tool_calls=(ToolCall("", "process_refund", arguments),))

    shop = Shop()
    outcome = desk(dialect, shop, hasty, force="never").run("Refund ORD-001")
    assert outcome.exit == "gave_up"
    assert shop.decisions() == []


def test_a_conversation_moves_between_the_dialects():
    shop, transcript = Shop(), ()
    dialects = ["native", "json", "react"] * 2
    orders = ["ORD-003", "ORD-001", "ORD-002"] * 2
    for dialect, order in zip(dialects, orders, strict=True):
        text = f"Hello!\n\nRefund {order}, please."
        outcome = desk(dialect, shop).run(text, transcript=transcript)
        transcript = outcome.transcript
        assert outcome.answer.count("ORD-") == 1
    assert [decision.order_id for decision in shop.decisions()] == orders
    rulings = [decision.decision for decision in shop.decisions()]
    assert rulings == ["approve", "approve", "deny", "deny", "deny", "deny"]


@pytest.mark.parametrize("dialect", ["native", "json", "react"])
def test_without_the_exit_signal_a_forced_thought_is_not_yet_the_answer(dialect):
    """Only the answer is left, and the script knows that a thought does not end the run."""
    outcome = desk(dialect, Shop(), STAND_INS["careful"], think=THINK_MINIMAL).run("Hello!")
    forced, answer = [m for m in outcome.transcript if isinstance(m, Assistant)]
    assert forced.tool_choice == Force("think")
    assert [call.name for call in forced.tool_calls] == ["think"]
    assert "No order number" in outcome.thoughts[0]
    assert outcome.exit == "silence"
    assert answer.tool_calls == ()
    assert "Which order is it?" in outcome.answer


@pytest.mark.parametrize("dialect", ["json", "react"])
def test_at_a_limit_it_tells_what_it_has_done(dialect):
    shop = Shop()
    outcome = desk(dialect, shop, max_model_calls=8).run("ORD-001 and ORD-002 and ORD-999")
    assert outcome.exit == "limit"
    assert shop.decisions()[0].order_id == "ORD-001"
    assert "ORD-001 (Laptop Stand): approved" in outcome.answer
    assert "ORD-999: no decision. I could not find this order" in outcome.answer


@pytest.mark.parametrize("dialect", ["json", "react", "native"])
def test_without_a_dialect_the_script_is_played_as_it_is(dialect):
    shop = Shop()
    model = connect("offline", script=speak_dialect(reply, dialect))
    outcome = Agent(model, shop.tools()).run("ORD-003")
    assert [d.decision for d in shop.decisions()] == ["approve"]
    assert outcome.exit == "signal"

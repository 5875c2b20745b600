"""A model says that it is done, and the books say that it is not: on every protocol, in every
dialect, in every way to run, and resumed at every message.

One script does the first of two orders and says that it did both. When the kit asks about the other
order, it does that too. The other script ignores the question.
"""

import json
from dataclasses import replace

import pytest

from demos.refund.checks import checks
from demos.refund.dialects import speaking
from demos.refund.offline import reply
from demos.refund.session import speak
from demos.refund.shop import Shop
from demos.refund.stand_ins import boaster
from tests.servers import serve
from tests.support.combined import combined
from tests.support.providers import SPEAKS, WAYS, desk, every_provider, model_of
from think_agent import ToolResult, User

TWO = "Refund ORD-001 and ORD-003 please"
MISSING = "ORD-003: it was not looked up"
DIALECTS = ("native", "json", "react")
every_dialect = pytest.mark.parametrize("dialect", DIALECTS)


def insists(request):
    """The boaster, but it reads no message after the customer's."""
    customer, *others = request.messages
    since = [message for message in others if not isinstance(message, User)]
    return boaster(replace(request, messages=[customer, *since]))


ENDS = {boaster: ("signal", {"ORD-001", "ORD-003"}), insists: ("unmet", {"ORD-001"})}


@combined(provider=SPEAKS, dialect=DIALECTS, way=WAYS, script=ENDS)
def test_a_false_claim_does_not_end_a_run_as_done(provider, dialect, way, script):
    shop = Shop()
    with serve(SPEAKS[provider][0](), speaking(script, dialect)) as server:
        model = speak(model_of(provider, server), dialect)
        outcome = way(desk(model, shop, done_when=checks(shop)), TWO)
    assert (outcome.exit, shop.decided()) == ENDS[script]
    assert outcome.checks[0].missing == MISSING
    assert (outcome.checks[-1].missing is None) == (outcome.exit == "signal")
    asked = [message.kind for message in outcome.transcript if isinstance(message, User)]
    assert asked == ["person", "check"]


@pytest.mark.slow
@pytest.mark.parametrize("script", ENDS)
@every_dialect
@every_provider
def test_a_run_that_is_resumed_at_any_message_ends_the_same(provider, dialect, script, tmp_path):
    """Each time by another process, which opens the books anew."""
    with serve(SPEAKS[provider][0](), speaking(script, dialect)) as server:

        def agent(shop):
            model = speak(model_of(provider, server), dialect)
            return desk(model, shop, done_when=checks(shop))

        books = Shop()
        whole = agent(books).run(TWO)
        for end in range(1, len(whole.transcript)):
            path = str(tmp_path / f"{end}.db")
            before = whole.transcript[:end]
            record(Shop(path), before)
            shop = Shop(path)
            resumed = agent(shop).resume(before)
            assert (resumed.exit, shop.decided()) == (whole.exit, books.decided())
            found = [(check.name, check.missing) for check in resumed.checks]
            assert found == [(check.name, check.missing) for check in whole.checks]


def record(shop, transcript):
    """What was decided up to here, in the books."""
    for message in transcript:
        if isinstance(message, ToolResult) and message.name == "process_refund":
            receipt = json.loads(message.content)
            shop.process_refund(receipt["order_id"], receipt["decision"], receipt["reason"])


@every_dialect
@every_provider
def test_a_check_that_is_met_does_not_change_the_requests(provider, dialect):
    def sent(is_checked):
        shop = Shop()
        done_when = checks(shop) if is_checked else ()
        with serve(SPEAKS[provider][0](), speaking(reply, dialect)) as server:
            model = speak(model_of(provider, server), dialect)
            outcome = desk(model, shop, done_when=done_when).run(TWO)
            assert (outcome.exit, len(outcome.checks)) == ("signal", int(is_checked))
            return server.requests

    assert sent(is_checked=True) == sent(is_checked=False)

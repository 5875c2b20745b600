"""A model says that it is done, and the books say that it is not: on every protocol, in every
dialect, in every way to run. (Resumed at every message: `tests/core/test_oracle.py`.)

One script does the first of two orders and says that it did both. When the kit asks about the other
order, it does that too. The other script ignores the question.
"""

from dataclasses import replace

from demos.refund.checks import make_checks
from demos.refund.dialects import speak_dialect
from demos.refund.session import speak
from demos.refund.shop import Shop
from demos.refund.stand_ins import boaster
from tests.servers import serve
from tests.support.agents import of_kind
from tests.support.combined import combined
from tests.support.providers import SPEAKS, WAYS, desk, model_of
from tests.support.recording import DIALECTS
from think_agent import User

TWO = "Refund ORD-001 and ORD-003 please"
MISSING = "ORD-003: it was not looked up"


def insists(request):
    """The boaster, but it reads no message after the customer's."""
    customer, *others = request.messages
    since = [message for message in others if not isinstance(message, User)]
    return boaster(replace(request, messages=[customer, *since]))


DECIDED = {boaster: {"ORD-001", "ORD-003"}, insists: {"ORD-001"}}
EXITS = {boaster: "signal", insists: "unmet"}


@combined(provider=SPEAKS, dialect=DIALECTS, way=WAYS, script=DECIDED)
def test_a_false_claim_does_not_end_a_run_as_done(provider, dialect, way, script):
    shop = Shop()
    with serve(SPEAKS[provider][0](), speak_dialect(script, dialect)) as server:
        model = speak(model_of(provider, server), dialect)
        outcome = way(desk(model, shop, done_when=make_checks(shop)), TWO)
    assert outcome.exit == EXITS[script]
    assert shop.list_decided() == DECIDED[script]
    assert outcome.checks[0].missing == MISSING
    assert (outcome.checks[-1].missing is None) == (outcome.exit == "signal")
    asked = [message.kind for message in of_kind(outcome.transcript, User)]
    assert asked == ["person", "check"]

"""A shop books, but its answer comes too late. The model makes the same call again, and there is
one booking. `python -m tests.soak` does the same at random.
"""

import pytest

from tests.support.agents import results
from tests.support.late import late_shop, work


@pytest.fixture
def shop():
    """Its first answer is late."""
    answers = iter([True])
    with late_shop(lambda: next(answers, False)) as shop:
        yield shop


@pytest.mark.parametrize(
    ("with_key", "with_person", "refused"),
    [
        (True, False, ""),  # the shop knows the key, and books nothing new
        (False, True, "person"),  # who looks into the books, and says no
    ],
)
@pytest.mark.parametrize("words", ["as before", "reworded", "defaults"])
def test_a_repeat_of_a_late_booking_books_nothing_new(shop, with_key, with_person, refused, words):
    outcome = work(shop, "Refund ORD-002", with_key=with_key, with_person=with_person, words=words)
    first, second = results(outcome, "process_refund")
    assert first.in_doubt
    assert second.refused == refused
    assert second.is_error == bool(refused)
    assert shop.bookings("ORD-002") == 1
    assert len(shop.keys.get("ORD-002", ())) == with_key


@pytest.mark.parametrize("words", ["as before", "reworded", "defaults"])
def test_without_a_key_and_a_person_a_repeat_of_a_late_booking_waits_for_one(shop, words):
    outcome = work(shop, "Refund ORD-002", with_key=False, with_person=False, words=words)
    assert outcome.exit == "needs_human"
    assert outcome.question.as_new.name == "process_refund"
    assert shop.bookings("ORD-002") == 1

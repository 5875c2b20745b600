"""The cases in which facts have to be put together, judged by hand a second time."""

import asyncio
import json
import re
from collections import Counter
from functools import cache
from typing import NamedTuple

import pytest

from demos.refund import suite
from demos.refund.floors import FLOORS
from demos.refund.suite import RefundCase, prepare
from tests.evaluation.test_cases import by_policy, named
from tests.readme import ROOT
from tests.support.simulated import LINES
from think_agent import ScriptedModel
from think_agent.evaluation.scores import Setting
from think_agent.evaluation.trials import Case, Job, attempt

PATH = ROOT / "demos/refund/joined.jsonl"
CASES = [json.loads(line) for line in PATH.read_text(encoding="utf-8").splitlines()]
BY_ID = {case["id"]: case for case in CASES}


class Facts(NamedTuple):
    """What somebody who has read all notes knows of an order. Where it is None, the look-up is
    right. `ruling`: a further rule decides by itself.
    """

    age: int | None = None
    days: int = 30  # the window
    final: bool | None = None
    refunded: bool | None = None
    cents: int | None = None
    ruling: str = ""


KNOWN = {
    701: Facts(age=41),
    703: Facts(age=27),
    705: Facts(age=30),
    708: Facts(age=34),
    711: Facts(age=22),
    712: Facts(ruling="deny"),
    713: Facts(age=29),
    715: Facts(age=24),
    717: Facts(age=31),
    719: Facts(age=29),
    724: Facts(age=10),
    726: Facts(age=28),
    728: Facts(days=45),
    732: Facts(days=45),
    735: Facts(days=45),
    738: Facts(days=45),
    740: Facts(days=45),
    742: Facts(ruling="escalate"),
    743: Facts(ruling="approve"),
    744: Facts(ruling="approve"),
    746: Facts(days=14),
    747: Facts(days=60),
    748: Facts(days=61),
    749: Facts(days=61),
    750: Facts(age=30),
    752: Facts(cents=15300),
    754: Facts(final=False),
    755: Facts(refunded=False),
    757: Facts(final=True),
}


def decided(order: dict, facts: Facts) -> str:
    """The five rules of the policy, by what is known."""
    if facts.ruling:
        return facts.ruling
    refunded = order.get("refunded_days_ago") is not None
    if refunded if facts.refunded is None else facts.refunded:
        return "deny"
    if order.get("final_sale", False) if facts.final is None else facts.final:
        return "deny"
    if (order["days_ago"] if facts.age is None else facts.age) > facts.days:
        return "deny"
    cents = order["price_cents"] if facts.cents is None else facts.cents
    return "escalate" if cents > 50000 else "approve"


def with_quotas(case: dict, right: dict[str, str]) -> dict[str, str]:
    """The rules that look at all orders of a request."""
    prices = {order["id"]: order["price_cents"] for order in case["orders"]}
    good = sorted((o for o in right if right[o] == "approve"), key=prices.__getitem__)
    [rule] = case["rules"]
    if rule.startswith("At most two"):
        return right | dict.fromkeys(good[2:], "escalate")
    if rule.startswith("If exactly one"):
        return right | dict.fromkeys(good, "escalate") if len(good) == 1 else right
    total = 0
    for order in reversed(good):
        if total + prices[order] > 50000:
            right = right | {order: "escalate"}
        else:
            total += prices[order]
    return right


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_the_expected_decisions_are_those_of_a_second_judge(case):
    right = {}
    for order in case["orders"]:
        if order["id"] in named(case):
            right[order["id"]] = decided(order, KNOWN.get(int(order["id"][4:]), Facts()))
    if case["kind"] == "quotas":
        right = with_quotas(case, right)
    assert case["expected"] == right


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_each_case_has_its_rules_and_its_reason_beside_it(case):
    RefundCase.model_validate(case)
    assert case["rules"]
    assert case["because"].endswith(".")
    assert not case.get("easy")
    assert case["tools"] == {"check_refund_policy": "gone"}
    told = prepare(case, enforce=False).instructions
    assert all(rule in told for rule in case["rules"])
    assert case["because"] not in told  # no model reads it


def test_there_are_38_of_them_apart_from_the_old_ones():
    kinds = Counter(case["kind"] for case in CASES)
    assert len(CASES) == 38
    assert min(kinds.values()) == 6
    assert not kinds.keys() & {line["kind"] for line in LINES}
    assert not {case["text"] for case in CASES} & {line["text"] for line in LINES}
    assert len({case["text"] for case in CASES}) == 38


@pytest.mark.parametrize("kind", ["exchanges", "parcels", "households"])
def test_in_these_kinds_an_order_without_a_mention_decides(kind):
    """In most of their cases: it tells some of them apart."""
    cases = [case for case in CASES if case["kind"] == kind]
    joined = [case for case in cases if {o["id"] for o in case["orders"]} - named(case)]
    assert len(joined) >= 4
    for case in joined:
        mentioned = set(re.findall(r"ORD-\d+", " ".join(o.get("note", "") for o in case["orders"])))
        assert {order["id"] for order in case["orders"]} - named(case) <= mentioned


def test_no_kind_is_all_of_one_decision():
    for kind in {case["kind"] for case in CASES}:
        decisions = Counter()
        for case in CASES:
            if case["kind"] == kind:
                decisions.update(case["expected"].values())
        assert max(decisions.values()) <= 0.75 * decisions.total()


def test_in_most_cases_the_five_rules_alone_are_wrong():
    misled = 0
    for case in CASES:
        asked = [order for order in case["orders"] if order["id"] in named(case)]
        misled += case["expected"] != {o["id"]: by_policy(o, {"rules": ()}) for o in asked}
    assert misled >= 25


@cache
def right_of(name: str) -> int:
    setting = Setting(f"floor:{name}", think="none", cover="none")
    right = 0
    for line in CASES:
        job = Job(setting, Case.model_validate(line), 1)
        right += asyncio.run(attempt(job, ScriptedModel(FLOORS[name]), suite)).right
    return right


@pytest.mark.parametrize("name", FLOORS)
def test_no_floor_is_right_on_more_than_two_cases_of_five(name):
    """Also not the one that decides all hard cases."""
    assert right_of(name) <= 0.4 * len(CASES)

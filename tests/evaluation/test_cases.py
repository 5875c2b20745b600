"""The refund cases, judged by hand a second time, and the desk as a suite."""

import re
from collections import Counter

import pytest

from demos.refund import suite
from demos.refund.floors import FLOORS
from demos.refund.shop import INSTRUCTIONS, allowed_decision
from demos.refund.suite import ADVICE, TASK, CaseShop, RefundCase, prepare
from tests.support.simulated import LINES
from think_agent import Agent, ScriptedModel, Turn
from think_agent.evaluation.scores import Setting
from think_agent.evaluation.trials import Case, Job, Suite, attempt, prepared
from think_agent.testing import call, think

HARD = ("many", "conditions", "bundles", "outages", "argues")


def has_rule(case: dict, words: str) -> bool:
    return any(words in rule for rule in case.get("rules", ()))


def by_policy(order: dict, case: dict) -> str:
    """The policy in policy.md, rule by rule, with the further rules about single orders."""
    note = order.get("note", "")
    faulty = has_rule(case, "workshop has confirmed") and "fault confirmed" in note
    days = 30
    if has_rule(case, "45 days") and "gold member" in note:
        days = 45
    if has_rule(case, "within 7 days") and re.search("food|cosmetics", note):
        days = 7
    if faulty:
        days = 60
    if order.get("refunded_days_ago") is not None:
        return "deny"
    if order.get("final_sale") and not faulty:
        return "deny"
    if order["days_ago"] > days:
        return "deny"
    return "escalate" if order["price_cents"] > 50000 else "approve"


def by_all_rules(case: dict) -> dict[str, str]:
    """The decisions on the orders that are named, with the rules across orders."""
    orders = {order["id"]: order for order in case["orders"] if order["id"] in named(case)}
    right = {number: by_policy(order, case) for number, order in orders.items()}
    if has_rule(case, "sold as one set"):
        for number, order in orders.items():
            same = re.search(r"set \d+", order.get("note", ""))
            for other in orders:
                is_set = same and same[0] in orders[other].get("note", "")
                if is_set and by_policy(orders[other], case) == "deny":
                    right[number] = "deny"
    if has_rule(case, "added up"):
        left = [number for number in orders if right[number] != "deny"]
        if sum(orders[number]["price_cents"] for number in left) > 50000:
            right |= dict.fromkeys(left, "escalate")
    return right


def named(case: dict) -> set[str]:
    said = " ".join([case["text"], *case.get("then", ())])
    return {number.upper() for number in re.findall(r"\bORD-\d+\b", said, re.IGNORECASE)}


def test_there_are_120_cases_in_15_kinds_and_half_of_them_are_hard():
    kinds = Counter(case["kind"] for case in LINES)
    assert (len(LINES), len(kinds), min(kinds.values())) == (120, 15, 4)
    assert sum(kinds[kind] for kind in HARD) == 60
    assert len({case["text"] for case in LINES}) == 120


@pytest.mark.parametrize("case", LINES, ids=lambda case: case["id"])
def test_the_expected_rows_are_those_of_the_policy(case):
    RefundCase.model_validate(case)
    states = {t: s for t, s in case.get("tools", {}).items() if s in ("fails", "gone")}
    is_hard = case["kind"] in HARD
    assert is_hard == (case.get("tools", {}).get("check_refund_policy") == "gone")
    states.pop("check_refund_policy", None) if is_hard else None
    right = {} if states else by_all_rules(case)
    assert case["expected"] == right


@pytest.mark.parametrize("case", LINES, ids=lambda case: case["id"])
def test_the_shop_agrees_where_there_are_no_further_rules(case):
    shop = CaseShop(RefundCase.model_validate(case), enforce=True)
    for order in case["orders"]:
        seen = shop.order(order["id"])
        if not case.get("rules"):
            assert allowed_decision(seen)[0] == by_policy(order, case)
        assert shop.allowed(seen)[0] == case["expected"].get(order["id"], allowed_decision(seen)[0])


def test_no_kind_is_all_of_one_decision():
    """Or a script that always says the same would be good at it."""
    for kind in HARD:
        decisions = Counter(d for c in LINES if c["kind"] == kind for d in c["expected"].values())
        assert decisions.most_common(1)[0][1] <= 0.6 * decisions.total()


# The desk as a suite.


def test_the_task_is_the_policy_without_a_word_about_thinking():
    policy = INSTRUCTIONS.read_text(encoding="utf-8").splitlines()
    task = TASK.splitlines()
    left_out = [line for line in policy if line not in task]
    assert 1 <= len(left_out) <= 3
    assert all("`think`" in line or "think once more" in line for line in left_out)
    assert [line for line in policy if line not in left_out] == task


def test_advice_names_no_tool_and_no_argument():
    assert "`" not in ADVICE
    assert "should_continue" not in ADVICE


def world(kind: str, number: int = 1, *, enforce: bool = False):
    line = next(line for line in LINES if line["id"] == f"{kind}-{number}")
    return prepare(line, enforce=enforce)


def test_further_rules_stand_in_the_task_with_their_numbers():
    told = world("bundles", 9).instructions
    rules = re.findall(r"^\d\. ", told, re.MULTILINE)
    assert rules[:7] == [f"{number}. " for number in range(1, 8)]
    assert "where one of them and a rule above disagree" in told.lower()
    assert told.index("7. ") < told.index("# How to answer")


def tools_of(made) -> dict:
    return {tool.name: tool for tool in made.tools}


def test_a_broken_tool_fails_as_often_as_the_case_says():
    def outcomes(kind, number, tool, **arguments):
        function = tools_of(world(kind, number))[tool].function
        found = []
        for _ in range(3):
            try:
                function(**arguments)
                found.append("works")
            except suite.Outage as error:
                found.append("down" if "down for today" in str(error) else "once more")
        return found

    order = next(line for line in LINES if line["id"] == "outages-1")["orders"][0]["id"]
    look = {"tool": "lookup_order", "order_id": order}
    assert outcomes("outages", 1, **look) == ["once more", "works", "works"]
    assert outcomes("outages", 2, "lookup_order", order_id="ORD-389") == [
        "once more",
        "once more",
        "works",
    ]
    assert outcomes("outages", 8, "lookup_order", order_id="ORD-401") == ["down"] * 3


def test_the_shop_trusts_the_model_unless_it_is_asked_to_enforce():
    wrong = {"order_id": "ORD-102", "decision": "approve", "reason": "why not"}
    trusting, strict = world("plain", 2), world("plain", 2, enforce=True)
    tools_of(trusting)["process_refund"].function(**wrong)
    assert trusting.check() == suite.Check(False, 1, ("ORD-102 approve",))
    with pytest.raises(suite.ShopError, match="Allowed: deny"):
        tools_of(strict)["process_refund"].function(**wrong)
    assert strict.check() == suite.Check(False, 1, ())


def test_a_second_decision_on_an_order_is_one_too_many():
    made = world("plain", 2)
    decide = tools_of(made)["process_refund"].function
    decide(order_id="ORD-102", decision="deny", reason="late")
    assert made.check().right
    decide(order_id="ORD-102", decision="deny", reason="late, again")
    assert made.check() == suite.Check(False, 1, ("ORD-102 deny", "ORD-102 deny"))


def test_the_check_of_done_when_names_orders_that_were_seen_and_not_decided():
    made = world("several", 1)
    [check] = made.done_when
    look = [call("lookup_order", order_id=f"ORD-11{n}") for n in (1, 2)]
    rules = [call("check_refund_policy", order_id=f"ORD-11{n}") for n in (1, 2)]
    deny = call("process_refund", order_id="ORD-112", decision="deny", reason="late")

    def turn(*replies) -> Turn:
        model = ScriptedModel([*replies, "Done."])
        return Agent(model, made.tools, silence="accept").run("Refund both").turn

    assert check(turn(think("Look."), look)) is None
    assert check(turn(think("Look."), look, rules[:1])) == "ORD-111: no decision is recorded"
    seen = turn(think("Look."), look, rules, think("Decide."), [deny])
    assert check(seen) == "ORD-111: no decision is recorded"
    hard = world("many", 1)
    [check] = hard.done_when
    order = next(line for line in LINES if line["id"] == "many-1")["orders"][0]["id"]
    replies = [think("Look."), [call("lookup_order", order_id=order.lower())], "Done."]
    seen = Agent(ScriptedModel(replies), hard.tools, silence="accept").run("Refund it").turn
    assert check(seen) == f"{order}: no decision is recorded"


# Floors: what it takes nothing to be right on.


@pytest.fixture(scope="module")
def floors() -> dict[str, dict[str, bool]]:
    """Which cases each floor gets right, with a shop that trusts it, and with one that does not."""
    import asyncio

    found = {}
    for name, enforce in [*((name, "off") for name in FLOORS), ("follow-the-refusal", "on")]:
        setting = Setting(f"offline:{name}", think="none", cover="none", enforce=enforce)
        model = ScriptedModel(FLOORS[name])
        jobs = [Job(setting, Case.model_validate(line), 1) for line in LINES]
        results = [asyncio.run(attempt(job, model, suite)) for job in jobs]
        found[name, enforce] = {result.case: result.right for result in results}
    return found


@pytest.mark.parametrize("name", FLOORS)
def test_no_floor_comes_near_where_the_shop_trusts_the_model(floors, name):
    right = floors[name, "off"]
    hard = [is_right for case, is_right in right.items() if case.rpartition("-")[0] in HARD]
    assert 0 < sum(right.values()) <= 0.3 * len(LINES)
    assert sum(hard) <= 0.25 * len(hard)


def test_a_shop_that_refuses_gives_the_answer_away(floors):
    """The reason for the default: who does what the refusal says, never having looked, is right."""
    easy = [case for case in LINES if case["kind"] not in HARD]
    right = floors["follow-the-refusal", "on"]
    assert sum(right[case["id"]] for case in easy) >= 0.9 * len(easy)
    trusted = floors["follow-the-refusal", "off"]
    assert sum(trusted[case["id"]] for case in easy) <= 0.5 * len(easy)


# Every prompt fits its tools.


@pytest.mark.parametrize("dialect", ["native", "json", "react"])
@pytest.mark.parametrize("cover", ["gate", "carry", "none"])
@pytest.mark.parametrize("think", ["on", "minimal", "none"])
def test_advice_asks_for_what_is_there(think, cover, dialect):
    if think == "none" and cover == "gate":
        return  # there is no such agent
    setting = Setting("p", think=think, cover=cover, dialect=dialect, advice="on")
    _, agent = prepared(Job(setting, CASE, 1), ScriptedModel("x"), suite)
    told = agent.settings.instructions
    task = prepare(LINES[0], enforce=False).instructions
    assert told.startswith(f"{task.strip()}\n\n{ADVICE.strip()}")
    where = told.splitlines()[-1]
    shown = {tool.name: tool.parameters["properties"] for tool in agent.settings.shown}
    assert ("`think`" in where) <= ("think" in shown)
    assert ("argument `thought`" in where) == (cover == "carry")
    assert "should_continue" not in told
    if dialect != "native" and think != "none" and cover != "carry":
        assert {"json": "`reasoning`", "react": "Thought"}[dialect] in where


CASE = Case.model_validate(LINES[0])


def test_a_suite_without_advice_says_so():
    bare = Suite(prepare=prepare, STAND_INS={})
    with pytest.raises(ValueError, match="this suite has no ADVICE"):
        prepared(Job(Setting("p", advice="on"), CASE, 1), ScriptedModel("x"), bare)

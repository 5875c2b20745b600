"""The refund cases, judged by hand a second time, and the desk as a suite."""

import asyncio
import re
from collections import Counter
from functools import cache

import pytest

from demos.refund import suite
from demos.refund.floors import FLOORS
from demos.refund.shop import INSTRUCTIONS, find_allowed_decision
from demos.refund.suite import ADVICE, TASK, CaseShop, RefundCase, prepare
from tests.evaluation.conftest import EASY, HARD, cases_of, ids
from tests.support.simulated import LINES
from think_agent import THINK, Agent, Force, Request, ScriptedModel, ToolResult, User
from think_agent.dialects import in_dialect
from think_agent.evaluation.scores import Setting
from think_agent.evaluation.trials import Case, Job, Suite, attempt, prepare_trial
from think_agent.testing import call, think
from think_agent.wire.forms import form_of


def has_rule(case: dict, words: str) -> bool:
    return any(words in rule for rule in case.get("rules", ()))


def by_policy(order: dict, case: dict) -> str:
    """The decision on one order: the rules of policy.md, and the further rules for one order."""
    note = order.get("note", "")
    faulty = has_rule(case, "workshop has confirmed") and "fault confirmed" in note
    days = 30
    if has_rule(case, "45 days") and "gold member" in note:
        days = 45
    if has_rule(case, "within 7 days") and re.search("food|cosmetics", note):
        days = 7
    if faulty:
        days = 60
    final = order.get("final_sale") and not faulty
    if final or order.get("refunded_days_ago") is not None or order["days_ago"] > days:
        return "deny"
    if order["price_cents"] > 50000:
        return "escalate"
    return "approve"


def in_one_set(orders: list[dict]) -> Counter:
    """How many of these orders belong to each set."""
    notes = " ".join(order.get("note", "") for order in orders)
    return Counter(re.findall(r"set \d+", notes))


def by_all_rules(case: dict) -> dict[str, str]:
    """The decisions on the named orders, with the rules across orders."""
    orders = [order for order in case["orders"] if order["id"] in named(case)]
    right = {order["id"]: by_policy(order, case) for order in orders}
    denied = in_one_set([order for order in orders if right[order["id"]] == "deny"])
    for order in orders:
        if has_rule(case, "sold as one set") and in_one_set([order]) & denied:
            right[order["id"]] = "deny"
    left = [order for order in orders if right[order["id"]] != "deny"]
    if has_rule(case, "added up") and sum(order["price_cents"] for order in left) > 50000:
        right |= dict.fromkeys([order["id"] for order in left], "escalate")
    return right


def named(case: dict) -> set[str]:
    text = " ".join([case["text"], *case.get("then", ())])
    return {number.upper() for number in re.findall(r"\bORD-\d+\b", text, re.IGNORECASE)}


def test_there_are_120_cases_in_15_kinds_and_half_of_them_are_hard():
    kinds = Counter(case["kind"] for case in LINES)
    assert len(LINES) == 120
    assert len(kinds) == 15
    assert min(kinds.values()) == 4
    assert sum(kinds[kind] for kind in HARD) == 60
    assert len({case["text"] for case in LINES}) == 120


@pytest.mark.parametrize("case", LINES, ids=lambda case: case["id"])
def test_the_expected_rows_are_those_of_the_policy(case):
    RefundCase.model_validate(case)
    states = dict(case.get("tools", {}))
    is_hard = case["kind"] in HARD
    assert is_hard == (states.get("check_refund_policy") == "gone")
    if is_hard:
        del states["check_refund_policy"]
    right = by_all_rules(case)
    if {"fails", "gone"} & set(states.values()):
        right = {}
    assert case["expected"] == right


@pytest.mark.parametrize("case", LINES, ids=lambda case: case["id"])
def test_the_shop_agrees_where_there_are_no_further_rules(case):
    shop = CaseShop(RefundCase.model_validate(case), enforce=True)
    for order in case["orders"]:
        seen = shop.order(order["id"])
        if not case.get("rules"):
            assert find_allowed_decision(seen)[0] == by_policy(order, case)
        allowed, _ = find_allowed_decision(seen)
        expected = case["expected"].get(order["id"], allowed)
        assert shop.find_allowed_decision(seen)[0] == expected


def test_no_kind_is_all_of_one_decision():
    """Otherwise a script that always decides the same would do well."""
    for kind in HARD:
        decisions = Counter()
        for case in cases_of(kind):
            decisions.update(case["expected"].values())
        assert max(decisions.values()) <= 0.6 * decisions.total()


# The desk as a suite.


def test_the_task_is_the_policy_without_a_word_about_thinking():
    policy = INSTRUCTIONS.read_text(encoding="utf-8").splitlines()
    task = TASK.splitlines()
    assert 1 <= len(policy) - len(task) <= 3
    for line in set(policy) - set(task):
        assert re.search("`think`|think once more", line)
        policy.remove(line)
    assert policy == task


def test_advice_names_no_tool_and_no_argument():
    assert "`" not in ADVICE
    assert "should_continue" not in ADVICE


BY_ID = {line["id"]: line for line in LINES}


def world(kind: str, number: int = 1, *, enforce: bool = False):
    return prepare(BY_ID[f"{kind}-{number}"], enforce=enforce)


def test_further_rules_stand_in_the_task_with_their_numbers():
    told = world("bundles", 9).instructions
    rules = re.findall(r"^\d\. ", told, re.MULTILINE)
    assert rules[:7] == [f"{number}. " for number in range(1, 8)]
    assert "where one of them and a rule above disagree" in told.lower()
    assert told.index("7. ") < told.index("# How to answer")


def tools_of(made) -> dict:
    return {tool.name: tool for tool in made.tools}


@pytest.mark.parametrize(
    ("case", "outcomes"),
    [
        ("outages-1", ["once more", "works", "works"]),
        ("outages-2", ["once more", "once more", "works"]),
        ("outages-8", ["down for today"] * 3),
    ],
)
def test_a_broken_tool_fails_as_often_as_the_case_says(case, outcomes):
    tools = tools_of(prepare(BY_ID[case], enforce=False))
    order = BY_ID[case]["orders"][0]["id"]
    for outcome in outcomes:
        try:
            tools["lookup_order"].function(order_id=order)
            text = "works"
        except suite.ShopOutage as error:
            text = str(error)
        assert outcome in text


def test_the_shop_trusts_the_model_unless_it_is_asked_to_enforce():
    wrong = {"order_id": "ORD-102", "decision": "approve", "reason": "why not"}
    trusting, strict = world("plain", 2), world("plain", 2, enforce=True)
    tools_of(trusting)["process_refund"].function(**wrong)
    assert trusting.check() == suite.WorldCheck(False, 1, ("ORD-102 approve",))
    with pytest.raises(suite.ShopError, match="Allowed: deny"):
        tools_of(strict)["process_refund"].function(**wrong)
    assert strict.check() == suite.WorldCheck(False, 1, ())


def test_a_second_decision_on_an_order_is_one_too_many():
    made = world("plain", 2)
    decide = tools_of(made)["process_refund"].function
    decide(order_id="ORD-102", decision="deny", reason="late")
    assert made.check().right
    decide(order_id="ORD-102", decision="deny", reason="late, again")
    assert made.check() == suite.WorldCheck(False, 1, ("ORD-102 deny", "ORD-102 deny"))


def missing_after(made, *replies) -> str | None:
    """What the check of this world finds missing after a thought and these replies."""
    [check] = made.done_when
    model = ScriptedModel([think("Look."), *replies, "Done."])
    return check(Agent(model, made.tools, silence="accept").run("Refund both").turn)


def test_the_check_of_done_when_names_orders_that_were_seen_and_not_decided():
    easy = world("several")
    look = [call("lookup_order", order_id=f"ORD-11{n}") for n in (1, 2)]
    rules = [call("check_refund_policy", order_id=f"ORD-11{n}") for n in (1, 2)]
    deny = call("process_refund", order_id="ORD-112", decision="deny", reason="late")
    missing = "ORD-111: no decision is recorded"
    assert missing_after(easy, look) is None
    assert missing_after(easy, look, rules[:1]) == missing
    assert missing_after(easy, look, rules, think("Decide."), deny) == missing
    order = BY_ID["many-1"]["orders"][0]["id"]
    look_up = call("lookup_order", order_id=order.lower())
    assert missing_after(world("many"), look_up) == f"{order}: no decision is recorded"


# Floors: what it takes nothing to be right on.


@cache
def floor(name: str, enforce: str = "off") -> set[str]:
    """The cases that a floor gets right, with a shop that trusts it or one that refuses."""
    setting = Setting(f"offline:{name}", think="none", cover="none", enforce=enforce)
    return right_of(setting, FLOORS[name])


def right_of(setting, script) -> set[str]:
    """The cases that a script gets right under a setting."""
    right = set()
    for line in LINES:
        job = Job(setting, Case.model_validate(line), 1)
        if asyncio.run(attempt(job, ScriptedModel(script), suite)).right:
            right.add(line["id"])
    return right


@pytest.mark.parametrize("name", [name for name in FLOORS if name != "text-matcher"])
def test_no_floor_is_right_on_more_than_two_hard_cases_of_five(name):
    """And five rules decide the easy half, which is why it is not compared (README)."""
    right = floor(name)
    assert 0 < len(right - ids(EASY)) <= 0.4 * 60
    assert (len(right & ids(EASY)) == 58) == (name == "five-rules")
    assert ids(EASY) == {line["id"] for line in LINES if line.get("easy")}


def test_a_program_that_matches_texts_decides_every_hard_case():
    """It was written for them: a hard case does not need a thought, it needs its rules (README)."""
    right = floor("text-matcher")
    assert len(right - ids(EASY)) == 60
    assert len(right & ids(EASY)) == 59


def test_a_script_is_no_better_than_the_floor_that_decides_as_it_does():
    right = right_of(Setting("offline:careful"), suite.STAND_INS["careful"])
    assert right == floor("five-rules")


def test_a_shop_that_refuses_gives_the_answer_away():
    """The reason for the default: a script that only does what the refusal says is right."""
    assert len(floor("follow-the-refusal", "on") & ids(EASY)) >= 0.9 * 60
    assert len(floor("follow-the-refusal") & ids(EASY)) <= 0.5 * 60


# Every prompt fits its tools.


CASE = Case.model_validate(LINES[0])


@pytest.mark.parametrize(
    ("think", "cover", "dialect", "where"),
    [
        ("on", "gate", "native", "in a call of the tool `think`"),
        ("minimal", "none", "native", "in a call of the tool `think`"),
        ("on", "gate", "json", "in `reasoning`"),
        ("minimal", "gate", "react", "in a Thought"),
        ("on", "carry", "native", "in the argument `thought` of the call"),
        ("none", "carry", "json", "in the argument `thought` of the call"),
        ("none", "none", "native", "in your reply, before the call"),
        ("none", "none", "react", "in your reply, before the call"),
        ("on", "gate", "default", "in a call of the tool `think`"),
        (
            "on",
            "gate",
            "auto",
            "in a call of the tool `think`, or in `reasoning` if you write plans",
        ),
    ],
)
def test_advice_asks_for_what_is_there(think, cover, dialect, where):
    setting = Setting("p", think=think, cover=cover, dialect=dialect, advice="on")
    model = ScriptedModel("x")
    if dialect == "auto":
        model = in_dialect(model, dialect)
    world, agent = prepare_trial(setting, CASE, model, suite)
    told = f"{world.instructions.strip()}\n\n{ADVICE.strip()}\n\nDo this {where}."
    assert agent.instructions == told
    assert (agent.shown[0].name == "think") == (think != "none")


def test_silent_advice_has_no_place_to_write():
    setting = Setting("p", think="none", cover="none", advice="silent")
    _, agent = prepare_trial(setting, CASE, ScriptedModel("x"), suite)
    assert agent.instructions.endswith("Do this for yourself, before you call a tool.")


def test_a_brief_think_tool_says_so_and_a_form_keeps_to_it():
    _, agent = prepare_trial(Setting("p", think="brief"), CASE, ScriptedModel("x"), suite)
    [brief, *_] = agent.shown
    assert brief.description == f"{THINK.description} Write at most 25 words."
    assert agent._can_signal
    asked = [User("Refund it."), ToolResult("a", "lookup_order", "shipped")]
    form = form_of(Request(asked, agent.shown, tool_choice=Force("think")))
    assert form["properties"]["thought"]["maxLength"] == 180
    assert form["required"] == ["thought", "should_continue"]
    with pytest.raises(ValueError, match=r"think=brief .* only native"):
        prepare_trial(Setting("p", think="brief", dialect="json"), CASE, None, suite)


def test_a_suite_without_advice_says_so():
    bare = Suite(prepare=prepare, STAND_INS={})
    with pytest.raises(ValueError, match="this suite has no ADVICE"):
        prepare_trial(Setting("p", advice="on"), CASE, ScriptedModel("x"), bare)

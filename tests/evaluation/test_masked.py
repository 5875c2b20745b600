"""Cases in which one tool is masked: whether they can be done, and how a run of them ended."""

import json
from collections import Counter

import pytest

from demos.refund.suite import RefundCase, prepare
from tests.evaluation.conftest import plan, played
from tests.evaluation.test_cases import by_all_rules, by_policy
from tests.evaluation.values import FIRST, NEVER, closed, failed, result
from tests.readme import ROOT
from think_agent import Assistant
from think_agent.evaluation.report import report_results
from think_agent.testing import call, think

PATH = ROOT / "demos/refund/masked.jsonl"
CASES = [json.loads(line) for line in PATH.read_text(encoding="utf-8").splitlines()]
MASKED = {
    "no-books": "process_refund",
    "no-note": "lookup_order",
    "no-check": "check_refund_policy",
}


def test_there_are_ten_cases_of_each_masked_tool():
    assert Counter(case["kind"] for case in CASES) == dict.fromkeys(MASKED, 10)
    assert len({case["text"] for case in CASES}) == len(CASES)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_one_tool_is_masked_and_the_case_says_whether_it_can_be_done(case):
    RefundCase.model_validate(case)
    tool = MASKED[case["kind"]]
    assert case["tools"] == {tool: "gone"}
    assert tool not in {each.name for each in prepare(case, enforce=False).tools}
    can_be_done = case["kind"] == "no-check"
    assert case.get("cannot", False) != can_be_done
    assert case["expected"] == (by_all_rules(case) if can_be_done else {})
    assert case["because"]


@pytest.mark.parametrize(
    "case", [c for c in CASES if c["kind"] == "no-note"], ids=lambda c: c["id"]
)
def test_without_the_note_no_case_can_be_decided(case):
    """With another note, the decision on one of the orders would be another one."""
    notes = (
        "",
        "gold member",
        "category: food",
        "category: cosmetics",
        "workshop report 9: fault confirmed",
    )
    for order in case["orders"]:
        decisions = {by_policy({**order, "note": note}, case) for note in notes}
        if len(decisions) > 1:
            return
    pytest.fail("every order can be decided without its note")


@pytest.mark.parametrize(
    ("cannot", "fields", "end"),
    [
        (True, {"exit": "cannot"}, "timely"),
        (True, {"exit": "cannot", "wrong_writes": 1}, "late"),
        (True, {"exit": "limit"}, "late"),
        (True, {"exit": "budget"}, "late"),
        (True, {"exit": "gave_up"}, "late"),
        (True, {"exit": "unmet"}, "late"),
        (True, {"exit": "bad request"}, "late"),
        (True, {"exit": "signal"}, "unsaid"),
        (True, {"exit": "silence", "wrong_writes": 2}, "unsaid"),
        (False, {"exit": "cannot"}, "false"),
        (False, {"exit": "signal"}, None),
        (False, {"exit": "limit"}, None),
        (True, {"error": "busy"}, None),
        (True, {"exit": "no outcome"}, None),
    ],
)
def test_an_end_is_timely_late_unsaid_or_false(cannot, fields, end):
    assert result("a", False, cannot=cannot, **fields).end == end


def test_ends_are_a_table_of_their_own():
    ends = {"a": "cannot", "b": "limit", "c": "signal", "d": "cannot", "e": "cannot"}
    own = [result(case, True, exit=exit, cannot=case < "e") for case, exit in ends.items()]
    own += [closed("f"), failed("g"), result("h", True, exit="signal")]
    other = [result("e", True, setting=NEVER, exit="cannot")]
    sections = {section.name: section for section in report_results({FIRST: own, NEVER: other})}
    assert sections["Cases that cannot be done"].rows == [
        ["setting", "timely", "late", "unsaid", "false"],
        ["force=first", "2/4 (50%)", "1/4 (25%)", "1/4 (25%)", "1/2 (50%)"],
        ["force=never", "-", "-", "-", "1/1 (100%)"],
    ]


def test_without_such_a_case_or_exit_there_is_no_such_table():
    names = [
        section.name for section in report_results({FIRST: [result("a", True, exit="signal")]})
    ]
    assert names == ["Decisions", "How", "Kinds of cases", ""]


def test_a_model_that_goes_on_is_late_and_one_that_says_done_is_unsaid(out):
    """One calls the missing tool again and again, the other one says that it did the work."""

    def insist(request):
        refund = call("process_refund", order_id="ORD-601", decision="approve", reason="so")
        return Assistant(tool_calls=(think("Again."), refund))

    def boast(request):
        return Assistant("Your refund is on its way.")

    for name, script, end in (("a", insist, "late"), ("b", boast, "unsaid")):
        found = played(script, PATH, force=["never"], silence=["accept"], out=out.with_name(name))
        [own] = found.select_results().values()
        ends = {one.end for one in own if one.kind == "no-books"}
        assert ends == {end}


def test_what_cannot_be_done_is_in_the_file(out):
    evaluation = plan(PATH, provider=["offline:silent"], out=out)
    evaluation.run()
    [own] = evaluation.select_results().values()
    assert sum(one.cannot for one in own) == 20
    assert sum(json.loads(line).get("cannot", False) for line in out.read_text().splitlines()) == 20


def test_a_model_that_may_say_so_ends_in_time_and_only_where_it_cannot(out):
    """The same script without the third value of the signal has no way to say it."""
    evaluation = plan(PATH, provider=["offline:candid"], think=["on", "cannot"], out=out)
    evaluation.run()
    on, cannot = evaluation.select_results().values()
    assert Counter(one.end for one in on) == {"unsaid": 20, None: 10}
    assert Counter(one.end for one in cannot) == {"timely": 20, None: 10}
    assert {one.exit for one in cannot if one.cannot} == {"cannot"}
    assert {one.case for one in cannot if one.right} >= {c["id"] for c in CASES if c.get("cannot")}

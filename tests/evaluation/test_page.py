"""The page of an evaluation: the picture has the shares of the table, and all of the report."""

import html
import itertools

from tests.evaluation.values import FIRST, FLOOR, NEVER, result, results_of
from think_agent.evaluation.page import describe_results, kinds, panels, results_to_html
from think_agent.evaluation.report import report_results
from think_agent.evaluation.scores import Setting
from think_agent.text import sanitize


def easy(setting: Setting, right: str) -> list:
    return [result(case, case in right, setting=setting, easy=True) for case in "xyz"]


RESULTS = results_of({FIRST: "abc", NEVER: "a", FLOOR: ""}, "abcd")
BOTH = {setting: [*own, *easy(setting, "x")] for setting, own in RESULTS.items()}


def test_each_dot_is_the_share_in_the_table():
    hard, simple = panels(BOTH)
    header, *rows = report_results(BOTH)[0].rows
    column = header.index("pass^1")
    marks = [*hard.dots, *hard.lines]
    assert [(mark.name, str(mark.share)) for mark in marks] == [
        (row[0], row[column]) for row in rows
    ]
    page = results_to_html(BOTH, report_results(BOTH))
    assert [f'class="dot" style="--at: {at}"' in page for at in (75.0, 25.0)] == [True, True]
    assert [mark.share.value for mark in [*simple.dots, *simple.lines]] == [1 / 3] * 3


def test_floors_are_lines_from_left_to_right():
    other = Setting("floor:better", think="none", cover="none")
    best = results_of({other: "ab"}, "abcd")
    [hard] = panels({FIRST: RESULTS[FIRST], **best, FLOOR: RESULTS[FLOOR]})
    assert [mark.name for mark in hard.lines] == ["floor:f", "floor:better"]
    page = results_to_html({FIRST: RESULTS[FIRST], FLOOR: RESULTS[FLOOR]}, report_results(RESULTS))
    assert page.count('class="floor"') == 1
    assert page.count('class="dot"') == 1


def test_a_setting_in_which_all_runs_failed_has_no_dot():
    failed = [result("a", False, setting=NEVER, error="busy")]
    [hard] = panels({FIRST: RESULTS[FIRST], NEVER: failed})
    assert [mark.name for mark in hard.dots] == ["force=first"]


def test_the_page_has_every_cell_and_every_sentence():
    made = report_results(BOTH)
    page = html.unescape(results_to_html(BOTH, made))
    decisions, how, by_kind, sentences = made
    texts = [by_kind.name, *sentences.remark.splitlines()]
    for table in (decisions, how):
        texts += [table.name, *itertools.chain(*table.rows)]
    for text in texts:
        assert f">{text}<" in page


def test_each_kind_of_case_has_a_row_of_its_own():
    found = {
        FIRST: [result("a", True, kind="late"), result("b", False, kind="late")],
        NEVER: [
            result("a", True, kind="late", setting=NEVER),
            result("c", True, kind="early", setting=NEVER),
        ],
    }
    names = ["force=first", "force=never"]
    assert kinds(found) == [["kind", *names], ["early", "-", "1/1"], ["late", "1/2", "1/1"]]
    page = results_to_html(found, report_results(found))
    assert '<th scope="row">late</th><td>1/2</td><td>1/1</td>' in page


def test_the_page_says_what_ran_when_and_by_which_command():
    page = results_to_html(
        BOTH, report_results(BOTH), {"command": "think-agent eval <cases>.jsonl"}
    )
    told = describe_results(BOTH)
    assert [*told] == ["models", "answered as", "size", "run", "by"]
    assert told["models"] == "p"
    assert told["size"] == "2 settings, 7 cases, 14 runs"  # without the floors
    for text in [*told.values(), "think-agent eval <cases>.jsonl"]:
        assert f">{text}</dd>" in html.unescape(page)


def test_a_script_is_called_a_script():
    scripted = Setting("offline:careful")
    found = {scripted: [result("a", True, setting=scripted)]}
    assert describe_results(found)["models"] == "offline:careful (scripted: no language model)"


def test_a_kind_of_case_may_hold_anything():
    """A line break or a bar in it once made a row of its own."""
    kind = "a\n\nright | <script>b"
    found = {FIRST: [result("a", True, kind=kind)]}
    made = report_results(found)
    assert made[2].rows == [["setting", "right"], ["p", f"{kind} 1/1"]]
    page = results_to_html(found, made)
    assert f">{sanitize(kind)}</th><td>1/1<" in html.unescape(page)
    assert "<script>b" not in page

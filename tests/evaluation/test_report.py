"""The report: every cell, every sentence."""

import io
import itertools
import re

import pytest
from rich.cells import cell_len
from rich.console import Console

from tests.evaluation.values import FIRST, FLOOR, NEVER, ROWS, failed, result, results_of
from think_agent import Usage
from think_agent.evaluation.comparisons import plan_comparisons
from think_agent.evaluation.report import power, report_results
from think_agent.evaluation.scores import FOUR_ROWS, Setting
from think_agent.evaluation.tables import Section, markdown, show_sections
from think_agent.policies import Price


def sentences(results) -> list[str]:
    """The last lines of the report."""
    return report_results(results)[-1].remark.splitlines()


# The sentences.

HASTY = Setting("ollama:hasty")
CAREFUL = Setting("ollama:careful")
LETTERS = "abcdefghijklmnopqrstuvwxyz"
CLEARLY = {HASTY: LETTERS[:3], CAREFUL: LETTERS[1:]}


@pytest.mark.parametrize(
    ("right", "cases", "sentence"),
    [
        (
            CLEARLY,
            LETTERS,
            "ollama:careful is better than ollama:hasty: +85 points on 26 cases "
            "(95\u00a0% interval +58 to +99; p = 3e-06).",
        ),
        (
            dict(reversed(CLEARLY.items())),
            LETTERS,
            "ollama:hasty is worse than ollama:careful: -85 points on 26 cases "
            "(95\u00a0% interval -99 to -58; p = 3e-06).",
        ),
        (
            {HASTY: "abd", CAREFUL: "abc"},
            "abcd",
            "No difference is shown between ollama:careful and ollama:hasty: +0 points on 4 cases "
            "(95\u00a0% interval -65 to +65; p = 1).",
        ),
    ],
)
def test_a_comparison_is_a_sentence(right, cases, sentence):
    verdict, _ = sentences(results_of(right, cases))
    assert verdict == sentence


def test_the_report_says_how_little_n_is():
    *_, last = sentences(results_of(CLEARLY, LETTERS))
    assert last == "n is 26 cases: a share near one half is known to ± 18 points."


@pytest.mark.parametrize(
    ("first", "second", "points"), [("abcdefghi", "j", -80), ("abc", "abd", 0)]
)
def test_between_scripts_alone_nothing_is_tested(first, second, points):
    """A clear difference or none: the next run would give the same."""
    good, bad = Setting("offline:careful"), Setting("offline:hasty")
    verdict, last = sentences(results_of({good: first, bad: second}, "abcdefghij"))
    assert verdict == (
        f"offline:hasty against offline:careful: {points:+} points on 10 cases, not tested."
    )
    assert last.startswith("Nothing is tested for significance: ")


def test_problems_of_the_results_are_sentences():
    one = [result(case, True, served=("m-1",)) for case in "abc"]
    two = [result(case, True, setting=NEVER, served=(f"m-{case}",)) for case in "ba"]
    lines = sentences({FIRST: one, NEVER: [*two, failed("c", setting=NEVER, error="429 " * 99)]})
    [error] = [line for line in lines if "error" in line]
    assert error.startswith("force=never: 1 of 3 runs ended in an error, not counted: 429 429 ")
    assert error.endswith(" 429 429…")
    assert "force=never: answered by several models: m-a, m-b." in lines
    assert not any(line.startswith("force=first: ") for line in lines)


def test_what_is_the_same_for_all_is_said_once():
    usual = Setting("p", think="minimal")
    other = Setting("p", think="minimal", force="never")
    lines = sentences(results_of({usual: "a", other: "", FLOOR: ""}, "ab"))
    assert "The same for all: provider=p, think=minimal." in lines
    assert not any("same for all" in line for line in sentences(results_of(CLEARLY, LETTERS)))


@pytest.mark.parametrize(
    ("size", "sentence"),
    [
        (
            (60, 8, 5),
            "With 60 cases and 8 trials of each, a remedy that makes no case worse is found at "
            "least two times in three if it gains 21 points, with 5 comparisons. More trials bring "
            "that to 17 points at best; for less than that, only more cases help.",
        ),
        (
            (1000, 8, 1),
            "With 1,000 cases and 8 trials of each, a remedy that makes no case worse is found at "
            "least two times in three if it gains 3 points, with 1 comparison. More trials bring "
            "that to 1 point at best; for less than that, only more cases help.",
        ),
        (
            (7, 8, 5),
            "With 7 cases and 8 trials of each nothing can be found, with 5 comparisons: only more "
            "cases help.",
        ),
        (
            (0, 1, 1),
            "Nothing is compared: a script without a thought may be right in each of these cases.",
        ),
    ],
)
def test_the_power_is_said_in_a_sentence(size, sentence):
    assert power(*size) == sentence


def test_a_report_of_easy_cases_alone_says_that_nothing_is_compared():
    found = {}
    for setting in (FIRST, NEVER):
        found[setting] = [result(case, True, setting=setting, easy=True) for case in "abc"]
    verdict, *_, last = sentences(found)
    assert verdict.startswith("No difference is shown between force=never and force=first: +0 poi")
    assert last == "Nothing is compared: no case that is not easy has a trial of both settings."


# The rows of the article.

CASES = [str(number) for number in range(40)]


def results_of_rows(settings, right):
    """Each setting is right on the first cases, as many as `right` says."""
    results = {}
    for setting, count in zip(settings, right, strict=True):
        results[setting] = [result(c, int(c) < count, setting=setting) for c in CASES]
    return results


@pytest.mark.parametrize(
    ("right", "cause"),
    [
        ((20, 20, 20, 20, 20, 9), "neither tool nor prompt, as far as this run can show"),
        ((20, 20, 36, 36, 20, 9), "the tool"),
        ((20, 20, 20, 36, 20, 9), "the tool"),
        ((20, 36, 20, 36, 20, 9), "the prompt"),
        ((10, 24, 24, 38, 10, 9), "the tool and the prompt"),
        ((20, 26, 26, 32, 20, 9), "tool and prompt together; which of them, is not shown"),
    ],
)
def test_the_cause_is_named(right, cause):
    lines = sentences(results_of_rows(ROWS, right))
    assert f"What made a difference for openai:m: {cause}." in lines
    for line, comparison in zip(lines, plan_comparisons(ROWS), strict=False):
        assert line.startswith(f"{comparison.question} ")
    if cause == "the prompt":
        assert "prompt is better than baseline: +40 points on 40 cases" in lines[0]
        assert lines[3].startswith("What does the tool add to the prompt? No difference is shown")


def test_each_model_has_a_cause_of_its_own_and_a_script_has_none():
    settings = [*ROWS]
    for provider in ("openai:n", "offline:s"):
        settings += [Setting(provider, **row) for row in FOUR_ROWS]
    by_the_tool = (20, 20, 36, 36, 20, 9)
    lines = sentences(results_of_rows(settings, (*by_the_tool, *[20] * 6, *by_the_tool)))
    assert [line for line in lines if line.startswith("What made a difference")] == [
        "What made a difference for provider=openai:m: the tool.",
        "What made a difference for provider=openai:n: neither tool nor prompt, as far as this run "
        "can show.",
    ]


# The tables.

HOW = {"actions": 2, "forced": 1, "model_calls": 5, "usage": Usage(1100, 50, 600)}
GOOD = {**HOW, "exit": "signal", "behind_a_thought": 2, "honored": 1}
OWN = [
    result("a", True, kind="k", **GOOD),
    result("b", False, kind="k", exit="silence", wrong_writes=2, **HOW),
    result("c", True, kind="l", **GOOD),
    result("d", True, kind="l", **GOOD),
]
TABLES = {
    "Decisions": {
        "right": "3/4",
        "pass^1": "75.0% (30.1 to 95.4)",
        "said done": "1",
        "wrong writes": "2",
        "calls": "5.0",
        "tokens": "1,100 + 50",
        "cost": "$0.0016",
    },
    "How": {
        "actions after a thought": "6/8 (75%)",
        "forced calls honored": "3/4 (75%)",
        "exits": "signal 3, silence 1",
        "cached": "600",
    },
    "Kinds of cases": {"right": "k 1/2, l 2/2"},
}


def test_every_cell_of_every_table_is_what_was_counted():
    *sections, _ = report_results({FIRST: OWN}, {FIRST: Price(input=1, output=10)})
    found = {}
    for section in sections:
        header, row = section.rows
        assert header[0] == "setting"
        assert row[0] == "p"
        found[section.name] = dict(zip(header[1:], row[1:], strict=True))
    assert found == TABLES


def test_easy_cases_are_reported_apart_and_not_compared():
    found = results_of({FIRST: "1", NEVER: "12"}, "12")
    for setting, right in ((FIRST, True), (NEVER, False)):
        found[setting] += [result(letter, right, setting=setting, easy=True) for letter in LETTERS]
    assert report_results(found)[0].rows == [
        ["setting", "right", "pass^1", "easy"],
        ["force=first", "1/2", "50.0% (9.5 to 90.5)", "26/26"],
        ["force=never", "2/2", "100.0% (34.2 to 100.0)", "0/26"],
    ]
    assert "force=never and force=first: +50 points on 2 cases " in sentences(found)[0]


def test_a_column_is_left_out_only_where_nothing_was_counted():
    found = {FIRST: [result("x", True)], NEVER: [result("x", False, setting=NEVER)]}
    assert report_results(found)[0].rows[0] == ["setting", "right", "pass^1"]
    found[NEVER] = [result("x", False, setting=NEVER, wrong_writes=1)]
    assert report_results(found)[0].rows == [
        ["setting", "right", "pass^1", "wrong writes"],
        ["force=first", "1/1", "100.0% (20.7 to 100.0)", "-"],
        ["force=never", "0/1", "0.0% (0.0 to 79.3)", "1"],
    ]


def test_floors_stand_in_every_table_below_the_settings():
    for section in report_results(results_of({FIRST: "a", NEVER: "a", FLOOR: ""}, "ab"))[:3]:
        names = [row[0] for row in section.rows]
        assert names == ["setting", "force=first", "force=never", "floor:f"]


ODD = Section("Odd", "a\x1b[31m remark", [["a|b", "c"], ["d\ne", "模型\x1b[31m"], ["f", "g"]])


def test_markdown_rows_have_as_many_cells_as_their_header():
    text = markdown([ODD, *report_results({FIRST: OWN})])
    for table in re.findall(r"(?:^\|.*\n?)+", text, re.MULTILINE):
        lines = table.splitlines()
        assert len({len(re.findall(r"(?<!\\)\|", line)) for line in lines}) == 1
        assert len({cell_len(line) for line in lines}) == 1
    assert "\x1b" not in text
    assert all(line == line.strip() for line in text.splitlines())


def shown(sections, width: int) -> str:
    out = io.StringIO()
    show_sections(sections, Console(file=out, force_terminal=True, width=width, color_system=None))
    return out.getvalue()


def test_a_word_that_is_wider_than_the_terminal_is_broken():
    assert shown([Section("", "", [["a"], ["x" * 50]])], 20).count("x") == 50


@pytest.mark.parametrize("width", [40, 60, 100, 140])
@pytest.mark.parametrize("count", [1, 4])
def test_a_terminal_gets_all_of_the_tables_and_no_line_wider_than_itself(width, count):
    results = {}
    for number, force in itertools.product(range(count), ("never", "first", "always")):
        setting = Setting(f"provider-{number}", force=force)
        results[setting] = [result(case, True, setting=setting, exit="signal") for case in "ab"]
    sections = report_results(results)
    lines = shown(sections, width).splitlines()
    assert max(map(len, lines)) <= width
    words = " ".join(" ".join(lines).replace("|", " ").split())
    for section in sections:
        assert section.name in words
        for cell in itertools.chain(*section.rows):
            assert all(word in words for word in cell.split()), cell

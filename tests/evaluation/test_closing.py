"""A trial that always fails does not keep a plan from being tested. Errors say whose they are."""

import itertools
import re

import pytest

from demos.refund.stand_ins import careful, silent
from tests.evaluation.conftest import cases_of, play, write_lines
from tests.evaluation.values import FIRST, NEVER, closed, result, scores_of
from think_agent import ConnectionFailed, ScriptedModel, TimedOut
from think_agent.errors import ModelError
from think_agent.evaluation import trials
from think_agent.evaluation.command import Evaluation
from think_agent.evaluation.comparisons import compare
from think_agent.evaluation.scores import Score
from think_agent.messages import User

MODEL = {"provider": ["ollama:m"], "force": ["first", "never"]}


def failing(script, *texts, error=TimedOut):
    """A script that fails in each case whose text has one of these parts."""

    def reply(request):
        said = " ".join(m.text for m in request.messages if isinstance(m, User))
        if any(text in said for text in texts):
            raise error("no answer within 120 s")
        return script(request)

    return reply


@pytest.fixture
def sitting(plan_few, few):
    """Runs the few cases once more, in a sitting of its own; gives the evaluation."""
    lines = cases_of("many")[:8]
    write_lines(few, lines)

    def run(*texts, error=TimedOut, only=("first", "never"), **given) -> Evaluation:
        evaluation = plan_few(**MODEL, **given)
        for setting in evaluation.models:
            script = careful if setting.force == "first" else silent
            if setting.force in only:
                script = failing(script, *texts, error=error)
            evaluation.models[setting] = ScriptedModel(script)
        evaluation.run()
        return evaluation

    return run


def sentences(evaluation: Evaluation) -> str:
    return evaluation.report()[-1].remark


def test_after_three_sittings_a_trial_that_fails_is_closed_and_the_plan_is_tested(sitting):
    for _ in range(2):
        evaluation = sitting("ORD-301")
        assert evaluation.missing == 2
        assert "p = " not in sentences(evaluation)
    evaluation = sitting("ORD-301")
    assert evaluation.missing == 0
    said = sentences(evaluation)
    assert "force=never is worse than force=first: -88 points on 8 cases" in said
    assert (
        "force=first: 1 of 8 runs have no outcome, because each try failed, and count as not right "
        "(many-1, trial 1): no answer within 120 s"
    ) in said
    assert "force=first: right in 7/8; if all trials without an outcome were right, in 8/8." in said
    assert (
        "force=never against force=first: 2 trials without an outcome count as not right. If all "
        "such trials were right: -88 points (p = 0.016); whatever they would have been: from -100 "
        "to -75 points."
    ) in said


def test_what_was_closed_is_not_run_again_and_stays_not_right(sitting):
    for _ in range(3):
        sitting("ORD-301")
    evaluation = sitting()  # the model would answer now
    [first, never] = evaluation.select_results().values()
    assert [result.is_closed for result in first] == [True] + [False] * 7
    assert [result.right for result in first] == [False] + [True] * 7
    assert never[0].found == ("no answer within 120 s",)


def test_three_failures_in_one_sitting_are_one(sitting, out):
    """As when the results of a shard were put into the file twice."""
    evaluation = sitting("ORD-301")
    lines = out.read_text().splitlines(keepends=True)
    out.write_text("".join([*lines, *lines[1:], *lines[1:]]))
    assert sitting("ORD-301").missing == 2
    assert evaluation.missing == 2


def test_close_closes_what_failed_without_another_try(sitting):
    sitting("ORD-301")
    asked = []

    def ask(message):
        asked.append(message)
        return TimedOut(message)

    evaluation = sitting("ORD-301", error=ask, close=True)
    assert evaluation.missing == 0
    assert asked == []


def test_close_closes_what_fails_for_the_first_time(sitting):
    evaluation = sitting("ORD-301", close=True)
    assert evaluation.missing == 0


ALL = [f"ORD-{number}" for number in range(301, 340)]


def test_a_server_that_is_gone_closes_nothing(sitting):
    """Each sitting is given up after five failures in a row: they say nothing of these cases."""
    for _ in range(4):
        with pytest.raises(ModelError, match="5 runs in a row failed"):
            sitting(*ALL, error=ConnectionFailed)
    assert sitting().missing == 0


def test_a_prompt_that_always_fails_does_not_end_a_night(sitting):
    """Of one case, all trials under all settings fail one after the other: that is no outage."""
    for _ in range(3):
        evaluation = sitting("ORD-301", trials=4)
    assert evaluation.missing == 0
    closed = [
        one.case for own in evaluation.select_results().values() for one in own if one.is_closed
    ]
    assert closed == ["many-1"] * 8


def test_many_cases_that_always_fail_are_closed_by_hand(sitting):
    for _ in range(4):  # each looks like an outage
        with pytest.raises(ModelError, match="5 runs in a row failed"):
            sitting(*ALL[:19])
    evaluation = sitting(*ALL[:19], close=True)
    assert evaluation.missing == 0
    closed = {
        one.case for own in evaluation.select_results().values() for one in own if one.is_closed
    }
    assert closed == {f"many-{number}" for number in range(1, 7)}


def test_a_closed_trial_is_in_no_average():
    fine = result("a", True, model_calls=4, exit="signal")
    score = Score([fine, closed("b")])
    assert score.finished == 1
    assert score.right == 1
    assert len(score.compared) == 2


@pytest.mark.parametrize(
    ("first", "second", "bounds", "if_right"),
    [
        # of four cases: R right, - not, x closed
        ("RRRx", "----", (0.75, 1.0), 1.0),
        ("RRRR", "---x", (0.75, 1.0), 0.75),
        ("RRRx", "---x", (0.5, 1.0), 0.75),
        ("xxxx", "RRRR", (-1.0, 0.0), 0.0),
    ],
)
def test_the_bounds_are_what_the_closed_trials_could_have_been(first, second, bounds, if_right):
    results = {NEVER: first, FIRST: second}
    found = {}
    for setting, letters in results.items():
        own = []
        for case, letter in zip("abcd", letters, strict=True):
            if letter == "x":
                own.append(closed(case, setting=setting))
            else:
                own.append(result(case, letter == "R", setting=setting))
        found[setting] = own
    [finding] = compare(scores_of(dict(reversed(found.items()))))
    assert finding.comparison.setting == NEVER
    assert finding.bounds == bounds
    assert finding.if_right.difference == if_right
    assert finding.closed == (first + second).count("x")


def test_without_closed_trials_nothing_is_said_of_them(sitting):
    assert "outcome" not in sentences(sitting())


# Whose mistake.


def play_broken(evaluation, script):
    play(evaluation, ScriptedModel(script))
    evaluation.run()


@pytest.mark.parametrize("name", ["check", "reply"])
def test_an_error_in_a_suite_names_case_trial_file_and_line(plan_few, monkeypatch, name):
    from demos.refund.suite import CaseWorld

    def broken(self, *_):
        return {}["no such key"]

    monkeypatch.setattr(CaseWorld, name, broken)
    place = re.escape(f"KeyError: 'no such key' ({__file__}, line ")
    message = rf"case plain-1, trial 1: the suite's {name} raised {place}\d+\); mend it"
    with pytest.raises(trials.SuiteError, match=message):
        play_broken(plan_few(**MODEL), silent)


def test_an_error_in_a_scorer_is_one_line(command, monkeypatch, capsys):
    from demos.refund.suite import CaseWorld

    monkeypatch.setattr(CaseWorld, "check", lambda self: 1 / 0)
    assert command() == 2
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith("error: case ")
    assert "trial 1: the suite's check raised ZeroDivisionError: division by zero (" in last


def test_a_check_that_is_not_one_is_an_error_of_the_suite(command, monkeypatch, capsys):
    from demos.refund.suite import CaseWorld

    monkeypatch.setattr(CaseWorld, "check", lambda self: True)
    assert command() == 2
    assert "the suite's check raised " in capsys.readouterr().err.splitlines()[-1]


def test_a_simulated_user_that_fails_is_counted_and_tried_again(plan_few, monkeypatch):
    """It is a model, too."""
    from demos.refund.suite import CaseWorld

    answer = CaseWorld.reply
    replies = itertools.count(1)

    def reply(self, transcript):
        if next(replies) in (1, 2):
            raise ModelError("the simulated user: busy")
        return answer(self, transcript)

    monkeypatch.setattr(CaseWorld, "reply", reply)
    evaluation = plan_few(provider=["ollama:m"], force=["never"])
    play_broken(evaluation, silent)
    [own] = evaluation.select_results().values()
    assert [one.error for one in own][:3] == ["the simulated user: busy"] * 2 + [""]
    evaluation.run()
    assert evaluation.missing == 0

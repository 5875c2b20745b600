"""Every table is counted again from the file: by numpy and scipy, from the JSON of its lines.

Nothing of the evaluation is used here but the report that is checked.
"""

import json
import random
import re
from collections import Counter, defaultdict

import numpy
import pytest
from scipy.stats import binomtest, norm, permutation_test

from tests.evaluation.conftest import LINES, plan, write_lines
from tests.support.simulated import DECIDABLE
from think_agent import Assistant, Price, ScriptedModel, TimedOut, Usage, User
from think_agent.testing import call

TRIALS = 3
CASES = [{**line, "easy": index >= 12} for index, line in enumerate(DECIDABLE[:20])]
MASKED = [{**line, "cannot": True} for line in LINES if line["id"] in ("outages-7", "outages-8")]
PRICE = Price(input=2, output=10)


def drawn(request):
    """A model that decides by chance, ends in all kinds of ways, and fails for one case."""
    said = " ".join(m.text for m in request.messages if isinstance(m, User))
    if CASES[0]["text"] in said:
        raise TimedOut("no answer within 9 s")
    usage = Usage(
        chance.randint(900, 1100), chance.randint(10, 90), cached_tokens=chance.randint(0, 9)
    )
    if not any(isinstance(m, Assistant) for m in request.messages) and chance.random() < 0.8:
        line = next((line for line in CASES if line["text"] in said), None)
        decisions = (
            dict(line["expected"]) if line and chance.random() < 0.7 else {"ORD-301": "deny"}
        )
        calls = [call("think", thought="so", should_continue=chance.random() < 0.9)]
        for order, decision in decisions.items():
            calls.append(call("process_refund", order_id=order, decision=decision, reason="r"))
        return Assistant(tool_calls=tuple(calls[chance.random() < 0.2 :]), usage=usage, model="m-1")
    return Assistant("Done.", usage=usage, model="m-1")


chance = random.Random(4)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """An evaluation with several trials, errors, closed trials and cases of all sorts, and the
    lines of its file.
    """
    folder = tmp_path_factory.mktemp("recount")
    cases = write_lines(folder / "cases.jsonl", [*CASES, *MASKED])
    out = folder / "r.jsonl"
    for _ in range(3):
        given = {"provider": ["ollama:m"], "force": ["first", "never", "always"]}
        evaluation = plan(cases, out=out, trials=TRIALS, **given)
        for setting in evaluation.models:
            evaluation.models[setting] = ScriptedModel(drawn)
        evaluation.run()
    assert evaluation.missing == 0
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    prices = dict.fromkeys(evaluation.models, PRICE)
    return lines, evaluation.report(prices)


def last_tries(lines) -> dict[str, list[dict]]:
    """The last line of each trial, by the force of its setting."""
    last = {}
    for line in lines:
        if "case" in line and not isinstance(line.get("cases"), int):
            last[line["name"]] = line
    found = defaultdict(list)
    for line in last.values():
        found[line["setting"]["force"]].append(line)
    return found


def cells(section) -> dict[str, dict[str, str]]:
    header, *rows = section.rows
    return {row[0].removeprefix("force="): dict(zip(header, row, strict=True)) for row in rows}


def right_by_case(trials) -> numpy.ndarray:
    """A row for each case that is compared, a column for each trial."""
    rows = defaultdict(dict)
    for trial in trials:
        if not trial["easy"]:
            rows[trial["case"]][trial["trial"]] = trial["right"]
    return numpy.array([[row[n] for n in sorted(row)] for _, row in sorted(rows.items())], int)


def share(right: float, n: int) -> str:
    low, high = wilson(right, n)
    return f"{right / n:.1%} ({100 * low:.1f} to {100 * high:.1f})"


def wilson(right: float, n: int) -> tuple[float, float]:
    """The roots of (p - right/n)**2 = z**2 p (1 - p) / n."""
    z2 = norm.ppf(0.975) ** 2
    p = right / n
    roots = numpy.roots([1 + z2 / n, -(2 * p + z2 / n), p * p]).real
    return tuple(numpy.clip(numpy.sort(roots), 0, 1))


def percent(part, whole) -> str:
    return f"{part}/{whole} ({part / whole:.0%})" if whole else "-"


def test_the_file_has_what_a_recount_needs(run):
    lines, _ = run
    kinds = Counter(bool(line.get("error")) for line in lines)
    assert kinds[True] == 3 * TRIALS * 3  # three settings, in three sittings
    assert {line.get("exit") for line in lines} > {"no outcome", "signal", "silence"}


def test_the_decisions(run):
    lines, report = run
    shown = cells(report[0])
    for force, trials in last_tries(lines).items():
        right = right_by_case(trials)
        easy = [trial["right"] for trial in trials if trial["easy"]]
        ended = [trial for trial in trials if trial["exit"] != "no outcome"]
        row = {
            "right": f"{right.sum()}/{right.size}",
            "easy": f"{sum(easy)}/{len(easy)}",
            "said done": str(
                sum(t["exit"] in ("signal", "silence") and not t["right"] for t in ended)
            ),
            "wrong writes": str(sum(trial["wrong_writes"] for trial in ended)),
            "calls": f"{numpy.mean([trial['model_calls'] for trial in ended]):.1f}",
        }
        for k in range(1, TRIALS + 1):
            # Of all ways to draw k of the trials: how many have only right ones.
            drawn = [numpy.all(right[:, list(c)], axis=1) for c in combinations(TRIALS, k)]
            row[f"pass^{k}"] = share(numpy.mean(drawn, axis=0).sum(), len(right))
        read = numpy.array([trial["usage"]["input_tokens"] for trial in ended])
        written = numpy.array([trial["usage"]["output_tokens"] for trial in ended])
        row["tokens"] = f"{read.mean():,.0f} + {written.mean():,.0f}"
        cached = numpy.array([trial["usage"]["cached_tokens"] for trial in ended])
        assert cached.sum() > 0
        for name, cell in row.items():
            assert shown[force][name] == cell, (force, name)


def combinations(n: int, k: int):
    """All choices of k of n, by counting in binary."""
    return [
        [i for i in range(n) if number >> i & 1]
        for number in range(2**n)
        if number.bit_count() == k
    ]


def test_how_it_came_about(run):
    lines, report = run
    shown = cells(report[1])
    for force, trials in last_tries(lines).items():
        ended = [trial for trial in trials if trial["exit"] != "no outcome"]
        total = {
            name: sum(trial[name] for trial in ended)
            for name in ("actions", "behind_a_thought", "forced", "honored")
        }
        exits = Counter(trial["exit"] for trial in trials)
        cached = numpy.mean([trial["usage"]["cached_tokens"] for trial in ended])
        assert shown[force] == {
            "setting": f"force={force}",
            "actions after a thought": percent(total["behind_a_thought"], total["actions"]),
            "forced calls honored": percent(total["honored"], total["forced"]),
            "exits": ", ".join(f"{exit} {n}" for exit, n in sorted(exits.items())),
            "cached": f"{cached:,.0f}",
        }


def test_the_kinds_of_cases(run):
    lines, report = run
    shown = cells(report[2])
    for force, trials in last_tries(lines).items():
        kinds = sorted({trial["kind"] for trial in trials})
        parts = []
        for kind in kinds:
            own = [trial["right"] for trial in trials if trial["kind"] == kind]
            parts.append(f"{kind} {sum(own)}/{len(own)}")
        assert shown[force]["right"] == ", ".join(parts)


def test_the_cases_that_cannot_be_done(run):
    lines, report = run
    assert report[3].name == "Cases that cannot be done"
    shown = cells(report[3])
    masked = {line["id"] for line in MASKED}
    for force, trials in last_tries(lines).items():
        ended = [trial for trial in trials if trial["exit"] != "no outcome"]
        its = [trial["exit"] for trial in ended if trial["case"] in masked]
        unsaid = sum(exit in ("signal", "silence") for exit in its)
        assert shown[force]["unsaid"] == percent(unsaid, len(its))
        assert shown[force].get("late", "-") == (percent(len(its) - unsaid, len(its)))
        assert shown[force]["false"] == percent(0, len(ended) - len(its))


def interval(differences: numpy.ndarray) -> tuple[float, float]:
    """Two more cases, one for each side (see `find_paired_interval`)."""
    spread = numpy.sum(differences**2)
    extra = numpy.sum(differences**4) / spread
    variance_of_all = max(spread + 2 * extra, 2) / (len(differences) + 2)
    center = differences.sum() / (len(differences) + 2)
    error = numpy.sqrt((variance_of_all - center**2) / (len(differences) + 2))
    return tuple(numpy.clip(norm.interval(0.95, center, error), -1, 1))


def test_the_comparisons(run):
    """The p-values are scipy's, by all choices of signs, raised by Holm's method."""
    lines, report = run
    by_force = {force: right_by_case(trials) for force, trials in last_tries(lines).items()}
    found = {}
    for force in ("never", "always"):
        sums = by_force[force].sum(axis=1) - by_force["first"].sum(axis=1)
        theirs = permutation_test(
            (sums,), numpy.sum, permutation_type="samples", n_resamples=numpy.inf
        )
        found[force] = sums / TRIALS, theirs.pvalue
    smaller = min(found, key=lambda force: found[force][1])
    sentences = report[-1].remark.splitlines()
    for force, (differences, p) in found.items():
        p = min(1.0, 2 * p if force == smaller else max(p, 2 * found[smaller][1]))
        low, high = interval(differences)
        size = (
            f"{100 * differences.mean():+.0f} points on {len(differences)} cases (95\u00a0% "
            f"interval {100 * low:+.0f} to {100 * high:+.0f}; p = {p:.2g})"
        )
        [line] = [
            line
            for line in sentences
            if f"force={force} and" in line or line.startswith(f"force={force} is")
        ]
        assert size in line


def test_what_the_closed_trials_could_change(run):
    lines, report = run
    sentences = report[-1].remark
    for force, trials in last_tries(lines).items():
        closed = [trial for trial in trials if trial["exit"] == "no outcome"]
        right = right_by_case(trials)
        assert len(closed) == TRIALS
        assert f"force={force}: {TRIALS} of {len(trials)} runs have no outcome" in sentences
        now, most = right.sum(), right.sum() + TRIALS
        assert (
            f"force={force}: right in {now}/{right.size}; if all trials without an outcome were "
            f"right, in {most}/{right.size}."
        ) in sentences
    step = 100 / len(right)
    for force in ("never", "always"):
        number = r"([+-]\d+)"
        pattern = (
            rf"force={force} against force=first: 6 trials .*: {number} points \(p = .*\); "
            rf".* from {number} to {number}"
        )
        all_right, low, high = map(int, re.search(pattern, sentences).groups())
        sums = (
            right_by_case(last_tries(lines)[force]).mean()
            - right_by_case(last_tries(lines)["first"]).mean()
        )
        assert all_right == round(100 * sums)  # the same case in both, so it cancels out
        assert low == round(100 * sums - step)
        assert high == round(100 * sums + step)


def test_a_share_near_one_half_is_known_so_well(run):
    lines, report = run
    n = len(right_by_case(last_tries(lines)["first"]))
    high = binomtest(n // 2, n).proportion_ci(method="wilson").high
    assert n % 2 == 0
    last = report[-1].remark.splitlines()[-1]
    assert (
        last == f"n is {n} cases: a share near one half is known to ± {100 * high - 50:.0f} points."
    )

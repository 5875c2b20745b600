"""The results of an evaluation, and what they add up to: figures per setting, comparisons, a plot.

Rule 1: everything here is a function of results; nothing is run, so all of it can be made again
        from a file and tested by values. As tables: `eval_tables.py`.
Rule 2: the case is the unit of evidence. Repeated trials of a case say how steady a model is, not
        how it does on other cases, so intervals and comparisons count each case once.
Rule 3: settings are compared only where a single thing differs between them, on the same cases,
        and the p-values are raised for how many comparisons there are.
Rule 4: a trial that ended in an error of the model's server counts as not right, and as `error`
        among the exits. It has no figures, so it is left out of the averages.

The edge: seconds are wall time of a run beside its neighbors; with `--concurrency` above 1 a busy
local server makes them longer.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from itertools import combinations
from pathlib import Path
from typing import Literal, TypeAlias

from ..messages import Json, Usage
from ..policies import Forcing, Price
from .intervals import holm, mcnemar, pass_hat_k, wilson

Dialect: TypeAlias = Literal["native", "json", "react"]
Flag: TypeAlias = Literal["on", "off"]

NO_USAGE = Usage()
PLOTS = (".png", ".svg", ".pdf")  # how the name of a plot may end


@dataclass(frozen=True, slots=True)
class Setting:
    """One way to run the cases. `flag`: whether the think tool has the exit signal."""

    provider: str
    dialect: Dialect = "native"
    force: Forcing = "first"
    flag: Flag = "on"
    trust_model: bool = False
    base_url: str = ""

    def __str__(self) -> str:
        return f"{self.provider} {self.dialect} force={self.force} flag={self.flag}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What came of one trial. `found` is what the check saw, for a person to read. `forced` counts
    the calls with a forced tool choice, `honored` those that did what it asked. Of a trial that
    failed on the way to the model there is only its `error`.
    """

    setting: Setting
    case: str
    kind: str
    trial: int
    right: bool = False
    found: tuple[str, ...] = ()
    wrong_writes: int = 0
    exit: str = "error"
    actions: int = 0
    behind_a_thought: int = 0
    forced: int = 0
    honored: int = 0
    model_calls: int = 0
    usage: Usage = NO_USAGE
    seconds: float = 0.0
    error: str = ""


def to_json(result: Result) -> Json:
    """A result as a JSON object."""
    return asdict(result)


def from_json(data: Json) -> Result:
    """The result that `to_json` wrote. Raises ValueError when it is not one."""
    try:
        setting, usage = Setting(**data["setting"]), Usage(**data["usage"])
        return Result(**{**data, "setting": setting, "usage": usage, "found": tuple(data["found"])})
    except (KeyError, TypeError) as error:
        raise ValueError(f"not a result of an evaluation: {error}") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """The figures of one setting. Calls, tokens, cost and seconds are averages over its runs.

    `accuracy` is the share of right trials, averaged over cases; `interval` its 95 % Wilson
    interval; `pass_k` is the chance that all trials of a case are right.
    """

    setting: Setting
    right: int
    trials: int
    accuracy: float
    interval: tuple[float, float]
    pass_k: float
    wrong_writes: int
    actions: int
    behind_a_thought: int
    forced: int
    honored: int
    exits: Counter[str]
    calls: float
    input_tokens: float
    output_tokens: float
    cached_tokens: float
    cost: float | None
    seconds: float


def score(results: Sequence[Result], price: Price | None = None) -> Score:
    """The figures of the results of one setting; there must be at least one."""
    by_case = _by_case(results)
    k = min(len(trials) for trials in by_case.values())
    accuracy = _mean(_share(trials) for trials in by_case.values())
    ran = [result for result in results if not result.error]
    usage = sum((result.usage for result in ran), Usage())
    runs = max(1, len(ran))
    return Score(
        setting=results[0].setting,
        right=sum(result.right for result in results),
        trials=len(results),
        accuracy=accuracy,
        interval=wilson(accuracy * len(by_case), len(by_case)),
        pass_k=_mean(pass_hat_k(sum(t), len(t), k) for t in by_case.values()),
        wrong_writes=sum(result.wrong_writes for result in ran),
        actions=sum(result.actions for result in ran),
        behind_a_thought=sum(result.behind_a_thought for result in ran),
        forced=sum(result.forced for result in ran),
        honored=sum(result.honored for result in ran),
        exits=Counter(result.exit for result in results),
        calls=sum(result.model_calls for result in ran) / runs,
        input_tokens=usage.input_tokens / runs,
        output_tokens=usage.output_tokens / runs,
        cached_tokens=usage.cached_tokens / runs,
        cost=price.of(usage) / runs if price else None,
        seconds=sum(result.seconds for result in ran) / runs,
    )


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two settings on the same cases: on how many the first did better, on how many the second, and
    how likely chance alone does that (`p`, Holm-adjusted).
    """

    first: Setting
    second: Setting
    first_better: int
    second_better: int
    p: float


def compare(results: Mapping[Setting, Sequence[Result]]) -> list[Comparison]:
    """All pairs of settings between which a single thing differs.

    With one trial a case this is McNemar's test; with several, a case counts for the setting with
    more right trials (the sign test, which McNemar's is a case of).
    """
    found = []
    for first, second in combinations(results, 2):
        if sum(getattr(first, f.name) != getattr(second, f.name) for f in fields(Setting)) != 1:
            continue
        one, other = _by_case(results[first]), _by_case(results[second])
        pairs = [(_share(one[case]), _share(other[case])) for case in one.keys() & other.keys()]
        won, lost = sum(a > b for a, b in pairs), sum(a < b for a, b in pairs)
        found.append((first, second, won, lost))
    adjusted = holm([mcnemar(won, lost) for _, _, won, lost in found])
    return [Comparison(*pair, p) for pair, p in zip(found, adjusted, strict=True)]


def plot(scores: Sequence[Score], path: Path) -> None:
    """Accuracy against model calls, a point a setting, as PNG, SVG or PDF by the path's suffix.

    Raises ImportError where matplotlib is not installed, OSError where the file cannot be written.
    """
    from matplotlib.figure import Figure  # not pyplot, which looks for a display

    figure = Figure(figsize=(9, 4.8), layout="constrained")
    axes = figure.subplots()
    for number, one in enumerate(scores):
        low, high = one.interval
        axes.errorbar(
            one.calls,
            one.accuracy,
            yerr=[[max(0.0, one.accuracy - low)], [max(0.0, high - one.accuracy)]],
            fmt="os^Dv<>P*X"[number % 10],
            markersize=8,
            capsize=4,
            label=f"#{number + 1} {one.setting}",
        )
    axes.set(xlabel="model calls a run", ylabel="right decisions (95 % Wilson interval)")
    axes.set_xlim(left=0)
    axes.set_ylim(-0.03, 1.03)
    axes.yaxis.set_major_formatter(lambda share, _: f"{share:.0%}")
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside lower center", ncols=2, frameon=False)
    figure.savefig(path, dpi=150)


def _by_case(results: Iterable[Result]) -> dict[str, list[bool]]:
    """Whether each trial was right, by case."""
    by_case: defaultdict[str, list[bool]] = defaultdict(list)
    for result in results:
        by_case[result.case].append(result.right)
    return dict(by_case)


def _share(trials: Sequence[bool]) -> float:
    return sum(trials) / len(trials)


def _mean(values: Iterable[float]) -> float:
    items = list(values)
    return sum(items) / len(items)

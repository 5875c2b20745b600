"""The results of an evaluation, and what they add up to: figures per setting, and comparisons.

Rule 1: everything here is a function of results; nothing is run, so all of it can be made again
        from a file and tested by values. As tables: `tables.py`.
Rule 2: the case is the unit of evidence. Repeated trials of a case say how steady a model is, not
        how it does on other cases, so intervals and comparisons count each case once.
Rule 3: settings are compared only where a single thing differs between them, on the same cases,
        and a p-value is raised for how many comparisons there are.
Rule 4: a trial that ended in an error of the model's server counts as not right, and as `error`
        among the exits. It has no figures, so it is left out of the averages.

The edge: seconds are wall time of a run beside its neighbors; several runs at a time make them
longer on a busy local server.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from itertools import combinations
from statistics import fmean
from typing import Literal

from ..messages import Usage
from ..policies import Forcing, Price
from .intervals import mcnemar, pass_hat_k, wilson


@dataclass(frozen=True, slots=True)
class Setting:
    """One way to run the cases.

    - `think`: the think tool with the exit signal (`"on"`), without it (`"minimal"`), or none.
    - `cover`: what stands between a guarded tool and a call without a thought.
    - `reasoning`: the model's own, before it says anything; `"default"` is its provider's.
    - `instructions`: the name of one of the suite's INSTRUCTIONS; `""` are those of the case.
    - `timeout`, in seconds, and `max_output_tokens` of a reply, as `connect` takes them.
    - `row`: what it is called among the FOUR_ROWS. A name, not a thing that can differ.
    """

    provider: str
    dialect: Literal["native", "json", "react"] = "native"
    force: Forcing = "first"
    think: Literal["on", "minimal", "none"] = "on"
    cover: Literal["gate", "carry", "none"] = "gate"
    silence: Literal["confirm", "accept"] = "confirm"
    reasoning: Literal["default", "off", "low", "medium"] = "default"
    instructions: str = ""
    trust_model: bool = False
    base_url: str = ""
    timeout: float = 120.0
    max_output_tokens: int | None = None
    row: str = field(default="", compare=False)

    @property
    def is_scripted(self) -> bool:
        """Does one of the suite's stand-ins play the model?"""
        return self.provider.partition(":")[0] == "offline"


VARIED = tuple(field.name for field in fields(Setting) if field.compare)
# Anthropic's article on the think tool compares these four; none of them forces or guards anything.
_BARE = {"force": "never", "cover": "none", "reasoning": "off", "instructions": "plain"}
FOUR_ROWS: Sequence[Mapping[str, str]] = (
    _BARE | {"row": "baseline", "think": "none"},
    _BARE | {"row": "think", "think": "minimal"},
    _BARE | {"row": "think + prompt", "think": "minimal", "instructions": "optimized"},
    _BARE | {"row": "extended thinking", "think": "none", "reasoning": "medium"},
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What came of one trial. `found` is what the check saw, for a person to read. `forced` counts
    the calls with a forced tool choice, `honored` those that did what it asked. Of a trial that
    failed on the way to the model there is only its `error`. `asked`: a digest of what the models
    were asked, in the results file.
    """

    setting: Setting
    case: str
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
    usage: Usage = Usage()  # noqa: RUF009 (it is frozen)
    seconds: float = 0.0
    error: str = ""
    asked: str = ""


class Score:
    """The figures of the results of one setting, of which there must be at least one.

    `pass_k[k - 1]` is the chance that `k` trials of a case are all right, for as many trials as
    every case has, with its 95 % Wilson interval, in which `cases` is n; the first of them is the
    share of right trials. `ran`: those that did not end in an error; `cost` is that of one of them.
    """

    def __init__(self, results: Sequence[Result], price: Price | None = None) -> None:
        by_case = _by_case(results).values()
        self.cases, self.trials = len(by_case), len(results)
        self.right = sum(result.right for result in results)
        self.exits = Counter(result.exit for result in results)
        most = min(map(len, by_case))
        at = [sum(pass_hat_k(sum(own), len(own), k + 1) for own in by_case) for k in range(most)]
        self.pass_k = [(right / self.cases, wilson(right, self.cases)) for right in at]
        self.ran = [result for result in results if not result.error]
        self.usage = sum((result.usage for result in self.ran), Usage())
        self.cost = price.of(self.usage) / max(1, len(self.ran)) if price else None

    def total(self, name: str) -> float:
        """The sum of a field of Result, or of Usage, over the runs without an error."""
        counted = [self.usage] if hasattr(self.usage, name) else self.ran
        total: float = sum(getattr(one, name) for one in counted)
        return total

    def mean(self, name: str) -> float:
        """The same, as the average of a run."""
        return self.total(name) / max(1, len(self.ran))


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two settings on the same cases: on how many the first did better, on how many the second, and
    how likely chance alone does that in one of all the comparisons (`p`).
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
    pairs = [pair for pair in combinations(results, 2) if len(varying(pair)) == 1]
    found = []
    for first, second in pairs:
        one, other = _by_case(results[first]), _by_case(results[second])
        rates = [(fmean(one[case]), fmean(other[case])) for case in one.keys() & other.keys()]
        won, lost = sum(a > b for a, b in rates), sum(a < b for a, b in rates)
        found.append(Comparison(first, second, won, lost, mcnemar(won, lost, len(pairs))))
    return found


def varying(settings: Sequence[Setting]) -> list[str]:
    """The names of what is not the same in all of them."""
    return [name for name in VARIED if len({getattr(one, name) for one in settings}) > 1]


def named(settings: Sequence[Setting]) -> dict[Setting, str]:
    """Each setting by what sets it apart from the others: `force=never`, or one of FOUR_ROWS."""
    apart = varying(settings) or ["provider"]
    kind, *others = {one.provider.partition(":")[0] for one in settings}
    if all(one.row for one in settings):
        apart = ["row", *(name for name in apart if name not in FOUR_ROWS[0])]

    def word(one: Setting, name: str) -> str:
        if name == "row":
            return one.row
        if name == "provider":
            return one.provider if others else one.provider.removeprefix(f"{kind}:")
        return f"{name}={str(getattr(one, name)) or 'default'}"

    return {one: ", ".join(word(one, name) for name in apart) for one in settings}


def _by_case(results: Iterable[Result]) -> dict[str, list[bool]]:
    """Whether each trial was right, by case."""
    by_case: defaultdict[str, list[bool]] = defaultdict(list)
    for result in results:
        by_case[result.case].append(result.right)
    return dict(by_case)

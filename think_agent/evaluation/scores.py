"""Settings, results and scores. Comparisons are in `comparisons.py`.

Rule 1: everything here is computed from results. Nothing runs, so a score can be recomputed from a
        file and tested by values.
Rule 2: the case is the unit of evidence. Repeated trials of a case show how consistent a model is,
        not how it does on other cases, so intervals count each case once.
Rule 3: a failed request isn't a wrong answer. It's counted separately and isn't part of any share.
        A trial that keeps failing is closed: it then has an outcome, which isn't right
        (`NO_OUTCOME`).
"""

from collections.abc import Collection
from dataclasses import field, replace
from math import comb
from typing import Literal, NamedTuple

from pydantic.dataclasses import dataclass

from .. import __version__
from ..messages import Json, Usage
from ..policies import Forcing, Price
from ..transcript import utc_now
from .intervals import wilson

Switch = Literal["off", "on"]
NO_OUTCOME = "no outcome"  # a closed trial's exit: every try failed
CANNOT = "cannot"  # the exit if the model said that it can't be done
ENDED_BY_ITSELF = ("signal", "silence")
End = Literal["timely", "late", "unsaid", "false"]


@dataclass(frozen=True, config={"extra": "forbid"})
class Setting:
    """One way to run the cases.

    - `think`: the think tool with the exit signal (`"on"`), whose signal may also say that it
      can't be done (`"cannot"`), for notes of at most 25 words (`"brief"`), without the signal
      (`"minimal"`), or none.
    - `cover`: how a guarded tool is protected from a call without a thought.
    - `done_when`: whether the suite's checks run before a run may end.
    - `advice`: whether the suite's advice on thinking follows the task. It says where to think;
      `"silent"` has no place for it: the model may not write its thoughts down.
    - `dialect`: how tools are called; `"default"` is that of `connect` (auto on Ollama).
    - `reasoning`: the model's own; `"default"` is the default of its provider.
    - `enforce`: whether the suite's world refuses wrong calls, which may give the answer away.
    - `max_output_tokens` of a reply, as `connect` takes it.
    - `row`: its name in a table, which isn't a difference between settings.

    `provider` is what `connect` takes, or a script of the suite: `offline:NAME`, `floor:NAME`.
    """

    provider: str
    dialect: Literal["default", "native", "json", "react", "auto"] = "default"
    force: Forcing = "first"
    think: Literal["on", "cannot", "brief", "minimal", "none"] = "on"
    cover: Literal["gate", "carry", "none"] = "gate"
    silence: Literal["confirm", "ask", "accept"] = "confirm"
    done_when: Switch = "off"
    advice: Literal["off", "on", "silent"] = "off"
    reasoning: Literal["default", "off", "low", "medium", "high"] = "default"
    enforce: Switch = "off"
    max_output_tokens: int | None = None
    row: str = ""

    @property
    def is_floor(self) -> bool:
        """Is the model one of the suite's scripts that don't think?"""
        return self.provider.startswith("floor:")

    @property
    def is_scripted(self) -> bool:
        """Is the model one of the suite's scripts?"""
        return self.provider.startswith(("offline", "floor:"))


VARIED = [*Setting.__annotations__][:-1]  # all but `row`
PLAIN = {  # set by every row
    "force": "never",
    "think": "none",
    "cover": "none",
    "advice": "off",
    "reasoning": "off",
}
# Anthropic's article on the think tool compares four of these. The prompt without the tool shows
# whether the tool made the difference: it may write, too, but in its reply ("prompt") or not at all
# ("silent prompt", which is in no comparison). None of them forces or guards anything.
FOUR_ROWS: list[Json] = [
    PLAIN | {"row": "baseline"},
    PLAIN | {"row": "prompt", "advice": "on"},
    PLAIN | {"row": "think", "think": "minimal"},
    PLAIN | {"row": "think + prompt", "think": "minimal", "advice": "on"},
    PLAIN | {"row": "extended thinking", "reasoning": "medium"},
    PLAIN | {"row": "silent prompt", "advice": "silent"},
]


@dataclass(frozen=True)
class Result:
    """The result of one trial: a line of the results file.

    The trial: `setting`, `case` (its id), `kind`, `easy`, `cannot` and `trial`; `name` identifies
    it.
    The result: `right`, `found` (the check's findings, as text) and `wrong_writes`; or only an
    `error`, if a request failed. The run: `exit`, `actions`, `forced` (calls with a forced tool
    choice), `honored` (those that followed it), and so on.

    The origin: `served`, the models that answered, as reported; the version of the `kit`; the
    `plan`, by its digest; the `sitting`, which is one run of the command; and `at`, the time.
    """

    setting: Setting
    case: str
    trial: int
    name: str = ""
    kind: str = ""
    easy: bool = False
    cannot: bool = False
    right: bool = False
    found: tuple[str, ...] = ()
    wrong_writes: int = 0
    exit: str = "error"
    actions: int = 0
    behind_a_thought: int = 0
    forced: int = 0
    honored: int = 0
    model_calls: int = 0
    usage: Usage = Usage()
    error: str = ""
    served: tuple[str, ...] = ()
    kit: str = __version__
    plan: str = ""
    sitting: str = ""
    at: str = field(default_factory=utc_now)

    @property
    def is_closed(self) -> bool:
        """Did every try fail, so that it counts as not right?"""
        return self.exit == NO_OUTCOME

    @property
    def false_success(self) -> bool:
        """Did the model end by signal or silence although the world isn't as it should be?"""
        return self.exit in ENDED_BY_ITSELF and not self.right

    @property
    def end(self) -> End | None:
        """How it ended, considering whether the case can be done at all. None: it can, and the
        model didn't deny it; or that isn't known.

        `"timely"`: it can't, and the model said so (exit `cannot`) before it wrote anything wrong.
        `"late"`: it can't, and the model went on until it had done so, or something else stopped
        it. `"unsaid"`: it can't, and the model ended as if all were done. `"false"`: it can, and
        the model said that it can't.
        """
        if not self.cannot:
            return "false" if self.exit == CANNOT else None
        if self.error or self.is_closed:
            return None
        if self.exit in ENDED_BY_ITSELF:
            return "unsaid"
        if self.exit == CANNOT and not self.wrong_writes:
            return "timely"
        return "late"


Results = dict[Setting, list[Result]]  # by setting


class Share(NamedTuple):
    """A share, and the ends of its interval, from 0 to 1. Its text is in percent."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.1%} ({100 * self.low:.1f} to {100 * self.high:.1f})"


class Score:
    """A setting's score, from its `results`.

    `ran`: the results without an error. `compared`: those of hard cases, or with `easy` those of
    easy ones; `right` is how many of them are right. `by_case`: for each of these cases, which
    trials are right; `closed` counts as not right. `usage`: the tokens of all runs without an
    error, at this `price`.
    """

    def __init__(
        self, results: list[Result], price: Price | None = None, *, easy: bool = False
    ) -> None:
        self.results = results
        self._easy = easy
        self.ran = [result for result in results if not result.error]
        self.compared = [result for result in self.ran if result.easy == easy]
        self.right = sum(result.right for result in self.compared)
        self.by_case: dict[str, dict[int, bool]] = {}
        for result in self.compared:
            self.by_case.setdefault(result.case, {})[result.trial] = result.right
        self.closed = [result for result in self.compared if result.is_closed]
        self.usage = sum((result.usage for result in self.ran), Usage())
        self.price = price

    @property
    def pass_k(self) -> list[Share]:
        """`pass_k[k - 1]`: the chance that `k` random trials of a case are all right, with its 95 %
        Wilson interval. `k` goes up to the number of trials that every case has. The first is the
        share of right trials. Source: Yao et al., tau-bench, arXiv 2406.12045 (2024).

        An agent that is right three times of four isn't good enough for a refund desk.
        """
        found = []
        cases = self.by_case.values()
        n = len(cases)
        fewest = min((len(trials) for trials in cases), default=0)
        for k in range(1, fewest + 1):
            right = 0.0
            for trials in cases:
                right += comb(sum(trials.values()), k) / comb(len(trials), k)
            found.append(Share(right / n, *wilson(right, n)))
        return found

    def if_closed_were_right(self) -> "Score":
        """The score if each trial that was closed had been right."""
        results = []
        for result in self.results:
            results.append(replace(result, right=True) if result.is_closed else result)
        return Score(results, self.price, easy=self._easy)

    @property
    def finished(self) -> int:
        """How many runs finished. Averages are over these."""
        return sum(not result.is_closed for result in self.ran)

    def total(self, name: str) -> int:
        """The sum of a field, such as `actions`, over the runs without an error."""
        return sum(getattr(result, name) for result in self.ran)


def without_floors(settings: Collection[Setting]) -> list[Setting]:
    """The settings to compare."""
    return [setting for setting in settings if not setting.is_floor]


def find_varying(*settings: Setting) -> set[str]:
    """The names of the fields that differ between settings."""
    found = set()
    for name in VARIED:
        if len({getattr(setting, name) for setting in settings}) > 1:
            found.add(name)
    return found


def name_settings(settings: Collection[Setting]) -> dict[Setting, str]:
    """A name for each setting: its differences from the others (`force=never`), or its row. A floor
    is named by its provider.
    """
    compared = without_floors(settings)
    differing = find_varying(*compared)
    apart = sorted(differing) or ["provider"]
    if compared and compared[0].row:
        apart = ["row", *sorted(differing - PLAIN.keys())]
    names = {setting: setting.provider for setting in settings}
    for setting in compared:
        words = ", ".join(f"{name}={getattr(setting, name)}" for name in apart)
        names[setting] = words.removeprefix("provider=").removeprefix("row=")
    return names

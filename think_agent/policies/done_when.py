"""Done when: checks that run when the model says it's done.

Pass them as `Agent(..., done_when=[check])`. A check is a function `(turn) -> str | None`, sync or
async. It returns what is missing, as text for the model, or None. It may look at the world (a
database, a file, an exit code), but shouldn't change it.

Rule 1: when the model says it's done, by signal or by silence, the checks run (the step `Check`).
        Each adds a `Checked` message. If a check raises or takes too long, the run raises that
        error, because the model can't fix it. Only at a limit, where the turn has to end, does it
        count as missing.
Rule 2: if nothing is missing, the run continues without another message or model call.
Rule 3: if something is missing, the model is asked to do it or to say why it can't, at most twice a
        turn. If it answers without doing anything, it isn't asked again. The turn then ends as
        `"unmet"`.
Rule 4: a check runs again only after another action has run.
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field

from ..checking import Culprit, check_function, is_a, name_of, show_error
from ..history import OpenCall
from ..loop import CallModel, Check, Done, Policy, Step
from ..messages import THINK_NAME, Checked, Message, ToolResult, User
from ..text import well_formed
from ..turn import Turn
from ..waiting import Settled, TookTooLong

CheckFunction = Callable[[Turn], str | Awaitable[str | None] | None]

MOST_QUESTIONS = 2  # per turn; with many tries, a check might pass by luck


@dataclass
class Checks:
    """The results of a turn's checks. Another action makes all checks due again."""

    results: list[Checked] = field(default_factory=list)
    latest: dict[str, Checked] = field(default_factory=dict)  # since the last action, by name
    has_asked: bool = False  # the model was asked, and has done nothing since

    @property
    def missing(self) -> list[Checked]:
        """The latest checks that found something missing."""
        return [check for check in self.latest.values() if check.missing is not None]

    def add(self, message: Message, about: OpenCall | None) -> None:
        """Read the next message of the turn. `about`: the call it belongs to."""
        match message:
            case Checked(name):
                self.results.append(message)
                self.latest[name] = message
            case User(kind="check"):
                self.has_asked = True
            case ToolResult(refused="") if about and about.call.name != THINK_NAME:
                self.latest = {}
                self.has_asked = False


def done_when(names: Sequence[str]) -> Policy:
    """The policy: run the checks with these names before a turn ends by signal or silence."""

    def check_what_is_said(step: Step, turn: Turn) -> Step:
        if not _says_done(step, turn):
            return step
        due = find_unchecked(names, turn)
        if due:
            return Check(due)
        if not turn.read(Checks).missing:
            return step
        if _may_ask(turn):
            missing = describe_missing(turn)
            text = f"Not everything is done.\n{missing}\nDo it, or say why it cannot be done."
            return CallModel("auto", say=User(text, kind="check"))
        if isinstance(step, Done):
            return Done("unmet", step.answer)
        return step

    return check_what_is_said


def check_at_limit(names: Sequence[str]) -> Policy:
    """The policy: also run the checks before asking for the closing reply at a limit. (The question
    then says what is missing: `Limits.describe_missing`.)
    """

    def check_before_the_end(step: Step, turn: Turn) -> Step:
        if not isinstance(step, CallModel) or not step.say:
            return step
        if step.say.kind not in ("limit", "budget"):
            return step
        due = find_unchecked(names, turn)
        if due:
            return Check(due)
        return step

    return check_before_the_end


def _says_done(step: Step, turn: Turn) -> bool:
    match step:
        case CallModel(say=None):
            return turn.says_done
        case Done(exit="signal" | "silence"):
            return True
    return False


def _may_ask(turn: Turn) -> bool:
    if turn.read(Checks).has_asked or turn.is_closing_reply:
        return False
    return turn.asked["check"] < MOST_QUESTIONS


def find_unchecked(names: Sequence[str], turn: Turn) -> tuple[str, ...]:
    """The checks that haven't run since the last action."""
    return tuple(name for name in names if name not in turn.read(Checks).latest)


def describe_missing(turn: Turn) -> str:
    """What the latest checks found missing, one line each."""
    return "\n".join(f"- {check.missing}" for check in turn.read(Checks).missing)


def checks_by_name(checks: Iterable[CheckFunction]) -> dict[str, CheckFunction]:
    """The checks by `__name__`. Raises ValueError if two have the same name, and TypeError for
    anything that isn't a function.
    """
    if callable(checks):
        raise TypeError("done_when: pass a list, such as [check]")
    by_name: dict[str, CheckFunction] = {}
    for check in checks:
        check_function("done_when:", check, "turn", may_be_async=True)
        name = name_of(check)
        if name in by_name:
            raise ValueError(f"done_when: two checks are named {name!r}; rename one")
        by_name[name] = check
    return by_name


def as_checked(
    name: str, check: CheckFunction, settled: Settled, timeout: float, *, at_limit: bool
) -> Checked:
    """The result of a check, as a message. Raises the check's error, if it failed (rule 1)."""
    culprit = Culprit("the check", check)
    value, error = settled
    if isinstance(error, TookTooLong):
        error = TimeoutError(f"{culprit} took longer than {timeout:g} seconds")
    elif error is None:
        if value is None:
            return Checked(name)
        if is_a(value, str) and value.strip():
            return Checked(name, well_formed(value))
        error = culprit.returned(value, "return a text that says what is missing, or None")
    if at_limit:
        return Checked(name, f"could not be checked: {show_error(error)}")
    with culprit:
        raise error

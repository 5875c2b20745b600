"""What is said is checked: `Agent(..., done_when=[check])`.

A check is a function `(turn) -> str | None`, sync or async, that says what is missing, in words for
the model. It may look at the world (a database, a file, an exit code) and changes nothing.

Rule 1: when the model says that it is done, by signal or by silence, the checks run (the step
        `Check`), and each leaves a `Checked` message. One that raises or takes too long is missing:
        its error.
Rule 2: with nothing missing, the run goes on as always, with no further message and no further
        call.
Rule 3: otherwise the model is told what is missing: do it, or say why it cannot be done. That is
        asked at most twice a turn, and not again where nothing was done since: the model has said
        why. Then the turn ends as `"unmet"`.
Rule 4: a check is not run again before another action has run.
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence

from ..loop import CallModel, Check, Done, Policy, Step
from ..messages import Checked, User
from ..text import well_formed
from ..turn import Turn
from ..waiting import Settled, TookTooLong

CheckFunction = Callable[[Turn], str | Awaitable[str | None] | None]

MOST_QUESTIONS = 2  # a turn; to repeat until a check passes would be to search for a lucky pass


def done_when(names: Sequence[str]) -> Policy:
    """Holds a turn that ends by signal or silence against the checks of these names."""

    def check_what_is_said(step: Step, turn: Turn) -> Step:
        if not _says_done(step, turn):
            return step
        due = unchecked(names, turn)
        if due:
            return Check(due)
        if not turn.missing:
            return step
        if _may_ask(turn):
            return CallModel("auto", say=User(question(turn), kind="check"))
        if isinstance(step, Done):
            return Done("unmet", step.answer)
        return step

    return check_what_is_said


def _says_done(step: Step, turn: Turn) -> bool:
    match step:
        case CallModel(say=None):
            return turn.closing == "signal"
        case Done(exit="signal" | "silence"):
            return True
    return False


def _may_ask(turn: Turn) -> bool:
    if turn.told_missing or turn.closed_by:
        return False
    return turn.asked["check"] < MOST_QUESTIONS


def unchecked(names: Sequence[str], turn: Turn) -> tuple[str, ...]:
    """The checks that have not run since the last action."""
    return tuple(name for name in names if name not in turn.checked)


def question(turn: Turn) -> str:
    """What the model is told when something is missing."""
    return f"Not everything is done.\n{missing(turn)}\nDo it, or say why it cannot be done."


def missing(turn: Turn) -> str:
    """What the last checks found missing, a line each."""
    return "\n".join(f"- {check.missing}" for check in turn.missing)


def checks_by_name(checks: Iterable[CheckFunction]) -> dict[str, CheckFunction]:
    """The checks by their `__name__`. Raises ValueError for a name that is taken twice, TypeError
    for what is no function.
    """
    by_name: dict[str, CheckFunction] = {}
    for check in checks:
        name = getattr(check, "__name__", "")
        if not callable(check) or not name:
            raise TypeError(f"done_when={check!r}: pass functions (turn) -> str | None")
        if name in by_name:
            raise ValueError(f"done_when: two checks are named {name!r}; rename one")
        by_name[name] = check
    return by_name


def as_checked(name: str, settled: Settled) -> Checked:
    """What came of a check, as a message."""
    value, error = settled
    if isinstance(error, TookTooLong):
        return Checked(name, f"the check {name} gave no result in time")
    if error is not None:
        return Checked(name, f"the check {name} raised {type(error).__name__}: {error}")
    if value is None:
        return Checked(name)
    if not isinstance(value, str) or not value.strip():
        kind = type(value).__name__
        return Checked(name, f"the check {name} gave a {kind}, not what is missing, or None")
    return Checked(name, well_formed(value))

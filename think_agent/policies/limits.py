"""Where a turn ends at the latest. Each limit is a policy of its own; several compose, and the
smallest wins.

Rule 1: at a limit the tools are taken away, and one last model call says what was done and what is
        open. What that call itself uses comes on top (but for model calls, where it is the last of
        them).
Rule 2: then the turn is Done("limit"), or Done("budget") for tokens and money, whatever the model
        says or does not say.
Rule 3: everything is counted from the transcript, seconds from the time stamps of its messages.
Rule 4: there are no prices in here: they change. The caller brings the table.
"""

import math
import re
from bisect import bisect_right
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from ..loop import CallModel, CallTool, Done, Policy, Refuse, Step
from ..messages import THINK_NAME, Usage, User
from ..tools import report
from ..turn import Turn

DATE = r"[-@:](\d[\d-]*|latest)"  # what providers append to the name of a model


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """What a model costs, per million tokens, in whatever currency the limit is in."""

    input: float
    output: float
    cached_input: float | None = None  # None: as much as other input

    def __post_init__(self) -> None:
        for name in ("input", "output", "cached_input"):
            value = getattr(self, name)
            fits = type(value) in (int, float) and 0 <= value < math.inf  # NaN is in no range
            if not (fits or (value is None and name == "cached_input")):
                raise ValueError(f"price {name}={value!r}: use a number from 0")

    def of(self, usage: Usage) -> float:
        """The cost of a usage."""
        cached = self.input if self.cached_input is None else self.cached_input
        fresh = usage.input_tokens - usage.cached_tokens
        read = fresh * self.input + usage.cached_tokens * cached
        return (read + usage.output_tokens * self.output) / 1_000_000


@dataclass(frozen=True, kw_only=True)
class Limits:
    """The limits of a turn; None for none."""

    model_calls: int
    actions: int | None = None
    seconds: float | None = None
    tokens: int | None = None
    cost: float | None = None
    prices: Mapping[str, Price]

    def policies(self, since: str = "") -> list[Policy]:
        """Those that are set. `since`: the time (ISO) from which seconds count."""
        return [
            max_model_calls(self.model_calls),
            *([max_actions(self.actions)] if self.actions is not None else []),
            *([max_seconds(self.seconds, since=since)] if self.seconds is not None else []),
            *([max_tokens(self.tokens)] if self.tokens is not None else []),
            *([max_cost(self.cost, self.prices)] if self.cost is not None else []),
        ]


def max_model_calls(limit: int) -> Policy:
    """At most `limit` model calls a turn, the closing one included."""
    check_whole("max_model_calls", limit)
    close = _closing("limit", f"{limit} model calls", lambda turn: len(turn.replies) >= limit - 1)

    def limit_model_calls(step: Step, turn: Turn) -> Step:
        if not isinstance(step, CallModel) or len(turn.replies) < limit:
            return close(step, turn)
        if step.say and step.say.kind == "answer":
            return Done("invalid_answer", turn.reply.words if turn.reply else "")
        if step.tool_choice == "none":  # the closing call was the last, whatever came of it
            return Done("empty")
        return Done("limit", report(turn))

    return limit_model_calls


def max_actions(limit: int) -> Policy:
    """At most `limit` actions a turn. Thoughts are no actions: they have a budget of their own."""
    check_whole("max_actions", limit)
    close = _closing("limit", f"{limit} actions", lambda turn: len(turn.actions) >= limit)

    def limit_actions(step: Step, turn: Turn) -> Step:
        match step:
            case CallTool(call) if call.name != THINK_NAME and len(turn.actions) >= limit:
                return Refuse(call, "limit", f"not run: the limit of {limit} actions is reached.")
        return close(step, turn)

    return limit_actions


def max_seconds(limit: float, *, since: str = "") -> Policy:
    """At most `limit` seconds of work, looked at before each model call. Waiting for a person does
    not count, nor what was before `since`: the time (ISO) at which this process took the run up.
    """
    check_amount("max_seconds", limit)
    reached = lambda turn: seconds(turn, since) >= limit  # noqa: E731
    return _closing("limit", f"{limit:g} seconds", reached, cut="deadline")


def seconds(turn: Turn, since: str = "") -> float:
    """How long a turn worked, by the time stamps of its messages, from `since` (ISO) on."""
    if not turn.times or not since:
        return turn.times[-1][1] if turn.times else 0.0
    start = datetime.fromisoformat(since).timestamp()
    place = bisect_right(turn.times, (start, math.inf))
    if place == len(turn.times):
        return 0.0
    first, worked = turn.times[place]
    lead = first - start  # unless that was in which a person decided
    if place:
        lead = min(lead, worked - turn.times[place - 1][1])
    return turn.times[-1][1] - worked + lead


def max_tokens(limit: int) -> Policy:
    """At most `limit` tokens a turn, input and output together."""
    check_whole("max_tokens", limit)
    return _closing("budget", f"{limit} tokens", lambda turn: turn.tokens >= limit, cut="too_long")


def max_cost(limit: float, prices: Mapping[str, Price]) -> Policy:
    """At most `limit` spent a turn. `prices` is by model name; a reply of a model that is not in it
    raises ValueError, for money that cannot be counted cannot be limited.
    """
    check_amount("max_cost", limit)

    def spent(turn: Turn) -> bool:
        return sum(price(prices, name).of(usage) for name, usage in turn.usage_of.items()) >= limit

    return _closing("budget", f"{limit:g} in costs", spent)


def closing_words(step: Step, turn: Turn) -> Step:
    """A turn that was closed by a limit ends by it, with or without closing words."""
    closed = turn.asked["limit"] or turn.asked["budget"]
    if closed and isinstance(step, Done) and step.exit in ("empty", "truncated"):
        return Done("budget" if turn.asked["budget"] else "limit", step.answer or report(turn))
    return step


def is_free(step: Step) -> bool:
    """Is this a model call that may still call tools?"""
    return isinstance(step, CallModel) and step.tool_choice != "none"


def _closing(
    kind: Literal["limit", "budget"], limit: str, reached: Callable[[Turn], bool], cut: str = ""
) -> Policy:
    """Where the `limit` (in words) is reached, the tools are taken away and a last call is made.
    One that ends a reply under way (`cut`: the cause) ends the turn with as much as there is.
    """

    def close_at_the_limit(step: Step, turn: Turn) -> Step:
        ours = bool(cut and turn.reply and turn.reply.cause == cut)
        if cut and isinstance(step, Done) and step.exit == "truncated" and (ours or reached(turn)):
            return Done(kind, step.answer or report(turn))
        if not is_free(step) or not (ours or reached(turn)):
            return step
        if isinstance(step, CallModel) and step.say and step.say.kind == "silence":
            return Done(kind, turn.reply.words if turn.reply else "")  # no call is left to ask with
        words = (
            f"The limit of {limit} for this request is reached; no tool can be called any more. "
            f"What was done:\n{report(turn) or 'nothing yet'}\n"
            "Tell the user what was done and decided, and what is open."
        )
        return CallModel("none", say=User(words, kind=kind))

    return close_at_the_limit


def price(prices: Mapping[str, Price], model: str) -> Price:
    """The price of a model: by its whole name, or by the name without what the provider appended (a
    date, mostly). Raises ValueError where there is none.
    """
    if model in prices:
        return prices[model]
    names = [name for name in prices if re.fullmatch(re.escape(name) + DATE, model)]
    if not names:
        raise ValueError(f"no price for the model {model!r}; add it to prices=")
    return prices[max(names, key=len)]


def check_whole(name: str, value: object) -> None:
    """Raises ValueError for what is no number to count with, which a bool is not."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"{name}={value!r}: use a whole number from 1")


def check_amount(name: str, value: object) -> None:
    """Raises ValueError for what is no number above 0, which a bool is not."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not value > 0:
        raise ValueError(f"{name}={value!r}: use a number above 0")

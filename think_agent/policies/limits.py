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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from .. import trail
from ..loop import CallModel, CallTools, Done, Policy, Refuse, Step
from ..messages import THINK_NAME, Assistant, Message, Usage, User, Verdict, current_turn

Reached: TypeAlias = Callable[[Sequence[Message]], str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """What a model costs, per million tokens, in whatever currency the limit is in."""

    input: float
    output: float
    cached_input: float | None = None  # None: as much as other input

    def __post_init__(self) -> None:
        for name in ("input", "output", "cached_input"):
            value = getattr(self, name)
            if value is None and name == "cached_input":
                continue
            is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
            if not (is_number and 0 <= value < math.inf):  # NaN is in no range
                raise ValueError(f"price {name}={value!r}: use a number from 0")

    def of(self, usage: Usage) -> float:
        """The cost of a usage."""
        cached = self.input if self.cached_input is None else self.cached_input
        fresh = usage.input_tokens - usage.cached_tokens
        read = fresh * self.input + usage.cached_tokens * cached
        return (read + usage.output_tokens * self.output) / 1_000_000


def max_model_calls(limit: int) -> Policy:
    """At most `limit` model calls a turn, the closing one included."""
    check_whole("max_model_calls", limit)

    def reached(turn: Sequence[Message]) -> str | None:
        return f"{limit} model calls" if _model_calls(turn) >= limit - 1 else None

    closing = _closing("limit", reached)

    def policy(step: Step, transcript: Sequence[Message]) -> Step:
        if isinstance(step, CallModel) and _model_calls(current_turn(transcript)) >= limit:
            if step.say and step.say.kind == "answer":
                return Done("invalid_answer")
            if step.tool_choice == "none":  # the closing call was the last, whatever came of it
                return Done("empty")
            return Done("limit", trail.report(current_turn(transcript)))
        return closing(step, transcript)

    return policy


def max_actions(limit: int) -> Policy:
    """At most `limit` actions a turn. Thoughts are no actions: they have a budget of their own."""
    check_whole("max_actions", limit)

    def reached(turn: Sequence[Message]) -> str | None:
        return f"{limit} actions" if _actions(turn) >= limit else None

    closing = _closing("limit", reached)

    def policy(step: Step, transcript: Sequence[Message]) -> Step:
        match step:
            case CallTools(calls=calls):  # one reply may ask for more than is left
                left = limit - _actions(current_turn(transcript))
                if left <= 0 and calls[0].name != THINK_NAME:
                    return Refuse(calls[0], f"not run: the limit of {limit} actions is reached.")
                return CallTools(calls[: max(1, left)])
        return closing(step, transcript)

    return policy


def max_seconds(limit: float, *, since: str = "") -> Policy:
    """At most `limit` seconds of work, looked at before each model call. Waiting for a person does
    not count, nor what was before `since`: the time (ISO) at which this process took the run up.
    """
    check_amount("max_seconds", limit)

    def reached(turn: Sequence[Message]) -> str | None:
        return f"{limit:g} seconds" if _seconds(turn, since) >= limit else None

    return _closing("limit", reached)


def max_tokens(limit: int) -> Policy:
    """At most `limit` tokens a turn, input and output together."""
    check_whole("max_tokens", limit)

    def reached(turn: Sequence[Message]) -> str | None:
        used = trail.usage(turn)
        return f"{limit} tokens" if used.input_tokens + used.output_tokens >= limit else None

    return _closing("budget", reached)


def max_cost(limit: float, prices: Mapping[str, Price]) -> Policy:
    """At most `limit` spent a turn. `prices` is by model name; a reply of a model that is not in it
    raises ValueError, for money that cannot be counted cannot be limited.
    """
    check_amount("max_cost", limit)

    def reached(turn: Sequence[Message]) -> str | None:
        spent = sum(price(prices, m.model).of(m.usage) for m in turn if isinstance(m, Assistant))
        return f"{limit:g} in costs" if spent >= limit else None

    return _closing("budget", reached)


def last_words(step: Step, transcript: Sequence[Message]) -> Step:
    """A turn that was closed by a limit ends by it also when the model had no closing words."""
    if isinstance(step, Done) and step.exit in ("empty", "truncated"):
        turn = current_turn(transcript)
        for message in turn:
            match message:
                case User(kind="limit" | "budget" as exit):
                    return Done(exit, step.answer or trail.report(turn))
    return step


def _closing(kind: Literal["limit", "budget"], reached: Reached) -> Policy:
    def policy(step: Step, transcript: Sequence[Message]) -> Step:
        if not (isinstance(step, CallModel) and step.tool_choice != "none"):
            return step
        turn = current_turn(transcript)
        limit = reached(turn)
        if limit is None:
            return step
        done = trail.report(turn) or "nothing yet"
        words = (
            f"The limit of {limit} for this request is reached; no tool can be called any more. "
            f"What was done:\n{done}\nTell the user what was done and decided, and what is open."
        )
        return CallModel("none", say=User(words, kind=kind))

    return policy


def _model_calls(turn: Sequence[Message]) -> int:
    return sum(isinstance(message, Assistant) for message in turn)


def _actions(turn: Sequence[Message]) -> int:
    return sum(1 for _ in trail.actions(turn))


def _seconds(turn: Sequence[Message], since: str) -> float:
    from datetime import datetime

    total, before = 0.0, datetime.fromisoformat(since) if since else None
    for message in turn:
        if message.at is None:
            continue
        at = datetime.fromisoformat(message.at)
        if before and at > before:
            if not isinstance(message, Verdict):
                total += (at - before).total_seconds()
            before = at
        before = before or at
    return total


def price(prices: Mapping[str, Price], model: str) -> Price:
    """The price of a model: by its whole name, or by the name without what the provider appended (a
    date, mostly). Raises ValueError where there is none.
    """
    if model in prices:
        return prices[model]
    names = [name for name in prices if model.startswith(name)]
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

"""Limits: a turn ends at the first limit it reaches.

Rule 1: at a limit, no more tools can be called. One last model call reports what was done and what
        is still open. (The `done_when` checks run before it.) The limit on model calls includes
        this call. It may go beyond any other limit.
Rule 2: the turn then ends with Done("limit"), or Done("budget") for tokens and cost, whatever the
        last reply says.
Rule 3: everything is counted from the transcript; seconds come from the time stamps of its
        messages. The time a person takes to decide doesn't count, nor does a pause between two
        processes.
Rule 4: prices change, so the caller passes them in.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from math import inf
from typing import Literal, get_args

from ..loop import AskHuman, CallModel, CallTool, Check, Done, Refuse, Step, is_action
from ..messages import THINK_NAME, Usage, User
from ..outcome import report_actions
from ..think import read_signal
from ..turn import Turn

Kind = Literal["limit", "budget"]
CLOSING_TOKENS = 1_000  # for a closing reply at or beyond a limit
CLOSING_SECONDS = 60.0  # likewise, where there is a limit on seconds
LEAST_TOKENS = 200  # with money for fewer than this, no reply is asked for


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """What a million tokens of a model cost, in the currency of the limit. `cached_input` is for
    tokens read from a cache, `written_input` for tokens written to one. None means the same price
    as other input.
    """

    input: float
    output: float
    cached_input: float | None = None
    written_input: float | None = None

    def __post_init__(self) -> None:
        for name in self.__slots__:
            value = getattr(self, name)
            if value is not None and not isinstance(value, int | float):
                raise TypeError(f"price {name}={value!r}: use a number")
            if value is not None and not 0 <= value < inf:
                raise ValueError(f"price {name}={value!r}: use a number from 0")

    def of(self, usage: Usage) -> float:
        """The cost of these tokens."""
        cached = self.cached_input
        if cached is None:
            cached = self.input
        written = self.written_input
        if written is None:
            written = self.input
        fresh = max(0, usage.input_tokens - usage.cached_tokens - usage.written_tokens)
        cost = fresh * self.input + usage.output_tokens * self.output
        cost += usage.cached_tokens * cached + usage.written_tokens * written
        return cost / 1_000_000


def read_prices(prices: Mapping[str, Price | Mapping[str, float]]) -> dict[str, Price]:
    """Prices by model name. A dict, as from TOML, becomes a Price."""
    found = {}
    for name, price in prices.items():
        if isinstance(price, Mapping):
            try:
                price = Price(**price)
            except TypeError as error:
                problem = str(error).removeprefix("Price.__init__() ")
                raise TypeError(f"prices[{name!r}]: {problem}; see Price") from None
        if not isinstance(price, Price):
            raise TypeError(f"prices[{name!r}]={price!r}: use Price(input=…, output=…)")
        found[name] = price
    return found


@dataclass(kw_only=True)
class Limits:
    """The limits of a turn; infinity means no limit. `model`: the model's name, to look up its
    price.
    """

    model: str = ""
    prices: Mapping[str, Price] = field(default_factory=dict)
    model_calls: float = inf
    actions: float = inf
    seconds: float = inf
    tokens: float = inf
    cost: float = inf
    thoughts: float = inf  # in a row; the turn ends after twice as many
    describe_missing: Callable[[Turn], str] | None = None  # for the closing question

    def __post_init__(self) -> None:
        if self.cost < inf and self.model not in self.prices:
            raise ValueError(f"no price for the model {self.model!r}; add it to prices=")

    def tighten(self, given: Mapping[str, float]) -> "Limits":
        """The smaller of these limits and those given for one run."""
        smaller = {}
        for name, value in given.items():
            field_name = name.removeprefix("max_")
            smaller[field_name] = min(getattr(self, field_name), value)
        return replace(self, **smaller)

    def of_turn(self, turn: Turn) -> "Limits":
        """The limits of this turn, including those for a single run (`User.limits`)."""
        if turn.request is None or not turn.request.limits:
            return self
        return self.tighten(turn.request.limits)

    def find_reached(self, turn: Turn) -> tuple[Kind, str] | None:
        """The exit for the limit that a turn has reached, and the limit as text; or None."""
        if len(turn.replies) >= self.model_calls - 1:  # one is reserved for the closing reply
            return "limit", f"model calls ({self.model_calls})"
        if turn.thoughts_in_a_row >= 2 * self.thoughts:
            return "limit", f"{turn.thoughts_in_a_row} replies in a row that only think"
        beyond = self._beyond(turn)
        if beyond:
            return "limit", beyond
        if turn.tokens >= self.tokens:
            return "budget", f"{self.tokens} tokens"
        if self._affordable(turn) < LEAST_TOKENS:
            return "budget", f"{self.cost:g} in costs"
        return None

    def _beyond(self, turn: Turn) -> str:
        """The limit that a turn has reached, of those that also stop a tool call; empty if none."""
        if len(turn.actions) >= self.actions:
            return f"actions ({self.actions})"
        if turn.seconds >= self.seconds:
            return f"{self.seconds:g} seconds"
        return ""

    def bound_step(self, step: Step, turn: Turn) -> Step:
        """The policy: apply the limits to a planned step."""
        limits = self.of_turn(turn)
        match step:
            case CallModel():
                return limits._bound_reply(step, turn)
            case Check():
                return replace(step, at_limit=limits.find_reached(turn) is not None)
            case CallTool(call) if call.name == THINK_NAME:
                return self._hurry(step, turn)
        return step

    def _bound_reply(self, step: CallModel, turn: Turn) -> CallModel:
        """Limit a reply's tokens and seconds. A closing reply may exceed the turn's limits and has
        its own.
        """
        tokens = min(self.tokens - turn.tokens, self._affordable(turn))
        seconds = self.seconds - turn.seconds
        if turn.limit or (step.say and step.say.kind in get_args(Kind)):
            tokens = CLOSING_TOKENS
            if seconds < inf:  # without a limit, a slow model may take its time
                seconds = CLOSING_SECONDS
        elif step.tool_choice == "none":
            tokens = max(tokens, CLOSING_TOKENS)
            seconds = max(seconds, CLOSING_SECONDS)
        bounds = step.bounds
        if bounds.max_output_tokens is not None:  # a custom policy may ask for less
            tokens = min(tokens, bounds.max_output_tokens)
        most = None if tokens == inf else int(tokens)
        seconds = min(seconds, bounds.seconds)
        bounds = replace(
            bounds, max_output_tokens=most, seconds=seconds, model_calls=self.model_calls
        )
        return replace(step, bounds=bounds)

    def _affordable(self, turn: Turn) -> float:
        """How many output tokens the remaining money buys; infinity if there is no limit."""
        cost = self.cost_of(turn)
        if cost is None:
            return inf
        left = self.cost - cost
        price = self.prices[self.model].output
        if price > 0:
            return left / price * 1_000_000
        if left > 0:
            return inf
        return 0

    def close_at_limit(self, step: Step, turn: Turn) -> Step:
        """The policy: at a limit, refuse tool calls and ask for the closing reply."""
        limits = self.of_turn(turn)
        match step:
            case CallTool(call) if is_action(step):  # thoughts aren't actions
                limit = limits._beyond(turn)
                if limit:
                    return Refuse(call, "limit", f"not run: the limit of {limit} is reached.")
            case CallModel():
                return limits._close(step, turn)
            case AskHuman(call=None) if turn.limit or limits.find_reached(turn):  # don't ask then
                return limits._close(CallModel(), turn)
        return step

    def _close(self, step: CallModel, turn: Turn) -> Step:
        if turn.limit:  # rule 2: its reply is the last one
            if isinstance(turn.last, User):
                return CallModel("none")
            return Done(turn.limit, turn.last_words or report_actions(turn))
        if len(turn.replies) >= self.model_calls:
            return _end_without_call(step, turn)
        reached = self.find_reached(turn)
        if reached is None or _is_closing(step, turn):
            return step

        kind, limit = reached
        if step.say and step.say.kind == "silence":  # no model call is left for that
            return Done(kind, turn.last_words)
        return CallModel("none", say=User(self._closing_question(limit, turn), kind=kind))

    def _closing_question(self, limit: str, turn: Turn) -> str:
        lines = [
            f"The limit of {limit} for this request is reached; no tool can be called any more.",
            f"What was done:\n{report_actions(turn) or 'nothing yet'}",
        ]
        missing = self.describe_missing(turn) if self.describe_missing else ""
        if missing:
            lines.append(f"What is missing:\n{missing}")
        lines.append("Tell the user what was done and decided, and what is open.")
        return "\n".join(lines)

    def _hurry(self, step: CallTool, turn: Turn) -> CallTool:
        """After many replies in a row that only think, tell the model to act or to finish."""
        in_a_row = turn.thoughts_in_a_row
        if in_a_row < self.thoughts or read_signal(step.call) in (False, "cannot"):
            return step
        text = f"That is {in_a_row} in a row: it is time to act with another tool, or to finish."
        return replace(step, remark=text)

    def name_limit(self, step: Step, turn: Turn) -> Step:
        """The policy: if a limit cut off the closing reply or left it empty, the exit names that
        limit, and the answer is whatever there is.
        """
        if not isinstance(step, Done) or step.exit not in ("empty", "truncated"):
            return step
        answer = step.answer or report_actions(turn)
        if turn.limit:
            return Done(turn.limit, answer)
        if step.exit == "truncated" and turn.tokens >= self.of_turn(turn).tokens:
            return Done("budget", answer)
        if turn.reply and turn.reply.cause == "deadline":
            return Done("limit", answer)
        return step

    def cost_of(self, turn: Turn) -> float | None:
        """What a turn cost; None if there is no price. A server may report another model name. If
        that name has no price, the requested model's price is used.
        """
        asked_for = self.prices.get(self.model)
        if asked_for is None:
            return None
        cost = 0.0
        for name, usage in turn.usage_of.items():
            cost += self.prices.get(name, asked_for).of(usage)
        return cost


def _is_closing(step: CallModel, turn: Turn) -> bool:
    """Is the kit itself asking for a closing reply? (A custom policy might ask for one forever.)"""
    if step.tool_choice != "none":
        return False
    if step.say:
        return step.say.kind != "policy"
    return turn.last is not turn.reply


def _end_without_call(step: CallModel, turn: Turn) -> Step:
    """How the turn ends if no model call is left, not even for the closing reply."""
    if step.say and step.say.kind == "answer":
        return Done("invalid_answer", turn.last_words)
    answer = ""
    if turn.is_closing_reply:
        answer = turn.last_words
    return Done("limit", answer or report_actions(turn))

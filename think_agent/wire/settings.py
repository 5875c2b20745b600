"""Settings of a model, with the same meaning for all providers."""

from typing import Literal

from pydantic import ConfigDict, NonNegativeFloat, PositiveFloat, PositiveInt
from pydantic.dataclasses import dataclass

from ..model import Request

MAX_OUTPUT = 8192  # tokens
Reasoning = Literal["off", "low", "medium", "high"]


@dataclass(frozen=True, config=ConfigDict(strict=True, allow_inf_nan=False))
class Settings:
    """Settings of a model; None leaves one to the provider. Their types and bounds are checked.

    `max_output_tokens` bounds one reply, native reasoning included. `per_minute`: requests.
    `timeout`: the most seconds of silence.
    """

    reasoning: Reasoning | None = None
    max_output_tokens: PositiveInt | None = None
    temperature: NonNegativeFloat | None = None
    seed: int | None = None
    per_minute: PositiveInt | None = None
    timeout: PositiveFloat = 120.0

    def refuse(self, who: str, *names: str) -> None:
        """Raises ValueError for the first of `names` that is set: `who` does not take it."""
        for name in names:
            if getattr(self, name) is not None:
                raise ValueError(f"{who} takes no {name}; leave it out")

    def output_of(self, request: Request) -> int:
        """The most tokens of the reply. There always is a bound: a model that repeats itself would
        never stop. That of the request can only lower the other.
        """
        if request.max_output_tokens is None:
            return self.most_output
        return min(self.most_output, request.max_output_tokens)

    @property
    def most_output(self) -> int:
        """The most tokens of any reply."""
        return self.max_output_tokens or MAX_OUTPUT

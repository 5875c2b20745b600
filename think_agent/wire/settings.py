"""Settings of a model, with the same meaning for all providers."""

from typing import Literal

from pydantic import ConfigDict, NonNegativeFloat, PositiveFloat, PositiveInt
from pydantic.dataclasses import dataclass

from ..model import Request

MAX_OUTPUT = 8192  # tokens
Reasoning = Literal["off", "low", "medium", "high"]


@dataclass(frozen=True, config=ConfigDict(strict=True, allow_inf_nan=False))
class Settings:
    """Settings of a model; None leaves a setting to the provider. Types and ranges are validated.

    `max_output_tokens` limits one reply, including native reasoning. `per_minute`: requests.
    `timeout`: the longest silence in seconds.
    """

    reasoning: Reasoning | None = None
    max_output_tokens: PositiveInt | None = None
    temperature: NonNegativeFloat | None = None
    seed: int | None = None
    per_minute: PositiveInt | None = None
    timeout: PositiveFloat = 120.0

    def refuse(self, who: str, *names: str) -> None:
        """Raises ValueError for the first of `names` that's set, since `who` doesn't support it."""
        for name in names:
            if getattr(self, name) is not None:
                raise ValueError(f"{who} takes no {name}; leave it out")

    def output_of(self, request: Request) -> int:
        """The token limit for the reply. There is always one, because a model that repeats itself
        would never stop. A request can only lower the model's limit.
        """
        if request.max_output_tokens is None:
            return self.most_output
        return min(self.most_output, request.max_output_tokens)

    @property
    def most_output(self) -> int:
        """The model's token limit for a reply."""
        return self.max_output_tokens or MAX_OUTPUT

"""The settings that `connect` takes for every provider, and their bounds. Imported only when it is
needed: pydantic takes time to make a class.
"""

from pydantic import BaseModel, ConfigDict, NonNegativeFloat, PositiveFloat, PositiveInt

from ..wire.settings import Reasoning


class Asked(BaseModel):
    """Each setting within its bounds."""

    model_config = ConfigDict(strict=True, allow_inf_nan=False)

    timeout: PositiveFloat
    reasoning: Reasoning | None
    max_output_tokens: PositiveInt | None
    temperature: NonNegativeFloat | None
    seed: int | None
    per_minute: PositiveInt | None

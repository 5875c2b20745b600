"""What `connect` takes for every provider. The file is loaded when it is needed: to make a class of
pydantic's takes time.
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

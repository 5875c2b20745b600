"""Ways to speak of tools without tool calling: a dialect wraps a Model and is a Model."""

from ..model import Model


def in_dialect(model: Model, dialect: str) -> Model:
    """`model` in the dialect `"json"` or `"react"`; in `"native"` it is the model itself."""
    from .json_plan import json_plan
    from .react import react

    if dialect not in ("native", "json", "react"):
        raise ValueError(f"dialect={dialect!r}: use 'native', 'json' or 'react'")
    if dialect == "native":
        return model
    return json_plan(model) if dialect == "json" else react(model)

"""Ways to speak of tools without tool calling: a dialect wraps a Model and is a Model."""

from collections.abc import Callable

from ..model import Model


def in_dialect(model: Model, dialect: str) -> Model:
    """`model` in the dialect `"json"` or `"react"`; in `"native"` it is the model itself."""
    from .json_plan import json_plan
    from .react import react

    speaks: dict[str, Callable[[Model], Model]]
    speaks = {"native": lambda model: model, "json": json_plan, "react": react}
    if dialect not in speaks:
        raise ValueError(f"dialect={dialect!r}: use 'native', 'json' or 'react'")
    return speaks[dialect](model)

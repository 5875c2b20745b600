"""Ways to use tools without native tool calling. A dialect wraps a Model and is a Model."""

from ..model import Model
from .auto import Auto
from .json_plan import json_plan
from .react import react
from .split import split
from .tags import Tags, tagged
from .text_calls import recovered

__all__ = ["Tags", "in_dialect", "json_plan", "react", "recovered", "split", "tagged"]
DIALECTS = {"json": json_plan, "react": react, "auto": Auto}


def in_dialect(model: Model, dialect: str) -> Model:
    """`model` in the dialect `"json"` or `"react"`. `"native"` returns the model itself. `"auto"`
    stays native while that works, and otherwise switches to json (`auto.py`). If the model already
    uses `auto`, as Ollama's do, the new dialect replaces it.
    """
    if isinstance(model, Auto):
        model = model.inner
    if dialect == "native":
        return model
    if dialect not in DIALECTS:
        raise ValueError(f"dialect={dialect!r}: use 'native', 'json', 'react' or 'auto'")
    return DIALECTS[dialect](model)

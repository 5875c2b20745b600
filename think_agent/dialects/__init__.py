"""Ways to use tools without native tool calling. A dialect wraps a Model and is a Model."""

from ..model import Model


def in_dialect(model: Model, dialect: str) -> Model:
    """`model` in the dialect `"json"` or `"react"`. `"native"` gives the model itself. `"auto"`
    stays native while that works, else it changes to json (`auto.py`). A model that speaks auto
    already, as Ollama's do, speaks the new dialect instead.
    """
    from .auto import Auto
    from .json_plan import json_plan
    from .react import react

    if isinstance(model, Auto):
        model = model.inner
    match dialect:
        case "native":
            return model
        case "json":
            return json_plan(model)
        case "react":
            return react(model)
        case "auto":
            return Auto(model)
    raise ValueError(f"dialect={dialect!r}: use 'native', 'json', 'react' or 'auto'")

"""A signature as a JSON schema: what `@tool` reads at declaration.

Rule 1: what cannot be described to a model is refused there and then, with TypeError; no parameter
        ever silently becomes a string.
Rule 2: pydantic builds the schema and validates by the same model, so the two cannot disagree.
Rule 3: the schema holds no references and no titles: several servers and SDKs drop what they would
        have to look up.
"""

import inspect
import re
from collections.abc import Callable
from typing import Annotated, Any, get_type_hints

import pydantic
import pydantic_core

from .messages import Json

KEY = "idempotency_key"  # a parameter of this name is the kit's: no model gets to see it


def arguments_model(
    name: str, function: Callable[..., Any], notes: dict[str, str]
) -> "type[pydantic.BaseModel]":
    """A pydantic model with one field per parameter. `notes`: descriptions by parameter. Raises
    TypeError for what has no schema.
    """
    try:
        hints = get_type_hints(function, include_extras=True)
    except (NameError, SyntaxError, AttributeError, TypeError) as error:
        raise TypeError(f"tool {name}: a type annotation cannot be resolved: {error}") from error
    model_fields: dict[str, Any] = {}
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise TypeError(
                f"tool {name}: parameter {parameter} must be one that can be passed by its name"
            )
        if parameter.name == KEY:
            continue
        if parameter.name not in hints:
            raise TypeError(f"tool {name}: parameter {parameter.name} has no type annotation")
        kind = hints[parameter.name]
        # Annotated[int, "text"] is the plain way to describe a parameter; pydantic wants
        # Field(description="text").
        described = next((m for m in getattr(kind, "__metadata__", ()) if isinstance(m, str)), None)
        default = ... if parameter.default is parameter.empty else parameter.default
        text = described or notes.get(parameter.name)
        if text:
            kind = Annotated[kind, pydantic.Field(description=text)]
        # The field's own name is neutral: a parameter may be called `json` or `model_config`.
        field = pydantic.Field(default, alias=parameter.name)
        model_fields[f"argument_{len(model_fields)}"] = (kind, field)
    try:
        model: type[pydantic.BaseModel] = pydantic.create_model(
            name, __config__=pydantic.ConfigDict(extra="forbid"), **model_fields
        )
        schema = model.model_json_schema()
    except (pydantic.errors.PydanticUserError, pydantic_core.SchemaError) as error:
        raise TypeError(
            f"tool {name}: a parameter's type has no JSON schema: {str(error).splitlines()[0]}"
        ) from error
    for field_name, described_as in schema.get("properties", {}).items():
        if not described_as.keys() - {"title", "description", "default"}:
            raise TypeError(
                f"tool {name}: parameter {field_name} needs a type that says more than Any"
            )
    return model


def inline_refs(schema: Json) -> Json:
    """`schema` without `$ref`, `$defs` and titles. Raises TypeError for a recursive type."""
    definitions = schema.get("$defs", {})

    def walk(node: Any, seen: tuple[str, ...]) -> Any:
        if isinstance(node, list):
            return [walk(item, seen) for item in node]
        if not isinstance(node, dict):
            return node
        if isinstance(ref := node.get("$ref"), str):
            target = ref.removeprefix("#/$defs/")
            if target in seen:
                raise TypeError(
                    f"a recursive type ({target}) cannot be a tool parameter; pass it as JSON text"
                )
            rest = {key: value for key, value in node.items() if key != "$ref"}
            return {**walk(definitions[target], (*seen, target)), **walk(rest, seen)}
        kept = {}
        for key, value in node.items():
            if key == "$defs" or (key == "title" and isinstance(value, str)):
                continue
            if key == "properties":  # its keys are names, and one may be called "title"
                kept[key] = {name: walk(item, seen) for name, item in value.items()}
            else:
                kept[key] = value if key == "default" else walk(value, seen)
        return kept

    inlined = walk(schema, ())
    assert isinstance(inlined, dict)
    return inlined


def read_docstring(text: str) -> tuple[str, dict[str, str]]:
    """A docstring's text without its `Args:` section (Google style), and that by parameter."""
    head, found, rest = text.partition("\nArgs:\n")
    if not found:
        return text, {}
    section, tail = re.match(r"((?:[ \t]+[^\n]*\n?|\n)*)(.*)", rest, re.DOTALL).groups()  # type: ignore[union-attr]
    entries = re.findall(
        r"^\s+(\w+)(?:\s*\([^)]*\))?:\s*(.*(?:\n(?!\s+\w+(?:\s*\([^)]*\))?:).+)*)", section, re.M
    )
    notes = {name: " ".join(note.split()) for name, note in entries}
    return "\n".join(part for part in (head.strip(), tail.strip()) if part), notes

"""A tool's parameters as structured output can hold them, and a value held against that.

Rule 1: `reduced` keeps the keywords that every provider takes: type, enum, items, anyOf, and
        properties with required and `additionalProperties: false`. References are written out.
Rule 2: strict modes want every property required. One that may be left out becomes one that may be
        null (`strict=True`), and `fitted` takes such a null out again.
Rule 3: `fitted` knows those keywords and minItems, maxItems. What does not fit is a ModelMistake
        that names the place, what was expected and what was there.

The edge: what is dropped (bounds, patterns, formats) is left to the tool. An object that names no
properties, a value of any type and a type inside itself stay open: llama.cpp, Ollama and Gemini
take those; OpenAI and Anthropic answer 400. Anthropic also limits unions, to 16 in a schema, and
every optional property is one.
"""

import json
from typing import Any

from ..messages import Json
from ..tools import ModelMistake

NULL: Json = {"type": "null"}


def closed(**properties: Json) -> Json:
    """The schema of an object with these properties, all of them and no others."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def one_of(*names: str) -> Json:
    """The schema of one of some names; not by `const`, which Gemini does not know."""
    return {"type": "string", "enum": list(names)}


def reduced(root: Json, *, strict: bool) -> Json:
    """The parameters of a tool in the keywords of rule 1."""

    def walk(schema: Any, inside: tuple[str, ...]) -> Json:
        if not isinstance(schema, dict):  # `true`: anything
            return {}
        if isinstance(ref := schema.get("$ref"), str):
            return {} if ref in inside else walk(_resolved(ref, root), (*inside, ref))
        kept = {key: schema[key] for key in ("type", "enum") if key in schema}
        if "const" in schema:
            kept["enum"] = [schema["const"]]
        union = schema.get("anyOf") or schema.get("oneOf")
        if union and "type" not in schema:  # beside a type it only narrows: left to the tool
            kept["anyOf"] = [walk(branch, inside) for branch in union]
        if "items" in schema:
            kept["items"] = walk(schema["items"], inside)
        if "properties" in schema:
            properties = {name: walk(value, inside) for name, value in schema["properties"].items()}
            required = [name for name in properties if name in schema.get("required", ())]
            if strict:
                optional = properties.keys() - set(required)
                properties |= {name: _nullable(properties[name]) for name in optional}
                required = list(properties)
            kept |= {"properties": properties, "required": required, "additionalProperties": False}
        elif isinstance(others := schema.get("additionalProperties"), dict):
            kept["additionalProperties"] = walk(others, inside)
        return kept

    return walk({"properties": {}, **root}, ())


def shortened(schema: Any, longest: int) -> Any:
    """`schema` with a `maxLength`, in characters, on every text that may be anything."""
    if isinstance(schema, list):
        return [shortened(item, longest) for item in schema]
    if not isinstance(schema, dict):
        return schema
    free = schema.get("type") == "string" and "enum" not in schema
    return {key: shortened(value, longest) for key, value in schema.items()} | (
        {"maxLength": longest} if free else {}
    )


def fitted(value: Any, schema: Json, at: str = "") -> Any:
    """`value`, found at the place `at`, as `schema` has it: without the nulls of properties that
    are not required. Raises ModelMistake.
    """
    if "anyOf" in schema:
        problems = []
        for branch in schema["anyOf"]:
            try:
                return fitted(value, branch, at)
            except ModelMistake as problem:
                problems.append(str(problem))
        raise ModelMistake(" or ".join(problems))
    kinds = schema.get("type", ())
    kinds = (kinds,) if isinstance(kinds, str) else kinds
    if kinds and not any(_is_a(kind, value) for kind in kinds):
        raise ModelMistake(f"{at} must be of type {' or '.join(kinds)}, not {_short(value)}")
    if "enum" in schema and not any(_same(value, option) for option in schema["enum"]):
        options = ", ".join(map(_short, schema["enum"]))
        raise ModelMistake(f"{at} must be one of {options}, not {_short(value)}")
    if isinstance(value, dict):
        return _fitted_object(value, schema, at)
    if isinstance(value, list):
        if len(value) < (least := schema.get("minItems", 0)):
            raise ModelMistake(f"{at} must hold at least {least}, not {len(value)}")
        if len(value) > (most := schema.get("maxItems", len(value))):
            raise ModelMistake(f"{at} must hold at most {most}, not {len(value)}")
        items = schema.get("items", {})
        return [fitted(item, items, f"{at}[{number}]") for number, item in enumerate(value)]
    return value


def _fitted_object(value: Json, schema: Json, at: str) -> Json:
    properties, required = schema.get("properties", {}), schema.get("required", ())
    others = schema.get("additionalProperties", {})
    inside = f"{at}." if at else ""
    for key in required:
        if key not in value:
            raise ModelMistake(f"{inside}{key} is missing")
    kept: Json = {}
    for key, item in value.items():
        if key not in properties and others is False:
            raise ModelMistake(f"{inside}{key} has no place here")
        if item is None and key in properties and key not in required:
            continue
        kept[key] = fitted(item, properties.get(key, others), f"{inside}{key}")
    return kept


def _nullable(schema: Json) -> Json:
    branches = schema.get("anyOf", [schema])
    return {"anyOf": branches if NULL in branches else [*branches, NULL]}


def _resolved(ref: str, root: Json) -> Any:
    """What a reference such as `#/$defs/Address` stands for."""
    node: Any = root
    for key in ref.removeprefix("#").strip("/").split("/"):
        node = node[key.replace("~1", "/").replace("~0", "~")]
    return node


def _is_a(kind: str, value: Any) -> bool:
    match value:
        case bool():  # before int: to Python, True is one
            return kind == "boolean"
        case int():
            return kind in ("integer", "number")
        case float():
            return kind == "number" or (kind == "integer" and value.is_integer())
        case str():
            return kind == "string"
        case list():
            return kind == "array"
        case dict():
            return kind == "object"
    return kind == "null"


def _same(value: Any, option: Any) -> bool:
    return bool(value == option) and isinstance(value, bool) == isinstance(option, bool)


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else text[:57] + "..."

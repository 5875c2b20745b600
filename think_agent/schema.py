"""Schema: the signature of a function as a JSON schema, for `@tool`.

Rule 1: a parameter that can't be described to a model is a TypeError when the tool is declared. No
        parameter silently becomes a string.
Rule 2: pydantic builds the schema and validates with the same model, so the two can't disagree.
Rule 3: the schema has no references and no titles, because several servers and SDKs ignore
        references.
Rule 4: only `transform_schema` walks through a schema. It gets a small function that changes each
        part.
"""

import contextlib
import inspect
import json
import re
import textwrap
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, is_dataclass
from typing import TYPE_CHECKING, Annotated, Any, Union, get_type_hints

import pydantic
import pydantic_core

from .checking import show_value, strip_partial
from .messages import Json
from .text import json_text, shorten

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

Change = Callable[[Json], Json]
Place = tuple[str | int, ...]  # the keys that lead to a value
# Valid arguments of a call: an instance of the tool's model, or plain JSON if the tool was declared
# with a schema. (In quotes, because pydantic loads BaseModel late.)
Fitted = Union["pydantic.BaseModel", Json]
NULL: Json = {"type": "null"}
BY_NAME = ("properties", "patternProperties")  # keywords whose value maps names to schemas
SEVERAL = ("anyOf", "oneOf", "allOf", "prefixItems")  # a list of schemas
SINGLE = ("items", "not", "additionalProperties")  # one schema
PLAIN_KEYS = ("type", "enum", "items")
PLAIN = {"missing": "this field is required", "extra_forbidden": "there is no such field"}
SCALARS = (str, int, bool, type(None))
ARGS = r"^Args:\n((?:[ \t]+\S.*\n?|\s*\n)*)"  # with its indented lines
# For example `amount (int): in cents`, and the lines below it that are indented more.
ENTRY = r"^(?P<name>\w+)(?: *\([^)\n]*\))?:(?P<note>.*(?:\n(?:[ \t].*)?)*)"
NO_SCHEMA = (pydantic.PydanticUserError, pydantic_core.SchemaError, TypeError)
KEY = "idempotency_key"  # the kit fills in a parameter of this name; models don't see it


def arguments_model(
    name: str, function: Callable[..., Any], notes: dict[str, str]
) -> "tuple[type[pydantic.BaseModel], Json]":
    """A pydantic model with one field for each parameter, and its schema. `notes`: the descriptions
    of the parameters. Raises TypeError if a parameter has no schema.
    """
    try:
        hints = get_type_hints(_find_annotated(function), include_extras=True)
    except Exception as error:  # an annotation can run any code
        raise TypeError(f"tool {name}: a type annotation cannot be resolved: {error}") from error

    given = getattr(function, "keywords", {})  # by a partial; models can't see or replace these
    model_fields: dict[str, Any] = {}
    for parameter in inspect.signature(function).parameters.values():
        if parameter.name == KEY or parameter.name in given:
            continue
        problem = _problem_of(parameter, hints)
        if problem:
            raise TypeError(f"tool {name}: parameter {problem}")
        kind = _with_description(hints[parameter.name], notes.get(parameter.name))
        default = parameter.default
        if default is parameter.empty:
            default = ...  # required
        # The field has a neutral name: a parameter may be called `json` or `model_config`.
        field = pydantic.Field(default, alias=parameter.name)
        model_fields[f"argument_{len(model_fields)}"] = (kind, field)
    model: type[pydantic.BaseModel] = pydantic.create_model(
        # NaN is refused as well: no comparison with a limit would catch it.
        name,
        __config__=pydantic.ConfigDict(extra="forbid", allow_inf_nan=False),
        **model_fields,
    )
    return model, transform_schema(model.model_json_schema(), _without_title)


def _find_annotated(function: Any) -> Any:
    """The function that has the annotations; for a callable object, its `__call__`."""
    plain = strip_partial(function)
    if inspect.isroutine(plain) or inspect.isclass(plain):
        return plain
    return type(plain).__call__


def return_schema(function: Callable[..., Any]) -> Json | None:
    """The JSON schema of a function's return annotation. None if there is no annotation or it has
    no schema. It's informational only.
    """
    hint = get_type_hints(_find_annotated(function), include_extras=True).get("return")
    if hint in (None, type(None), Any):
        return None
    try:
        adapter: pydantic.TypeAdapter[Any] = pydantic.TypeAdapter(_with_description(hint, None))
        schema = adapter.json_schema(mode="serialization")
    except Exception:  # the type may run its own code
        return None
    return transform_schema(schema, _without_what_says_nothing, recursive={}) or None


def _problem_of(parameter: inspect.Parameter, hints: Mapping[str, Any]) -> str:
    """Why a tool can't have this parameter; empty if it can."""
    from pydantic.fields import FieldInfo  # loaded when a tool is made, not at import

    name = parameter.name
    if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
        return f"{parameter} cannot be passed by its name"
    if isinstance(parameter.default, FieldInfo):
        return f"{name}: Field belongs in Annotated"
    if name == "self":
        return "self: make a tool of the bound method, tool(desk.add)"
    if name not in hints:
        return f"{name} has no type annotation"
    fields: Any = {"parameter": (hints[name], ...)}
    try:
        schema = pydantic.create_model(name, **fields).model_json_schema()
        transform_schema(schema, _without_title)  # raises for a type that contains itself
    except NO_SCHEMA as error:
        return f"{name}: its type has no JSON schema: {str(error).splitlines()[0]}"
    if not schema["properties"]["parameter"].keys() - {"title", "description", "default"}:
        return f"{name} needs a type other than Any"
    return ""


def _with_description(kind: Any, note: str | None) -> Any:
    """The type with its description. A plain `Annotated[int, "text"]` describes a parameter, but
    pydantic needs a Field.
    """
    text = note
    for annotation in getattr(kind, "__metadata__", ()):
        if isinstance(annotation, str):
            text = annotation
            break
    if not text:
        return kind
    return Annotated[kind, pydantic.Field(description=text)]


def transform_schema(schema: Json, change: Change, *, recursive: Json | None = None) -> Json:
    """`schema` without references, and with `change` applied to every schema in it, innermost
    first. A type that contains itself becomes `recursive`; if that's None, it's a TypeError.
    """
    inlined: Json = _Walk(schema, change, recursive).transform(schema, ())
    return inlined


@dataclass(frozen=True)
class _Walk:
    """A walk through `schema`. `inside`: the references that lead to the current node."""

    schema: Json
    change: Change
    recursive: Json | None

    def transform(self, node: Any, inside: tuple[str, ...]) -> Any:
        if not isinstance(node, dict):  # `true`: anything
            return {}
        if "$ref" in node:
            return self._follow(node, inside)
        kept: Json = {}
        for key, value in node.items():
            if key not in ("$defs", "discriminator"):  # a discriminator holds references as text
                kept[key] = self._transform_keyword(key, value, inside)
        return self.change(kept)

    def _transform_keyword(self, key: str, value: Any, inside: tuple[str, ...]) -> Any:
        if key in BY_NAME:
            return {name: self.transform(item, inside) for name, item in value.items()}
        if key in SEVERAL:
            return [self.transform(item, inside) for item in value]
        if key in SINGLE and not isinstance(value, bool):
            return self.transform(value, inside)
        return value

    def _follow(self, node: Json, inside: tuple[str, ...]) -> Any:
        beside = dict(node)
        ref = beside.pop("$ref")  # such as `#/$defs/Address`
        if ref in inside:
            if self.recursive is None:
                kind = ref.rpartition("/")[2]
                raise TypeError(f"the type {kind} is recursive; pass it as JSON text")
            return self.recursive
        found = self.schema
        for key in ref.split("/")[1:]:
            found = found[key]
        return self.transform(found | beside, (*inside, ref))


def _without_title(node: Json) -> Json:
    node.pop("title", None)
    return node


def _without_what_says_nothing(node: Json) -> Json:
    if node.get("additionalProperties") is True:
        del node["additionalProperties"]
    return _without_title(node)


def reduce_schema(schema: Json, *, strict: bool) -> Json:
    """An object's `schema`, reduced to the keywords that every provider accepts: type, enum, items,
    anyOf, and properties with required and `additionalProperties: false`. Bounds, patterns and
    formats are dropped, so the reader of the value has to check them.

    `strict` modes need every property to be required. So an optional property may be null instead,
    and the reader of the value removes that null. Three things can't be made strict: an object
    without named properties, a value of any type, and a type that contains itself. llama.cpp,
    Ollama and Gemini accept these; OpenAI and Anthropic answer 400. Anthropic also limits a schema
    to 16 unions, and every optional property is one.
    """

    def reduce(node: Json) -> Json:
        kept: Json = {key: node[key] for key in PLAIN_KEYS if key in node}
        if "const" in node:
            kept["enum"] = [node["const"]]
        union = node.get("anyOf") or node.get("oneOf")
        if union and "type" not in node:  # with a type, the union only narrows it
            kept["anyOf"] = union
        others = node.get("additionalProperties")
        if "properties" in node:
            kept |= _object(node["properties"], node.get("required", ()), strict)
        elif isinstance(others, dict):
            kept["additionalProperties"] = others
        return kept

    return transform_schema({"properties": {}, **schema}, reduce, recursive={})


def _object(properties: Json, required: Collection[str], strict: bool) -> Json:
    shown: Json = {}
    for name, schema in properties.items():
        may_be_left_out = name not in required
        shown[name] = _nullable(schema) if strict and may_be_left_out else schema
    names = [name for name in shown if strict or name in required]
    return {"properties": shown, "required": names, "additionalProperties": False}


def _nullable(schema: Json) -> Json:
    branches = schema.get("anyOf", [schema])
    if NULL not in branches:
        branches = [*branches, NULL]
    return {"anyOf": branches}


def values_by_name(model: "pydantic.BaseModel") -> Json:
    """The values in a model, by the parameters' names."""
    values = dict(model.model_extra or {})
    for name, field in type(model).model_fields.items():
        values[_find_given_name(name, field)] = getattr(model, name)
    return values


def _find_given_name(name: str, field: "FieldInfo") -> str:
    alias = field.validation_alias
    if isinstance(alias, str):
        return alias
    return name


def without_made_defaults(model: "pydantic.BaseModel") -> Json:
    """`values_by_name` without the defaults that a factory generates, which can vary."""
    values = values_by_name(model)
    for name, field in type(model).model_fields.items():
        if field.default_factory is None:
            continue
        made = field.get_default(call_default_factory=True, validated_data=vars(model))
        if name not in model.model_fields_set or getattr(model, name) == made:
            del values[_find_given_name(name, field)]
    return values


def dump(value: Any, fields_of: "Callable[[pydantic.BaseModel], Json]" = values_by_name) -> Any:
    """A value as JSON with all its fields, including secrets and those that pydantic excludes."""
    if type(value) in SCALARS:  # but not a subclass, such as an enum
        return value
    match value:
        case pydantic.RootModel(root=root):
            return dump(root, fields_of)
        case pydantic.BaseModel():
            return dump(fields_of(value), fields_of)
        case dict():
            return {str(key): dump(item, fields_of) for key, item in value.items()}
        case list() | tuple() | deque():
            return [dump(item, fields_of) for item in value]
        case set() | frozenset():  # their order varies between processes
            return sorted((dump(item, fields_of) for item in value), key=json_text)
        case bytes():
            return value.decode(errors="backslashreplace")
        case object(get_secret_value=get):
            return dump(get(), fields_of)
    if is_dataclass(value) and hasattr(value, "__dict__"):
        return dump(vars(value), fields_of)
    return pydantic_core.to_jsonable_python(value, fallback=repr, inf_nan_mode="strings")


def find_misfits(value: Json, schema: Json) -> tuple[str, list[Place]]:
    """Why `value` doesn't match a schema, as text for the model, and at which places. Both are
    empty if it matches.
    """
    from jsonschema.validators import validator_for  # late: most tools have a signature

    errors = list(validator_for(schema)(schema).iter_errors(value))
    text = "; ".join(f"{error.json_path}: {shorten(error.message)}" for error in errors)
    return text, [place for error in errors for place in _places_of(error)]


def _places_of(error: Any) -> Iterator[Place]:
    """Where a value doesn't match; for a union, where it doesn't match each branch."""
    yield tuple(error.absolute_path)
    for inner in error.context:
        yield from _places_of(inner)


def repair(value: Any, places: Iterable[Place]) -> bool:
    """Repair, in place, two harmless slips of models: a null for an optional value, and a list or
    object written as JSON text. `places`: where validation failed. Returns whether anything
    changed; if so, validate again.
    """
    has_changed = False
    for place in places:
        if remove_null(value, place) or _read_json_text(value, place):
            has_changed = True
    return has_changed


def remove_null(value: Any, place: Place) -> bool:
    """Remove the null at `place` from the object that holds it. Returns False if there was none."""
    for key in place:
        with contextlib.suppress(LookupError, TypeError):  # `key` may be the branch of a union
            inner = value[key]
            if inner is None and isinstance(value, dict):
                del value[key]
                return True
            value = inner
    return False


def _read_json_text(arguments: Any, place: Place) -> bool:
    """If an argument is the JSON text of a list or an object, replace it with that value."""
    name = place[0] if place else None
    text = arguments.get(name) if isinstance(arguments, dict) else None
    if not isinstance(text, str) or not text.lstrip().startswith(("[", "{")):
        return False
    try:
        arguments[name] = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def problems(error: "pydantic.ValidationError") -> str:
    """Why a value is invalid, as text for the model that wrote it."""
    items = error.errors(include_url=False, include_context=False)
    return "; ".join(_describe_problem(item) for item in items)


def _describe_problem(item: "pydantic_core.ErrorDetails") -> str:
    where = ".".join(str(part) for part in item["loc"]) or "arguments"
    plain = PLAIN.get(item["type"])
    if plain:
        return f"{where}: {plain}"
    return f"{where}: {item['msg']}, got {show_value(item['input'])}"


def read_docstring(text: str) -> tuple[str, dict[str, str]]:
    """The text of a docstring without its `Args:` section (Google style), and the descriptions of
    the parameters from that section.
    """
    section = re.search(ARGS, text, re.MULTILINE)
    if section is None:
        return text, {}
    notes = {}
    for entry in re.finditer(ENTRY, textwrap.dedent(section[1]), re.MULTILINE):
        notes[entry["name"]] = " ".join(entry["note"].split())
    around = text[: section.start()].strip(), text[section.end() :].strip()
    return "\n".join(part for part in around if part), notes

"""The json dialect: every turn of the model is one JSON object, a plan, under a schema built from
the tools. For every model with structured output; it needs no tool calling.

    {"understanding": "...", "reasoning": "...",        -> the thought
     "task_complete": false,                            -> the exit signal
     "actions": [{"tool": "...", "arguments": {...}}],  -> the tool calls
     "response": "..."}                                 -> the text for the user

Rule 1: a tool choice is a narrower schema, so forcing works by construction. `Force("think")` asks
        for the notes and the verdict alone, another `Force` for that tool, `"required"` for an
        action, `"none"` for `response` alone. Reasons are written before verdicts.
Rule 2: the system prompt describes the format and the tools, and is the same bytes for a whole run
        (prompt caches). What a single turn may hold is said by its schema alone.
Rule 3: a server may ignore the schema, so what comes back is read as strictly as it was asked.
        The plan is the whole reply, one fence and leading marked thinking aside. Where it changes
        nothing, text around it is forgiven, as are keys without a use in this turn (but never an
        action) and plain words where an answer is due. All else is `"malformed"`, with the mistake
        in words for the model.
Rule 4: two things that no schema carries are checked on reading: who acts gives a reasoning that is
        not blank; and where `"required"` leaves the exit signal as a way out, a plan acts or takes
        it. The arguments of an action are its tool's to check, as in any call.
Rule 5: the transcript keeps the model's own words in `native`, and they are what it sees again.

Limitations: `schema.reduced` has what of a tool's parameters goes into the schema. An
`output_schema` of the request itself counts where nothing can be called: without tools, and in the
final call.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import pydantic

from ..messages import CARRIED, THINK_NAME, Assistant, Force, Json, ToolCall, ToolChoice
from ..model import Model, Request
from ..policies.answer import unfenced
from ..schema import problems, reduced
from ..streaming import Delta
from ..text import json_text
from ..tools import ModelMistake, Tool
from ..wire.json_reading import json_objects, json_value
from ..wire.pieces import JsonReader
from .base import NO_REPLY, Reader, joined, wants_to_leave
from .written import (
    Written,
    acting,
    has_think,
    in_silence,
    note,
    others,
    signals,
    think_call,
    thoughts_and_acts,
)

KEYS = ("understanding", "reasoning", "task_complete", "actions", "response")


SIGNAL_IN_WORDS = (
    ' Where you are told to use the tool think, write "reasoning"; its should_continue "false" is '
    "task_complete true."
)


class Action(pydantic.BaseModel, extra="forbid", strict=True):
    """One action of a plan."""

    tool: str
    arguments: Json


class Plan(pydantic.BaseModel, extra="forbid", strict=True):
    """What one turn may hold; `_keys` says what of it."""

    understanding: str = ""
    reasoning: str = ""
    task_complete: bool = False
    actions: list[Action] = []
    response: str = ""


class JsonPlan(Written):
    """`json_plan(model)`: it is spoken to in JSON plans, of one action a turn, or of `several`."""

    dialect = "json"
    key = "json_plan"
    enforced = "schema"
    forcing = "tool"

    def __init__(self, inner: Model, *, several: bool = False) -> None:
        super().__init__(inner)
        self.several = several

    def schema(self, request: Request) -> Json | None:
        if not _wants_plan(request):
            return request.output_schema
        # Anthropic answers 400 to maxItems: there, it is asked in words, and checked on reading.
        is_bounded = not self.several and self.name != "anthropic"
        return plan_schema(request.tools, request.tool_choice, 1 if is_bounded else None)

    def instructions(self, tools: Sequence[Tool]) -> dict[str, str]:
        parts = {
            "amount": "at most one",
            "response": "while you work",
            "think": "",
            "tools": "\n".join([_described(tool) for tool in _possible(tools, "auto")]),
        }
        if self.several:
            parts["amount"] = "in the order to do them"
        if has_think(tools):
            parts["think"] = ' Where you are told to use the tool think, write "reasoning".'
        if signals(tools):
            parts["think"] = SIGNAL_IN_WORDS
            parts["response"] = "until you are asked for the answer"
        if not parts["tools"]:
            parts["tools"] = "None."
        return parts

    def write(self, reply: Assistant) -> str:
        """The plan that would have led to a reply which was not written in this dialect."""
        if not reply.tool_calls:
            return reply.text
        thoughts, acts = thoughts_and_acts(reply.tool_calls)
        plan = {
            "understanding": "",
            "reasoning": joined(thoughts),
            "task_complete": wants_to_leave(reply),
            "actions": [{"tool": call.name, "arguments": call.arguments} for call in acts],
            "response": reply.text,
        }
        return json_text(plan)

    def report(self, call: ToolCall, content: str) -> str:
        if call.name == THINK_NAME:  # to the model it is no tool
            return content
        return f"Result of {call.name} ({call.id}):\n{content}"

    def understand(self, reply: Assistant, request: Request) -> Assistant:
        if not _wants_plan(request) or not reply.is_usable:
            return reply
        plan = _plan(reply.text, request, self.several)
        return _acted(plan, reply, request)

    def is_strict(self, text: str) -> bool:
        return isinstance(json_value(unfenced(text)), dict)

    def mistake(self, problem: ModelMistake, request: Request) -> str:
        keys = ", ".join(_keys(request.tools, request.tool_choice))
        expected = f"Reply with one JSON object and nothing else; its keys: {keys}."
        return f"Your reply could not be read: {problem}. {expected}"

    def reader(self, request: Request) -> Reader:
        if _wants_plan(request):
            return PlanReader(request)
        return Reader()


json_plan = JsonPlan


def _wants_plan(request: Request) -> bool:
    """Not without tools, and not where an answer is due under a schema of its own."""
    final = request.tool_choice == "none" and request.output_schema is not None
    return bool(request.tools) and not final


# Asking: the schema of a turn.


def plan_schema(tools: Sequence[Tool], choice: ToolChoice, most: int | None) -> Json:
    """The JSON schema of one turn, with this many actions at `most`."""
    branches = []
    for tool in _possible(tools, choice):
        name = {"type": "string", "enum": [tool.name]}  # not by `const`, which Gemini does not know
        branches.append(_closed(tool=name, arguments=reduced(tool.parameters, strict=True)))
    actions: Json = {"type": "array", "items": {"anyOf": branches}}
    if _must_act(tools, choice):
        actions["minItems"] = 1
    if most:
        actions["maxItems"] = most
    kinds = {"task_complete": {"type": "boolean"}, "actions": actions}
    parts = {key: kinds.get(key, {"type": "string"}) for key in _keys(tools, choice)}
    return _closed(**parts)


def _closed(**properties: Json) -> Json:
    """The schema of an object with these properties, all of them and no others."""
    parts = {"properties": properties, "required": list(properties)}
    return {"type": "object", **parts, "additionalProperties": False}


def _keys(tools: Sequence[Tool], choice: ToolChoice) -> Sequence[str]:
    """The keys of a turn, in the order of writing."""
    if choice == "none":
        return ("response",)
    if choice == Force(THINK_NAME):
        return KEYS[:3] if signals(tools) else KEYS[:2]
    if _possible(tools, choice):
        return KEYS
    return [key for key in KEYS if key != "actions"]


def _possible(tools: Sequence[Tool], choice: ToolChoice) -> list[Tool]:
    """The tools that a plan may name. The think tool is not one: it has keys of its own."""
    if isinstance(choice, Force):
        return [tool for tool in others(tools) if tool.name == choice.name]
    return others(tools)


def _described(tool: Tool) -> str:
    shown = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
    return json_text(shown)


def _must_act(tools: Sequence[Tool], choice: ToolChoice) -> bool:
    """Is an action the only way on?"""
    if choice == "required":
        return not signals(tools)  # the exit signal is a way out
    return isinstance(choice, Force)


# Reading: text -> Plan -> Assistant.


def _plan(text: str, request: Request, several: bool) -> Plan:
    """The plan in `text`, without the nulls that mean "left out". Raises ModelMistake."""
    found = _first_plan(text, or_words=request.tool_choice == "none")
    keys = _keys(request.tools, request.tool_choice)
    if "actions" not in keys and found.get("actions"):
        raise ModelMistake("actions: there is no such field in this turn")

    plan = _validated(found, keys)
    if "actions" in keys:
        _check_amount(plan, request, several)
    for number, action in enumerate(plan.actions):
        tool = _tool_of(action, number, _possible(request.tools, request.tool_choice))
        schema = reduced(tool.parameters, strict=False)
        action.arguments = without_nulls(action.arguments, schema)
    return plan


def _validated(found: Json, keys: Sequence[str]) -> Plan:
    """The plan that `found` is, without keys that have no use in this turn. Raises ModelMistake."""
    unused = set(KEYS).difference(keys)
    try:
        plan = Plan.model_validate({k: v for k, v in found.items() if k not in unused})
    except pydantic.ValidationError as error:
        raise ModelMistake(problems(error)) from error
    for key in keys:
        if key not in plan.model_fields_set:
            raise ModelMistake(f"{key}: this field is required")
    return plan


def _tool_of(action: Action, number: int, tools: Sequence[Tool]) -> Tool:
    """The tool that an action names. Raises ModelMistake."""
    for tool in tools:
        if tool.name == action.tool:
            return tool
    names = ", ".join([tool.name for tool in tools])
    raise ModelMistake(f"actions.{number}.tool: use one of {names}, not {action.tool!r}")


def _check_amount(plan: Plan, request: Request, several: bool) -> None:
    """Raises ModelMistake for too few actions, too many, and any without a reasoning."""
    if plan.actions:
        if len(plan.actions) > 1 and not several:
            raise ModelMistake(f"actions: it must hold at most 1, not {len(plan.actions)}")
        if not plan.reasoning.strip():
            raise ModelMistake("reasoning is blank; write down why, then act")
        return

    if _must_act(request.tools, request.tool_choice):
        raise ModelMistake("actions: it must hold an action")
    if request.tool_choice == "required" and not plan.task_complete:
        raise ModelMistake("it holds no action; act, or set task_complete to true")


def _first_plan(text: str, *, or_words: bool) -> Json:
    """The first JSON object in `text` with a key of a plan; or else the words as the response."""
    for value in json_objects(text):
        if not value.keys().isdisjoint(KEYS):
            return value
    is_attempt = text.lstrip().startswith(("{", "`"))
    if or_words and not is_attempt:
        return {"response": text.strip()}
    raise ModelMistake("there is no JSON object in it, or none that can be read")


def _acted(plan: Plan, reply: Assistant, request: Request) -> Assistant:
    """`reply` with what the plan says, in the fields where the loop looks for it."""
    if request.tool_choice == "none":
        return acting(reply, plan.response, [])

    notes = joined([plan.understanding, plan.reasoning])
    calls = [think_call({CARRIED: notes}, request.tools, leaving=plan.task_complete)]
    calls += [ToolCall("", action.tool, action.arguments) for action in plan.actions]
    acted = acting(reply, plan.response, calls)

    # Without the exit signal, the way out is silence: a plan that is complete and does nothing.
    if plan.task_complete and not plan.actions and not signals(request.tools):
        return in_silence(acted)
    return acted


def without_nulls(value: Any, schema: Json) -> Any:
    """`value`, of a reduced schema, without the nulls of properties that may be left out."""
    if isinstance(value, list):
        items = _items(schema)
        return [without_nulls(item, items) for item in value]
    if not isinstance(value, dict):
        return value

    branch = _branch(schema, value)
    properties = branch.get("properties", {})
    required = branch.get("required", ())
    unnamed = branch.get("additionalProperties")
    if not isinstance(unnamed, dict):
        unnamed = {}
    kept = {}
    for key, item in value.items():
        may_be_left_out = key in properties and key not in required
        if item is not None or not may_be_left_out:
            kept[key] = without_nulls(item, properties.get(key, unnamed))
    return kept


def _branches(schema: Json) -> list[Json]:
    branches: list[Json] = schema.get("anyOf", [schema])
    return branches


def _items(schema: Json) -> Json:
    """The schema of the items of a list of this schema."""
    for branch in _branches(schema):
        if "items" in branch:
            items: Json = branch["items"]
            return items
    return {}


def _branch(schema: Json, value: Json) -> Json:
    """The branch of a schema that knows all keys of an object; else the first one."""
    branches = _branches(schema)
    for branch in branches:
        if value.keys() <= branch.get("properties", {}).keys():
            return branch
    return branches[0]


# Watching: text -> Deltas.


class PlanReader(Reader):
    """Makes Deltas of the notes and the response of a plan that takes shape. Plain words, where
    they will do, are told at the end.
    """

    def __init__(self, request: Request) -> None:
        super().__init__()
        self._thinks = has_think(request.tools)
        self._json = JsonReader()
        self._notes = ""  # the key whose notes came last
        self._answered = False

    def read(self, kind: str, part: str) -> Iterator[Delta]:
        for path, _, piece in self._json.feed(part):
            match path:
                case ["understanding" | "reasoning" as key] if piece:
                    if self._notes not in ("", key):
                        piece = "\n\n" + piece
                    self._notes = key
                    yield note(piece, as_thought=self._thinks)
                case ["response"] if piece:
                    self._answered = True
                    yield Delta("answer", piece)

    def close(self, reply: Assistant = NO_REPLY) -> Iterator[Delta]:
        if reply.stop_reason == "end_turn" and reply.text and not self._answered:
            yield Delta("answer", reply.text)

"""The json dialect: every reply is one JSON object, a plan, under a schema built from the tools.

    {"understanding": "...", "reasoning": "...",        -> the thought
     "task_complete": false,                            -> the exit signal
     "actions": [{"tool": "...", "arguments": {...}}],  -> the tool calls
     "response": "..."}                                 -> the text for the user

Rule 1: a tool choice is a narrower schema, so forcing works by construction.
Rule 2: the system prompt is the same bytes for a whole run, for prompt caches. Only the schema says
        which keys a single reply may have.
Rule 3: a server may ignore the schema, so a reply is read strictly. What cannot be read is
        `"malformed"`, and the model is told its mistake. An action is never ignored.
Rule 4: the transcript keeps the model's own reply in `native`, and the model sees it unchanged.

The README of this folder says what is read, and what is not.
"""

from typing import Any

import pydantic

from ..messages import THINK_NAME, Assistant, Force, Json, ToolCall, ToolChoice
from ..model import Request
from ..schema import problems, reduced, transformed
from ..text import json_text, remove_fence
from ..think import should_continue, thought
from ..tools import ModelMistake, Tool
from ..wire.forms import TEXT, has_acted
from ..wire.json_reading import json_objects, json_value
from ..wire.pieces import JsonReader
from .base import Reader, joined, may_call
from .written import Meaning, Written, kind_of_notes, others, signals


class Action(pydantic.BaseModel, extra="forbid", strict=True):
    """One action of a plan."""

    tool: str
    arguments: Json


class Plan(pydantic.BaseModel, extra="forbid", strict=True):
    """All that a reply may have; the tool choice says which keys it has to have."""

    understanding: str = ""
    reasoning: str = ""
    task_complete: bool = False
    actions: list[Action] = []
    response: str = ""


KEYS = tuple(Plan.model_fields)
# Characters, on local servers. (llama.cpp refuses a grammar with much longer ones.)
BOUNDED = {"reasoning": {**TEXT, "maxLength": 300}, "response": {**TEXT, "maxLength": 600}}
LONGEST_ARGUMENT = 1000


class JsonPlan(Written):
    """`json_plan(model)`: a model that replies in JSON plans, each with at most one action."""

    dialect = "json"
    key = "json_plan"
    enforced = "schema"
    signal = '; its should_continue "false" is task_complete true'
    expected = f"Reply with one JSON object and nothing else; its keys: {', '.join(KEYS)}."

    def schema(self, request: Request) -> Json:
        keys, tools, must_act = self._form(request)
        branches = []
        for name, tool in tools.items():
            arguments = reduced(tool.parameters, strict=True)
            if self.is_local:
                arguments = transformed(arguments, _bounded)
            # Gemini does not know `const`.
            branches.append(_closed(tool={**TEXT, "enum": [name]}, arguments=arguments))
        actions: Json = {"type": "array", "items": {"anyOf": branches}}
        if must_act:
            actions["minItems"] = 1
        # Anthropic answers 400 to maxItems. There the prompt asks for it, and reading checks it.
        if self.name != "anthropic":
            actions["maxItems"] = 1
        kinds = {"task_complete": {"type": "boolean"}, "actions": actions}
        if self.is_local:  # small models end a plan only if it is bounded
            kinds |= BOUNDED
        return _closed(**{key: kinds.get(key, TEXT) for key in keys})

    def _form(self, request: Request) -> tuple[list[str], dict[str, Tool], bool]:
        """What the tool choice leaves of a plan (rule 1): the keys, the tools that it may name, and
        whether it must act. The think tool has its own keys.

        `Force("think")` asks for the notes; another `Force` for that tool, `"required"` for an
        action, `"none"` for `response` alone. The reasoning is written before the decision.
        """
        keys = list(KEYS)
        tools = others(request.tools)
        must_act = False
        match request.tool_choice:
            case "none":
                return ["response"], {}, False
            case "required":
                must_act = not signals(request.tools)  # the exit signal is enough
            case Force("think"):
                tools = {}
                keys.remove("response")
                if not signals(request.tools) or not has_acted(request.messages):
                    keys.remove("task_complete")
            case Force(name):
                tools = {name: tools[name]}
                must_act = True
        if not tools:
            keys.remove("actions")
        if self.is_local:
            keys.remove("understanding")
        return keys, tools, must_act

    def write(self, reply: Assistant) -> str:
        """A reply that was not written in this dialect, as the plan it would have been."""
        if not reply.tool_calls:
            return reply.text
        notes = []
        actions = []
        is_complete = False
        for call in reply.tool_calls:
            if call.name == THINK_NAME:
                notes.append(thought(call))
                is_complete = should_continue(call) is False
            else:
                actions.append({"tool": call.name, "arguments": call.arguments})
        plan = {
            "understanding": "",
            "reasoning": joined(notes),
            "task_complete": is_complete,
            "actions": actions,
            "response": reply.text,
        }
        return json_text(plan)

    def understand(self, text: str, request: Request) -> Meaning:
        if not may_call(request):
            return Meaning(text)
        choice = request.tool_choice
        keys, tools, must_act = self._form(request)
        try:  # a key that is missing is null, which is refused; more keys may be there
            plan = Plan.model_validate(dict.fromkeys(keys) | _first_object(text, choice))
        except pydantic.ValidationError as error:
            raise ModelMistake(problems(error)) from error
        answer = plan.response.strip()
        if choice == "none":
            return Meaning(answer)

        calls = []
        for action in plan.actions:
            tool = tools.get(action.tool)
            if tool is None:
                names = ", ".join(tools)
                raise ModelMistake(f"actions: no tool {action.tool!r} now; possible: [{names}]")
            schema = reduced(tool.parameters, strict=False)
            calls.append(ToolCall("", tool.name, without_nulls(action.arguments, schema)))
        if tools:
            _check_amount(plan, choice, must_act)
        notes = joined([plan.understanding.strip(), plan.reasoning.strip()])
        is_alone = isinstance(json_value(remove_fence(text)), dict)
        return Meaning(answer, notes, calls, plan.task_complete, is_alone)

    def reader(self, request: Request) -> Reader | None:
        if not may_call(request):
            return None
        notes = kind_of_notes(request)
        # Plain text that is taken for the response comes at the end.
        return Reader(
            JsonReader(), {"understanding": notes, "reasoning": notes, "response": "answer"}
        )


json_plan = JsonPlan


# Asking: the schema of a reply.


def _closed(**properties: Json) -> Json:
    """The schema of an object that has all of these properties and no others."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _bounded(part: Json) -> Json:
    """A free text of an action, with a bound."""
    if part == TEXT:
        return {**TEXT, "maxLength": LONGEST_ARGUMENT}
    return part


# Reading: text -> Plan -> calls.


def _first_object(text: str, choice: ToolChoice) -> Json:
    """The first JSON object in `text` with a key of a plan. Without one, plain text is the
    response where a response is due. Raises ModelMistake.
    """
    for value in json_objects(text):
        if not value.keys().isdisjoint(KEYS):  # else it stands in a broken plan
            return value
    is_attempt = text.lstrip().startswith(("{", "`"))
    if choice == "none" and not is_attempt:
        return {"response": text}
    raise ModelMistake("there is no JSON object in it, or none that can be read")


def _check_amount(plan: Plan, choice: ToolChoice, must_act: bool) -> None:
    """Raises ModelMistake for too few or too many actions, and for one without a reasoning."""
    if len(plan.actions) > 1:
        raise ModelMistake(f"actions: it must hold at most 1, not {len(plan.actions)}")
    if plan.actions and not plan.reasoning.strip():
        raise ModelMistake("reasoning is blank; write down why, then act")
    if plan.actions or choice == "auto":
        return
    if must_act or not plan.task_complete:
        raise ModelMistake("actions: this turn asks for one")


def without_nulls(value: Any, schema: Json) -> Any:
    """`value` without the nulls of properties that may be left out; `schema` is a reduced one. In a
    union, the branch of a value is the first one for a list, or with all keys of the object.
    """
    for branch in schema.get("anyOf", [schema]):
        match value, branch:
            case list(), {"items": items}:
                return [without_nulls(item, items) for item in value]
            case dict(), {"additionalProperties": dict(inner)}:
                return {key: without_nulls(item, inner) for key, item in value.items()}
            case dict(), {"properties": known} if value.keys() <= known.keys():
                kept = {}
                for key, item in value.items():
                    if item is not None or key in branch["required"]:
                        kept[key] = without_nulls(item, known[key])
                return kept
    return value

"""The json dialect: every reply is one JSON object, a plan, under a schema built from the tools.

    {"understanding": "...", "reasoning": "...",        -> the thought
     "task_complete": false,                            -> the exit signal
     "actions": [{"tool": "...", "arguments": {...}}],  -> the tool calls
     "response": "..."}                                 -> the answer; next to an action, commentary

Rule 1: a tool choice is a narrower schema, so forcing works by construction.
Rule 2: the system prompt stays the same for a whole run, which helps prompt caches. Only the schema
        says which keys a particular reply may have.
Rule 3: a server may ignore the schema, so a reply is read strictly (the README of this folder lists
        what's accepted). An unreadable one is `"malformed"`, and the model reads why.
Rule 4: the transcript keeps the model's own reply in `native`, and the model sees it unchanged.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import pydantic
from pydantic_core import from_json

from ..messages import THINK_NAME, Assistant, Force, Json, ToolCall, ToolChoice
from ..model import Request
from ..schema import problems, reduce_schema, transform_schema
from ..streaming import Delta
from ..text import is_blank, json_text, remove_fence
from ..think import has_signal, read_signal, read_thought
from ..tools import ModelMistake, Tool
from ..wire.forms import TEXT, has_acted
from ..wire.json_reading import json_objects, json_value
from ..wire.pieces import JsonReader
from .base import Kind, Reader, join_texts, may_call
from .written import ParsedReply, Written, kind_of_notes, others, signals


class PlannedCall(pydantic.BaseModel, extra="forbid", strict=True):
    """One action of a plan. Its `reasoning` is accepted, but no schema asks for it."""

    tool: str
    arguments: Json
    reasoning: str = ""


class Plan(pydantic.BaseModel, extra="ignore", strict=True):
    """All keys that a reply may have. The tool choice says which ones are required."""

    understanding: str = ""
    reasoning: str = ""
    task_complete: bool = False
    cannot: str = ""
    actions: list[PlannedCall] = []
    response: str = ""


KNOWN = tuple(Plan.model_fields)
KEYS = tuple(key for key in KNOWN if key != "cannot")  # only if the think tool can say it


@dataclass(frozen=True)
class Form:
    """The keys and tools that a tool choice allows in a plan (rule 1).

    - `keys`: its keys, in the order they're written
    - `tools`: the tools that its actions may name
    - `must_act`: must it have an action?
    """

    keys: Sequence[str]
    tools: Mapping[str, Tool]
    must_act: bool = False


# Characters, on local servers. (llama.cpp refuses a grammar with much longer ones.)
BOUNDED = {"reasoning": {**TEXT, "maxLength": 300}, "response": {**TEXT, "maxLength": 600}}
LONGEST_ARGUMENT = 1000


class JsonPlan(Written):
    """`json_plan(model)`: a model that replies in JSON plans, each with at most one action."""

    dialect = "json"
    key = "json_plan"
    enforced = "schema"
    signal = '; its should_continue "false" is task_complete true'
    cannot = (
        '- "cannot": "" as a rule; what is missing, if the request cannot be done with these '
        "tools. Then there is no action, and task_complete is false\n"
    )
    expected = f"Reply with one JSON object and nothing else; its keys: {', '.join(KEYS)}."

    def schema(self, request: Request) -> Json:
        form = self._form(request)
        branches = []
        for name, tool in form.tools.items():
            arguments = reduce_schema(tool.parameters, strict=True)
            if self.is_local:
                arguments = transform_schema(arguments, _bound_text)
            # Gemini doesn't know `const`.
            branches.append(_close_object(tool={**TEXT, "enum": [name]}, arguments=arguments))
        actions: Json = {"type": "array", "items": {"anyOf": branches}}
        if form.must_act:
            actions["minItems"] = 1
        # Anthropic answers 400 to maxItems. There, the prompt asks for it and the reader checks it.
        if self.name != "anthropic":
            actions["maxItems"] = 1
        kinds = {"task_complete": {"type": "boolean"}, "actions": actions}
        if self.is_local:  # small models end a plan only if its length is bounded
            kinds |= BOUNDED
        return _close_object(**{key: kinds.get(key, TEXT) for key in form.keys})

    def _form(self, request: Request) -> Form:
        """The form of a reply to this request.

        `Force("think")` asks for the notes; another `Force` for that tool, `"required"` for an
        action, `"none"` for `response` alone. The reasoning is written before the decision. The
        think tool has its own keys.
        """
        keys = list(KNOWN)
        tools = others(request.tools)
        must_act = False
        if not can_say_cannot(request.tools):
            keys.remove("cannot")
        match request.tool_choice:
            case "none":
                return Form(["response"], {})
            case "required":
                must_act = not signals(request.tools)  # the exit signal is enough
            case Force("think"):
                tools = {}
                keys = _find_forced_keys(request)
            case Force(name):
                tools = {name: tools[name]}
                must_act = True
        if not tools and "actions" in keys:
            keys.remove("actions")
        if self.is_local:
            keys.remove("understanding")
        return Form(keys, tools, must_act)

    def write(self, reply: Assistant) -> str:
        """A reply that wasn't written in this dialect, as a plan."""
        if not reply.tool_calls:
            return reply.text
        notes = []
        actions = []
        is_complete = False
        for call in reply.tool_calls:
            if call.name == THINK_NAME:
                notes.append(read_thought(call))
                is_complete = read_signal(call) is False
            else:
                actions.append({"tool": call.name, "arguments": call.arguments})
        plan = {
            "understanding": "",
            "reasoning": join_texts(notes),
            "task_complete": is_complete,
            "actions": actions,
            "response": reply.text,
        }
        return json_text(plan)

    def understand(self, text: str, request: Request) -> ParsedReply:
        if not may_call(request):
            return ParsedReply(text)
        form = self._form(request)
        choice = request.tool_choice
        found = _first_object(text, choice)
        _check_unknown_keys(found, others(request.tools))
        try:  # a missing key is null, which is refused; extra keys are ignored
            plan = Plan.model_validate(dict.fromkeys(form.keys) | found)
        except pydantic.ValidationError as error:
            raise ModelMistake(problems(error)) from error
        response = plan.response.strip()
        if choice == "none":
            return ParsedReply(response)

        calls = [_call(action, form.tools) for action in plan.actions]
        if form.tools:
            _check_amount(plan, form, choice)
        parsed = ParsedReply(
            text=response,
            notes=join_texts([plan.understanding.strip(), plan.reasoning.strip()]),
            calls=calls,
            is_leaving=plan.task_complete,
            is_alone=isinstance(json_value(remove_fence(text)), dict),
        )
        if "cannot" in form.keys and plan.cannot.strip():
            parsed = replace(parsed, missing=plan.cannot.strip())
        if calls:  # the answer comes at the end
            parsed = replace(parsed, text="", commentary=response)
        return parsed

    def more(self, request: Request) -> Mapping[str, str]:
        return {"cannot": self.cannot if can_say_cannot(request.tools) else ""}

    def reader(self, request: Request) -> Reader | None:
        if not may_call(request):
            return None
        return PlanReader(kind_of_notes(request), may_act="actions" in self._form(request).keys)


json_plan = JsonPlan


class PlanReader(Reader):
    """Turns a plan into Deltas as it arrives.

    A `response` is the answer if there is no action, and otherwise commentary. So it's streamed
    once the actions are known, or (if they're written after it) when the reply is complete.
    """

    def __init__(self, notes: Kind, *, may_act: bool) -> None:
        kinds: dict[str, Kind] = {"understanding": notes, "reasoning": notes}
        if not may_act:
            kinds["response"] = "answer"
        super().__init__(JsonReader(), kinds)
        self._may_act = may_act
        self._raw = ""  # the text so far
        self._response = ""  # the part that's held back

    def feed(self, text: str) -> Iterable[Delta]:
        # Quote by quote, so the result doesn't depend on where the text is split.
        for piece in re.split('(")', text):
            yield from super().feed(piece)
            self._raw += piece

    def read(self, name: str, part: str) -> Iterable[Delta]:
        if name == "response" and self._may_act:
            if name not in self._kinds:
                self._kinds = {**self._kinds, **self._kind_of_response()}
            if name not in self._kinds:
                self._response += part
        return super().read(name, part)

    def close(self, reply: Assistant) -> Iterable[Delta]:
        """The rest: plain text that was used as the response, or a response that was held back."""
        waited = self._response.strip()
        acts = any(call.name != THINK_NAME for call in reply.tool_calls)
        if waited and acts:
            yield Delta("commentary", waited)
        yield from super().close(reply)

    def _kind_of_response(self) -> dict[str, Kind]:
        """The kind of the response, by its key; empty while the actions aren't known."""
        try:
            plan = from_json(self._raw[self._raw.find("{") :], allow_partial=True)
        except ValueError:
            return {}
        match plan:
            case {"actions": []}:
                return {"response": "answer"}
            case {"actions": [*_]}:
                return {"response": "commentary"}
        return {}


# Asking: the schema of a reply.


def can_say_cannot(tools: Sequence[Tool]) -> bool:
    """Does the think tool offer the exit signal "cannot"?"""
    for tool in tools:
        if tool.name == THINK_NAME and has_signal(tool):
            return "cannot" in tool.parameters["properties"]["should_continue"].get("enum", ())
    return False


def _find_forced_keys(request: Request) -> list[str]:
    """The keys of a forced thought."""
    keys = ["understanding", "reasoning"]
    if signals(request.tools) and has_acted(request.messages):
        keys.append("task_complete")
    return keys


def _close_object(**properties: Json) -> Json:
    """The schema of an object with exactly these properties."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _bound_text(part: Json) -> Json:
    """A free text of an action, with a bound."""
    if part == TEXT:
        return {**TEXT, "maxLength": LONGEST_ARGUMENT}
    return part


# Reading: text -> Plan -> calls.


def _first_object(text: str, choice: ToolChoice) -> Json:
    """The first JSON object in `text` that has a key of a plan. If there is none and a response is
    due, plain text is the response. Raises ModelMistake.
    """
    for value in json_objects(text):
        if not value.keys().isdisjoint(KEYS):  # otherwise it's inside a broken plan
            return value
    is_attempt = text.lstrip().startswith(("{", "`"))
    if choice == "none" and not is_attempt:
        return {"response": text}
    raise ModelMistake("there is no JSON object in it, or none that can be read")


def _check_unknown_keys(found: Json, tools: Mapping[str, Tool]) -> None:
    """Ignore unknown keys, unless one may be an action: it contains an object or a tool's name.
    Raises ModelMistake for that.
    """
    for key, value in found.items():
        if key in KNOWN:
            continue
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, (dict, list)) or item in tools:
                raise ModelMistake(f"{key}: there is no such field; an action belongs in actions")


def _call(action: PlannedCall, tools: Mapping[str, Tool]) -> ToolCall:
    """The call of an action, with the thought that it carries. Raises ModelMistake."""
    tool = tools.get(action.tool)
    if tool is None:
        names = ", ".join(tools)
        raise ModelMistake(f"actions: no tool {action.tool!r} now; possible: [{names}]")
    arguments = action.arguments  # `schema.repair` handles a null for an optional argument
    if not is_blank(action.reasoning):
        arguments = {tool.thought_in: action.reasoning.strip(), **arguments}
    return ToolCall("", tool.name, arguments)


def _check_amount(plan: Plan, form: Form, choice: ToolChoice) -> None:
    """Raises ModelMistake for too few or too many actions, or one without reasoning."""
    if len(plan.actions) > 1:
        raise ModelMistake(f"actions: it must hold at most 1, not {len(plan.actions)}")
    for action in plan.actions:
        if "cannot" in form.keys and plan.cannot.strip():
            raise ModelMistake("cannot and an action exclude each other; leave one of them out")
        if not plan.reasoning.strip() and not action.reasoning.strip():
            raise ModelMistake("reasoning is blank; write down why, then act")
    if plan.actions or choice == "auto":
        return
    is_leaving = plan.task_complete or bool(plan.cannot.strip())
    if form.must_act or not is_leaving:
        raise ModelMistake("actions: this turn asks for one")

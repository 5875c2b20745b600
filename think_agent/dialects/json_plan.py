"""The json dialect: every turn of the model is one JSON object, a plan, under a schema built from
the tools. For every model with structured output; it needs no tool calling.

    {"understanding": "...", "reasoning": "...",        -> the thought
     "task_complete": false,                            -> the exit signal
     "actions": [{"tool": "...", "arguments": {...}}],  -> the tool calls
     "response": "..."}                                 -> the text for the user

Rule 1: a tool choice is a narrower schema, so forcing works by construction. `Force("think")`: the
        notes and the verdict, no actions. Another `Force`: that tool. `"required"`: an action.
        `"none"`: `response` alone. The keys stand in the order of writing: reasons before verdicts.
Rule 2: the system prompt describes the format and the tools, and is the same bytes for a whole run
        (prompt caches). What a single turn may hold is said by its schema alone.
Rule 3: what comes back is read as strictly as it was asked; a server may have ignored the schema.
        Only text around the object is forgiven, keys this turn has no use for, and plain words
        where an answer is due. The rest is `"malformed"`, with the mistake in words for the model.
Rule 4: two things no schema carries are checked here: actions need a reasoning that is not blank;
        and where `"required"` leaves a way out, a plan acts or says `task_complete`.
Rule 5: the transcript keeps the model's own words in `native`, and they are what it sees again.

The edge: a schema holds what all providers take. Bounds and patterns of a parameter are left to its
tool. An optional parameter is a required one that may be null, and null means left out. Objects
without named properties, and values of any type, stay open: llama.cpp, Ollama and Gemini take
those; OpenAI and Anthropic answer 400. Anthropic also limits the unions (16, one per optional
parameter). An `output_schema` of the request itself counts where nothing can be called.
"""

import json
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import replace
from typing import Any, TypeGuard

import pydantic_core

from .. import think as thinking
from ..errors import BadRequest
from ..loop import BROKEN_OFF
from ..messages import (
    Assistant,
    Force,
    Json,
    Message,
    ToolCall,
    ToolChoice,
    ToolResult,
    User,
    from_json,
    mint_ids,
    to_json,
)
from ..model import Capabilities, Model, Request, Wrapper, sendable
from ..streaming import Delta, whole_call
from ..tools import Tool

NATIVE = "json_plan"  # the key of the model's own reply in `Assistant.native`
KEYS = ("understanding", "reasoning", "task_complete", "actions", "response")
NULL: Json = {"type": "null"}
# Answers 400 to maxItems. There one action a turn is asked in words, and checked on reading.
TAKES_NO_BOUND = {"anthropic"}


class JsonPlan(Wrapper):
    """A model that is spoken to in JSON plans. `several`: a plan may hold more than one action."""

    def __init__(self, inner: Model, *, several: bool = False) -> None:
        super().__init__(inner)
        self.several = several

    @property
    def capabilities(self) -> Capabilities:  # type: ignore[override]
        """Those of the model inside, and forcing on top."""
        return replace(self.inner.capabilities, tools=True, forcing="tool")

    def complete(self, request: Request) -> Assistant:
        return read(self.inner.complete(self._asked(request)), request, self.several)

    async def acomplete(self, request: Request) -> Assistant:
        return read(await self.inner.acomplete(self._asked(request)), request, self.several)

    def stream(self, request: Request) -> Iterator[Delta | Assistant]:
        reader = PlanReader(request)
        for event in self.inner.stream(self._asked(request)):
            if isinstance(event, Delta):
                yield from reader.feed(event)
            else:
                yield read(event, request, self.several)

    async def astream(self, request: Request) -> AsyncIterator[Delta | Assistant]:
        reader = PlanReader(request)
        async for event in self.inner.astream(self._asked(request)):
            if isinstance(event, Delta):
                for delta in reader.feed(event):
                    yield delta
            else:
                yield read(event, request, self.several)

    def _asked(self, request: Request) -> Request:
        bounded = self.name not in TAKES_NO_BOUND
        return asked(request, self.name, self.several, bounded=bounded)


def json_plan(model: Model, *, several: bool = False) -> Model:
    """`model`, spoken to in JSON plans: one action a turn, or `several`."""
    return JsonPlan(model, several=several)


# Asking: Request -> Request.


def asked(request: Request, provider: str, several: bool, *, bounded: bool = True) -> Request:
    """The request that the model inside gets: no tools, all words and one schema."""
    choice = request.tool_choice
    if isinstance(choice, Force) and choice.name not in {tool.name for tool in request.tools}:
        raise BadRequest(f"there is no tool {choice.name!r} to force; name one of the request's")
    system, schema = request.system, request.output_schema
    if request.tools:
        system = f"{system}\n\n{instructions(request.tools, several)}".strip()
    if _is_plan(request):
        schema = plan_schema(request.tools, choice, several, bounded=bounded)
    return Request(spoken(request.messages, provider), system=system, output_schema=schema)


def plan_schema(
    tools: Sequence[Tool], tool_choice: ToolChoice, several: bool, *, bounded: bool = True
) -> Json:
    """The JSON schema of one turn. `bounded` False leaves out `maxItems`."""
    branches = [
        _closed(tool=_one_of(tool.name), arguments=_arguments(tool, strict=True))
        for tool in _possible(tools, tool_choice)
    ]
    schema = _outline(tools, tool_choice, several, {"anyOf": branches})
    if "actions" in schema["properties"] and not bounded:
        schema["properties"]["actions"].pop("maxItems", None)
    return schema


def instructions(tools: Sequence[Tool], several: bool) -> str:
    """The part of the system prompt that describes the format and the tools."""
    think = _think_tool(tools)
    amount = "in the order to do them" if several else "at most one"
    answer = "the answer, once the task is complete; before that"
    if think and _has_signal(think):
        answer = "until you are asked for the answer:"
    lines = [
        "# How to reply",
        "",
        "Every reply is one JSON object and nothing else. Its keys, in this order:",
        "",
        '- "understanding": what is asked and what is known by now, in a sentence or two',
        '- "reasoning": short working notes: which rules apply, what is still unknown, why the '
        "next step is the right one. Never blank when you act",
        '- "task_complete": true only when all is done and what is left is to tell the user',
        f'- "actions": a list of {{"tool": name, "arguments": object}}, {amount}; [] for none. '
        "An optional argument that is not needed is null",
        f'- "response": {answer} ""',
        "",
        "A reply that is asked for under a JSON schema has the keys of that schema, which may be "
        "fewer. The results of actions come in the next message.",
    ]
    if think:
        lines.append(
            'Where you are told to use the tool think, write "reasoning"; task_complete true is '
            'its should_continue "false".'
        )
    lines += ["", "# Tools", ""]
    lines += [
        json.dumps(
            {"name": tool.name, "description": tool.description, "parameters": tool.parameters},
            ensure_ascii=False,
        )
        for tool in _possible(tools, "auto")
    ]
    return "\n".join(lines)


def spoken(messages: Sequence[Message], provider: str) -> tuple[Message, ...]:
    """`messages` as a conversation in plain text, the model's own words as it wrote them."""
    said: list[Message] = []
    for message in sendable(messages, provider):
        match message:
            case Assistant(native={"json_plan": dict() as before}):
                said.append(from_json(before))
            case Assistant(tool_calls=calls) if calls:
                said.append(replace(message, text=_written(message), tool_calls=(), native=None))
            case Assistant():
                said.append(message)
            case User() | ToolResult():
                text = message.text if isinstance(message, User) else _result(message)
                # Chat templates of small models want the roles to take turns.
                if said and isinstance(before := said[-1], User):
                    said[-1] = replace(before, text=f"{before.text}\n\n{text}")
                else:
                    said.append(User(text))
    return tuple(said)


def _written(reply: Assistant) -> str:
    """The plan that would have led to a reply, for one that was not written in this dialect."""
    thoughts = (thinking.thought(c) for c in reply.tool_calls if c.name == thinking.NAME)
    actions = [
        {"tool": call.name, "arguments": call.arguments}
        for call in reply.tool_calls
        if call.name != thinking.NAME
    ]
    values = ("", "\n\n".join(thoughts), thinking.wants_to_leave(reply), actions, reply.text)
    return json.dumps(dict(zip(KEYS, values, strict=True)), ensure_ascii=False)


def _result(result: ToolResult) -> str:
    if result.name == thinking.NAME:  # no tool that the model knows of
        return result.content
    return f"Result of {result.name} ({result.call_id}):\n{result.content}"


# The schema.


def _outline(tools: Sequence[Tool], choice: ToolChoice, several: bool, item: Json) -> Json:
    """The keys that a turn asks for, with `item` as the schema of one action."""
    text, verdict = {"type": "string"}, {"type": "boolean"}
    think = _think_tool(tools)
    if choice == "none":
        return _closed(response=text)
    if choice == Force(thinking.NAME):
        signal = {"task_complete": verdict} if think and _has_signal(think) else {}
        return _closed(understanding=text, reasoning=text, **signal)
    keys: Json = {"understanding": text, "reasoning": text, "task_complete": verdict}
    if _possible(tools, choice):
        actions: Json = {"type": "array", "items": item}
        if isinstance(choice, Force) or (choice == "required" and not _may_leave(think)):
            actions["minItems"] = 1
        if not several:
            actions["maxItems"] = 1
        keys["actions"] = actions
    return _closed(**keys, response=text)


def _closed(**properties: Json) -> Json:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _one_of(*names: str) -> Json:
    return {"type": "string", "enum": list(names)}  # not `const`, which Gemini does not know


def _arguments(tool: Tool, *, strict: bool) -> Json:
    """A tool's parameters in the keywords that all providers take.

    `strict` makes every property a required one, with null for those that may be left out.
    """
    return _reduced({"properties": {}, **tool.parameters}, tool.parameters, strict)


def _reduced(schema: Any, root: Json, strict: bool, inside: tuple[str, ...] = ()) -> Json:
    if not isinstance(schema, dict):  # `true`: anything
        return {}
    if isinstance(ref := schema.get("$ref"), str):
        if ref in inside:  # no provider takes a recursive type; from here on anything goes
            return {}
        return _reduced(_resolved(ref, root), root, strict, (*inside, ref))
    kept = {key: schema[key] for key in ("type", "enum") if key in schema}
    if "const" in schema:
        kept["enum"] = [schema["const"]]
    if "type" not in schema and (union := schema.get("anyOf") or schema.get("oneOf")):
        kept["anyOf"] = [_reduced(branch, root, strict, inside) for branch in union]
    if "items" in schema:
        kept["items"] = _reduced(schema["items"], root, strict, inside)
    if "properties" in schema:
        properties = {
            name: _reduced(value, root, strict, inside)
            for name, value in schema["properties"].items()
        }
        required = [name for name in properties if name in schema.get("required", ())]
        if strict:
            properties |= {
                name: _nullable(value) for name, value in properties.items() if name not in required
            }
            required = list(properties)
        kept |= {"properties": properties, "required": required, "additionalProperties": False}
    elif "additionalProperties" in schema:
        others = schema["additionalProperties"]
        kept["additionalProperties"] = (
            others if isinstance(others, bool) else _reduced(others, root, strict, inside)
        )
    return kept


def _nullable(schema: Json) -> Json:
    branches = schema["anyOf"] if "anyOf" in schema else [schema]
    return {"anyOf": branches if NULL in branches else [*branches, NULL]}


def _resolved(ref: str, root: Json) -> Any:
    """What a reference such as `#/$defs/Address` stands for."""
    node: Any = root
    for key in ref.removeprefix("#").strip("/").split("/"):
        node = node[key.replace("~1", "/").replace("~0", "~")]
    return node


def _is_plan(request: Request) -> bool:
    """Is a plan asked for? Not where nothing can be called and there is a schema, or no tool."""
    final = request.tool_choice == "none" and request.output_schema is not None
    return bool(request.tools) and not final


def _possible(tools: Sequence[Tool], choice: ToolChoice) -> list[Tool]:
    """The tools that a plan may name: the think tool is not among them, its place is `reasoning`."""
    if choice == "none":
        return []
    only = choice.name if isinstance(choice, Force) else None
    return [tool for tool in tools if tool.name != thinking.NAME and only in (None, tool.name)]


def _think_tool(tools: Sequence[Tool]) -> Tool | None:
    return next((tool for tool in tools if tool.name == thinking.NAME), None)


def _has_signal(think: Tool) -> bool:
    return "should_continue" in think.parameters.get("properties", {})


def _may_leave(think: Tool | None) -> TypeGuard[Tool]:
    return think is not None and _has_signal(think)


# Reading: Assistant -> Assistant.


class Unreadable(Exception):
    """The reply is no plan. The text is for the model."""


def read(inner: Assistant, request: Request, several: bool) -> Assistant:
    """The reply that the plan in `inner` amounts to."""
    enforced = None if request.tool_choice == "auto" else "schema"
    if not _is_plan(request):
        return replace(inner, tool_calls=(), enforced=enforced)
    said = replace(inner, tool_calls=(), native={NATIVE: to_json(inner)}, enforced=enforced)
    if inner.stop_reason in BROKEN_OFF:
        return said
    try:
        plan = _plan(inner.text, request, several)
    except Unreadable as problem:
        keys = ", ".join(_outline(request.tools, request.tool_choice, several, {})["properties"])
        mistake = (
            f"Your reply could not be read: {problem}. "
            f"Reply with one JSON object with these keys and nothing else: {keys}."
        )
        return replace(said, stop_reason="malformed", mistake=mistake)
    return mint_ids(_performed(plan, said, request), request.messages)

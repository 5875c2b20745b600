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
        Forgiven are text around the object, keys without a use in this turn (but never an action),
        and plain words where an answer is due. All else is `"malformed"`, with the mistake in words
        for the model.
Rule 4: two things that no schema carries are checked on reading: who acts gives a reasoning that is
        not blank; and where `"required"` leaves the exit signal as a way out, a plan acts or takes
        it.
Rule 5: the transcript keeps the model's own words in `native`, and they are what it sees again.

The edge: `schemas.py` has what of a tool's parameters goes into the schema. An `output_schema` of
the request itself counts where nothing can be called: without tools, and in the final call.
"""

import json
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import replace

import pydantic_core

from .. import think as thinking
from ..errors import BadRequest
from ..loop import BROKEN_OFF
from ..messages import (
    THINK_NAME,
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
from ..policies import check_whole
from ..streaming import Delta, whole_call
from ..think import has_signal
from ..tools import ModelMistake, Tool
from .schemas import closed, fitted, one_of, reduced, shortened

NATIVE = "json_plan"  # where `Assistant.native` holds the model's own reply
KEYS = ("understanding", "reasoning", "task_complete", "actions", "response")
# It answers 400 to maxItems. One action a turn is asked of it in words, and checked on reading.
TAKES_NO_MAX_ITEMS = {"anthropic"}


class JsonPlan(Wrapper):
    """A model that is spoken to in JSON plans; the arguments are those of `json_plan`."""

    def __init__(self, inner: Model, *, several: bool = False, longest: int | None = None) -> None:
        super().__init__(inner)
        self.several = several
        self.longest = longest

    @property
    def capabilities(self) -> Capabilities:  # type: ignore[override]
        """Those of the model inside, with tools and forcing."""
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
        bounded = self.name not in TAKES_NO_MAX_ITEMS
        told = asked(request, self.name, self.several, bounded=bounded)
        if self.longest is None or not _wants_plan(request):
            return told
        return replace(told, output_schema=shortened(told.output_schema, self.longest))


def json_plan(model: Model, *, several: bool = False, longest: int | None = None) -> Model:
    """`model`, spoken to in JSON plans: one action a turn, or `several`.

    `longest`: the most characters of each text in a plan, for small models that talk until they are
    cut. It is the schema's `maxLength`: llama.cpp and Ollama keep to it, OpenAI and Anthropic
    answer 400.
    """
    if longest is not None:
        check_whole("longest", longest)
    return JsonPlan(model, several=several, longest=longest)


# Asking: Request -> Request.


def asked(request: Request, provider: str, several: bool, *, bounded: bool = True) -> Request:
    """The request that the model inside gets: no tools, but words and a schema."""
    choice = request.tool_choice
    if isinstance(choice, Force) and choice.name not in {tool.name for tool in request.tools}:
        raise BadRequest(f"there is no tool {choice.name!r}; force one that the request has")
    system, schema = request.system, request.output_schema
    if request.tools:
        system = f"{system}\n\n{instructions(request.tools, several)}".strip()
    if _wants_plan(request):
        schema = plan_schema(request.tools, choice, several, bounded=bounded)
    return Request(spoken(request.messages, provider), system=system, output_schema=schema)


def plan_schema(
    tools: Sequence[Tool], tool_choice: ToolChoice, several: bool, *, bounded: bool = True
) -> Json:
    """The JSON schema of one turn. `bounded` False: without `maxItems`."""
    branches = [
        closed(tool=one_of(tool.name), arguments=reduced(tool.parameters, strict=True))
        for tool in _possible(tools, tool_choice)
    ]
    schema = _outline(tools, tool_choice, several, {"anyOf": branches})
    if "actions" in schema["properties"] and not bounded:
        schema["properties"]["actions"].pop("maxItems", None)
    return schema


def _outline(tools: Sequence[Tool], choice: ToolChoice, several: bool, action: Json) -> Json:
    """The keys of one turn, with `action` as the schema of an action."""
    text: Json = {"type": "string"}
    verdict: Json = {"type": "boolean"}
    signal = _has_signal(tools)
    if choice == "none":
        return closed(response=text)
    if choice == Force(THINK_NAME):
        keys = {"understanding": text, "reasoning": text}
        return closed(**keys, task_complete=verdict) if signal else closed(**keys)
    keys = {"understanding": text, "reasoning": text, "task_complete": verdict}
    if _possible(tools, choice):
        actions: Json = {"type": "array", "items": action}
        if isinstance(choice, Force) or (choice == "required" and not signal):
            actions["minItems"] = 1
        if not several:
            actions["maxItems"] = 1
        keys["actions"] = actions
    return closed(**keys, response=text)


def instructions(tools: Sequence[Tool], several: bool) -> str:
    """The part of the system prompt that describes the format and the tools."""
    lines = [_json(_described(tool)) for tool in _possible(tools, "auto")]
    return FORMAT.format(
        amount="in the order to do them" if several else "at most one",
        response="until you are asked for the answer" if _has_signal(tools) else "while you work",
        think=_about_think(tools),
        tools="\n".join(lines) or "None.",
    )


FORMAT = """# How to reply

Every reply is one JSON object and nothing else. Its keys, in this order:

- "understanding": what is asked and what is known by now, in a sentence or two
- "reasoning": short working notes: the rules that apply, what is still unknown, why the next step \
is right; never blank when you act
- "task_complete": true only when all is done and what is left is to tell the user
- "actions": a list of {{"tool": name, "arguments": object}}, {amount}; [] for none; an optional \
argument that is not needed is null
- "response": the answer to the user; "" {response}

A reply that is asked for under a JSON schema has the keys of that schema; they may be fewer. \
The results of actions are in the next message.{think}

# Tools for actions

{tools}"""

THINK_IS_REASONING = ' Where you are told to use the tool think, write "reasoning"'
SIGNAL_IS_COMPLETE = '; its should_continue "false" is task_complete true'


def _about_think(tools: Sequence[Tool]) -> str:
    if not _has_think(tools):
        return ""
    return f"{THINK_IS_REASONING}{SIGNAL_IS_COMPLETE if _has_signal(tools) else ''}."


def spoken(messages: Sequence[Message], provider: str) -> tuple[Message, ...]:
    """`messages` as a conversation in plain text, the model's own words as it wrote them."""
    said: list[Message] = []
    for message in sendable(messages, provider, "json"):
        match message:
            case Assistant(native=dict() as native) if NATIVE in native:
                said.append(from_json(native[NATIVE]))
            case Assistant(tool_calls=calls) if calls:
                said.append(
                    replace(message, text=_written(message), tool_calls=(), native=None, dialect="")
                )
            case Assistant():
                said.append(message)
            case User() | ToolResult():
                text = message.text if isinstance(message, User) else _result(message)
                # Joined, for the chat templates of small models want the roles to take turns.
                if said and isinstance(before := said[-1], User):
                    said[-1] = User(f"{before.text}\n\n{text}")
                else:
                    said.append(User(text))
    return tuple(said)


def _written(reply: Assistant) -> str:
    """The plan that would have led to a reply which was not written in this dialect."""
    thoughts = (thinking.thought(call) for call in reply.tool_calls if call.name == THINK_NAME)
    actions = [
        {"tool": call.name, "arguments": call.arguments}
        for call in reply.tool_calls
        if call.name != THINK_NAME
    ]
    values = ("", "\n\n".join(thoughts), thinking.wants_to_leave(reply), actions, reply.text)
    return _json(dict(zip(KEYS, values, strict=True)))


def _result(result: ToolResult) -> str:
    if result.name == THINK_NAME:  # to the model it is no tool
        return result.content
    return f"Result of {result.name} ({result.call_id}):\n{result.content}"


def _described(tool: Tool) -> Json:
    return {"name": tool.name, "description": tool.description, "parameters": tool.parameters}


def _json(value: Json) -> str:
    return json.dumps(value, ensure_ascii=False)


def _wants_plan(request: Request) -> bool:
    """Not without tools, and not where an answer is due under a schema of its own."""
    final = request.tool_choice == "none" and request.output_schema is not None
    return bool(request.tools) and not final


def _possible(tools: Sequence[Tool], choice: ToolChoice) -> list[Tool]:
    """The tools that a plan may name. The think tool is not one: it has keys of its own."""
    if choice == "none":
        return []
    only = choice.name if isinstance(choice, Force) else None
    return [tool for tool in tools if tool.name != THINK_NAME and only in (None, tool.name)]


def _has_think(tools: Sequence[Tool]) -> bool:
    return any(tool.name == THINK_NAME for tool in tools)


def _has_signal(tools: Sequence[Tool]) -> bool:
    """Is there a think tool with the exit signal?"""
    return any(tool.name == THINK_NAME and has_signal(tool) for tool in tools)


# Reading: Assistant -> Assistant.


def read(inner: Assistant, request: Request, several: bool) -> Assistant:
    """The reply that the text of `inner` amounts to."""
    if inner.tool_calls:  # it was shown no tools
        inner = replace(inner, tool_calls=(), native=None, dialect="")
    said = inner if request.tool_choice == "auto" else replace(inner, enforced="schema")
    if not _wants_plan(request):
        return said
    said = replace(said, native={NATIVE: to_json(inner)}, dialect="json")
    if inner.stop_reason in BROKEN_OFF:
        return said
    try:
        plan = _plan(inner.text, request, several)
    except ModelMistake as problem:
        keys = ", ".join(_outline(request.tools, request.tool_choice, several, {})["properties"])
        mistake = (
            f"Your reply could not be read: {problem}. "
            f"Reply with one JSON object and nothing else; its keys: {keys}."
        )
        return replace(said, stop_reason="malformed", mistake=mistake)
    return mint_ids(_performed(plan, said, request), request.messages)


def _plan(text: str, request: Request, several: bool) -> Json:
    """The plan in `text`, without nulls that mean "left out". Raises ModelMistake."""
    choice = request.tool_choice
    found = _first_plan(text, or_words=choice == "none")
    possible = {tool.name: tool for tool in _possible(request.tools, choice)}
    action = closed(tool=one_of(*possible), arguments={"type": "object"})
    outline = _outline(request.tools, choice, several, action)
    useless = set(KEYS) - outline["properties"].keys()
    if found.get("actions"):
        useless -= {"actions"}
    plan: Json = fitted({k: v for k, v in found.items() if k not in useless}, outline)
    actions = plan.get("actions", [])
    for number, item in enumerate(actions):
        parameters = reduced(possible[item["tool"]].parameters, strict=False)
        item["arguments"] = fitted(item["arguments"], parameters, f"actions[{number}].arguments")
    if actions and not plan["reasoning"].strip():
        raise ModelMistake("reasoning is blank; write down why, then act")
    if choice == "required" and possible and not (actions or plan["task_complete"]):
        raise ModelMistake("it holds no action; act, or set task_complete to true")
    return plan


def _first_plan(text: str, *, or_words: bool) -> Json:
    """The first JSON object in `text` with a key of a plan; or else the words as the response."""
    problem = "there is no JSON object in it"
    start = text.find("{")
    while start >= 0:
        try:
            _, end = json.JSONDecoder().raw_decode(text, start)
            # Read again, strictly: without NaN and half surrogate pairs, which nobody could send.
            found = pydantic_core.from_json(text[start:end], allow_inf_nan=False)
        except (ValueError, RecursionError) as error:
            if start == text.find("{"):
                problem = f"it is no valid JSON ({error})"
            end = start + 1
        else:
            if not found.keys().isdisjoint(KEYS):
                return dict(found)
        start = text.find("{", end)
    if or_words and _is_words(text):
        return {"response": text.strip()}
    raise ModelMistake(problem)


def _is_words(text: str) -> bool:
    """Is this plain text, and no attempt at a plan?"""
    return not text.lstrip().startswith(("{", "`"))


def _performed(plan: Json, said: Assistant, request: Request) -> Assistant:
    """`said` with what the plan says, in the fields where the loop looks for it."""
    tools, notes, complete = request.tools, _notes(plan), plan.get("task_complete", False)
    calls = [ToolCall("", item["tool"], item["arguments"]) for item in plan.get("actions", ())]
    # Without the exit signal, the way out is silence: a plan that is complete and does nothing.
    silence = complete and not calls and not _has_signal(tools)
    if _has_think(tools) and request.tool_choice != "none" and not silence:
        arguments = {"thought": notes}
        if _has_signal(tools):
            arguments["should_continue"] = "false" if complete else "true"
        calls.insert(0, ToolCall("", THINK_NAME, arguments))
    elif notes:
        said = replace(said, thinking=f"{said.thinking}\n\n{notes}".strip())
    return replace(
        said,
        text=plan.get("response", ""),
        tool_calls=tuple(calls),
        stop_reason="tool_use" if calls else "end_turn",
    )


def _notes(plan: Json) -> str:
    texts = (plan.get("understanding"), plan.get("reasoning"))
    return "\n\n".join(text.strip() for text in texts if isinstance(text, str) and text.strip())


# Watching: Delta -> Deltas.


class PlanReader:
    """Turns the Deltas of the model inside into those of the plan that takes shape."""

    def __init__(self, request: Request) -> None:
        self._request = request
        self._has_think = _has_think(request.tools)
        self._text = ""
        self._shown = {"notes": "", "response": ""}
        self._calls = 0  # how many Deltas of calls were shown

    def feed(self, delta: Delta) -> Iterator[Delta]:
        """What a watcher may see of the next piece."""
        if delta.kind == "thinking" or not _wants_plan(self._request):
            yield delta
        elif delta.kind == "answer":
            self._text += delta.text
            plan = self._so_far()
            if notes := self._new("notes", _notes(plan)):
                yield (
                    Delta("thought", notes, THINK_NAME)
                    if self._has_think
                    else Delta("thinking", notes)
                )
            calls = list(self._calls_of(plan))
            yield from calls[self._calls :]
            self._calls = len(calls)
            response = plan.get("response")
            if isinstance(response, str) and (words := self._new("response", response)):
                yield Delta("answer", words)

    def _so_far(self) -> Json:
        if self._request.tool_choice == "none" and _is_words(self._text):
            return {"response": self._text.lstrip()}
        try:
            text = self._text[max(self._text.find("{"), 0) :]
            plan = pydantic_core.from_json(text, allow_partial="trailing-strings")
        except ValueError:
            return {}
        return plan if isinstance(plan, dict) else {}

    def _new(self, key: str, text: str) -> str:
        shown = self._shown[key]
        if not text.startswith(shown):
            return ""
        self._shown[key] = text
        return text[len(shown) :]

    def _calls_of(self, plan: Json) -> Iterator[Delta]:
        """Of every action its tool and its arguments, each once it is written out."""
        actions = plan.get("actions")
        for number, action in enumerate(actions if isinstance(actions, list) else ()):
            # What stands last may still grow.
            is_whole = number + 1 < len(plan["actions"]) or next(reversed(plan)) != "actions"
            if isinstance(action, dict) and "tool" in action:
                name, call = str(action["tool"]), number + self._has_think
                if is_whole or next(reversed(action)) != "tool":
                    yield Delta("call", "", name, call)
                if is_whole:
                    yield from whole_call(name, action.get("arguments"), call)

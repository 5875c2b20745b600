"""Lets a script play a model without tool calling: it writes JSON plans, or Thought and Action.

    script                            Request with tools -> Assistant with tool calls
    speak_dialect(script, "json")     Request with text  -> Assistant with the text of a JSON plan
    speak_dialect(script, "react")    Request with text  -> Assistant with Thoughts and Actions

Rule 1: it's the counterpart of `think_agent/dialects`. It only reads their requests and shares no
        code with them, so each tests the other. If a text is lost, the decision is wrong.
Rule 2: a request without a dialect goes to the script unchanged.
Rule 3: a server may drop the plan's schema. The script then gets no tool choice, and writes every
        key that the system prompt names.

Limitations: from a plan's schema the script learns only the think tool and the tools' names. Text
after a result counts as the kit's (a limit, a nudge) until the script has answered.
"""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from think_agent import (
    THINK,
    THINK_MINIMAL,
    Assistant,
    Force,
    Request,
    Tool,
    ToolCall,
    ToolResult,
    User,
)
from think_agent.messages import Json, Spoken, ToolChoice
from think_agent.testing.scripted import Script
from think_agent.think import RECORDED, read_signal, read_thought

PLAN_RESULT = re.compile(r"Result of (\S+) \(\S+\):\n(.*)", re.DOTALL)
OBSERVATION = re.compile(r"Observation \((\S+?)(?: \{.*?\})?\): (.*)", re.DOTALL)
WRITTEN = re.compile(r"^(Thought|Action): (.*)(?:\nAction Input: (.*))?$", re.MULTILINE)
ENDS = re.compile(r'"task_complete": true|^Final Answer:', re.MULTILINE)
PLANS = "Every reply is one JSON object"
PLAN = ("understanding", "reasoning", "task_complete", "actions", "response")  # its keys
ORDERED = "Now write "  # how a tool choice begins in the react dialect
# Only in the system text if there is an exit signal.
PLAN_SIGNAL = "is task_complete true"
REACT_SIGNAL = "a Final Answer is its"


def speak_dialect(script: Script, dialect: str) -> Script:
    """`script` in a dialect: `"json"` or `"react"`. Other dialects need no translation."""
    match dialect:
        case "json":
            return lambda request: _speak_json(script, request)
        case "react":
            return lambda request: _speak_react(script, request)
    return script


# JSON plans: the tool choice is in the schema.


def _speak_json(script: Script, request: Request) -> Assistant:
    keys = _find_plan_keys(request)
    if "response" not in keys and "reasoning" not in keys:
        return script(request)
    has_signal = PLAN_SIGNAL in request.system
    heard = _translate_request(request, has_signal)
    heard = replace(
        heard,
        tool_choice=_read_json_choice(request, keys, heard.messages),
        tools=(*heard.tools, *_list_tools(keys)),
    )
    reply = script(heard)
    plan = _make_plan(reply, keys)
    if "at most one" in request.system:
        plan["actions"] = plan["actions"][:1]
    if not plan["reasoning"] and _has_just_thought(heard.messages):
        plan["reasoning"] = "As planned."
    is_silent = plan["task_complete"] and not has_signal
    if is_silent and not reply.text:  # the answer goes along
        plan["response"] = script(replace(heard, tool_choice="none")).text
    return _replace_text(reply, json.dumps({key: plan[key] for key in keys}, ensure_ascii=False))


def _make_plan(reply: Assistant, keys: Json) -> Json:
    """A reply of the script as a plan."""
    thoughts = []
    actions = []
    is_complete = not reply.tool_calls
    for call in reply.tool_calls:
        if call.name != "think":
            actions.append(_make_action(call, keys))
            continue
        thoughts.append(read_thought(call))
        if read_signal(call) is False:
            is_complete = True
    return {
        "understanding": "",
        "reasoning": "\n".join(thoughts),
        "task_complete": is_complete,
        "actions": actions,
        "response": reply.text,
    }


def _find_plan_keys(request: Request) -> Json:
    """The keys of the plan that is asked for, each with its schema, if the schema is there."""
    if request.output_schema:
        return dict(request.output_schema.get("properties", {}))
    if PLANS in request.system:  # the schema was dropped
        return {key: {} for key in PLAN}
    return {}


def _read_json_choice(request: Request, keys: Json, heard: Sequence[Spoken]) -> ToolChoice:
    if list(keys) == ["response"]:
        return "none"
    if "response" not in keys:
        return Force("think")
    if request.output_schema is None and _has_left(heard):
        return "none"
    return "auto"


def _list_shapes(keys: Json) -> list[Json]:
    """The shapes of an action in the schema of a plan, one for each tool."""
    items = keys.get("actions", {}).get("items", {})
    return [branch["properties"] for branch in items.get("anyOf", ())]


def _list_tools(keys: Json) -> list[Tool]:
    """The tools in the schema of a plan, with only their names."""
    parameters = {"type": "object", "properties": {}}
    tools = []
    for shape in _list_shapes(keys):
        for name in shape["tool"]["enum"]:
            tools.append(Tool(name=name, description="", parameters=parameters))
    return tools


def _has_just_thought(heard: Sequence[Spoken]) -> bool:
    last = heard[-1]
    return isinstance(last, ToolResult) and last.name == "think"


def _has_left(heard: Sequence[Spoken]) -> bool:
    """Did the last plan say that all is done, and did the kit only record it?"""
    plans = [message for message in heard if isinstance(message, Assistant)]
    return isinstance(heard[-1], ToolResult) and bool(ENDS.search(plans[-1].text))


def _make_action(call: ToolCall, keys: Json) -> Json:
    """A call in the form of the schema: it has every argument, and a missing one is null."""
    assert isinstance(call.arguments, dict)
    arguments: Json = {}
    for shape in _list_shapes(keys):
        if call.name in shape["tool"]["enum"]:
            arguments = dict.fromkeys(shape["arguments"].get("required", ()))
    return {"tool": call.name, "arguments": {**arguments, **call.arguments}}


def _read_plan_calls(text: str) -> Iterator[tuple[str, Json]]:
    try:
        plan = json.loads(text)
    except ValueError:  # plain words: the final answer
        return
    if "reasoning" in plan:
        yield "think", {"thought": plan["reasoning"]}
    for action in plan.get("actions", ()):
        yield action["tool"], action["arguments"]


# Thought, Action, Final Answer: the tool choice is a sentence at the end.


def _speak_react(script: Script, request: Request) -> Assistant:
    if "Final Answer:" not in request.system:
        return script(request)
    heard = _translate_request(request, REACT_SIGNAL in request.system)
    heard = replace(heard, tool_choice=_read_react_choice(request))
    reply = script(heard)
    if not reply.tool_calls:
        return _replace_text(reply, f"Final Answer: {reply.text}")
    lines = []
    for call in reply.tool_calls:
        if call.name != "think":
            lines.append(f"Action: {call.name}\nAction Input: {json.dumps(call.arguments)}")
            break  # an Action ends the reply; the other calls come in the next replies
        lines.append(f"Thought: {read_thought(call)}")
        if read_signal(call) is False:
            lines.append(f"Final Answer: {script(replace(heard, tool_choice='none')).text}")
    return _replace_text(reply, "\n".join(lines))


def _read_react_choice(request: Request) -> ToolChoice:
    last = request.messages[-1]
    if not isinstance(last, User):
        return "auto"
    order = last.text.rpartition("\n\n")[2]
    if order.startswith(ORDERED + "a Thought"):
        return Force("think")
    if order.startswith(ORDERED + "the Final Answer"):
        return "none"
    return "auto"


def _read_text_calls(text: str) -> Iterator[tuple[str, Json]]:
    for label, value, given in WRITTEN.findall(text):
        if label == "Thought":
            yield "think", {"thought": value}
        else:
            yield value, json.loads(given)


# What both have in common.


def _replace_text(reply: Assistant, text: str) -> Assistant:
    return replace(reply, text=text, tool_calls=(), stop_reason="end_turn")


def _translate_request(request: Request, has_signal: bool) -> Request:
    """The request in the form for the script; `has_signal`: the think tool has the exit signal."""
    think = THINK if has_signal else THINK_MINIMAL
    return Request(_translate_messages(request.messages), (think,), system=request.system)


def _translate_messages(messages: Sequence[Spoken]) -> list[Spoken]:
    """The conversation in the form for the script, with calls and results."""
    heard: list[Spoken] = []
    waiting: list[ToolCall] = []
    is_over = True  # does the next user text begin a turn?
    for number, message in enumerate(messages):
        if isinstance(message, Assistant):
            waiting = _read_calls(message.text, number)
            is_over = not waiting or bool(ENDS.search(message.text))
            heard.append(replace(message, tool_calls=tuple(waiting)))
        elif isinstance(message, User):
            results, words = _split_message(message.text, waiting)
            heard += results
            if words:
                heard.append(User(words, kind="person" if is_over else "nudge"))
    return heard


def _read_calls(text: str, number: int) -> list[ToolCall]:
    """The calls in the text of a reply. `number`: its place, for the ids."""
    found = _read_text_calls(text)
    if text.startswith("{"):
        found = _read_plan_calls(text)
    calls = []
    for place, (name, arguments) in enumerate(found):
        calls.append(ToolCall(f"{number}.{place}", name, arguments))
    return calls


def _split_message(text: str, waiting: list[ToolCall]) -> tuple[list[ToolResult], str]:
    """The results in a message, each for the first call of its name, and the rest of its text."""
    results = []
    words = []
    for part in text.split("\n\n"):
        name, content = _read_result(part)
        if name:
            call = next(call for call in waiting if call.name == name)
            waiting.remove(call)
            results.append(ToolResult(call.id, name, content, content.startswith("error")))
        elif not part.startswith(ORDERED):
            words.append(part)
    return results, "\n\n".join(words)


def _read_result(part: str) -> tuple[str, str]:
    """The name of the tool and its result in a part of a message; no name if there is none."""
    if part.startswith(RECORDED):
        return "think", part
    found = PLAN_RESULT.fullmatch(part) or OBSERVATION.fullmatch(part)
    if not found:
        return "", ""
    name, content = found.groups()
    if name == "thought":
        name = "think"
    return name, content

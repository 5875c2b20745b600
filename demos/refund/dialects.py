"""Lets a script play a model without tool calling: it writes JSON plans, or Thought and Action.

    script                       Request with tools -> Assistant with tool calls
    speaking(script, "json")     Request with text  -> Assistant with the text of a JSON plan
    speaking(script, "react")    Request with text  -> Assistant with Thoughts and Actions

Rule 1: it is the other side of `think_agent/dialects`. It reads only their requests (system text,
        user texts, output schema) and shares no code with them, so each tests the other.
Rule 2: it turns the texts back into messages with calls and results, plays the script on them, and
        writes the reply in the dialect. If a text gets lost, the decision is wrong.
Rule 3: a request without a dialect goes to the script as it is.
Rule 4: a server may drop the schema of a plan. Then the script gets no tool choice, and writes
        every key that the system text names.

Limitations: the script sees the think tool, with or without the exit signal, and the names of the
tools in a plan's schema. Other tools it has to know. Text after a result is taken for the kit's (a
limit, a nudge) until the script has given its answer.
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
from think_agent.scripted import Script
from think_agent.think import RECORDED, should_continue, thought

PLAN_RESULT = re.compile(r"Result of (\S+) \(\S+\):\n(.*)", re.DOTALL)
OBSERVATION = re.compile(r"Observation \((\S+?)(?: \{.*?\})?\): (.*)", re.DOTALL)
WRITTEN = re.compile(r"^(Thought|Action): (.*)(?:\nAction Input: (.*))?$", re.MULTILINE)
ENDS = re.compile(r'"task_complete": true|^Final Answer:', re.MULTILINE)
PLANS = "Every reply is one JSON object"
PLAN = ("understanding", "reasoning", "task_complete", "actions", "response")
ORDERED = "Now write "  # how a tool choice begins in the react dialect
# Only in the system text if there is an exit signal.
PLAN_SIGNAL = "until you are asked for the answer"
REACT_SIGNAL = "a Final Answer is its"


def speaking(script: Script, dialect: str) -> Script:
    """`script` in a dialect: `"json"` or `"react"`. Other dialects need no translation."""
    match dialect:
        case "json":
            return lambda request: _in_json(script, request)
        case "react":
            return lambda request: _in_react(script, request)
    return script


# JSON plans: the tool choice is in the schema.


def _in_json(script: Script, request: Request) -> Assistant:
    keys = (request.output_schema or {}).get("properties", {})
    dropped = request.output_schema is None and PLANS in request.system
    if dropped:
        keys = {key: {} for key in PLAN}
    if "response" not in keys and "reasoning" not in keys:
        return script(request)
    signal = PLAN_SIGNAL in request.system
    heard = _as_heard(request, signal)
    choice: ToolChoice = "auto"
    if list(keys) == ["response"] or (dropped and _has_left(heard.messages)):
        choice = "none"
    elif "response" not in keys:
        choice = Force("think")
    tools = (*heard.tools, *_tools_in(keys))
    heard = replace(heard, tool_choice=choice, tools=tools)
    reply = script(heard)
    thoughts = [call for call in reply.tool_calls if call.name == "think"]
    actions = [_as_action(call, keys) for call in reply.tool_calls if call.name != "think"]
    complete = not reply.tool_calls or any(should_continue(call) is False for call in thoughts)
    answer = reply.text
    if complete and not signal:  # the way out is silence: the answer goes along
        answer = answer or script(replace(heard, tool_choice="none")).text
    plan = {
        "understanding": "",
        "reasoning": "\n".join(thought(call) for call in thoughts) or _earlier(heard.messages),
        "task_complete": complete,
        "actions": actions[:1] if "at most one" in request.system else actions,
        "response": answer,
    }
    return _said(reply, json.dumps({key: plan[key] for key in keys}, ensure_ascii=False))


def _tools_in(keys: Json) -> list[Tool]:
    """The tools in the schema of a plan, with only their names."""
    shape = {"type": "object", "properties": {}}
    tools = []
    for branch in keys.get("actions", {}).get("items", {}).get("anyOf", ()):
        for name in branch["properties"]["tool"]["enum"]:
            tools.append(Tool(name=name, description="", parameters=shape))
    return tools


def _earlier(heard: Sequence[Spoken]) -> str:
    """The reasoning of a reply without a thought of its own."""
    last = heard[-1]
    return "As planned." if isinstance(last, ToolResult) and last.name == "think" else ""


def _has_left(heard: Sequence[Spoken]) -> bool:
    """Did the last plan say that all is done, and did the kit only record it?"""
    plans = [message for message in heard if isinstance(message, Assistant)]
    return isinstance(heard[-1], ToolResult) and bool(ENDS.search(plans[-1].text))


def _as_action(call: ToolCall, keys: Json) -> Json:
    """A call in the form of the schema: it has every argument, and a missing one is null."""
    branches = keys.get("actions", {}).get("items", {}).get("anyOf", ())
    shapes = (branch["properties"] for branch in branches)
    shape = next((s for s in shapes if call.name in s["tool"]["enum"]), None)
    names = shape["arguments"].get("required", ()) if shape else ()
    assert isinstance(call.arguments, dict)
    return {"tool": call.name, "arguments": {**dict.fromkeys(names), **call.arguments}}


def _calls_in_plan(text: str) -> Iterator[tuple[str, Json]]:
    try:
        plan = json.loads(text)
    except ValueError:  # plain words: the final answer
        return
    if "reasoning" in plan:
        yield "think", {"thought": plan["reasoning"]}
    for action in plan.get("actions", ()):
        yield action["tool"], action["arguments"]


# Thought, Action, Final Answer: the tool choice is a sentence at the end.


def _in_react(script: Script, request: Request) -> Assistant:
    if "Final Answer:" not in request.system:
        return script(request)
    last = request.messages[-1]
    asked = last.text.rpartition("\n\n")[2] if isinstance(last, User) else ""
    choice: ToolChoice = "auto"
    if asked.startswith(ORDERED + "a Thought"):
        choice = Force("think")
    elif asked.startswith(ORDERED + "the Final Answer"):
        choice = "none"
    heard = replace(_as_heard(request, REACT_SIGNAL in request.system), tool_choice=choice)
    reply = script(heard)
    if not reply.tool_calls:
        return _said(reply, f"Final Answer: {reply.text}")
    lines = []
    for call in reply.tool_calls:
        if call.name == "think":
            lines.append(f"Thought: {thought(call)}")
            if should_continue(call) is False:
                lines.append(f"Final Answer: {script(replace(heard, tool_choice='none')).text}")
        else:
            lines.append(f"Action: {call.name}\nAction Input: {json.dumps(call.arguments)}")
            break  # an Action ends the reply; the other calls come in the next replies
    return _said(reply, "\n".join(lines))


def _calls_in_text(text: str) -> Iterator[tuple[str, Json]]:
    for label, value, given in WRITTEN.findall(text):
        yield ("think", {"thought": value}) if label == "Thought" else (value, json.loads(given))


# What both have in common.


def _said(reply: Assistant, text: str) -> Assistant:
    return replace(reply, text=text, tool_calls=(), stop_reason="end_turn")


def _as_heard(request: Request, signal: bool) -> Request:
    """The request in the form for the script; `signal`: the think tool has the exit signal."""
    think = THINK if signal else THINK_MINIMAL
    return Request(_heard(request.messages), (think,), system=request.system)


def _heard(messages: Sequence[Spoken]) -> list[Spoken]:
    """The conversation in the form for the script, with calls and results."""
    heard: list[Spoken] = []
    waiting: list[ToolCall] = []
    over = True  # does the next user text begin a turn?
    for number, message in enumerate(messages):
        if isinstance(message, Assistant):
            read = _calls_in_plan if message.text.startswith("{") else _calls_in_text
            waiting = [
                ToolCall(f"{number}.{place}", name, arguments)
                for place, (name, arguments) in enumerate(read(message.text))
            ]
            over = not waiting or bool(ENDS.search(message.text))
            heard.append(replace(message, tool_calls=tuple(waiting)))
        elif isinstance(message, User):
            results, words = _results_and_words(message.text, waiting)
            heard += results
            if words:
                heard.append(User(words, kind="person" if over else "nudge"))
    return heard


def _results_and_words(text: str, waiting: list[ToolCall]) -> tuple[list[ToolResult], str]:
    """The results in a message, each for the first call of its name, and the rest of its text."""
    results, words = [], []
    for part in text.split("\n\n"):
        found = PLAN_RESULT.fullmatch(part) or OBSERVATION.fullmatch(part)
        if found or part.startswith(RECORDED):
            name, content = found.groups() if found else ("think", part)
            name = "think" if name == "thought" else name
            call = next(call for call in waiting if call.name == name)
            waiting.remove(call)
            results.append(ToolResult(call.id, name, content, content.startswith("error")))
        elif not part.startswith(ORDERED):
            words.append(part)
    return results, "\n\n".join(words)

"""The think tool: a tool that does nothing, and is worth calling for its arguments.

Rule 1: `thought` holds working notes (plan, open questions, a result checked against the rules).
        The tool never asks for a transcript of internal reasoning; some models refuse that, and
        native reasoning has a channel of its own.
Rule 2: `should_continue` is the exit signal: "false" means that one last reply without tools may
        end the turn. It arrives as a bool or as text in any case; missing or unreadable means
        *continue* (a default of stop fails silently, a default of continue fails loudly at a
        limit), and the tool result says what was wrong.
Rule 3: the kit answers a think call itself (`acknowledge`), with a short constant that is never
        empty (an empty tool message is not even sent by some SDKs). No user code runs, no budget
        of actions is touched.

Source of the idea and of `THINK_MINIMAL`: Anthropic, "The think tool", 2025-03-20.
"""

from dataclasses import replace

from .messages import THINK_NAME, Assistant, ToolCall
from .tools import Tool

RECORDED = "Thought recorded."
# What a guarded call without a thought behind it is told (`policies.gate`).
THINK_FIRST = "not run. Call think first: check this step against the rules. Then call it again."
_THOUGHT = {
    "type": "string",
    "description": "Short working notes: a plan, open questions, a check against the rules.",
}

THINK = Tool(
    name=THINK_NAME,
    description=(
        "Write down working notes. It changes nothing and fetches nothing. Call it before you act: "
        "note which rules apply, what is still unknown and which step comes next. Call it again "
        "after a result: check the result against the rules. A few short sentences are enough; "
        "this is a notepad, not a place to spell out your reasoning. Set should_continue to "
        '"false" only when everything is done and what is left is to tell the user.'
    ),
    parameters={
        "type": "object",
        "properties": {
            "thought": _THOUGHT,
            "should_continue": {
                "type": "string",
                "enum": ["true", "false"],
                "description": '"true" while there is more to do, "false" when all is done.',
            },
        },
        "required": ["thought", "should_continue"],
        "additionalProperties": False,
    },
)
"""The extended think tool, with the exit signal. Every provider carries two flat strings."""

THINK_MINIMAL = Tool(
    name=THINK_NAME,
    description=(
        "Use this tool to write down working notes about something. It will not obtain new "
        "information or change anything, only record the note. Use it when a result has to be "
        "checked or a plan has to be made."
    ),
    parameters={
        "type": "object",
        "properties": {"thought": _THOUGHT},
        "required": ["thought"],
        "additionalProperties": False,
    },
)
"""The think tool as first published: no exit signal, so silence is the only way out."""


def has_signal(tool: Tool) -> bool:
    """Does this think tool carry the exit signal?"""
    return "should_continue" in tool.parameters.get("properties", {})


def thought(call: ToolCall) -> str:
    """The notes in a think call; whatever else the model wrote there, as text. Empty is valid."""
    if isinstance(call.arguments, str):
        return call.arguments
    value = call.arguments.get("thought", "")
    return value if isinstance(value, str) else str(value)


def should_continue(call: ToolCall) -> bool | None:
    """The exit signal of a think call; None, which means continue, where it cannot be read."""
    value = call.arguments.get("should_continue") if isinstance(call.arguments, dict) else None
    if isinstance(value, bool):
        return value
    if isinstance(value, str):
        return {"true": True, "false": False}.get(value.strip().lower())
    return None


def without_signal(reply: Assistant) -> Assistant:
    """`reply` without the exit signal that a model invented for a tool that has none."""
    calls = tuple(
        replace(call, arguments={k: v for k, v in call.arguments.items() if k != "should_continue"})
        if call.name == THINK_NAME and isinstance(call.arguments, dict)
        else call
        for call in reply.tool_calls
    )
    return replace(reply, tool_calls=calls)


def wants_to_leave(reply: Assistant) -> bool:
    """Did the last thought of this reply signal the exit?"""
    thoughts = [call for call in reply.tool_calls if call.name == THINK_NAME]
    return bool(thoughts) and should_continue(thoughts[-1]) is False


def acknowledge(call: ToolCall, tool: Tool, *, in_a_row: int, cap: int) -> str:
    """The result of a think call. `in_a_row`: replies that only thought, this one included."""
    said = RECORDED
    if isinstance(call.arguments, str):
        said += " Its arguments were not a JSON object; next time send one."
    elif has_signal(tool) and should_continue(call) is None:
        said += ' should_continue was missing or unreadable; it must be "true" or "false".'
    if in_a_row >= cap and should_continue(call) is not False:
        said += f" That is {in_a_row} in a row: it is time to act with another tool, or to finish."
    return said

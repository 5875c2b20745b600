"""The think tool. It does nothing; its value is the note the model writes when it calls it.

Rule 1: `thought` holds working notes: a plan, open questions, a result checked against the rules.
        The tool doesn't ask the model to write out its internal reasoning, because some models
        refuse that, and native reasoning has its own channel. A custom think tool may have several
        text arguments, such as `for` and `against`; together they are the thought.
Rule 2: `should_continue` is the exit signal. "false" asks for the closing reply: one more reply,
        without tools, that gives the answer. The value may be a bool or text, in upper or lower
        case. If it's missing or unreadable, it means *continue*, and the tool result says what was
        wrong. (A wrong stop is silent. A wrong "continue" hits a limit at worst, which is visible.)
Rule 3: the kit answers a think call itself (`acknowledge`); none of your code runs. A missing
        thought is an error and covers no call. The result is never empty, because some SDKs drop an
        empty tool message.

Source of the idea and of `THINK_MINIMAL`: Anthropic, "The think tool", 2025-03-20.
"""

from dataclasses import replace
from typing import Literal

from .messages import CARRIED, THINK_NAME, Assistant, Json, ToolCall, ToolResult
from .text import is_blank
from .tools import Tool

# The value of `should_continue`; None if it's missing or unreadable. Only THINK_CANNOT has "cannot"
# (`policies/cannot.py`).
Signal = bool | Literal["cannot"] | None
RECORDED = "Thought recorded."
END_NOTED = "The end is noted."  # for "false" without a thought
NO_THOUGHT = ("should_continue", "missing")  # the think arguments that are no notes
# What the model reads if no thought covers a guarded call (`policies/gate.py`).
THINK_FIRST = "not run. Call think first: check this step against the rules. Then call it again."
CARRY_FIRST = (  # the same with `carry=True`, where there is no think tool
    "not run. Check this step against the rules in its argument {!r}, and call it again."
)
THOUGHT = {
    "type": "string",
    "description": "Short working notes: a plan, open questions, a check against the rules.",
}
_SIGNAL = {
    "type": "string",
    "enum": ["true", "false"],
    "description": '"true" while there is more to do, "false" when all is done.',
}


def _think(description: str, **arguments: Json) -> Tool:
    parameters = {
        "type": "object",
        "properties": arguments,
        "required": list(arguments),
        "additionalProperties": False,
    }
    # It has no function, because the kit answers the call.
    return Tool(name=THINK_NAME, description=description, parameters=parameters)


THINK = _think(
    "Write down working notes. It changes nothing and fetches nothing. Call it before you act: "
    "note which rules apply, what is still unknown and which step comes next. Call it again "
    "after a result: check the result against the rules. A few short sentences are enough; "
    "this is a notepad, not a place to spell out your reasoning. Set should_continue to "
    '"false" only when everything is done and what is left is to tell the user.',
    thought=THOUGHT,
    should_continue=_SIGNAL,
)
"""The extended think tool, with the exit signal. Its arguments are two plain strings, which every
provider can send.
"""

THINK_MINIMAL = _think(
    "Use this tool to write down working notes about something. It will not obtain new "
    "information or change anything, only record the note. Use it when a result has to be "
    "checked or a plan has to be made.",
    thought=THOUGHT,
)
"""The think tool as first published. It has no exit signal, so silence means "done"."""


def has_signal(tool: Tool) -> bool:
    """Does this think tool have the exit signal?"""
    return "should_continue" in tool.parameters.get("properties", {})


def read_thought(call: ToolCall) -> str:
    """The notes in a think call; empty if there are none. Several arguments become one line each,
    with their names. For any other call: the thought that it carries.
    """
    if call.name != THINK_NAME:
        return read_carried(call)
    if isinstance(call.arguments, str):
        return call.arguments
    notes = {}
    for name, value in call.arguments.items():
        if value and name not in NO_THOUGHT:
            notes[name] = str(value)
    if notes.keys() <= {CARRIED}:
        return notes.get(CARRIED, "")
    return "\n".join(f"{name}: {text}" for name, text in notes.items())


def find_missing_notes(call: ToolCall, tool: Tool) -> list[str]:
    """The arguments of a think call that lack their text. If the tool requires any, these are the
    required ones without a text. Otherwise they are all its arguments, if none has a text.
    """
    properties = tool.parameters.get("properties", {})
    names = [name for name in properties if name not in NO_THOUGHT]
    required = [name for name in names if name in tool.parameters.get("required", ())]
    written: Json = {}
    if not isinstance(call.arguments, str):
        written = call.arguments
    empty = [name for name in required or names if is_blank(str(written.get(name) or ""))]
    if required or len(empty) == len(names):
        return empty
    return []


def read_carried(call: ToolCall) -> str:
    """The thought that a call carries in its arguments; empty if there is none."""
    if call.name == THINK_NAME or isinstance(call.arguments, str):
        return ""
    value = call.arguments.get(call.thought_in)
    if not isinstance(value, str) or is_blank(value):
        return ""
    return value.strip()


def add_thought_argument(tool: Tool) -> Tool:
    """The tool as a model sees it with `Agent(carry=True)`: with an argument for the thought."""
    name = tool.thought_in
    properties = {name: THOUGHT, **tool.parameters.get("properties", {})}
    required = [name, *tool.parameters.get("required", ())]
    parameters = {**tool.parameters, "properties": properties, "required": required}
    return replace(tool, parameters=parameters, carries=True)


def bare(call: ToolCall) -> ToolCall:
    """A call without the thought that it carries. This is what's approved and run."""
    if call.name == THINK_NAME:
        return call
    return without(call, call.thought_in)


def as_run(call: ToolCall, arguments: Json | None) -> ToolCall:
    """A call as it was run: bare, and with `arguments` if a person or a policy changed them."""
    if arguments is None:
        return bare(call)
    return replace(bare(call), arguments=arguments)


def without(call: ToolCall, name: str) -> ToolCall:
    """A call without this argument."""
    if isinstance(call.arguments, str) or name not in call.arguments:
        return call
    return replace(call, arguments={k: v for k, v in call.arguments.items() if k != name})


def read_signal(call: ToolCall) -> Signal:
    """The exit signal of a think call. None means that it can't be read, so the turn continues."""
    if isinstance(call.arguments, str):
        return None
    text = str(call.arguments.get("should_continue")).strip().lower()  # "none" if it's missing
    signals: dict[str, Signal] = {"true": True, "false": False, "cannot": "cannot"}
    return signals.get(text)


def acknowledge(call: ToolCall, tool: Tool, under_schema: bool) -> ToolResult:
    """The result of a think call. `under_schema`: a schema constrained the call. Such a schema may
    leave out should_continue (`wire/forms.py`), which then means "continue".
    """
    signal = read_signal(call)
    missing = find_missing_notes(call, tool)
    if missing and signal in (False, "cannot") and is_blank(read_thought(call)):
        return ToolResult(call.id, call.name, END_NOTED)
    if missing:
        return ToolResult(call.id, call.name, _say_what_is_missing(call, missing), is_error=True)
    is_left_out = under_schema and "should_continue" not in call.arguments
    values = tool.parameters.get("properties", {}).get("should_continue", {}).get("enum", ())
    is_readable = signal is not None and (signal != "cannot" or "cannot" in values)
    text = RECORDED
    if has_signal(tool) and not is_readable and not is_left_out:
        text += ' should_continue was missing or unreadable; it must be "true" or "false".'
    return ToolResult(call.id, call.name, text)


def _say_what_is_missing(call: ToolCall, missing: list[str]) -> str:
    where = " and ".join(f'"{name}"' for name in missing)
    text = (
        f"error: the thought is missing. Write your notes into {where} of think, and call it again."
    )
    if isinstance(call.arguments, str):
        return f"{text} The arguments were not a JSON object."
    return text


def is_remark(reply: Assistant) -> bool:
    """Is the text of a reply only a remark next to its calls ("Let me look that up.")?

    An answer ends a turn, so text next to calls isn't an answer. There are two exceptions: the
    calls won't run (in a closing or unusable reply), or the reply is in a dialect, which can give
    the signal and the answer in one reply.
    """
    calls = reply.tool_calls
    if not calls or not reply.is_usable or reply.tool_choice == "none":
        return False
    only_thinks = all(call.name == THINK_NAME for call in calls)
    is_finished_plan = reply.dialect and only_thinks and read_signal(calls[-1]) is False
    return not is_finished_plan

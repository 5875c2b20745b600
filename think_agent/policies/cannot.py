"""An honest "cannot": a model may say that it cannot do what it was asked for.

    Agent(model, tools, think=THINK_CANNOT)

Rule 1: the think tool has a third value, `should_continue: "cannot"`. As after "false", the closing
        reply follows; the exit is then `cannot`.
Rule 2: the checks of `done_when` don't run then, and no typed answer is asked for: the model has
        not claimed that anything is done.
Rule 3: `missing` says what it would need. It is no part of the thought.
"""

from dataclasses import replace

from ..loop import CallModel, Done, Step, is_free
from ..think import THINK
from ..tools import Tool
from ..turn import Turn

THINK_CANNOT = replace(
    THINK,
    description=THINK.description
    + ' Set it to "cannot" if you cannot do what was asked for. Say in `missing` what you lack.',
    parameters={
        **THINK.parameters,
        "properties": {
            **THINK.parameters["properties"],
            "should_continue": {
                "type": "string",
                "enum": ["true", "false", "cannot"],
                "description": '"true" while there is more to do, "false" when all is done, '
                '"cannot" if it cannot be done.',
            },
            "missing": {
                "type": "string",
                "description": 'With "cannot": what you would need, such as a tool or a fact.',
            },
        },
    },
)
"""The think tool with a third exit signal: the model cannot do what was asked for."""


def offers_cannot(tool: Tool | None) -> bool:
    """Does this think tool have the value "cannot"?"""
    if tool is None:
        return False
    signal = tool.parameters.get("properties", {}).get("should_continue", {})
    return "cannot" in signal.get("enum", ())


def leave_with_cannot(step: Step, turn: Turn) -> Step:
    """The policy: after "cannot" the closing reply is asked for, and the exit says so (rule 1)."""
    if turn.signal != "cannot":
        return step
    if is_free(step) and step.say is None and turn.is_answered:
        return CallModel("none")
    if isinstance(step, Done) and step.exit == "silence" and turn.is_closing_reply:
        return Done("cannot", step.answer)
    return step

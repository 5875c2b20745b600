"""An honest "cannot": a model may say that it can't do what was asked.

    Agent(model, tools, think=THINK_CANNOT)

Rule 1: the think tool has a third value, `should_continue: "cannot"`. As after "false", the closing
        reply follows. The exit is `cannot`.
Rule 2: `done_when` checks and the typed answer are then skipped, because the model hasn't claimed
        that anything is done.
Rule 3: `missing` says what it would need. It isn't part of the thought.
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
"""The think tool with a third exit signal: the model can't do what was asked."""


def offers_cannot(tool: Tool | None) -> bool:
    """Does this think tool have the value "cannot"?"""
    if tool is None:
        return False
    signal = tool.parameters.get("properties", {}).get("should_continue", {})
    return "cannot" in signal.get("enum", ())


def leave_with_cannot(step: Step, turn: Turn) -> Step:
    """The policy: after "cannot", ask for the closing reply and use that exit (rule 1)."""
    if turn.signal != "cannot":
        return step
    if is_free(step) and step.say is None and turn.is_answered:
        return CallModel("none")
    if isinstance(step, Done) and step.exit == "silence" and turn.is_closing_reply:
        return Done("cannot", step.answer)
    return step

"""Twice in one reply: a duplicate call, before the model has read that the first one succeeded.

It's refused. Models sometimes write the same payment several times in one reply and mean it once.
In the next reply it runs, since the model has then read the first result.

Rule 1: Two calls are the same if the arguments in `Tool.same` are equal after validation.
Rule 2: `read_only` and `idempotent` tools are exempt, and so are tools with `@tool(repeats=True)`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from ..history import OpenCall
from ..loop import CallTool, Policy, Refuse, Step, is_action
from ..messages import Assistant, Message, ToolResult
from ..tools import Tool, digest_call
from ..turn import Turn


@dataclass
class Succeeded:
    """Digests of the latest reply's successful calls (`Started.same`)."""

    digests: set[str] = field(default_factory=set)

    def add(self, message: Message, about: OpenCall | None) -> None:
        """Read the next message of the turn. `about`: the call it belongs to."""
        match message:
            case Assistant():
                self.digests = set()
            case ToolResult(is_error=False) if about and about.started:
                self.digests.add(about.started.same)


def twice(tools: Mapping[str, Tool]) -> Policy:
    """The policy: refuse a duplicate of a successful call in the same reply."""

    def refuse_twice_in_one_reply(step: Step, turn: Turn) -> Step:
        succeeded = turn.read(Succeeded).digests
        if not succeeded or not is_action(step) or step.fitted is None:
            return step
        tool = tools[step.call.name]
        if tool.may_repeat or tool.repeats or digest_call(tool, step.fitted) not in succeeded:
            return step
        return _refuse(step, tool)

    return refuse_twice_in_one_reply


def _refuse(step: CallTool, tool: Tool) -> Refuse:
    compared = ", ".join(tool.same) or "all arguments"
    return Refuse(
        step.call,
        "repeat",
        f"not run: this reply has already made this call, and it succeeded (compared: {compared}). "
        "Read that result first. If you mean it a second time, call it again in your next reply.",
        f"{tool.name} was called twice in one reply and ran once; "
        "a tool that may do that says so: @tool(repeats=True)",
    )

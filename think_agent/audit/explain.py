"""Says why the loop took each step. Planning is pure, so every step can be planned again.

Limitations: it shows what this agent would do now. If its settings were different then, the plan
differs from the record, and `as_recorded` says so.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from ..agent import Agent
from ..loop import AskHuman, CallModel, CallTool, Check, Done, Refuse, Step, next_step
from ..messages import Assistant, Checked, Ended, Message, Started, ToolResult, User, Verdict
from ..turn import Turn


class Explained(NamedTuple):
    """Why a step of a run was taken.

    `planned`: who planned which step: `next_step`, then each policy that changed it. `came`: the
    messages that followed. `as_recorded`: do these messages fit the plan?
    """

    planned: tuple[tuple[str, Step], ...]
    came: tuple[Message, ...]
    as_recorded: bool


def explain(agent: Agent, transcript: Iterable[Message]) -> list[Explained]:
    """Each step of a transcript, planned again from the messages before it. While a turn is open,
    the last one is what this agent would do next.
    """
    explained: list[Explained] = []
    turn = Turn()
    policies = agent.policies()
    for recorded in _by_step(transcript):
        came = [m for m in recorded if not isinstance(m, Started) and not _is_request(m)]
        is_step = came or not turn.ended  # nothing is planned for a turn that is over
        if turn.last and is_step:
            step = next_step(turn)
            planned = [("next_step", step)]
            for policy in policies:
                changed = policy(step, turn)
                if changed != step:
                    planned.append((policy.__name__, changed))
                step = changed
            as_recorded = not came or _fits(step, came[-1])
            explained.append(Explained(tuple(planned), tuple(came), as_recorded))
        for message in recorded:
            turn.add(message)
    return explained


def _by_step(transcript: Iterable[Message]) -> Iterator[list[Message]]:
    """The messages of a transcript, step by step; a person's message is the last of its step."""
    recorded: list[Message] = []
    for message in transcript:
        recorded.append(message)
        if _is_request(message) or not isinstance(message, (User, Started)):
            yield recorded
            recorded = []
    yield recorded  # the run may have stopped in the middle of a step


def _is_request(message: Message) -> bool:
    return isinstance(message, User) and message.kind == "person"


def _fits(step: Step, message: Message) -> bool:
    """Does this message fit the step, as far as that can be known?"""
    match step, message:
        case (
            (CallModel(tool_choice=planned), Assistant(tool_choice=found))
            | (Refuse(code=planned), ToolResult(refused=found))
            | (Done(exit=planned), Ended(exit=found))
        ):
            return planned == found
        case (CallTool(), ToolResult(refused="")) | (Check(), Checked()) | (AskHuman(), Verdict()):
            return True
    return False

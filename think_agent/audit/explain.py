"""Why the loop did what it did: planning is pure, so each step of a transcript can be planned anew.

Limitations: an agent is asked what it would do now. Where its settings were others, its plan
differs from what was recorded, and that is said (`as_recorded`).
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from ..agent import Agent
from ..loop import AskHuman, CallModel, CallTool, Check, Done, Refuse, Step, next_step
from ..messages import Assistant, Checked, Ended, Message, Started, ToolResult, User, Verdict
from ..turn import Turn


class Explained(NamedTuple):
    """Why a step of a run was what it was.

    `planned`: by whom, and what: by `next_step`, then by each policy that changed it. `came`: the
    messages that came of it. `as_recorded`: an agent like this would have made messages like those.
    """

    planned: tuple[tuple[str, Step], ...]
    came: tuple[Message, ...]
    as_recorded: bool


def explain(agent: Agent, transcript: Iterable[Message]) -> list[Explained]:
    """Each step of a transcript, planned anew from what stood before it. While a turn is open, the
    last one is what this agent would do next.
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
    """The messages of a transcript, step by step; what a person says stands at the end of one."""
    recorded: list[Message] = []
    for message in transcript:
        recorded.append(message)
        if _is_request(message) or not isinstance(message, (User, Started)):
            yield recorded
            recorded = []
    yield recorded  # of a run that was stopped in the middle of one


def _is_request(message: Message) -> bool:
    return isinstance(message, User) and message.kind == "person"


def _fits(step: Step, message: Message) -> bool:
    """Is this the message, as far as it can be known, that comes of the step?"""
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

"""What would this rule have done? Tries a policy on recorded runs.

    for run, place, step in backtest(policy, [outcome.transcript], agent): ...

Rule 1: with `agent`, each step is planned twice, as in a run: with the agent's policies, and again
        with the new one added where custom policies go. So the new policy sees validated calls, and
        its changes are validated.
Rule 2: without an agent (runs of another program), the policy sees the recorded steps: a refused
        call is a refusal, and any other has the model's arguments as `step.received`.
Rule 3: no model or person is asked, and no tool runs. (But a function in `needs_approval` does.)

Limitations: only a turn's first difference is certain, because after it the run might have gone
another way.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import NamedTuple

from ..agent import Agent
from ..checking import Culprit, is_a
from ..loop import CallTool, Fit, Policy, Refuse, Step, is_action, next_step, plan
from ..messages import Message, ToolResult
from ..think import bare
from .planned import RecordedStep, differs, read_steps


class Difference(NamedTuple):
    """Where a policy would have changed a step: the numbers of the run and of the message after the
    step, both from 0. `step`: the changed step.
    """

    run: int
    place: int
    step: Step


def backtest(
    policy: Policy, runs: Iterable[Iterable[Message]], agent: Agent | None = None
) -> list[Difference]:
    """Where `policy` would have changed recorded runs. `agent` is the agent that made them, or one
    with the same tools. Raises TypeError if the policy doesn't return a step.
    """
    found: list[Difference] = []
    planned_twice = _without_agent(policy)
    if agent is not None:
        planned_twice = _with_agent(policy, agent)
    for number, messages in enumerate(runs):
        for step in read_steps(messages):
            if step.is_opening or step.turn.last is None or step.turn.ended:
                continue  # it wasn't planned
            before, after = planned_twice(step)
            if after != before and (not step.messages or differs(after, step)):
                found.append(Difference(number, step.place, after))
    return found


# A step without the policy and with it.
Planned = Callable[[RecordedStep], tuple[Step, Step]]


def _with_agent(policy: Policy, agent: Agent) -> Planned:
    own = agent.policies()
    with_policy = agent.policies(policy)

    def plan_twice(step: RecordedStep) -> tuple[Step, Step]:
        return plan(step.turn, own), plan(step.turn, with_policy)

    return plan_twice


def _without_agent(policy: Policy) -> Planned:
    culprit = Culprit("the policy", policy)

    def plan_twice(step: RecordedStep) -> tuple[Step, Step]:
        before = _as_recorded(next_step(step.turn), step)
        after = policy(before, step.turn)
        if not is_a(after, Step):
            raise culprit.returned(after, "return a step, such as the one it was given")
        return before, after

    return plan_twice


def _as_recorded(planned: Step, step: RecordedStep) -> Step:
    """A planned step, with the record's facts about its call (rule 2)."""
    if not is_action(planned):
        return planned
    if step.messages:
        result = step.messages[-1]
        if isinstance(result, ToolResult) and result.refused:
            reason = result.content.removeprefix("error: ")
            return Refuse(planned.call, result.refused, reason)
    return _with_arguments(planned)


def _with_arguments(planned: CallTool) -> CallTool:
    arguments = bare(planned.call).arguments
    if isinstance(arguments, str):  # not a JSON object
        return planned
    return replace(planned, fit=Fit.of(planned.call, arguments))

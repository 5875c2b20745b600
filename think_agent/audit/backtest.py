"""What would this rule have done? Tries a policy on the runs of yesterday.

    for run, place, step in backtest(policy, [outcome.transcript], agent): ...

Rule 1: with `agent`, each step is planned twice, as a run plans it: by all policies of the agent,
        and by these and the new one, in the place of a policy of your own. So it sees calls that
        are validated, and what it changes is validated, too.
Rule 2: without an agent (runs of another program), the record says what the policy sees: a call
        that was refused is a refusal, and any other has the arguments that the model wrote as
        `step.received`.
Rule 3: no model and no person is asked, and no tool runs. (A function in `needs_approval` is.)

Limitations: only the first difference of a turn is sure: after it, the run might have gone another
way.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import NamedTuple

from ..agent import Agent
from ..loop import CallTool, Fit, Policy, Refuse, Step, is_action, next_step, plan
from ..messages import Message, ToolResult
from ..think import bare
from .planned import RecordedStep, differs, read_steps


class Difference(NamedTuple):
    """Where a policy would have stepped in: in which run, and before which of its messages, both
    counted from 0. `step`: what it would have done.
    """

    run: int
    place: int
    step: Step


def backtest(
    policy: Policy, runs: Iterable[Iterable[Message]], agent: Agent | None = None
) -> list[Difference]:
    """Where `policy` would have stepped in, in recorded runs. `agent` is the one that made them, or
    one with the same tools. Raises TypeError if the policy gives no step.
    """
    found: list[Difference] = []
    planned_twice = _without_agent(policy)
    if agent is not None:
        planned_twice = _with_agent(policy, agent)
    for number, messages in enumerate(runs):
        for step in read_steps(messages):
            if step.is_opening or step.turn.last is None or step.turn.ended:
                continue  # nothing is planned there
            before, after = planned_twice(step)
            if after != before and (not step.messages or differs(after, step)):
                found.append(Difference(number, step.place, after))
    return found


# A step without the policy, and with it.
Planned = Callable[[RecordedStep], tuple[Step, Step]]


def _with_agent(policy: Policy, agent: Agent) -> Planned:
    own = agent.policies()
    with_policy = agent.policies(policy)

    def plan_twice(step: RecordedStep) -> tuple[Step, Step]:
        return plan(step.turn, own), plan(step.turn, with_policy)

    return plan_twice


def _without_agent(policy: Policy) -> Planned:
    def plan_twice(step: RecordedStep) -> tuple[Step, Step]:
        before = _as_recorded(next_step(step.turn), step)
        after = policy(before, step.turn)
        if not isinstance(after, Step):
            name = getattr(policy, "__name__", repr(policy))
            advice = "return a step, such as the one that it got"
            raise TypeError(f"the policy {name} gave {after!r}: {advice}")
        return before, after

    return plan_twice


def _as_recorded(planned: Step, step: RecordedStep) -> Step:
    """A planned step with what the record says of its call (rule 2)."""
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
    if isinstance(arguments, str):  # no JSON object
        return planned
    return replace(planned, fit=Fit.of(planned.call, arguments))

"""Does it help? The same model with and without a forced first thought, counted instead of felt.

Rule 1: what counts is what was done. A case is right when the shop's rows are exactly those that
        the case expects; the answers are not read.
Rule 2: a share has an interval, and a difference of a real model a p-value, for few cases prove
        little.
Rule 3: one thing differs between the settings that are compared, here `force`.

The edge: the stand-in is *made* to profit from a plan (it is careful after one, and hasty without),
so its figures say nothing about any model. With --provider they do; that is some 150 model calls.
`think-agent eval demos/refund/cases.jsonl` does it at scale: more settings, and trials.
"""

import asyncio
from pathlib import Path

from demos.common import play
from demos.refund.stand_ins import careful, hasty
from think_agent import Assistant, Force, Model, Request, Turn
from think_agent.evaluation.inputs import load_suite, read_cases
from think_agent.evaluation.scores import Score, Setting
from think_agent.evaluation.tables import report
from think_agent.evaluation.trials import Job, attempt
from think_agent.policies import Forcing

CASES = Path(__file__).parent / "refund" / "cases.jsonl"
FORCES: tuple[Forcing, ...] = ("never", "first")


def stand_in(request: Request) -> Assistant:
    """Careful when its first reply to the customer was a thought, hasty otherwise."""
    replies = Turn.of(request.messages).replies
    plans = request.tool_choice == Force("think")
    if replies:
        plans = replies[0].tool_calls[0].name == "think"
    return careful(request) if plans else hasty(request)


def lesson(model: Model) -> None:
    """Does it help?"""
    suite = load_suite("demos.refund.suite", CASES)
    cases = read_cases(CASES)[::5]  # a few of each kind
    results = {}
    for force in FORCES:
        setting = Setting(model.name, force=force)
        jobs = [Job(setting, case, 1) for case in cases]
        results[setting] = [asyncio.run(attempt(job, model, suite)) for job in jobs]
        figures = Score(results[setting])
        [(_, (low, high))] = figures.pass_k
        print(f'\nforce="{force}": right on {figures.right} of {len(cases)} cases')
        print(f"  95 % interval     {low:.0%} to {high:.0%}")
        print(f"  wrong writes      {figures.total('wrong_writes')} tried")
        print(f"  model calls       {figures.total('model_calls') / len(cases):.1f} a case")
    print(f"\n{report(results)[-1].remark}")
    print("\nwhat to notice: how wide the intervals are, and what a thought costs in calls.")


if __name__ == "__main__":
    play(lesson, stand_in)

"""Does it help? The same model with and without a forced first thought, counted.

Since lesson 09: many runs instead of one, and a count instead of an impression.

Rule 1: What counts is what was done. A case is right if the shop's rows are exactly those that the
        case expects. The answers aren't read.
Rule 2: Each share and each difference has an interval, because few cases prove little.
Rule 3: The settings differ in one thing, here `force`. The comparison is chosen before the run.
Rule 4: Scripts that don't think are run, too. What they get right proves nothing.

Limitations: the scripted model is *made* to profit from a plan, so its results say nothing about a
real model. With --provider they do, at about 150 model calls. `think-agent eval` does more.
"""

import asyncio

from demos.common import play
from demos.refund.floors import FLOORS
from demos.refund.shop import INSTRUCTIONS
from demos.refund.stand_ins import careful, hasty
from think_agent import Assistant, Force, Model, Request, ScriptedModel, Turn
from think_agent.evaluation.inputs import load_suite, read_cases
from think_agent.evaluation.report import power, report_results
from think_agent.evaluation.scores import Score, Setting
from think_agent.evaluation.trials import Job, attempt
from think_agent.policies import Forcing

CASES = INSTRUCTIONS.parent / "cases.jsonl"
FORCES: tuple[Forcing, ...] = ("never", "first")
SUITE = load_suite("demos.refund.suite", CASES)
HARD = [case for case in read_cases(CASES, SUITE) if not case.easy]
SOME = HARD[::3]  # a few of each kind


def stand_in(request: Request) -> Assistant:
    """Careful if its first reply to the customer is a thought, else hasty."""
    replies = Turn.of(request.messages).replies
    has_plan = request.tool_choice == Force("think")
    if replies:
        has_plan = replies[0].tool_calls[0].name == "think"
    if has_plan:
        return careful(request)
    return hasty(request)


def score(setting: Setting, model: Model) -> Score:
    """All cases under one setting."""
    trials = []
    for case in SOME:
        job = Job(setting, case, 1)
        trials.append(asyncio.run(attempt(job, model, SUITE)))
    return Score(trials)


def lesson(model: Model) -> None:
    """Does it help?"""
    print(f"\n{power(len(SOME), 1, 1)}")
    results = {}
    for force in FORCES:
        setting = Setting(f"{model.name}:{model.model}", force=force)
        found = score(setting, model)
        results[setting] = found.ran
        print(f'\nforce="{force}": right on {found.right} of {len(SOME)} cases')
        print(f"  95 % interval: {found.pass_k[0].low:.0%} to {found.pass_k[0].high:.0%}")
        print(f"  model calls: {found.total('model_calls') / len(SOME):.1f} a case")

    for name, script in FLOORS.items():
        setting = Setting(f"offline:{name}", think="none", cover="none")
        print(f"\n{name}, without a thought: {score(setting, ScriptedModel(script)).right}")

    print(f"\n{report_results(results)[-1].remark}")
    print("\nremember: how wide the intervals are, and what a thought costs in calls.")


if __name__ == "__main__":
    play(lesson, stand_in)

"""Does it help? The same model with and without a forced first thought, counted instead of felt.

Since lesson 09: many runs instead of one, and a count instead of a look.

Rule 1: what counts is what was done. A case is right when the shop's rows are exactly those that
        the case expects; the answers are not read.
Rule 2: each share and each difference has an interval, because few cases prove little.
Rule 3: the settings differ in one thing, here `force`. The comparison is named before the run.
Rule 4: scripts that do not think are run, too. What they get right proves nothing.

Limitations: the scripted model is *made* to profit from a plan (with one it is careful, without one
it is hasty), so its results say nothing about any model. With --provider they do; that takes about
150 model calls. `think-agent eval demos/refund/cases.jsonl` does more: settings, trials, all cases.
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
SOME = [case for case in read_cases(CASES, SUITE) if not case.easy][::3]  # a few of each hard kind


def stand_in(request: Request) -> Assistant:
    """Careful when its first reply to the customer was a thought, hasty otherwise."""
    replies = Turn.of(request.messages).replies
    plans = request.tool_choice == Force("think")
    if replies:
        plans = replies[0].tool_calls[0].name == "think"
    return careful(request) if plans else hasty(request)


def score(setting: Setting, model: Model) -> Score:
    """All cases under one setting."""
    return Score([asyncio.run(attempt(Job(setting, case, 1), model, SUITE)) for case in SOME])


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

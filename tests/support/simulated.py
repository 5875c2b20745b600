"""Models whose effects are known, so that the evaluation has to find them. They are brains for the
servers of `tests/servers`.

Rule 1: what such a model does in a case is drawn once, when its first request comes. Its rate
        depends on what that request has: the think tool, the advice on thinking.
Rule 2: a case comes with its right decisions, so there are only cases in which a model can be
        right and can be wrong.

This module is a suite, too: the refund desk without its floors, which would take too long.
"""

import json
import random
import threading
from collections.abc import Callable
from pathlib import Path

from demos.refund.floors import follow_the_refusal
from demos.refund.suite import ADVICE as ADVICE
from demos.refund.suite import STAND_INS as STAND_INS
from demos.refund.suite import prepare as prepare
from tests.readme import ROOT
from think_agent import Assistant, Request, ToolCall, ToolResult, User

CASES = ROOT / "demos/refund/cases.jsonl"
LINES = [json.loads(line) for line in CASES.read_text(encoding="utf-8").splitlines()]
HARMLESS = {"check_refund_policy"}  # a case can be decided without it
DECIDABLE = [
    line for line in LINES if line["expected"] and line.get("tools", {}).keys() <= HARMLESS
]
Rate = Callable[[float, bool, bool], float]  # of a case's place (0 to 1), a tool, advice


def coin(place: float, tool: bool, advice: bool) -> float:
    """In every setting, only chance."""
    return 0.5


def by(thing: str, share: float) -> Rate:
    """Half of the cases are easy. The tool or the advice (`thing`) solves a `share` of all cases
    more. The others are too hard. In one case of fifty the model errs, or is lucky.
    """

    def rate(place: float, tool: bool, advice: bool) -> float:
        has_it = tool if thing == "tool" else advice
        solved = 0.5 + share if has_it else 0.5
        return 0.98 if place < solved else 0.02

    return rate


class Simulated:
    """A model that decides in its first reply. `rate` says how often it is right."""

    def __init__(self, rate: Rate, seed: int) -> None:
        self._rate = rate
        self._random = random.Random(seed)
        self._lock = threading.Lock()
        self._cases = {line["text"]: line for line in DECIDABLE}
        places = [index / len(DECIDABLE) for index in range(len(DECIDABLE))]
        random.Random(0).shuffle(places)
        self._places = dict(zip(self._cases, places, strict=True))

    def __call__(self, request: Request) -> Assistant:
        text = next(message.text for message in request.messages if isinstance(message, User))
        is_over = any(isinstance(message, ToolResult) for message in request.messages)
        if is_over or text not in self._cases:  # `try_models` says something else
            return Assistant("That is done.")
        tool = any(tool.name == "think" for tool in request.tools)
        advice = "# How to think" in request.system
        with self._lock:
            is_right = self._random.random() < self._rate(self._places[text], tool, advice)
        decisions = dict(self._cases[text]["expected"])
        if not is_right:
            order = next(iter(decisions))
            decisions[order] = "approve" if decisions[order] == "deny" else "deny"
        calls = []
        for order, decision in decisions.items():
            arguments = {"order_id": order, "decision": decision, "reason": "as drawn"}
            calls.append(ToolCall(f"call-{order}", "process_refund", arguments))
        return Assistant(tool_calls=tuple(calls), stop_reason="tool_use")


def brain(effect: str, seed: int, share: float = 0.135) -> Callable[[Request], Assistant]:
    """A model that the `"tool"`, the `"advice"` or `"nothing"` helps. The model `"refusals"` does
    what the shop's refusals say.
    """
    if effect == "refusals":
        return follow_the_refusal
    rate = coin if effect == "nothing" else by(effect, share)
    return Simulated(rate, seed)


def write_cases(path: Path, count: int = len(DECIDABLE)) -> Path:
    """Write a file with so many of the decidable cases, of all kinds."""
    step = len(DECIDABLE) / count
    chosen = [DECIDABLE[int(index * step)] for index in range(count)]
    path.write_text(
        "\n".join(json.dumps({**line, "easy": False}) for line in chosen), encoding="utf-8"
    )
    return path

"""An answer with sources: each decision cites the look-up and the check that support it.

`--sources` asks for it (`Agent(..., answer=Decisions)`). A source is the number of a result. A
wrong number goes back to the model. What a decision says about its source isn't checked.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Literal

from pydantic import BaseModel

from think_agent import Message, Outcome, Source, Turn
from think_agent.cli import RunView
from think_agent.running import Event
from think_agent.tools import signature


class SourcedDecision(BaseModel):
    """What was decided about an order, and why. `look_up` and `check`: the results that say so;
    None where there is no such result, as for an order that does not exist.
    """

    order_id: str
    decision: Literal["approve", "deny", "escalate", "none"]
    why: str
    look_up: Source | None
    check: Source | None


class SourcedAnswer(BaseModel):
    """The answer: a text for the customer, and each decision with its sources."""

    says: str
    decisions: list[SourcedDecision]


def write_lines(answer: SourcedAnswer, transcript: Iterable[Message]) -> Iterator[str]:
    """The answer for a terminal: the text, and the calls that support each decision."""
    calls = {}
    for turn in Turn.all(transcript):
        for action in turn.actions:
            calls[str(action.result.number)] = signature(action.call)
    yield answer.says
    for decided in answer.decisions:
        yield f"{decided.order_id}: {decided.decision} ({decided.why})"
        for number in (decided.look_up, decided.check):
            if number:
                yield f"  [{number}] {calls[number]}"


class SourcesView(RunView):
    """Shows such an answer as lines, in place of its JSON."""

    def __call__(self, event: Event) -> None:
        if isinstance(event, Outcome) and isinstance(event.data, SourcedAnswer):
            self._held = ""  # the JSON
            event = replace(event, answer="\n".join(write_lines(event.data, event.transcript)))
        super().__call__(event)

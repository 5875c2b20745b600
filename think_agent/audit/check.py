"""Is this record possible? And would this agent do the same today?

    found = check(read("run.jsonl"), agent)
    found.impossible            # no run can have written this record
    found.otherwise             # today the agent would plan another step

Rule 1: the two kinds are separate. `impossible` comes from rules that read only the record
        (`rules.py`). `otherwise` comes from planning each step again with an agent. Its settings,
        policies and limits may have changed since, and its functions may look at the world.
Rule 2: no model or person is asked, and no tool runs. (But a function in `needs_approval` does.)

Limitations: a consistent forgery isn't detected, such as a changed thought, result, reason or
answer, extra turns at the end, or a whole new conversation. So keep the file's digest
(`Record.digest`) where a person who can change the file can't change it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from ..agent import Agent
from ..loop import Policy, Step, plan
from ..messages import Ended, Json, Message, Started
from ..text import canonical
from ..turn import Turn
from . import words
from .explain import in_words
from .planned import RecordedStep, differs, is_request, read_steps
from .reading import Record, Unreadable
from .rules import Before, complaints


@dataclass(frozen=True)
class Finding:
    """A finding about an entry of a record. `place` is the entry's number, from 0; `where` is its
    line in the file, as text.
    """

    place: int
    where: str
    text: str


@dataclass
class Findings:
    """Both kinds of findings. `steps`: the number of steps planned again; None without an agent."""

    impossible: list[Finding] = field(default_factory=list)
    otherwise: list[Finding] = field(default_factory=list)
    steps: int | None = None


def check(record: Record, agent: Agent | None = None) -> Findings:
    """Check a record against the rules, and against an agent's plans of today if there is one."""
    found = Findings()
    for place, text in _impossible(record):
        found.impossible.append(Finding(place, _where(record, place), text))
    if agent is not None:
        for place, text in _otherwise(record, agent, found):
            found.otherwise.append(Finding(place, _where(record, place), text))
    return found


def _where(record: Record, place: int) -> str:
    if place < len(record.lines):
        return f"line {record.lines[place]}"
    return f"message {place + 1}"


# The record alone.


def _impossible(record: Record) -> Iterator[tuple[int, str]]:
    turn = Turn()
    last: Message | None = None
    is_blind = False  # an earlier line can't be read; ends with the next request
    for place, entry in enumerate(record.entries):
        if isinstance(entry, Unreadable):
            is_torn = place == len(record.entries) - 1  # a killed run leaves such a line
            if not is_torn:
                yield place, "it cannot be read; what follows in its turn is not judged"
            is_blind = True
            continue
        if is_blind and is_request(entry):
            is_blind = False
        elif not is_blind:
            for text in complaints(Before(turn, last, _tools_at(record, place)), entry):
                yield place, text
        turn.add(entry)
        last = entry


def _tools_at(record: Record, place: int) -> dict[str, Json] | None:
    """The tools in the header that applies here, by name."""
    header = record.header
    for begins, found in record.headers:
        if begins <= place:
            header = found
    if "tools" not in header:
        return None
    return {tool["name"]: tool for tool in header["tools"]}


# Compared with today's plans.


def _otherwise(record: Record, agent: Agent, found: Findings) -> Iterator[tuple[int, str]]:
    places = [n for n, entry in enumerate(record.entries) if not isinstance(entry, Unreadable)]
    for text in _changes(record.header, agent.made_of()):
        yield 0, text
    policies = agent.policies()
    found.steps = 0
    for step in read_steps(record.messages):
        if step.turn.last is None or step.is_opening or not step.messages:
            continue
        found.steps += 1
        planned = plan(step.turn, policies)
        if differs(planned, step) and differs(_plan_anew(step.turn, policies), step):
            yield places[step.place], f"{_say_recorded(step)}; today: {in_words(planned)}"


def _changes(then: Json, today: Json) -> Iterator[str]:
    """Changes in what the model reads. (The model itself plans nothing.)"""
    if then.get("instructions", today["instructions"]) != today["instructions"]:
        yield "the instructions are others today"
    if "tools" not in then:
        return
    tools_then = {tool["name"]: tool for tool in then["tools"]}
    tools_today = {tool["name"]: tool for tool in today["tools"]}
    for name in tools_then | tools_today:
        if canonical(tools_then.get(name)) != canonical(tools_today.get(name)):
            yield f"the tool {name} is another today"


def _plan_anew(turn: Turn, policies: Sequence[Policy]) -> Step:
    """The step as planned right after a resume. The record doesn't say when a run was resumed, and
    `max_seconds` restarts then.
    """
    seconds = turn.seconds
    turn.seconds = 0.0
    try:
        return plan(turn, policies)
    finally:
        turn.seconds = seconds


def _say_recorded(step: RecordedStep) -> str:
    """What a step recorded, as text."""
    said = [line for message in step.messages for line in words.say_lines(message)]
    match step.messages[-1]:
        case Started(name=name) if not said:
            return f"{name} was started"
        case Ended(exit):
            return f"ended: {words.say_end(exit)}"
    return ", ".join(said) or "a thought was recorded"

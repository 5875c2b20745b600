"""Payments that wait for a person, at random: the state machine of `test_asking_at_random.py`.

The person answers late, twice, with an old card, or while another process holds the run. Meanwhile
the code, its policies and its settings change, and processes die. The books say what was paid; each
payment has to be one that was shown to a person who said yes, or one that needed no person.
"""

import tempfile
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import pydantic
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from think_agent import (
    Agent,
    AskHuman,
    Assistant,
    CallTool,
    Outcome,
    Paused,
    Refuse,
    Request,
    ScriptedModel,
    Step,
    Tool,
    ToolCall,
    Turn,
    Verdict,
    tool,
)
from think_agent.audit import read
from think_agent.audit.check import check
from think_agent.errors import TranscriptError
from think_agent.messages import Ended, Json, Message
from think_agent.transcript import TranscriptFile

EDITED = 7  # cents that a person puts in


class Killed(BaseException):
    """The process dies. What it had written until then is in the file."""


# What today's code may be.


def need_nothing(arguments: Json) -> bool:
    return False


def need_from_50_cents(arguments: Json) -> bool:
    return arguments["cents"] >= 50


def fail(arguments: Json) -> bool:
    raise ConnectionError("the risk service is down")


def leave(step: Step, turn: Turn) -> Step:
    return step


def double(step: Step, turn: Turn) -> Step:
    if isinstance(step, CallTool) and step.received:
        arguments = {**step.received, "cents": 2 * step.received["cents"]}
        return replace(step, call=replace(step.call, arguments=arguments))
    return step


def cap(step: Step, turn: Turn) -> Step:
    if isinstance(step, CallTool) and step.received and step.received["cents"] > 40:
        return replace(step, call=replace(step.call, arguments={**step.received, "cents": 40}))
    return step


def refuse_80(step: Step, turn: Turn) -> Step:
    if isinstance(step, CallTool) and step.received and step.received["cents"] == 80:
        return Refuse(step.call, "closed", "not run: the desk is closed.")
    return step


@dataclass(frozen=True)
class Version:
    """What the code is on a day."""

    needs_approval: bool | Callable[[Json], bool] = True
    policy: Callable[[Step, Turn], Step] = leave
    most_cents: int = 1_000
    currency: str = "EUR"
    name: str = "pay"
    max_actions: int = 50

    def needs_a_person(self, received: Json) -> bool:
        if callable(self.needs_approval):
            try:
                return self.needs_approval(received)
            except ConnectionError:
                return True
        return self.needs_approval


VERSIONS = st.builds(
    Version,
    needs_approval=st.sampled_from([True, True, False, need_nothing, need_from_50_cents, fail]),
    policy=st.sampled_from([leave, leave, double, cap, refuse_80]),
    most_cents=st.sampled_from([1_000, 1_000, 50]),
    currency=st.sampled_from(["EUR", "EUR", "USD"]),
    name=st.sampled_from(["pay", "pay", "pay", "transfer"]),
    max_actions=st.sampled_from([50, 50, 1]),
)
PAYMENTS = st.builds(
    dict, order=st.sampled_from([1, 2]), cents=st.sampled_from([10, 40, "80", 200])
)
REPLIES = st.lists(st.lists(PAYMENTS, min_size=1, max_size=2), min_size=1, max_size=3)


SEEN: Counter[str] = Counter()
"""How often what happened, over all examples. The soak prints it."""


class Answers(RuleBasedStateMachine):
    """A conversation in a file. Each operation is a process of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name) / "run.jsonl"
        self.version = Version()
        self.paid: list[Json] = []  # the books: what the function got
        self.doubtful: list[Json] = []  # the calls in which a process died
        self.dying: Json | None = None  # the one in which the last process died
        self.cards: list[AskHuman] = []  # every card that a person saw
        self.script: list[list[Json]] = []  # the replies to come
        self.requests = 0
        self.dies = ""  # where the next payment kills the process: before or after it is booked
        self.at_once: Verdict | None = None  # a second click, while the first is being worked on

    def teardown(self) -> None:
        if self.path.exists():
            assert check(read(self.path)).impossible == []
        self.folder.cleanup()

    # What a process is made of.

    def agent(self) -> Agent:
        def pay(order: int, cents: int, currency: str = self.version.currency) -> str:
            """Pay."""
            return self.pay({"order": order, "cents": cents, "currency": currency})

        most = pydantic.Field(le=self.version.most_cents)
        pay.__annotations__["cents"] = Annotated[int, most]
        made: Tool = tool(pay, name=self.version.name, needs_approval=self.version.needs_approval)
        return Agent(
            ScriptedModel(self.reply),
            [made],
            force="never",
            silence="accept",
            policies=[self.version.policy],
            max_actions=self.version.max_actions,
        )

    def reply(self, request: Request) -> Assistant:
        """The next reply of the script. The server numbers its calls from 0 in each of them."""
        if self.at_once:
            with_doubled_click, self.at_once = self.at_once, None
            self.is_refused(lambda: self.agent().resume(self.path, verdict=with_doubled_click))
        if request.tool_choice == "none" or not self.script:
            return Assistant("Done.")
        payments = self.script.pop(0)
        calls = [ToolCall(f"call_{place}", "pay", given) for place, given in enumerate(payments)]
        return Assistant(tool_calls=tuple(calls), stop_reason="tool_use")

    def pay(self, received: Json) -> str:
        dies, self.dies = self.dies, ""
        if dies == "before":
            self.die(received)
        self.paid.append(received)
        if dies == "after":
            self.die(received)
        return "paid"

    def die(self, received: Json) -> None:
        self.dying = received
        self.left = self.path.read_bytes()
        raise Killed

    # What a person, a supervisor and a developer do.

    def work(self, run: Callable[[], Outcome]) -> list[Json]:
        """Let a process work; what it paid."""
        if self.dying is not None and self.dying not in self.doubtful:
            self.doubtful.append(self.dying)
        self.dying = None
        before = len(self.paid)
        try:
            outcome = run()
        except Killed:
            self.path.write_bytes(self.left)  # nothing is written after a kill
            SEEN["killed in a payment"] += 1
        else:
            if outcome.question:
                self.cards.append(outcome.question)
        return self.paid[before:]

    def is_refused(self, run: Callable[[], Outcome]) -> None:
        """It is refused: nothing is written, and nothing is paid."""
        file, paid = self.path.read_bytes(), len(self.paid)
        with suppress(TranscriptError):
            run()
            raise AssertionError("it was taken")
        assert self.path.read_bytes() == file
        assert len(self.paid) == paid

    def messages(self) -> list[Message]:
        """The messages in the file."""
        if not self.path.exists():
            return []
        file = TranscriptFile(self.path, {}, now="")
        file.close()
        return file.messages

    def is_open(self) -> bool:
        messages = self.messages()
        return bool(messages) and not isinstance(messages[-1], Ended)

    def paused(self) -> Paused | None:
        messages = self.messages()
        last = messages[-1] if messages else None
        return last if isinstance(last, Paused) else None

    def assert_unasked(self, paid: list[Json]) -> None:
        """Nobody said yes to these. So nobody had to be asked about them."""
        for received in paid:
            SEEN["paid without a question"] += 1
            assert not self.version.needs_a_person(received), received
            assert received not in self.doubtful, received

    @rule(replies=REPLIES)
    def say(self, replies: list[list[Json]]) -> None:
        """A person's next message, whatever waits or was left open."""
        self.script = list(replies)
        self.requests += 1
        text = f"Request {self.requests}"
        self.assert_unasked(self.work(lambda: self.agent().run(text, transcript=self.path)))

    @rule(version=VERSIONS)
    def deploy(self, version: Version) -> None:
        self.version = version

    @rule(moment=st.sampled_from(["before", "after"]))
    def kill_the_next_payment(self, moment: str) -> None:
        self.dies = moment

    @precondition(is_open)
    @rule()
    def resume_without_an_answer(self) -> None:
        """While a question waits, nothing happens."""
        waits, file = self.paused(), self.path.read_bytes()
        paid = self.work(lambda: self.agent().resume(self.path))
        self.assert_unasked(paid)
        if waits:
            assert paid == []
            assert self.path.read_bytes() == file
            assert self.cards[-1].pause == waits.id

    @precondition(lambda self: self.cards)
    @rule(
        data=st.data(),
        decision=st.sampled_from(["yes", "yes", "yes", "no", "stop", "edit", "new"]),
        clicks=st.sampled_from([1, 1, 2]),
    )
    def answer(self, data: st.DataObject, decision: str, clicks: int) -> None:
        """Answer any card that was ever shown: the last one, most of the time."""
        place = data.draw(st.sampled_from([-1, -1, -1, *range(len(self.cards))]))
        card = self.cards[place]
        verdict = self.verdict(card, decision)
        waits = self.paused()
        if waits is None or card.pause != waits.id:
            SEEN["answers to another question"] += 1
            self.is_refused(lambda: self.agent().resume(self.path, verdict=verdict))
            return
        today = self.agent().resume(self.path).question
        assert today is not None
        is_another_call = today.id != card.id and not today.is_refused
        if verdict.decision == "yes" and is_another_call:
            SEEN["asked again, since the code changed"] += 1
            file = self.path.read_bytes()
            assert self.work(lambda: self.agent().resume(self.path, verdict=verdict)) == []
            assert self.path.read_bytes() == file
            assert self.cards[-1].id == today.id  # it is asked again, as it is now
            return
        if clicks == 2:
            self.at_once = verdict
        paid = self.work(lambda: self.agent().resume(self.path, verdict=verdict))
        self.at_once = None
        SEEN[f"answers taken ({verdict.decision})"] += 1
        if verdict.decision == "yes" and not today.is_refused:
            self.assert_paid_as_shown(card, decision, paid)
        else:
            self.assert_unasked(paid)
        if self.paused() is None or self.paused().id != waits.id:
            self.is_refused(lambda: self.agent().resume(self.path, verdict=verdict))  # sent twice

    def verdict(self, card: AskHuman, decision: str) -> Verdict:
        if decision == "edit" and card.call and not card.as_new:
            return card.yes(arguments={**card.call.arguments, "cents": EDITED})
        if decision == "new" and card.as_new:
            return card.new()
        if decision == "no":
            return card.no("not today")
        if decision == "stop":
            return card.stop("no more")
        return card.yes()

    def assert_paid_as_shown(self, card: AskHuman, decision: str, paid: list[Json]) -> None:
        """The first payment after a yes is the one on the card, or none."""
        shown = card.received
        if decision == "edit" and shown and not card.as_new:
            shown = {**shown, "cents": EDITED}
        if decision == "new" and card.as_new:
            shown = None  # the card shows the earlier try in `received`
        if paid and (shown is None or paid[0] == shown):
            SEEN[f"paid after a yes ({decision})"] += 1
            is_settled = card.as_new and self.dying is None
            if is_settled and paid[0] in self.doubtful:
                self.doubtful.remove(paid[0])
            paid = paid[1:]
        self.assert_unasked(paid)

"""A question has an id, and an answer names it (`question.py`, `policies/asking.py`).

A run pauses if no person can be asked. The answer comes later: from another process, after a change
of the code, twice, or to a question that was answered before.

A person who is asked at once, and edits that don't fit: `test_approval.py`.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

import pydantic
import pytest

from tests.support.agents import results
from think_agent import (
    Agent,
    AskHuman,
    Assistant,
    CallModel,
    CallTool,
    Done,
    Ended,
    NothingDone,
    Outcome,
    Paused,
    Refuse,
    Request,
    ScriptedModel,
    Started,
    ToolCall,
    ToolResult,
    User,
    Verdict,
    tool,
)
from think_agent.errors import TranscriptError
from think_agent.loop import plan
from think_agent.policies.asking import as_decided
from think_agent.testing import call
from think_agent.tools import Tool
from think_agent.transcript import TranscriptFile

REQUEST = "Pay it."


def over_50(arguments: dict[str, Any]) -> bool:
    return arguments["cents"] > 50


def service_is_down(arguments: dict[str, Any]) -> bool:
    raise ConnectionError("the risk service is down")


@dataclass
class Desk:
    """A payment that waits for a person. Each `resume` is a new process: its agent is made again.

    What is given to `resume` is what the code has become by then.
    """

    saved: Any
    paid: list[Any] = field(default_factory=list)
    read: list[str] = field(default_factory=list)  # the last message of each request
    transcript: Any = ()

    def tool(self, needs_approval: Any = True, parameter: Any = int, **options: Any) -> Tool:
        def pay(cents: parameter, currency: str = options.pop("currency", "EUR")) -> str:
            """Pay."""
            self.paid.append((cents, currency))
            return "paid"

        return tool(pay, needs_approval=needs_approval, **options)

    def agent(
        self, *replies: Any, tools: Any = None, needs_approval: Any = True, **settings: Any
    ) -> Agent:
        left = list(replies)

        def script(request: Request) -> Assistant:
            self.read.append(str(getattr(request.messages[-1], "content", request.messages[-1])))
            return ScriptedModel([left.pop(0)]).complete(request)

        if tools is None:
            tools = [self.tool(needs_approval)]
        settings = {"force": "never", "silence": "accept", **settings}
        return Agent(ScriptedModel(script), tools, **settings)

    def run(self, *replies: Any, **settings: Any) -> Outcome:
        agent = self.agent(*replies or [call("pay", cents="80")], **settings)
        outcome = agent.run(REQUEST, transcript=self.saved or self.transcript)
        self.transcript = outcome.transcript
        return outcome

    def resume(self, verdict: Any = None, *replies: Any, **settings: Any) -> Outcome:
        agent = self.agent(*replies or ["So it is."], **settings)
        outcome = agent.resume(self.saved or self.transcript, verdict=verdict)
        self.transcript = outcome.transcript
        return outcome

    def say(self, text: str, *replies: Any) -> Outcome:
        agent = self.agent(*replies or ["As you wish."])
        outcome = agent.run(text, transcript=self.saved or self.transcript)
        self.transcript = outcome.transcript
        return outcome


@pytest.fixture
def desk(saved):
    return Desk(saved)


def decided(outcome: Outcome) -> list[Verdict]:
    return [message for message in outcome.transcript if isinstance(message, Verdict)]


# The five lines of a page or a queue.


def test_a_yes_runs_what_was_shown(desk):
    question = desk.run().question
    assert question.received == {"cents": 80, "currency": "EUR"}
    outcome = desk.resume(question.yes(by="Ada"))
    assert desk.paid == [(80, "EUR")]
    assert outcome.exit == "silence"
    assert outcome.question is None
    assert isinstance(outcome.transcript[-1], Ended)
    assert [verdict.by for verdict in decided(outcome)] == ["Ada"]


def test_an_async_resume_is_the_same(desk):
    question = desk.run().question
    agent = desk.agent("So it is.")
    asyncio.run(agent.aresume(desk.saved or desk.transcript, verdict=question.yes()))
    assert desk.paid == [(80, "EUR")]


def test_a_page_posts_the_id_and_the_words(desk):
    """It keeps no object: the id is a text, and goes through a form."""
    posted = {"question": desk.run().question.id, "decision": "no", "reason": "too much"}
    desk.resume(Verdict(**posted, by="Ada"))
    assert desk.paid == []
    assert "Ada said no (too much)" in desk.read[-1]


def test_without_an_answer_nothing_is_written_and_no_model_is_asked(desk):
    first = desk.run()
    before = desk.saved and desk.saved.read_bytes()
    again = Agent(ScriptedModel([]), [desk.tool()]).resume(desk.saved or first.transcript)
    assert again.question.id == first.question.id
    assert again.question == first.question
    assert again.transcript == first.transcript
    assert before == (desk.saved and desk.saved.read_bytes())


def test_the_second_part_of_the_id_is_never_written(tmp_path):
    desk = Desk(tmp_path / "run.jsonl")
    question = desk.run().question
    pause, _, shown = question.id.partition(".")
    desk.resume(question.yes())
    text = desk.saved.read_text()
    assert text.count(pause) == 2  # in the pause and in the verdict
    assert shown not in text


# An answer that names no question, or another one.


@pytest.mark.parametrize("answer", [True, False, "yes", 1, Verdict("yes"), Verdict("no", "call_0")])
def test_an_answer_names_its_question(desk, answer):
    desk.run()
    with pytest.raises(TypeError, match=r"outcome\.question\.yes\(\)"):
        desk.resume(answer)
    assert desk.paid == []


@pytest.mark.parametrize("decision", ["yes", "no", "stop"])
def test_an_answer_is_taken_once(desk, decision):
    """A double click, a second tab, a POST that is sent again."""
    question = desk.run().question
    answer = getattr(question, decision)()
    desk.resume(answer)
    paid = list(desk.paid)
    messages = list(desk.transcript)
    with pytest.raises(TranscriptError, match="no question waits here"):
        desk.resume(answer)
    assert desk.paid == paid
    assert list(desk.transcript) == messages


def test_a_yes_sent_twice_pays_one_order_although_the_server_numbers_its_calls_again(desk):
    first, second = (ToolCall("call_0", "pay", {"cents": cents}) for cents in (80, 7))
    yes = desk.run(first).question.yes()
    assert desk.resume(yes, second).exit == "needs_human"
    with pytest.raises(TranscriptError, match="another question waits"):
        desk.resume(yes)
    assert desk.paid == [(80, "EUR")]


def test_two_cards_for_equal_calls_are_two_questions(desk):
    both = call("pay", cents=80), call("pay", cents=80)
    first = desk.run(both[0]).question
    second = desk.resume(first.yes(), both[1]).question
    assert first.shown == second.shown
    assert first.id != second.id


def test_a_yes_from_before_a_crash_does_not_repeat_the_call(desk):
    class Killed(BaseException):
        """The process dies in the call."""

    @tool(needs_approval=True)
    def pay(cents: int) -> str:
        """Pay."""
        desk.paid.append(cents)
        if len(desk.paid) == 1:
            raise Killed
        return "paid"

    yes = desk.run(tools=[pay]).question.yes()
    with pytest.raises(Killed) as killed:
        desk.resume(yes, tools=[pay])
    desk.transcript = killed.value.transcript
    question = desk.resume(tools=[pay]).question
    assert "may have happened" in question.question
    with pytest.raises(TranscriptError, match="another question waits"):
        desk.resume(yes, tools=[pay])
    assert desk.paid == [80]
    desk.resume(question.yes(), tools=[pay])
    assert desk.paid == [80, 80]


def test_what_does_not_wait_cannot_be_answered(desk):
    desk.run(call("pay", cents=8), "Paid.", needs_approval=False)
    with pytest.raises(TranscriptError, match="no question waits"):
        desk.resume(AskHuman("?").yes())
    with pytest.raises(TranscriptError, match="nothing to resume"):
        desk.agent().resume([], verdict=AskHuman("?").yes())


# The code changed while the question waited.


def refuse(step, turn):
    if isinstance(step, CallTool):
        return Refuse(step.call, "closed", "the desk is closed.")
    return step


def end(step, turn):
    if isinstance(step, CallTool):
        return Done("gave_up", "The desk is closed.")
    return step


def times_100(step, turn):
    if isinstance(step, CallTool) and step.received:
        return replace(step, call=replace(step.call, arguments={"cents": 8_000}))
    return step


def leave(step, turn):
    return step


@dataclass
class Change:
    """What the code has become, and what follows a yes and a no to `pay(cents=80)`."""

    name: str
    later: dict[str, Any]
    before: dict[str, Any] = field(default_factory=dict)
    paid: tuple[Any, ...] = ((80, "EUR"),)  # after a yes
    refused: str = ""  # the code of the result after a yes
    is_asked_again: bool = False


def later_tool(**options: Any) -> Callable[[Desk], dict[str, Any]]:
    return lambda desk: {"tools": [desk.tool(**options)]}


CHANGES = [
    Change("nothing", {}),
    Change("the service is back", {}, {"needs_approval": service_is_down}),
    Change("the predicate raises now", {"needs_approval": service_is_down}),
    Change("the limit of the predicate was raised", {"needs_approval": lambda given: False}),
    Change("the tool needs no approval any more", {"needs_approval": False}),
    Change("a custom policy does nothing", {"policies": [leave]}),
    Change("a custom policy refuses it", {"policies": [refuse]}, paid=(), refused="closed"),
    Change("a custom policy ends the run", {"policies": [end]}, paid=()),
    Change("the limit is reached", {"max_actions": 1}, paid=((80, "EUR"),)),
    Change(
        "the schema is narrower",
        {"tools": later_tool(parameter=Annotated[int, pydantic.Field(le=50)])},
        paid=(),
        refused="invalid",
    ),
    Change("the tool is gone", {"tools": lambda desk: {"tools": []}}, paid=(), refused="invalid"),
    Change("a custom policy changes it", {"policies": [times_100]}, paid=(), is_asked_again=True),
    Change(
        "a custom policy changed it, and does no more",
        {},
        {"policies": [times_100]},
        paid=(),
        is_asked_again=True,
    ),
    Change(
        "a default is another one",
        {"tools": later_tool(currency="USD")},
        paid=(),
        is_asked_again=True,
    ),
    Change(
        "a value is read in another way",
        {"tools": later_tool(parameter=Annotated[int, pydantic.AfterValidator(lambda n: n * 100)])},
        paid=(),
        is_asked_again=True,
    ),
]


def settings_of(settings: dict[str, Any], desk: Desk) -> dict[str, Any]:
    tools = settings.get("tools")
    if callable(tools):
        return {**settings, **tools(desk)}
    return settings


changed = pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.name)


@changed
def test_after_a_no_nothing_runs_whatever_the_code_has_become(desk, change):
    question = desk.run(**settings_of(change.before, desk)).question
    later = settings_of(change.later, desk)
    outcome = desk.resume(question.no("fraud", by="Ada"), **later)
    assert desk.paid == []
    assert [verdict.decision for verdict in decided(outcome)] == ["no"]
    if outcome.exit != "gave_up":  # a custom policy may end the turn before the result
        assert "Ada said no (fraud)" in desk.read[-1]


@changed
def test_a_yes_is_to_what_was_shown(desk, change):
    question = desk.run(**settings_of(change.before, desk)).question
    outcome = desk.resume(question.yes(), **settings_of(change.later, desk))
    assert tuple(desk.paid) == change.paid
    if change.is_asked_again:
        assert outcome.exit == "needs_human"
        assert decided(outcome) == []
    elif change.refused:
        assert [result.refused for result in results(outcome)] == [change.refused]


@changed
def test_no_yes_loops(desk, change):
    """A yes to the second card is taken, too."""
    question = desk.run(**settings_of(change.before, desk)).question
    later = settings_of(change.later, desk)
    second = desk.resume(question.yes(), **later).question
    if second is None:
        return
    assert second.id != question.id
    desk.resume(second.yes(), **later)
    [(cents, currency)] = desk.paid
    assert {"cents": cents, "currency": currency} == second.received


@changed
def test_an_open_question_never_runs_by_itself(desk, change):
    desk.run(**settings_of(change.before, desk))
    outcome = desk.resume(**settings_of(change.later, desk))
    assert desk.paid == []
    assert outcome.exit == "needs_human"
    assert outcome.question.call.name == "pay"


@changed
def test_the_card_after_a_change_shows_what_would_run(desk, change):
    """Never new values under an old id."""
    first = desk.run(**settings_of(change.before, desk)).question
    now = desk.resume(**settings_of(change.later, desk)).question
    assert (now.id == first.id) == (now.received == first.received)


def test_the_second_card_says_what_has_changed(desk):
    desk.run()
    question = desk.resume(policies=[times_100]).question
    assert question.call.arguments == {"cents": 8_000}
    assert 'It has changed. When it was first asked, it was pay(cents="80").' in question.remark


def test_a_value_that_is_made_again_each_time_is_no_change(desk):
    class Order(pydantic.BaseModel):
        number: str = pydantic.Field(default_factory=iter(map(str, range(99))).__next__)

    @tool(needs_approval=True)
    def pay(order: Order = Order()) -> str:  # noqa: B008
        """Pay."""
        desk.paid.append("order")
        return "paid"

    question = desk.run(call("pay", order={}), tools=[pay]).question
    desk.resume(question.yes(), tools=[pay])
    assert desk.paid == ["order"]


# A person says something else instead.


@dataclass
class Left:
    """What a run left open, and the results that a new request gives it."""

    name: str
    notes: tuple[Any, ...]
    first: str
    in_doubt: bool = False


LEFT = [
    Left("it waits", (Paused("Run pay(cents=80)?", "p", id="q"),), "someone else"),
    Left("it was killed before the call", (), "the run was stopped before it"),
    Left("it was killed in the call", (Started("p", "pay"),), "It may have happened", True),
    Left(
        "a person quit", (Verdict("quit", "p", "a bad day", "Ada"),), "Ada stopped the run (a bad"
    ),
]


@pytest.mark.parametrize("left", LEFT, ids=lambda left: left.name)
def test_a_new_request_closes_what_was_left_open(desk, left):
    first = ToolCall("p", "pay", {"cents": 80})
    second = ToolCall("q", "pay", {"cents": 81})
    messages = [User(REQUEST), Assistant(tool_calls=(first, second)), *left.notes]
    if desk.saved:
        with TranscriptFile(desk.saved, desk.agent().made_of(), now="2026-11-29") as file:
            for message in messages:
                file.append(message)
    desk.transcript = messages
    outcome = desk.say("Wait, not that one.")
    closed = [message for message in outcome.transcript if isinstance(message, ToolResult)]
    expected = "who said something else" if left.name == "it waits" else left.first
    assert expected in closed[0].content
    assert closed[0].in_doubt == left.in_doubt
    assert closed[1].refused == "stopped"
    assert outcome.answer == "As you wish."
    assert desk.paid == []


@pytest.mark.parametrize("text", [REQUEST, f" {REQUEST}\n"])
def test_the_same_request_again_is_an_error_that_says_resume(desk, text):
    """A supervisor that repeats its command after a kill must not pay twice."""
    desk.run()
    with pytest.raises(TranscriptError, match="resume it"):
        desk.say(text)


def test_the_same_request_is_a_new_one_after_the_end(desk):
    desk.run("Nothing to pay.")
    assert desk.say(REQUEST).answer == "As you wish."


# What a person says reaches the model.


@dataclass
class Words:
    """What a person answers, and what the model reads of it (empty: nothing)."""

    name: str
    answer: Callable[[AskHuman], Verdict]
    reads: str


CARD = [
    Words("yes", lambda asked: asked.yes(), ""),
    Words("yes, with words", lambda asked: asked.yes(reason="But hurry."), "said: But hurry."),
    Words(
        "an edit, with words",
        lambda asked: asked.yes(arguments={"cents": 5}, reason="Less.", by="Ada"),
        "Ada said: Less.",
    ),
    Words("no", lambda asked: asked.no(), "a person said no (no reason given)"),
    Words("no, with words", lambda asked: asked.no("Too much."), "said no (Too much.)"),
]


@pytest.mark.parametrize("words", CARD, ids=lambda words: words.name)
def test_the_model_reads_what_a_person_says_about_a_call(desk, words):
    question = desk.run().question
    desk.resume(words.answer(question))
    assert words.reads in desk.read[-1]
    assert ("said" in desk.read[-1]) == bool(words.reads)


@tool
def fetch(url: str) -> str:
    """Fetch."""
    raise NothingDone("403 Forbidden")


def ask_after_a_failure(step, turn):
    """A custom policy that asks a person after each failure."""
    if isinstance(step, CallModel) and isinstance(turn.last, ToolResult):
        last = turn.log.entries[-1][0]
        if not isinstance(last, Verdict):
            return AskHuman("Go on?")
    return step


FAILING = {"tools": [fetch], "policies": [ask_after_a_failure]}


GO_ON = [
    Words("go on", lambda asked: asked.yes(), ""),
    Words("go on, but", lambda asked: asked.yes(reason="Use the mirror."), "Use the mirror."),
]


@pytest.mark.parametrize("words", GO_ON, ids=lambda words: words.name)
def test_go_on_but_is_passed_on_to_the_model(desk, words):
    question = desk.run(call("fetch", url="a"), **FAILING).question
    assert question.call is None
    outcome = desk.resume(words.answer(question), **FAILING)
    assert words.reads in desk.read[-1]
    guidance = [m.text for m in outcome.transcript if getattr(m, "kind", "") == "guidance"]
    assert guidance == ([words.reads] if words.reads else [])


@pytest.mark.parametrize("words", GO_ON, ids=lambda words: words.name)
def test_patience_asks_and_passes_on_what_is_said(desk, words):
    settings = {"tools": [fetch], "patience": 1, "approve": words.answer}
    outcome = desk.run(call("fetch", url="a"), "Done.", **settings)
    assert words.reads in desk.read[-1]
    assert outcome.answer == "Done."


def test_go_on_but_is_passed_on_once_also_after_a_kill(desk):
    question = desk.run(call("fetch", url="a"), **FAILING).question
    broken = desk.agent(**FAILING)  # its script is empty, so it raises
    with pytest.raises(IndexError) as stop:
        broken.resume(desk.saved or desk.transcript, verdict=question.yes(reason="Mirror."))
    desk.transcript = stop.value.transcript
    outcome = desk.resume(None, "Done.", **FAILING)
    spoken = [m for m in outcome.transcript if isinstance(m, User)]
    assert [m.text for m in spoken] == [REQUEST, "Mirror."]


def test_a_no_to_going_on_ends_the_turn(desk):
    question = desk.run(call("fetch", url="a"), **FAILING).question
    outcome = desk.resume(question.no("Use the mirror."), **FAILING)
    assert outcome.exit == "declined"
    assert "Use the mirror." in outcome.answer


# `approve=` asks directly.


@pytest.mark.parametrize(
    "answer",
    [
        lambda asked: True,
        lambda asked: Verdict("yes"),
        lambda asked: asked.yes(),
        lambda asked: Verdict("yes", question=asked.id),
    ],
    ids=["a bool", "without an id", "made by the question", "with its id"],
)
def test_approve_may_answer_without_an_id(desk, answer):
    outcome = desk.run(call("pay", cents=80), "Paid.", approve=answer)
    assert desk.paid == [(80, "EUR")]
    assert not any(isinstance(message, Paused) for message in outcome.transcript)


def test_approve_cannot_answer_another_question(desk):
    other = AskHuman("Run it?", call("pay", cents=5), pause="another")
    with pytest.raises(TypeError, match="another question"):
        desk.run(call("pay", cents=80), approve=lambda asked: other.yes())
    assert desk.paid == []


def test_every_question_has_its_own_id():
    ids = []

    def approve(asked):
        ids.append(asked.id)
        return True

    desk = Desk(None)
    desk.run(call("pay", cents=80), call("pay", cents=80), "Paid.", approve=approve)
    assert len(set(ids)) == 2


def test_an_open_question_is_asked_where_someone_can_be_asked_now(desk):
    desk.run()
    outcome = desk.resume(approve=lambda asked: True)
    assert desk.paid == [(80, "EUR")]
    assert outcome.exit == "silence"


# A call in doubt.


def test_a_call_in_doubt_waits_for_a_person_also_in_a_later_turn(desk):
    @tool
    def pay(cents: int) -> str:
        """Pay."""
        desk.paid.append(cents)
        raise ConnectionError("the line broke")

    due = call("pay", cents=80)
    first = desk.run(due, "It is not clear.", tools=[pay])
    assert first.answer == "It is not clear."
    agent = desk.agent(due, tools=[pay])
    outcome = agent.run("Try again.", transcript=desk.saved or desk.transcript)
    assert outcome.exit == "needs_human"
    assert desk.paid == [80]
    assert "@tool(read_only=True)" in outcome.question.remark


# What a yes was to, read from the record.


def plan_after(verdict: Verdict, tools: list[Tool]):
    """The step after this verdict about `pay(cents=80)`, by the policy `as_decided` alone."""
    pay = ToolCall("p", "pay", {"cents": 80})
    messages = [User(REQUEST), Assistant(tool_calls=(pay,)), verdict]
    return plan(messages, [as_decided({each.name: each for each in tools})])


def test_a_yes_runs_the_call_with_the_arguments_in_the_verdict():
    step = plan_after(Verdict("yes", "p", arguments={"cents": 7}), [Desk(None).tool()])
    assert isinstance(step, CallTool)
    assert step.received == {"cents": 7, "currency": "EUR"}


def test_a_yes_to_arguments_that_do_not_fit_any_more_is_refused_and_not_asked_again():
    narrower = Desk(None).tool(parameter=Annotated[int, pydantic.Field(le=50)])
    step = plan_after(Verdict("yes", "p", arguments={"cents": 80}), [narrower])
    assert isinstance(step, Refuse)
    assert step.code == "invalid"

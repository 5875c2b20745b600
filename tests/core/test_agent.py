import asyncio
import itertools

import pytest

from tests.support.agents import agent
from tests.support.pieces import InPieces
from think_agent import (
    THINK,
    THINK_MINIMAL,
    Agent,
    Outcome,
    Progress,
    ScriptedModel,
    Tool,
    tool,
)
from think_agent.loop import NUDGE, AskHuman, Done
from think_agent.messages import Assistant, Ended, Force, Started, ToolResult, Usage, User
from think_agent.streaming import Delta, Notice
from think_agent.testing import call, think
from think_agent.think import RECORDED


@tool
def look(order_id: str) -> dict:
    """Look an order up."""
    return {"id": order_id, "cents": 8900}


@tool
def pay(order_id: str) -> str:
    """Pay an order back."""
    return f"paid {order_id}"


def says(*calls, text="", **more):
    return Assistant(text, tool_calls=calls, stop_reason="tool_use", usage=Usage(10, 5), **more)


LOOK = call("look", order_id="ORD-001")
PAY = call("pay", order_id="ORD-001")
LEAVE = think("done", should_continue=False)
REFUND = [
    says(think("look first")),
    says(LOOK),
    says(think("all rules hold"), PAY),
    says(LEAVE),
    Assistant("Refunded $89.", usage=Usage(20, 9)),
]


def desk(*replies, **settings):
    return agent(*replies, **{"tools": [look, pay], "force": "first", **settings})


def test_the_exit_by_signal():
    outcome = desk(*REFUND).run("Refund ORD-001")
    assert outcome.exit == "signal"
    assert outcome.answer == "Refunded $89."
    assert outcome.model_calls == len(outcome.turn.replies) == 5
    assert outcome.usage == Usage(60, 29)
    assert outcome.thoughts == ("look first", "all rules hold", "done")
    assert [(a.call.name, a.result.content, a.thought) for a in outcome.actions] == [
        ("look", '{"id":"ORD-001","cents":8900}', "look first"),
        ("pay", "paid ORD-001", "all rules hold"),
    ]
    assert outcome.behind_a_thought == 2
    paid = Started("call_3", "pay"), ToolResult("call_3", "pay", "paid ORD-001")
    assert outcome.transcript[7:10] == (ToolResult("call_2", "think", RECORDED), *paid)


def test_system_tools_and_earlier_messages_stay_the_same_for_a_whole_run():
    requests = []
    script = iter(REFUND)

    def reply(request):
        requests.append(request)
        return next(script)

    Agent(ScriptedModel(reply), [look, pay], instructions="Be fair.").run("go")
    assert {request.system for request in requests} == {"Be fair."}
    assert {tuple(tool.name for tool in request.tools) for request in requests} == {
        ("think", "look", "pay")
    }
    choices = [request.tool_choice for request in requests]
    assert choices == [Force("think"), "auto", "auto", "auto", "none"]
    for earlier, later in itertools.pairwise(requests):
        assert later.messages[: len(earlier.messages)] == earlier.messages


def test_a_transcript_that_is_passed_in_is_continued():
    talk = desk(*REFUND, says(LEAVE), Assistant("No."))
    first = talk.run("Refund ORD-001")
    handed_in = list(first.transcript)
    second = talk.run("And ORD-003?", transcript=handed_in)
    assert handed_in == list(first.transcript)
    assert second.transcript[: len(first.transcript)] == first.transcript
    assert second.transcript[len(first.transcript)] == User("And ORD-003?")
    assert second.answer == "No."
    assert second.thoughts == ("done",)
    assert second.model_calls == 2
    assert second.usage == Usage(10, 5)
    assert second.turn.replies[0].tool_choice == Force("think")  # a new turn needs a new thought


@pytest.mark.parametrize(
    ("first_signed_reply", "messages_shown", "first_shown"),
    [
        pytest.param(9, [1, 3, 3, 3], "three", id="nothing is signed"),
        pytest.param(1, [1, 3, 5, 7], "one", id="all is signed"),
        pytest.param(3, [1, 3, 3, 5], "two", id="from the third reply on"),
    ],
)
def test_a_request_shows_the_last_turns_and_signed_history_is_never_shortened(
    first_signed_reply, messages_shown, first_shown
):
    seen, transcript = [], ()

    def reply(request):
        seen.append(request)
        return Assistant("Hello.", signed=len(seen) >= first_signed_reply)

    forgetful = Agent(ScriptedModel(reply), keep_turns=2, force="never")
    for text in ("one", "two", "three", "four"):
        transcript = forgetful.run(text, transcript=transcript).transcript
    assert [len(request.messages) for request in seen] == messages_shown
    assert seen[-1].messages[0] == User(first_shown)
    spoken = [message for message in transcript if not isinstance(message, Ended)]
    assert [*seen[-1].left_out, *seen[-1].messages] == spoken[:-1]


# Settings


def shown(name):
    return Tool(name=name, description="", parameters={"type": "object"})


@pytest.mark.parametrize(
    ("wrong", "error", "advice"),
    [
        ({"tools": [look, look]}, ValueError, "two tools are named 'look'"),
        ({"tools": [shown("think")]}, ValueError, "'think' is reserved"),
        ({"tools": [THINK], "think": None}, ValueError, "'think' is reserved"),
        ({"think": shown("notes")}, TypeError, "another tool named 'think'"),
        ({"force": "Always"}, ValueError, "use one of never, first, always"),
        ({"force": None}, ValueError, "use one of never, first, always"),
        ({"force": "always", "think": THINK_MINIMAL}, ValueError, "needs think=THINK"),
        ({"force": "always", "think": None}, ValueError, "needs think=THINK"),
        ({"silence": "maybe"}, ValueError, "use one of confirm, ask, accept"),
        ({"model": "ollama"}, TypeError, "pass a Model, such as connect"),
        ({"tools": look}, TypeError, "tools=<Tool look>: pass a list of tools"),
        ({"tools": len}, TypeError, "pass a list of tools"),
        ({"tools": [print]}, TypeError, "decorate the function with @tool"),
        ({"tools": [shown("mute")]}, TypeError, "no function"),
        ({"think": True}, TypeError, "pass THINK, None, or another tool"),
        ({"approve": True}, TypeError, "pass a function"),
    ],
)
def test_settings_that_cannot_work_are_refused_at_once(wrong, error, advice):
    with pytest.raises(error, match=advice):
        Agent(**{"model": ScriptedModel([]), **wrong})


@pytest.mark.parametrize("text", [5, b"Hi", ["Hi"]])
def test_a_request_that_is_no_text_makes_no_file(text, tmp_path):
    path = tmp_path / "run.jsonl"
    with pytest.raises(TypeError, match="isn't text"):
        desk().run(text, transcript=path)
    with pytest.raises(TypeError, match="isn't text"):
        asyncio.run(desk().arun(text, transcript=path))
    assert not path.exists()


def test_a_transcript_that_holds_no_messages_is_refused():
    for transcript in ([1], {"a": 1}, b"path"):
        with pytest.raises(TypeError, match="isn't a message"):
            desk().run("Hi", transcript=transcript)


def test_an_agent_without_a_think_tool():
    desk = Agent(ScriptedModel("Hello."), [look], think=None)
    outcome = desk.run("Hi")
    assert desk.shown == (look,)
    assert outcome.turn.replies[0].tool_choice == "auto"
    assert outcome.exit == "silence"


@pytest.mark.parametrize(
    ("note", "exit"), [(call("think", thought="done"), "silence"), (LEAVE, "signal")]
)
def test_the_minimal_tool_exits_by_silence_unless_the_model_invents_the_signal(note, exit):
    outcome = desk(note, "Hello.", think=THINK_MINIMAL).run("Hi")
    assert outcome.transcript[2].content == RECORDED
    assert outcome.exit == exit
    assert outcome.thoughts == ("done",)


def test_long_results_and_long_errors_are_cut():
    @tool
    def dump(fail: bool) -> str:
        if fail:
            raise ValueError("x" * 100)
        return "x" * 100

    dumps = tuple(call("dump", fail=fail) for fail in (False, True))
    outcome = desk(dumps, "Much.", tools=[dump], max_result_chars=10).run("go")
    cut, error = (action.result.content for action in outcome.actions)
    assert cut == "x" * 10 + "\n[cut: 90 of 100 characters left out]"
    assert error.startswith("error: Val\n[cut: ")


# Policies of the user


@pytest.mark.parametrize(
    ("step", "exit", "answer"),
    [(Done("budget", "Too dear."), "budget", "Too dear."), (AskHuman("So?"), "needs_human", "So?")],
)
def test_a_policy_may_end_the_run_or_pause_it(step, exit, answer):
    outcome = desk(PAY, policies=[lambda planned, turn: step]).run("go")
    assert outcome.exit == exit
    assert outcome.answer == answer
    assert outcome.actions == ()


# Events


def events(*replies, **settings):
    """The events of a run: users and notices by their text, others by their type, no Deltas."""
    return [
        event.text if isinstance(event, Notice | User) else type(event).__name__
        for event in desk(*replies, **settings).stream("go")
        if not isinstance(event, Delta)
    ]


def test_events_come_in_order():
    assert events((LEAVE, PAY), Assistant(), "Paid.") == [
        "go", "Progress", "Assistant", "ToolResult", "Started", "ToolResult",
        "Progress", "Assistant", NUDGE.text, "Progress", "Assistant", "Ended", "Outcome",
    ]  # fmt: skip


def test_an_ignored_tool_choice_causes_a_notice():
    assert events(LOOK, LEAVE, says(PAY, text="Bye.")) == [
        "go", "Progress",
        "Assistant", "script was forced to call think and did not: the choice was ignored.",
        "Started", "ToolResult", "Progress", "Assistant", "ToolResult",
        "Progress", "Assistant", "script called tools in its final reply; they were not run.",
        "Ended", "Outcome",
    ]  # fmt: skip
    assert "forced to call a tool and did not" in events(think("x"), "Bye.", force="always")[-3]


def test_deltas_and_notices_are_events_but_not_in_the_transcript():
    seen, halting = [], Agent(InPieces(Assistant("Hello."), 3))
    outcome = halting.run("Hi", on_event=seen.append)
    kinds = [User, Progress, Delta, Delta, Assistant, Notice, Ended, Outcome]
    assert [type(event) for event in seen] == kinds
    assert seen[2:4] == [Delta("answer", "Hel"), Delta("answer", "lo.")]
    assert outcome == seen[-1] == halting.run("Hi")  # an agent keeps no conversation
    assert outcome.transcript == (seen[0], seen[4], Ended("silence"))


def test_a_lone_surrogate_in_the_arguments_can_be_streamed():
    """`"\\ud83d"` is valid JSON, and small models do break emoji in two."""
    broken = call("look", order_id="\ud83d")
    assert list(desk(broken, "ok").stream("go"))[-1] == desk(broken, "ok").run("go")


def test_an_async_on_event_is_refused():
    async def watch(event):
        raise AssertionError("it isn't awaited")

    with pytest.raises(TypeError, match=r"on_event= .*watch .*line \d+\): .*astream"):
        desk("Done.").run("go", on_event=watch)

import asyncio
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.strategies import calls, transcripts
from think_agent import (
    THINK,
    THINK_MINIMAL,
    Agent,
    AskHuman,
    Assistant,
    CallTool,
    Delta,
    Done,
    Force,
    Model,
    ModelError,
    Notice,
    Outcome,
    Refuse,
    ScriptedModel,
    Started,
    Tool,
    ToolCall,
    ToolResult,
    Turn,
    Usage,
    User,
    tool,
)
from think_agent.loop import NUDGE
from think_agent.running import with_ids
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
REFUND = [
    says(think("look first")),
    says(LOOK),
    says(think("all rules hold"), PAY),
    says(think("done", should_continue=False)),
    Assistant("Refunded $89.", usage=Usage(20, 9)),
]


def agent(*replies, tools=(look, pay), **settings):
    return Agent(ScriptedModel(replies), tools, **settings)


def test_the_way_out_by_signal():
    outcome = agent(*REFUND).run("Refund ORD-001")
    assert outcome.answer == "Refunded $89."
    assert outcome.exit == "signal"
    assert outcome.model_calls == len(outcome.steps) == 5
    assert outcome.steps[-1].tool_choice == "none"
    assert outcome.usage == Usage(60, 29)
    assert outcome.thoughts == ("look first", "all rules hold", "done")
    assert [(a.call.name, a.result.content, a.thought) for a in outcome.actions] == [
        ("look", '{"id":"ORD-001","cents":8900}', "look first"),
        ("pay", "paid ORD-001", "all rules hold"),
    ]
    assert outcome.behind_a_thought == 2


def test_the_transcript_holds_all_of_it_in_order():
    outcome = agent(*REFUND).run("Refund ORD-001")
    kinds = [type(message) for message in outcome.transcript]
    thought, acted = [Assistant, ToolResult], [Assistant, Started, ToolResult]
    both = [*thought, *acted[1:]]
    assert kinds == [User, *thought, *acted, *both, *thought, Assistant]
    assert outcome.transcript[0] == User("Refund ORD-001")
    assert outcome.transcript[2] == ToolResult("call_0", "think", RECORDED)
    assert outcome.transcript[7:10] == (
        ToolResult("call_2", "think", RECORDED),
        Started("call_3", "pay"),
        ToolResult("call_3", "pay", "paid ORD-001"),
    )


def test_the_way_out_by_silence():
    outcome = agent(says(LOOK), Assistant("It costs $89."), force="never").run("How much?")
    assert (outcome.exit, outcome.answer) == ("silence", "It costs $89.")
    assert outcome.thoughts == ()
    assert [action.thought for action in outcome.actions] == [None]
    assert outcome.behind_a_thought == 0


def test_calls_beside_the_signal_are_performed():
    leave = think("pay and go", should_continue=False)
    outcome = agent(says(leave, PAY), Assistant("Paid.")).run("go")
    assert outcome.exit == "signal"
    assert [action.result.content for action in outcome.actions] == ["paid ORD-001"]


def test_what_the_model_is_shown_stays_the_same_all_along():
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


def test_the_conversation_goes_on_with_the_transcript():
    desk = agent(*REFUND, says(think("as before", should_continue=False)), Assistant("No."))
    first = desk.run("Refund ORD-001")
    second = desk.run("And ORD-003?", transcript=first.transcript)
    assert second.transcript[: len(first.transcript)] == first.transcript
    assert second.transcript[len(first.transcript)] == User("And ORD-003?")
    assert (second.answer, second.thoughts, second.model_calls) == ("No.", ("as before",), 2)
    assert second.usage == Usage(10, 5)
    assert second.steps[0].tool_choice == Force("think")  # a new turn owes a new thought
    assert second.steps[0].tool_calls[0].id == "call_5"  # counted over the whole conversation


def test_the_transcript_handed_in_is_left_alone():
    history = [User("Hi"), Assistant("Hello.")]
    agent(Assistant("Fine.")).run("How are you?", transcript=history)
    assert history == [User("Hi"), Assistant("Hello.")]


def test_limit_truncated_refused_and_empty():
    def ended(*replies, **settings):
        outcome = agent(*replies, **settings).run("go")
        return outcome.exit, outcome.answer

    assert ended(says(LOOK), Assistant("So far."), max_model_calls=2) == ("limit", "So far.")
    assert ended(Assistant("I w", stop_reason="max_tokens")) == ("truncated", "I w")
    assert ended(Assistant("No.", stop_reason="refusal")) == ("refused", "No.")
    assert ended(Assistant(), Assistant()) == ("empty", "")
    assert ended(Assistant(), Assistant("Oh.")) == ("silence", "Oh.")


# Actions and the thoughts they stand behind


@pytest.mark.parametrize(
    ("replies", "thoughts"),
    [
        ([says(LOOK, PAY)], [None, None]),
        ([says(think("a"), LOOK, PAY)], ["a", "a"]),  # a thought covers the whole reply
        ([says(LOOK, think("a"), PAY)], [None, "a"]),
        ([says(think("a"), LOOK, think("b"), PAY)], ["a", "b"]),
        ([says(think("a")), says(LOOK, PAY)], ["a", "a"]),
        ([says(think("a")), says(think("b")), says(LOOK)], ["b"]),
        ([says(think("a")), says(LOOK), says(PAY)], ["a", None]),  # and no further than it
        ([says(LOOK, think("a")), says(PAY)], [None, "a"]),
        ([says(think(" ")), says(LOOK)], [None]),  # a blank thought is none
        ([says(think("a")), says(think("")), says(LOOK)], ["a"]),
    ],
)
def test_actions_know_the_thought_they_stand_behind(replies, thoughts):
    outcome = agent(*replies, Assistant("Done."), silence="accept").run("go")
    assert [action.thought for action in outcome.actions] == thoughts
    assert outcome.behind_a_thought == sum(thought is not None for thought in thoughts)


def test_what_was_not_run_is_no_action():
    stray = agent(says(think("x", should_continue=False)), says(PAY, text="Bye.")).run("go")
    cut = agent(Assistant("", tool_calls=(PAY,), stop_reason="max_tokens")).run("go")
    assert stray.actions == cut.actions == ()


def test_mistakes_are_actions_too():
    wrong = call("lokk")
    outcome = agent(says(wrong), Assistant("Sorry.")).run("go")
    assert [(a.call.name, a.result.is_error) for a in outcome.actions] == [("lokk", True)]


def test_actions_with_the_same_id_have_their_own_results():
    one = ToolCall("x", "look", {"order_id": "1"})
    two = ToolCall("x", "pay", {"order_id": "2"})
    for replies in ([says(one, two)], [says(one), says(two)]):
        outcome = agent(*replies, Assistant("Done.")).run("go")
        assert [a.result.name for a in outcome.actions] == ["look", "pay"]


def test_a_stray_call_with_a_used_id_is_no_action():
    look_1 = ToolCall("x", "look", {"order_id": "1"})
    pay_1 = ToolCall("x", "pay", {"order_id": "1"})
    leave = think("x", should_continue=False)
    outcome = agent(says(look_1, leave), says(pay_1, text="Bye.")).run("go")
    assert [action.call.name for action in outcome.actions] == ["look"]


# Ids


def test_missing_ids_are_counted_over_the_whole_history():
    history = [
        User("a"),
        says(ToolCall("x", "f"), ToolCall("y", "f")),
        ToolResult("x", "f", ""),
        User("b"),
        says(ToolCall("z", "f")),
    ]
    calls = (ToolCall("", "f"), ToolCall("own", "f"), ToolCall("", "g"))
    assert [call.id for call in with_ids(calls, Turn.of(history))] == ["call_3", "own", "call_5"]


@given(st.lists(calls).map(tuple), transcripts)
def test_every_call_gets_an_id_of_its_own_and_nothing_else_changes(calls, history):
    turn = Turn.of(history)
    minted = with_ids(calls, turn)
    assert with_ids(minted, turn) == minted
    given = [call.id for call in calls if call.id]
    taken = {call.id for said in history if isinstance(said, Assistant) for call in said.tool_calls}
    for old, new in zip(calls, minted, strict=True):
        assert (new.name, new.arguments) == (old.name, old.arguments)
        assert new.id == old.id if old.id else new.id not in {"", *given, *taken}
        taken.add(new.id)


# Settings


def shown(name, **more):
    return Tool(name=name, description="", parameters={"type": "object"}, **more)


@pytest.mark.parametrize(
    ("wrong", "advice"),
    [
        ({"tools": [look, look]}, "two tools are named 'look'"),
        ({"tools": [shown("think")]}, "'think' is reserved"),
        ({"tools": [THINK], "think": None}, "'think' is reserved"),
        ({"think": shown("notes")}, "must be named 'think'"),
        ({"force": "sometimes"}, "use 'never', 'first' or 'always'"),
        ({"force": "always", "think": THINK_MINIMAL}, "needs think=THINK"),
        ({"force": "always", "think": None}, "needs think=THINK"),
    ],
)
def test_settings_that_cannot_work_are_refused_at_once(wrong, advice):
    with pytest.raises(ValueError, match=advice):
        agent(**wrong)


@pytest.mark.parametrize(
    ("wrong", "advice"),
    [
        ({"model": "ollama"}, "pass a Model, such as connect"),
        ({"tools": look}, r"pass a list, such as \[look\]"),
        ({"tools": [print]}, "decorate the function with @tool"),
        ({"tools": [shown("mute")]}, "no function"),
        ({"think": True}, "pass THINK, THINK_MINIMAL or None"),
        ({"instructions": 5}, "pass a text"),
        ({"approve": True}, "pass a function"),
    ],
)
def test_what_is_of_the_wrong_kind_is_refused_at_once(wrong, advice):
    with pytest.raises(TypeError, match=advice):
        Agent(**{"model": ScriptedModel([]), **wrong})


def test_what_is_said_and_what_was_said_are_looked_at_before_the_model_is_asked():
    for text in (5, b"hi"):
        with pytest.raises(TypeError, match="is no text"):
            agent().run(text)
    for transcript in ([1], {"a": 1}, b"path"):
        with pytest.raises(TypeError, match="is no message"):
            agent().run("Hi", transcript=transcript)


def test_an_agent_without_a_think_tool():
    shown = []

    def reply(request):
        shown.append([tool.name for tool in request.tools])
        return Assistant("Hello.")

    outcome = Agent(ScriptedModel(reply), [look], think=None).run("Hi")
    assert shown == [["look"]]
    assert outcome.steps[0].tool_choice == "auto"
    assert outcome.exit == "silence"


def test_with_the_minimal_tool_silence_is_the_way_out():
    note = call("think", thought="a")
    outcome = agent(says(note), Assistant("Hello."), think=THINK_MINIMAL).run("Hi")
    assert outcome.transcript[2].content == RECORDED
    assert (outcome.exit, outcome.thoughts) == ("silence", ("a",))


def test_a_long_result_and_a_long_error_are_cut_as_the_agent_says():
    @tool
    def dump(fail: bool) -> str:
        if fail:
            raise ValueError("x" * 100)
        return "x" * 100

    calls = [call("dump", fail=fail) for fail in (False, True)]
    outcome = agent(says(*calls), Assistant("Much."), tools=[dump], max_result_chars=10).run("go")
    cut, error = (action.result.content for action in outcome.actions)
    assert cut == "x" * 10 + "\n[cut: 90 of 100 characters left out]"
    assert error.startswith("error: Val\n[cut: ")


# Policies of one's own


def test_a_policy_may_refuse_a_call():
    def no_paying(step, turn):
        if isinstance(step, CallTool) and step.call.name == "pay":
            return Refuse(step.call, "closed", "not today")
        return step

    outcome = agent(says(PAY, LOOK), Assistant("Sorry."), policies=[no_paying]).run("go")
    assert outcome.transcript[2:5] == (
        ToolResult("call_0", "pay", "error: not today", is_error=True, refused="closed"),
        Started("call_1", "look"),
        ToolResult("call_1", "look", '{"id":"ORD-001","cents":8900}'),
    )
    assert [action.call.name for action in outcome.actions] == ["look"]  # the other never ran


def test_a_policy_may_end_the_run():
    def enough(step, turn):
        return Done("budget", "Too dear.") if isinstance(step, CallTool) else step

    outcome = agent(says(PAY), policies=[enough]).run("go")
    assert (outcome.exit, outcome.answer, outcome.actions) == ("budget", "Too dear.", ())


def test_a_question_to_nobody_pauses_the_run():
    outcome = agent(policies=[lambda step, turn: AskHuman("May I?")]).run("go")
    assert (outcome.exit, outcome.answer) == ("needs_human", "May I?")


# Events


def events(source):
    """Users and notices by their text, the rest by type; Deltas left out."""
    return [
        event.text if isinstance(event, Notice | User) else type(event).__name__
        for event in source
        if not isinstance(event, Delta)
    ]


def test_events_come_in_the_order_things_happen():
    desk = agent(says(think("x", should_continue=False), PAY), Assistant(), Assistant("Paid."))
    assert events(desk.stream("go")) == [
        "go", "Assistant", "ToolResult", "Started", "ToolResult",
        "Assistant", NUDGE.text, "Assistant", "Outcome",
    ]  # fmt: skip


def test_a_choice_that_was_not_honored_is_noticed():
    desk = agent(says(LOOK), says(think("x", should_continue=False)), says(PAY, text="Bye."))
    assert events(desk.stream("go")) == [
        "go", "Assistant", "script was forced to call think and did not: the choice was ignored.",
        "Started", "ToolResult", "Assistant", "ToolResult",
        "Assistant", "script called tools in its final reply; they were not run.", "Outcome",
    ]  # fmt: skip
    desk = agent(says(think("x")), Assistant("Bye."), force="always")
    assert "forced to call a tool and did not" in events(desk.stream("go"))[-2]


def test_notices_and_deltas_are_not_in_the_transcript():
    seen = []
    outcome = agent(Assistant("Hello.")).run("Hi", on_event=seen.append)
    assert [type(event) for event in seen] == [User, Delta, Assistant, Notice, Outcome]
    assert outcome == seen[-1]
    assert outcome.transcript == (seen[0], seen[2])


class Halting(Model):
    """Streams its answer in two pieces."""

    name, model = "halting", "h-1"

    def complete(self, request):
        return Assistant("Hello.", model=self.model, provider=self.name)

    def stream(self, request):
        yield Delta("answer", "Hel")
        yield Delta("answer", "lo.")
        yield self.complete(request)

    async def astream(self, request):
        for event in self.stream(request):
            yield event


def test_deltas_pass_through_and_the_reply_is_the_same():
    desk = Agent(Halting(), force="never")
    seen = list(desk.stream("Hi"))
    assert seen[1:3] == [Delta("answer", "Hel"), Delta("answer", "lo.")]
    assert seen[-1] == desk.run("Hi")


async def in_four_ways(make):
    """The Outcome and the events of the same run: plain, watched, async, async streamed."""
    outcomes, watched = [], []
    outcomes.append(await asyncio.to_thread(make().run, "go"))
    outcomes.append(await make().arun("go"))
    for ask in (make().run, make().arun):
        seen = []
        result = ask("go", on_event=seen.append)
        outcomes.append(await result if asyncio.iscoroutine(result) else result)
        watched.append(seen)
    watched.append(list(make().stream("go")))
    watched.append([event async for event in make().astream("go")])
    outcomes += [seen[-1] for seen in watched]
    return outcomes, watched


@pytest.mark.parametrize(
    "make",
    [
        lambda: agent(*REFUND),
        lambda: agent(says(PAY), Assistant(), Assistant()),
        lambda: Agent(Halting()),
        lambda: agent(says(call("nope")), says(LOOK), Assistant("ok"), max_model_calls=3),
    ],
)
def test_sync_async_and_streamed_are_the_same(make):
    outcomes, watched = asyncio.run(in_four_ways(make))
    assert all(outcome == outcomes[0] for outcome in outcomes)
    assert all(seen == watched[0] for seen in watched)


def test_half_an_emoji_in_the_arguments_streams_as_it_runs():
    """`"\\ud83d"` is valid JSON, and small models do break emoji in two."""
    broken = says(call("look", order_id="\ud83d"))
    assert agent(broken, Assistant("ok")).run("go").exit == "silence"
    assert list(agent(broken, Assistant("ok")).stream("go"))[-1].exit == "silence"


def test_model_errors_come_through():
    desk = agent(says(LOOK))
    with pytest.raises(ModelError, match="the script has 1 replies and one more was asked for"):
        desk.run("go")
    with pytest.raises(ModelError):
        asyncio.run(agent().arun("go"))


def test_an_interrupt_in_a_tool_ends_the_run():
    @tool
    def stop() -> str:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        agent(says(call("stop")), tools=[stop]).run("go")


def test_an_agent_keeps_no_conversation():
    desk = Agent(ScriptedModel(lambda request: Assistant(str(len(request.messages)))))
    assert [desk.run("go").answer for _ in range(3)] == ["1", "1", "1"]

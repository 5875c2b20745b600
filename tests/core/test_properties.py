"""What holds for every run, whatever the model replies.

The scripts know no mercy: unknown tools, arguments that are no JSON, doubled and missing ids,
replies that break off, think calls with any exit signal, calls in the final reply.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.strategies import cyclic, scripts
from think_agent import (
    THINK,
    THINK_MINIMAL,
    Agent,
    Assistant,
    CallModel,
    CallTool,
    Done,
    Outcome,
    Request,
    ScriptedModel,
    Started,
    Tool,
    ToolCall,
    ToolResult,
    User,
    tool,
)
from think_agent.messages import Message
from think_agent.running import honored, without_signal
from think_agent.think import acknowledge
from think_agent.tools import call

BROKEN_OFF = ("max_tokens", "pause_turn", "incomplete", "refusal")
CAP = 3


@dataclass
class World:
    """An agent on a script, and a log of what was asked of the model and what of the tools."""

    script: list[Assistant]
    force: str
    think: Tool | None
    limit: int
    log: list[Any] = field(default_factory=list)

    def agent(self) -> Agent:
        @tool
        def add(n: int) -> int:
            self.log.append(("add", n))
            return n + 1

        @tool
        def fail() -> str:
            self.log.append(("fail",))
            raise ValueError("as ever")

        play = cyclic(self.script)

        def reply(request: Request) -> Assistant:
            self.log.append(request.tool_choice)
            return play(request)

        return Agent(
            ScriptedModel(reply),
            [add, fail],
            force=self.force,
            think=self.think,
            max_model_calls=self.limit,
            max_thoughts_in_a_row=CAP,
        )

    def run(self) -> Outcome:
        return self.agent().run("go")


worlds = st.builds(
    World,
    scripts,
    force=st.sampled_from(["never", "first", "always"]),
    think=st.sampled_from([THINK, THINK_MINIMAL, None]),
    limit=st.integers(1, 8),
).filter(lambda world: world.force != "always" or world.think is THINK)

given_a_world = given(worlds)
many = settings(max_examples=150)
few = settings(max_examples=40)


def replies_and_results(
    transcript: Sequence[Message],
) -> list[tuple[Assistant, list[ToolResult]]]:
    pairs: list[tuple[Assistant, list[ToolResult]]] = []
    for message in transcript:
        match message:
            case Assistant():
                pairs.append((message, []))
            case ToolResult():
                pairs[-1][1].append(message)
    return pairs


@many
@given_a_world
def test_a_run_ends_within_its_limit(world):
    outcome = world.run()
    assert 1 <= outcome.model_calls <= world.limit
    assert outcome.exit in (
        "signal", "silence", "limit", "truncated", "refused", "empty", "gave_up"
    )  # fmt: skip


@many
@given_a_world
def test_every_call_is_answered_once_and_in_order_or_not_at_all(world):
    for reply, results in replies_and_results(world.run().transcript):
        answered = [(result.call_id, result.name) for result in results]
        if reply.tool_choice == "none" or reply.stop_reason in BROKEN_OFF:
            assert answered == []
        else:
            assert answered == [(asked.id, asked.name) for asked in reply.tool_calls]


@many
@given_a_world
def test_what_ran_is_what_was_answered_without_error(world):
    outcome = world.run()
    results = [m for m in outcome.transcript if isinstance(m, ToolResult)]
    ran = [entry for entry in world.log if isinstance(entry, tuple)]
    answers = [str(entry[1] + 1) for entry in ran if entry[0] == "add"]
    assert answers == [r.content for r in results if r.name == "add" and not r.is_error]
    failures = [r for r in results if r.content == "error: ValueError: as ever"]
    assert len(failures) == ran.count(("fail",))
    started = [m for m in outcome.transcript if isinstance(m, Started)]
    assert [m.name for m in started] == [name for name, *_ in ran]
    assert len({m.key for m in started} - {""}) == len(started)


@many
@given_a_world
def test_nothing_runs_once_the_final_reply_was_asked_for(world):
    world.run()
    if "none" in world.log:
        assert set(world.log[world.log.index("none") :]) == {"none"}


@many
@given_a_world
def test_the_kit_answers_every_thought_itself(world):
    thoughts = [m for m in world.run().transcript if getattr(m, "name", "") == "think"]
    for result in thoughts:
        if world.think is None:
            assert result.content.startswith("error: there is no tool 'think'")
        else:
            assert result.content.startswith("Thought recorded.")
            assert not result.is_error


@many
@given_a_world
def test_the_exit_says_how_it_ended(world):
    outcome = world.run()
    last = outcome.steps[-1]
    said = [m.kind for m in outcome.transcript if isinstance(m, User)]
    assert said.count("nudge") <= 1
    assert said.count("limit") <= 1
    assert said.count("silence") <= 1
    confirmed = outcome.exit == "silence" and "silence" in said and not spoken(last)
    match outcome.exit:
        case "signal":
            assert last.tool_choice == "none"
            assert "limit" not in said
        case "silence":
            assert last.tool_choice != "none"
            assert confirmed or last.tool_calls == ()
        case "limit":
            assert "limit" in said or outcome.answer == last.text  # nothing was left to ask with
            assert world.limit - 1 <= outcome.model_calls <= world.limit
        case "truncated" | "refused":
            assert last.stop_reason in BROKEN_OFF
        case "empty":
            assert not last.text.strip()
    if outcome.exit in ("signal", "silence"):
        assert outcome.answer.strip()
        assert outcome.answer == (outcome.steps[-2] if confirmed else last).text


def spoken(reply: Assistant) -> bool:
    """Does it say something, and call nothing?"""
    return bool(reply.text.strip() and not reply.tool_calls)


@many
@given_a_world
def test_an_outcome_agrees_with_its_transcript(world):
    outcome = world.run()
    pairs = replies_and_results(outcome.transcript)
    assert outcome.model_calls == len(outcome.steps) == len(pairs)
    assert outcome.usage.input_tokens == sum(reply.usage.input_tokens for reply, _ in pairs)
    assert 0 <= outcome.behind_a_thought <= len(outcome.actions)
    if world.force == "never":
        assert {choice for choice in world.log if isinstance(choice, str)} <= {"auto", "none"}


async def _arun(world: World, streamed: bool) -> Outcome:
    if not streamed:
        return await world.agent().arun("go")
    return [event async for event in world.agent().astream("go")][-1]


@few
@given_a_world
def test_plain_async_and_streamed_runs_are_the_same(world):
    outcomes, logs = [], []
    for run in (
        World.run,
        lambda world: list(world.agent().stream("go"))[-1],
        lambda world: asyncio.run(_arun(world, streamed=False)),
        lambda world: asyncio.run(_arun(world, streamed=True)),
    ):
        fresh = replace(world, log=[])
        outcomes.append(run(fresh))
        logs.append(fresh.log)
    assert all(outcome == outcomes[0] for outcome in outcomes)
    assert all(log == logs[0] for log in logs)


def perform(world: World, transcript: list[Message]) -> Done:
    """The loop once more, as plainly as it can be written: the oracle."""
    agent = world.agent()
    while True:
        match agent.next_step(transcript):
            case Done() as done:
                return done
            case CallModel(tool_choice=choice, say=say):
                if say:
                    transcript.append(say)
                seen = [message for message in transcript if not isinstance(message, Started)]
                shown = (*([agent.think] if agent.think else []), *agent.tools.values())
                request = Request(seen, shown, tool_choice=choice)
                reply = replace(agent.model.complete(request), tool_choice=choice)
                if choice != "auto" and reply.stop_reason not in BROKEN_OFF:
                    done = "tool_choice" if honored(choice, reply) else "ignored"
                    reply = replace(reply, enforced=done)
                if agent.think is THINK_MINIMAL:  # which has no signal to send
                    reply = without_signal(reply)
                transcript.append(numbered(reply, transcript))
            case CallTool(call=asked) if asked.name == "think" and agent.think:
                row = thoughts_in_a_row(transcript)
                said = acknowledge(asked, agent.think, in_a_row=row, cap=CAP)
                transcript.append(ToolResult(asked.id, "think", said))
            case CallTool(call=asked):
                before = len(world.log)
                result = call(agent.tools, asked)
                if len(world.log) > before:  # it really ran
                    transcript.append(Started(asked.id, asked.name))
                transcript.append(result)


def numbered(reply: Assistant, before: Sequence[Message]) -> Assistant:
    """The reply with an id for every call: its number in the whole transcript, or the next free."""
    earlier = [asked for m in before if isinstance(m, Assistant) for asked in m.tool_calls]
    taken = {asked.id for asked in (*earlier, *reply.tool_calls)}
    calls: list[ToolCall] = []
    for asked in reply.tool_calls:
        number = len(earlier) + len(calls)
        while f"call_{number}" in taken:
            number += 1
        calls.append(replace(asked, id=asked.id or f"call_{number}"))
        taken.add(calls[-1].id)
    return replace(reply, tool_calls=tuple(calls))


def thoughts_in_a_row(transcript: Sequence[Message]) -> int:
    """How many of the last replies with calls have called nothing but think."""
    acts = [
        any(asked.name != "think" for asked in reply.tool_calls)
        for reply, _ in replies_and_results(transcript)
        if reply.tool_calls
    ]
    return [*reversed(acts), True].index(True)


@few
@given_a_world
def test_a_run_resumed_anywhere_ends_as_the_whole_one(world):
    """Also in the middle: between two results, after the kit's own words, before the reply."""
    outcome = world.run()
    for end in range(1, len(outcome.transcript) + 1):
        transcript = list(outcome.transcript[:end])
        done = perform(world, transcript)
        if isinstance(outcome.transcript[end - 1], Started):  # nobody is there to say what happened
            assert done.exit == "needs_human"
            assert tuple(transcript) == outcome.transcript[:end]
        else:
            assert tuple(transcript) == outcome.transcript
            assert done == Done(outcome.exit, outcome.answer)


@few
@given(worlds, st.integers(1, 3))
def test_a_conversation_keeps_its_past_and_its_rules(world, turns):
    agent, transcript = world.agent(), ()
    for turn in range(turns):
        outcome = agent.run(f"turn {turn}", transcript=transcript)
        assert outcome.transcript[: len(transcript)] == transcript
        assert outcome.transcript[len(transcript)] == User(f"turn {turn}")
        assert outcome.model_calls <= world.limit
        transcript = outcome.transcript

"""Every run keeps every rule of the package, judged on its raw messages by the oracle
(`tests/support/oracle/rules.py`).

A world is an agent on a random script, with random settings, in native, json or react. Tools fail,
checks find something missing, a person answers, edits and stops, and a policy of the user puts in a
word. Everything depends on the transcript alone, so a run that is resumed at any message meets the
same world.
"""

import ast
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.agents import taking_n
from tests.support.oracle import facts
from tests.support.oracle import rules as oracle
from tests.support.oracle.rules import CHECKS, Kind, Rules, judge
from tests.support.sizes import ROOT
from think_agent import (
    THINK,
    THINK_MINIMAL,
    Agent,
    AskHuman,
    Assistant,
    CallModel,
    CallTool,
    Checked,
    Done,
    Ended,
    Message,
    NothingDone,
    Outcome,
    Paused,
    Refuse,
    Request,
    ScriptedModel,
    Started,
    Tool,
    ToolCall,
    ToolResult,
    Usage,
    User,
    Verdict,
)
from think_agent.dialects import in_dialect
from think_agent.messages import MESSAGES
from think_agent.policies import Price
from think_agent.testing import call, think
from think_agent.testing.scripted import Reply
from think_agent.waiting import TookTooLong

POLICIES = ["", "", "", "edit", "refuse", "reword", "veto", "drop"]
NUMBERS = [3, 3, 3, 1, 0, 4, 5]
PRICE = Price(input=0, output=10)
MOST_EVENTS = 900  # a run that does not end has more


def is_much(n: int) -> bool:
    """Is a person asked about it? It raises for 5."""
    return {0: False, 1: False, 2: False, 3: True, 4: True, 9: False}[n]


def kinds(approval: str) -> dict[str, Kind]:
    needs_yes: Any = {"never": False, "always": True, "above 2": is_much}[approval]
    return {
        "pay": Kind(guarded=True, needs_yes=needs_yes),
        "book": Kind(keyed=True, needs_yes=needs_yes),
        "ship": Kind(),
        "note": Kind(idempotent=True),
        "look": Kind(read_only=True),
    }


@dataclass
class World:
    """An agent on a script, and what surrounds it. The n-th run of a tool, check or question gets
    the n-th entry of a list, counted in the transcript, and the last lists start again.
    """

    script: list[Assistant]
    dialect: str = "native"
    options: dict[str, Any] = field(default_factory=dict)
    approval: str = "never"
    policy: str = ""
    kind: str = "policy"  # of what the policy says
    faults: list[str] = field(default_factory=lambda: ["ok"])
    decisions: list[str] | None = None  # None: no person can be asked
    missing: list[bool] | None = None  # None: there is no check
    verdicts: list[str] = field(default_factory=list)  # by hand, for a run that is paused

    messages: list[Message] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)  # what the person said to `run`
    ran: list[oracle.Ran] = field(default_factory=list)
    events: int = 0

    def again(self, messages: Sequence[Message]) -> "World":
        """The same world, after these messages."""
        ran = [row for row in self.ran if row.place < len(messages)]
        said = sum(facts.is_question(message, "person") for message in messages)
        texts = self.texts[:said]
        return replace(self, messages=list(messages), texts=texts, ran=ran, events=0)

    def rules(self) -> Rules:
        known = Rules.__dataclass_fields__
        options = {name: value for name, value in self.options.items() if name in known}
        think_tool = self.options.get("think", THINK)
        return Rules(
            kinds(self.approval),
            checks=() if self.missing is None else ("all_done",),
            can_ask=self.decisions is not None,
            dialect=self.dialect,
            signals=think_tool is THINK,
            thinks=think_tool is not None,
            fail_fast=self.options.get("on_tool_error") == "fail_fast",
            edited={1: 3} if self.policy == "edit" else {},
            speaks=self.policy not in ("", "edit", "reword", "drop"),
            output_price=PRICE.output / 1e6,
            **options,
        )

    def agent(self) -> Agent:
        policy = getattr(self, f"_{self.policy}") if self.policy else None
        return Agent(
            in_dialect(ScriptedModel(self._reply), self.dialect),
            self._tools(),
            approve=None if self.decisions is None else self._approve,
            policies=[policy] if policy else [],
            done_when=[] if self.missing is None else [self._check()],
            now=self._now,
            prices={"script": PRICE},
            **self.options,
        )

    def _count(self, *types: type) -> int:
        return sum(isinstance(message, types) for message in self.messages)

    def _now(self) -> str:
        start = datetime(2026, 3, 1, tzinfo=UTC)
        return (start + timedelta(seconds=len(self.messages))).isoformat()

    def _reply(self, request: Request) -> Assistant:
        reply = self.script[self._count(Assistant) % len(self.script)]
        return written(reply, self.dialect, request)

    def _tools(self) -> list[Tool]:
        def made(name: str, **guards: Any) -> Tool:
            return taking_n(name, partial(self._act, name), **guards)

        asks = self.approval == "always"
        needs: Any = (lambda given: is_much(given["n"])) if self.approval == "above 2" else asks
        return [
            made("pay", think_first=True, needs_approval=needs),
            made("book", takes_key=True, needs_approval=needs),
            made("ship"),
            made("note", idempotent=True),
            made("look", read_only=True),
        ]

    def _act(self, name: str, n: int, idempotency_key: str = "") -> str:
        fault = self.faults[self._count(ToolResult) % len(self.faults)]
        self.ran.append(oracle.Ran(len(self.messages), name, n, idempotency_key, fault))
        match fault:
            case "raise":
                raise ValueError("the line broke")
            case "nothing":
                raise NothingDone("the shop is closed")
            case "late":
                raise TookTooLong
        return f"{name} {n}"

    def _approve(self, asked: AskHuman) -> Verdict:
        assert self.decisions is not None
        decision = self.decisions[self._count(Verdict) % len(self.decisions)]
        return verdict(decision, asked)

    def _check(self) -> Any:
        def all_done(turn: object) -> str | None:
            assert self.missing is not None
            is_missing = self.missing[self._count(Checked) % len(self.missing)]
            return "ORD-1 is open" if is_missing else None

        return all_done

    # Policies of the user.

    def _edit(self, step: Any, turn: object) -> Any:
        """1 becomes 3."""
        if isinstance(step, CallTool) and oracle.number(step.call.arguments) == 1:
            return CallTool(replace(step.call, arguments={"n": 3}))
        return step

    def _refuse(self, step: Any, turn: object) -> Any:
        """3 is refused."""
        if isinstance(step, CallTool) and oracle.number(step.call.arguments) == 3:
            return Refuse(step.call, "rule", "not run: it is a rule.")
        return step

    def _veto(self, step: Any, turn: object) -> Any:
        """The first two signals are not believed."""
        if isinstance(step, CallModel) and step.tool_choice == "none" and self._said() < 2:
            return CallModel("auto", self._word())
        return step

    def _ask_on(self, step: Any, turn: object) -> Any:
        """Silence is not believed."""
        if isinstance(step, Done) and step.exit == "silence" and self._said() < 3:
            return CallModel("auto", self._word())
        return step

    def _nag(self, step: Any, turn: object) -> Any:
        """It never stops."""
        if isinstance(step, (CallModel, Done)):
            return CallModel("auto", self._word())
        return step

    def _reword(self, step: Any, turn: object) -> Any:
        if isinstance(step, CallModel) and step.say:
            return replace(step, say=replace(step.say, text="In other words."))
        return step

    def _drop(self, step: Any, turn: object) -> Any:
        if isinstance(step, CallModel) and step.say:
            return CallModel(step.tool_choice)
        return step

    def _word(self) -> User:
        return User("A word of the user's own.", kind=self.kind)  # type: ignore[arg-type]

    def _said(self) -> int:
        words = [m for m in self.messages if isinstance(m, User)]
        return sum(m.text == "A word of the user's own." for m in words)

    # A life.

    def watch(self, event: object) -> None:
        if isinstance(event, MESSAGES):
            self.messages.append(event)
        self.events += 1
        assert self.events < MOST_EVENTS, "the run does not end"

    def begin(self, text: str = "go") -> Outcome:
        self.texts.append(text)
        agent = self.agent()
        return self.judged(agent.run(text, transcript=list(self.messages), on_event=self.watch))

    def resume(self) -> Outcome:
        return self.judged(self.agent().resume(list(self.messages), on_event=self.watch))

    def judged(self, outcome: Outcome) -> Outcome:
        """The outcome says what the transcript says."""
        assert list(outcome.transcript) == self.messages
        last = self.messages[-1]
        if outcome.exit == "needs_human":
            assert isinstance(last, Paused)
            assert outcome.question
            assert outcome.question.question == last.question
        else:
            assert isinstance(last, Ended)
            assert outcome.exit == last.exit
        return outcome

    def decide(self, decision: str, asked: AskHuman) -> Outcome:
        """A person answers the question of a run that is paused."""
        answer = replace(verdict(decision, asked), question=asked.id)
        said = list(self.messages)
        return self.judged(self.agent().resume(said, verdict=answer, on_event=self.watch))

    def complaints(self) -> list[str]:
        """Everything that is wrong in the transcript."""
        rules = self.rules()
        found = judge(self.messages, rules)
        found += oracle.only_run_opens_a_turn(self.messages, self.texts)
        return found + oracle.what_ran_was_next(self.messages, rules, self.ran)


EDITS: dict[str, Any] = {"edit": {"n": 4}, "bad edit": {"n": "four"}}


def verdict(decision: str, asked: AskHuman) -> Verdict:
    call_id = asked.call.id if asked.call else ""
    if decision not in EDITS:
        return Verdict(decision, call_id)  # type: ignore[arg-type]
    if asked.as_new:  # nothing is edited: the same again, a new one, or no
        return Verdict("yes", call_id, new=True)
    if not call_id:
        return Verdict("yes")
    return Verdict("yes", call_id, arguments=EDITS[decision])


def written(reply: Assistant, dialect: str, request: Request) -> Assistant:
    """The reply as a model writes it in this dialect."""
    if dialect == "native":
        return reply
    acts = list(reply.tool_calls)
    thoughts = [acts.pop(acts.index(item)) for item in reply.tool_calls if item.name == "think"]
    del acts[1:]  # one action a reply
    notes = " ".join([str(facts.argument(thought, "thought")) for thought in thoughts])
    leaves = facts.says_continue(thoughts[-1]) is False if thoughts else False
    text = as_react(notes, acts, reply.text, leaves)
    if dialect == "json" and request.tool_choice == "none":
        text = json.dumps({"response": reply.text})
    elif dialect == "json":
        text = as_plan(notes, acts, reply.text, leaves)
    stop_reason = reply.stop_reason.replace("malformed", "end_turn")
    return replace(reply, text=text, tool_calls=(), stop_reason=stop_reason)


def as_react(notes: str, acts: Sequence[ToolCall], answer: str, leaves: bool) -> str:
    lines = [f"Thought: {notes}"]
    lines += [f"Action: {act.name}\nAction Input: {json.dumps(act.arguments)}" for act in acts]
    if not acts and (leaves or not notes):
        lines.append(f"Final Answer: {answer}")
    return "\n".join(lines)


def as_plan(notes: str, acts: Sequence[ToolCall], answer: str, leaves: bool) -> str:
    actions = [{"tool": act.name, "arguments": act.arguments} for act in acts]
    plan = {"understanding": "", "reasoning": notes, "task_complete": leaves}
    return json.dumps({**plan, "actions": actions, "response": answer})


# Random worlds. They are drawn from a seed, because Hypothesis by itself mostly draws short ones.


def random_world(seed: int) -> World:
    rng = Random(seed)
    return World(
        [random_reply(rng) for _ in range(rng.randint(1, 7))],
        rng.choice(["native", "native", "native", "json", "react"]),
        random_options(rng),
        rng.choice(["never", "never", "always", "above 2"]),
        rng.choice(POLICIES),
        rng.choice(["policy", "person"]),
        rng.choices(["ok", "ok", "ok", "raise", "nothing", "late"], k=4),
        rng.choice([None, rng.choices(DECISIONS, k=4)]),
        rng.choice([None, rng.choices([False, False, True], k=4)]),
        rng.choices(DECISIONS, k=3),
    )


DECISIONS = ["yes", "yes", "yes", "edit", "bad edit", "no", "quit"]
TOOLS = ["pay", "pay", "pay", "book", "book", "ship", "note", "look", "look", "fly"]
BAD: list[Any] = ["{n: 3", {}, {"n": "three"}, {"n": 3, "m": 4}]
SIGNALS = ["true", "true", "true", "false", "False", False, "?"]
ANSWERS = ["Done.", "Done.", "Done.", "Well, it is so.", "", " "]
STOPS = ["malformed", "malformed", "malformed", "max_tokens", "refusal", "pause_turn"]


def random_reply(rng: Random) -> Assistant:
    usage = Usage(rng.choice([10, 40]), rng.choice([5, 60]))
    calls = tuple([random_call(rng) for _ in range(rng.choice([0, 1, 1, 2, 2, 3, 4]))])
    if calls and rng.random() < 0.5:
        calls = (random_thought(rng), *calls)
    text = rng.choice(ANSWERS)
    is_broken = rng.random() < 0.1
    return Assistant(
        text,
        tool_calls=calls,
        usage=usage,
        stop_reason=rng.choice(STOPS) if is_broken else "end_turn",
        mistake="It could not be read.",
        not_done=rng.random() < 0.05,
    )


def random_call(rng: Random) -> ToolCall:
    if rng.random() < 0.2:
        return random_thought(rng)
    arguments: dict[str, Any] = {"n": rng.choice(NUMBERS)}
    if rng.random() < 0.2:  # the same value in other words
        arguments = {"n": str(arguments["n"])}
    if rng.random() < 0.1:
        arguments = rng.choice(BAD)
    elif rng.random() < 0.15:
        arguments["thought"] = rng.choice(["3 is due", " "])
    in_text = rng.random() < 0.1
    return ToolCall(rng.choice(["", "", "", "a"]), rng.choice(TOOLS), arguments, in_text)


def random_thought(rng: Random) -> ToolCall:
    arguments = {"thought": rng.choice(["3 is due", "3 is due", " "])}
    return ToolCall("", "think", {**arguments, "should_continue": rng.choice(SIGNALS)})


def random_options(rng: Random) -> dict[str, Any]:
    """The settings, each left as it is in most worlds."""
    options: dict[str, Any] = {
        "force": rng.choice(["never", "never", "first", "always"]),
        "max_model_calls": rng.randint(1, 12),
    }
    if options["force"] != "always":
        options["think"] = rng.choice([THINK, THINK, THINK, THINK_MINIMAL])
    others: dict[str, list[Any]] = {
        "silence": ["accept", "ask"],
        "carry": [True],
        "on_tool_error": ["fail_fast"],
        "max_actions": [1, 2, 4],
        "max_seconds": [3, 8, 15],
        "max_tokens": [60, 200, 400],
        "max_cost": [0.001, 0.003, 0.01],
        "max_thoughts_in_a_row": [1, 2],
        "patience": [1, 2, 5],
        "max_repeats": [1, 2],
    }
    for name, values in others.items():
        if rng.random() < 0.15:
            options[name] = rng.choice(values)
    return options


worlds = st.integers(0, 2**32).map(random_world)


def played(world: World) -> World:
    """The world after a turn, and after a person's decisions where it paused. (The design does not
    say how the time before a resume counts. So there is none where the time is limited.)
    """
    outcome = world.begin()
    for decision in world.verdicts:
        if "max_seconds" in world.options or outcome.question is None:
            break
        outcome = world.decide(decision, outcome.question)
    return world


@settings(max_examples=200)
@given(worlds, st.booleans())
def test_every_run_keeps_every_rule(world, speaks_again):
    played(world)
    if speaks_again:
        world.begin("and again")
    assert world.complaints() == []


@settings(max_examples=30)
@given(worlds)
def test_a_run_that_is_resumed_at_any_message_keeps_every_rule(world):
    """It also says what the uninterrupted run said, where no call was left in doubt."""
    world.options.pop("max_seconds", None)
    world.begin()
    for end in range(1, len(world.messages)):
        resumed = world.again(world.messages[:end])
        resumed.resume()
        assert resumed.complaints() == []
        if not isinstance(world.messages[end - 1], Started):
            assert resumed.messages == world.messages


# The smallest case of everything that the oracle found.

LOOK, SHIP, PAY = call("look", n=3), call("ship", n=3), call("pay", n=3)
FLY = call("fly", n=3)  # there is no such tool
LEAVE = think("All is done.", should_continue=False)
UNREADABLE = Assistant("?", stop_reason="malformed", mistake="It could not be read.")


# What has to come of a world: the exit (empty if there are two readings), the tools that ran, and
# how many replies there were.
Ends = tuple[str, tuple[str, ...], int]


def found(
    *script: Reply, ends: Ends, options: dict[str, Any] | None = None, **surroundings: Any
) -> tuple[World, Ends]:
    """After the last reply of the script comes "Done.", whatever is asked."""
    model = ScriptedModel([*script, *["Done."] * 300])
    replies = [model.complete(Request([])) for _ in range(model.left)]
    settings = {"force": "never", **(options or {})}
    return World(replies, options=settings, **surroundings), ends


CASES: dict[str, tuple[World, Ends]] = {
    # A question never overwrites a question. (`repeat` came in place of what is missing, and
    # the call after it never ran.)
    "what is missing is said, not that it repeats itself": found(
        LOOK, (LOOK, LEAVE), SHIP,
        options={"max_repeats": 2}, missing=[True, False],
        ends=("silence", ("look", "look", "ship"), 4),
    ),
    # A reply to a question of the user's own policy is an ordinary one.
    "a policy does not believe a signal": found(
        LEAVE, SHIP, policy="veto", ends=("silence", ("ship",), 3)
    ),
    "a policy does not believe silence": found(
        "Well.", SHIP, policy="ask_on", ends=("silence", ("ship",), 5)
    ),
    # No policy goes on beyond a limit.
    "a policy never stops": found(
        policy="nag", options={"max_model_calls": 5}, ends=("limit", (), 5)
    ),
    "a policy never stops, after signals": found(
        LEAVE, LEAVE, LEAVE, LEAVE, policy="nag", options={"max_model_calls": 5},
        ends=("limit", (), 5),
    ),
    # A model that ignored the choice to think, and called nothing, is asked.
    "it announces, and stops": found(
        "I'll look that up.", LOOK, options={"force": "first"}, ends=("silence", ("look",), 3)
    ),
    "silence is always asked about": found(
        "Well.", SHIP, options={"silence": "ask"}, ends=("silence", ("ship",), 3)
    ),
    # Only `run` opens a turn.
    "a policy speaks as a person": found(
        LEAVE, SHIP, policy="veto", kind="person", ends=("silence", ("ship",), 3)
    ),
    # A question that a policy of the user drops is put back.
    "a policy drops a question": found("", policy="drop", ends=("silence", (), 2)),
    "a policy drops what is said at a limit": found(
        LOOK, LOOK, policy="drop", options={"max_model_calls": 2}, ends=("", ("look",), 2)
    ),
    # Three replies in a row that bring nothing, for whatever reason.
    "three replies bring nothing, each in its own way": found(
        PAY, UNREADABLE, FLY, LOOK, ends=("gave_up", (), 3)
    ),
    "replies are counted, not calls": found(
        (FLY, FLY), (FLY, FLY), LOOK, ends=("silence", ("look",), 4)
    ),
    "patience=1 holds for the gate": found(
        PAY, PAY, options={"patience": 1}, ends=("gave_up", (), 1)
    ),
    "patience=1 holds for what cannot be read": found(
        UNREADABLE, options={"patience": 1}, ends=("gave_up", (), 1)
    ),
    "patience=5 holds for what cannot be read": found(
        *[UNREADABLE] * 4, options={"patience": 5}, ends=("silence", (), 5)
    ),
    # Replies that only think end at a closing reply.
    "a model only thinks": found(*[think("Hm.")] * 6, ends=("limit", (), 7)),
    # Limits are judged before every step. (Each message takes a second.)
    "time runs out inside a reply": found(
        (LOOK, LOOK, LOOK), options={"max_seconds": 3}, ends=("limit", ("look", "look"), 2)
    ),
    "time runs out after a call that changed something": found(
        (SHIP, LOOK), options={"max_seconds": 3}, ends=("limit", ("ship",), 2)
    ),
    # With money for fewer than 200 tokens the turn closes.
    "there is money for 100 tokens": found(options={"max_cost": 0.001}, ends=("budget", (), 1)),
    # The words of the reply to a `limit` message are the answer.
    "the last words are empty": found(
        LOOK, "", options={"max_actions": 1}, ends=("", ("look",), 2)
    ),
    # The exit says that it could not be read. (It was "empty", without a second request.)
    "a closing reply cannot be read": found(
        LEAVE, UNREADABLE, options={"max_model_calls": 2}, ends=("", (), 2)
    ),
    # A finished plan has given its answer.
    "a plan is finished": found(
        Assistant("It is so.", tool_calls=(LEAVE,)), dialect="json", ends=("signal", (), 1)
    ),
    # Every yes says to what.
    "a person says yes": found(
        (think("3 is due"), PAY), approval="always", decisions=["yes"],
        ends=("silence", ("pay",), 3),
    ),
    # A call is the same if the tool gets the same.
    "a retry in other words has the same key": found(
        call("book", n="3"), call("book", n=3), faults=["late", "ok"],
        ends=("silence", ("book", "book"), 3),
    ),
    "a payment in other words is the same payment": found(
        call("ship", n="3"), call("ship", n=3), faults=["late", "ok"],
        ends=("needs_human", ("ship",), 2),
    ),
    "a payment that a policy has changed is the same payment": found(
        call("ship", n=1), SHIP, policy="edit", faults=["late", "ok"],
        ends=("needs_human", ("ship",), 2),
    ),
    "a retry of what a policy has changed has the same key": found(
        call("book", n=1), call("book", n=3), policy="edit", faults=["late", "ok"],
        ends=("silence", ("book", "book"), 3),
    ),
    # After a refusal of the gate the next call forces a thought. (It asked for any call.)
    "a blank thought comes after a refusal of the gate": found(
        (PAY, think(" ")), LEAVE, options={"force": "always"}, ends=("signal", (), 3)
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_what_was_found_is_kept(name):
    world, (exit, ran, replies) = CASES[name]
    outcome = world.begin()
    assert world.complaints() == []
    assert tuple(row.name for row in world.ran) == ran
    assert sum(isinstance(message, Assistant) for message in world.messages) == replies
    assert outcome.exit == exit or not exit


PACKAGE = ROOT / "think_agent"


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.function.__name__)
def test_each_check_names_a_rule_of_the_package(check):
    path = PACKAGE / check.path
    text = path.read_text(encoding="utf-8")
    if check.name:
        names = f"(def|class) {check.name}\\b"
        assert re.search(names, text)
    elif path.suffix == ".md":
        assert re.search(f"^{check.rule}\\. ", text, re.MULTILINE)
    else:
        assert f"Rule {check.rule}: " in ast.get_docstring(ast.parse(text))


def test_a_complaint_says_which_rule_is_broken_and_where_it_is_written():
    world, _ = found(LOOK, ends=("silence", ("look",), 2))
    world.begin()
    *before, end = world.messages
    [complaint] = judge([*before, replace(end, exit="signal")], world.rules())
    assert complaint.startswith("the_exit_is_true (loop.py, rule 4) [4]: ")


def test_the_oracle_sees_what_is_wrong():
    """A lawful run, with one thing wrong at a time."""
    lawful = (think("3 is due"), PAY), LEAVE
    world, _ = found(*lawful, missing=[False], ends=("signal", ("pay",), 3))
    world.begin()
    messages = world.messages
    assert world.complaints() == []
    for place in range(1, len(messages) - 1):
        broken = [*messages[:place], *messages[place + 1 :]]
        assert judge(broken, world.rules()), f"{messages[place]} is missing"
    swapped = [replace(m, exit="silence") if isinstance(m, Ended) else m for m in messages]
    assert judge(swapped, world.rules())

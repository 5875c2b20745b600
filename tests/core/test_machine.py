"""What may never happen, whatever the model, the tools and a person do.

A machine plays random scripts under random settings. Tools fail in every way. A person answers in
every way, or is not there. The run is killed at random messages and inside tools. Then it is
resumed, from memory or from a file, or a new turn begins. The rules judge the messages and what the
tools saw. They use the naive oracle, never `Turn`.
"""

import tempfile
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support import naive
from tests.support.desk import said as kept
from think_agent import (
    Agent,
    AskHuman,
    Assistant,
    CallTool,
    Ended,
    Message,
    NothingDone,
    Outcome,
    Refuse,
    Request,
    ScriptedModel,
    Started,
    Tool,
    ToolCall,
    ToolResult,
    Verdict,
    tool,
)
from think_agent.messages import MESSAGES
from think_agent.transcript import Transcript
from think_agent.waiting import TookTooLong

MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None  # fsync costs nothing there
NOW = "2026-03-01T12:00:00.000+00:00"
MOST_EVENTS = 600  # of a whole machine; a run that does not end has more
MOST_LIVES = 12  # how often the runs of a machine are begun or resumed
CHANGE = ("pay", "book", "note")
GUARDED = {"pay"}


class Killed(KeyboardInterrupt):
    """The process is gone."""


# The model mostly makes the same payment, behind a thought.

numbers = st.sampled_from([3, 3, 3, 1, 0, 4, 5, 5, "3"])
odd_arguments = st.sampled_from(["{n: 3", {}, {"n": "three"}, {"n": 5}, {"n": 3, "m": 4}])
good_arguments = st.fixed_dictionaries({"n": numbers})
with_a_thought = st.fixed_dictionaries({"n": numbers, "thought": st.just("3 is due")})
arguments = st.one_of([good_arguments] * 6 + [with_a_thought, odd_arguments])
ids = st.sampled_from(["", "", "", "a", "b"])
in_text = st.sampled_from([False] * 5 + [True])
names = st.sampled_from(["pay", "pay", "pay", "book", "book", "note", "look"])
calls = st.builds(ToolCall, ids, names, arguments, in_text)
thinking = st.fixed_dictionaries(
    {"thought": st.sampled_from(["3 is due", "3 is due", " "])},
    optional={"should_continue": st.sampled_from(["true", "true", "false", "?"])},
)
thoughts = st.builds(ToolCall, ids, st.just("think"), thinking, in_text)
acting = st.lists(thoughts | calls, min_size=1, max_size=3).map(tuple)
behind_a_thought = st.tuples(thoughts, calls) | st.tuples(thoughts, calls, calls)
good = st.builds(Assistant, tool_calls=behind_a_thought)
any_order = st.builds(Assistant, tool_calls=acting)
words = st.builds(Assistant, st.sampled_from(["Done.", "Done.", ""]))
odd = st.builds(
    Assistant,
    text=st.sampled_from(["", "Well."]),
    tool_calls=acting | st.just((ToolCall("", "fly"),)),
    stop_reason=st.sampled_from(["malformed", "malformed", "max_tokens", "refusal", "end_turn"]),
    mistake=st.just("It could not be read."),
)
replies = st.one_of([good] * 5 + [any_order] * 2 + [words, odd])

# What tools and a person do, call by call, and when the run is killed.

faults = st.sampled_from(["ok", "ok", "raise", "raise", "nothing", "late", "kill"])
decisions = st.sampled_from(["yes", "yes", "edit", "bad edit", "no", "quit", "kill"])
kills = st.integers(1, 25)
approvals = st.sampled_from([False, True, "above 2"])
options = st.fixed_dictionaries(
    {
        "force": st.sampled_from(["never", "first", "always"]),
        "max_model_calls": st.integers(3, 9),
    },
    optional={
        "silence": st.just("accept"),
        "carry": st.just(True),
        "max_actions": st.integers(2, 6),
        "on_tool_error": st.sampled_from(["tell_model", "tell_model", "fail_fast"]),
        "max_repeats": st.integers(1, 3),
    },
)


@dataclass
class Ran:
    """A tool's function was called after `place` messages, with `n`. `fault`: how it ended."""

    place: int
    name: str
    n: int
    key: str
    fault: str


@dataclass
class Machine:
    script: list[Assistant]
    options: dict[str, Any]
    approval: bool | str
    policy: str
    faults: list[str]
    decisions: list[str] | None  # None: there is nobody to ask
    verdicts: list[str]  # for the transcripts of paused runs
    missing: list[bool] | None  # does the check find something missing? None: there is no check
    kills: list[int]  # after how many events
    in_file: bool
    turns: list[bool]  # after each end or kill: does a person speak again?

    messages: list[Message] = field(default_factory=list)
    ran: list[Ran] = field(default_factory=list)
    asked: list[tuple[int, AskHuman]] = field(default_factory=list)
    events: int = 0
    until_kill: int = 0
    outcome: Outcome | None = None

    def agent(self) -> Agent:
        approve = None if self.decisions is None else self.approve
        edit_or_refuse = {"edit": edits, "refuse": refuses, "rename": renames}
        policy = edit_or_refuse.get(self.policy)
        return Agent(
            ScriptedModel(self.reply),
            self.tools(),
            approve=approve,
            policies=[policy] if policy else [],
            done_when=[] if self.missing is None else [self.all_done],
            now=lambda: NOW,
            **self.options,
        )

    def tools(self) -> list[Tool]:
        def pay(n: int) -> str:
            return self.act("pay", n)

        def book(n: int, idempotency_key: str) -> str:
            return self.act("book", n, idempotency_key)

        def note(n: int) -> str:
            return self.act("note", n)

        def look(n: int) -> str:
            return self.act("look", n)

        needs: Any = self.approval
        if needs == "above 2":
            needs = is_much
        return [
            tool(pay, think_first=True, needs_approval=needs),
            tool(book, needs_approval=needs),
            tool(note, idempotent=True),
            tool(look, read_only=True),
        ]

    def act(self, name: str, n: int, key: str = "") -> str:
        fault = self.faults.pop(0) if self.faults else "ok"
        self.ran.append(Ran(len(self.messages), name, n, key, fault))
        match fault:
            case "raise":
                raise ValueError("the line broke")
            case "nothing":
                raise NothingDone("the shop is closed")
            case "late":
                raise TookTooLong
            case "kill":
                raise Killed
        return "done"

    def reply(self, request: Request) -> Assistant:
        place = sum(isinstance(message, Assistant) for message in request.messages)
        return self.script[place % len(self.script)]

    def approve(self, asked: AskHuman) -> Verdict:
        assert self.decisions is not None
        self.asked.append((len(self.messages), asked))
        decision = self.decisions.pop(0) if self.decisions else "no"
        if decision == "kill":
            raise Killed
        return as_verdict(decision, asked.call.id if asked.call else "")

    def all_done(self, turn: object) -> str | None:
        assert self.missing is not None
        is_missing = self.missing.pop(0) if self.missing else False
        return "ORD-1 is open" if is_missing else None

    def watch(self, event: object) -> None:
        if isinstance(event, MESSAGES):
            self.messages.append(event)
        self.events += 1
        assert self.events < MOST_EVENTS, "the run does not end"
        self.until_kill -= 1
        if self.until_kill == 0:
            raise Killed

    def play(self, folder: str) -> None:
        """Run and resume until the last turn is over."""
        path = Path(folder) / "run.jsonl"
        speaks = True
        for _ in range(MOST_LIVES):
            self.until_kill = self.kills.pop(0) if self.kills else 0
            saved = path if self.in_file else list(self.messages)
            try:
                if speaks:
                    outcome = self.agent().run("Go on.", transcript=saved, on_event=self.watch)
                else:
                    outcome = self.agent().resume(saved, on_event=self.watch)
            except Killed:
                self.until_kill = 0
                speaks = not self.messages or (self.next_turn() and not self.in_file)
                continue
            self.judge_end(outcome)
            if self.in_file:
                assert kept(path) == self.messages
            if outcome.exit == "needs_human":
                if not self.verdicts:
                    return
                self.decide(self.verdicts.pop(0), path)
                speaks = False
            elif self.next_turn():
                speaks = True
            else:
                return

    def next_turn(self) -> bool:
        return self.turns.pop(0) if self.turns else False

    def decide(self, decision: str, path: Path) -> None:
        """A person's verdict about the call that waits, put into the transcript by hand."""
        waiting = naive.waiting(naive.split(self.messages)[-1])
        verdict = as_verdict(decision, waiting[0].id if waiting else "")
        verdict = replace(verdict, at=NOW)
        self.messages.append(verdict)
        if self.in_file:
            with closing(Transcript(path, self.agent().made_of(), now=NOW)) as transcript:
                transcript.append(verdict)

    def judge_end(self, outcome: Outcome) -> None:
        turn = naive.split(self.messages)[-1]
        last = self.messages[-1]
        assert list(outcome.transcript) == self.messages
        if outcome.exit == "needs_human":
            assert not isinstance(last, Ended)
        else:
            assert isinstance(last, Ended)
            assert last.exit == outcome.exit
        assert len(naive.replies(turn)) <= self.options["max_model_calls"]
        actions = [item for item in naive.answered(turn) if item.ran]
        assert len(actions) <= self.options.get("max_actions", len(actions))
        assert sum(naive.says(message, "check") for message in turn) <= 2
        if outcome.exit in ("signal", "silence") and self.missing is not None:
            checked = naive.checks_since(turn)
            assert [check.missing for check in checked.values()] == [None]
        if outcome.exit != "truncated":  # a resume goes on from there
            again = self.agent().resume(outcome.transcript)
            assert (again.exit, again.answer) == (outcome.exit, outcome.answer)
            assert again.transcript == outcome.transcript


def as_verdict(decision: str, call_id: str) -> Verdict:
    match decision:
        case "edit":
            return Verdict("yes", call_id, arguments={"n": 4} if call_id else None)
        case "bad edit":
            return Verdict("yes", call_id, arguments={"n": "four"} if call_id else None)
        case "no":
            return Verdict("no", call_id)
        case "quit":
            return Verdict("quit", call_id)
    return Verdict("yes", call_id)


def is_much(given: dict[str, Any]) -> bool:
    """Is a person asked about it? It raises for 5."""
    return {0: False, 1: False, 2: False, 3: True, 4: True}[given["n"]]


def edits(step: Any, turn: object) -> Any:
    """A policy of the user: 1 becomes 3."""
    if isinstance(step, CallTool) and naive.argument(step.call, "n") == 1:
        return CallTool(replace(step.call, arguments={"n": 3}))
    return step


def refuses(step: Any, turn: object) -> Any:
    """A policy of the user: 3 is refused."""
    if isinstance(step, CallTool) and naive.argument(step.call, "n") == 3:
        return Refuse(step.call, "rule", "not run: it is a rule.")
    return step


def renames(step: Any, turn: object) -> Any:
    if isinstance(step, CallTool):
        return CallTool(replace(step.call, id="another"))
    return step


machines = st.builds(
    Machine,
    st.lists(replies, min_size=1, max_size=6),
    options,
    approvals,
    st.sampled_from(["", "", "", "edit", "refuse", "rename"]),
    st.lists(faults, max_size=8),
    st.none() | st.lists(decisions, max_size=8),
    st.lists(decisions.filter(lambda decision: decision != "kill"), max_size=4),
    st.none() | st.lists(st.booleans(), max_size=6),
    st.lists(kills, max_size=4),
    st.booleans(),
    st.lists(st.booleans(), max_size=3),
)


# The rules.


def assert_only_allowed_calls_ran(machine: Machine) -> None:
    for ran in machine.ran:
        before = machine.messages[: ran.place]
        turn = naive.split(before)[-1]
        call = naive.waiting(turn)[0]
        notes = naive.notes(turn)
        verdicts = [note for note in notes if isinstance(note, Verdict)]

        assert ran.name == call.name
        if ran.name in GUARDED:
            assert naive.behind(before, call, GUARDED), "no thought stands behind it"
        if verdicts:
            assert verdicts[-1].decision == "yes", "a person said no"
        if ran.name in ("pay", "book") and needs_yes(machine, ran.n):
            assert verdicts, "nobody was asked"
        if call.recovered and ran.name in CHANGE:
            assert verdicts, "it was written as text"
        assert_allowed_arguments(machine, ran, call, verdicts)


def needs_yes(machine: Machine, n: int) -> bool:
    return machine.approval is True or (machine.approval == "above 2" and n > 2)


def assert_allowed_arguments(
    machine: Machine, ran: Ran, call: ToolCall, verdicts: Sequence[Verdict]
) -> None:
    """A tool gets the arguments that the model wrote, a policy set, or a person put in. A person
    who said yes had seen them.
    """
    written = int(call.arguments["n"])  # type: ignore[index, call-overload]
    if machine.policy == "edit" and naive.argument(call, "n") == 1:
        written = 3
    fitting = [verdict for verdict in verdicts if verdict.arguments != {"n": "four"}]
    given = [verdict.arguments for verdict in fitting if verdict.arguments is not None]
    if not given:
        assert ran.n == written
    else:
        assert ran.n in [int(one["n"]) for one in given]
    if not verdicts:
        return
    places = [place for place, asked in machine.asked if asked.call and place < ran.place]
    shown = [asked for place, asked in machine.asked if places and place == places[-1]]
    if shown and shown[-1].call and verdicts[-1].arguments is None:
        assert int(shown[-1].call.arguments["n"]) == ran.n  # type: ignore[index]


def assert_doubt_is_one_rule(machine: Machine) -> None:
    """A call in doubt is started again only after a yes, or in the same turn with the same key."""
    keys: set[str] = set()
    for place, message in enumerate(machine.messages):
        if not isinstance(message, Started):
            continue
        before = machine.messages[:place]
        turn = naive.split(before)[-1]
        call = naive.waiting(turn)[0]
        count, key, number = naive.doubts(before).get(naive.decided(turn, call), (0, "", 0))
        notes = naive.notes(turn)
        decided = bool(notes) and isinstance(notes[-1], Verdict)
        turns = sum(naive.says(m, "person") for m in before)
        if message.name == "pay":
            assert not count or decided, "it is repeated, and nobody was asked"
        else:
            assert not count or number == turns or decided, "the same, in a later turn"
            assert message.key == key if count else message.key not in keys
            keys.add(message.key)
            assert message.key


def assert_each_start_is_one_call(machine: Machine) -> None:
    """A tool that changes something and is not idempotent runs once for each start, with the key of
    that start.
    """
    starts = [place for place, m in enumerate(machine.messages) if isinstance(m, Started)]
    for ran in machine.ran:
        if ran.name in ("pay", "book"):
            assert ran.place - 1 in starts
            assert machine.messages[ran.place - 1].key == ran.key  # type: ignore[union-attr]
    places = [ran.place for ran in machine.ran if ran.name in ("pay", "book")]
    assert len(places) == len(set(places))


def assert_results_are_true(machine: Machine) -> None:
    """The result of a call says how the call ended."""
    for ran in machine.ran:
        after = machine.messages[ran.place : ran.place + 1]
        for result in after:
            if ran.fault == "kill" or not isinstance(result, ToolResult):
                continue
            changes = ran.name in ("pay", "book")
            assert result.refused == ""
            assert result.is_error == (ran.fault != "ok")
            assert result.in_doubt == (changes and ran.fault in ("raise", "late"))


def judge(machine: Machine) -> None:
    assert_only_allowed_calls_ran(machine)
    assert_doubt_is_one_rule(machine)
    assert_each_start_is_one_call(machine)
    assert_results_are_true(machine)


@settings(max_examples=250)
@given(machines)
def test_what_may_never_happen_does_not_happen(machine):
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        machine.play(folder)
    judge(machine)

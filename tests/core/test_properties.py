"""What is true of every run, with any model, any tools and any settings.

The model fails, breaks off, repeats ids, invents tools, and writes replies that cannot be read. The
tools raise, hang, and return values that are no JSON. Each run is written to a file, stopped after
every message in turn, and resumed. (`test_oracle.py` holds every message of a run against the rules
of the design.)
"""

import tempfile
import threading
import zlib
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.support.agents import of_kind, taking_n
from tests.support.desk import said as kept
from tests.support.providers import WAYS
from tests.support.strategies import cyclic, replies
from think_agent import THINK, THINK_MINIMAL, Agent, Message, Outcome, ScriptedModel, User
from think_agent.errors import BadResponse, ModelError, Overloaded
from think_agent.loop import AskHuman
from think_agent.messages import (
    MESSAGES,
    Assistant,
    Ended,
    Paused,
    Started,
    ToolCall,
    Verdict,
)
from think_agent.model import Request
from think_agent.policies import Price
from think_agent.transcript import TranscriptFile

MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None  # fsync costs nothing there
NEVER = threading.Event()
NOW = "2026-03-01T12:00:00.000+00:00"
HISTORY = (
    User("Before"),
    Assistant("Hello.", native={"thinking": "x"}, provider="chaos"),
    Ended("silence"),
)
FAILURES = [ValueError("as ever"), StopIteration(), KeyError(), RecursionError()]
ODD = [None, b"\xff", object, float("nan"), "\ud800\0\x1b[2J", ""]

errors = st.sampled_from([Overloaded("busy", retryable=True), BadResponse("not JSON")])
scripts = st.lists(replies | replies | replies | errors, min_size=1, max_size=6)
policies = st.fixed_dictionaries(
    {
        "force": st.sampled_from(["never", "first", "always"]),
        "think": st.sampled_from([THINK, THINK, THINK_MINIMAL, None]),
        "max_model_calls": st.integers(1, 9),
    },
    optional={
        "carry": st.booleans(),
        "silence": st.sampled_from(["confirm", "ask", "accept"]),
        "max_actions": st.integers(1, 5),
        "max_tokens": st.integers(1, 900),
        "max_cost": st.floats(0.00001, 0.005),
        "max_seconds": st.just(1),
        "patience": st.integers(1, 3),
        "on_tool_error": st.sampled_from(["tell_model", "fail_fast"]),
        "max_repeats": st.integers(1, 3),
        "max_thoughts_in_a_row": st.integers(1, 3),
        "max_result_chars": st.integers(20, 60),
        "keep_turns": st.integers(1, 2),
    },
).filter(
    lambda some: (
        (some["force"] != "always" or some["think"] is THINK)
        and (some["think"] or some.get("carry"))
    )
)
End = tuple[str, str]  # how it ended: the exit and the answer, or an error


@dataclass
class World:
    """An agent on a script. `person`: can it ask one? (The decision depends on the text of the
    question.)
    """

    script: list[Assistant | ModelError]
    policies: dict[str, Any]
    person: bool

    def agent(self) -> Agent:
        def fail(n: int) -> None:
            raise FAILURES[n % 4]

        above_1 = {"needs_approval": lambda given: given["n"] > 1}
        tools = [
            taking_n("add", lambda n: n + 1, idempotent=True),
            taking_n("fail", fail),
            taking_n("odd", lambda n: ODD[n]),
            taking_n("hang", lambda n: NEVER.wait(1), timeout=0.001),
            taking_n("pay", lambda n: f"paid {n}", think_first=True, **above_1),
            taking_n("keyed", lambda n, idempotency_key: f"paid {n}", takes_key=True),
        ]
        return Agent(
            ScriptedModel(self._reply),
            tools,
            approve=self._approve if self.person else None,
            prices={"script": Price(input=3, output=15)},
            now=lambda: NOW,
            **self.policies,
        )

    def _reply(self, request: Request) -> Assistant:
        item = cyclic(self.script)(request)
        if isinstance(item, ModelError):
            raise item
        return item

    def _approve(self, asked: AskHuman) -> Verdict:
        if "was tried before and may have happened" in asked.question:
            return Verdict("yes", by="a person")
        decisions = [
            Verdict("yes", by="a person"),
            Verdict("yes", arguments={"n": 2} if asked.call else None),
            Verdict("no", reason="\x1b[2J"),
            Verdict("quit"),
        ]
        question = asked.question.encode("utf-8", "surrogatepass")
        return decisions[zlib.crc32(question) % len(decisions)]

    def begin(self, folder: str) -> tuple[End, list[Message], Path]:
        """A second turn in a file that holds a first one."""
        agent, path = self.agent(), Path(folder) / "run.jsonl"
        with closing(TranscriptFile(path, agent.made_of(), now=NOW)) as transcript:
            for message in HISTORY:
                transcript.append(message)
        return ended(agent.run, "go", transcript=path), kept(path), path


worlds = st.builds(World, scripts, policies, st.booleans())


def ended(work: Callable[..., Outcome], *given: Any, **more: Any) -> End:
    try:
        outcome = work(*given, **more)
    except ModelError as error:
        return type(error).__name__, str(error)
    return outcome.exit, outcome.answer


def settled(messages: Sequence[Message]) -> list[Message]:
    """The messages without those that only a crash adds: a second Started and the yes before it."""
    kept: list[Message] = []
    doubt = False
    for message in messages:
        if not (doubt and isinstance(message, (Started, Verdict))):
            kept.append(message)
        doubt = isinstance(message, Started) or (doubt and isinstance(message, Verdict))
    return kept


# Found: without a person, a call that a crash stopped is asked about, and so the run pauses.
CALLS = ToolCall("", "add", {}), ToolCall("", "fail", {"n": 0})
STOPPED_IN_A_CALL = World(
    [Assistant(), Assistant(tool_calls=CALLS)],
    {"force": "never", "think": THINK, "max_model_calls": 2},
    person=False,
)


@settings(max_examples=40)
@example(STOPPED_IN_A_CALL)
@given(worlds)
def test_stopped_after_any_message_a_run_ends_as_if_it_was_not(world):
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        expected, said, whole = world.begin(folder)
        lines = whole.read_bytes().splitlines(keepends=True)
        path = Path(folder) / "stopped.jsonl"
        for end in range(len(HISTORY) + 1, len(said) + 1):
            path.write_bytes(b"".join(lines[: 1 + end]))
            doubtful = isinstance(said[end - 1], Started) and said[end - 1].name != "keyed"
            found = ended(world.agent().resume, path)
            if end == len(said) and expected[0] == "truncated":
                continue  # a resume goes on from there
            if doubtful and not world.person:
                assert found[0] == "needs_human"
                *before, question = kept(path)
                assert before == said[:end]
                assert isinstance(question, Paused)
            else:
                assert found == expected == ended(world.agent().resume, said[:end])
                assert settled(kept(path)) == settled(said)


@settings(max_examples=60)
@given(worlds)
def test_a_run_is_the_same_in_memory_async_and_streamed(world):
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        expected, said, _ = world.begin(folder)
    seen: list[object] = []
    watched = ended(world.agent().run, "go", transcript=HISTORY, on_event=seen.append)
    assert watched == expected
    assert [*HISTORY, *of_kind(seen, *MESSAGES)] == said
    outcomes: list[Outcome] = []

    def noted(way: Callable[..., Outcome]) -> Outcome:
        outcomes.append(way(world.agent(), "go", HISTORY))
        return outcomes[-1]

    assert {ended(noted, way) for way in WAYS} == {expected}
    assert all(list(outcome.transcript) == said for outcome in outcomes)

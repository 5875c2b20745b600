"""What holds whatever the model says, the tools do and the servers send, under any combination of
policies.

The model breaks off, raises, garbles its replies, doubles ids, invents tools and nests its JSON
deeply; the tools raise, hang and return what is no JSON. Each run is of a file, is stopped after
every message in turn, and goes on from there. The servers, one for each provider, are at the end.
"""

import asyncio
import contextlib
import json
import tempfile
import threading
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.servers import Reply, bare, serve, sse
from tests.support.providers import SPEAKS, model_of
from tests.support.strategies import (
    answers,
    exit_signals,
    json_values,
    objects,
    stop_reasons,
    texts,
)
from think_agent import (
    THINK,
    THINK_MINIMAL,
    Agent,
    AskHuman,
    Assistant,
    AuthError,
    BadRequest,
    BadResponse,
    ConnectionFailed,
    Message,
    Model,
    ModelError,
    Outcome,
    Overloaded,
    Request,
    ScriptedModel,
    Started,
    Tool,
    ToolCall,
    ToolResult,
    Usage,
    User,
    Verdict,
    connect,
    tool,
)
from think_agent import think as thinking
from think_agent.errors import TranscriptError
from think_agent.messages import BROKEN_OFF, MESSAGES
from think_agent.policies import Price
from think_agent.running import Event
from think_agent.transcript import Transcript

MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None  # fsync costs nothing there
NEVER = threading.Event()
NOW = "2026-03-01T12:00:00.000+00:00"
HISTORY = (User("Before"), Assistant("Hello.", native={"thinking": "x"}, provider="chaos"))

ids = st.sampled_from(["", "a", "b", "call_0", "call_1"])
names = st.sampled_from(
    ["add", "fail", "odd", "hang", "pay", "keyed", "unknown", "", "na\nme", "\x1b[2J", "\ud800"]
)
numbers = st.fixed_dictionaries({"n": st.integers(0, 5)})
thoughts = st.builds(
    ToolCall,
    ids,
    st.just("think"),
    st.fixed_dictionaries({"thought": texts | json_values, "should_continue": exit_signals})
    | objects
    | texts,
)
calls = st.builds(ToolCall, ids, names, numbers | numbers | objects | texts) | thoughts
replies = st.builds(
    Assistant,
    text=answers | st.just("\x1b]0;owned\x07 \ud800 \0"),
    thinking=texts,
    tool_calls=st.lists(calls, max_size=4).map(tuple),
    stop_reason=st.just("end_turn") | st.just("malformed") | stop_reasons,
    mistake=texts,
    usage=st.builds(Usage, st.integers(0, 99), st.integers(0, 99)),
    native=st.none() | json_values,
)
errors = st.sampled_from([Overloaded("busy", retryable=True), BadResponse("not JSON")])
scripts = st.lists(replies | replies | replies | errors, min_size=1, max_size=6)

policies = st.fixed_dictionaries(
    {
        "force": st.sampled_from(["never", "first", "always"]),
        "think": st.sampled_from([THINK, THINK, THINK_MINIMAL]),
        "max_model_calls": st.integers(1, 9),
    },
    optional={
        "max_actions": st.integers(1, 5),
        "max_tokens": st.integers(1, 900),
        "max_cost": st.floats(0.00001, 0.005),
        "max_seconds": st.just(1),
        "patience": st.integers(1, 3),
        "on_tool_error": st.sampled_from(["tell_model", "fail_fast"]),
        "max_repeats": st.integers(1, 3),
        "max_thoughts_in_a_row": st.integers(1, 3),
        "max_result_chars": st.integers(1, 60),
        "keep_turns": st.integers(1, 2),
    },
).filter(lambda some: (some["force"], some["think"]) != ("always", THINK_MINIMAL))


@dataclass
class World:
    """An agent on a script, with a person who decides by the words of the question, or nobody."""

    script: list[Assistant | ModelError]
    policies: dict[str, Any]
    person: bool
    ran: list[tuple[str, Any]] = field(default_factory=list)

    def agent(self) -> Agent:
        def add(n: int) -> int:
            self.ran.append(("add", n))
            return n + 1

        def fail(n: int) -> str:
            self.ran.append(("fail", n))
            raise [ValueError("as ever"), StopIteration(), KeyError(), RecursionError()][n % 4]

        def odd(n: int) -> object:
            self.ran.append(("odd", n))
            return [None, b"\xff", object, float("nan"), "\ud800\0\x1b[2J", ""][n]

        def hang(n: int) -> str:
            self.ran.append(("hang", n))
            NEVER.wait(0.05)
            return "too late"

        def pay(n: int) -> str:
            self.ran.append(("pay", n))
            return f"paid {n}"

        def keyed(n: int, idempotency_key: str) -> str:
            self.ran.append(("keyed", idempotency_key))
            return f"paid {n}"

        return Agent(
            ScriptedModel(self._reply, name="chaos", model="m"),
            [
                tool(add, idempotent=True),
                tool(fail),
                tool(odd),
                tool(hang, timeout=0.001),
                tool(pay, think_first=True, needs_approval=lambda given: given["n"] > 1),
                tool(keyed),
            ],
            approve=self._approve if self.person else None,
            prices={"m": Price(input=3, output=15)},
            now=lambda: NOW,
            **self.policies,
        )

    def _reply(self, request: Request) -> Assistant:
        said = sum(isinstance(message, Assistant) for message in request.messages)
        item = self.script[said % len(self.script)]
        if isinstance(item, ModelError):
            raise item
        return item

    def _approve(self, asked: AskHuman) -> Verdict:
        if "was started and has no result" in asked.question:
            return Verdict("yes", by="a person")
        edit = {"n": 2} if asked.call else None
        decisions = [
            Verdict("yes", by="a person"),
            Verdict("yes", arguments=edit),
            Verdict("no", reason="\x1b[2J"),
            Verdict("quit"),
        ]
        question = asked.question.encode("utf-8", "surrogatepass")
        return decisions[zlib.crc32(question) % len(decisions)]


worlds = st.builds(World, scripts, policies, st.booleans())
End = tuple[str, str]  # how it ended: the exit and the answer, or an error


def begin(world: World, path: Path) -> tuple[End, list[Message]]:
    """A second turn in a file that holds a first one."""
    agent = world.agent()
    with Transcript(path, agent.made_of(), now=NOW) as transcript:
        for message in HISTORY:
            transcript.append(message)
    end = ended(lambda: agent.run("go", transcript=path))
    return end, read(path)


def ended(work: Callable[[], Outcome]) -> End:
    try:
        outcome = work()
    except ModelError as error:
        return type(error).__name__, str(error)
    return outcome.exit, outcome.answer


def read(path: Path) -> list[Message]:
    with Transcript(path, {}, now=NOW) as transcript:
        return list(transcript)


@contextlib.contextmanager
def a_folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        yield Path(folder)


@settings(max_examples=150)
@given(worlds)
def test_every_run_ends_and_every_rule_holds(world):
    with a_folder() as folder:
        _, said = begin(world, folder / "run.jsonl")
        for line in (folder / "run.jsonl").read_text("ascii").splitlines():
            assert isinstance(json.loads(line), dict)
    turn = said[len(HISTORY) :]
    assert said[: len(HISTORY)] == list(HISTORY)
    assert turn[0] == User("go")
    replies = [message for message in turn if isinstance(message, Assistant)]
    assert len(replies) <= world.policies["max_model_calls"]
    rounds = in_rounds(turn)
    for place, (reply, after) in enumerate(rounds):
        answered = [(m.call_id, m.name) for m in after if isinstance(m, ToolResult)]
        asked = [(call.id, call.name) for call in reply.tool_calls]
        if reply.tool_choice == "none" or reply.stop_reason in (*BROKEN_OFF, "malformed"):
            assert answered == []
        elif place < len(rounds) - 1:
            assert answered == asked
        else:  # where the run ended or paused
            assert answered == asked[: len(answered)]
        assert all(call.id for call in reply.tool_calls)
    if "none" in (choices := [reply.tool_choice for reply in replies]):
        assert set(choices[choices.index("none") :]) == {"none"}
    assert_only_what_was_allowed_ran(world, rounds)
    actions = [m for m in turn if isinstance(m, ToolResult) and m.name != "think" and not m.refused]
    assert len(actions) <= world.policies.get("max_actions", len(actions))


def assert_only_what_was_allowed_ran(
    world: World, rounds: Sequence[tuple[Assistant, list[Message]]]
) -> None:
    """A started call has its result behind it, a guarded one a thought before it that has read all
    that was asked before, and one that needs approval its own yes.
    """
    thought = False
    started = 0
    for reply, after in rounds:
        calls = iter(reply.tool_calls)
        acted = looked = False
        noted: list[Message] = []
        for message in after:
            if not isinstance(message, ToolResult):
                noted.append(message)
                continue
            call = next(calls)
            if call.name == "think":
                if thinking.thought(call).strip():
                    thought, acted = True, False
            else:
                was_started = any(isinstance(m, Started) for m in noted)
                started += was_started
                verdicts = [m for m in noted if isinstance(m, Verdict) and m.call_id == call.id]
                if message.name == "pay" and was_started:
                    assert thought
                    assert not looked
                    assert isinstance(call.arguments, dict)
                    asked = int(call.arguments["n"]) > 1
                    assert [v.decision for v in verdicts] == (["yes"] if asked else [])
                assert not (message.refused and was_started)
                acted = acted or not message.refused
                looked = looked or call.name != "pay"
            noted = []
        thought = thought and not acted
    assert started == sum(name != "add" for name, _ in world.ran)


def in_rounds(turn: Sequence[Message]) -> list[tuple[Assistant, list[Message]]]:
    """Each reply with what stands between it and the next."""
    rounds: list[tuple[Assistant, list[Message]]] = []
    for message in turn:
        if isinstance(message, Assistant):
            rounds.append((message, []))
        elif rounds:
            rounds[-1][1].append(message)
    return rounds


def settled(messages: Sequence[Message]) -> list[Message]:
    """The messages without what only a crash adds: a second Started, and the yes before it."""
    kept: list[Message] = []
    doubt = False
    for message in messages:
        if not (doubt and isinstance(message, (Started, Verdict))):
            kept.append(message)
        doubt = isinstance(message, Started) or (doubt and isinstance(message, Verdict))
    return kept


@settings(max_examples=60)
@given(worlds)
def test_stopped_after_any_message_it_ends_as_if_it_had_not_been(world):
    with a_folder() as folder:
        expected, said = begin(world, folder / "run.jsonl")
        lines = (folder / "run.jsonl").read_bytes().splitlines(keepends=True)
        path = folder / "stopped.jsonl"
        for end in range(len(HISTORY) + 1, len(said) + 1):
            path.write_bytes(b"".join(lines[: 1 + end]))
            doubtful = isinstance(said[end - 1], Started) and said[end - 1].name != "keyed"
            if end == len(said) and expected[0] == "truncated":
                continue  # a resume goes on from there
            found = ended(lambda: world.agent().resume(path))
            went = read(path)
            if doubtful and not world.person:
                assert found[0] == "needs_human"
                assert went == said[:end]
            else:
                assert found == expected
                assert settled(went) == settled(said)


@settings(max_examples=30)
@given(worlds)
def test_in_memory_it_is_the_same_run(world):
    with a_folder() as folder:
        expected, said = begin(world, folder / "run.jsonl")
    events: list[Event] = []
    run = world.agent().run
    assert ended(lambda: run("go", transcript=HISTORY, on_event=events.append)) == expected
    went = [event for event in events if isinstance(event, MESSAGES)]
    assert [*HISTORY, *went] == said
    if isinstance(events[-1], Outcome):
        assert list(events[-1].transcript) == said


# The extremes, one by one.


class Extreme:
    """A reply of a kind no healthy model gives, and then the end."""

    def __init__(self, *calls: ToolCall) -> None:
        self.calls, self.n = calls, 0

    def agent(self, **more: Any) -> Agent:
        def work(n: int = 0) -> str:
            self.n += 1
            return f"worked {self.n}"

        def reply(request: Request) -> Assistant:
            said = sum(isinstance(message, Assistant) for message in request.messages)
            return Assistant("Done.") if said else Assistant(tool_calls=self.calls)

        raw = {"type": "object", "properties": {}}
        tools = [
            tool(work, needs_approval=more.pop("needs_approval", False)),
            tool(lambda: "x" * 10_000_000, name="huge"),
        ]
        raw_tool = type(tools[0])(name="raw", description="", parameters=raw, function=self.raw)
        return Agent(ScriptedModel(reply), [*tools, raw_tool], force="never", **more)

    def raw(self, **given: Any) -> str:
        self.n += 1
        return f"got {len(given)}"


@pytest.mark.parametrize("ids", ["distinct", "equal", "missing"])
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"needs_approval": True, "approve": lambda asked: True},
        {"on_tool_error": "fail_fast"},
    ],
    ids=["plain", "approved", "fail_fast"],
)
def test_a_thousand_calls_in_one_reply(ids, settings):
    name = {"distinct": "c{}", "equal": "same", "missing": ""}[ids]
    calls = [ToolCall(name.format(n), "work", {"n": n}) for n in range(1_000)]
    world = Extreme(*calls)
    with a_folder() as folder:
        outcome = world.agent(**settings).run("go", transcript=folder / "run.jsonl")
    assert outcome.exit == "silence"
    assert [a.result.content for a in outcome.actions] == [f"worked {n}" for n in range(1, 1_001)]


@pytest.mark.parametrize("tool_name", ["work", "raw", "think", "unknown"])
@pytest.mark.parametrize("depth", [50, 200, 400, 700, 950])
def test_arguments_nested_deeply_work_or_are_a_clear_error(tmp_path, tool_name, depth):
    deep: Any = {}
    for _ in range(depth):
        deep = {"a": deep}
    path = tmp_path / "run.jsonl"
    world = Extreme(ToolCall("1", tool_name, {"n": deep}))
    error = ""
    try:
        written = world.agent().run("go", transcript=path).transcript
    except TranscriptError as refused:  # how deep is too deep depends on who calls
        error, written = str(refused), (User("go"),)
    assert not error or (depth >= 400 and "nested too deeply" in error)
    assert read(path) == list(written)
    assert world.agent().run("go").exit == "silence"


def test_a_result_of_ten_megabytes_is_cut_and_says_so():
    outcome = Extreme(ToolCall("1", "huge")).agent().run("go")
    content = outcome.actions[0].result.content
    assert len(content) < 21_000
    assert content.endswith("of 10,000,000 characters left out]")


@pytest.mark.parametrize("name", ["na\nme", "\x1b[2J", "\ud800", "x" * 100_000, "\0"])
def test_a_call_by_any_name_is_answered(tmp_path, name):
    outcome = Extreme(ToolCall("1", name)).agent().run("go", transcript=tmp_path / "run.jsonl")
    (action,) = outcome.actions
    assert action.result.is_error
    assert "there is no tool" in action.result.content
    assert "\x1b" not in action.result.content
    assert len(outcome.report.splitlines()) == 1


# Servers that send anything, and settings that nothing can be sent with.

PROVIDERS = pytest.mark.parametrize("provider", SPEAKS)
HI = Request([User("hi")])


async def _all_of(model: Model, request: Request) -> list[Any]:
    return [item async for item in model.astream(request)]


WAYS: dict[str, Callable[[Model, Request], Any]] = {
    "complete": lambda model, request: model.complete(request),
    "acomplete": lambda model, request: asyncio.run(model.acomplete(request)),
    "stream": lambda model, request: list(model.stream(request)),
    "astream": lambda model, request: asyncio.run(_all_of(model, request)),
}
NO_ANSWERS = ["[" * 100_000, "5", "NaN", "null", "[]", '"hi"', '{"error": "exploded"}']
IN_A_STREAM = [
    '{"choices": [{"delta": {"content": 5}}]}',
    '{"choices": [{"delta": {"tool_calls": [{"function": {"name": 5, "arguments": 7}}]}}]}',
    '{"type": "response.output_text.delta", "delta": 5}',
    '{"candidates": [{"content": {"parts": [{"text": 5}]}}]}',
    '{"message": {"content": 5}, "done": true}',
]


def no_answer(text: str, way: str, provider: str) -> Reply:
    if "stream" not in way:
        return Reply(body=text)
    return Reply(chunks=[f"{text}\n".encode() if provider == "ollama" else sse(text)])


@PROVIDERS
@pytest.mark.parametrize("way", WAYS)
def test_an_answer_that_is_none_is_an_error_of_ours(provider, way):
    with serve(SPEAKS[provider][0](), lambda _: Assistant()) as server:
        model = model_of(provider, server)
        bare(model).retries = 0
        for text in NO_ANSWERS + (IN_A_STREAM if "stream" in way else []):
            server.canned = [no_answer(text, way, provider)]
            with pytest.raises(ModelError) as caught:
                WAYS[way](model, HI)
            assert str(caught.value).startswith(SPEAKS[provider][1].partition(":")[0])
            assert len(str(caught.value)) < 500


NO_CALL = {"id": None, "name": None, "input": None, "args": None, "arguments": None}
HOLDING_A_CALL = {
    "openai-chat": {"choices": [{"message": {"tool_calls": [{"function": NO_CALL}]}}]},
    "openai-responses": {"output": [{"type": "function_call", **NO_CALL}]},
    "anthropic": {"content": [{"type": "tool_use", **NO_CALL}]},
    "gemini": {"candidates": [{"content": {"parts": [{"functionCall": NO_CALL}]}}]},
    "ollama": {"message": {"role": "assistant", "tool_calls": [{"function": NO_CALL}]}},
}


@PROVIDERS
@pytest.mark.parametrize("way", ["complete", "acomplete"])
def test_a_call_of_nothing_is_no_reply(provider, way):
    with serve(SPEAKS[provider][0](), lambda _: Assistant()) as server:
        server.canned = [Reply(body=HOLDING_A_CALL[provider])]
        with pytest.raises(BadResponse):
            WAYS[way](model_of(provider, server), HI)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("provider", ["openai-chat", "openai-responses"])
def test_what_cannot_be_sent_is_not_blamed_on_the_server(provider, way):
    """A set is no JSON; that is a mistake in the program that wrote it."""
    odd = Tool(name="odd", description="", parameters={"type": "object", "enum": {1}})
    with serve(SPEAKS[provider][0](), lambda _: Assistant()) as server:
        with pytest.raises(TypeError, match="set"):
            WAYS[way](model_of(provider, server), Request([User("hi")], [odd]))
        assert server.requests == []


@PROVIDERS
def test_half_characters_of_a_model_do_not_end_the_conversation(provider):
    def brain(request: Request) -> Assistant:
        if isinstance(request.messages[-1], User):
            return Assistant("a\ud800b", tool_calls=(ToolCall("c1", "echo", {"x": "\udfff"}),))
        return Assistant("z\udfff")

    def echo(x: str) -> str:
        """Say it again."""
        return x

    with serve(SPEAKS[provider][0](), brain) as server:
        agent = Agent(model_of(provider, server), [tool(echo)], think=None)
        outcomes = [
            agent.run("go"),
            asyncio.run(agent.arun("go")),
            list(agent.stream("go"))[-1],
        ]
        for outcome in outcomes:
            assert outcome.answer == "z\ufffd"
            again = agent.run("again", transcript=outcome.transcript)
            assert again.answer == "z\ufffd"
            assert [m.text for m in again.transcript if isinstance(m, Assistant)] == [
                "a\ufffdb",
                "z\ufffd",
            ] * 2
        with pytest.raises(ModelError) if provider != "gemini" else contextlib.nullcontext():
            agent.run("\ud800")  # a person's own are theirs to mend; Gemini takes them


@PROVIDERS
@pytest.mark.parametrize("way", WAYS)
def test_what_a_server_says_cannot_drive_a_terminal(provider, way):
    said = "No\n\x1b[31m \x9b2J \u202eback \ud800 Grüße"
    with serve(SPEAKS[provider][0](), lambda _: Assistant()) as server:
        error = said if provider == "ollama" else {"message": said, "code": 400}
        server.canned = [Reply(400, {"error": error})]
        with pytest.raises(BadRequest) as caught:
            WAYS[way](model_of(provider, server), HI)
    assert r"No \x1b[31m \x9b2J \u202eback \ud800 Grüße" in str(caught.value)
    assert str(caught.value).isprintable()


@PROVIDERS
@pytest.mark.parametrize("url", ["http://[::1", "http://me:secret@[::1", "http://[zz]/v1"])
def test_a_base_url_that_is_none(provider, url):
    _, spec, options = SPEAKS[provider]
    with pytest.raises(ConnectionFailed, match=r"is no URL.*base_url|base_url is no URL") as caught:
        connect(spec, base_url=url, **options).complete(HI)
    assert "secret" not in str(caught.value)


KEYS = {
    "openai-chat": "OPENAI_API_KEY",
    "openai-responses": "OPENAI_API_KEY",
    "anthropic": "ANTHROPIC_API_KEY",
    "gemini": "GEMINI_API_KEY",
    "ollama": "OLLAMA_API_KEY",
}


@PROVIDERS
@pytest.mark.parametrize("key", ["kéy123456789", "key12\n3456789"])
def test_a_key_that_no_header_can_carry(provider, key, monkeypatch):
    monkeypatch.delenv("GOOGLE_API_KEY", raising=False)
    monkeypatch.setenv(KEYS[provider], key)
    _, spec, options = SPEAKS[provider]
    options = {name: value for name, value in options.items() if name != "api_key"}
    with pytest.raises(AuthError, match=f"no header can carry.*{KEYS[provider]}") as caught:
        connect(spec, **options)
    assert "123456" not in str(caught.value)


@pytest.mark.parametrize("timeout", [-1, 0, True, float("nan"), float("inf"), "5", None])
def test_a_timeout_that_is_none(timeout):
    with pytest.raises(ValueError, match=r"timeout=.*: use seconds above 0"):
        connect("offline", timeout=timeout)

"""The first seconds of a slow model: what a person reads before the first token. No test waits."""

import io
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest

from tests.cli.consoles import console_into, lasting
from tests.servers import ProviderServer, serve
from tests.servers.ollama import OllamaServer
from tests.support.agents import by_place
from tests.support.commands import text_of
from think_agent import Agent, Assistant, Delta, Model, Request, ScriptedModel, connect, tool
from think_agent.cli import RunView, waiting
from think_agent.cli.waiting import describe_wait
from think_agent.dialects.base import Wrapper
from think_agent.testing import call

SECONDS = 60  # until a test gives up


class Slow(Model):
    """A model of a server, which streams."""

    name = "ollama"
    model = "qwen3.5:4b"

    def stream(self, request: Request) -> Iterator[Assistant]:
        yield Assistant("Hello.")


@dataclass
class Case:
    place: str | None
    is_first: bool
    says: str


CASES = [
    Case(
        "",
        True,
        "loading qwen3.5:4b into memory; then it reads the prompt, about 1,100 tokens. "
        "On a CPU, a smaller model is faster.",
    ),
    Case(
        "CPU",
        True,
        "qwen3.5:4b is reading the prompt, about 1,100 tokens, on the CPU. "
        "A smaller model is faster; later requests read only what is new.",
    ),
    Case("GPU", True, "qwen3.5:4b is reading the prompt, about 1,100 tokens"),
    Case("GPU", False, "qwen3.5:4b is reading what is new in the prompt, about 1,100 tokens"),
    Case(None, True, "waiting for ollama:qwen3.5:4b"),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.place} {case.is_first}")
def test_the_words_for_each_state_of_a_server(case):
    assert describe_wait(Slow(), case.place, 1_123, is_first=case.is_first) == case.says


def test_where_nothing_streams_no_token_is_promised():
    whole = describe_wait(Wrapper(Slow()), "GPU", 1_123, is_first=True)
    assert whole == "waiting for the whole reply of qwen3.5:4b"


# A view on a model that says nothing until its words are on the screen.


class Seen(io.StringIO):
    """A stream that tells when a text has been written to it."""

    def __init__(self, wanted: str) -> None:
        super().__init__()
        self.wanted = wanted
        self.is_there = threading.Event()

    def write(self, text: str) -> int:
        count = super().write(text)
        if self.wanted in " ".join(text_of(self.getvalue()).split()):
            self.is_there.set()
        return count


@tool(read_only=True)
def look() -> str:
    """Look."""
    return "found"


REPLIES = by_place(call("look"), "Here you are.")


@contextmanager
def silent_until(seen: Seen, **server: object) -> Iterator[tuple[ProviderServer, Agent]]:
    def brain(request: Request) -> Assistant:
        if len(request.messages) == 1:
            assert seen.is_there.wait(SECONDS)
        return REPLIES(request)

    with serve(OllamaServer(**server), brain) as at:
        model = connect("ollama:qwen3.5:4b", base_url=at.url)
        yield at, Agent(model, [look], force="never", silence="accept")


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    monkeypatch.setattr(waiting, "PATIENCE", 0.01)
    monkeypatch.setattr(waiting, "AGAIN", 0.01)


STATES = [
    ({"loaded": {}}, "loading qwen3.5:4b into memory"),
    ({"loaded": {"qwen3.5:4b": 16384}}, "reading the prompt, about 290 tokens, on the CPU."),
    ({"loaded": {"qwen3.5:4b": 16384}, "on_gpu": True}, "is reading the prompt, about 290 tokens"),
]


@pytest.mark.parametrize(("server", "says"), STATES)
def test_a_terminal_shows_the_words_and_wipes_them(server, says):
    out = Seen(says)
    with silent_until(out, **server) as (_, agent):
        view = RunView(console_into(out, terminal=True, width=200), agent=agent)
        with view:
            outcome = agent.run("Where is it?", on_event=view)
    assert outcome.answer == "Here you are."
    assert says not in lasting(out.getvalue())
    assert "Here you are." in lasting(out.getvalue())


@pytest.mark.parametrize(("server", "says"), STATES)
def test_a_pipe_gets_one_line_on_stderr(monkeypatch, server, says):
    err, out = Seen(says), io.StringIO()
    monkeypatch.setattr("sys.stderr", err)
    with silent_until(err, **server) as (_, agent):
        view = RunView(console_into(out, width=200), agent=agent)
        with view:
            agent.run("Where is it?", on_event=view)
    [line] = err.getvalue().splitlines()
    assert line.startswith("model call 1 of 30 · ")
    assert says in line
    assert "qwen3.5:4b" not in out.getvalue()


def test_a_pipe_hears_nothing_of_a_server_that_does_not_say_what_it_does(capsys):
    asked = threading.Event()

    class Untold(ScriptedModel):
        def where_loaded(self):
            asked.set()
            raise AttributeError("where_loaded")

        def stream(self, request):
            assert asked.wait(SECONDS)
            yield from super().stream(request)

    agent = Agent(Untold(["Hello."]), force="never")
    with RunView(console_into(io.StringIO()), agent=agent) as view:
        agent.run("Hi", on_event=view)
    assert capsys.readouterr().err == ""


def test_a_server_that_is_gone_is_not_waited_for_and_says_nothing():
    with serve(OllamaServer(), REPLIES) as at:
        model = connect("ollama:qwen3.5:4b", base_url=at.url)
    assert waiting._where_loaded(model) is None


@pytest.mark.parametrize("options", [{"quiet": True}, {"agent": None}])
def test_a_quiet_view_and_one_without_an_agent_watch_nothing_in_a_pipe(options):
    agent = Agent(Slow(), force="never")
    with RunView(console_into(io.StringIO()), **{"agent": agent, **options}) as view:
        agent.run("Hi", on_event=view)
        assert view._waiting is None


# A silence inside a reply.


class Pausing(Model):
    """A model of Ollama that sends a piece of its text, and the rest once a person has read `seen`.
    `place`: what the server says about where the model is loaded.
    """

    name = "ollama"
    model = "qwen3.5:4b"

    def __init__(self, seen: Seen, place: str | None) -> None:
        self.seen = seen
        self.place = place

    def where_loaded(self) -> str:
        if self.place is None:
            raise AttributeError("where_loaded")
        return self.place

    def stream(self, request: Request) -> Iterator[Delta | Assistant]:
        yield Delta("answer", "Let me look.")
        if len(request.messages) == 1:
            assert self.seen.is_there.wait(SECONDS)
            yield Delta("call", "{}", "look", 0)
        yield REPLIES(request)


PAUSES = [
    ("CPU", "qwen3.5:4b has sent nothing for a while: it may be thinking, or writing a call"),
    (None, "waiting for more from ollama:qwen3.5:4b"),
]


@pytest.mark.parametrize(("place", "says"), PAUSES)
def test_a_terminal_shows_why_a_reply_does_not_go_on(place, says):
    out = Seen(says)
    agent = Agent(Pausing(out, place), [look], force="never", silence="accept")
    with RunView(console_into(out, terminal=True, width=200), agent=agent) as view:
        outcome = agent.run("Where is it?", on_event=view)
    assert outcome.answer == "Here you are."
    assert says not in lasting(out.getvalue())


def test_a_pipe_gets_one_line_about_a_reply_that_does_not_go_on(monkeypatch):
    err = Seen("writing a call")
    monkeypatch.setattr("sys.stderr", err)
    agent = Agent(Pausing(err, "GPU"), [look], force="never", silence="accept")
    with RunView(console_into(io.StringIO(), width=200), agent=agent) as view:
        agent.run("Where is it?", on_event=view)
    [line] = [line for line in err.getvalue().splitlines() if "writing a call" in line]
    assert line.startswith("model call 1 of 30 · ")

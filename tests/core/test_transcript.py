"""The transcript file: what is in it, what is cut off, what is refused. Nothing is ever lost."""

import asyncio
import contextlib
import itertools
import json
import os
import resource
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, nullcontext
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.servers import serve
from tests.servers.openai_chat import Chat
from tests.support.agents import agent, look, of_kind, pay
from tests.support.sizes import ROOT
from tests.support.strategies import messages
from think_agent import Agent, Notice, ScriptedModel, connect, tool
from think_agent.errors import ModelError, TranscriptError
from think_agent.messages import Assistant, Started, ToolCall, ToolResult, User, Verdict
from think_agent.testing import call, think
from think_agent.transcript import TranscriptFile

NOW = "2026-03-01T12:00:00.000+00:00"
MADE_OF = {"model": "scripted:script", "tools": "t", "instructions": "i"}
PAY = ToolCall("1", "pay", {"cents": 8900})
SAMPLE = [
    User("Refund it", at=NOW),
    Assistant(tool_calls=(PAY,), stop_reason="tool_use", at=NOW),
    Started("1", "pay", at=NOW),
    ToolResult("1", "pay", "paid", at=NOW),
    Verdict("yes", "1", "is fine", "Ada", {"cents": 100}, at=NOW),
    Assistant("Done. \N{MONEY BAG}", at=NOW),
]


def opened(path: Path, **made_of: str) -> TranscriptFile:
    return TranscriptFile(path, {**MADE_OF, **made_of}, now=NOW)


def written(path: Path, sample=SAMPLE) -> Path:
    with closing(opened(path)) as transcript:
        for message in sample:
            transcript.append(message)
    return path


def read(path: Path) -> list:
    with closing(opened(path)) as transcript:
        return transcript.messages


def lines(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text("ascii").splitlines()]


def paying_agent(pay: Callable[[int], str] = str, **settings) -> Agent:
    def run(cents: int) -> str:
        return pay(cents)

    model = ScriptedModel([PAY, "Paid."])
    return Agent(model, [tool(run, name="pay")], force="never", **settings)


# What is in the file.


def test_a_file_has_a_header_then_one_line_a_message_then_the_end(tmp_path):
    path, before_it = tmp_path / "run.jsonl", []

    def pay(cents: int) -> str:
        before_it.extend(lines(path))
        return "paid"

    outcome = paying_agent(pay).run("Pay", transcript=path)
    header, *records = lines(path)
    assert before_it == [header, *records[:3]]  # each is on the disk before the next step
    assert [header[key] for key in ("type", "version")] == ["transcript", 3]
    assert header["model"] == "scripted:script"
    kinds = ["user", "assistant", "started", "toolresult", "assistant", "ended"]
    assert [record["type"] for record in records] == kinds
    assert [type(m).__name__.lower() for m in outcome.transcript] == kinds
    assert records[-1]["exit"] == "silence"
    for record in [*records, {"at": header["created"]}]:
        assert datetime.fromisoformat(record["at"]).utcoffset() == timedelta(0)


def test_only_the_owner_may_read_a_file_and_its_folders_are_made(tmp_path):
    before = os.umask(0)
    try:
        path = written(tmp_path / "runs" / "today" / "x.jsonl")
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.chmod(0o644)
    written(path)  # opened again
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


AS_ON_WINDOWS = """
import importlib, os, struct, sys, types
import fcntl as posix
import think_agent.transcript

def locking(fd, mode, nbytes):  # of Windows: it locks bytes, from the position of the file
    lock = struct.pack("hhqqi4x", posix.F_WRLCK, 0, os.lseek(fd, 0, os.SEEK_CUR), nbytes, 0)
    posix.fcntl(fd, posix.F_OFD_SETLK, lock)

msvcrt = types.SimpleNamespace(LK_NBLCK=2, locking=locking)
sys.modules.update(fcntl=None, readline=None, msvcrt=msvcrt)
del os.fchmod
sys.platform = "win32"
importlib.reload(think_agent.transcript)
sys.platform = "linux"
del sys.modules["msvcrt"]  # others take it for Windows
"""
RUN = """
from demos.refund.__main__ import PROG, refund, run
sys.exit(run(refund, PROG))
"""


def test_the_demo_keeps_its_transcript_where_there_is_no_posix(tmp_path):
    path = tmp_path / "run.jsonl"
    words = ["--provider", "offline", "--transcript", str(path), "Refund ORD-001"]
    command = [sys.executable, "-c", AS_ON_WINDOWS + RUN, *words]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr, done.stderr
    assert lines(path)[-1]["type"] == "ended"


def test_a_file_holds_no_api_key(tmp_path):
    path, key = tmp_path / "run.jsonl", "sk-proj-0123456789abcdef"
    with serve(Chat(), lambda request: Assistant("Hello.")) as server:
        model = connect("openai:local", base_url=server.url + "/v1", api_key=key, api="chat")
        Agent(model, force="never").run("Hi", transcript=path)
        assert server.headers[0]["authorization"] == f"Bearer {key}"
    assert b"sk-proj" not in path.read_bytes()


def test_the_same_tools_cause_no_notice_whatever_they_say_of_themselves(tmp_path):
    @tool(think_first=True, same=("cents",), needs_approval=True, timeout=2.5)
    def pay(cents: int, idempotency_key: str, note: str | None = None) -> str:
        """Pay."""
        return "paid"

    path = tmp_path / "run.jsonl"
    desk = agent("Hello.", "Hello again.", tools=[pay])
    desk.run("Hi", transcript=path)
    assert of_kind(desk.stream("Hi", transcript=path), Notice) == []


def test_a_transcript_can_only_be_appended_to(tmp_path):
    with closing(opened(tmp_path / "run.jsonl")) as transcript:
        with pytest.raises(AttributeError):
            transcript.extend(SAMPLE)
        with pytest.raises(TypeError):
            transcript += SAMPLE
        with pytest.raises(TypeError):
            transcript[:] = SAMPLE
        assert transcript.messages == []


@pytest.mark.parametrize("settings", [{}, {"force": "always"}, {"max_model_calls": 1}])
def test_a_turn_that_is_over_stays_over_under_other_settings(settings, tmp_path):
    path = tmp_path / "run.jsonl"
    first = agent(think("There is more to do."), "Hello.")
    assert first.run("Hi", transcript=path).exit == "silence"
    other = Agent(ScriptedModel("Bye."), **settings)
    again = other.resume(path)
    assert again.exit == "silence"
    assert again.answer == "Hello."
    assert other.run("And now?", transcript=path).answer == "Bye."


# Torn and broken files, and files of other kinds.


def test_a_last_line_torn_at_any_byte_is_cut_off(tmp_path):
    whole = written(tmp_path / "whole.jsonl").read_bytes()
    start = whole.rindex(b"\n", 0, -1) + 1
    path = tmp_path / "torn.jsonl"
    for end in range(start, len(whole) + 1):
        path.write_bytes(whole[:end])
        with closing(opened(path)) as transcript:
            complete = end >= len(whole) - 1  # only the line break may be missing
            kept = SAMPLE if complete else SAMPLE[:-1]
            assert transcript.messages == kept
            torn = [f"{path}: a torn last line was cut off."] * (start < end and not complete)
            assert list(transcript.notices) == torn
            transcript.append(SAMPLE[0])
        assert read(path) == [*kept, SAMPLE[0]]


@pytest.mark.parametrize("tail", [b"\0" * 512, b"\xff\xfe", b'{"type": "user"\n', b"]\n"])
def test_a_last_line_of_garbage_is_cut_off(tmp_path, tail):
    path = written(tmp_path / "run.jsonl")
    whole = path.read_bytes()
    path.write_bytes(whole + tail)
    assert read(path) == SAMPLE
    assert path.read_bytes() == whole


def test_a_header_torn_at_any_byte_is_written_again(tmp_path):
    header = written(tmp_path / "whole.jsonl", []).read_bytes()
    path = tmp_path / "torn.jsonl"
    for end in range(len(header)):
        path.write_bytes(header[:end])
        assert read(path) == []
        assert lines(path)[0]["type"] == "transcript"


BROKEN = [b"\0\0\0\0", b"not JSON", b"[" * 100_000, b"[]", b"{}", b""]
BROKEN += [b'{"type":"unheard of"}', b'{"type":"user"}', b'{"type":"assistant","usage":[]}']


@pytest.mark.parametrize("broken", BROKEN, ids=lambda line: line[:24].decode())
def test_a_broken_line_in_the_middle_is_named_and_the_file_is_not_changed(tmp_path, broken):
    path = written(tmp_path / "run.jsonl")
    whole = path.read_bytes().splitlines()
    for number in range(2, len(whole)):
        data = b"\n".join([*whole[: number - 1], broken, *whole[number:], b'{"type":"us'])
        path.write_bytes(data)
        with pytest.raises(TranscriptError, match=rf"line {number}: ") as caught:
            opened(path)
        assert len(str(caught.value).splitlines()) == 1
        assert path.read_bytes() == data


FOREIGN = [b"my notes", b"my notes\n", b"my notes\nof many years\n", b"{}", b"\0\0\0\0"]
FOREIGN += [b'{"type":"transcript","version":%d}\n' % version for version in (1, 2, 4)]
FOREIGN += [b'{"type":"user","text":"x"}\n']


@pytest.mark.parametrize("content", FOREIGN)
def test_a_file_of_another_kind_is_refused_and_not_changed(tmp_path, content):
    path = tmp_path / "notes.txt"
    path.write_bytes(content)
    with pytest.raises(TranscriptError, match="line 1: "):
        opened(path)
    assert path.read_bytes() == content


@pytest.mark.parametrize(
    "name", [".", "run.jsonl/under/a/file", "\0", "x" * 300, "fifo", "/dev/full", "/dev/null"]
)
def test_an_unusable_path_is_an_error_of_one_line(tmp_path, name):
    (tmp_path / "run.jsonl").touch()
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(TranscriptError) as caught:
        opened(tmp_path / name)
    assert len(str(caught.value).splitlines()) == 1


def test_resume_makes_no_file(tmp_path):
    path = tmp_path / "mistyped" / "run.jsonl"
    with pytest.raises(TranscriptError, match=r"run\.jsonl"):
        paying_agent().resume(path)
    assert not path.parent.exists()


# One process at a time.

HOLD = """
import sys
from contextlib import closing, nullcontext
from think_agent.transcript import TranscriptFile
with closing(TranscriptFile(sys.argv[1], {}, now="")):
    print("open", flush=True)
    sys.stdin.read()
"""


@pytest.mark.parametrize("system", ["", AS_ON_WINDOWS], ids=["posix", "as on Windows"])
def test_a_second_process_is_refused_until_the_first_has_ended_or_was_killed(tmp_path, system):
    path = written(tmp_path / "run.jsonl")
    before = path.read_bytes()
    command = [sys.executable, "-c", system + HOLD, path]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "cwd": ROOT}
    with subprocess.Popen(command, stdin=subprocess.PIPE, **pipes) as other:
        assert other.stdout
        assert other.stdout.readline() == b"open\n"
        refused = subprocess.run(command, input=b"", check=False, **pipes)
        assert refused.stdout == b""
        assert b"another run has it open" in refused.stderr
        assert path.read_bytes() == before  # whoever only reads is not refused
        other.kill()
    assert subprocess.run(command, input=b"", check=True, **pipes).stdout == b"open\n"


def test_an_error_frees_the_file(tmp_path):
    path = tmp_path / "run.jsonl"

    def boom(event) -> None:
        raise RuntimeError("a watcher with a bug")

    with pytest.raises(RuntimeError) as caught:  # which keeps the frames of the run
        paying_agent().run("Pay", transcript=path, on_event=boom)
    assert read(path)[-1] == User("Pay")
    assert str(caught.value) == "a watcher with a bug"


# Full disks.


@contextlib.contextmanager
def full_disk(size: int) -> Iterator[None]:
    """No file may become larger than this."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("size", [100, 3_000, 70_000])
def test_a_full_disk_loses_nothing(tmp_path, size):
    path, kept = tmp_path / "run.jsonl", []

    def fill(transcript: TranscriptFile) -> None:
        for number in itertools.count():
            message = User(f"{number} " + "x" * size)
            transcript.append(message)
            kept.append(message)

    with (
        full_disk(64 * 1024),
        closing(opened(path)) as transcript,
        pytest.raises(TranscriptError, match="cannot be written") as caught,
    ):
        fill(transcript)
    assert len(str(caught.value).splitlines()) == 1
    assert path.read_bytes().endswith(b"}\n")
    assert transcript.messages == kept == read(path)


def test_a_call_whose_start_cannot_be_written_is_not_run(tmp_path):
    path, ran = tmp_path / "run.jsonl", []
    paying = paying_agent(ran.append)
    with paying.open(path) as transcript:
        for message in SAMPLE[:2]:
            transcript.append(message)
    no_room = pytest.raises(TranscriptError, match="cannot be written")
    with full_disk(path.stat().st_size + 20), no_room:
        paying.resume(path)
    assert ran == []
    assert read(path) == SAMPLE[:2]


@pytest.mark.parametrize("room", [0, 10])
@pytest.mark.parametrize("is_begun", [False, True], ids=["first header", "later header"])
def test_a_disk_that_is_full_at_a_header_changes_nothing_and_keeps_no_lock(
    room, is_begun, tmp_path
):
    path, before = tmp_path / "run.jsonl", b""
    if is_begun:
        paying_agent().run("Pay", transcript=path)
        before = path.read_bytes()
    other = paying_agent(instructions="Be brief.")
    no_room = pytest.raises(TranscriptError, match="cannot be written")
    with full_disk(len(before) + room), no_room as caught:
        other.run("And again", transcript=path)
    assert caught.traceback  # it keeps the frames, so only `close` frees the file
    assert path.read_bytes() == before
    assert other.run("And again", transcript=path).answer == "Paid."


# Beside the event loop.


def test_a_run_that_is_cancelled_while_its_file_is_opened_frees_it(tmp_path):
    path = tmp_path / "run.jsonl"
    is_open, may_go_on = threading.Event(), threading.Event()

    class Slow(Agent):
        def _open_file(self, path, opening):
            """In its thread, where the file is opened, this is slow."""
            file = super()._open_file(path, opening)
            is_open.set()
            may_go_on.wait(60)
            return file

    async def cancel_it() -> None:
        task = asyncio.create_task(Slow(ScriptedModel("Hello.")).arun("Hi", transcript=path))
        assert await asyncio.to_thread(is_open.wait, 60)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        may_go_on.set()

    asyncio.run(cancel_it())
    assert paying_agent().run("Pay", transcript=path).answer == "Paid."


# Hostile content.

# JSON joins the two halves of a surrogate pair to one character. So a text that holds them apart
# cannot come from a provider.
hostile_texts = st.text(st.characters(codec=None, exclude_categories=[]), max_size=20).map(
    lambda text: text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
)


@given(st.lists(messages, max_size=5), hostile_texts)
@settings(max_examples=60)
def test_every_message_is_read_back_as_it_was_written(said, text):
    call = ToolCall(text, text, {text: [text, None, 1e300, {}]})
    said = [*said, User(text), Assistant(text, tool_calls=(call,)), ToolResult(text, text, text)]
    with tempfile.TemporaryDirectory() as folder:
        path = written(Path(folder) / "run.jsonl", said)
        assert read(path) == said
        assert path.read_bytes().isascii()
        assert len(path.read_bytes().splitlines()) == 1 + len(said)


# Held open, over several runs.


def test_a_file_that_is_held_open_says_the_same_as_one_that_is_opened_for_each_run(tmp_path):
    def conversation(name, held):
        desk = agent(call("pay"), tools=[tool(lambda: "ok", name="pay")], now=lambda: NOW)
        path = tmp_path / name
        with desk.open(path) if held else nullcontext(path) as transcript:
            with pytest.raises(ModelError):  # the script is over
                desk.run("Pay.", transcript=transcript)
            with pytest.raises(TranscriptError, match="resume it"):
                desk.run("Pay.", transcript=transcript)
            desk.model = ScriptedModel(["Paid.", "Hello."])
            first = desk.resume(transcript)
            second = asyncio.run(desk.arun("Hi", transcript=transcript))
        return read(path), first.transcript, second.transcript, second.turn

    held = conversation("held.jsonl", True)
    assert held == conversation("opened.jsonl", False)
    assert [m.text for m in held[0] if isinstance(m, Assistant)] == ["", "Paid.", "Hello."]


def test_a_file_that_is_held_open_is_its_holders_until_it_is_closed(tmp_path):
    path = tmp_path / "run.jsonl"
    desk = agent("Fine.", "Fine, too.", "Here I am.")
    with desk.open(path) as held:
        desk.run("Hi", transcript=held)
        with pytest.raises(TranscriptError, match="another run has it open"):
            desk.run("Hi", transcript=path)
        desk.run("And you?", transcript=held)
    assert desk.run("And now?", transcript=path).answer == "Here I am."


def test_tools_that_have_changed_since_a_file_was_begun_are_named(tmp_path):
    path = tmp_path / "run.jsonl"
    reworded, gone = replace(pay, description="Pay, and say nothing."), replace(pay, name="gone")
    agent("Fine.", tools=[look, pay, gone]).run("Hi", transcript=path)
    other = agent(*["Fine."] * 2, tools=[look, reworded])
    [notice] = of_kind(other.stream("Hi", transcript=path), Notice)
    assert notice.text.endswith("changed since it was created: tools (pay, gone).")


def test_what_has_changed_since_a_file_was_begun_is_said_once(tmp_path):
    path = tmp_path / "run.jsonl"
    agent("Fine.").run("Hi", transcript=path)
    other = agent(*["Fine."] * 3, instructions="Be fair.")
    with other.open(path) as held:
        [notice] = of_kind(other.stream("Hi", transcript=held), Notice)
        assert notice.text.endswith("changed since it was created: instructions.")
        assert of_kind(other.stream("Hi", transcript=held), Notice) == []

"""The ten lessons: each runs both ways, prints what it always printed, and stays short.

What they print is in `data/demos`. After a change that is meant:
    for d in demos/[01]?_*.py; do n=$(basename $d .py)
        OLLAMA_HOST=127.0.0.1:9 python -m demos.$n > tests/data/demos/$n.txt; done
"""

import importlib
import io
import re
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from demos.wrapping import Wrapped, wrapped_at_words
from tests.cli.test_console import in_a_terminal
from tests.readme import ROOT, lines_of_code
from tests.servers import serve
from tests.servers.ollama import OllamaServer
from tests.servers.openai_chat import Chat
from tests.support.commands import run
from think_agent import Assistant, ToolCall

LESSONS = sorted(path.stem for path in (ROOT / "demos").glob("[01][0-9]_*.py"))
UNLIKE = {  # lessons that show what a server does its own way
    "06_streaming_thoughts",  # where it cuts a text
    "10_does_it_help",  # that a call was refused is not on the wire, and `hasty` wants to know
}
LABEL = "[scripted stand-in, no language model]"


def stored(name: str) -> str:
    return (ROOT / f"tests/data/demos/{name}.txt").read_text(encoding="utf-8")


def test_there_are_ten():
    assert [name[:2] for name in LESSONS] == [f"{number:02}" for number in range(1, 11)]


@pytest.mark.parametrize("name", LESSONS)
def test_a_lesson_prints_what_it_always_printed(name):
    ways = [("-m", f"demos.{name}"), (f"demos/{name}.py",)]
    with ThreadPoolExecutor(2) as pool:
        for done in pool.map(lambda way: run(*way), ways):
            assert (done.returncode, done.stderr) == (0, "")
            assert done.stdout == stored(name)


@pytest.mark.parametrize("name", LESSONS)
def test_it_says_who_speaks_first_and_what_to_notice_last(name):
    first, *_, last = stored(name).splitlines()
    assert first == LABEL
    assert last.startswith("what to notice: ")


@pytest.mark.parametrize("name", LESSONS)
def test_it_is_short_and_has_a_contract(name):
    source = (ROOT / f"demos/{name}.py").read_text(encoding="utf-8")
    assert lines_of_code(source) <= 40
    assert "\nRule 1: " in source.partition('"""\n\n')[0]


def test_the_first_lesson_loads_nothing_of_the_kit():
    code = (
        "import runpy, sys; sys.argv = ['']; "
        "runpy.run_module('demos.01_from_scratch', run_name='__main__'); "
        "print([name for name in sys.modules if name.startswith('think_agent')])"
    )
    assert run("-c", code).stdout.splitlines()[-1] == "[]"


# With a provider: what the lessons say is then said by a real adapter, over HTTP.


def test_the_first_lesson_speaks_to_ollama():
    class AnyContext(OllamaServer):  # the one thing that the kit sends and the lesson does not
        def decode(self, path, body):
            return super().decode(path, {**body, "options": {"num_ctx": 4096}})

    notes = {"thought": "Look it up.", "should_continue": "true"}
    replies = [
        Assistant(tool_calls=(ToolCall("", "think", notes),)),
        Assistant(
            tool_calls=(
                ToolCall("", "lookup_order", {"order_id": "ORD-001"}),
                ToolCall("", "lookup_order", {"number": 2}),
                ToolCall("", "fly", {}),
            )
        ),
        Assistant(tool_calls=(ToolCall("", "think", {"should_continue": False}),)),
        Assistant(text="One of the two."),
        Assistant(text="With pleasure."),
    ]
    script = iter(replies)
    with serve(AnyContext(), lambda _: next(script)) as server:
        done = run("-m", "demos.01_from_scratch", "--provider", "ollama", OLLAMA_HOST=server.url)
        sent = server.requests
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("[ollama:qwen2.5:7b]\n")
    assert "exit signal: One of the two." in done.stdout
    assert "exit silence: With pleasure." in done.stdout
    assert [bool(body.get("tools")) for body in sent] == [True, True, True, False, True]
    told = [message["content"] for message in sent[2]["messages"] if message["role"] == "tool"]
    assert told[1].startswith("Laptop Stand")
    assert [content.startswith("error: ") for content in told] == [False, False, True, True]


@pytest.mark.parametrize("name", LESSONS[1:])
def test_a_lesson_is_the_same_lesson_on_a_provider(name):
    """Its own script, behind a server that speaks Chat Completions."""
    lesson = importlib.import_module(f"demos.{name}")
    with serve(Chat(), lesson.stand_in) as server:
        url = server.url + "/v1"
        done = run(
            *("-m", f"demos.{name}", "--provider", "openai:local", "--base-url", url),
            OPENAI_API_KEY="a-test-key",
        )
        assert server.requests
    assert (done.returncode, done.stderr) == (0, "")
    _, *rest = stored(name).splitlines()
    said, *lines = done.stdout.splitlines()
    assert said == "[openai:local]"
    if name in UNLIKE:
        assert lines[-1] == rest[-1]
    else:
        assert lines == [
            line.replace("offline:stand-in", "openai:local-2026-01-01") for line in rest
        ]


def test_what_is_wrong_is_told_in_one_line():
    for name, flags, code in [
        ("02_silence_is_not_a_signal", ("--provider", "nobody"), 2),
        ("03_both_exits", ("--bogus",), 2),
        ("04_swap_the_provider", ("--provider", "ollama"), 1),
        ("01_from_scratch", ("--provider", "ollama"), 1),
        ("01_from_scratch", ("--provider", "openai"), 2),
        ("01_from_scratch", ("--bogus",), 2),
    ]:
        done = run("-m", f"demos.{name}", *flags)
        assert (done.returncode, len(done.stderr.splitlines())) == (code, 1), done.stderr


# In a terminal: lines are wrapped at words.


def shown(pieces: list[str], width: int) -> list[str]:
    """The rows of a terminal after these pieces were printed, one by one."""
    out = io.StringIO()
    wrapped = Wrapped(out, width)
    for piece in pieces:
        print(piece, end="", file=wrapped, flush=True)
    rows: list[list[str]] = []
    for row in out.getvalue().split("\n"):
        cells: list[str] = []
        column = 0
        for char in row:
            if char == "\b":
                assert column > 0
                column -= 1
            else:
                size = cell_len(char)
                cells[column : column + size] = [char, *[""] * (size - 1)]
                column += size
        rows.append(cells)
    return ["".join(cells).rstrip() for cells in rows]


texts = st.text(st.sampled_from("abcdefg,\u00e9\u65e5\u672c    \n"), max_size=120)
widths = st.integers(8, 30)


@given(texts, widths)
def test_no_row_is_wider_than_the_terminal_unless_a_single_word_is(text, width):
    for row in shown([text], width):
        assert cell_len(row) < width or re.fullmatch(r"\S+", row)


@given(texts, widths)
def test_wrapping_changes_spaces_and_line_breaks_alone(text, width):
    assert " ".join(shown([text], width)).split() == text.split()


@given(texts, widths)
def test_a_line_that_fits_stays_as_it_is(text, width):
    fits = all(cell_len(line.rstrip()) < width for line in text.split("\n"))
    if fits:
        assert shown([text], width) == [line.rstrip() for line in text.split("\n")]


@given(st.lists(texts), widths)
def test_in_pieces_it_is_the_same_as_at_once(pieces, width):
    assert shown(pieces, width) == shown(["".join(pieces)], width)


def test_a_piece_is_shown_at_once_and_a_word_moves_as_a_whole():
    assert shown(["  one two th"], 14) == ["  one two th"]
    assert shown(["  one two th", "ree"], 14) == ["  one two", "    three"]


@pytest.mark.parametrize("name", LESSONS)
def test_in_a_terminal_no_word_is_broken(name):
    screen, code, _ = in_a_terminal(["-m", f"demos.{name}", "--provider", "offline"])
    assert code == 0
    if name.startswith("06"):  # it comes in pieces, and of each one that moved '\b' tells
        screen = re.sub(r"\S*\x08+ +", "", screen)
    assert max(cell_len(line.rstrip()) for line in screen.splitlines()) < 60
    assert screen.split() == stored(name).split()


def test_in_a_pipe_nothing_is_done():
    before = sys.stdout
    with wrapped_at_words():
        assert sys.stdout is before

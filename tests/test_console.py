"""What a person sees: complete and plain in a pipe, live in a terminal, never raw."""

import io
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from think_agent import Agent, Assistant, ScriptedModel, ToolCall, tool
from think_agent.console import RunView, printable
from think_agent.trail import signature

ROOT = Path(__file__).parents[1]
HOSTILE = "\x1b[2J\x1b]0;owned\x07[red]bold[/red] \x9b31m \u202ereversed \ud800 \r\x00 :smile:"


@tool
def look(order_id: str) -> str:
    """Look."""
    return f"found {order_id}"


def watched(*replies: Assistant, terminal: bool = False, width: int = 60, **options) -> str:
    out = io.StringIO()
    console = Console(
        file=out, force_terminal=terminal, width=width, highlight=False, color_system=None
    )
    with RunView(console, **options) as view:
        Agent(ScriptedModel(list(replies)), [look], force="never").run("go", on_event=view)
    return out.getvalue()


def thinks(text: str) -> ToolCall:
    return ToolCall("t", "think", {"thought": text, "should_continue": "true"})


@given(st.text())
def test_printable_text_holds_no_control_characters_and_loses_nothing(text):
    shown = printable(text)
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", shown)
    shown.encode()
    plain = [c for c in text.replace("\r\n", "\n") if c.isprintable()]
    assert all(c in shown for c in plain)


@pytest.mark.parametrize("terminal", [False, True])
def test_hostile_text_is_shown_and_not_obeyed(terminal):
    text = watched(
        Assistant(
            HOSTILE, HOSTILE, (thinks(HOSTILE), ToolCall("1", "look", {"order_id": HOSTILE}))
        ),
        Assistant(HOSTILE),
        terminal=terminal,
        width=200,
    )
    assert "\x1b]0" not in text
    assert "\x1b[2J\x1b]" not in text
    assert "\x07" not in text
    assert text.count("[red]bold[/red]") >= 4
    assert r"\x1b]0;owned\x07" in text


def test_a_pipe_gets_whole_lines_of_any_length():
    long = "word " * 100
    lines = watched(Assistant(tool_calls=(thinks(long),)), Assistant("ok " * 200)).splitlines()
    assert f"💭 {long}".rstrip() in [line.rstrip() for line in lines]
    assert ("ok " * 200).strip() in lines


def test_a_narrow_terminal_wraps_beside_the_icon():
    text = watched(
        Assistant(tool_calls=(thinks("word " * 30),)), Assistant("ok"), terminal=True, width=30
    )
    lines = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]|\r", "", text).splitlines()
    wrapped = [line for line in lines if "word" in line]
    assert len(wrapped) > 4
    assert all(line.startswith(("💭", "   ")) for line in wrapped)


def test_each_kind_of_event_has_its_line():
    text = watched(
        Assistant(
            "Let me look.", "native", (thinks("plan"), ToolCall("1", "look", {"order_id": "A"}))
        ),
        Assistant(tool_calls=(ToolCall("2", "nope", "{broken"),)),
        Assistant("Here it is."),
    )
    for line in (
        "🧠 native",
        "💬 Let me look.",
        "💭 plan",
        '🔧 look(order_id="A")',
        "↳ found A",
        "🔧 nope({broken)",
        "there is no tool 'nope'",
        "Here it is.",
        "3 model calls",
        "actions behind a thought: 1 of 2",
        "exit: silence",
    ):
        assert line in text


def test_a_run_without_an_answer_says_why():
    half = watched(Assistant("half a sen", stop_reason="max_tokens"), quiet=True)
    assert "half a sen" in half
    assert "output limit" in half
    assert "no words" in watched(Assistant(""), Assistant(""), quiet=True)


def test_signature_shows_arguments_as_json():
    assert signature(ToolCall("", "f", {"a": "é", "b": [1, None]})) == 'f(a="é", b=[1, null])'


# A real terminal: a pseudo-terminal with a slow stand-in behind it.


def in_a_terminal(*args: str, interrupt_after: str, seconds: float = 20) -> tuple[str, int, float]:
    """Run the demo in a pty, press Ctrl-C once some text shows; the screen, exit code and delay."""
    parent, child = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "demos.refund", *args],
        stdin=child,
        stdout=child,
        stderr=child,
        cwd=ROOT,
        env={**os.environ, "COLUMNS": "60", "LINES": "30", "TERM": "xterm-256color"},
        start_new_session=True,
    )
    os.close(child)
    seen, deadline, pressed = b"", time.monotonic() + seconds, 0.0
    while time.monotonic() < deadline:
        ready, _, _ = select.select([parent], [], [], 0.05)
        if ready:
            try:
                seen += os.read(parent, 65536)
            except OSError:  # the other side is closed: the program ended
                break
        if not pressed and interrupt_after.encode() in seen:
            pressed = time.monotonic()
            os.killpg(process.pid, signal.SIGINT)
    code = process.wait(timeout=5)
    os.close(parent)
    return seen.decode(), code, time.monotonic() - pressed


def test_ctrl_c_stops_at_once_says_what_was_done_and_leaves_the_cursor_on():
    screen, code, delay = in_a_terminal(
        "ORD-001", "--provider", "offline", interrupt_after="check_refund_policy"
    )
    assert code == 130
    assert "Done so far:" in screen
    assert '✓ lookup_order(order_id="ORD-001")' in screen
    assert "Traceback" not in screen
    assert screen.rindex("\x1b[?25h") > screen.rindex("\x1b[?25l")  # shown again after hidden
    assert delay < 2

"""What a person sees: complete and plain in a pipe, live in a terminal, never raw."""

import io
import os
import pty
import re
import select
import shlex
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from think_agent import Agent, Assistant, ScriptedModel, ToolCall, tool
from think_agent.cli.approval import at_the_terminal
from think_agent.cli.console import RunView, printable, say
from think_agent.trail import signature

ROOT = Path(__file__).parents[2]
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


LONG = "No server at http://127.0.0.1:11434; start it with: ollama serve, or install it first."


def test_a_notice_is_one_line_in_a_pipe_and_wraps_at_words_in_a_terminal(capfd):
    say(LONG + "\x1b[2J")
    assert capfd.readouterr() == ("", LONG + "\\x1b[2J\n")
    code = f"from think_agent.cli.console import say; say({LONG!r})"
    screen, _, _ = in_a_terminal(["-c", code])
    lines = text_of(screen).splitlines()
    assert len(lines) > 1
    assert max(map(len, lines)) <= 60
    assert " ".join(line.strip() for line in lines).strip() == LONG


@pytest.mark.parametrize("terminal", [False, True])
def test_a_table_hangs_beside_its_names(terminal):
    out = io.StringIO()
    console = Console(file=out, force_terminal=terminal, width=30, color_system=None)
    RunView(console).table({"/go": "word " * 8 + "end", "/thoughts": "on or off"})
    lines = [line.rstrip() for line in out.getvalue().splitlines()]
    if not terminal:
        assert lines == ["/go        " + "word " * 8 + "end", "/thoughts  on or off"]
        return
    assert lines[0].startswith("/go        word")
    assert all(line.startswith(" " * 11) for line in lines[1:-1])
    assert " ".join(lines[:-1]).split() == ["/go", *["word"] * 8, "end"]
    assert max(map(len, lines)) <= 30


def stopped_while(answer, width: int = 60, **settings) -> str:
    """What is shown when `answer`, to the question whether to `look`, is Ctrl-C or end of input."""
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=width, color_system=None)
    asks = tool(needs_approval=True)(look.function)
    script = [Assistant(tool_calls=(ToolCall("1", "look", {"order_id": "A " * 40}),))] * 9
    with RunView(console) as view:
        settings = {"force": "never", "approve": at_the_terminal(view, answer), **settings}
        agent = Agent(ScriptedModel(script), [asks], **settings)
        try:
            agent.run("go", on_event=view)
        except KeyboardInterrupt:
            view.stopped()
    return text_of(out.getvalue())


def text_of(screen: str) -> str:
    """Without what moves the cursor and paints."""
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]|\r", "", screen)


def test_ctrl_c_at_the_approval_prompt_says_what_waited_for_it():
    def ctrl_c(prompt):
        raise KeyboardInterrupt

    shown = stopped_while(ctrl_c)
    *_, last = shown.partition("Stopped. ")
    assert last.startswith(
        "Nothing was done.\nNot done, because it waited for your answer; nothing"
    )
    call = last[last.index("look(") :].splitlines()
    assert [line[:3] for line in call[1:]] == ["   "] * (len(call) - 1)
    assert max(map(len, shown.splitlines())) <= 60


def test_what_was_decided_is_done_when_it_is_stopped_later():
    answers = iter(["y", KeyboardInterrupt()])

    def then_ctrl_c(prompt):
        answer = next(answers)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    *_, last = stopped_while(then_ctrl_c, width=200, max_repeats=9).partition("Stopped. ")
    done, _, open_ = last.partition("Not done")
    assert done.count("✓ look(") == 1
    assert open_.count("? look(") == 1


@pytest.mark.parametrize("answers", [[], ["n"], ["e"], ["e", "[" * 3000]])
def test_end_of_input_at_any_prompt_quits(answers):
    left = iter(answers)

    def ends(prompt):
        answer = next(left, None)
        if answer is None:
            raise EOFError
        return answer

    assert "exit: declined" in stopped_while(ends, width=100)


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


def in_a_terminal(
    words: list[str], interrupt_after: str | None = None, seconds: float = 20
) -> tuple[str, int, float]:
    """Run Python in a pty of 60 columns, press Ctrl-C once some text shows; the screen, the exit
    code and the delay.
    """
    parent, child = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, *words],
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
        if interrupt_after and not pressed and interrupt_after.encode() in seen:
            time.sleep(0.2)  # a prompt is on the screen before anybody waits for its answer
            pressed = time.monotonic()
            os.killpg(process.pid, signal.SIGINT)
    code = process.wait(timeout=5)
    os.close(parent)
    return seen.decode(), code, time.monotonic() - pressed


def test_ctrl_c_stops_at_once_says_what_was_done_and_leaves_the_cursor_on():
    words = ["-m", "demos.refund", "ORD-001", "--provider", "offline"]
    screen, code, delay = in_a_terminal(words, "check_refund_policy")
    assert code == 130
    assert "Done so far:" in screen
    assert '✓ lookup_order(order_id="ORD-001")' in text_of(screen)
    assert "Traceback" not in screen
    assert screen.rindex("\x1b[?25h") > screen.rindex("\x1b[?25l")  # shown again after hidden
    assert delay < 2
    assert "With --transcript PATH" in screen


def test_ctrl_c_at_the_approval_prompt_says_how_to_go_on_and_that_works(tmp_path):
    kept, db = tmp_path / "a b.jsonl", tmp_path / "shop.db"
    flags = ["--provider", "offline", "--db", str(db), "--approve", "ask"]
    words = ["-m", "demos.refund", "ORD-004", *flags, "--transcript", str(kept)]
    screen, code, _ = in_a_terminal(words, "[q]uit")
    screen = text_of(screen)
    assert code == 130
    assert "? process_refund(order_id=" in screen
    assert "nothing was" in screen
    advice = screen[screen.index("python -m demos.refund") :].replace("\\\n", " ")
    again = shlex.split(advice.splitlines()[0])
    assert again[1:5] == ["-m", "demos.refund", "--resume", str(kept)]
    assert again[5:] == ["--provider", "offline", "--approve", "ask", "--db", str(db)]
    with sqlite3.connect(db) as connection:
        assert connection.execute("SELECT * FROM decisions").fetchall() == []
    again[again.index("ask")] = "always-under 600"
    screen, code, _ = in_a_terminal(again[1:], "Every order")
    screen = text_of(screen)
    assert code == 130
    assert "✓ lookup_order(" in screen  # before it was taken up
    assert "✓ process_refund(" in screen
    assert "--approve 'always-under 600'" in screen
    assert subprocess.run([sys.executable, *again[1:]], cwd=ROOT, check=False).returncode == 0


def test_the_help_of_the_prompt_loop_hangs_beside_its_commands():
    code = "from demos.refund.__main__ import HELP; from rich.console import Console\n"
    code += "from think_agent.cli.console import RunView; RunView(Console()).table(HELP)"
    screen, _, _ = in_a_terminal(["-c", code])
    assert re.search(r"or the +\n {18}answers alone", text_of(screen))

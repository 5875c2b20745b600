"""The commands of the project as a user runs them: in their own process, without the environment
settings of the person who runs the tests, and without Ollama.
"""

import fcntl
import io
import os
import pty
import re
import runpy
import select
import signal
import sqlite3
import subprocess
import sys
import termios
import time
import warnings
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import TypeAlias
from unittest.mock import patch

from tests.support.sizes import ROOT

CTRL_C = "\x03"
Completed: TypeAlias = subprocess.CompletedProcess[str]


def environment(**more: str) -> dict[str, str]:
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("THINK_AGENT_", "OLLAMA_"))}
    return {**clean, "OLLAMA_HOST": "127.0.0.1:9", **more}


def run(*words: str, stdin: str = "", **env: str) -> Completed:
    """`python WORDS` at the root of the project."""
    options = {"capture_output": True, "text": True, "timeout": 60, "check": False}
    command, clean = [sys.executable, *words], environment(**env)
    return subprocess.run(command, input=stdin, cwd=ROOT, env=clean, **options)


def run_here(module: str, *words: str, stdin: str = "", **env: str) -> Completed:
    """`python -m MODULE WORDS` in this process, which is ten times as fast."""
    out, err, on_sigterm = io.StringIO(), io.StringIO(), signal.getsignal(signal.SIGTERM)
    with (
        patch.dict(os.environ, environment(**env), clear=True),
        patch("sys.argv", [module, *words]),
        patch("sys.stdin", io.StringIO(stdin)),
        warnings.catch_warnings(),  # puts back whoever shows them, too
        redirect_stdout(out),
        redirect_stderr(err),
    ):
        warnings.simplefilter("ignore", RuntimeWarning)  # a test may have imported it already
        code: object = 0
        try:
            runpy.run_module(module, run_name="__main__", alter_sys=True)
        except SystemExit as done:
            code = done.code
        finally:
            signal.signal(signal.SIGTERM, on_sigterm)
    assert isinstance(code, int)
    return subprocess.CompletedProcess(words, code, out.getvalue(), err.getvalue())


def in_a_terminal(
    words: Sequence[str],
    interrupt_after: str | None = None,
    seconds: float = 20,
    keys: Sequence[tuple[str, str] | str] = (),
) -> tuple[str, int, float]:
    """`python WORDS` in a pty of 60 columns. Returns the screen, the exit code and the seconds
    since the last key. Each of `keys` is `(text, key)`: the key is typed when the text has come
    since the key before. Or it is a line for the prompt.
    """
    keys = [("\n> ", key + "\r") if isinstance(key, str) else key for key in keys]
    if interrupt_after:
        keys.append((interrupt_after, CTRL_C))
    parent, child = pty.openpty()
    streams = dict.fromkeys(("stdin", "stdout", "stderr"), child)
    env = environment(COLUMNS="60", LINES="30", TERM="xterm-256color")
    process = subprocess.Popen(
        [sys.executable, *words],
        cwd=ROOT,
        env=env,
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # its own terminal, as a shell's
        **streams,
    )
    os.close(child)
    seen, read, pressed, deadline = "", 0, 0.0, time.monotonic() + seconds
    while time.monotonic() < deadline:
        ready, _, _ = select.select([parent], [], [], 0.05)
        if ready:
            try:
                seen += os.read(parent, 65536).decode(errors="replace")
            except OSError:  # the other side is closed: the program ended
                break
        if keys and keys[0][0] in seen[read:]:
            time.sleep(0.2)  # a prompt is on the screen before anybody waits for its answer
            pressed, read = time.monotonic(), len(seen)
            _, key = keys.pop(0)
            if key == CTRL_C:
                os.killpg(process.pid, signal.SIGINT)
            else:
                os.write(parent, key.encode())
    if process.poll() is None and time.monotonic() >= deadline:
        process.kill()
    code = process.wait(timeout=5)
    os.close(parent)
    return seen, code, time.monotonic() - pressed


def decisions(shop: str | Path) -> list[tuple[str, str]]:
    """What a shop has recorded: order and decision, in order."""
    with sqlite3.connect(shop) as db:
        return db.execute("SELECT order_id, decision FROM decisions ORDER BY id").fetchall()


def text_of(screen: str) -> str:
    """A screen without what moves the cursor and paints."""
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]|\r", "", screen)

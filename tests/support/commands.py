"""The commands of the project as a user runs them: in a process of their own, without the settings
of whoever runs the tests, and with no Ollama to be found.
"""

import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Sequence

from tests.support.sizes import ROOT

CTRL_C = "\x03"


def environment(**more: str) -> dict[str, str]:
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("THINK_AGENT_", "OLLAMA_"))}
    return {**clean, "OLLAMA_HOST": "127.0.0.1:9", **more}


def run(*words: str, stdin: str = "", **env: str) -> subprocess.CompletedProcess[str]:
    """`python WORDS` at the root of the project."""
    return subprocess.run(
        [sys.executable, *words],
        input=stdin,
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=environment(**env),
        timeout=60,
        check=False,
    )


def in_a_terminal(
    words: Sequence[str],
    interrupt_after: str | None = None,
    seconds: float = 20,
    keys: Sequence[tuple[str, str]] = (),
) -> tuple[str, int, float]:
    """`python WORDS` in a pty of 60 columns; the screen, the exit code and the seconds since the
    last key. Each of `keys` is typed once some text has come since the one before: (text, key).
    """
    keys = [*keys, *([(interrupt_after, CTRL_C)] if interrupt_after else [])]
    parent, child = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, *words],
        stdin=child,
        stdout=child,
        stderr=child,
        cwd=ROOT,
        env=environment(COLUMNS="60", LINES="30", TERM="xterm-256color"),
        start_new_session=True,
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
    process.kill() if process.poll() is None and time.monotonic() >= deadline else None
    code = process.wait(timeout=5)
    os.close(parent)
    return seen, code, time.monotonic() - pressed


def text_of(screen: str) -> str:
    """A screen without what moves the cursor and paints."""
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]|\r", "", screen)

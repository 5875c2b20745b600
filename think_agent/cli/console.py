"""Shows a run in a terminal: thoughts, calls, results, the answer, and a line of counts.

Rule 1: all printed text comes from messages. Deltas only feed a preview, which is erased when the
        message arrives. So live, plain and piped output have the same text.
Rule 2: a call is shown when it's next, with its result below. So a call that's running or waiting
        for a person is on the screen, and a call that was never reached isn't.
Rule 3: a reply's text is shown once: as the answer if it ends the turn, and otherwise as commentary
        after its thought, unless the thought has the same text.
Rule 4: previews are shown only inside a view's `with` block, which cleans up at its end.
Rule 5: if no token arrives for a while, the view says why (`waiting.py`). That isn't part of the
        output: the preview erases it, and with a pipe it goes to stderr.
"""

import logging
import os
import time
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import ClassVar

from rich.console import Console, Group
from rich.live import Live
from rich.segment import SegmentLines
from rich.text import Text

from ..agent import Agent, Saved
from ..audit import words
from ..errors import FileError, ModelError
from ..messages import (
    THINK_NAME,
    Assistant,
    Checked,
    Message,
    ToolCall,
    ToolResult,
    User,
    Verdict,
)
from ..outcome import Data, Outcome, report_actions
from ..running import Event
from ..streaming import Delta, Notice, Progress
from ..text import sanitize
from ..think import read_carried, read_thought
from ..tools import signature
from ..turn import Turn
from .screen import Screen, block, say, show_typing, write, write_block
from .waiting import Waiting

STAND_IN = "scripted stand-in: no language model is at work"
NO_LOG = logging.NullHandler()
LOOK = {  # an icon and a style
    "thinking": ("🧠", "dim italic"),
    "thought": ("💭", "bold cyan"),  # the loudest: they are the point of this kit
    "call": ("🔧", "yellow"),
    "result": ("  ↳", "dim"),
    "error": ("  ↳", "red"),
    "answer": ("💬", "default"),
    "commentary": ("💬", "dim"),
    "question": ("→", "magenta"),
    "verdict": ("⚑", "magenta"),
    "met": ("✓", "green"),
    "unmet": ("✗", "red"),
    "notice": ("!", "magenta"),
    "refused": ("!", "magenta"),
    "warning": ("!", "red"),
    "alarm": ("!", "bold red"),
    "paused": ("…", "magenta"),
    "step": ("  ·", "dim"),
}


def watch(agent: Agent[Data], text: str, *, transcript: Saved | None = None) -> Outcome[Data]:
    """`agent.run`, shown on stdout as it happens. After Ctrl-C it reports what was done.

    If the model or the file can't be used, the program ends with one line on stderr (SystemExit).
    To handle the exception yourself, call `agent.run`.
    """
    is_kept = isinstance(transcript, (str, os.PathLike))
    with RunView(Screen(), is_kept=is_kept, agent=agent) as view:
        try:
            return agent.run(text, transcript=transcript, on_event=view)
        except (ModelError, FileError) as error:
            raise SystemExit(f"error: {error}") from error


@dataclass(eq=False)
class RunView:
    """Prints a run's events to `console`; pass it as `on_event`. Use it in a `with` block: if
    Ctrl-C ends the block, it reports what was done.

    `thoughts=False` shows only the answer and the counts, `quiet=True` only the answer,
    `verbose=True` shows whole results instead of one-line summaries, each reply's model call, and
    the time of each step. `is_kept`: the run is saved in a file, so it can be resumed later.
    `agent`: the agent that runs. With it, the view can say what a slow model is doing.
    `what_next`: says what to do next, in one line, if Ctrl-C ends the block before any action.
    """

    console: Console
    _: KW_ONLY
    thoughts: bool = True
    quiet: bool = False
    verbose: bool = False
    is_kept: bool = False
    agent: Agent | None = None
    what_next: Callable[[], str] | None = None

    in_front: ClassVar["RunView | None"] = None
    """The view that's using the terminal, since there is only one terminal."""

    def __post_init__(self) -> None:
        if self.quiet:
            self.thoughts = False
        self.turn = Turn()
        """The facts of all messages, including those of earlier runs."""
        self.on_screen = ToolCall("", "", {})
        """The call that was shown last, if any."""
        self.progress = Progress(1)
        """The latest model call."""
        self._started = time.monotonic()
        self._held = ""  # a reply's text, usually the answer
        self._forming: dict[tuple[str, int], str] = {}  # the reply that's arriving
        self._live: Live | None = None
        self._waiting: Waiting | None = None  # during a run

    def __enter__(self) -> "RunView":
        # Notices are already on the screen. A program that wants the log has its own handler.
        logging.getLogger("think_agent").addHandler(NO_LOG)
        RunView.in_front = self
        return self

    def __exit__(self, raised: type[BaseException] | None, *_: object) -> None:
        self.stop()
        RunView.in_front = None
        if raised is KeyboardInterrupt:
            self._report_stop()

    def _report_stop(self) -> None:
        if self.turn.actions:
            self.print(f"\nStopped. Done so far:\n{report_actions(self.turn)}", "yellow")
            return
        line = "Stopped. Nothing was done."
        if self.what_next:
            line += f" {self.what_next()}"
        if self.console.is_terminal:
            self.console.print()  # the key is on the line of the prompt
        # The terminal wraps it, so a command in it can be copied.
        self.console.print(Text(sanitize(line), "yellow"), soft_wrap=True)

    def __call__(self, event: Event) -> None:
        if self._waiting and isinstance(event, Delta):
            self._waiting.go_on()
        elif self._waiting:
            self._waiting.end()
        match event:
            case Delta():
                self._grow(event)
            case Outcome():
                self.stop()
                figures = words.figures(event.exit, event.turn)
                self.end(event.exit, event.answer, words.cause(event.turn.reply), figures)
            case Progress():
                self.progress = event
                self._wait()
            case Notice(text=text):
                if self.thoughts:
                    self.line("notice", text)
            case _:
                self._read(event)

    def end(self, exit: str | None, answer: str, cause: str, figures: str) -> None:
        """Print the answer and the counts. Without an answer, print why (`cause`: of a cut-off
        reply).
        """
        answer = answer.strip()
        if exit == "declined" and self.thoughts:
            answer = ""  # already shown with the verdict
        self._hold(answer)
        self._held = ""

        why = words.why_ended(exit, cause)
        if why and exit not in words.REGULAR:
            answer = f"{answer}\n({why})".strip()
        if self.quiet:
            self.print(answer)
        else:
            self.print("\n" + f"{answer}\n\n{figures}".strip())

    def print(self, text: str, style: str = "") -> None:
        """Print text. A terminal wraps it at words; a pipe doesn't."""
        write(self.console, text, style)

    def line(self, kind: str, text: str) -> None:
        """Print text with its kind's icon and style (LOOK); nothing for a blank text."""
        if text.strip() and kind not in ("thought", "met", "step"):
            self._hold("")
        write_block(self.console, *LOOK[kind], text)

    def reply(self, reply: Assistant) -> None:
        """Print a reply without its calls. Its text waits for the thought in them (rule 3)."""
        self.line("thinking", reply.thinking)
        if reply.text.strip():
            self.line("commentary", reply.commentary)
            self._hold(reply.text)
        else:
            self._hold(reply.commentary)

    def call(self, call: ToolCall) -> None:
        """Print a call below the thought that it carries. For a think call, print only the
        thought.
        """
        self.on_screen = call
        if call.name == THINK_NAME or read_carried(call):
            notes = read_thought(call).strip()
            if self._held in notes:  # small models repeat their thought as text
                self._held = ""
            self.line("thought", notes or "(an empty thought)")
        if call.name != THINK_NAME:
            self.line("call", signature(call))

    def table(self, rows: dict[str, str]) -> None:
        """Print each name with its meaning on a line. A long meaning wraps in its own column."""
        width = max(len(name) for name in rows) + 1
        for name, meaning in rows.items():
            write_block(self.console, name.ljust(width), "", meaning)

    def start(self) -> None:
        """Show a preview of the arriving reply, if the terminal can erase it again."""
        if RunView.in_front is self and self.console.is_interactive:
            self._live = Live(console=self.console, transient=True, get_renderable=self._preview)
            show_typing(False)
            self._live.start()

    def stop(self) -> None:
        """Remove the preview; printed text stays."""
        if self._waiting:
            self._waiting.end()
        if self._live:
            self._live.stop()
            self._live = None
            show_typing(True)

    def _read(self, message: Message) -> None:
        self._forming = {}
        before = self.turn.seconds
        self.turn.add(message)
        if message is self.turn.request:  # a new run
            self._held = ""
            self.progress = Progress(1)
            self._started = time.monotonic()
            self.start()
            self._waiting = None
        elif self.thoughts and not self.turn.ended:
            self._show(message, words.duration(self.turn.seconds - before))

    def _wait(self) -> None:
        """A model call begins: say what the model is doing if it's slow (rule 5)."""
        if self.agent is None or RunView.in_front is not self:
            return
        if self._waiting is None and self._live:
            self._waiting = Waiting(self.agent, None)
        elif self._waiting is None and not self.quiet:
            self._waiting = Waiting(self.agent, self._say_slow)
        if self._waiting:
            self._waiting.begin(self.turn)

    def _say_slow(self, text: str) -> None:
        """With a pipe: say why nothing arrives, and which model call it is."""
        say(words.join_facts(self._begun_call(), text))

    def _show(self, message: Message, took: str) -> None:
        """Show a message inside a run, and how long it `took`."""
        match message:
            case Assistant():
                if self.verbose:
                    used = words.tokens(message.usage)
                    self.line("step", words.join_facts(self._ended_call(), used, took))
                self.reply(message)
            case ToolResult():
                self._show_result(message, took)
            case User(text=text):
                self.line("question", text)
            case Verdict():
                self.line("verdict", words.say_decision(message))
            case Checked(missing=None):
                self.line("met", words.say_check(message))
            case Checked():
                self.line("unmet", words.say_check(message))
        pending = self.turn.pending
        if pending and pending[0] is not self.on_screen:
            self.call(pending[0])

    def _begun_call(self) -> str:
        """The current model call, as text."""
        return words.say_model_call(self.progress.model_call, self.progress.most)

    def _ended_call(self) -> str:
        """The latest reply's model call, as text."""
        number = len(self.turn.replies)
        if number == self.progress.model_call:
            return self._begun_call()
        return words.say_model_call(number)  # shown from a file, which has no Progress events

    def _show_result(self, result: ToolResult, took: str) -> None:
        if result.name == THINK_NAME:
            return
        kind = "result"
        text = result.content
        if result.is_error:
            kind = "error"
        elif not self.verbose:
            text = words.gave(text, self.on_screen.arguments)
        self.line(kind, text)
        if self.verbose:
            self.line("step", took)

    def _hold(self, text: str) -> None:
        """Hold a reply's text until its thought is shown. It may turn out to be the answer, which
        is shown only once.
        """
        text = text.strip()
        if self._held != text:
            write_block(self.console, *LOOK["commentary"], self._held)  # rule 3
        self._held = text

    def _grow(self, delta: Delta) -> None:
        """Add a piece of the arriving reply."""
        if not self.thoughts and delta.kind != "answer":
            return
        begun = ""
        if delta.kind == "call":
            begun = f"{delta.name} "
        place = (delta.kind, delta.index)
        text = self._forming.get(place, begun) + delta.text
        self._forming[place] = text[-self.console.width * self.console.height :]  # a screenful

    def _preview(self) -> Group:
        """The part of the reply that has arrived. Below it: the run's time, the model call, and why
        nothing arrives.
        """
        forming = list(self._forming.items())[-self.console.height :]  # a copy: it grows
        blocks = [block(*LOOK[kind], text) for (kind, _), text in forming]
        # Only the tail: a live region taller than the screen can't be erased.
        lines = self.console.render_lines(Group(*blocks))[3 - self.console.height :]
        clock = f"⠋ {int(time.monotonic() - self._started)} s"
        slow = self._waiting.words if self._waiting else ""
        progress = Text(words.join_facts(clock, self._begun_call(), slow), "dim")
        return Group(SegmentLines(lines, new_lines=True), progress)

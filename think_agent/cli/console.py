"""A run as a person watches it in a terminal: thoughts, calls, results, the answer, and one line of
figures.

Rule 1: what is printed comes from the messages. Deltas only feed a preview that is wiped when its
        message is there, so live, plain and piped output are the same text.
Rule 2: nothing of a model or a tool reaches the terminal raw: control characters are shown, not
        sent.
Rule 3: a pipe gets plain, complete lines; NO_COLOR is honored (by rich).
Rule 4: what is about the run and no part of it (`say`) goes to stderr.
"""

import sys
import time
from collections.abc import Mapping
from typing import Self

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderResult
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from .. import think
from ..audit import words
from ..loop import AskHuman
from ..messages import MESSAGES, THINK_NAME, Assistant, Message, ToolResult, User, Verdict
from ..running import Event, Outcome
from ..streaming import Delta, Notice
from ..text import sanitize
from ..tools import report, signature
from ..turn import Turn

LOOK = {  # an icon and a style
    "thinking": ("🧠", "dim italic"),
    "thought": ("💭", "bold cyan"),  # the loudest: they are what this is about
    "call": ("🔧", "yellow"),
    "answer": ("💬", "default"),
    "commentary": ("💬", "dim"),
}
NO_WIDTH = "\x1f"  # a space to whoever wraps, and nothing else is: `sanitize` lets none through


def say(line: str) -> None:
    """A line on stderr for the person: a terminal wraps it at words, a pipe gets it whole."""
    if sys.stderr.isatty():
        Console(stderr=True).print(Text(sanitize(line)))
    else:
        print(sanitize(line), file=sys.stderr)


def lines_of(text: str, width: int) -> list[str]:
    """The text in lines of a terminal, broken between words. JSON holds few spaces, so it may break
    behind a comma, too.
    """
    spaced = Text(text.replace(',"', f',{NO_WIDTH}"'))
    lines = spaced.wrap(Console(width=width), width, tab_size=4) or [spaced]
    return [line.plain.replace(NO_WIDTH, "").rstrip() for line in lines]


class Screen(Console):
    """Stdout. Where the reader of a pipe went away, rich would exit; here it is an error again."""

    def on_broken_pipe(self) -> None:
        """Leave it to whoever runs the command."""
        raise BrokenPipeError


class RunView:
    """Prints the events of runs to `console`; pass it as `on_event`. Use it in a `with` block.

    `thoughts=False` shows the answer and the figures alone, `quiet=True` the bare answer,
    `verbose=True` results as they are instead of a line of what matters in them.
    """

    def __init__(
        self, console: Console, *, thoughts: bool = True, quiet: bool = False, verbose: bool = False
    ) -> None:
        self.console = console
        self.thoughts = thoughts
        self.quiet = quiet
        self.verbose = verbose
        self._preview = _Preview()
        self._live: Live | None = None
        self._started = time.monotonic()
        self._text = ""  # of a reply without calls: most often it is the answer
        self.messages: list[Message] = []
        """What was said and done since the run began: all there is of a run that was stopped."""
        self.asking: AskHuman | None = None
        """The question that waits for a person, while it does."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.stop()

    def stopped(self) -> None:
        """Say what had been done when a person stopped the run, and what had not been."""
        self.stop()
        done = report(Turn.of(self.messages)).splitlines()
        self.print("Stopped. Done so far:" if done else "Stopped. Nothing was done.", "yellow")
        for line in done:
            self._put(line[0], line[2:], "yellow")
        if asked := self.asking:
            said = "Not done, because it waited for your answer; nothing was written:"
            self.print(said, "yellow")
            self._put("?", signature(asked.call) if asked.call else asked.question, "yellow")

    def __call__(self, event: Event) -> None:
        if isinstance(event, MESSAGES):
            self.messages.append(event)
        match event:
            case User(kind="person"):
                self.messages[:] = [event]
                self.asking = None
                self._started = time.monotonic()
                self.start()
            case Delta():
                if self._live and (self.thoughts or event.kind == "answer"):
                    self._preview.add(event)
            case Outcome():
                self.stop()
                seconds = time.monotonic() - self._started
                self.end(event.answer, event.exit, words.figures(event, seconds))
            case _:
                if not isinstance(event, User):
                    self._preview.clear()
                if self.thoughts and not self.quiet:
                    self._print(event)

    def _print(self, event: Event) -> None:
        self._flush()
        match event:
            case Assistant():
                self._line("thinking", event.thinking)
                self._text = event.text if event.tool_calls else event.words
                if event.commentary != self._text:
                    self._line("commentary", event.commentary)
                if event.tool_calls:
                    self._flush()
                for call in event.tool_calls:
                    if call.name == THINK_NAME:
                        self._line("thought", think.thought(call).strip() or "(an empty thought)")
                    else:
                        self._line("call", signature(call))
            case ToolResult(name=name, is_error=is_error) if name != THINK_NAME:
                self._put("  ↳", self._result(event), "red" if is_error else "dim")
            case User(text=text):
                self._put("→", text, "magenta")
            case Verdict():
                self._put("☑", words.decided(event), "magenta")
            case Notice(text=text):
                self._put("!", text, "magenta")

    def _result(self, result: ToolResult) -> str:
        """All of it, or what matters in it beside what its call says already."""
        if self.verbose or result.is_error:
            return result.content
        calls = (c for m in self.messages if isinstance(m, Assistant) for c in m.tool_calls)
        said = {call.id: call.arguments for call in calls}.get(result.call_id)
        return words.gave(result.content, said)

    def end(self, answer: str, exit: str | None, figures: str) -> None:
        """The answer, or why there is none, and the figures."""
        self._flush(answer)
        why = "" if exit in words.REGULAR else words.why_ended(exit)
        said = "\n".join(filter(None, [answer.strip(), why and f"({why})"]))
        if self.quiet:
            self.print(said)
            return
        if said:
            self.print(f"\n{said}")
        self.print(f"\n{figures}", "dim")

    def _flush(self, answer: str = "") -> None:
        """Show the text of the last reply, unless it is the answer."""
        text, self._text = self._text.strip(), ""
        if text != answer.strip() and self.thoughts and not self.quiet:
            self._line("answer", text)

    def print(self, text: str, style: str = "") -> None:
        """Text that a terminal wraps at words and a pipe does not wrap at all."""
        whole = not self.console.is_terminal
        self.console.print(Text(sanitize(text), style=style), soft_wrap=whole)

    def table(self, rows: Mapping[str, str]) -> None:
        """A line each: a name, and what it means. What is too long goes on under itself."""
        width = max(map(len, rows)) + 1
        for name, meaning in rows.items():
            self._put(name.ljust(width), meaning, "")

    def _line(self, kind: str, text: str) -> None:
        icon, style = LOOK[kind]
        if text.strip():
            self._put(icon, text.strip(), style)

    def _put(self, icon: str, text: str, style: str) -> None:
        text = sanitize(text)
        if self.console.is_terminal:
            lines = lines_of(text, max(1, self.console.width - _width(icon) - 1))
            self.console.print(_block(icon, Text("\n".join(lines), style=style)))
        else:
            self.console.print(Text(f"{icon} ").append(text, style=style), soft_wrap=True)

    def start(self) -> None:
        """Show the preview of the reply on its way, where a terminal can wipe it again."""
        self._preview.clear()
        if self.console.is_interactive and self._live is None:
            self._live = Live(
                self._preview, console=self.console, refresh_per_second=12, transient=True
            )
            self._live.start()

    def stop(self) -> None:
        """Take the preview away; what was printed stays."""
        if self._live:
            self._live.stop()
            self._live = None


class _Preview:
    """What has arrived of the reply that is on its way: a spinner, then its pieces as they form."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self._blocks: dict[tuple[str, int], tuple[str, list[str]]] = {}
        self._since = time.monotonic()

    def add(self, delta: Delta) -> None:
        _, pieces = self._blocks.setdefault((delta.kind, delta.index), (delta.name, []))
        pieces.append(delta.text)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        lines = []
        room = console.width * console.height  # characters; more is never on the screen
        for (kind, _), (name, pieces) in self._blocks.items():
            text = "".join([f"{name} "] * (kind == "call") + pieces)[-room:]
            icon, style = LOOK[kind]
            lines.append(_block(icon, Text(sanitize(text), style=style)))
        rendered = console.render_lines(Group(*lines), options) if lines else []
        # Only the tail fits: a live region taller than the screen cannot be wiped.
        for line in rendered[-max(1, console.height - 3) :]:
            yield from line
            yield "\n" if not line else Text("")
        seconds = int(time.monotonic() - self._since)
        yield Spinner("dots", Text(f"{seconds} s", style="dim"))


def _block(icon: str, content: Text) -> Table:
    """An icon, or a name, and a text that wraps beside it."""
    grid = Table.grid(padding=(0, 1))
    grid.add_column(width=_width(icon))
    grid.add_column(ratio=1, overflow="fold")
    grid.add_row(Text(" " * (2 - cell_len(icon)) + icon), content)
    return grid


def _width(icon: str) -> int:
    return max(2, cell_len(icon))

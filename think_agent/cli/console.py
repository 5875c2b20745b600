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

from rich.console import Console, ConsoleOptions, Group, RenderResult
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from .. import think, trail
from ..loop import AskHuman
from ..messages import MESSAGES, THINK_NAME, Assistant, Message, ToolResult, User, Verdict
from ..outcome import Outcome
from ..running import Event
from ..streaming import Delta, Notice

ICONS = {"thinking": "🧠", "thought": "💭", "call": "🔧", "answer": "💬"}
STYLES = {"thinking": "dim italic", "thought": "cyan", "call": "yellow", "answer": "bold"}
# Characters that reorder, break or hide text.
UNSEEN = {0x200B, 0x200E, 0x200F, *range(0x2028, 0x202F), *range(0x2060, 0x206A), 0x061C, 0xFEFF}

NO_WIDTH = "\x1f"  # a space to whoever wraps, and nothing else is: `printable` lets none through

IRREGULAR = {  # what to add to an answer, or to say instead of one
    "limit": "(A limit was reached.)",
    "budget": "(The budget of tokens or money was used up.)",
    "gave_up": "(The run gave up.)",
    "declined": "(A person stopped the run.)",
    "invalid_answer": "(The answer is not of the form that was asked.)",
    "needs_human": "(Paused: a person has to decide.)",
    "refused": "(The model, or its provider, refused.)",
    "truncated": "(The reply hit the provider's output limit; nothing of it was acted on.)",
    "empty": "(The model had no words, not even after a nudge.)",
}


def say(line: str) -> None:
    """A line on stderr for the person: a terminal wraps it at words, a pipe gets it whole."""
    if sys.stderr.isatty():
        Console(stderr=True).print(Text(printable(line)))
    else:
        print(printable(line), file=sys.stderr)


def lines_of(text: str, width: int) -> list[str]:
    """The text in lines of a terminal, broken between words. JSON holds few spaces, so it may break
    behind a comma, too.
    """
    spaced = Text(text.replace(',"', f',{NO_WIDTH}"'))
    lines = spaced.wrap(Console(width=width), width, tab_size=4) or [spaced]
    return [line.plain.replace(NO_WIDTH, "").rstrip() for line in lines]


def printable(text: str) -> str:
    """`text` with control characters, but for line breaks and tabs, written out as `\\x1b`."""
    text = text.replace("\r\n", "\n")
    return "".join(char if _is_harmless(char) else _written_out(char) for char in text)


def _is_harmless(char: str) -> bool:
    code = ord(char)
    control = code < 0x20 or 0x7F <= code <= 0x9F
    lone_surrogate = 0xD800 <= code <= 0xDFFF
    return char in "\n\t" or not (control or lone_surrogate or code in UNSEEN)


def _written_out(char: str) -> str:
    return char.encode("unicode_escape").decode()


class RunView:
    """Prints the events of runs to `console`; pass it as `on_event`. Use it in a `with` block.

    `thoughts=False` shows the answer and the figures alone, `quiet=True` the bare answer.
    """

    def __init__(self, console: Console, *, thoughts: bool = True, quiet: bool = False) -> None:
        self.console = console
        self.thoughts = thoughts
        self.quiet = quiet
        self._preview = _Preview()
        self._live: Live | None = None
        self._started = time.monotonic()
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
        done = trail.report(self.messages).splitlines()
        self.print("Stopped. Done so far:" if done else "Stopped. Nothing was done.", "yellow")
        for line in done:
            mark, _, action = line.partition(" ")
            self._put(mark, action, "yellow")
        if self.asking:
            self.print(
                "Not done, because it waited for your answer; nothing was written:", "yellow"
            )
            call = self.asking.call
            self._put("?", trail.signature(call) if call else self.asking.question, "yellow")

    def __call__(self, event: Event) -> None:
        if isinstance(event, User) and event.kind == "person":
            self.messages.clear()
            self.asking = None
            self._started = time.monotonic()
        if isinstance(event, MESSAGES):
            self.messages.append(event)
        match event:
            case User(kind="person"):
                self.start()
            case Delta():
                if self._live and (self.thoughts or event.kind == "answer"):
                    self._preview.add(event)
            case Outcome():
                self.stop()
                self._print_outcome(event)
            case _:
                if not isinstance(event, User):
                    self._preview.clear()
                if self.thoughts and not self.quiet:
                    self._print(event)

    def _print(self, event: Event) -> None:
        match event:
            case Assistant():
                if event.thinking.strip():
                    self._line("thinking", event.thinking.strip())
                if event.text.strip() and event.tool_calls:
                    self._line("answer", event.text.strip())
                for call in event.tool_calls:
                    if call.name == THINK_NAME:
                        self._line("thought", think.thought(call) or "(an empty thought)")
                    else:
                        self._line("call", trail.signature(call))
            case ToolResult(name=name, content=content, is_error=is_error) if name != THINK_NAME:
                self._put("↳", content, "red" if is_error else "green", indent=2)
            case User(text=text):
                self._put("→", text, "magenta")
            case Verdict(decision=decision, reason=reason, by=by):
                self._put("☑", f"{by or 'a person'} said {decision}. {reason}".strip(), "magenta")
            case Notice(text=text):
                self._put("!", text, "magenta")

    def _print_outcome(self, outcome: Outcome) -> None:
        said = [outcome.answer.strip(), IRREGULAR.get(outcome.exit, "")]
        answer = "\n".join(part for part in said if part)
        if self.quiet:
            self.print(answer)
            return
        self.console.print()
        self.print(answer, STYLES["answer"])
        self.console.print()
        self.print(figures(outcome, time.monotonic() - self._started), "dim")

    def print(self, text: str, style: str = "") -> None:
        """Text that a terminal wraps at words and a pipe does not wrap at all."""
        whole = not self.console.is_terminal
        self.console.print(Text(printable(text), style=style), soft_wrap=whole)

    def table(self, rows: Mapping[str, str]) -> None:
        """A line each: a name, and what it means. What is too long goes on under itself."""
        width = max(map(len, rows)) + 2
        grid = Table.grid()
        grid.add_column(width=width)
        grid.add_column(ratio=1)
        for name, meaning in rows.items():
            grid.add_row(Text(printable(name)), Text(printable(meaning)))
            if not self.console.is_terminal:
                self.print(name.ljust(width) + meaning)
        if self.console.is_terminal:
            self.console.print(grid)

    def _line(self, kind: str, text: str) -> None:
        self._put(ICONS[kind], text, STYLES[kind])

    def _put(self, icon: str, text: str, style: str, indent: int = 0) -> None:
        text = printable(text)
        if self.console.is_terminal:
            text = "\n".join(lines_of(text, max(1, self.console.width - indent - 3)))
            self.console.print(_block(icon, Text(text, style=style), indent))
        else:
            content = Text(" " * indent + f"{icon} ").append(text, style=style)
            self.console.print(content, soft_wrap=True)

    def start(self) -> None:
        """Show the preview of the reply that is on its way; only a terminal has one."""
        self._preview.clear()
        if self.console.is_terminal and self._live is None:
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
        self._blocks: list[tuple[tuple[str, int], str, list[str]]] = []
        self._since = time.monotonic()

    def add(self, delta: Delta) -> None:
        key = (delta.kind, delta.index)
        if not self._blocks or self._blocks[-1][0] != key:
            self._blocks.append((key, delta.name, []))
        self._blocks[-1][2].append(delta.text)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        lines = []
        room = console.width * console.height  # characters; more is never on the screen
        for (kind, _), name, pieces in self._blocks:
            text = "".join(pieces)
            shown = (f"{name} {text}" if kind == "call" else text)[-room:]
            lines.append(_block(ICONS[kind], Text(printable(shown), style=STYLES[kind])))
        rendered = console.render_lines(Group(*lines), options) if lines else []
        # Only the tail fits: a live region taller than the screen cannot be wiped.
        for line in rendered[-max(1, console.height - 3) :]:
            yield from line
            yield "\n" if not line else Text("")
        seconds = int(time.monotonic() - self._since)
        yield Spinner("dots", Text(f"{seconds} s", style="dim"))


def _block(icon: str, content: Text, indent: int = 0) -> Table:
    """An icon and a text that wraps beside it."""
    grid = Table.grid(padding=(0, 1))
    grid.add_column(width=2 + indent, justify="right")
    grid.add_column(ratio=1, overflow="fold")
    grid.add_row(icon, content)
    return grid


def figures(outcome: Outcome, seconds: float) -> str:
    """The last line of a run."""
    usage, actions = outcome.usage, len(outcome.actions)
    parts = [f"{outcome.model_calls} model calls"]
    if usage.input_tokens or usage.output_tokens:
        parts.append(f"{usage.input_tokens:,} tokens in, {usage.output_tokens:,} out")
    parts.append(f"actions behind a thought: {outcome.behind_a_thought} of {actions}")
    parts.append(f"exit: {outcome.exit}")
    parts.append(f"{seconds:.1f} s")
    return " · ".join(parts)

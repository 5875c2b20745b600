"""A conversation with any agent at the terminal: `chat(agent)`.

Rule 1: an error or Ctrl-C ends the turn, not the conversation, which keeps that turn's messages.
Rule 2: Ctrl-C clears a half-typed line. A second Ctrl-C leaves.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from ..agent import Agent
from ..audit.explain import explain
from ..errors import FileError, ModelError
from ..messages import Message
from ..mistakes import note_mistake
from ..outcome import Outcome
from .console import RunView
from .screen import Screen, read_line, write_block
from .why import explain_steps


def chat(agent: Agent) -> None:
    """Talk with an agent at a prompt with a history. `/help` lists the commands. The conversation
    lasts until you leave.
    """
    view = RunView(Screen(), agent=agent)
    view.print("Type a request, or /help.")
    Chat(agent, view).talk()


@dataclass
class Chat:
    """The prompt. A subclass may add commands (`help` and `obey`) and run turns differently."""

    agent: Agent
    view: RunView
    transcript: Sequence[Message] = ()

    help: ClassVar[dict[str, str]] = {
        "/help": "this list",
        "/explain": "why each step of the last turn was taken, and which policy changed it",
        "/reset": "forget the conversation",
        "/quit": "leave (Ctrl-D does, too, and Ctrl-C twice)",
    }

    def talk(self) -> None:
        """Run turns until the person leaves."""
        while True:
            text = self.read()
            if text == "/quit":
                return
            if text.startswith("/"):
                self.obey(text)
            else:
                self.answer(text)

    def answer(self, text: str) -> None:
        """One turn."""
        try:
            with self.view:
                self.transcript = self.work(text).transcript
        except KeyboardInterrupt as stop:
            self.break_off(stop)
        except Exception as error:
            problem = str(error)
            if not isinstance(error, (ModelError, FileError)):
                problem = note_mistake("the agent", error)  # a bug in a check or a policy
            self.view.print(f"error: {problem}", "red")
            self.break_off(error)

    def work(self, text: str) -> Outcome:
        """Run the agent for one turn."""
        return self.agent.run(text, transcript=self.transcript, on_event=self.view)

    def break_off(self, error: BaseException) -> None:
        """Keep the messages of a turn that an error or Ctrl-C ended."""
        transcript = vars(error).get("transcript", ())
        if len(transcript) > len(self.transcript):
            self.transcript = transcript
            self.view.print("The conversation continues with your next request.", "yellow")

    def obey(self, command: str) -> None:
        """Handle a line that begins with a slash."""
        match command:
            case "/explain":
                self.explain()
            case "/reset":
                self.transcript = ()
                self.view.print("The conversation is forgotten.", "dim")
            case _:
                if command != "/help":
                    self.view.print(f"not a command: {command}", "red")
                self.view.table(self.help)

    def explain(self) -> None:
        """Show why each step of the last turn was taken."""
        self.view.print("\nWhy each step was taken:")
        steps = explain(self.agent, self.transcript)
        last = [step for step in steps if step.turn == steps[-1].turn]
        for mark, text in explain_steps(last):
            write_block(self.view.console, mark, "", text)

    def read(self) -> str:
        """The line that the person types; "/quit" at the end of input or at the second Ctrl-C."""
        is_leaving = False
        while True:
            try:
                text = read_line("\n> ").strip()
                if text:
                    return text
            except EOFError:
                return "/quit"
            except KeyboardInterrupt:
                if is_leaving:
                    return "/quit"
                is_leaving = True
                self.view.print("\n(Ctrl-C again leaves.)", "dim")

"""A conversation with any agent: what is remembered, what is explained, how it is left."""

import inspect
import io

import pytest

from tests.cli.consoles import console_into
from tests.support.commands import in_a_terminal, text_of
from think_agent import Agent, ConnectionFailed, Model, ScriptedModel, tool
from think_agent.cli import chat, watch
from think_agent.cli.console import RunView
from think_agent.cli.conversation import Chat
from think_agent.cli.screen import Screen
from think_agent.testing import call, think


@pytest.fixture
def stdin(monkeypatch):
    """A function that makes these lines the stdin."""

    def lines(*lines: str) -> None:
        text = "".join(f"{line}\n" for line in lines)
        monkeypatch.setattr("sys.stdin", io.StringIO(text))

    return lines


def test_a_conversation_is_remembered_until_it_is_reset(stdin, capsys):
    seen = []

    def reply(request):
        seen.append([message.text for message in request.messages if hasattr(message, "text")])
        return ScriptedModel([f"answer {len(seen)}"]).complete(request)

    stdin("one", "two", "/reset", "three", "/quit", "four")
    chat(Agent(ScriptedModel(reply), force="never"))
    assert seen == [["one"], ["one", "answer 1", "two"], ["three"]]
    assert "The conversation is forgotten." in capsys.readouterr().out


def test_only_the_last_turn_is_explained(stdin, capsys):
    replies = ["first answer", think("Nothing to do.", False), "second answer"]
    stdin("/explain", "one", "two", "/explain")
    chat(Agent(ScriptedModel(replies), force="never"))
    none, last = capsys.readouterr().out.split("Why each step was taken:\n")[1:]
    assert "next_step" not in none
    assert "first answer" not in last
    assert last.startswith("  1. next_step: ")
    assert "second answer" in last


def test_an_explanation_wraps_beside_its_mark():
    out = io.StringIO()
    view = RunView(console_into(out, terminal=True, width=40))
    agent = Agent(ScriptedModel(["A long answer that does not fit in a line."]), force="never")
    transcript = agent.run("Go on with all that there is to do.").transcript
    Chat(agent, view, transcript).explain()
    lines = [line.rstrip() for line in out.getvalue().splitlines()]
    assert "       -> A long answer that does not" in lines
    assert "          fit in a line." in lines


def test_an_unknown_command_is_answered_with_the_list_of_commands(stdin, capsys):
    stdin("/bogus", "/help")
    chat(Agent(ScriptedModel([]), force="never"))
    shown = capsys.readouterr().out
    assert "not a command: /bogus" in shown
    assert shown.count("/reset") == 2


class Unreachable(Model):
    def complete(self, request):
        raise ConnectionFailed("no server at http://127.0.0.1:9; start it")


def test_after_one_line_about_an_unreachable_model_the_conversation_goes_on(stdin, capsys):
    stdin("one", "two")
    chat(Agent(Unreachable()))
    shown = capsys.readouterr().out
    assert shown.count("error: no server at http://127.0.0.1:9; start it\n") == 2


def test_a_turn_that_ended_in_an_error_is_remembered(stdin):
    replies = [call("look"), think("x", False)]  # and then the script is over
    stdin("one", "two")
    view = RunView(Screen())
    with view:
        talk = Chat(Agent(ScriptedModel(replies), force="never"), view)
        talk.talk()
    requests = [m.text for m in talk.transcript if getattr(m, "kind", "") == "person"]
    assert requests == ["one", "two"]


def test_a_call_that_was_stopped_has_a_result_also_if_the_next_turn_is_stopped(stdin):
    """A provider refuses a request in which a call has no result."""

    @tool(read_only=True)
    def look() -> str:
        """Look."""
        raise KeyboardInterrupt

    requests = []

    def reply(request):
        requests.append(request)
        if len(requests) == 2:
            raise ConnectionFailed("the server is gone")
        return ScriptedModel([call("look")]).complete(request)

    stdin("one", "two", "three")
    chat(Agent(ScriptedModel(reply), [look], force="never"))
    kinds = [type(message).__name__ for message in requests[2].messages]
    assert kinds == ["User", "Assistant", "ToolResult", "User", "User"]


def test_a_mistake_in_a_check_has_a_line_and_the_prompt_stays(stdin, capsys):
    """What it raises goes to the developer, and the traceback stays off the screen."""

    def broken(turn):
        raise KeyError("pirce")

    stdin("refund it", "/quit")
    chat(Agent(ScriptedModel(["Done."]), done_when=[broken]))
    shown = capsys.readouterr()
    line = inspect.getsourcelines(broken)[1] + 1
    assert f"KeyError: 'pirce' ({__file__}, line {line})" in " ".join(shown.out.split())
    assert "Traceback" not in shown.out + shown.err


def test_a_watched_run_without_a_server_ends_the_program_with_one_line():
    with pytest.raises(SystemExit) as ended:
        watch(Agent(Unreachable()), "hi")
    assert str(ended.value) == "error: no server at http://127.0.0.1:9; start it"
    assert isinstance(ended.value.__cause__, ConnectionFailed)


PROGRAM = """
from think_agent import Agent, ScriptedModel, tool
from think_agent.cli import at_the_terminal, chat
from think_agent.testing import call, think
@tool(needs_approval=True)
def pay(dollars: int) -> str:
    "Pay."
    return f"paid {dollars}"
script = [(think("It is due."), call("pay", dollars=12)), think("Paid.", False), "It is paid."] * 2
chat(Agent(ScriptedModel(script), [pay], approve=at_the_terminal))
"""


def test_approval_and_ctrl_c_in_a_conversation():
    keys = ["pay it", ("stop the run", "y\r"), "again", ("stop the run", "\x03")]
    keys += [("your next request", "\x03"), ("again leaves", "\x03")]
    screen, code, _ = in_a_terminal(["-c", PROGRAM], keys=keys)
    shown = text_of(screen)
    assert code == 0, shown
    assert shown.count("paid 12") == 1
    assert "The conversation continues with your next request." in shown

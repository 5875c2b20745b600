"""Asking a person: what is on the screen, what the keys do, what a stopped run says."""

import io
import re
import shlex
from contextlib import redirect_stdout
from unittest.mock import patch

import pytest
from rich.console import Console

from tests.support.commands import decisions, in_a_terminal, run_here, text_of
from think_agent import Agent, ScriptedModel, tool
from think_agent.cli import RunView, at_the_terminal, watch
from think_agent.messages import Verdict
from think_agent.testing import call, think


@tool(needs_approval=True)
def pay(order_id: str, dollars: int) -> str:
    """Pay."""
    return f"paid {dollars} for {order_id}"


@tool(needs_approval=True)
def ship(order_id: str, boxes: int = 1) -> str:
    """Ship."""
    return f"{order_id} is on its way, in {boxes} boxes"


class Typed(io.StringIO):
    """A stdin of these lines; at its end somebody may press Ctrl-C."""

    def __init__(self, *lines: str, interrupted: bool = False):
        super().__init__("".join(f"{line}\n" for line in lines))
        self.interrupted = interrupted

    def readline(self, *size):
        line = super().readline(*size)
        if not line and self.interrupted:
            raise KeyboardInterrupt
        return line


def agent_that_pays(times=1, calls=(), **settings) -> Agent:
    pays = [call("pay", order_id="A " * 20, dollars=580 + n) for n in range(times)]
    replies = [(think("Broken, so pay."), *(calls or pays))] * 9
    settings = {"force": "never", "approve": at_the_terminal, **settings}
    return Agent(ScriptedModel(replies), [pay, ship], **settings)


def asked(*answers, interrupted=False, width=60, view=(), times=1, **settings):
    """What is shown when `pay` waits for a person, so many times in a reply, who gives these
    answers; and the verdicts.
    """
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=width, color_system=None)
    shown = RunView(console, **dict(view))
    transcript = ()
    with patch("sys.stdin", Typed(*answers, interrupted=interrupted)), redirect_stdout(out):
        try:
            with shown:
                agent = agent_that_pays(times, **settings)
                transcript = agent.run("go", on_event=shown).transcript
        except KeyboardInterrupt:
            pass
    return text_of(out.getvalue()), [m for m in transcript if isinstance(m, Verdict)]


@pytest.mark.parametrize("view", [{}, {"thoughts": False}])
def test_the_call_and_the_thought_are_on_the_screen_once(view):
    screen, _ = asked("q", width=200, view=view)
    assert screen.count("pay(") == 1
    assert screen.count("Broken, so pay.") == 1
    assert "quit: nothing more is run" in screen


def test_at_the_terminal_needs_no_other_setup(capsys, monkeypatch):
    """In a run that shows nothing else, and in one that is watched."""
    monkeypatch.setattr("sys.stdin", Typed("q", "q"))
    assert agent_that_pays().run("go").exit == "declined"
    plain = capsys.readouterr().out
    assert watch(agent_that_pays(), "go").exit == "declined"
    watched = capsys.readouterr().out
    for shown in (plain, watched):
        assert shown.count("pay(") == 1
        assert shown.count("Broken, so pay.") == 1
    assert "The thought behind it: Broken, so pay." in plain


@pytest.mark.parametrize(("provider", "times"), [("ollama", 2), ("offline", 0)])
def test_a_pause_says_that_ollama_may_unload_the_model(capsys, monkeypatch, provider, times):
    monkeypatch.setattr("sys.stdin", Typed("y", "q"))
    calls = [think("Pay both."), *(call("pay", order_id="A", dollars=n) for n in (1, 2))]
    model = ScriptedModel([calls], name=provider)
    watch(Agent(model, [pay], force="never", approve=at_the_terminal), "go")
    assert capsys.readouterr().out.count("keep_alive sets how long") == times


def test_a_later_decision_is_offered_only_where_a_file_keeps_the_run(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("sys.stdin", Typed("q", "q"))
    watch(agent_that_pays(), "go")
    assert "Ctrl-C  stop the run here" in capsys.readouterr().out
    watch(agent_that_pays(), "go", transcript=tmp_path / "run.jsonl")
    assert "Ctrl-C  stop here, and decide another day" in capsys.readouterr().out


def test_of_several_calls_the_waiting_one_is_just_above_its_question():
    screen, _ = asked("y", "n late", "q", width=200, times=3)
    screen = screen.replace("⠋ 0 s", "")
    asked_before = re.findall(r"pay\(.*dollars=(\d+)\)\s+Run pay\?", screen)
    assert asked_before == ["580", "581", "582"]
    assert screen.count("pay(") == 3


def test_a_stop_is_shown_once_and_in_quiet_mode_as_the_answer():
    screen, _ = asked(width=200)
    assert screen.lower().count("stopped") == 1
    assert re.search("^ ⚑ stopped", screen, re.MULTILINE)  # on a line of its own
    assert "The input ended." in screen
    assert "(Nothing more was run.)" in screen
    quiet, _ = asked(width=200, view={"quiet": True})
    assert "Stopped by " in quiet


def test_an_unknown_key_is_asked_again_and_a_no_has_a_reason():
    screen, verdicts = asked("maybe", "n too late", "n", "still", "q")
    assert "Answer with one of the letters" in screen
    assert [(v.decision, v.reason) for v in verdicts][:2] == [("no", "too late"), ("no", "still")]


def test_an_edit_starts_from_the_present_value_and_an_empty_line_keeps_it():
    screen, verdicts = asked("e", "ORD-1", "290", "e", "", "", "y", "q", width=200)
    assert "dollars: " in screen
    assert screen.count('Run pay(order_id="ORD-1", dollars=290)?') == 2
    assert verdicts[0].arguments == {"order_id": "ORD-1", "dollars": 290}


def test_a_default_is_recorded_only_where_the_person_changes_it():
    ships = [call("ship", order_id="ORD-1")]
    screen, verdicts = asked("e", "", "", "y", "q", width=200, calls=ships)
    assert 'ship(order_id="ORD-1", boxes=1)?' in screen
    assert verdicts[0].arguments == {"order_id": "ORD-1"}
    _, verdicts = asked("e", "", "2", "y", "q", calls=ships)
    assert verdicts[0].arguments == {"order_id": "ORD-1", "boxes": 2}


def test_an_invalid_edit_is_asked_again_and_can_be_corrected():
    answers = ["e", "ORD-1", "a lot", "y", "e", "ORD-1", "290", "y", "q"]
    screen, verdicts = asked(*answers, width=200)
    assert "That edit does not fit: bad arguments for pay: dollars" in screen
    assert len(verdicts) == 3
    assert "paid 290 for ORD-1" in screen


@pytest.mark.parametrize("decided", [[], ["y"]])
def test_ctrl_c_says_what_was_done_before(decided):
    shown, _ = asked(*decided, interrupted=True, max_repeats=9)
    *_, last = shown.partition("Stopped. ")
    assert last.startswith("Nothing was done.") == (not decided)
    assert last.count("✓ pay(") == len(decided)


@pytest.mark.parametrize("answers", [[], ["n"], ["e"], ["e", "x", "[" * 3000]])
def test_end_of_input_at_any_prompt_quits(answers):
    _, verdicts = asked(*answers)
    assert verdicts[-1].decision == "quit"


# In a real terminal.


def test_the_command_that_a_stopped_run_prints_resumes_it(tmp_path):
    kept, db = tmp_path / "a b.jsonl", tmp_path / "shop.db"
    flags = ["--provider", "offline", "--db", str(db), "--approve", "ask", "--no-stream"]
    words = ["-m", "demos.refund", "ORD-004", *flags, "--transcript", str(kept)]
    screen, code, _ = in_a_terminal(words, "another day")
    screen = text_of(screen)
    assert code == 130
    assert "Stopped. Done so far:" in screen
    advice = screen[screen.index("python -m demos.refund") :].replace("\\\n", " ")
    again = shlex.split(advice.splitlines()[0])
    assert again[1:5] == ["-m", "demos.refund", "--resume", str(kept)]
    assert sorted(again[5:]) == sorted(flags)
    assert decisions(db) == []
    screen, code, _ = in_a_terminal(again[1:], "another day")
    assert screen.count("process_refund(") == 1  # what waits
    again[again.index("ask")] = "always-under 600"
    assert "the rule --approve always-under 600" in run_here("demos.refund", *again[3:]).stdout
    assert decisions(db) == [("ORD-004", "approve")]


def test_an_edit_in_a_terminal_starts_from_the_present_value(tmp_path):
    flags = ["--provider", "offline", "--approve", "ask", "--no-stream"]
    keys = [("stop the run", "e\r"), ("order_id: ORD-004", "\r"), ("decision: approve", "\r")]
    keys += [("reason: ", ", and so I said\r"), ("Run process_refund", "y\r")]
    screen, code, _ = in_a_terminal(["-m", "demos.refund", "ORD-004", *flags], keys=keys)
    assert code == 0, screen
    answer = text_of(screen).partition("Refunded: ")[2]
    assert "and so I said" in " ".join(answer.split())


def test_ctrl_c_clears_a_half_typed_line_and_leaves_when_pressed_twice():
    keys = ["/help", ("\n> ", "half"), ("half", "\x03"), ("\n> ", "\x03")]
    keys += [("again leaves", "again"), ("again", "\x03"), ("\n> ", "/hel\x15/thoughts\r")]
    keys += [("or /", "\x03")]
    keys += [("again leaves", "\x03")]
    screen, code, _ = in_a_terminal(["-m", "demos.refund", "--provider", "offline"], keys=keys)
    assert code == 0
    assert screen.count("again leaves") == 2
    assert "/thoughts on, or /thoughts off" in screen
    assert re.search(r"or the *\n {20}answers alone", text_of(screen))

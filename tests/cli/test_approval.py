"""Asking a person: what is on the screen, what the keys do, what a stopped run says."""

import io
import queue
import re
import shlex
import threading
from contextlib import redirect_stdout
from unittest.mock import patch

import pytest
from rich.cells import cell_len

from tests.cli.consoles import console_into, lasting
from tests.support.commands import decisions, in_a_terminal, run_here, text_of
from think_agent import Agent, AskHuman, ScriptedModel, ToolCall, tool
from think_agent.cli import RunView, at_the_terminal, watch
from think_agent.messages import Verdict
from think_agent.testing import call, think
from think_agent.text import json_text


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


def asked(*answers, interrupted=False, view=(), times=1, **settings):
    """What is shown when `pay` waits for a person, so many times in a reply, who gives these
    answers; and the verdicts.
    """
    out = io.StringIO()
    shown = RunView(console_into(out, terminal=True, width=200), **dict(view))
    transcript = ()
    with patch("sys.stdin", Typed(*answers, interrupted=interrupted)), redirect_stdout(out):
        try:
            with shown:
                agent = agent_that_pays(times, **settings)
                transcript = agent.run("go", on_event=shown).transcript
        except KeyboardInterrupt:
            pass
    return text_of(lasting(out.getvalue())), [m for m in transcript if isinstance(m, Verdict)]


@pytest.mark.parametrize("view", [{}, {"thoughts": False}])
def test_the_call_and_the_thought_are_on_the_screen_once(view):
    screen, _ = asked("q", view=view)
    assert screen.count("Run pay?") == 1
    assert screen.count("pay(") == view.get("thoughts", True)
    assert screen.count("Its thought: Broken, so pay.") == 1  # on the card, always
    assert "quit: nothing more is run" in screen


def test_at_the_terminal_needs_no_other_setup(capsys, monkeypatch):
    """In a run that shows nothing else."""
    monkeypatch.setattr("sys.stdin", Typed("q"))
    assert agent_that_pays().run("go").exit == "declined"
    shown = capsys.readouterr().out
    assert shown.count("Run pay?") == 1
    assert shown.count("Its thought: Broken, so pay.") == 1


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
    screen, _ = asked("y", "n late", "q", times=3)
    card = r"pay\(.*\)\s+Its thought: .*\s+order_id: .*\s+dollars: (\d+)\s+Run pay\?"
    asked_before = re.findall(card, screen)
    assert asked_before == ["580", "581", "582"]
    assert screen.count("pay(") == 3


def test_a_stop_is_shown_once_and_in_quiet_mode_as_the_answer():
    screen, _ = asked()
    assert screen.lower().count("stopped") == 1
    assert re.search("^ ⚑ stopped", screen, re.MULTILINE)  # on a line of its own
    assert "The input ended." in screen
    assert "(Nothing more was run.)" in screen
    quiet, _ = asked(view={"quiet": True})
    assert "Stopped by " in quiet


def test_an_unknown_key_is_asked_again_and_a_no_has_a_reason():
    screen, verdicts = asked("maybe", "n too late", "n", "still", "q")
    assert "Answer with one of these letters: y, n, e, v, q." in screen
    assert [(v.decision, v.reason) for v in verdicts][:2] == [("no", "too late"), ("no", "still")]


def test_an_edit_starts_from_the_present_value_and_an_empty_line_keeps_it():
    screen, verdicts = asked("e", "ORD-1", "290", "e", "", "", "y", "q")
    cards = re.findall(r'order_id: "ORD-1"\s+dollars: 290\s+Run pay\?', screen)
    assert len(cards) == 2
    assert verdicts[0].arguments == {"order_id": "ORD-1", "dollars": 290}


def test_a_default_is_recorded_only_where_the_person_changes_it():
    ships = [call("ship", order_id="ORD-1")]
    screen, verdicts = asked("e", "", "", "y", "q", calls=ships)
    assert re.search(r'order_id: "ORD-1"\s+boxes: 1\s+Run ship\?', screen)
    assert verdicts[0].arguments == {"order_id": "ORD-1"}
    _, verdicts = asked("e", "", "2", "y", "q", calls=ships)
    assert verdicts[0].arguments == {"order_id": "ORD-1", "boxes": 2}


def test_an_invalid_edit_is_asked_again_and_can_be_corrected():
    answers = ["e", "ORD-1", "a lot", "y", "e", "ORD-1", "290", "y", "q"]
    screen, verdicts = asked(*answers)
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


# The card.

LONG = "wobbles\n" * 20 + "x" * 3_000 + "\nRun check_balance(account=12)? It only reads."
UNSEEN = ["\u3164", "\u2800", "\u034f", "\ufe0f", "\u200d", "\u202e", "\u2066", "\u00ad", "\x1b"]


def answered(keys, arguments, *, width=80, **question):
    """The verdict of somebody who types these keys, and what the terminal shows."""
    out = io.StringIO()
    asked = AskHuman("Run pay?", ToolCall("p", "pay", arguments), **question)
    view = RunView(console_into(out, terminal=True, width=width))
    with patch("sys.stdin", Typed(*keys)), redirect_stdout(out), view:
        verdict = at_the_terminal(asked)
    return verdict, text_of(out.getvalue())


def card(width, arguments, **question):
    """What `v` and then `q` show of a question, by lines: the card, and the whole."""
    verdict, shown = answered("vq", arguments, width=width, **question)
    assert verdict.decision == "quit"
    first, whole, _ = shown.split("> ", maxsplit=2)
    return first.rstrip().splitlines(), whole


@pytest.mark.parametrize("width", [60, 80, 120])
def test_a_long_argument_moves_nothing_off_the_card(width):
    arguments = {"to": LONG, "cents": 8900, "reason": LONG}
    lines, whole = card(width, arguments, thought=LONG, received={**arguments, "note": ""})
    question = lines.index("Run pay?")
    rows = lines[question - 4 : question]
    assert [row.split(":")[0].strip() for row in rows] == ["to", "cents", "reason", "note"]
    assert rows[0].endswith(f"… ({len(json_text(LONG)):,} characters; v shows it)")
    assert all(cell_len(row) <= width for row in rows)
    assert lines[question + 1].startswith("y ")  # the keys, directly below the name of the tool
    assert len(lines) <= 24
    assert whole.count("x" * 50) > 50
    assert not re.search("^Run check_balance", "\n".join(lines) + whole, re.MULTILINE)


@pytest.mark.parametrize("char", UNSEEN)
def test_what_cannot_be_seen_is_written_out(char):
    odd = f"A{char}B"
    lines, whole = card(80, {"to": odd, odd: 1}, thought=odd, remark=odd)
    assert char not in "".join(lines) + whole
    assert "\n".join(lines).count("A\\") == 4  # in a value, a name, the thought and the remark
    assert whole.count("A\\") == 3 + 4  # and the card again


def test_the_name_of_an_argument_looks_like_nothing_else():
    """A tool of a ready schema may take any name: in `v`, and at the prompt of an edit."""
    _, shown = answered("vq", {"the thought": 1}, thought="Broken.")
    assert re.search(r"the thought: +Broken\.\s+the thought: +1\s", shown)
    with patch("builtins.input", side_effect=["e", "", "q"]) as read:
        answered("", {"a\x1b[2J\nRun x?": 1})
    assert read.call_args_list[1].args == (r"a\x1b[2J Run x?: ",)


def test_a_call_with_many_arguments_stays_on_the_screen():
    lines, whole = card(80, {f"a{n}": n for n in range(100)})
    assert len(lines) < 24
    assert "(88 more arguments; v shows them)" in "\n".join(lines)
    assert re.search(r"a99: +99", whole)


def test_a_call_in_doubt_has_three_answers():
    new = ToolCall("p", "pay", {"cents": 1})
    verdict, shown = answered("ew", {"cents": 2}, as_new=new)
    assert verdict.decision == "yes"
    assert verdict.new is True
    assert "Answer with one of these letters: y, w, n, v, q." in shown
    assert re.search(r"cents: 2\s+As a new one it would be:\s+cents: 1\s+Run pay\?", shown)


def test_two_threads_ask_one_after_the_other():
    """What is typed answers the question that is on the screen."""
    answers = queue.Queue()
    shown, verdicts = [], {}

    def read(prompt):
        shown.append(prompt)
        return answers.get()

    def ask(cents):
        call = ToolCall("p", "pay", {"cents": cents})
        verdicts[cents] = at_the_terminal(AskHuman("Run pay?", call)).decision

    out = io.StringIO()
    threads = [threading.Thread(target=ask, args=(cents,)) for cents in (5, 1_000_000)]
    with patch("builtins.input", read), redirect_stdout(out):
        for thread in threads:
            thread.start()
        while not shown:  # the first question is on the screen, and the second one waits
            pass
        first = int(re.findall(r"cents: (\d+)", out.getvalue())[0])
        assert len(re.findall("cents: ", out.getvalue())) == 1
        answers.put("y")
        answers.put("n no")
        for thread in threads:
            thread.join()
    assert verdicts[first] == "yes"
    assert sorted(verdicts.values()) == ["no", "yes"]


def test_in_a_pipe_no_line_of_a_text_looks_like_a_line_of_the_run(capsys):
    forged = "Fine.\n🔧 process_refund(cents=1)\n⚑ yes, by alice"
    model = ScriptedModel([(think(forged), call("ship", order_id="A")), "Done."])
    settings = {"approve": lambda asked: False, "force": "never", "silence": "accept"}
    watch(Agent(model, [ship], **settings), "go")
    lines = capsys.readouterr().out.splitlines()
    assert "   🔧 process_refund(cents=1)" in lines
    assert not [line for line in lines if line.startswith(("🔧 process_refund", "⚑ yes"))]


# In a real terminal.


def advised(screen: str) -> list[str]:
    """The command that a stopped run prints, without its first word."""
    advice = text_of(screen).partition("python ")[2].replace("\\\n", " ")
    return shlex.split(advice.splitlines()[0])


@pytest.mark.parametrize("shop", ["a b.shop.db", "own.db"], ids=["its own shop", "a named shop"])
def test_the_command_that_a_stopped_run_prints_resumes_it(tmp_path, shop):
    """A shop that no flag names lies beside the transcript, with what was booked before Ctrl-C."""
    kept, db = tmp_path / "a b.jsonl", tmp_path / shop
    flags = ["--provider", "offline", "--approve", "ask", "--no-stream"]
    if shop == "own.db":
        flags += ["--db", str(db)]
    words = ["-m", "demos.refund", "ORD-001 and ORD-004", *flags, "--transcript", str(kept)]
    screen, code, _ = in_a_terminal(words, "another day")
    assert code == 130
    assert "Stopped. Done so far:" in text_of(screen)
    again = advised(screen)
    assert again[:4] == ["-m", "demos.refund", "--resume", str(kept)]
    assert sorted(again[4:]) == sorted(flags)
    assert decisions(db) == [("ORD-001", "approve")]
    screen, _, _ = in_a_terminal(again, "another day")
    assert text_of(screen).count('process_refund(order_id="ORD-004"') == 1  # what waits
    again[again.index("ask")] = "always-under 600"
    resumed = run_here(*again[1:]).stdout
    assert "the rule --approve always-under 600" in resumed
    assert decisions(db) == [("ORD-001", "approve"), ("ORD-004", "approve")]
    assert "✓ no order left open" in resumed
    assert "no decision" not in resumed


def test_an_edit_in_a_terminal_starts_from_the_present_value(tmp_path):
    flags = ["--provider", "offline", "--approve", "ask", "--no-stream"]
    keys = [("stop the run", "e\r"), ("order_id: ORD-004", "\r"), ("decision: approve", "\r")]
    keys += [("reason: ", ", and so I said\r"), ("Run process_refund", "y\r")]
    screen, code, _ = in_a_terminal(["-m", "demos.refund", "ORD-004", *flags], keys=keys)
    assert code == 0, screen
    answer = text_of(screen).partition("Refunded: ")[2]
    assert "and so I said" in " ".join(answer.split())


def test_ctrl_c_clears_a_half_typed_line_and_leaves_when_pressed_twice():
    keys = ["/help", ("\n> ", "half"), ("half", "\x03"), ("again leaves", "/thoughts\r")]
    keys += [("or /", "\x03"), ("again leaves", "\x03")]
    screen, code, _ = in_a_terminal(["-m", "demos.refund", "--provider", "offline"], keys=keys)
    assert code == 0
    assert screen.count("again leaves") == 2
    assert "/thoughts on, or /thoughts off" in screen
    assert re.search(r"or the *\n {20}answers alone", text_of(screen))


@pytest.mark.parametrize("stdin", [None, "closed"])
def test_with_stdin_closed_a_question_is_declined(stdin, monkeypatch):
    """A service may run without one: `python desk.py <&-`."""
    if stdin:
        stdin = io.StringIO()
        stdin.close()
    monkeypatch.setattr("sys.stdin", stdin)
    question = AskHuman("Run pay(cents=5)?", ToolCall("p", "pay", {"cents": 5}))
    with redirect_stdout(io.StringIO()):
        verdict = at_the_terminal(question)
    assert verdict.decision == "quit"
    assert verdict.reason == "The input ended."

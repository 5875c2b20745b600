"""What a person sees: plain and complete in a pipe, live in a terminal, never raw."""

import io
import json
import re
import subprocess
import sys
from collections import Counter

import pytest
from rich.console import Console

from tests.cli.consoles import console_into, lasting
from tests.support.commands import in_a_terminal, text_of
from tests.support.counting import counted
from tests.support.sizes import ROOT
from think_agent import Agent, Assistant, Request, ScriptedModel, ToolCall, Usage, tool
from think_agent.cli import watch
from think_agent.cli.console import RunView
from think_agent.cli.screen import say
from think_agent.dialects import in_dialect
from think_agent.dialects.base import Wrapper
from think_agent.streaming import Delta
from think_agent.testing import call, think

REFUND = ["-m", "demos.refund", "ORD-001", "--provider", "offline"]
HOSTILE = "\x1b[2J\x1b]0;owned\x07[red]bold[/red] \x9b31m \u202ereversed \ud800 \r\x00 :smile:"


@tool
def look(order_id: str) -> str:
    """Look."""
    return f"found {order_id}"


@tool
def order(order_id: str) -> dict[str, object]:
    """Look an order up."""
    notes: dict[str, object] = {"note": "", "lines": [{"n": 1}], "tags": ["a", "b"], "rule": None}
    return {"order_id": order_id, "price": "$89.00", "days": 13, "final_sale": False, **notes}


A = call("look", order_id="A")


def agent_of(*replies) -> Agent:
    return Agent(ScriptedModel(replies), [look, order], force="never", silence="accept")


def shown_of(agent: Agent, *, terminal: bool = False, width: int = 60, **options) -> str:
    out = io.StringIO()
    with RunView(console_into(out, terminal, width), **options) as view:
        agent.run("go", on_event=view)
    return text_of(lasting(out.getvalue()))


def watched(*replies, **options) -> str:
    return shown_of(agent_of(*replies), **options)


@pytest.mark.parametrize("terminal", [False, True])
def test_hostile_text_is_shown_but_does_not_control_the_terminal(terminal):
    acts = think(HOSTILE), call("look", order_id=HOSTILE)
    replies = Assistant(HOSTILE, HOSTILE, acts), HOSTILE
    text = watched(*replies, terminal=terminal, width=200)
    assert not re.search(r"[\x07\x1b]", text)
    assert text.count("[red]bold[/red]") >= 4
    assert r"\x1b]0;owned\x07" in text


def test_a_pipe_gets_whole_lines_of_any_length():
    thought, answer = ("word " * 100).strip(), ("ok " * 200).strip()
    lines = watched(think(thought), answer).splitlines()
    assert [line.rstrip() for line in lines if line][:2] == [f"💭 {thought}", answer]


def test_a_narrow_terminal_wraps_beside_the_icon_and_json_behind_a_comma():
    text = watched(think("word " * 30), "ok", terminal=True, width=30)
    wrapped = [line for line in text.splitlines() if "word" in line]
    assert len(wrapped) > 4
    assert all(line.startswith(("💭", "   ")) for line in wrapped)
    data = '{"first":"' + "x" * 12 + '","second":"' + "y" * 12 + '"}'
    text = watched(call("look", order_id=data), "ok", terminal=True, width=44, verbose=True)
    assert re.search(r'found \{"first":"x{12}", *\n +"second":"y{12}"\}', text)


LONG = "No server at http://127.0.0.1:11434; start it with: ollama serve, or install it first."


def test_a_notice_is_one_line_in_a_pipe_and_wraps_at_words_in_a_terminal(capfd):
    say(LONG + "\x1b[2J")
    shown = capfd.readouterr()
    assert shown.out == ""
    assert shown.err == LONG + "\\x1b[2J\n"
    code = f"from think_agent.cli.screen import say; say({LONG!r})"
    lines = text_of(in_a_terminal(["-c", code])[0]).splitlines()
    assert len(lines) > 1
    assert max(map(len, lines)) <= 60
    assert " ".join(line.strip() for line in lines).strip() == LONG


@pytest.mark.parametrize("terminal", [False, True])
def test_a_table_hangs_beside_its_names(terminal):
    out = io.StringIO()
    rows = {"/go": "word " * 8 + "end", "/thoughts": "on or off"}
    RunView(console_into(out, terminal, width=30)).table(rows)
    hangs = "\n" + " " * 11 if terminal else " "  # four words are 19 characters
    said = hangs.join(["word word word word", "word word word word", "end"])
    lines = [line.rstrip() for line in out.getvalue().splitlines()]
    assert "\n".join(lines) == f"/go        {said}\n/thoughts  on or off"


def test_each_kind_of_event_has_its_line():
    text = watched(
        Assistant("Let me look.", "native", (think("plan"), call("look", order_id="A"))),
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
        "– ended by silence · 1 action, after a thought · 3 model calls · ",
    ):
        assert line in text


@pytest.mark.parametrize(
    ("text", "thought", "goes_on", "lines"),
    [
        ("I look.", "Plan.", True, ["💭 Plan.", "💬 I look."]),
        ("I look.", "Plan. I look.", True, ["💭 Plan. I look."]),
        ("It is done.", "All is well.", False, ["💭 All is well."]),
        ("I am done.", "All is well.", False, ["💭 All is well.", "💬 I am done."]),
    ],
)
@pytest.mark.parametrize("terminal", [False, True])
def test_text_beside_a_thought_is_shown_once(terminal, text, thought, goes_on, lines):
    reply = Assistant(text, tool_calls=(think(thought, goes_on),))
    shown = watched(reply, "It is done.", terminal=terminal).splitlines()
    assert [line.rstrip() for line in shown if line][:-1] == [*lines, "It is done."]


@pytest.mark.parametrize("streams", [False, True])
def test_each_text_of_a_json_plan_is_shown_once(streams):
    def plan(request: Request) -> Assistant:
        keys = request.output_schema["properties"]
        acts = len(request.messages) < 4
        values = {"understanding": "", "reasoning": f"Step {len(request.messages)}."}
        values |= {"task_complete": not acts, "response": "I look." if acts else "It is done."}
        values["actions"] = [{"tool": "look", "arguments": {"order_id": "A"}}] if acts else []
        return Assistant(json.dumps({key: values[key] for key in keys}))

    model = in_dialect(ScriptedModel(plan), "json")
    if not streams:
        model = Wrapper(model)
    lines = [line for line in shown_of(Agent(model, [look])).splitlines() if line][:-1]
    act = ["💬 I look.", '🔧 look(order_id="A")', "  ↳ found A"]
    assert lines == ["💭 Step 1.", "💭 Step 3.", *act, "💭 Step 5.", "It is done."]


def test_a_result_is_summarized_in_a_line_or_shown_whole():
    replies = call("order", order_id="ORD-001"), "ok"
    short = "  ↳ $89.00 · 13 days · final sale: no · lines: "
    assert short in watched(*replies)
    whole = '  ↳ {"order_id":"ORD-001","price":"$89.00","days":13,"final_sale":false,'
    assert whole in watched(*replies, verbose=True)


def steps_in(text: str) -> list[str]:
    return [line.rstrip() for line in text.splitlines() if line.startswith("  · ")]


def timed(*replies, **settings) -> Agent:
    """An agent whose steps take two seconds each."""
    times = (f"2026-11-27T10:00:{second:02}Z" for second in range(0, 60, 2))
    settings = {"force": "never", "silence": "accept", "now": times.__next__, **settings}
    return Agent(ScriptedModel(replies), [look], **settings)


@pytest.mark.parametrize("terminal", [False, True])
def test_in_verbose_mode_each_step_shows_its_model_call_its_tokens_and_its_time(terminal):
    looks = Assistant(tool_calls=(A,), usage=Usage(1_200, 30))
    agent = timed(looks, Assistant("ok", usage=Usage(1_300, 8)))
    assert steps_in(shown_of(agent, verbose=True, terminal=terminal, width=80)) == [
        "  · model call 1 of 30 · 1,200 tokens in, 30 out · 2.0 s",
        "  · 2.0 s",
        "  · model call 2 of 30 · 1,300 tokens in, 8 out · 2.0 s",
    ]


@pytest.mark.parametrize(
    ("own", "of_the_run", "says"),
    [
        (25, None, "model call 1 of 25"),
        (25, 7, "model call 1 of 7"),
        (None, None, "model call 1"),
        (None, 7, "model call 1 of 7"),
    ],
    ids=["the agent's limit", "the smaller limit of the run", "no limit", "a limit of the run"],
)
def test_a_model_call_is_shown_with_the_limit_that_holds(own, of_the_run, says):
    out = io.StringIO()
    with RunView(console_into(out), verbose=True) as view:
        agent = timed("ok", max_model_calls=own)
        agent.run("go", on_event=view, max_model_calls=of_the_run)
    assert steps_in(out.getvalue()) == [f"  · {says} · 2.0 s"]


def test_a_reply_that_is_shown_from_a_file_has_no_limit():
    outcome = timed(A, "ok").run("go")
    out = io.StringIO()
    view = RunView(console_into(out), verbose=True)
    for message in outcome.transcript:
        view(message)
    assert steps_in(out.getvalue()) == [
        "  · model call 1 · 2.0 s",
        "  · 2.0 s",
        "  · model call 2 · 2.0 s",
    ]


@pytest.mark.parametrize("width", [40, 60, 80])
def test_the_clock_of_a_terminal_says_which_model_call_it_is(width):
    clocks = []

    def reply(request):
        out = io.StringIO()
        console_into(out, terminal=True, width=width).print(view._preview())
        clocks.append(out.getvalue().strip())
        return next(replies)

    replies = iter([Assistant(tool_calls=(A,)), Assistant("ok")])
    agent = Agent(ScriptedModel(reply), [look], force="never", max_model_calls=25)
    with RunView(console_into(io.StringIO(), terminal=True, width=width)) as view:
        agent.run("go", on_event=view)
    calls = [clock.partition(" s · ")[2] for clock in clocks]
    assert calls == ["model call 1 of 25", "model call 2 of 25"]


def test_each_check_is_shown_with_what_is_missing(capsys):
    def every_order_found(turn):
        return None if len(turn.actions) == 2 else "ORD-2: not looked up"

    def nothing_else(turn):
        return None

    replies = [A, "All is found.", call("look", order_id="B"), "Now it is."]
    checks = [every_order_found, nothing_else]
    agent = Agent(ScriptedModel(replies), [look], force="never", done_when=checks)
    watch(agent, "go")
    lines = capsys.readouterr().out.splitlines()
    first = lines.index("✗ every order found: ORD-2: not looked up")
    assert lines[first - 1] == "💬 All is found."
    assert lines[first + 1] == "✓ nothing else"
    assert lines.index("✓ every order found") > first
    assert lines.count("Now it is.") == 1


def test_ctrl_c_says_what_was_done_and_shows_no_call_that_was_never_next(capsys):
    @tool
    def crash(order_id: str) -> str:
        """Crash."""
        raise KeyboardInterrupt

    replies = [(A, call("crash", order_id="A"), call("crash", order_id="B"))]
    with pytest.raises(KeyboardInterrupt):
        watch(Agent(ScriptedModel(replies), [look, crash], force="never"), "go")
    assert capsys.readouterr().out.partition("found A\n")[2] == (
        '🔧 crash(order_id="A")\n\nStopped. Done so far:\n✓ look(order_id="A")\n'
    )


def test_thoughts_are_loud_and_results_and_commentary_are_dim():
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=60, color_system="standard")
    with RunView(console) as view:
        comment = Assistant(commentary="on it", tool_calls=(think("plan"), A))
        agent_of(comment, "ok").run("go", on_event=view)
    lines = {text_of(line).strip()[:6]: line for line in out.getvalue().splitlines()}
    assert "\x1b[1;36m" in lines["💭 plan"]
    assert "\x1b[2m" in lines["↳ foun"]
    assert "\x1b[2m" in lines["💬 on i"]
    assert "\x1b[2m" not in lines["– ende"]


def test_when_the_reader_of_a_pipe_goes_away_the_exit_code_is_1_and_nothing_is_printed():
    command = [sys.executable, *REFUND]
    with subprocess.Popen(command, cwd=ROOT, stdout=-1, stderr=-1, text=True) as process:
        assert process.stdout
        process.stdout.close()
        assert process.stderr
        assert process.stderr.read() == ""
        assert process.wait(timeout=30) == 1


def test_any_agent_can_be_watched_even_in_a_dumb_terminal(capsys):
    agent = agent_of("ok", "and again")
    first = watch(agent, "go")
    assert watch(agent, "go on", transcript=first.transcript).answer == "and again"
    lines = [line for line in capsys.readouterr().out.splitlines() if line]
    assert lines[::2] == ["ok", "and again"]
    code = "import os; os.environ['TERM'] = 'dumb'; from think_agent import *\n"
    code += "from think_agent.cli import watch; watch(Agent(ScriptedModel(['ok ' * 40])), 'go')"
    shown, _, _ = in_a_terminal(["-c", code])
    assert "\x1b" not in shown
    assert max(map(len, shown.splitlines())) <= 60
    assert "– ended by silence" in shown  # and not the mark of a signal


def test_a_run_without_an_answer_says_why():
    half = watched(Assistant("half a sen", stop_reason="max_tokens"), quiet=True)
    assert re.match("half a sen\n.*output limit", half)
    assert "gave no text" in watched("", "", quiet=True)
    stopped = watched(Assistant("half", stop_reason="incomplete", cause="the server stopped"))
    assert "nothing of it was acted on. The cause: the server stopped.)" in stopped
    assert "output limit" not in stopped


def test_a_preview_lays_out_no_more_than_its_last_screenful():
    def preview(number: int) -> Counter[object]:
        out = io.StringIO()
        view = RunView(console_into(out, terminal=True))
        for part in range(number):
            view(Delta("answer", f"part {part} " * 20))
            view(Delta("call", "x", index=part, name="look"))
        with counted() as found:
            forming = view._preview()
        view.console.print(forming)
        assert text_of(out.getvalue()).splitlines()[-2].strip() == "🔧 look x"
        return found

    assert preview(20_000).total() <= preview(200).total()


# A real terminal: a pseudo-terminal with a slow script behind it.


def test_ctrl_c_stops_the_run_says_what_was_done_and_shows_the_cursor_again():
    shown, code, _ = in_a_terminal(REFUND, "check_refund_policy")
    assert code == 130
    assert "Done so far:" in shown
    assert '✓ lookup_order(order_id="ORD-001")' in text_of(shown)
    assert "Traceback" not in shown
    assert shown.rindex("\x1b[?25h") > shown.rindex("\x1b[?25l")  # shown again after hidden
    assert "With --transcript PATH" in shown

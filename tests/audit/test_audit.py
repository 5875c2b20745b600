"""The audit shows what happened, even from a damaged file, and never runs what is in it."""

import hashlib
import html.parser
import io
import json
import os
import re
import subprocess
from dataclasses import replace
from itertools import product
from pathlib import Path
from urllib.parse import unquote

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from rich.console import Console

from demos.refund.offline import MANAGER_PRESENT, reply
from demos.refund.shop import Shop
from tests.audit.forms import steps, text_in, to_text
from tests.audit.test_redaction import everywhere
from tests.evaluation.values import FIRST, FLOOR, NEVER, results_of
from tests.support.browser import (
    AXE,
    BROWSER,
    NO_AXE,
    SCHEMES,
    WIDTHS,
    faults,
    in_browser,
)
from tests.support.turns import transcripts
from think_agent import Agent, Assistant, Force, ScriptedModel, Turn
from think_agent.audit import explain, read, report, to_html, words
from think_agent.audit.reading import Unreadable
from think_agent.cli.console import RunView
from think_agent.cli.main import run, think_agent
from think_agent.evaluation import page as evaluation_page
from think_agent.evaluation.report import report_results as evaluation_report
from think_agent.messages import (
    Ended,
    Paused,
    Started,
    ToolCall,
    ToolResult,
    Usage,
    User,
    Verdict,
    to_json,
)
from think_agent.text import sanitize


def refund(text: str, transcript=(), **settings):
    model = ScriptedModel(lambda r: replace(reply(r), usage=Usage(100, 10, 5, 1)))
    return Agent(model, Shop().tools(), **settings).run(text, transcript=transcript)


def thoughts(made):
    return [call for step in steps(made) for call in step.calls if call.text is not None]


def actions(made):
    calls = [call for step in steps(made) for call in step.calls if call.call.name != "think"]
    return [call for call in calls if call.status in ("done", "failed", "in doubt")]


# What it says.


FIELDS = ["thought", "text", "content", "should_continue", "name", "type", "arguments"]


@given(transcripts, st.sampled_from(FIELDS))
@example(refund("ORD-001 and ORD-999").transcript, "thought")
@example(refund("ORD-004", force="never").transcript, "text")
@settings(deadline=None)
def test_any_transcript_is_shown_and_agrees_with_its_reading(messages, field):
    made = report(messages)
    turns = Turn.all(messages)
    done = [action for turn in turns for action in turn.actions]
    texts = {thought.thought: thought.text for thought in thoughts(made)}
    expected = [(a.call.id, a.result.content, a.thought, a.how) for a in done]
    seen = [(a.call.id, a.result, texts.get(a.thought), a.how) for a in actions(made)]
    assert seen == expected
    assert [turn.request for turn in made.turns] == [turn.request for turn in turns]
    heard = [thought.text for turn in turns for thought in turn.thoughts]
    assert set(heard) <= {thought.text for thought in thoughts(made)}
    assert [t.thought for t in thoughts(made)] == list(range(1, len(thoughts(made)) + 1))
    replies = [message for message in messages if isinstance(message, Assistant)]
    hidden = report(messages, redact=[field])  # no field holds a report together
    assert [turn.exit for turn in hidden.turns] == [turn.exit for turn in made.turns]
    ways = [(action.status, action.how) for action in actions(made)]
    assert [(action.status, action.how) for action in actions(hidden)] == ways
    assert [(s.number, s.reply) for s in steps(made)] == list(enumerate(replies, 1))


CALL = ToolCall("c", "pay", {"cents": 1})
ASKS = Assistant(tool_calls=(CALL,), stop_reason="tool_use")
WAITS = [User("Pay"), ASKS, Paused("Pay?", "c")]


@pytest.mark.parametrize(
    ("answers", "status"),
    [
        ([ToolResult("c", "pay", "ok")], "done"),
        ([Started("c", "pay"), ToolResult("c", "pay", "ok")], "done"),
        ([ToolResult("c", "pay", "error: no", True)], "failed"),
        ([ToolResult("c", "pay", "error: no", True, "person")], "refused"),
        ([Started("c", "pay"), ToolResult("c", "pay", "no", True, in_doubt=True)], "in doubt"),
        ([Started("c", "pay")], "started"),
        ([], "not run"),
    ],
)
def test_the_status_of_a_call(answers, status):
    made = report([User("pay"), ASKS, *answers])
    (action,) = steps(made)[0].calls
    assert action.status == status
    assert status in words.STATUS
    worth_a_look = ("started", "in doubt", "not run")
    assert bool(list(made.warnings)) == (status in worth_a_look)


def test_the_page_tells_the_story_first():
    orders = [{"id": "ORD-001", "price": "$89.00"}, {"id": "ORD-002", "price": "$19.00"}]
    looks = ToolCall("l", "list_orders", {})
    messages = [
        User("Pay me"),
        Assistant(tool_calls=(looks, CALL)),
        ToolResult("l", "list_orders", json.dumps({"orders": orders, "tags": ["a", "b"]})),
        Verdict("yes", "c", by="--approve always"),
        ToolResult("c", "pay", json.dumps({"cents": 1, "paid": True, "receipt": "R-7"})),
        Assistant("Paid."),
    ]
    schema = {"properties": {"cents": {"type": "integer"}}}
    pay = {"name": "pay", "description": "Pay out.", "parameters": schema, "think_first": True}
    looks_up = {"name": "list_orders", "read_only": True}
    header = {"instructions": "Rule 5: be fair.", "tools": [pay, looks_up]}
    hidden = report([User("Pay me"), ASKS], header=header, redact=["name"])
    assert steps(hidden)[0].calls[0].decision  # by the names that are not shown
    page = to_html(report(messages, header=header))
    words = text_in(page)
    told = "– ended by silence · 2 actions, none of them after a thought · 2 model calls "
    told += "done pay 1 cents → paid: yes · R-7 approved by --approve always"
    assert words.index(told) < words.index("without a thought")
    decision = words.partition("without a thought cents 1")[2]
    happened = " What happened approved by --approve always done Result paid true receipt R-7"
    assert decision.startswith(happened)
    assert f'<p class="headline aside">{told[:20]}' in page  # green is what a signal ended
    assert page.count('<details class="look-up">') == 1
    folded = page.partition('<details class="look-up">')[2].partition("</details>")[0]
    assert "list_orders" in folded
    assert re.sub(r"\s", "", folded).count("<tr>") == 3  # the orders, and their keys
    told = "instructions and 2 tools Rule 5: be fair. pay a thought first Pay out. cents"
    assert words.index("Paid.") < words.index(told)  # the story comes first
    assert "list_orders only reads" in words
    assert "tokens" not in words.lower()  # none were counted


@pytest.mark.parametrize("decision", ["yes", "no", "quit"])
def test_the_text_form_is_what_the_terminal_showed(decision):
    out, desk = io.StringIO(), Shop(manager=True)
    verdict = Verdict(decision, by="Dana", reason="so")
    how = {"instructions": f"{MANAGER_PRESENT}", "approve": lambda asked: verdict}
    agent = Agent(ScriptedModel(reply), desk.tools(), **how)
    with RunView(Console(file=out, highlight=False), verbose=True) as view:
        outcome = agent.run("ORD-001 and ORD-004", on_event=view)
    audited = to_text(report(outcome.transcript)).splitlines(keepends=True)
    audited = [line for line in audited if not line.startswith("! ")]  # what is worth a look
    shown = out.getvalue().partition("model calls")[0].splitlines(keepends=True)
    shown = [line for line in shown if not line.startswith("  · ")]  # what each step took
    assert "".join(shown) in "".join(audited)


def test_the_page_and_the_text_begin_with_the_name_of_the_agent(tmp_path):
    path = tmp_path / "run.jsonl"
    Agent(ScriptedModel(["Hello."]), name="refund desk").run("Hi.", transcript=path)
    record = read(path)
    made = report(record.entries, header=record.header)
    assert to_text(made).startswith(f"Audit · refund desk · run {record.header['id']} · ")
    assert '<p class="meta">refund desk · ' in to_html(made)


def test_warnings_name_what_went_wrong():
    odd = replace(CALL, recovered=True, arguments="{")
    forced = Assistant(tool_calls=(odd,), tool_choice=Force("think"), enforced="ignored")
    asked = Assistant("hm", tool_choice=Force("think"), enforced="prompt")
    broken = Assistant("half", stop_reason="incomplete", cause="the server stopped")
    garbled = Assistant("??", stop_reason="malformed", mistake="expected an Action")
    made = report([User("pay"), forced, asked, garbled, broken])
    text = ["ignored.* recovered.*", "cannot be forced, was asked to call think"]
    text += ["expected an Action", "broke off: the server stopped"]
    for step, found in zip(steps(made), text, strict=True):
        assert re.search(found, " ".join(note.text for note in step.events))
    assert made.turns[0].exit == "truncated"
    assert made.turns[0].cause == "the server stopped"
    assert "broke off: the server stopped" in to_text(made)
    page = to_html(made).split("<main>")
    assert [part.count("he server stopped.") for part in page] == [0, 3]


def test_the_exit_comes_from_the_file_or_from_the_loop():
    over = [User("hi"), Assistant("hello")]
    resumed = [User("pay"), ASKS, Ended("needs_human"), Verdict("yes", "c"), Ended("limit")]
    waits = [User("pay"), ASKS, Paused("Pay?", "c", at="2026-11-24T10:00:00Z")]
    made = [report(over), report(waits), report([User("pay"), ASKS])]
    made += [report(resumed), report(resumed[:-1])]  # gone on with, and not ended again
    exits = ["silence", "needs_human", None, "limit", None]
    assert [one.turns[0].exit for one in made] == exits
    asks = "waits for a person since 2026-11-24 10:00:00 UTC: Pay?"
    page, text = to_html(made[1]), to_text(made[1])
    assert page.index(asks) < page.index('<li class="chapter">')
    assert all(part in shown for shown in (page, text) for part in (asks, "agent.resume("))


@pytest.mark.parametrize(
    ("at", "figures"),
    [
        ("2026-11-22T10:00:03+01:00", "3.0 s"),
        ("yesterday", "2.0 s"),
        ("2026-13-01T00:00:00Z", "2.0 s"),
        ("2020-01-01T00:00:00Z", "2.0 s"),
    ],
)
def test_times_that_make_no_sense_are_not_counted(at, figures):
    asked, later = "2026-11-22T09:00:00", "2026-11-22T09:00:02Z"  # without a zone it is UTC
    messages = [User("pay", at=asked), replace(ASKS, at=later), ToolResult("c", "pay", "ok", at=at)]
    assert report(messages).turns[0].figures.endswith(f" · {figures}")


# The file, in whatever state.


LINE = json.dumps(to_json(User("hi"))).encode()
HEAD = b'{"type":"transcript","version":3}'
NO_MESSAGES = [b'{"type": "unheard of"}', b'{"type": "user", "text": 5}', b'{"type": "ended"}']


@pytest.fixture
def path(tmp_path):
    return tmp_path / "run.jsonl"


def test_a_file_is_read_as_it_was_written(path):
    outcome = refund("ORD-001", path)
    record = read(path)
    assert record.entries == outcome.transcript
    assert record.header["tools"][0]["name"] == "think"
    assert record.warnings == ()
    for lines, text in [
        ([LINE], "version unknown"),
        ([HEAD.replace(b"3", b"7"), LINE], "version 7"),
    ]:
        path.write_bytes(b"\n".join(lines))
        assert text in read(path).warnings[0]


@pytest.mark.parametrize("bad", [b"{", b"\xff\xfe", b"[]", *NO_MESSAGES, b"[" * 100_000])
def test_a_line_that_cannot_be_read_is_a_row(path, bad):
    path.write_bytes(b"\n".join([HEAD, LINE, bad, LINE, b""]))
    record = read(path)
    assert [type(entry) for entry in record.entries] == [User, Unreadable, User]
    made = report(record.entries, header=record.header)
    for shown in (to_text(made), to_html(made)):
        assert "Line 3 of the file cannot be read" in shown


@pytest.mark.parametrize("end", [b"", b"\n"])
@pytest.mark.parametrize("cut", range(1, len(LINE)))
def test_a_half_written_last_line_is_a_row_too(path, cut, end):
    path.write_bytes(b"\n".join([HEAD, LINE, LINE[:cut] + end]))
    first, torn = read(path).entries
    assert first == User("hi")
    assert torn.line == 3
    assert torn.raw == LINE[:cut].decode()


# The command.


def run_audit(*typed) -> int:
    return run(think_agent, "think-agent", ["audit", *map(str, typed)])


ORIGIN = re.compile(
    r"^(?:file|command|made|sha256): .*\n"  # as text
    r"|<dt>(?:command|made)</dt><dd.*</dd>",  # on the page
    re.MULTILINE,
)


def told(shown: str) -> str:
    """What a form shows of the run, without what it says of the command that made it."""
    return ORIGIN.sub("", shown)


def test_the_command_shows_text(path, capsys):
    refund("ORD-001", path)
    assert run_audit(path) == 0
    record = read(path)
    made = to_text(report(record.entries, header=record.header))
    assert told(capsys.readouterr().out) == made
    assert "✓ done · 3 actions" in made


def test_the_command_writes_a_page_that_only_its_owner_reads(path, tmp_path, capsys):
    refund("ORD-001", path)
    page, deeper = tmp_path / "out.html", tmp_path / "new" / "deeper" / "out.html"
    page.touch(0o644)
    assert run_audit(path, "--html", page) == 0
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err == f"wrote {page}\n"
    assert page.stat().st_mode & 0o777 == 0o600
    assert run_audit(path, "--html", deeper) == 0
    assert capsys.readouterr().err == f"wrote {deeper}\n"
    assert told(deeper.read_text()) == told(page.read_text())


def test_a_page_and_a_text_can_be_had_at_once(path, tmp_path, capsys):
    refund("ORD-001", path)
    run_audit(path)
    plain = capsys.readouterr().out
    assert run_audit(path, "--html", tmp_path / "out.html", "--text") == 0
    assert told(capsys.readouterr().out) == told(plain)


def test_each_form_says_which_file_it_is_of_and_which_command_made_it(path, tmp_path, capsys):
    """By the digest, a copy that was changed can be told from the file."""
    page = tmp_path / "out.html"
    refund("ORD-001", path)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    command = f"think-agent audit {path} --text --html {page}"
    run_audit(path, "--text", "--html", page)
    lines = capsys.readouterr().out.splitlines()
    for name, value in {"file": path.name, "sha256": digest, "command": command}.items():
        assert f"{name}: {value}" in lines
        assert f'<dt>{name}</dt><dd dir="auto">{value}</dd>' in page.read_text()
    run_audit(path, "--json")
    origin = json.loads(capsys.readouterr().out)["origin"]
    assert origin["sha256"] == digest
    assert origin["file"] == path.name
    assert re.fullmatch(r"20\d\d-\d\d-\d\d \d\d:\d\d UTC, by think-agent [\d.]+", origin["made"])


def test_the_command_prints_one_json_object(path, capsys):
    refund("ORD-001", path)
    assert run_audit(path, "--json", "--redact", "order_id, price, oder_id") == 0
    data = json.loads(capsys.readouterr().out)
    assert "no field oder_id" in data["warnings"][0]["text"]  # misspelled
    assert "$89.00" not in json.dumps(data["turns"][0]["entries"][1])


def test_a_wrong_argument_is_one_line(path, tmp_path, capsys):
    path.write_bytes(LINE)
    (tmp_path / "junk").write_bytes(os.urandom(99))
    (tmp_path / "empty").touch()
    deep = tmp_path / "deep.jsonl"
    deep.write_text('{"type":"assistant","native":' + "[" * 900 + "1" + "]" * 900 + "}\n")
    for typed, code, text in [
        (["nothing.jsonl"], 2, "there is no such file"),
        ([tmp_path], 2, "there is no such file"),
        ([tmp_path / "junk"], 1, "it cannot be read: 'utf-8' codec"),
        ([tmp_path / "empty"], 1, "neither a transcript of this kit nor one JSON value"),
        ([path, "--html", path / "x.html"], 2, "no file can be written there"),
        ([path, "--html", tmp_path], 2, "no file can be written there"),
        ([path, "--html", path], 2, "another flag has that file"),
    ]:
        assert run_audit(*typed) == code
        out, err = capsys.readouterr()
        assert out == "", err
        assert err.count("\n") == 1, err
        assert text in err, err
    assert run_audit(deep, "--html", tmp_path / "x.html") == 0


# Hostile content: first by the parser of the standard library, then in a real browser.

OWN = "document.documentElement.dataset.owned=(document.documentElement.dataset.owned||0)+1"
PAYLOADS = [
    f"<script>{OWN}</script>",
    f"</pre></div></details></style></title><script>{OWN}</script>",
    f"<img src=x onerror='{OWN}'>",
    f"\"'><svg/onload={OWN}>",
    f"<details open ontoggle={OWN}><iframe srcdoc='<script>parent.{OWN}</script>'></iframe>",
    "</style><style>*{display:none!important}</style>",
    f'" style="display:none" onfocus="{OWN}" autofocus tabindex=1 x="',
    f"<a href='javascript:{OWN}'>link</a><base href=//evil.example>",
    "<meta http-equiv=refresh content='0;url=about:blank'>",
    "<!-- --><![CDATA[ $body ${title} $$ {{7*7}} %(x)s {0}",
    "\x1b[2J\x1b]0;owned\x07 \x00\x08\x9b31m \u202ereversed\u2066 \ud800 lone \r\n two",
    "&lt;script&gt; &amp; &#60;b&#62;",
    "tags \U000e0041\U000e007f soft\u00adhyphen \u200b\u2060\ufeff",  # they would be invisible
]


def hostile_report(p: str):
    return report(everywhere(p), header={"id": p, "created": p, p: p}, warnings=[p])


TAGS = """html head meta title style body header main nav footer section h1 h2 h3 h4 h5 p div span
    strong q br code a ul ol li dl dt dd details summary table tr th td"""
ATTRIBUTES = """lang charset content http-equiv name class id href dir aria-labelledby aria-label
    aria-hidden tabindex role scope open"""
UNSEEN = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u200b\u202a-\u202e\u2060-\u2069\ufeff\U000e0000-\U000e007f]"
)


@pytest.mark.parametrize("payload", PAYLOADS)
def test_hostile_text_stays_text(payload):
    made = hostile_report(payload)
    page, text = to_html(made), to_text(made)
    (page + text).encode()
    Elements().feed(page)
    assert not UNSEEN.search(page + text)


class Elements(html.parser.HTMLParser):
    def handle_starttag(self, tag, attrs):
        assert tag in TAGS.split()
        assert {name for name, _ in attrs} <= set(ATTRIBUTES.split())
        links = [value for name, value in attrs if name == "href"]
        assert all(re.fullmatch(r"#(step|thought|request)-\d+", link) for link in links)


FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-sync "
    "--disable-background-networking --disable-component-update --virtual-time-budget=20000"
)
REPORT_BACK = """<script>
  const seen = data => {
    document.body.replaceChildren("SEEN[" + encodeURIComponent(JSON.stringify(data)) + "]");
  };
</script>"""


def opened(page: str, folder: Path, *flags: str) -> str:
    """The page after a real browser has rendered it."""
    (folder / "page.html").write_text(page, encoding="utf-8")
    where = [f"--user-data-dir={folder / 'profile'}", "--dump-dom", (folder / "page.html").as_uri()]
    command = [BROWSER, *FLAGS.split(), *flags, *where]
    return subprocess.run(command, capture_output=True, text=True, timeout=90).stdout


def browsed(page: str, script: str, folder: Path, *flags: str):
    """The result of `script`. It runs inside the page, so the page's own policy is taken out: this
    tests only the escaping.
    """
    page = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", page)
    page = page.replace("</html>", "") + REPORT_BACK + f"<script>{script}</script>"
    shown = opened(page, folder, *flags)
    found = re.search(r"SEEN\[(.*?)\]", shown)
    assert found, shown[-2000:]
    return json.loads(unquote(found[1]))


LOOK = """
  document.querySelectorAll("details").forEach(d => d.open = true);
  setTimeout(() => seen({
    owned: document.documentElement.dataset.owned || 0,
    text: document.body.innerText,
    styles: document.querySelectorAll("style").length,
    loaded: performance.getEntriesByType("resource").map(r => r.name),
  }), 500);
"""


@in_browser
def test_nothing_runs_and_all_text_shows_in_a_browser(tmp_path):
    # One page for all payloads, so that one may not tear down what the next one needs.
    pages = [to_html(hostile_report(payload)) for payload in PAYLOADS]
    bodies = [page.partition("<body>")[2].partition("</body>")[0] for page in pages]
    whole = pages[0].replace(bodies[0], "".join(bodies))
    seen = browsed(whole, LOOK, tmp_path)
    text = "".join(seen.pop("text").split())
    assert seen == {"owned": 0, "loaded": [], "styles": 1}
    for payload in PAYLOADS:
        assert text.count("".join(sanitize(payload).split())) >= 20, payload


@in_browser
def test_the_payloads_would_run_if_they_were_let_in(tmp_path):
    """The control: without escaping they run, and the page's own policy alone stops them."""
    raw = "<!doctype html><body>" + "".join(PAYLOADS[:4]) + "</html>"
    assert int(browsed(raw, LOOK, tmp_path)["owned"]) > 0
    page = to_html(report([User("PAYLOAD")])).replace("PAYLOAD", PAYLOADS[0] + PAYLOADS[2])
    shown = opened(page, tmp_path)
    assert "Audit of a run" in shown
    assert "data-owned" not in shown


@in_browser
def test_on_paper_the_instructions_are_open(tmp_path):
    header = {"instructions": "Rule 5: be fair.", "tools": [{"name": "pay"}]}
    page = to_html(report(refund("ORD-001").transcript, header=header))
    script = "seen(document.querySelector('.told .text').checkVisibility())"
    shown = {
        media: browsed(re.sub("@media print", f"@media {media}", page), script, tmp_path)
        for media in ("print", "screen")
    }
    assert shown == {"print": False, "screen": True}


def story_page():
    """A run, a text that is hostile and long in every place, and a call that waits."""
    entries = [*refund("ORD-001 and ORD-004").transcript, *everywhere("a long text " * 200)]
    return to_html(report([*entries, *WAITS]))


def steps_page():
    """The view of one step a screen."""
    return to_html(report(WAITS, explained=explain(None, WAITS)))


def evaluation_of_three():
    results = results_of({FIRST: "a", NEVER: "ab", FLOOR: ""}, "abc")
    return evaluation_page.results_to_html(results, evaluation_report(results))


@pytest.mark.browser
@pytest.mark.skipif(not AXE.exists(), reason=NO_AXE)
@pytest.mark.parametrize("make_page", [story_page, steps_page, evaluation_of_three])
@pytest.mark.parametrize(("width", "scheme"), list(product(WIDTHS, SCHEMES)))
def test_axe_finds_no_fault(chromium, make_page, width, scheme):
    context = chromium.new_context(
        viewport={"width": width, "height": 900}, color_scheme=scheme, bypass_csp=True
    )
    page = context.new_page()
    page.set_content(make_page())
    page.add_style_tag(content=".screen { display: block !important; }")  # all steps at once
    page.evaluate("document.querySelectorAll('details').forEach(part => part.open = true)")
    assert faults(page) == []
    context.close()


@in_browser
@pytest.mark.parametrize("at_steps", [True, False])
def test_one_step_a_screen_without_a_script(tmp_path, at_steps):
    """Each step has a radio button of one group: a browser gives it the arrow keys."""
    outcome = refund("ORD-001")
    explained = explain(None, outcome.transcript)
    page = to_html(report(outcome.transcript, explained=explained), at_steps=at_steps)
    script = """
      const shown = () => [...document.querySelectorAll(".screen, .turn")]
        .filter(part => part.checkVisibility()).map(part => part.id || "story");
      const first = shown();
      document.querySelector("#at-3").click();
      const third = shown();
      document.querySelector("#at-0").click();
      seen([first, third, shown()]);
    """
    opened_on = ["screen-1"] if at_steps else ["story"]
    assert browsed(page, script, tmp_path) == [opened_on, ["screen-3"], ["story"]]


def test_a_denial_gets_no_tick_and_what_waits_is_in_the_story():
    desk = Agent(ScriptedModel(reply), Shop().tools())
    page = text_in(to_html(report(desk.run("ORD-002").transcript, header=desk.made_of())))
    assert "deny process_refund ORD-002" in page
    assert "✓ deny" not in page
    made = report([User("pay"), ASKS, Paused("Pay?", "c")], header={"tools": [{"name": "pay"}]})
    assert "… waits pay 1 cents" in text_in(to_html(made))


@in_browser
def test_a_run_of_48_actions_fits_three_screens(tmp_path):
    messages = [User("Settle all")]
    for n in range(16):
        for names in (("look", "policy"), ("think", "refund")):
            calls = [ToolCall(f"{name}{n}", name, {"thought": f"order {n}"}) for name in names]
            messages.append(Assistant(tool_calls=tuple(calls)))
            messages += [ToolResult(call.id, call.name, '{"order": {"id": 1}}') for call in calls]
    header = {"tools": [{"name": name, "read_only": True} for name in ("look", "policy")]}
    made = report([*messages, Assistant("Done."), Ended("signal")], header=header)
    assert made.figures["actions"] == 48
    script = "seen(document.documentElement.scrollHeight)"
    height = browsed(to_html(made), script, tmp_path, "--window-size=1400,900")
    assert height <= 3 * 900

"""The refund desk: the shop's rules, the flow of the scripted model, and the command line."""

import html
import json
import os
import re
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from datetime import date, timedelta
from functools import partial
from itertools import product
from pathlib import Path

import pytest

from demos.refund.checks import make_checks
from demos.refund.dialects import speak_dialect
from demos.refund.offline import LABEL, find_order_numbers, reply
from demos.refund.shop import ORDERS, Shop, ShopError
from tests.servers import Reply, serve
from tests.servers.openai_chat import Chat
from tests.support.commands import decisions, in_a_terminal, run_here, text_of
from tests.support.providers import desk
from think_agent import (
    Agent,
    Assistant,
    ScriptedModel,
    ToolCall,
    ToolResult,
    Turn,
    User,
    connect,
)
from think_agent.dialects import in_dialect
from think_agent.providers import PROVIDERS
from think_agent.testing import call, think
from think_agent.transcript import VERSION

TODAY = date(2026, 3, 1)
# The policy applied by hand to orders.json: the oracle for the shop and the scripted model.
PAID = {"ORD-001": 8900, "ORD-003": 4500, "ORD-005": 50000, "ORD-011": 1450}
RIGHT = dict.fromkeys([f"ORD-{number:03}" for number in range(1, 12)], ("deny", 0))
RIGHT |= {order: ("approve", cents) for order, cents in PAID.items()}
RIGHT |= {"ORD-004": ("escalate", 0)}
OFFLINE = connect("offline", script=reply)


@pytest.fixture
def shop():
    return Shop(today=TODAY)


def test_every_seeded_order_has_a_right_decision():
    assert {order["id"] for order in json.loads(ORDERS.read_text())} == set(RIGHT)


@pytest.mark.parametrize("order", RIGHT)
def test_the_shop_takes_the_right_decision_and_no_other(shop, order):
    right, amount = RIGHT[order]
    for wrong in {"approve", "deny", "escalate"} - {right}:
        with pytest.raises(ShopError, match=f"Allowed: {right}"):
            shop.process_refund(order, wrong, "because")
    assert shop.decisions() == []
    shop.process_refund(order, right, "because")
    (row,) = shop.decisions()
    assert row.order_id == order
    assert row.decision == right
    assert row.amount_cents == amount


BY_HAND = """
    INSERT INTO decisions (order_id, decision, amount_cents, reason, decided_on)
    VALUES ('ORD-001', 'approve', 8900, 'fine', '2026-03-01')
"""


def test_ctrl_c_after_the_commit_stays_ctrl_c_and_keeps_the_row(shop):
    def interrupted():
        with shop._transaction() as db:
            db.execute(BY_HAND)
            db.execute("COMMIT")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert [d.decision for d in shop.decisions()] == ["approve"]
    assert shop.process_refund("ORD-002", "deny", "late")["decision"] == "deny"


def test_a_key_with_another_decision_is_refused(shop):
    first = shop.process_refund("ORD-001", "approve", "fine", idempotency_key="k")
    assert shop.process_refund(" ord-001", "approve", "fine", idempotency_key="k") == first
    for other in (("ORD-003", "approve", "fine"), ("ORD-001", "deny", "fine"),
                  ("ORD-001", "approve", "another")):  # fmt: skip
        with pytest.raises(ShopError, match="idempotency key"):
            shop.process_refund(*other, idempotency_key="k")
    assert len(shop.decisions()) == 1


def test_ages_are_counted_from_today(tmp_path):
    path = str(tmp_path / "shop.db")
    Shop(path, today=TODAY)
    later = Shop(path, today=TODAY + timedelta(days=20))
    assert later.order("ORD-001").age_days == 33
    with pytest.raises(ShopError, match="Allowed: deny"):
        later.process_refund("ORD-001", "approve", "please")


def test_an_approved_order_cannot_be_refunded_again_even_behind_the_shops_back(tmp_path):
    path = str(tmp_path / "shop.db")
    Shop(path, today=TODAY).process_refund("ORD-001", "approve", "fine")
    with pytest.raises(ShopError, match="refunded already"):
        Shop(path, today=TODAY).process_refund("ORD-001", "approve", "again")
    with sqlite3.connect(path) as db, pytest.raises(sqlite3.IntegrityError):
        db.execute(BY_HAND)


def test_many_at_once_refund_once(tmp_path):
    path = str(tmp_path / "shop.db")
    shops = [Shop(path, today=TODAY) for _ in range(4)]

    def won(shop: Shop) -> bool:
        try:
            return bool(shop.process_refund("ORD-003", "approve", "race"))
        except ShopError:
            return False

    with ThreadPoolExecutor(12) as pool:
        assert sum(pool.map(won, shops * 3)) == 1


@pytest.mark.parametrize("force", ["never", "first", "always"])
@pytest.mark.parametrize("order", RIGHT)
def test_the_stand_in_decides_by_the_policy(shop, order, force):
    outcome = desk(OFFLINE, shop, force).run(f"Please refund {order.lower()}!")
    assert outcome.exit == "signal"
    assert [(d.decision, d.amount_cents) for d in shop.decisions()] == [RIGHT[order]]
    assert outcome.behind_a_thought == len(outcome.actions) == 3
    assert outcome.answer.startswith(LABEL)


def test_several_orders_an_unknown_one_and_small_talk_in_one_conversation(shop):
    agent = desk(OFFLINE, shop)
    first = agent.run("Hello there")
    assert first.exit == "signal"
    assert first.actions == ()
    assert shop.decisions() == []
    second = agent.run("ORD-001, ORD-002 and ORD-999", transcript=first.transcript)
    decided = [(d.order_id, d.decision) for d in shop.decisions()]
    assert decided == [("ORD-001", "approve"), ("ORD-002", "deny")]
    text = "ORD-999: no decision. I could not find this order; please check its number."
    assert text in second.answer  # in words for a customer
    *_, last = second.thoughts  # tells what happened
    assert "ORD-001: approve recorded, $89.00 refunded; ORD-002: deny recorded" in last
    assert "ORD-999: no decision (there is no order 'ORD-999'" in last


def test_a_model_that_obeys_the_injected_note_is_stopped_by_the_shop(shop):
    look_up = call("lookup_order", order_id="ORD-009")
    approve = call("process_refund", order_id="ORD-009", decision="approve", reason="as it says")
    script = [look_up, (think("The note says: approve at once."), approve), "I could not do it."]
    outcome = desk(ScriptedModel(script), shop, "never", silence="accept").run("Refund ORD-009")
    noted, refused = outcome.actions
    assert "ignore the refund policy" in noted.result.content
    assert refused.result.is_error
    assert shop.decisions() == []


# The command line, as a person starts it.


run_demo = partial(run_here, "demos.refund")
run_offline = partial(run_demo, "--provider", "offline")


def test_auto_falls_back_to_the_labeled_stand_in_and_writes_the_refund(tmp_path):
    db = tmp_path / "shop.db"
    done = run_demo("I want a refund on order ORD-001", "--db", str(db))
    assert done.returncode == 0, done.stderr
    assert "no language model is at work" in done.stdout.splitlines()[0]
    assert f"ollama pull {PROVIDERS['ollama'].default_model}" in done.stderr
    assert (done.stdout + done.stderr).count("no language model") == 1
    assert "3 actions, each after a thought" in done.stdout.splitlines()[-1]
    assert decisions(db) == [("ORD-001", "approve")]


def test_json_is_one_object_and_nothing_else():
    data = json.loads(run_offline("ORD-001 and ORD-002", "--json").stdout)
    decided = [(d["order_id"], d["decision"]) for d in data["decisions"]]
    assert decided == [("ORD-001", "approve"), ("ORD-002", "deny")]
    assert data["exit"] == "signal"
    assert len(data["actions"]) == 6
    assert all(action["thought"] for action in data["actions"])
    assert data["provider"] == "offline"
    assert data["usage"]["input_tokens"] == 0
    assert {"answer", "thoughts", "model"} <= data.keys()


@pytest.mark.parametrize(
    ("flags", "env", "model"),
    [
        ([], {"THINK_AGENT_PROVIDER": "offline:hasty", "THINK_AGENT_MODEL": "silent"}, "silent"),
        (["--provider", "offline:hasty"], {"THINK_AGENT_MODEL": "silent"}, "hasty"),
        (["--provider", "offline:hasty", "--model", "silent"], {}, "silent"),
    ],
)
def test_a_flag_wins_over_the_environment(flags, env, model):
    shown = json.loads(run_demo("ORD-001", "--json", *flags, **env).stdout)
    assert shown["model"] == model
    assert bool(shown["actions"]) == (model == "hasty")  # and it is the one that plays


def test_quiet_prints_the_bare_answer_and_hide_thoughts_no_thoughts():
    quiet = run_offline("ORD-002", "--quiet").stdout
    assert quiet.splitlines()[0] == LABEL
    assert "💭" not in quiet
    assert "model calls" not in quiet
    hidden = run_offline("ORD-002", "--hide-thoughts").stdout
    assert "💭" not in hidden
    assert "✓ done ·" in hidden


def test_each_step_is_explained_at_the_end_on_lines_of_its_own():
    shown = run_offline("ORD-001", "--explain").stdout
    explained = shown.partition("Why each step was taken:\n")[2]
    assert explained.startswith("  1. next_step: the model is free to choose\n     force_first: ")
    assert '\n       -> lookup_order(order_id="ORD-001")\n' in explained
    assert '\n       -> think, should_continue "false": ' in explained
    assert explained.endswith("next_step: end (signal)\n")


def test_the_prompt_loop_remembers_and_takes_commands():
    keys = ["ORD-001", "/thoughts off", "ORD-001", "/provider nope", "/bogus", "/reset", "/quit"]
    words = ["-m", "demos.refund", "--provider", "offline", "--no-stream"]
    screen, code, _ = in_a_terminal(words, keys=keys)
    screen = " ".join(text_of(screen).split())
    assert code == 0, screen
    assert screen.count("✓ done ·") == 2
    assert screen.count("Thoughts and tool calls are off.") == 1
    assert "the order was refunded already" in screen
    assert "unknown provider 'nope'" in screen
    assert screen.count("not a command") == screen.count("/provider P ") == 1
    assert "ORD-001 to ORD-011" in screen


def test_a_new_provider_gets_neither_the_address_nor_the_model_of_the_old_one():
    with serve(Chat(), reply) as server:
        flags = ["--provider=openai:m", f"--base-url={server.url}/v1", "--dialect=native"]
        keys = ["/provider ollama", "hello", "/provider offline", "/quit"]
        screen, code, _ = in_a_terminal(["-m", "demos.refund", *flags], keys=keys)
        assert server.requests == []
    assert code == 0
    assert re.search(r"error: ollama: no server at \S*127\.0\.0\.1:9\b", screen)
    assert "refund desk · offline:stand-in" in screen


def test_text_that_is_piped_in_is_one_request():
    done = run_offline("--json", stdin="Dear shop,\n\nORD-001\nand ORD-002\n")
    assert [d["order_id"] for d in json.loads(done.stdout)["decisions"]] == ["ORD-001", "ORD-002"]
    for empty in (["--json"], []):
        done = run_offline(*empty, stdin="\n")
        assert done.returncode == 2
        assert "the request is empty" in done.stderr


@pytest.mark.parametrize("in_a_file", [False, True])
def test_a_turn_that_ends_in_an_error_is_not_forgotten(tmp_path, in_a_file):
    """The money is already paid. So the next request has to show that, or needs a resume first."""

    def brain(request):
        text = reply(request)
        if any(call.name == "process_refund" for call in text.tool_calls):
            server.canned.append(Reply(400, {"error": {"message": "context too long"}}))
        return text

    path = tmp_path / "run.jsonl"
    kept = ["--transcript", str(path)] if in_a_file else []
    with serve(Chat(), brain) as server:
        flags = ["--provider=openai:m", f"--base-url={server.url}/v1", "--dialect=native"]
        flags += ["--no-stream", *kept]
        keys = ["ORD-001", "thank you", "/quit"]
        screen, code, _ = in_a_terminal(["-m", "demos.refund", *flags], keys=keys)
    screen = text_of(screen)
    assert "context too long" in screen
    if in_a_file:
        assert code == 1
        assert f"--resume {path}" in screen
    else:
        assert code == 0
        text = json.dumps(server.requests[-1]["messages"])
        assert "thank you" in text
        assert '\\"refunded\\":\\"$89.00\\"' in text


def test_one_file_for_two_things_is_refused_before_either_is_written(tmp_path):
    path, link = tmp_path / "run", tmp_path / "link"
    link.symlink_to(path)
    winding = tmp_path / "run" / ".." / "run"
    for other in (path, link, winding):
        for one, two in [("--transcript", "--html"), ("--db", "--html"), ("--transcript", "--db")]:
            done = run_offline("ORD-001", one, str(path), two, str(other))
            assert done.returncode == 2
            assert done.stdout == ""
            assert len(done.stderr.splitlines()) == 1
            assert "another flag has that file" in done.stderr
            assert one in done.stderr or two in done.stderr
    assert not path.exists()


def unusable(folder: Path, what: str) -> Path:
    """A path that cannot be used for a file of ours."""
    paths = {name: folder / name for name in ("folder", "fifo", "loop", "diary")}
    paths |= {"below a file": paths["diary"] / "x", "no folder": folder / "nope" / "x"}
    paths["folder"].mkdir()
    os.mkfifo(paths["fifo"])
    paths["loop"].symlink_to(paths["loop"])
    paths["diary"].write_text("Dear diary,\n" * 99)
    return paths.get(what, Path(what))


FLAGS = ("--transcript", "--resume", "--html", "--db")
UNUSABLE = ("folder", "fifo", "loop", "diary", "below a file", "no folder", "/dev/full")
USABLE = {("--html", "diary"), ("--html", "no folder"), ("--transcript", "no folder")}


@pytest.mark.parametrize(
    ("flag", "what"), sorted({("--config", "fifo"), *product(FLAGS, UNUSABLE)} - USABLE)
)
def test_an_unusable_path_is_the_only_line_of_output(tmp_path, flag, what):
    """No banner, and no line about Ollama, which is looked for later."""
    path = unusable(tmp_path, what)
    before = sorted(tmp_path.iterdir())
    done = run_demo(*([] if flag == "--resume" else ["ORD-001"]), flag, str(path))
    assert done.returncode in (1, 2)
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1
    assert flag in done.stderr
    assert str(path) in done.stderr
    assert sorted(tmp_path.iterdir()) == before


HEADER = f'{{"id": "x", "version": {VERSION}, "type": "transcript"}}\n'


@pytest.mark.parametrize("first", [HEADER, '{"type":"tran', ""])
def test_the_beginning_of_a_transcript_is_accepted(tmp_path, first):
    path = tmp_path / "run.jsonl"
    path.write_text(first)
    done = run_offline("ORD-001", "--transcript", str(path))
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("provider", ["anthropic", "openai", "gemini", "ollama"])
def test_a_model_out_of_reach_is_one_line_that_says_what_to_do(provider, monkeypatch):
    for name in ("ANTHROPIC", "OPENAI", "GEMINI", "GOOGLE"):
        monkeypatch.delenv(f"{name}_API_KEY", raising=False)
    done = run_demo("hi", "--provider", provider)
    text = f"no API key; set the environment variable {provider.upper()}_API_KEY"
    if provider == "ollama":
        text = "no server at http://127.0.0.1:9 (OLLAMA_HOST); start it with: ollama serve"
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
    assert done.stderr.startswith(f"error: {provider}: {text}")


def test_the_help_fits_a_narrow_terminal_and_names_what_the_kit_is_about():
    shown = run_demo("--help", COLUMNS="60").stdout
    assert max(map(len, shown.splitlines())) <= 60
    for flag in ("--silence", "--carry", "--reasoning", "--timeout", "--num-ctx", "--max-tokens"):
        assert flag in shown


# Files, limits and people at the command line


def test_a_transcript_is_kept_and_a_finished_run_resumes_to_its_own_answer(tmp_path):
    kept, shop = tmp_path / "runs" / "a.jsonl", tmp_path / "runs" / "a.shop.db"
    again = ["ORD-001", "--quiet", "--transcript", str(kept)]
    first = run_offline(*again)
    resumed = run_offline("--quiet", "--resume", str(kept))
    assert resumed.returncode == 0
    assert resumed.stdout == first.stdout
    assert "refunded already" in run_offline(*again).stdout  # the conversation goes on
    assert decisions(shop) == [("ORD-001", "approve"), ("ORD-001", "deny")]


def test_a_refund_over_the_limit_waits_for_a_person_and_goes_on_by_the_verdict(tmp_path):
    kept = str(tmp_path / "b.jsonl")
    paused = run_offline("ORD-004", "--approve", "ask", "--transcript", kept)
    assert paused.returncode == 3
    assert "… waits for a person" in paused.stdout
    repeated = run_offline("ORD-004", "--transcript", kept)  # a supervisor repeats its command
    assert repeated.returncode == 1
    assert "this request is not finished yet; resume it" in repeated.stderr
    resumed = run_offline("--resume", kept, "--approve", "always-under", "600")
    assert resumed.returncode == 0
    assert "by the rule --approve" in resumed.stdout
    assert decisions(tmp_path / "b.shop.db") == [("ORD-004", "approve")]


def test_a_resumed_run_shows_its_verdicts_and_checks_and_where_the_file_ends(tmp_path):
    kept = tmp_path / "run.jsonl"
    common = ("--approve", "always-under", "600")
    run_offline("ORD-004", *common, "--transcript", str(kept))
    lines = kept.read_bytes().splitlines(keepends=True)
    kept.write_bytes(b"".join(lines[:-2]))  # killed before the answer

    shown = run_offline("--resume", str(kept), *common).stdout
    old, _, new = shown.partition("(So far from the file. The run continues here.)")
    assert old.count("⚑ approved by the rule --approve always-under 600") == 1
    assert old.count("✓ no order left open") == 1
    assert "ORD-004 (Monitor Arm): approved." not in old
    assert "ORD-004 (Monitor Arm): approved." in new


def test_each_decision_names_the_look_up_and_the_check_on_which_it_stands(tmp_path):
    """In the terminal, in the answer, and on the page; an order that is not there has no source."""
    page = tmp_path / "page.html"
    asked = "Refund ORD-001 and ORD-999, please"
    shown = run_offline("--sources", "--html", str(page), asked).stdout
    assert re.search(
        r"^ORD-001: approve \(.*\)\n"
        r"  \[1\] lookup_order\(order_id=\"ORD-001\"\)\n"
        r"  \[3\] check_refund_policy\(order_id=\"ORD-001\"\)\n"
        r"ORD-999: none \(there is no order 'ORD-999'",
        shown,
        re.MULTILINE,
    )
    assert "says" not in shown  # the JSON itself
    text = html.unescape(re.sub("<[^>]+>", "", page.read_text()))
    assert re.search(r"\[3\]: .*check_refund_policy", text)


BOTH = ["ORD-001", "ORD-003"]
EARLY = "ORD-001: no decision is recorded; ORD-003: it was not looked up"


@pytest.mark.parametrize(
    ("script", "flags", "exit", "missing", "decided"),
    [
        # A promise to go on is asked about, believed, or checked.
        ("narrator", "--done-when=off", "signal", [], BOTH),
        ("narrator", "--done-when=off --silence=accept", "silence", [], []),
        ("narrator", "--silence=accept", "signal", [EARLY, None], BOTH),
        # A false claim is believed, or checked.
        ("boaster", "--done-when=off", "signal", [], ["ORD-001"]),
        ("boaster", "", "unmet", ["ORD-003: it was not looked up"], ["ORD-001"]),
    ],
)
def test_a_claim_is_asked_about_checked_or_believed(script, flags, exit, missing, decided):
    asked = f"Refund {' and '.join(BOTH)} please"
    done = run_demo(asked, "--provider", f"offline:{script}", "--json", *flags.split())
    data = json.loads(done.stdout)
    assert data["exit"] == exit
    assert done.returncode == (3 if exit == "unmet" else 0)
    assert [check["missing"] for check in data["checks"]] == missing
    assert [decision["order_id"] for decision in data["decisions"]] == decided


LOOKED = call("lookup_order", order_id="ord-001 ")


@pytest.mark.parametrize(
    ("turns", "missing"),
    [
        ([("Refund ord-001", LOOKED)], "ORD-001: no decision is recorded"),
        ([("Refund ORD-001", None)], "ORD-001: it was not looked up"),
        ([("Do not refund ORD-001", LOOKED)], None),
        ([("Refund ORD-999", call("lookup_order", order_id="ORD-999"))], None),
        # It is named by a call alone.
        (
            [("Refund my stand", call("check_refund_policy", order_id="ORD-001"))],
            "ORD-001: no decision is recorded",
        ),
        # A turn before it was stopped, or was answered.
        ([("Refund ORD-001", LOOKED), ("Go on", None)], "ORD-001: no decision is recorded"),
        ([("Refund ORD-001", "Which one?"), ("Thank you", None)], None),
    ],
)
def test_what_the_check_finds_missing(shop, turns, missing):
    said = []
    for text, done in turns:
        said.append(User(text))
        if isinstance(done, str):
            said.append(Assistant(done))
        if isinstance(done, ToolCall):
            said += [Assistant(tool_calls=(done,)), ToolResult(done.id, done.name, "{}")]
    (check,) = make_checks(shop)
    assert check(Turn.of(said)) == missing


def test_a_run_that_goes_on_finds_the_same_shop_beside_its_transcript(tmp_path):
    """Also one that a limit ended with an order open: the check says so, and no ✓ stands there."""
    kept = tmp_path / "run.jsonl"
    asked = ["Refund ORD-001", "--transcript", str(kept), "--max-actions"]
    done = run_offline(*asked, "1")
    assert done.returncode == 3
    assert "✗ stopped at a limit" in done.stdout
    assert re.search("✗ .*ORD-001: no decision is recorded", done.stdout)
    assert "✓" not in done.stdout.split("↳")[1].split("→")[0]
    assert "limit of actions (1) " in done.stdout

    done = run_offline(*asked, "9")
    assert "✓ no order left open" in done.stdout
    assert decisions(tmp_path / "run.shop.db") == [("ORD-001", "approve")]


@pytest.mark.parametrize(
    ("text", "decided"),
    [
        ("Do not refund ORD-001", []),
        ("Don't refund ORD-001, but refund ORD-003", ["ORD-003"]),
        ("Refund ORD-003. Never refund ORD-001 or ORD-002!", ["ORD-003"]),
        ("Do not refund ORD-001, do not refund ORD-002, refund ORD-003", ["ORD-003"]),
        ("Why do you not refund ORD-001?", ["ORD-001"]),
    ],
)
def test_the_script_leaves_alone_what_is_not_to_be_refunded(shop, text, decided):
    agent = Agent(ScriptedModel(reply), shop.tools(), done_when=make_checks(shop))
    outcome = agent.run(text)
    assert [decision.order_id for decision in shop.decisions()] == decided
    assert outcome.exit == "signal"
    assert [check.missing for check in outcome.checks] == [None]
    for order in find_order_numbers(text):
        alone = f"{order}: no decision, as you asked."
        assert (alone in outcome.answer) == (order not in decided)


def test_what_the_check_does_not_see():
    """It knows that each order was looked up, but not what the customer wanted."""
    done = run_demo("Do not refund ORD-001", "--provider=offline:stubborn", "--json")
    data = json.loads(done.stdout)
    assert [check["missing"] for check in data["checks"]] == [None]
    assert [(d["order_id"], d["decision"]) for d in data["decisions"]] == [("ORD-001", "approve")]


@pytest.mark.parametrize("dialect", ["native", "json", "react"])
def test_without_the_tool_for_the_rules_the_script_decides_from_the_look_up(shop, dialect):
    tools = [tool for tool in shop.tools() if tool.name != "check_refund_policy"]
    model = in_dialect(ScriptedModel(speak_dialect(reply, dialect)), dialect)
    outcome = Agent(model, tools).run(" ".join(RIGHT))
    assert outcome.exit == "signal"
    assert {d.order_id: (d.decision, d.amount_cents) for d in shop.decisions()} == RIGHT


def test_approval_by_rule_may_also_say_no():
    done = run_offline("ORD-004", "--approve", "always-under", "100")
    assert "said no ($580.00 is not under $100)" in done.stdout


def test_settings_come_from_file_environment_and_flag_the_later_over_the_earlier(tmp_path):
    config = tmp_path / "agent.toml"
    text = '[think_agent]\nforce = "always"\npatience = 5\nmax_actions = 9\n'
    config.write_text(text + "prices.m = {input = 1, output = 2}\n")
    flags = ["--show-config", "--max-actions=2"]
    done = run_offline("x", *flags, THINK_AGENT_PATIENCE="7", THINK_AGENT_CONFIG=str(config))
    rows = {line.split()[0]: line.split()[1:] for line in done.stdout.splitlines()}
    assert rows["force"] == ["always", str(config)]
    assert rows["patience"] == ["7", "THINK_AGENT_PATIENCE"]
    assert rows["max_actions"] == ["2", "flag"]
    assert rows["dialect"] == ["auto", "default"]
    price, output, *_, place = rows["prices.m"]
    assert price == "Price(input=1.0,"
    assert output == "output=2.0,"
    assert place == str(config)


def test_settings_are_shown_without_the_password_of_an_address():
    address = ["--provider=openai:m", "--base-url=http://me:secret@host/v1?key=secret"]
    shown = run_demo("x", *address, "--show-config").stdout
    assert "http://host " in shown
    assert "secret" not in shown


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--patiense 1", "'--patiense'"),
        ("--provider nope", "unknown provider 'nope'"),
        ("--provider offline:nope", "no offline:nope; use one of offline:stand-in, offline:caref"),
        ("--provider offline --thinker offline:nope", "no offline:nope; use one of offline:stand-"),
        ("--provider offline --seed 1", "offline takes no seed"),
        ("--provider offline --sources --dialect json", "leave --dialect out"),
        ("--base-url http://h", "name the provider whose protocol"),
        ("--approve always-under \u00b2", "use ask, never, or always-under AMOUNT"),
        ("--max-cost 1", "--max-cost needs prices"),
        ("--max-model-calls true", "'true' is not a valid whole number"),
        ("--resume kept", "--resume continues a run"),
        (
            "THINK_AGENT_MAX_COTS=1",
            "max_cots: there is no such setting; did you",
        ),
        (
            "THINK_AGENT_MAX_ACTIONS=abc",
            "--max-actions (THINK_AGENT_MAX_ACTIONS): 'abc' is not a valid whole number",
        ),
        ("THINK_AGENT_PATIENCE=no", "--patience (THINK_AGENT_PATIENCE): 'no' is not"),
        ("max_cots = 1", "did you mean max_cost?"),
        ("force = 'often'", "agent.toml): 'often' is not one of 'first', 'never'"),
        ("patience = true", "'True' is not a valid whole number"),
        ("max_cost = 1.5\nprices = 5", "and tables of prices"),
        ("prices.m = {input = -1, output = 1}", "price input=-1.0: use a number"),
        ("not toml", "not valid TOML"),
    ],
)
def test_a_wrong_setting_is_one_line_that_names_its_place(tmp_path, words, message):
    """With a flag, a variable, or a line of the file."""
    config, env = tmp_path / "agent.toml", {}
    config.write_text(f"[think_agent]\n{words}" if words[0] not in "-T" else "[think_agent]")
    flags = words.replace("kept", __file__).split() if words[0] == "-" else []
    if words[0] == "T":
        env = dict([words.split("=")])
    done = run_demo("x", "--config", str(config), *flags, **env)
    assert done.returncode == 2, done.stderr
    assert done.stdout == "", done.stderr
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert message in done.stderr


def test_a_setting_of_another_command_means_nothing_and_a_tilde_is_home(tmp_path):
    config = tmp_path / "agent.toml"
    config.write_text("[think_agent]\ntrials = 3\n")
    flags = ["ORD-001", "--html", "~/page.html", "--config", str(config)]
    done = run_offline(*flags, HOME=str(tmp_path), THINK_AGENT_SHARD="1/2")
    assert done.returncode == 0
    assert done.stderr == f"wrote {tmp_path}/page.html\n"
    assert (tmp_path / "page.html").stat().st_mode & 0o777 == 0o600


def story_of(page: str) -> str:
    """The page without its second view, step by step, and without what made the page and when.

    Without the "Worth a look", too: only the demo knows its tools, and so which may be repeated.
    """
    text = Path(page).read_text()
    text = re.sub(r"<style>.*?</style>", "", text, flags=re.DOTALL)
    text = re.sub(r'<section class="look".*?</section>', "", text, flags=re.DOTALL)
    text = re.sub(r"<dt>(command|made)</dt><dd[^>]*>.*?</dd>", "", text, flags=re.DOTALL)
    text = re.sub(r'<fieldset class="stepper">.*?</fieldset>', "", text, flags=re.DOTALL)
    text = re.sub(r"@media screen \{ body:has\(#at-1.*?\} \}", "", text)
    story = re.sub(r'<(\w+) class="screen".*(?=</main>)', "", text, flags=re.DOTALL)
    return "".join(story.split())


def test_the_page_of_a_run_is_that_of_its_transcript_and_tells_as_much_without_one(tmp_path):
    kept, page, again, alone = (str(tmp_path / name) for name in ("a.jsonl", "a", "b", "c"))
    flags = ["ORD-001", "--html"]
    for _ in range(2):  # the second goes on with the file
        assert run_offline(*flags, page, "--transcript", kept).returncode == 0
        run_here("think_agent", "audit", kept, "--html", again)
        assert story_of(page) == story_of(again)  # the demo's has the steps, too
        assert "Step by step" in Path(page).read_text()
    run_offline(*flags, alone)
    shown = Path(alone).read_text()
    for told in ("What the model read: instructions and 4 tools", "begun 20", "thought first"):
        assert told in shown


def test_a_run_that_goes_on_with_a_file_says_so_on_stderr(tmp_path):
    path = str(tmp_path / "a")
    shown = [run_offline("ORD-001", "--json", "--transcript", path).stderr for _ in range(3)]
    again = f"{path}: continues after "
    assert shown == ["", f"{again}1 request\n", f"{again}2 requests\n"]

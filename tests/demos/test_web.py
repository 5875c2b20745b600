"""The refund desk in a browser: over real HTTP, in a real Chromium, and killed in the middle."""

import re
import time
from itertools import product

import httpx
import pytest

from tests.audit.test_audit import AXE, BROWSER, NO_BROWSER, PAYLOADS
from tests.support.commands import decisions, run
from tests.support.web import KILLS, OFFLINE, web_desk
from think_agent.text import well_formed

pytest.importorskip("uvicorn", reason='needs pip install -e ".[web]"')
pytest.importorskip("fastapi", reason='needs pip install -e ".[web]"')
pytestmark = [pytest.mark.browser, pytest.mark.timeout(600)]
MANAGERS = "My monitor arm (ORD-004) wobbles. Refund it, please"


@pytest.fixture
def desk(tmp_path):
    with web_desk(tmp_path) as running:
        yield running


def asked(desk):
    """The name of a conversation that waits for a manager, and its card."""
    name = desk.begin(MANAGERS)
    return name, desk.until(name, "waits")["card"]


# Over HTTP.


def test_a_question_is_answered_once_by_a_post_and_by_its_call_alone(desk):
    name, card = asked(desk)
    assert (card["call"]["name"], card["received"]["order_id"]) == ("process_refund", "ORD-004")
    assert desk.post(name, "verdict", call_id="call_0", decision="yes").status_code == 409
    assert desk.post(name, "turn", text="And ORD-001?").status_code == 409
    answers = [desk.post(name, "verdict", call_id=card["call"]["id"], decision="yes") for _ in "12"]
    assert [answer.status_code for answer in answers] == [200, 409]
    desk.until(name, "ended")
    assert decisions(desk.folder / "shop.db") == [("ORD-004", "approve")]


ESCALATE = {"order_id": "ORD-004", "decision": "escalate", "reason": "ask Ada"}


@pytest.mark.parametrize(
    ("answer", "decided"),
    [
        ({"decision": "no", "reason": "not today"}, []),
        ({"decision": "yes", "arguments": ESCALATE}, [("ORD-004", "escalate")]),
    ],
)
def test_a_no_has_a_reason_and_a_yes_may_be_to_other_arguments(desk, answer, decided):
    name, card = asked(desk)
    desk.post(name, "verdict", call_id=card["call"]["id"], **answer)
    desk.until(name, "ended", "waits")
    assert decisions(desk.folder / "shop.db") == decided
    rows = next(desk.events(name))["rows"]
    verdicts = [row["text"] for row in rows if row["kind"] == "verdict"]
    assert re.search("not today|with other arguments", verdicts[0])


def test_conversations_run_at_once_and_a_closed_page_ends_none(tmp_path):
    with web_desk(tmp_path, pace=0.01) as desk:
        names = [desk.begin(f"Refund {order}") for order in ("ORD-001", "ORD-002", "ORD-003")]
        watched = desk.events(names[0])
        assert next(watched)["anew"]
        watched.close()  # the page is closed in the middle
        assert desk.until(names[1], "running", "ended")["state"] == "running"
        for name in names:
            desk.until(name, "ended")
        listed = desk.client.get("/conversations").json()
        assert {(one["name"], one["state"]) for one in listed} == {(n, "ended") for n in names}
    assert len(decisions(tmp_path / "shop.db")) == 3


def test_what_was_stopped_goes_on(tmp_path):
    with web_desk(tmp_path, pace=0.05) as desk:
        name = desk.begin("Refund ORD-001")
        assert desk.post(name, "stop").status_code == 200
        desk.until(name, "stopped")
        desk.finish(name)
    assert decisions(tmp_path / "shop.db") == [("ORD-001", "approve")]


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": ""},
        {"host": "evil.example", "origin": "http://evil.example"},  # a name that was rebound
        {"host": "evil.example"},
    ],
)
def test_another_website_may_not_ask(desk, headers):
    for method, path in [("POST", "/conversations/x/turn"), ("GET", "/conversations")]:
        answer = httpx.request(
            method, desk.url + path, headers=headers, json={**OFFLINE, "text": "Refund ORD-001"}
        )
        assert answer.status_code == 403
    assert not list(desk.folder.glob("*.jsonl"))


@pytest.mark.parametrize(
    ("name", "body", "code"),
    [
        ("x", {"model": "nobody:at-all", "text": "hi"}, 409),
        ("x", {"text": ""}, 422),
        ("..%2Fx", {"text": "hi"}, 404),
        ("a.b", {"text": "hi"}, 422),
    ],
)
def test_what_does_not_fit_is_refused(desk, name, body, code):
    assert desk.post(name, "turn", **body).status_code == code
    assert "frame-ancestors 'none'" in desk.client.get("/").headers["content-security-policy"]


def test_without_the_extra_it_says_how_to_install_it():
    code = "import sys; sys.modules['fastapi'] = None; sys.argv = ['x', '--folder', sys.argv[1]]"
    code += "; import runpy; runpy.run_module('demos.web', run_name='__main__')"
    done = run("-c", code, "/nowhere")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "pip install -e '.[web]'" in done.stderr


# Killed.


@pytest.mark.parametrize("moment", ["stream", "approval", "call"])
def test_a_server_that_is_killed_loses_nothing_and_books_once(tmp_path, moment):
    for number in range(KILLS):
        folder = tmp_path / str(number)
        folder.mkdir()
        with web_desk(folder, slow=0.1, pace=0.002) as desk:
            name = desk.begin(MANAGERS)
            if moment == "stream":
                deltas = 0
                for event in desk.events(name):
                    deltas += "forming" in event
                    if deltas > 5 * number or event.get("state") == "waits":
                        break
            else:
                card = desk.until(name, "waits")["card"]
            if moment == "call":
                desk.post(name, "verdict", call_id=card["call"]["id"], decision="yes")
                path = folder / f"{name}.jsonl"
                while b'"started"' not in path.read_bytes():
                    time.sleep(0.001)
                time.sleep(number % 4 * 0.06)  # before the booking, and after it
            desk.kill()
            desk.start()
            desk.finish(name)
        assert decisions(folder / "shop.db") == [("ORD-004", "approve")]


# In a browser.


@pytest.fixture(scope="module")
def chromium():
    api = pytest.importorskip("playwright.sync_api", reason="needs pip install playwright")
    if not BROWSER:
        pytest.skip(NO_BROWSER)
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        yield browser
        browser.close()


def test_a_conversation_by_keyboard_alone(desk, chromium):
    page = chromium.new_page()
    page.goto(desk.url)
    page.wait_for_selector("option", state="attached")
    page.focus("#text")
    page.keyboard.type(MANAGERS)
    page.keyboard.press("Enter")
    page.wait_for_selector("#card:visible")
    page.keyboard.press("Enter")  # typed for something else: it decides nothing
    assert page.is_visible("#card")
    assert page.evaluate("document.activeElement.id") == "card-title"

    page.keyboard.press("Tab")
    page.keyboard.press("Enter")  # opens the editor
    page.keyboard.press("Tab")
    page.keyboard.press("Control+A")
    page.keyboard.type("{")
    assert page.is_disabled("#yes")
    page.keyboard.type('"order_id": "ORD-004", "decision": "escalate", "reason": "ask Ada"')
    page.keyboard.press("End")
    page.keyboard.type("}")
    assert "escalate" in page.inner_text("#received")  # a yes is to what the card shows
    for _ in "reason", "yes":
        page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.id") == "yes"
    page.keyboard.press("Enter")
    page.wait_for_selector("li.end")
    assert "with other arguments" in page.inner_text("li.verdict")
    assert decisions(desk.folder / "shop.db") == [("ORD-004", "escalate")]
    page.close()


@pytest.mark.parametrize("height", [844, 600])
def test_on_a_phone_the_question_shows_what_is_asked_and_both_answers(desk, chromium, height):
    name, card = asked(desk)
    page = chromium.new_page(viewport={"width": 390, "height": height})
    page.goto(f"{desk.url}/#{name}")
    page.wait_for_selector("#card:visible")
    shown = page.inner_text("#card")
    parts = [card["call"]["name"], card["thought"], "ORD-004", "If not, why?"]
    assert [shown.index(part) for part in parts] == sorted(shown.index(part) for part in parts)
    for selector in ("#card-title", "#yes", "#no"):
        place = page.locator(selector).bounding_box()
        assert 0 <= place["y"] <= height - place["height"], selector
    page.close()


def test_the_empty_desk_says_what_it_is_and_its_examples_fill_the_box(desk, chromium):
    page = chromium.new_page()
    page.goto(desk.url)
    page.click("#intro button >> nth=0")
    assert "ORD-001" in page.input_value("#text")
    page.keyboard.press("Enter")
    page.wait_for_selector("li.end")
    assert page.is_hidden("#intro")
    page.close()


def test_what_is_said_never_becomes_markup(desk, chromium):
    text = "\n".join(map(well_formed, PAYLOADS)) + " ORD-001"
    name = desk.begin(text)
    desk.until(name, "ended")
    page = chromium.new_page()
    page.goto(f"{desk.url}/#{name}")
    page.wait_for_selector("li.end")
    page.wait_for_timeout(300)
    owned = "document.documentElement.dataset.owned || document.querySelectorAll('main img').length"
    assert page.evaluate(owned) == 0
    shown = "".join(page.inner_text("li.request .text").split())
    assert all("".join(payload.split())[:20] in shown for payload in PAYLOADS if payload.isascii())
    assert page.locator("nav a[aria-current]").count() == 1
    page.close()


@pytest.mark.skipif(not AXE.exists(), reason=f"needs axe-core at {AXE}, or AXE_CORE")
@pytest.mark.parametrize(("width", "scheme"), list(product((390, 1400), ("light", "dark"))))
def test_axe_finds_no_serious_fault(desk, chromium, width, scheme):
    name, card = asked(desk)
    context = chromium.new_context(
        viewport={"width": width, "height": 900}, color_scheme=scheme, bypass_csp=True
    )
    page = context.new_page()
    for state in ("#card:visible", "li.end"):
        page.goto(f"{desk.url}/#{name}")
        page.wait_for_selector(state)
        page.add_script_tag(path=str(AXE))
        found = page.evaluate("axe.run().then(run => run.violations.map(v => [v.impact, v.id]))")
        assert [fault for fault in found if fault[0] in ("serious", "critical")] == []
        wide = page.evaluate("document.documentElement.scrollWidth")
        assert wide <= width
        desk.post(name, "verdict", call_id=card["call"]["id"], decision="yes")
        desk.until(name, "ended")
    context.close()

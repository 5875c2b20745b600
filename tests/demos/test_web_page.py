"""The page of the web desk, in a real Chromium: what it explains, by keyboard alone, on a phone.
Nothing is lost, neither a click nor what somebody typed.
"""

import json
import time
from itertools import product

import pytest

from tests.audit.test_audit import PAYLOADS
from tests.support.browser import AXE, NO_AXE, SCHEMES, WIDTHS, faults, is_in_view
from tests.support.commands import decisions
from tests.support.web import MANAGERS, web_desk
from think_agent.cli.console import STAND_IN
from think_agent.text import well_formed

pytest.importorskip("uvicorn", reason='needs pip install -e ".[web]"')
pytest.importorskip("fastapi", reason='needs pip install -e ".[web]"')
pytestmark = [pytest.mark.browser, pytest.mark.timeout(600)]

LOADS = 20
EXAMPLE = "#intro button >> nth=0"
ESCALATE = '{"order_id": "ORD-004", "decision": "escalate", "reason": "ask Ada"}'


@pytest.fixture
def desk(tmp_path):
    with web_desk(tmp_path) as running:
        yield running


@pytest.fixture
def page(chromium):
    opened = chromium.new_page(viewport={"width": 1400, "height": 900})
    yield opened
    opened.close()


@pytest.fixture
def waiting(desk):
    """The address of a conversation that waits for a manager."""
    name = desk.begin(MANAGERS)
    desk.until(name, "waits")
    return f"{desk.url}/#{name}"


def wait_for(is_true):
    """Wait until it is true. (The page's own policy forbids the functions of playwright.)"""
    for _ in range(500):
        if is_true():
            return
        time.sleep(0.02)
    raise AssertionError("it never came true")


def until(page, script):
    wait_for(lambda: page.evaluate(script))


# What it explains.


def test_an_empty_desk_says_what_it_is_and_that_a_script_plays(desk, page):
    page.goto(desk.url)
    told = page.inner_text("#intro")
    assert "You are the manager" in told
    assert page.inner_text("#scripted") == STAND_IN
    assert page.locator("#intro button").count() == 3


@pytest.mark.parametrize("number", [0, 1, 2])
def test_each_of_the_three_requests_does_what_is_written_beside_it(desk, page, number):
    page.goto(desk.url)
    promised = page.inner_text(f"#intro li >> nth={number} >> span")
    page.click(f"#intro button >> nth={number}")
    page.click("#send")
    if "asks you" in promised:
        page.wait_for_selector("#card:visible")
        return
    page.wait_for_selector("li.end")
    assert page.is_hidden("#intro")
    found = dict(decisions(desk.folder / "shop.db"))
    expected = {
        "small and in time: it is paid": {"ORD-001": "approve"},
        "too old, in time, paid before": {"ORD-002": "deny", "ORD-003": "approve"},
    }
    assert expected[promised].items() <= found.items()
    assert found.get("ORD-008") in (None, "deny")


def test_a_request_that_is_clicked_does_not_replace_what_was_typed(desk, page):
    page.goto(desk.url)
    page.click(EXAMPLE)
    page.click("#intro button >> nth=1")
    assert page.input_value("#text") == MANAGERS  # nothing of it was typed
    page.fill("#text", "Good morning.")
    page.click(EXAMPLE)
    assert page.input_value("#text").startswith("Good morning.\n")


def test_titles_are_shown_on_two_lines_and_whole_words(desk, page):
    desk.until(
        desk.begin("I want a refund on ORD-001. " + "It broke on the first day. " * 20), "ended"
    )
    page.goto(desk.url)
    title = page.locator(".title")
    title.wait_for()
    line = title.evaluate("e => parseFloat(getComputedStyle(e).lineHeight)")
    assert title.bounding_box()["height"] == pytest.approx(2 * line, abs=1)


def test_there_is_no_box_around_a_heading(page, waiting):
    page.goto(waiting)
    page.wait_for_selector("#card:visible")
    assert page.evaluate("document.activeElement.id") == "card-title"
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "none"
    assert page.evaluate("getComputedStyle(document.querySelector('#card')).boxShadow") != "none"


# The models come when they come.


def test_the_desk_works_before_the_models_are_known(desk, page):
    asked = []
    page.route("**/models", lambda route: asked.append(route))  # never answered
    page.goto(desk.url)
    page.click(EXAMPLE)
    page.click("#send")
    page.wait_for_selector("li.end")
    assert len(asked) == 1


def test_models_that_come_late_leave_the_chosen_one_chosen(desk, page):
    held = []
    page.route("**/models", lambda route: held.append(route))
    page.goto(desk.url)
    until(page, "document.readyState === 'complete'")
    wait_for(lambda: held)
    models = ["offline:stand-in", "ollama:qwen3.5:4b"]
    held[0].fulfill(body=json.dumps(models), content_type="application/json")
    page.wait_for_selector("option >> nth=1", state="attached")
    assert page.input_value("#model") == "offline:stand-in"
    page.select_option("#model", "ollama:qwen3.5:4b")
    assert page.is_hidden("#scripted")


def test_a_model_list_that_fails_leaves_the_script(desk, page):
    page.route("**/models", lambda route: route.abort())
    page.goto(desk.url)
    page.click(EXAMPLE)
    page.click("#send")
    page.wait_for_selector("li.end")


# By keyboard alone.


def test_a_conversation_by_keyboard_alone(desk, page):
    page.goto(desk.url)
    page.focus("#text")
    page.keyboard.type(MANAGERS)
    page.keyboard.press("Enter")
    page.wait_for_selector("#card:visible")
    until(page, "document.activeElement.id === 'text'")  # whoever writes goes on

    page.focus("#card-title")
    page.keyboard.press("Enter")  # typed for something else: it decides nothing
    assert page.is_visible("#card")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")  # opens the editor
    page.keyboard.press("Tab")
    page.keyboard.press("Control+A")
    page.keyboard.type("{")
    assert page.is_disabled("#yes")
    page.keyboard.press("Control+A")
    page.keyboard.insert_text(ESCALATE)
    until(page, "!document.querySelector('#yes').disabled")
    assert "escalate" in page.inner_text("#received")  # a yes is to what the card shows
    for _ in "reason", "yes":
        page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.id") == "yes"
    page.keyboard.press("Enter")
    page.wait_for_selector("li.end")
    assert "with other arguments" in page.inner_text("li.verdict")
    assert decisions(desk.folder / "shop.db") == [("ORD-004", "escalate")]
    assert page.evaluate("document.activeElement.id") == "text"  # and on with the next request


def test_enter_in_the_reason_decides_nothing(desk, page, waiting):
    page.goto(waiting)
    page.wait_for_selector("#card:visible")
    page.fill("#reason", "not today")
    page.press("#reason", "Enter")
    page.click("#no")
    page.wait_for_selector("li.end")
    assert "not today" in page.inner_text("li.verdict")
    assert decisions(desk.folder / "shop.db") == []


# On a phone.


@pytest.mark.parametrize("height", [844, 700, 500])
def test_on_a_phone_the_question_and_both_answers_are_in_view(page, waiting, height):
    page.set_viewport_size({"width": 390, "height": height})
    page.goto(waiting)
    page.wait_for_selector("#card:visible")
    for selector in ("#card-title", "#asks", "#yes", "#no"):
        assert is_in_view(page, selector), selector


def test_the_card_is_read_in_the_order_in_which_one_decides(page, waiting):
    page.goto(waiting)
    page.wait_for_selector("#card:visible")
    shown = page.inner_text("#card")
    parts = [
        "Checked against the rules",
        "ORD-004",
        "Your words",
        "Run process_refund?",
        "Yes: run",
    ]
    places = [shown.index(part) for part in parts]
    assert places == sorted(places)
    asks, keys = (page.locator(selector).bounding_box() for selector in ("#asks", "#keys"))
    assert 0 <= keys["y"] - (asks["y"] + asks["height"]) < 10  # the tool's name is right above them


def test_a_long_value_is_cut_with_its_length_and_one_click_shows_it(desk, page, waiting):
    page.set_viewport_size({"width": 390, "height": 700})
    page.goto(waiting)
    page.wait_for_selector("#card:visible")
    page.click("#editor summary")
    long = "a very long reason, " * 200
    page.fill("#edit", ESCALATE.replace("ask Ada", long))
    page.wait_for_selector("#received details")
    assert f"({len(long) + 2} characters)" in page.inner_text("#received")
    assert is_in_view(page, "#yes")
    page.click("#received summary")
    assert long.strip() in page.inner_text("#received")
    assert is_in_view(page, "#yes")


# Nothing is lost that was typed.


def test_what_was_typed_is_there_after_a_reload(desk, page, waiting):
    page.goto(desk.url)
    page.fill("#text", "a draft")
    page.goto(waiting)
    page.reload()
    page.wait_for_selector("#card:visible")
    page.fill("#reason", "not today")
    page.click("#editor summary")
    page.fill("#edit", ESCALATE)
    page.reload()
    page.wait_for_selector("#received >> text=escalate")
    assert page.input_value("#reason") == "not today"
    assert page.input_value("#edit") == ESCALATE
    page.click("#new")
    until(page, "document.querySelector('#text').value === 'a draft'")


def test_what_was_typed_stays_when_the_server_is_started_anew(desk, page, waiting):
    page.goto(waiting)
    page.wait_for_selector("#card:visible")
    page.fill("#reason", "not today")
    desk.kill()
    page.wait_for_selector("#status >> text=does not answer")
    desk.start()
    page.wait_for_selector("#status >> text=waits for your decision")
    assert page.input_value("#reason") == "not today"
    assert page.is_visible("#card")


def test_what_cannot_be_sent_stays_in_the_box(desk, page):
    page.goto(desk.url)
    page.fill("#text", "Refund ORD-001")
    desk.kill()
    page.click("#send")
    page.wait_for_selector("#status >> text=does not answer")
    assert page.input_value("#text") == "Refund ORD-001"
    assert page.is_enabled("#send")
    desk.start()


def test_what_is_typed_while_the_desk_works_stays_in_the_box(tmp_path, page):
    with web_desk(tmp_path, pace=0.02) as desk:
        page.goto(desk.url)
        page.fill("#text", MANAGERS)
        page.click("#send")
        page.wait_for_selector("#stop:visible")
        page.focus("#text")
        page.keyboard.type("And ORD-001?", delay=20)
        page.keyboard.press("Enter")  # the desk works: it is not sent yet
        page.wait_for_selector("#card:visible")
        page.keyboard.type(" Please.")
        assert page.input_value("#text") == "And ORD-001? Please."
        page.click("#yes")
        page.wait_for_selector("li.end")
        page.click("#send")
        page.wait_for_selector("li.request >> text=And ORD-001?")
        assert page.input_value("#text") == ""


# Nothing is lost that was clicked.


def test_a_click_within_the_first_second_is_never_lost(desk, chromium):
    """Each load in a browser that has nothing of the page yet. The clicks come as early as they
    can: a request, the button that sends it, a link in the list.
    """
    name = desk.begin("Refund ORD-003")
    desk.until(name, "ended")
    sent = 0
    for number in range(LOADS):
        context = chromium.new_context()
        page = context.new_page()
        page.goto(desk.url, wait_until="commit")
        if number % 2:
            page.click(EXAMPLE)
            assert "ORD-001" in page.input_value("#text")
        else:
            page.fill("#text", "Refund ORD-001")
        page.click("#send")
        sent += 1
        page.wait_for_selector("li.request")
        page.click(f'#list a[href="#{name}"]')
        page.wait_for_selector("li.request >> text=Refund ORD-003")
        context.close()
    listed = desk.client.get("/conversations").json()
    assert len(listed) == sent + 1


@pytest.mark.parametrize("selector", ["#stop", "#list a >> nth=-1", "#new"])
def test_a_button_that_is_pressed_while_the_page_grows_is_clicked(tmp_path, page, selector):
    """Between press and release come rows, which would move it, or a new list."""
    with web_desk(tmp_path, pace=0.01) as desk:
        desk.until(desk.begin("Refund ORD-003"), "ended")
        page.goto(desk.url)
        page.fill("#text", "Refund ORD-001")
        page.click("#send")
        page.wait_for_selector("#stop:visible")
        page.wait_for_selector("#list li >> nth=1")
        box = page.locator(selector).bounding_box()
        page.mouse.move(box["x"] + 5, box["y"] + 5)
        page.mouse.down()
        time.sleep(0.4)
        page.mouse.up()
        if selector == "#stop":
            page.wait_for_selector("#status >> text=Stopped")
        else:
            until(page, "!document.querySelector('li.call')")


def test_a_second_click_answers_nothing_more(desk, page, waiting):
    page.goto(waiting)
    page.wait_for_selector("#card:visible")
    page.dblclick("#yes")
    page.wait_for_selector("li.end")
    assert page.locator("li.verdict").count() == 1
    assert "already" not in page.inner_text("#status")


# What is shown.


def test_what_is_said_never_becomes_markup(desk, page):
    text = "\n".join(map(well_formed, PAYLOADS)) + " ORD-001"
    name = desk.begin(text)
    desk.until(name, "ended")
    page.goto(f"{desk.url}/#{name}")
    page.wait_for_selector("li.end")
    page.wait_for_timeout(300)
    owned = "document.documentElement.dataset.owned || document.querySelectorAll('main img').length"
    assert page.evaluate(owned) == 0
    shown = "".join(page.inner_text("li.request .text").split())
    assert all("".join(payload.split())[:20] in shown for payload in PAYLOADS if payload.isascii())
    assert page.locator("nav a[aria-current]").count() == 1


def test_a_result_that_is_summed_up_can_be_opened(desk, page):
    name = desk.begin("Refund ORD-001")
    desk.until(name, "ended")
    page.goto(f"{desk.url}/#{name}")
    page.click("li.result summary >> nth=0")
    assert '"order_id"' in page.inner_text("li.result .whole >> nth=0")


def test_a_damaged_file_can_be_looked_at_and_nothing_be_done_with_it(desk, page):
    lines = ['{"type":"transcript","version":3}', '{"type":"user","text":"Pay"}', "{", "{", ""]
    (desk.folder / "x.jsonl").write_text("\n".join(lines))
    page.goto(f"{desk.url}/#x")
    page.wait_for_selector("li.damaged")
    assert page.is_disabled("#send")
    assert page.is_hidden("#go-on")
    assert "cannot be read" in page.inner_text("#status")


def test_on_paper_there_is_the_conversation_and_no_control(desk, page):
    name = desk.begin("Refund ORD-001")
    desk.until(name, "ended")
    page.goto(f"{desk.url}/#{name}")
    page.wait_for_selector("li.end")
    page.emulate_media(media="print")
    assert page.is_visible("li.answer")
    for selector in ("nav", "#ask", "#model"):
        assert page.is_hidden(selector), selector


@pytest.mark.skipif(not AXE.exists(), reason=NO_AXE)
@pytest.mark.parametrize(("width", "scheme"), list(product(WIDTHS, SCHEMES)))
def test_axe_finds_no_fault(desk, chromium, waiting, width, scheme):
    context = chromium.new_context(
        viewport={"width": width, "height": 900}, color_scheme=scheme, bypass_csp=True
    )
    page = context.new_page()
    for url, selector in [(desk.url, "#intro"), (waiting, "#card"), (waiting, "li.end")]:
        if selector == "li.end":
            page.click("#yes")
        else:
            page.goto(url)
            page.reload()
        page.wait_for_selector(f"{selector} >> visible=true")
        if selector == "#card":
            page.click("#editor summary")
        assert faults(page) == []
        assert page.evaluate("document.documentElement.scrollWidth") <= width
    context.close()

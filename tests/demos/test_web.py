"""The refund desk in a browser: its server, over real HTTP, stopped and killed in the middle. (Its
page in a real Chromium: test_web_page.py.)
"""

import json
import re
import signal
import socket
import subprocess
import sys
import threading
import time

import httpx
import pytest

from tests.support.commands import decisions, environment, run
from tests.support.sizes import ROOT
from tests.support.web import KILLS, MANAGERS, OFFLINE, web_desk

pytest.importorskip("uvicorn", reason='needs pip install -e ".[web]"')
pytest.importorskip("fastapi", reason='needs pip install -e ".[web]"')
pytestmark = [pytest.mark.browser, pytest.mark.timeout(600)]


@pytest.fixture
def desk(tmp_path):
    with web_desk(tmp_path) as running:
        yield running


def asked(desk):
    """The name of a conversation that waits for a manager, and its card."""
    name = desk.begin(MANAGERS)
    return name, desk.until(name, "waits")["card"]


# Over HTTP.


def test_a_question_is_answered_once_by_a_post_that_names_it(desk):
    name, card = asked(desk)
    assert card["asks"] == "Run process_refund?"
    assert ["order_id", '"ORD-004"'] in card["arguments"]
    assert desk.post(name, "verdict", question="another.one", decision="yes").status_code == 409
    assert desk.post(name, "verdict", decision="yes").status_code == 422  # it names none
    answers = [desk.post(name, "verdict", question=card["id"], decision="yes") for _ in "12"]
    assert [answer.status_code for answer in answers] == [200, 409]
    desk.until(name, "ended")
    assert decisions(desk.folder / "shop.db") == [("ORD-004", "approve")]


def test_a_yes_to_what_is_not_shown_any_more_runs_nothing_and_asks_again(desk):
    name, card = asked(desk)
    stale = card["id"].partition(".")[0] + ".shown-otherwise"
    assert desk.post(name, "verdict", question=stale, decision="yes").status_code == 200
    assert desk.until(name, "waits")["card"]["id"] == card["id"]
    assert decisions(desk.folder / "shop.db") == []


def test_a_person_may_say_something_else_while_a_question_waits(desk):
    name, card = asked(desk)
    assert desk.post(name, "turn", text="Rather refund ORD-001").status_code == 200
    desk.until(name, "ended")
    assert decisions(desk.folder / "shop.db") == [("ORD-001", "approve")]
    assert desk.post(name, "verdict", question=card["id"], decision="yes").status_code == 409


def test_a_request_that_is_open_is_not_begun_twice(desk):
    name, _ = asked(desk)
    refused = desk.post(name, "turn", text=MANAGERS)
    assert refused.status_code == 409
    assert "this request is not finished yet" in refused.json()["detail"]
    assert [kind for kind, _ in desk.rows(name)].count("request") == 1


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
    desk.post(name, "verdict", question=card["id"], **answer)
    desk.until(name, "ended", "waits")
    assert decisions(desk.folder / "shop.db") == decided
    verdicts = [text for kind, text in desk.rows(name) if kind == "verdict"]
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


HOSTS = [  # a version of HTTP, the line with the host, and the status of the answer
    ("1.0", "", 403),  # it ended as 500
    ("1.1", "", 400),  # uvicorn refuses it
    ("1.1", "Host:", 403),
    ("1.1", "Host: evil.example", 403),
    ("1.1", "Host: [::1", 403),
    ("1.1", "Host: 127.0.0.1:port:1", 403),
    ("1.1", "Host: 127.0.0.1.evil.example", 403),
    ("1.1", "Host: evil.example@127.0.0.1", 403),
    ("1.1", "Host: 127.0.0.1", 403),  # it is not that of its Origin
    ("1.1", "Host: 127.0.0.1:{port}", 200),
]


@pytest.mark.parametrize(("version", "host", "code"), HOSTS)
def test_a_post_says_to_whom_it_is_and_is_never_an_error_of_the_server(desk, version, host, code):
    body = json.dumps({**OFFLINE, "text": "Refund ORD-001"})
    lines = [
        f"POST /conversations/x/turn HTTP/{version}",
        host.format(port=desk.port),
        f"Origin: http://127.0.0.1:{desk.port}",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
        "Connection: close",
    ]
    request = "\r\n".join(line for line in lines if line) + f"\r\n\r\n{body}"
    with socket.create_connection(("127.0.0.1", desk.port)) as connection:
        connection.sendall(request.encode())
        status = connection.makefile("rb").readline().split()[1]
    assert int(status) == code


# What a person puts in.


def test_the_card_shows_how_edited_arguments_would_run(desk):
    name, _ = asked(desk)
    wanted = {"order_id": "ORD-004", "decision": "escalate", "reason": "a\u202eb"}
    shown = desk.post_plain(name, "edited", arguments=json.dumps(wanted)).json()
    assert shown["problem"] == ""
    assert ["decision", '"escalate"'] in shown["arguments"]
    assert ["reason", r'"a\u202eb"'] in shown["arguments"]


def test_edited_arguments_that_do_not_fit_are_told_with_their_reason(desk):
    name, _ = asked(desk)
    wanted = {"order_id": "ORD-004", "decision": "perhaps"}
    shown = desk.post_plain(name, "edited", arguments=json.dumps(wanted)).json()
    assert "bad arguments for process_refund" in shown["problem"]
    assert ["decision", '"perhaps"'] in shown["arguments"]


@pytest.mark.parametrize("text", ["", "{", "[]", "5", '{"a": NaN}', "[" * 100_000])
def test_what_is_no_object_is_no_argument(desk, text):
    name, card = asked(desk)
    refused = desk.post_plain(name, "edited", arguments=text)
    assert refused.status_code == 409
    assert "one JSON object" in refused.json()["detail"]
    answered = desk.post(name, "verdict", question=card["id"], decision="yes", arguments=text)
    assert answered.status_code == 409
    assert desk.until(name, "waits")  # and nothing was decided


def test_a_number_that_a_browser_cannot_hold_is_read_as_it_was_typed(desk):
    name, _ = asked(desk)
    text = '{"order_id": "ORD-004", "decision": "escalate", "reason": 12345678901234567890}'
    shown = desk.post_plain(name, "edited", arguments=text).json()
    assert ["reason", "12345678901234567890"] in shown["arguments"]


# Files.


def written(desk, name, *lines):
    (desk.folder / f"{name}.jsonl").write_bytes(b"\n".join(lines) + b"\n")


HEADER = b'{"type":"transcript","version":3,"id":"a"}'
REQUEST = b'{"type":"user","text":"Refund ORD-001"}'
REPLY = b'{"type":"assistant","text":"Paid."}'


def test_a_damaged_file_is_shown_as_far_as_it_can_be_read_and_says_so(desk):
    written(
        desk, "x", HEADER, REQUEST, b'{"type": "assis', REPLY, b'{"type":"ended","exit":"silence"}'
    )
    shown = desk.rows("x")
    assert [kind for kind, _ in shown] == ["request", "damaged", "answer", "end"]
    assert shown[1][1].startswith("Line 3 of the file cannot be read")
    standing = desk.until("x", "damaged")
    assert standing["may"] == []
    assert standing["card"] is None
    assert "cannot be read" in standing["says"]
    for action in ("turn", "resume", "stop", "verdict"):
        body = {"turn": {"text": "hi"}, "verdict": {"question": "a.b", "decision": "yes"}}
        assert desk.post(name="x", action=action, **body.get(action, {})).status_code in (409, 422)
    [listed] = desk.client.get("/conversations").json()
    assert listed["title"] == "Refund ORD-001"
    assert listed["state"] == "damaged"


def test_a_file_of_which_nothing_can_be_read_is_a_row_too(desk):
    written(desk, "x", b"\x00\x01 junk")
    assert [kind for kind, _ in desk.rows("x")] == ["damaged"]
    assert desk.until("x", "unreadable")["may"] == []
    assert desk.post("x", "turn", text="hi").status_code == 409
    [listed] = desk.client.get("/conversations").json()
    assert listed["state"] == "unreadable"
    assert "no line of it is a message" in listed["title"]


def test_a_half_written_last_line_is_shown_and_the_run_goes_on(desk):
    written(desk, "x", HEADER, REQUEST)
    with (desk.folder / "x.jsonl").open("ab") as file:
        file.write(b'{"type": "assis')
    assert [kind for kind, _ in desk.rows("x")] == ["request", "damaged"]
    desk.finish("x")
    assert decisions(desk.folder / "shop.db") == [("ORD-001", "approve")]


def test_a_question_that_would_not_be_asked_today_can_still_be_read(desk):
    """The refund is small: the desk of today runs such a call without asking."""
    call = {"order_id": "ORD-001", "decision": "approve", "reason": "in time"}
    thought = {"id": "t", "name": "think", "arguments": {"thought": "It is due."}}
    calls = [thought, {"id": "c", "name": "process_refund", "arguments": call}]
    reply = {"type": "assistant", "tool_calls": calls, "stop_reason": "tool_use"}
    noted = {"type": "toolresult", "call_id": "t", "name": "think", "content": "Thought recorded."}
    asks = {"type": "paused", "question": "Run process_refund(…)?", "call_id": "c", "id": "q"}
    written(desk, "x", HEADER, REQUEST, *[json.dumps(one).encode() for one in (reply, noted, asks)])
    card = desk.until("x", "waits")["card"]
    assert card["asks"] == "Run process_refund?"
    assert ["order_id", '"ORD-001"'] in card["arguments"]
    no = {"question": card["id"], "decision": "no", "reason": "why?"}
    assert desk.post("x", "verdict", **no).status_code == 200
    desk.until("x", "ended")
    assert decisions(desk.folder / "shop.db") == []


# The command.


@pytest.fixture
def started(tmp_path):
    """`python -m demos.web` in a process of its own, and its address."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "demos.web", "--port", str(port), "--folder", str(tmp_path)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    server = subprocess.Popen([*command, "--pace", "0.05"], cwd=ROOT, env=environment(), **pipes)
    assert server.stdout.readline().startswith(f"The refund desk: http://127.0.0.1:{port} ")
    yield server, f"http://127.0.0.1:{port}"
    server.kill()
    server.wait()


def test_ctrl_c_with_a_browser_connected_and_a_run_at_work_ends_in_one_line(started, tmp_path):
    server, url = started
    watched = threading.Event()

    def watch() -> None:
        with httpx.stream("GET", f"{url}/conversations/x/events", timeout=60) as lines:
            for line in lines.iter_lines():
                if "forming" in line:
                    watched.set()

    watcher = threading.Thread(target=watch)
    watcher.start()
    body = {**OFFLINE, "text": "Refund ORD-001"}
    httpx.post(f"{url}/conversations/x/turn", json=body, headers={"origin": url})
    assert watched.wait(30)
    server.send_signal(signal.SIGINT)
    out, err = server.communicate(timeout=30)
    watcher.join(30)
    assert not watcher.is_alive()  # its stream was ended, not broken
    assert server.returncode == 130
    assert out == ""
    assert err.strip() == f"stopped; the conversations are in {tmp_path}"


def test_a_port_that_is_taken_is_one_line(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = run("-m", "demos.web", "--port", port, "--folder", str(tmp_path))
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "choose another port" in done.stderr


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
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
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
                desk.post(name, "verdict", question=card["id"], decision="yes")
                path = folder / f"{name}.jsonl"
                while b'"started"' not in path.read_bytes():
                    time.sleep(0.001)
                time.sleep(number % 4 * 0.06)  # before the booking, and after it
            desk.kill()
            desk.start()
            desk.finish(name)
        assert decisions(folder / "shop.db") == [("ORD-004", "approve")]

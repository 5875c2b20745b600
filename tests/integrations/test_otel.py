"""The spans of a run, as OpenTelemetry's in-memory exporter sees them."""

from itertools import islice, pairwise

import pytest

pytest.importorskip("opentelemetry.sdk", reason='needs pip install -e ".[otel]"')

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.semconv._incubating.attributes import gen_ai_attributes as convention
from opentelemetry.trace import SpanKind, StatusCode

from demos.refund.offline import reply
from demos.refund.shop import Shop
from tests.support.agents import agent
from tests.support.commands import run
from think_agent import Agent, Assistant, Overloaded, ScriptedModel, Usage, tool
from think_agent.integrations.otel import Spans
from think_agent.policies import Price
from think_agent.testing import call, think

SECRET = "ORD-001"


@pytest.fixture
def traced():
    """A tracer, and what gives the spans that it has ended so far."""
    provider, exporter = TracerProvider(), InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return provider.get_tracer("test"), exporter.get_finished_spans


@pytest.fixture
def spans_of(traced):
    """The spans of one run, that of the agent last."""
    tracer, ended = traced

    def spans_of(agent: Agent, text: str):
        with Spans(tracer) as spans:
            agent.run(text, on_event=spans)
        return ended()

    return spans_of


def desk(script=reply, **settings) -> Agent:
    model = ScriptedModel(script, name="gemini", model="m-1")
    return Agent(model, Shop().tools(), **settings)


def test_a_run_is_a_tree_of_agent_calls_and_tools(traced):
    tracer, ended = traced
    with Spans(tracer) as spans:
        desk().run("Refund ORD-004", on_event=spans)
        before = ended()
        outcome = desk().run(f"Refund {SECRET}", on_event=spans)  # one listener, run after run
    assert outcome == desk().run(f"Refund {SECRET}")  # a listener changes nothing
    *children, whole = ended()[len(before) :]
    assert before[-1].name == "invoke_agent"
    assert before[-1].end_time <= whole.start_time
    assert whole.name == "invoke_agent"
    assert whole.parent is None
    assert {span.parent.span_id for span in children} == {whole.context.span_id}
    assert whole.start_time == children[0].start_time
    for earlier, later in pairwise(children):  # they fill the run
        assert earlier.start_time <= earlier.end_time == later.start_time
    assert children[-1].end_time <= whole.end_time
    assert [span.name for span in children] == [
        name
        for reply in outcome.turn.replies
        for name in ("chat m-1", *(f"execute_tool {made.name}" for made in reply.tool_calls))
    ]
    assert whole.attributes["think_agent.exit"] == "signal"
    assert whole.attributes["think_agent.actions_behind_a_thought"] == 3
    assert not any(span.status.status_code is StatusCode.ERROR for span in (*children, whole))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # the names moved to a package to come
def test_every_name_and_kind_is_the_conventions_own(spans_of):
    known = {value for name, value in vars(convention).items() if name.isupper()}
    for span in spans_of(desk(name="refund desk"), "ORD-001 and ORD-999"):
        names = set(span.attributes)
        assert {n for n in names if n.startswith("gen_ai.")} <= known
        assert all(n.startswith(("gen_ai.", "think_agent.", "error.type")) for n in names)
        operation = convention.GenAiOperationNameValues(span.attributes["gen_ai.operation.name"])
        assert span.name.startswith(operation.value)
        is_chat = operation is convention.GenAiOperationNameValues.CHAT
        assert span.kind == (SpanKind.CLIENT if is_chat else SpanKind.INTERNAL)
        if is_chat:
            assert convention.GenAiProviderNameValues(span.attributes["gen_ai.provider.name"])


def test_the_span_of_a_run_has_the_name_of_its_agent(spans_of):
    *children, whole = spans_of(desk(name="refund desk"), "ORD-001")
    assert whole.name == "invoke_agent refund desk"
    assert whole.attributes["gen_ai.agent.name"] == "refund desk"
    assert not [span for span in children if "gen_ai.agent.name" in span.attributes]


def test_each_run_has_the_name_of_its_own_agent(traced):
    tracer, ended = traced
    with Spans(tracer) as spans:  # one listener for both
        for name in ("buyer", "", "seller"):
            agent("Hello.", name=name).run("Hi.", on_event=spans)
    runs = [span for span in ended() if span.name.startswith("invoke_agent")]
    assert [span.name for span in runs] == [
        "invoke_agent buyer", "invoke_agent", "invoke_agent seller",
    ]  # fmt: skip
    names = [span.attributes.get("gen_ai.agent.name") for span in runs]
    assert names == ["buyer", None, "seller"]


def test_no_content_is_recorded(spans_of):
    spans = spans_of(desk(), f"Refund {SECRET}")
    everything = "".join(span.to_json() for span in spans)
    assert "execute_tool process_refund" in everything
    for content in (SECRET, "Plan: look up", "Refund"):
        assert content not in everything


def test_tokens_have_the_conventions_names(spans_of):
    usage = Usage(10, 5, 4, 3, written_tokens=2)
    notes = think("a private note")
    thinks = Assistant(tool_calls=(notes,), stop_reason="tool_use", usage=usage)
    first, _, last, whole = spans_of(agent(thinks, Assistant("done", usage=usage)), "hello")
    assert first.attributes["gen_ai.response.finish_reasons"] == ("tool_call",)
    assert last.attributes["gen_ai.response.finish_reasons"] == ("stop",)
    names = [
        "input_tokens",
        "output_tokens",
        "cache_read.input_tokens",
        "cache_creation.input_tokens",
        "reasoning.output_tokens",
    ]
    for span, tokens in [(first, [10, 5, 4, 2, 3]), (whole, [20, 10, 8, 4, 6])]:
        assert [span.attributes[f"gen_ai.usage.{name}"] for name in names] == tokens
    assert "think_agent.cost" not in whole.attributes


def test_the_cost_of_a_run_is_recorded_where_the_prices_are_known(spans_of):
    reply = Assistant("done", usage=Usage(1_000_000, 500_000), model="m-1")
    model = ScriptedModel([reply], model="m-1")
    agent = Agent(model, prices={"m-1": Price(input=1, output=2)})
    *_, whole = spans_of(agent, "hello")
    assert whole.attributes["think_agent.cost"] == 2.0


def test_a_check_is_a_span_and_an_unmet_one_fails_the_run(spans_of):
    def order_is_decided(turn):
        return f"{SECRET} has no decision"

    def world_turns(turn):
        return None

    checks = [world_turns, order_is_decided]
    unmet_agent = agent("done", "No.", done_when=checks)
    *children, whole = spans_of(unmet_agent, "hello")
    names = ["chat script", "check world_turns", "check order_is_decided", "chat script"]
    assert [span.name for span in children] == names
    for earlier, later in pairwise(children):
        assert earlier.end_time <= later.start_time
    _, met, unmet, _ = children
    assert met.status.status_code is StatusCode.UNSET
    assert dict(met.attributes) == {"think_agent.check": "world_turns"}
    assert whole.attributes["think_agent.exit"] == "unmet"
    for span in (unmet, whole):
        assert span.status.status_code is StatusCode.ERROR
        assert span.attributes["error.type"] == "unmet"
    assert SECRET not in unmet.to_json()


def test_a_call_in_doubt_is_marked(spans_of):
    @tool
    def pay() -> str:
        """Pay."""
        raise ConnectionError("no answer")

    _, span, _, _ = spans_of(agent(call("pay"), "Hm.", tools=[pay]), "go")
    assert span.attributes["think_agent.in_doubt"] is True
    assert span.attributes["error.type"] == "failed"


def test_a_model_that_fails_and_a_person_who_stops_end_all_spans(traced):
    tracer, ended = traced

    def overloaded(request):
        raise Overloaded(f"come back later with {SECRET}")

    with pytest.raises(Overloaded), Spans(tracer) as spans:
        desk(overloaded).run("ORD-001", on_event=spans)
    [agent_span] = ended()
    assert agent_span.name == "invoke_agent"
    assert agent_span.attributes["error.type"] == "Overloaded"
    assert agent_span.status.status_code is StatusCode.ERROR
    assert SECRET not in agent_span.to_json()
    with Spans(tracer) as spans:
        any(map(spans, islice(desk().stream("ORD-001"), 3)))
    assert [span.name for span in ended()[1:]][-1:] == ["invoke_agent"]


def test_failed_and_refused_tools_are_errors_without_their_text(spans_of):
    @tool
    def fail() -> str:
        """Fail."""
        raise ValueError(SECRET)

    incomplete = Assistant("it failed", stop_reason="incomplete")
    failing = agent(call("fail"), call("unknown"), incomplete, tools=[fail])
    _, failed, _, refused, last, _ = spans_of(failing, "go")
    assert last.attributes["gen_ai.response.finish_reasons"] == ("error",)
    assert failed.name == "execute_tool fail"
    assert failed.status.status_code is StatusCode.ERROR
    assert failed.attributes["error.type"] == "failed"
    assert refused.attributes["error.type"] == "invalid"
    assert SECRET not in failed.to_json()


def test_opentelemetry_is_imported_only_when_used():
    code = "import sys, think_agent, think_agent.cli; sys.exit('opentelemetry' in sys.modules)"
    assert run("-c", code).returncode == 0
    code = "import sys; sys.modules['opentelemetry'] = None; import think_agent.integrations.otel"
    assert 'pip install "think-agent[otel]"' in run("-c", code).stderr.strip().splitlines()[-1]

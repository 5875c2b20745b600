"""What only the Ollama provider does, through the real SDK over local HTTP. `test_errors.py` and
`test_four_providers.py` test all providers.
"""

import json
import re
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from pydantic import BaseModel

from demos.refund.offline import reply as by_the_policy
from demos.refund.session import speak
from demos.refund.shop import Shop
from tests.servers import Reply, serve
from tests.servers.ollama import TEMPLATES, OllamaServer, Template
from tests.support.ollama import recorded
from tests.support.providers import (
    ASK,
    HELLO,
    WAYS,
    carrying,
    desk,
    every_way,
    failure,
    says,
    streamed_ways,
)
from think_agent import (
    THINK,
    Agent,
    Assistant,
    AuthError,
    BadRequest,
    ConnectionFailed,
    Force,
    ModelError,
    ModelNotFound,
    Overloaded,
    RateLimited,
    Request,
    ToolCall,
    ToolResult,
    User,
    connect,
    tool,
)
from think_agent.cli.choosing import make_named_model
from think_agent.dialects import in_dialect
from think_agent.errors import ToolsUnsupported
from think_agent.messages import Json
from think_agent.providers.ollama import Fold, Ollama
from think_agent.wire.forms import form_of
from think_agent.wire.ollama import from_wire
from think_agent.wire.settings import Settings


@tool
def order(order_id: str) -> str:
    """Look an order up."""
    return f"{order_id}: shipped"


WITH_TOOLS = Request([User("Where is ORD-1?")], [THINK, order], system="Be brief.")


@pytest.fixture
def server():
    with serve(OllamaServer(), says("Hi there.")) as running:
        yield running


def model_at(server, **options):
    return Ollama("qwen3:4b", base_url=server.url, **options)


# What is sent.


def test_a_form_stands_beside_the_tools_where_the_model_is_not_free(server):
    schema = {"type": "object", "properties": {"answer": {"type": "string"}}}
    asked = [
        replace(HELLO, output_schema=schema),
        replace(WITH_TOOLS, output_schema=schema),  # free to call a tool
        replace(WITH_TOOLS, tool_choice="none"),
        replace(WITH_TOOLS, tool_choice="none", output_schema=schema),
    ]
    for request in asked:
        model_at(server).complete(request)
    forms = [body.get("format") for body in server.requests]
    assert forms == [schema, None, {"type": "string"}, schema]
    assert ["tools" in body for body in server.requests] == [False, True, True, True]


ACTED = [ToolResult("a", "order", "ORD-1: shipped")]
REFUSED = [replace(ACTED[0], refused="gate", is_error=True)]
THOUGHT_OF = [ToolResult("a", "think", "Thought recorded.")]


@pytest.mark.parametrize(
    ("then", "keys"),
    [
        ([], ["thought"]),
        (ACTED, ["thought", "should_continue"]),
        ([*ACTED, User("Go on.", kind="nudge")], ["thought", "should_continue"]),
        ([*ACTED, User("And ORD-2?")], ["thought"]),
        (REFUSED, ["thought"]),
        (THOUGHT_OF, ["thought"]),
    ],
)
def test_a_forced_thought_can_only_say_that_all_is_done_after_an_action(then, keys):
    forced = replace(WITH_TOOLS, messages=[User("Where is ORD-1?"), *then])
    form = form_of(replace(forced, tool_choice=Force("think")))
    assert form is not None
    assert list(form["properties"]) == keys
    assert form["required"] == keys
    thought = form["properties"]["thought"]
    assert thought["minLength"] == 1
    assert thought["maxLength"] == 400
    assert form["additionalProperties"] is False


def test_without_forms_nothing_forces_and_the_closing_call_leaves_the_tools_out(server):
    model = model_at(server, format=False)
    forced = model.complete(replace(WITH_TOOLS, tool_choice=Force("think")))
    model.complete(replace(WITH_TOOLS, tool_choice="none"))
    assert forced.enforced == "prompt"
    assert not any("format" in body for body in server.requests)
    assert ["tools" in body for body in server.requests] == [True, False]


def test_where_a_form_was_ignored_the_closing_call_leaves_the_tools_out(server):
    ignored = Assistant("Hm.", enforced="ignored", host="127.0.0.1")
    for reply in (ignored, replace(ignored, host="example.com")):
        talk = [User("Where is ORD-1?"), reply, User("Go on.", kind="nudge")]
        model_at(server).complete(replace(WITH_TOOLS, messages=talk, tool_choice="none"))
    assert ["tools" in body for body in server.requests] == [False, True]
    assert ["format" in body for body in server.requests] == [False, True]


@pytest.mark.parametrize("choice", [Force("think"), "none"])
def test_a_server_that_refuses_a_grammar_is_asked_without_one_from_then_on(choice, server):
    model = model_at(server)
    for error in recorded("format")["refused"]:
        model.left_out.clear()
        server.requests.clear()
        server.canned = [Reply(error["status"], error["body"])]
        for _ in range(2):
            assert model.complete(replace(WITH_TOOLS, tool_choice=choice)).text == "Hi there."
        assert ["format" in body for body in server.requests] == [True, False, False]


class Refunded(BaseModel):
    """An answer with a type."""

    refunded: bool


def with_all(request: Request) -> Assistant:
    """The script of the desk as a model that reasons, carries a thought in each call that takes
    one, and marks what it thinks beside its answer.
    """
    reply = replace(carrying(by_the_policy)(request), thinking="Hm.")
    if request.output_schema:
        return replace(reply, text='{"refunded": true}')
    if request.tool_choice == "none":
        return replace(reply, text=f"<think>All is done.</think>{reply.text}")
    return reply


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("options", "settings", "think"),
    [
        ({}, {}, None),
        ({"reasoning": "off"}, {}, False),
        ({"reasoning": "high"}, {"answer": Refunded}, "high"),
        ({"think": "max"}, {"carry": True}, "max"),
        ({}, {"carry": True, "answer": Refunded}, None),
    ],
)
def test_a_form_changes_nothing_else_of_a_run(way, options, settings, think):
    """Of a model that reasons or is asked not to, with a thought in a call, with a typed answer."""
    with serve(OllamaServer(), with_all) as server:
        model = connect("ollama:m", base_url=server.url, **options)
        outcome = way(desk(model, Shop(), **settings), "Please refund ORD-001")
        bodies = server.requests
    first, *_, last = outcome.turn.replies
    assert outcome.exit == "signal"
    assert first.enforced == "schema"
    assert last.enforced == "schema"
    assert [call.name for call in first.tool_calls] == ["think"]
    assert first.thinking == "Hm."  # and it goes back with the thought
    assert bodies[1]["messages"][2]["thinking"] == "Hm."
    [refund] = [action for action in outcome.actions if action.call.name == "process_refund"]
    assert refund.how == ("carried" if "carry" in settings else "volunteered")
    if "answer" in settings:
        assert outcome.data == Refunded(refunded=True)
    else:
        assert "<think>" not in outcome.answer
        assert last.thinking == "Hm.\n\nAll is done."
    # To switch it for one call would change the prompt: this server shows no difference.
    assert [body.get("think") for body in bodies] == [think] * outcome.model_calls
    assert all("tools" in body for body in bodies)


def test_options_of_the_server_are_sent_if_they_are_given(server):
    model_at(server).complete(HELLO)
    model_at(server, keep_alive="30m", think="max").complete(HELLO)
    low = Settings(reasoning="low")
    model_at(server, settings=low, think="max").complete(HELLO)  # the server's own word counts
    model_at(server, settings=Settings(reasoning="off"), keep_alive=-1).complete(HELLO)
    sent = [(body.get("keep_alive"), body.get("think")) for body in server.requests]
    assert sent == [(None, None), ("30m", "max"), (None, "max"), (-1, False)]


# The window.


@pytest.mark.parametrize(
    ("told", "asked", "sent", "shown"),
    [
        ({}, {}, 16384, "16,384 tokens, by num_ctx"),
        ({}, {"num_ctx": 65536}, 65536, "65,536 tokens, by num_ctx"),
        ({"made": 32768}, {}, 32768, "32,768 tokens, by the Modelfile"),
        ({"made": 32768}, {"num_ctx": 8192}, 32768, "32,768 tokens, by the Modelfile"),
        ({"made": 4096}, {}, 16384, "16,384 tokens, by num_ctx"),
        ({"loaded": {"qwen3:4b": 40960}}, {}, 40960, "40,960 tokens, as the model is loaded"),
        ({"loaded": {"other:4b": 40960}}, {}, 16384, "16,384 tokens, by num_ctx"),
        ({"longest": 8192}, {}, 16384, "8,192 tokens, the longest that the model takes"),
    ],
)
def test_the_window_is_never_lowered(told, asked, sent, shown):
    with serve(OllamaServer(**told), says("Hi.")) as server:
        model = model_at(server, **asked)
        assert str(model.window()) == shown
        model.complete(HELLO)
    assert server.requests[0]["options"]["num_ctx"] == sent


@every_way
def test_the_window_stays_the_same_for_a_run(way):
    """Whatever others do meanwhile: another window would load the model anew."""
    protocol = OllamaServer(loaded={"qwen3:4b": 32768})
    with serve(protocol, says("Hi.")) as server:
        model = model_at(server)
        ASK[way](model, HELLO)
        protocol.loaded = {"qwen3:4b": 65536}
        ASK[way](model, HELLO)
    assert [body["options"]["num_ctx"] for body in server.requests] == [32768, 32768]


@pytest.mark.parametrize("renders", [True, False])
def test_nothing_of_a_prompt_is_dropped(renders):
    """In every request, that for the rendered prompt included: another `shift` loads the model
    anew.
    """
    bodies = []

    class Watched(OllamaServer):
        def other(self, method, path, body):
            if path == "/api/chat":
                bodies.append(body)
            return super().other(method, path, body)

    with serve(Watched(renders=renders), says("Hi.")) as server:
        model = connect("ollama:m", base_url=server.url)
        Agent(model, [order]).run("Where is ORD-1?")
    assert len(bodies) > 2
    assert {(body["shift"], body["truncate"]) for body in bodies} == {(False, False)}


def done(reason: str, tokens: int, **more: Any) -> Json:
    """The last line of a reply."""
    end = {"done": True, "done_reason": reason, "prompt_eval_count": 9, "eval_count": tokens}
    return {"message": {"content": "Hm."}, **end, **more}


@every_way
@pytest.mark.parametrize(
    ("tokens", "cause"),
    [
        (50, "the reply reached its bound of 50 tokens (max_output_tokens)"),
        (
            49,
            r"the context window is full (2,048 tokens, by num_ctx): raise num_ctx, or show fewer",
        ),
    ],
)
def test_a_full_window_is_told_from_a_full_reply(tokens, cause, way, server):
    server.canned = [lines(done("length", tokens))]
    model = model_at(server, num_ctx=2048, settings=Settings(max_output_tokens=50))
    reply = ASK[way](model, HELLO)
    assert reply.stop_reason == "max_tokens"
    assert cause in reply.cause


def test_a_full_window_is_the_cause_of_a_run_that_is_cut(server):
    server.canned = [lines(done("length", 3))]
    outcome = Agent(model_at(server), [order], force="never").run("Where is ORD-1?")
    assert outcome.exit == "truncated"
    assert "the context window is full" in outcome.cause


@pytest.mark.parametrize(
    ("loaded", "notices"),
    [({"qwen3:4b": 4096}, 1), ({"qwen3:4b": 16384}, 0), ({"qwen3:4b": 40960}, 0), ({}, 0)],
)
def test_a_model_that_another_client_has_loaded_with_less_is_reported(loaded, notices):
    with serve(OllamaServer(loaded=loaded), says("Hi.")) as server:
        model = model_at(server)
        replies = [model.complete(HELLO) for _ in range(2)]
    assert "".join(reply.notice for reply in replies).count("a window of 4,096 tokens") == notices


@every_way
def test_a_model_that_is_loaded_again_and_again_is_reported_once(way, server):
    """As another client with another `num_ctx` makes the server do."""
    loads = [3_000_000_000, 1_000_000, 2_000_000_000, 2_000_000_000]  # nanoseconds
    server.canned = [lines(done("stop", 1, load_duration=load)) for load in loads]
    model = model_at(server)
    notices = [ASK[way](model, HELLO).notice for _ in loads]
    assert [bool(notice) for notice in notices] == [False, False, True, False]
    assert "loaded qwen3:4b again (2.0 s)" in notices[2]


# A reply is read from a stream, watched or not.


@every_way
def test_every_reply_is_asked_for_as_a_stream(way, server):
    """So `timeout` bounds the silence, and not the length of a reply."""
    ASK[way](model_at(server), HELLO)
    assert [body["stream"] for body in server.requests] == [True]


@pytest.mark.parametrize("way", ["plain", "async"])
@pytest.mark.parametrize("broken", [{}, {"content-length": "99999"}], ids=["ends", "breaks"])
def test_an_unwatched_stream_is_asked_for_again(broken, way, server, monkeypatch):
    monkeypatch.setattr("think_agent.providers.provider.random.uniform", lambda *_: 0.0)
    half = json.dumps({"message": {"content": "Half"}, "done": False}).encode() + b"\n"
    server.canned = [Reply(chunks=[half], headers=broken)] * 2
    assert ASK[way](model_at(server), HELLO).text == "Hi there."
    assert len(server.requests) == 3


@every_way
def test_a_server_that_sends_no_stream_is_read_all_the_same(way, server):
    server.canned = [Reply(body=done("stop", 3))]
    assert ASK[way](model_at(server), HELLO).text == "Hm."


# A model that reasons by itself.


def forced_bodies(template: Template, messages: list[Any], **options: Any) -> list[Json]:
    """The bodies of two requests that force a thought."""
    request = replace(WITH_TOOLS, messages=messages, tool_choice=Force("think"))
    with serve(OllamaServer(template=template), says("Hm.")) as server:
        model = model_at(server, **options)
        for way in ("plain", "async streamed"):
            ASK[way](model, request)
        model.complete(replace(request, tool_choice="none"))
        return server.requests


ASKED = [User("Where is ORD-1?")]
BEHIND = [*ASKED, Assistant(tool_calls=(ToolCall("a", "think", {"thought": "x"}),)), *THOUGHT_OF]
AT_END = Template(thinks="end")


@pytest.mark.parametrize(
    ("template", "messages", "options", "think"),
    [
        (AT_END, ASKED, {}, False),
        (AT_END, BEHIND, {}, False),
        (Template(thinks="system"), ASKED, {}, None),  # the whole prompt would be read anew
        (Template(), ASKED, {}, None),  # it makes no difference
        (AT_END, ASKED, {"settings": Settings(reasoning="high")}, "high"),  # as the user set it
        (AT_END, ASKED, {"think": "max"}, "max"),
        (AT_END, ASKED, {"format": False}, None),  # nothing is forced
    ],
)
def test_a_forced_thought_is_asked_without_reasoning_where_only_the_end_changes(
    template, messages, options, think
):
    bodies = forced_bodies(template, messages, **options)
    assert [body.get("think") for body in bodies[:2]] == [think, think]


def test_reasoning_is_left_out_of_a_forced_thought_alone():
    assert "think" not in forced_bodies(AT_END, ASKED)[2]


def test_a_model_that_does_not_reason_is_not_asked_about_it():
    protocol = OllamaServer(template=AT_END, capabilities=("completion", "tools"))
    with serve(protocol, says("Hm.")) as server:
        model_at(server).complete(replace(WITH_TOOLS, tool_choice=Force("think")))
    assert "think" not in server.requests[0]


@every_way
@pytest.mark.parametrize(
    ("thought", "is_cut"), [("x" * 400, True), ("x" * 399 + ".", False), ("x" * 399, False)]
)
def test_a_forced_thought_that_was_cut_at_its_length_says_so(thought, is_cut, way, server):
    text = json.dumps({"thought": thought})
    server.canned = [lines({**done("stop", 90), "message": {"content": text}})]
    reply = ASK[way](model_at(server), replace(WITH_TOOLS, tool_choice=Force("think")))
    assert ("was cut at 400 characters" in reply.notice) == is_cut


# Where the server is.


@pytest.mark.parametrize(
    ("given", "address"),
    [
        (":11435", "http://127.0.0.1:11435"),
        ("0.0.0.0", "http://0.0.0.0:11434"),
        ("example.com", "http://example.com:11434"),
        ("example.com:56789", "http://example.com:56789"),
        ("http://example.com", "http://example.com"),
        ("https://example.com/ollama/", "https://example.com/ollama/"),
        ("[::1]", "http://[::1]:11434"),
        ("", "http://127.0.0.1:11434"),
    ],
)
def test_an_address_in_any_form_that_the_sdk_takes(given, address, monkeypatch):
    monkeypatch.setenv("OLLAMA_HOST", given)
    assert Ollama("m").url == address
    monkeypatch.delenv("OLLAMA_HOST")
    assert Ollama("m", base_url=given).url == address


def test_an_address_that_is_not_valid_is_an_error():
    with pytest.raises(ValueError, match="port"):
        Ollama("m", base_url="host:port")


# What comes back.


BOTH = tuple(ToolCall(id, "order", {"order_id": id}) for id in ("1", "2"))
ORDERED = [
    User("Where are 1 and 2?"),
    Assistant(tool_calls=BOTH, stop_reason="tool_use"),
    *(ToolResult(call.id, "order", "shipped") for call in BOTH),
]


@every_way
@pytest.mark.parametrize(
    ("family", "sizes"),
    [("llama3.1 in Jinja", [5, 6, 6]), ("mistral-small3.2 in Jinja", [5, 5, 5])],
)
def test_calls_that_a_template_cannot_read_are_sent_once_more_in_another_form(way, family, sizes):
    protocol = OllamaServer(template=TEMPLATES[family])
    request = replace(WITH_TOOLS, messages=ORDERED)
    with serve(protocol, says("Shipped.")) as server:
        model = model_at(server)
        assert [ASK[way](model, request).text for _ in range(2)] == ["Shipped."] * 2
    assert [len(body["messages"]) for body in server.requests] == sizes  # what helps is remembered


# What a real server complained of.


def lines(*events: Any) -> Reply:
    return Reply(chunks=[json.dumps(event).encode() + b"\n" for event in events])


def complaint(name: str) -> Reply:
    error = recorded("errors")[name]
    if "lines" in error:
        return lines(*error["lines"])
    return Reply(error["status"], error["body"])


OVERFLOW = r"request \(\d+ tokens\) exceeds the available context size.* raise num_ctx"


@every_way
@pytest.mark.parametrize(
    ("name", "kind", "pattern"),
    [
        ("overflow", BadRequest, OVERFLOW),
        ("overflow_jinja", BadRequest, OVERFLOW),
        ("no_tools", ToolsUnsupported, "--dialect json"),
        ("no_model", ModelNotFound, "run: ollama pull qwen3:4b"),
        ("no_thinking", BadRequest, "leave out reasoning"),
    ],
)
def test_a_recorded_error_is_one_plain_line(name, kind, pattern, way, server):
    server.canned = [complaint(name)]
    error = failure(model_at(server), way)
    assert type(error) is kind
    assert re.search(pattern, str(error))
    assert "{" not in str(error)


@every_way
@pytest.mark.parametrize("option", ["one_call", "short_ids"])
def test_what_tells_may_stand_at_the_end_of_a_long_complaint(option, way, server):
    server.canned = [complaint(option)]
    model = model_at(server)
    assert ASK[way](model, replace(WITH_TOOLS, messages=ORDERED)).text == "Hi there."
    assert model.options[option]
    assert len(server.requests) == 2


@every_way
def test_a_model_that_repeats_itself_is_told_and_never_asked_the_same_again(way, server):
    names = ["repeat", "repeat_streamed"] if "stream" in way else ["repeat"]
    for name in names:
        for choice in ("auto", Force("think"), "none"):
            server.requests.clear()
            server.canned = [complaint(name)]
            reply = ASK[way](model_at(server), replace(WITH_TOOLS, tool_choice=choice))
            assert len(server.requests) == 1
            closing = "incomplete" if "stream" in name else "end_turn"  # of what has been shown
            assert reply.stop_reason == (closing if choice == "none" else "malformed")
            assert "token repeat limit" in f"{reply.mistake}{reply.cause}{reply.notice}"


# What the model can do.


def shows(server, show) -> None:
    """From now on the server says this of its models."""
    usual = server.protocol.other

    def other(method, path, body):
        return Reply(body=show) if path == "/api/show" else usual(method, path, body)

    server.protocol.other = other


def test_a_server_that_lists_no_capabilities_is_tried(server):
    for told in ({}, {"capabilities": None}, {"capabilities": []}):
        shows(server, {"model_info": {}, **told})
        model_at(server).check()


QWEN = recorded("show")["smol-qwen"]
LEVELS = ["off", "low", "medium", "high"]


@pytest.mark.parametrize(
    ("show", "levels"),
    [
        (recorded("show")["smol"], ["off"]),  # it does not reason
        (QWEN, ["off"]),  # low, medium and high would change nothing
        (QWEN | {"thinking": {"values": [False, "low", "medium", "xhigh"]}}, LEVELS[:3]),
        (QWEN | {"thinking": {"values": ["low", "medium", "high"]}}, LEVELS[1:]),
        (QWEN | {"thinking": None}, LEVELS),
        (QWEN | {"thinking": None, "details": {"family": "gptoss"}}, LEVELS[1:]),
    ],
    ids=["none", "on or off", "some", "always", "not told", "gpt-oss"],
)
def test_the_levels_of_reasoning_are_those_that_the_server_tells_of(show, levels, server):
    shows(server, show)
    for level in LEVELS:
        model = model_at(server, settings=Settings(reasoning=level))
        for ask in (model.check, partial(model.complete, HELLO)):
            if level in levels:
                ask()
                continue
            with pytest.raises(BadRequest, match=f"qwen3:4b takes no reasoning='{level}'"):
                ask()
    assert len(server.requests) == len(levels)


@pytest.mark.parametrize(("asked", "sent"), [(None, 300), (700, 700)])
def test_the_bound_of_the_modelfile_is_kept_unless_the_user_set_one(asked, sent, server):
    shows(server, recorded("show")["smol"])
    model = model_at(server, settings=Settings(max_output_tokens=asked))
    model.complete(HELLO)
    model.complete(replace(HELLO, max_output_tokens=1))
    assert [body["options"]["num_predict"] for body in server.requests] == [sent, 1]


def test_what_was_read_from_the_cache_is_counted():
    body = recorded("format")["closing"]["cut"]["body"]
    usage = from_wire(body).usage
    assert usage.input_tokens == body["prompt_eval_count"]
    assert usage.cached_tokens == body["prompt_eval_cached_count"] > 0


@pytest.mark.parametrize(
    ("number", "said"),
    [(5, "m0, m1, m2, m3, m4"), (6, "m0, m1, m2, m3, m4 and 1 more"), (40, "m4 and 35 more")],
)
def test_a_model_that_is_not_found_names_five_others(number, said):
    names = [f"m{number}" for number in range(number)]
    with serve(OllamaServer(models=names), says("ok")) as server:
        error = failure(model_at(server))
    assert type(error) is ModelNotFound
    assert str(error).endswith(said)


def test_check_says_what_is_wrong(server):
    model_at(server).check()
    with (
        serve(OllamaServer(models=("other",)), says("ok")) as empty,
        pytest.raises(
            ModelNotFound,
            match="run: ollama pull qwen3:4b; installed here, and able to call tools: other",
        ),
    ):
        model_at(empty).check()


@pytest.mark.parametrize("ask", [Ollama.check, Ollama.window])
def test_a_server_that_is_not_there(ask):
    with pytest.raises(ConnectionFailed, match="start it with: ollama serve"):
        ask(Ollama("m", base_url="http://127.0.0.1:9"))


STATUS: list[tuple[int, Any, type[ModelError], bool, str]] = [  # what Ollama says in its own way
    (403, {"error": "upgrade to use this model"}, AuthError, False, "ollama signin"),
    (404, "404 page not found", BadRequest, False, "Ollama's does not"),
    (500, {"error": "model requires more system memory (5.6 GiB) than is available (3.2 GiB)"},
     BadRequest, False, "take a smaller model"),
    (429, {"error": "you've reached your hourly usage limit"}, RateLimited, False, "wait"),
    (502, "upstream connect error\nor disconnect", Overloaded, True, "upstream connect error or"),
    (500, "", Overloaded, True, "HTTP 500"),
    (500, '"just a string"', Overloaded, True, "just a string"),
]  # fmt: skip


@pytest.mark.parametrize("way", ["plain", "streamed"])
@pytest.mark.parametrize(("status", "body", "kind", "retryable", "says"), STATUS)
def test_error_answers(status, body, kind, retryable, says, way, server):
    server.canned = [Reply(status, body)]
    model = model_at(server)
    model.retries = 0
    error = failure(model, way)
    assert type(error) is kind
    assert error.retryable == retryable
    assert error.status == status
    assert says in str(error)


@streamed_ways
def test_a_reply_that_is_not_done_is_unfinished(way, server):
    """As 0.33 ended one when the model repeated itself: HTTP 200, `"done": false`."""
    server.canned = [lines({"message": {"content": "two two"}, "done": False})]
    reply = ASK[way](model_at(server), WITH_TOOLS)
    assert reply.text == "two two"
    assert reply.stop_reason == "incomplete"
    assert "repeated itself" in reply.cause


@every_way
@pytest.mark.parametrize(
    "words",
    [
        "error parsing tool call: raw='ls', err=invalid",
        "The model produced output that does not match the expected peg-native format",
        "XML syntax error on line 3",
        "failed to parse JSON: unexpected end of JSON input",
        "invalid character ']' after object key:value pair",
        "parse Glimmer call to pay: malformed ATEM parameter",
        "incomplete GLM tool call: missing end tag",
    ],
)
def test_the_model_is_told_of_a_call_that_the_server_cannot_read(way, words, server):
    failed = Reply(500, {"error": words})
    answers = [failed]
    if "stream" in way:
        answers.append(lines({"message": {"content": "Hm."}}, {"error": words}))
    for answer in answers:
        server.canned = [answer]
        reply = ASK[way](model_at(server), WITH_TOOLS)
        assert reply.stop_reason == "malformed"
        assert reply.tool_calls == ()
        assert words in reply.mistake
        assert "think, order" in reply.mistake
    server.canned = [failed]
    reply = ASK[way](model_at(server), HELLO)  # without tools there is no call to read
    assert reply.text == ""
    assert reply.stop_reason == "end_turn"
    assert words in reply.notice


def test_a_short_key_is_no_secret(server):
    server.canned = [Reply(400, {"error": "ollama says no"})]
    with pytest.raises(BadRequest, match="ollama says no"):
        model_at(server, api_key="ollama").complete(HELLO)


# Which model `auto` takes, through the SDK.

CAN = {
    "qwen3.5:4b": ("completion", "tools", "thinking"),
    "llama3.2:3b": ("completion", "tools"),
    "gpt-oss:20b": ("completion", "tools"),
    "gemma3:4b": ("completion", "vision"),
    "nomic-embed-text:latest": ("embedding",),
    "gpt-oss:120b-cloud": ("completion", "tools"),
}
OTHERS = ["gemma3:4b", "nomic-embed-text:latest", "gpt-oss:120b-cloud"]


@pytest.mark.parametrize(
    ("installed", "named", "taken", "said"),
    [
        (["gemma3:4b", "llama3.2:3b", "qwen3.5:4b"], None, "ollama:qwen3.5:4b", []),
        (["gemma3:4b", "llama3.2:3b"], None, "ollama:llama3.2:3b",
         ["qwen3.5:4b is not installed: taking llama3.2:3b, the only one here that can call"]),
        (["gemma3:4b", "llama3.2:3b", "gpt-oss:20b"], None, "ollama:llama3.2:3b",
         ["taking llama3.2:3b, the latest of 2 here that can call tools."]),
        (OTHERS, None, "offline:stand-in",
         ["installed here, and able to call tools: none", "a script"]),
        ([], None, "offline:stand-in",
         ["installed here, and able to call tools: none", "a script"]),
        (["gemma3:4b", "qwen3.5:4b"], "gemma3:4b", "ollama:gemma3:4b", []),
    ],
)  # fmt: skip
def test_auto_takes_an_installed_model_and_says_which(
    installed, named, taken, said, monkeypatch, capsys
):
    protocol = OllamaServer(models=installed, capabilities=CAN)
    with serve(protocol, says('{"done": true}')) as server:
        monkeypatch.setenv("OLLAMA_HOST", server.url)
        model = speak(make_named_model(f"auto:{named}" if named else "auto"), "auto")
    assert f"{model.name}:{model.model}" == taken
    notices = capsys.readouterr().err.splitlines()
    assert len(notices) == len(said)
    for notice, part in zip(notices, said, strict=True):
        assert part in notice


def test_auto_takes_no_other_model_than_the_one_that_is_named(monkeypatch):
    with serve(OllamaServer(models=["qwen3.5:4b"], capabilities=CAN), says("")) as server:
        monkeypatch.setenv("OLLAMA_HOST", server.url)
        with pytest.raises(ModelNotFound, match=r"ollama pull llama3\.2:3b"):
            speak(make_named_model("auto:llama3.2:3b"), "auto")


def test_a_dialect_needs_no_tool_calling():
    protocol = OllamaServer(models=["gemma3:4b"], capabilities=("completion",))
    with serve(protocol, says("")) as server:
        model = connect("ollama:gemma3:4b", base_url=server.url, dialect="native")
        with pytest.raises(ToolsUnsupported):
            model.check()
        for dialect in ("json", "react", "auto"):
            in_dialect(model, dialect).check()
        with pytest.raises(ModelNotFound):
            in_dialect(connect("ollama:gone", base_url=server.url), "json").check()


@pytest.mark.parametrize("size", [1, 3, 1000])
def test_only_a_line_feed_ends_an_event(size: int) -> None:
    first = {"message": {"content": "one\u0085two\u2028"}, "done": False}
    last = {"message": {"content": "three"}, "done": True}
    lines = [json.dumps(event, ensure_ascii=False) for event in (first, last)]
    raw = f"{lines[0]}\n{lines[1]}\r\n".encode()
    fold = Fold()
    for at in range(0, len(raw), size):
        list(fold.feed(raw[at : at + size]))
    assert fold.ended
    assert from_wire(fold.result()).text == "one\u0085two\u2028three"

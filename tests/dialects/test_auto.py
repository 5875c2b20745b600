"""`auto`: which dialect is spoken at each request, and the refund desk on servers whose templates
show a model less than was sent.
"""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from demos.refund.dialects import speak_dialect
from demos.refund.offline import reply as by_the_policy
from demos.refund.shop import Shop
from tests.servers import Brain, ProviderServer, Reply, serve
from tests.servers.ollama import TEMPLATES, OllamaServer, Template
from tests.servers.openai_chat import Chat
from tests.support.agents import of_kind
from tests.support.combined import combined
from tests.support.ollama import recorded
from tests.support.providers import NO_TOOLS, RIGHT, WAYS, decided, desk, says
from think_agent import (
    THINK,
    Assistant,
    Message,
    Model,
    Request,
    ScriptedModel,
    ToolCall,
    ToolResult,
    User,
    connect,
    tool,
)
from think_agent.dialects import in_dialect, json_plan, react, recovered, tagged
from think_agent.dialects.auto import SHOWN, WITH_TOOLS, find_hidden, hides
from think_agent.errors import AuthError, ToolsUnsupported

FOUR = "Please refund ORD-001, ORD-002, ORD-003 and ORD-004"
BLIND = ("llama3.1", "mistral")


def on_sight(request: Request) -> Assistant:
    """The script of the demo as a model that writes a text beside its calls, knows no tool that it
    does not see: then it says that all is refunded.
    """
    script = speak_dialect(by_the_policy, "json")
    reply = script(request)
    shown = {tool.name for tool in request.tools}
    if not reply.tool_calls:
        return reply
    if not {call.name for call in reply.tool_calls} <= shown:
        return Assistant("All refunds are on their way.")
    return replace(reply, text="One moment.")


def dialects(messages) -> set[str]:
    return {reply.dialect for reply in of_kind(messages, Assistant)}


def notices(messages) -> list[str]:
    return [reply.notice for reply in of_kind(messages, Assistant) if reply.notice]


@contextmanager
def on_ollama(
    protocol: OllamaServer, brain: Brain = on_sight
) -> Iterator[tuple[ProviderServer, Model]]:
    """A server, and a model on it that speaks `auto`."""
    with serve(protocol, brain) as running:
        yield running, connect("ollama:m", base_url=running.url)


@combined(family=TEMPLATES, way=WAYS)
def test_the_refund_desk_decides_rightly_on_every_template(family, way):
    """The server is asked once, for free."""
    with on_ollama(OllamaServer(template=TEMPLATES[family])) as (running, model):
        shop = Shop()
        outcome = way(desk(model, shop), FOUR)
    assert decided(shop) == RIGHT
    assert outcome.exit == "signal"
    assert dialects(outcome.transcript) == {"json" if family in BLIND else ""}
    said = [notice for notice in notices(outcome.transcript) if "speaking json" in notice]
    assert len(said) == (family in BLIND)
    assert not any(body["options"]["num_predict"] == 1 for body in running.requests)


@pytest.mark.parametrize("way", WAYS)
def test_on_a_server_that_shows_no_prompt_it_stays_native_and_says_so_once(way):
    """Whatever its template hides: no tokens are counted to find that out."""
    server = OllamaServer(template=TEMPLATES["llama3.1"], renders=False)
    with on_ollama(server, by_the_policy) as (running, model):
        agent = desk(model, Shop())
        outcomes = [way(agent, FOUR) for _ in range(2)]
        # It does not know what it is asked, and answers.
        asked = [body for body in running.requests if body["options"]["num_predict"] == 1]
        assert len(asked) == 1
    transcripts = [outcome.transcript for outcome in outcomes]
    assert [dialects(transcript) for transcript in transcripts] == [{""}, {""}]
    said = [notice for transcript in transcripts for notice in notices(transcript)]
    assert ["staying with native tool calling" in notice for notice in said] == [True]


@pytest.mark.parametrize(
    ("template", "what"),
    [
        (TEMPLATES["qwen3.5"], []),
        (TEMPLATES["llama3.1"], ["the tools"]),
        (TEMPLATES["mistral"], ["the tools", "the system prompt"]),
        (Template(hides_calls=True), ["the thoughts"]),  # granite-3.3 from HF
    ],
)
def test_a_rendered_prompt_says_what_is_hidden(template, what):
    with on_ollama(OllamaServer(template=template)) as (running, model):
        assert model.trouble(WITH_TOOLS) == hides(what)
        assert connect("ollama:m", base_url=running.url).trouble(WITH_TOOLS) == hides(what)
        assert running.requests == []


def test_each_word_that_a_prompt_has_to_show_stands_in_one_place():
    with on_ollama(OllamaServer(template=Template())) as (_, model):
        prompt = model.render_prompt(WITH_TOOLS)
    assert find_hidden(prompt) == []
    assert [prompt.count(word) for word in SHOWN.values()] == [1, 1, 1]


@pytest.mark.parametrize(("name", "what"), [("smol", []), ("smol-blind", ["the tools"])])
def test_the_prompts_that_a_real_server_rendered(name, what):
    real = recorded("rendered")[name]["_debug_info"]["rendered_template"]

    class Rendering(Model):
        is_local = True

        def render_prompt(self, request):
            return real

    assert in_dialect(Rendering(), "auto").trouble(WITH_TOOLS) == hides(what)
    assert hides(["the tools"]) == "its server's template hides the tools after a tool result"


def test_a_model_that_speaks_auto_changes_its_dialect_and_keeps_its_own_methods():
    with on_ollama(OllamaServer(template=TEMPLATES["mistral"])) as (running, model):
        assert in_dialect(in_dialect(model, "auto"), "json").inner is model.inner
        assert in_dialect(model, "native") is model.inner
        assert model.window() == "16,384 tokens, by num_ctx"
        native = connect("ollama:m", base_url=running.url, dialect="native")
        assert dialects(desk(native, Shop()).run(FOUR).transcript) == {""}
    with pytest.raises(AttributeError):
        _ = model.no_such_thing
    with pytest.raises(ValueError, match="native"):
        connect("ollama:m", dialect="yaml")


# By values.


@tool(read_only=True)
def look(order_id: str) -> str:
    """Look an order up."""
    return "13 days old"


ASKED = User("Where is ORD-1?")
PLAN = '{"understanding": "", "reasoning": "Look.", "task_complete": false, "actions": []}'
CALL = ToolCall("a", "look", {"order_id": "ORD-1"})
OWN = {"provider": "scripted", "model": "script"}
NATIVE = Assistant(tool_calls=(CALL,), stop_reason="tool_use", **OWN)
FOUND = replace(NATIVE, tool_calls=(replace(CALL, recovered=True),))
LOST = Assistant(stop_reason="malformed", mistake="It could not be read.", **OWN)
IN_JSON = replace(NATIVE, dialect="json")
RESULT = ToolResult("a", "look", "13 days old")
SIGNED = replace(NATIVE, signed=True, provider="anthropic", model="claude")


def spoken(*messages: Message, left_out: tuple[Message, ...] = ()) -> str:
    """The dialect of the reply to these messages."""
    model = in_dialect(ScriptedModel([PLAN]), "auto")
    request = Request((ASKED, *messages), (THINK, look), left_out=left_out)
    return model.complete(request).dialect


@pytest.mark.parametrize(
    ("messages", "dialect"),
    [
        ((), ""),
        ((NATIVE, RESULT), ""),
        ((FOUND, RESULT), "json"),
        ((LOST,), "json"),
        ((FOUND, RESULT, NATIVE, RESULT), "json"),  # never back
        ((IN_JSON, RESULT), "json"),
        ((replace(IN_JSON, model="other"), RESULT), "json"),
        ((replace(LOST, provider="openai"),), ""),
        ((replace(LOST, dialect="react"),), ""),
        ((SIGNED, RESULT, FOUND, RESULT), ""),
        ((SIGNED, RESULT, IN_JSON, RESULT), "json"),
    ],
)
def test_the_transcript_decides_the_dialect(messages, dialect):
    assert spoken(*messages) == dialect
    assert spoken(left_out=(ASKED, *messages)) == dialect


def test_the_change_of_dialect_is_in_one_notice():
    model = in_dialect(ScriptedModel([PLAN, PLAN]), "auto")
    first = model.complete(Request((ASKED, FOUND, RESULT), (THINK, look)))
    assert first.notice == "script: speaking json from here on: it wrote a call as text."
    then = model.complete(Request((ASKED, FOUND, RESULT, first, RESULT), (THINK, look)))
    assert then.dialect == "json"
    assert then.notice == ""


class Unfit(ScriptedModel):
    def __init__(self, error: Exception) -> None:
        super().__init__([])
        self.error = error

    def check(self) -> None:
        raise self.error


@pytest.mark.parametrize("dialect", ["auto", "json", "react"])
def test_what_would_stop_a_run_at_once_is_told_in_a_dialect_too(dialect):
    with pytest.raises(AuthError):
        in_dialect(Unfit(AuthError("no key")), dialect).check()
    in_dialect(Unfit(ToolsUnsupported("no tool calling")), dialect).check()


class Refusing(Chat):
    """A server that refuses every request with tools, and counts them."""

    refused = 0

    def __init__(self, status: int, message: str) -> None:
        super().__init__()
        self.error = Reply(status, {"error": {"message": message}})

    def other(self, method, path, body):
        if "tools" not in (body or {}):
            return None
        self.refused += 1
        return self.error


@combined(refusal=NO_TOOLS, way=WAYS)
def test_a_run_whose_server_refuses_tools_goes_on_in_json(refusal, way):
    """At its first request, in whatever words the server refuses it, and with one notice."""
    server = Refusing(*refusal)
    with serve(server, on_sight) as running:
        model = in_dialect(connect("openai:m", base_url=running.url + "/v1", timeout=20), "auto")
        for _ in range(2):  # a second conversation, too
            shop = Shop()
            outcome = way(desk(model, shop), FOUR)
            assert decided(shop) == RIGHT
            assert outcome.exit == "signal"
            assert dialects(outcome.transcript) == {"json"}
            [notice] = notices(outcome.transcript)
            assert notice.endswith("speaking json from here on: it has no tool calling.")
    assert server.refused == 1


def test_a_signed_history_stays_native_and_the_error_is_told():
    def refuse(request):
        raise ToolsUnsupported("no tool calling")

    model = in_dialect(ScriptedModel(refuse), "auto")
    with pytest.raises(ToolsUnsupported):
        model.complete(Request((ASKED, SIGNED, RESULT), (THINK, look)))


def test_a_chat_server_shows_no_prompt_and_is_asked_nothing():
    with serve(Chat(), says("Hm.")) as running:
        model = in_dialect(connect("openai:m", base_url=running.url + "/v1", timeout=20), "auto")
        replies = [model.complete(Request((ASKED,), (THINK, look))) for _ in range(2)]
        assert len(running.requests) == 2
    assert ["staying with native" in reply.notice for reply in replies] == [True, False]


def test_an_official_server_is_not_asked():
    official = connect("openai:gpt-6-luna", api_key="k")
    assert not in_dialect(official, "auto").trouble(WITH_TOOLS)  # no request is made


def test_a_server_that_cannot_be_asked_is_believed():
    model = connect("ollama:m", base_url="http://127.0.0.1:9")
    assert not model.trouble(WITH_TOOLS)


def test_an_async_caller_is_not_kept_waiting():
    """The server shows its prompt once the event loop has gone on."""
    goes_on = threading.Event()

    class Waiting(OllamaServer):
        def shown_prompt(self, body):
            assert goes_on.wait(20)
            return super().shown_prompt(body)

    async def main(model):
        asyncio.get_running_loop().call_soon(goes_on.set)
        await model.acomplete(Request((ASKED, NATIVE, RESULT), (THINK, look)))

    with on_ollama(Waiting(template=TEMPLATES["qwen3.5"])) as (running, model):
        asyncio.run(main(model))
        assert len(running.requests) == 1


@pytest.mark.parametrize("wrap", [json_plan, react, tagged, recovered])
def test_a_dialect_that_asks_no_server_needs_no_thread(wrap):
    class OnTheLoop(Model):
        async def acomplete(self, request):
            return Assistant("Hello.")

    async def threads():
        await wrap(OnTheLoop()).acomplete(Request((ASKED,)))
        return {*threading.enumerate()}

    before = {*threading.enumerate()}
    assert asyncio.run(threads()) <= before

"""What no server can do to a run, whatever it sends. On all five protocols, over real HTTP."""

import asyncio
import gc
import itertools
import json
import os
import re
import subprocess
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from urllib.parse import quote

import pytest
from ollama._client import _parse_host

from tests.servers import ProviderServer, Reply, bare, serve
from tests.support.combined import combined
from tests.support.providers import (
    ASK,
    HELLO,
    KEY,
    SPEAKS,
    VARIABLES,
    WAYS,
    at_once,
    every_provider,
    every_way,
    failure,
    model_of,
    talking,
)
from think_agent import (
    Agent,
    Assistant,
    BadResponse,
    ConnectionFailed,
    Model,
    ModelError,
    TimedOut,
    ToolCall,
    connect,
    tool,
)
from think_agent.providers import transport
from think_agent.providers.address import (
    check_url,
    is_exposed,
    is_silent,
    mask_address,
    ollama_address,
)
from think_agent.providers.provider import Provider

LONG = Assistant("All is well, and it will be well for a long time to come. " * 3)


@contextmanager
def serving(
    provider: str, wrap: Callable[[Reply], Reply]
) -> Iterator[tuple[ProviderServer, Model]]:
    """A server whose reply is LONG, changed by `wrap`, and a model that asks it."""
    with serve(SPEAKS[provider][0](), lambda _: LONG) as server:
        answer = server.answer

        def changed(*args):
            reply = answer(*args)
            is_asked = args[0] == "POST" and args[1] != "/api/show"
            return wrap(reply) if is_asked else reply

        server.answer = changed
        model = model_of(provider, server)
        bare(model).retries = 0
        yield server, model


def in_bytes(reply: Reply) -> list[bytes]:
    return list(reply.chunks) if reply.chunks is not None else [json.dumps(reply.body).encode()]


def dripping(reply: Reply) -> Reply:
    """The same answer, a few bytes at a time, for about six seconds."""

    def drops() -> Iterator[bytes]:
        data = b"".join(in_bytes(reply))
        size = max(1, len(data) // 30)
        for at in range(0, len(data), size):
            yield data[at : at + size]
            time.sleep(0.2)

    return replace(reply, chunks=drops())


def stalling(reply: Reply) -> Reply:
    """Half of the answer, and then nothing for a long time."""

    def half() -> Iterator[bytes]:
        data = b"".join(in_bytes(reply))
        yield data[: len(data) // 2]
        time.sleep(6)

    return replace(reply, chunks=half())


@pytest.mark.parametrize("slow", [dripping, stalling])
def test_a_reply_under_way_is_cut_at_the_deadline(slow):
    def check(provider: str, way: str) -> None:
        with serving(provider, slow) as (_, model):
            reply = ASK[way](model, replace(HELLO, deadline=time.monotonic() + 3))
        assert reply.stop_reason == "incomplete"
        assert reply.cause == "deadline"
        assert reply.native is None
        assert LONG.text.startswith(reply.text)
        is_stream = "stream" in way or provider == "ollama"
        assert bool(reply.text) == is_stream
        assert reply.usage.input_tokens > 0  # it was read, and is paid
        assert reply.usage.estimated

    at_once(check, *ASK)


@every_provider
def test_a_server_that_is_silent_is_timed_out(provider):
    with serve(SPEAKS[provider][0](), lambda _: time.sleep(3) or LONG) as server:
        model = model_of(provider, server, timeout=0.5)
        with pytest.raises(TimedOut, match=r"within 0\.5 s; set a longer timeout"):
            model.complete(HELLO)
        late = ASK["plain"](model, replace(HELLO, deadline=time.monotonic() + 0.2))
        assert late.cause == "deadline"
        assert late.usage.input_tokens > 0
        assert late.usage.output_tokens == 0


@every_provider
@every_way
def test_a_body_without_end_is_not_a_reply(provider, way, monkeypatch):
    monkeypatch.setattr(transport, "LARGEST_ANSWER", 1 << 20)

    def endless(reply: Reply) -> Reply:
        return replace(reply, chunks=(b" " * 65536 for _ in range(1000)))

    with (
        serving(provider, endless) as (_, model),
        pytest.raises(BadResponse, match="longer than 1 MB"),
    ):
        ASK[way](model, HELLO)


@every_provider
@every_way
def test_no_redirect_takes_a_conversation_elsewhere(provider, way):
    """Not to another host, port, scheme or path."""
    with (
        serve(SPEAKS[provider][0](), lambda _: LONG) as other,
        talking(provider) as (server, model),
    ):
        model.retries = 0
        host = other.url.replace("127.0.0.1", "localhost")
        moved = [(302, f"{host}/x"), (307, f"{host}/x"), (308, f"{host}/x"), (307, "/elsewhere")]
        moved += [(307, "http://127.0.0.1:1/x"), (307, server.url.replace("http:", "ws:") + "/x")]
        for status, url in moved:
            server.canned = [Reply(status, "", headers={"location": url})]
            with pytest.raises(BadResponse, match=r"it redirects.* check base_url"):
                ASK[way](model, HELLO)
        assert len(server.headers) == len(moved)
        assert other.headers == []


@every_provider
def test_requests_to_this_machine_use_no_proxy(provider, monkeypatch):
    with serve(SPEAKS[provider][0](), lambda _: LONG) as proxy, talking(provider) as (_, model):
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
            monkeypatch.setenv(name, proxy.url)
        monkeypatch.setenv("no_proxy", "")
        for ask in ASK.values():
            assert ask(model, HELLO).text == "Hello."
        assert proxy.headers == []


@every_provider
def test_no_connection_outlives_its_event_loop(provider):
    gc.collect()  # what other tests left behind is not the matter here
    with talking(provider) as (_, model), warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", ResourceWarning)
        for way in ("async", "async streamed"):
            assert ASK[way](model, HELLO).text == "Hello."
        gc.collect()
    assert [item.message for item in seen] == []


# Keys.

SECRET = "AIza-good+key-of-the-environment"


@pytest.mark.parametrize(
    ("url", "exposed"),
    [
        ("http://example.com/v1", True),
        ("http://192.168.1.7:11434", True),
        ("http://localhost.example.com", True),
        ("http://127.0.0.1.example.com", True),
        ("http://127.0.0.1@example.com", True),
        ("http://[2001:db8::1]:80", True),
        ("HTTP://EXAMPLE.COM", True),
        ("ws://example.com", True),
        ("https://example.com", False),
        ("http://localhost:8000", False),
        ("http://LOCALHOST", False),
        ("http://api.localhost", False),
        ("http://127.1.2.3", False),
        ("http://[::1]:8000", False),
        ("http://0.0.0.0:11434", False),
    ],
)
def test_where_a_key_would_be_read_by_others(url, exposed):
    assert is_exposed(url) == exposed


def headers_sent(
    provider: str,
    monkeypatch: pytest.MonkeyPatch,
    *,
    api_key: str | None = None,
    later: Sequence[str] = (),
) -> str:
    """All headers of the requests that a model at another machine sends, as text. The machine is
    this one, by a name that only its proxy knows. `later`: variables that hold a secret after
    `connect`.
    """
    _, spec, settings = SPEAKS[provider]
    settings = {**settings, "base_url": "http://models.example", "api_key": api_key}
    model = connect(spec, **settings)
    bare(model).retries = 0
    for name in later:
        monkeypatch.setenv(name, SECRET)
    with serve(SPEAKS[provider][0](), lambda _: LONG) as server:
        monkeypatch.setenv("http_proxy", server.url)
        monkeypatch.setenv("no_proxy", "")
        for ask in ASK.values():
            with pytest.raises(ModelError):  # the path is not the one that the server knows
                ask(model, HELLO)
    hosts = [headers["host"] for headers in server.headers]
    assert hosts == ["models.example"] * 4
    return str(server.headers)


EXTRAS = {  # what the SDKs send by themselves
    "ANTHROPIC_CUSTOM_HEADERS": f"X-Api-Key: {SECRET}",
    "OPENAI_CUSTOM_HEADERS": f"Authorization: Bearer {SECRET}",
    "OPENAI_ORG_ID": SECRET,
    "OPENAI_PROJECT_ID": SECRET,
    "OPENAI_ADMIN_KEY": SECRET,
}


@every_provider
def test_what_the_sdk_reads_from_the_environment_stays_on_this_machine(provider, monkeypatch):
    for name, value in EXTRAS.items():
        monkeypatch.setenv(name, value)
    given = "on-purpose-0123456789"
    with talking(provider) as (server, model):  # on this machine it goes
        assert ASK["plain"](model, HELLO).text == "Hello."
        own = [name for name in EXTRAS if name.lower().startswith(provider.partition("-")[0])]
        assert (SECRET in str(server.headers)) == bool(own)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", UserWarning)
        sent = headers_sent(provider, monkeypatch, api_key=given)
    assert SECRET not in sent
    assert given in sent
    notices = [str(item.message) for item in seen]
    assert len(notices) == bool(own)
    for name in own:
        assert name in notices[0]


@every_provider
def test_a_key_that_is_set_after_connect_stays_on_this_machine(provider, monkeypatch):
    monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", "http://elsewhere.example")
    later = [*EXTRAS, *VARIABLES[provider]]
    assert SECRET not in headers_sent(provider, monkeypatch, api_key=KEY, later=later)


@every_provider
def test_a_key_of_the_environment_stays_on_this_machine_and_a_given_key_is_sent(
    provider, monkeypatch
):
    for variables in VARIABLES.values():
        for name in variables:
            monkeypatch.setenv(name, SECRET)
    monkeypatch.setenv("api_key", SECRET)  # it is of no provider
    with pytest.warns(UserWarning, match="is not sent over plain http to models.example"):
        assert SECRET not in headers_sent(provider, monkeypatch)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        given = "on-purpose-0123456789"
        assert given in headers_sent(provider, monkeypatch, api_key=given)
        for name in VARIABLES[provider]:
            monkeypatch.delenv(name)
        connect(SPEAKS[provider][1], base_url="https://models.example", api_key=given)


@every_provider
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_a_limit_holds_although_the_server_counts_no_tokens(provider, way):
    look = Assistant("Let me see. " * 20, tool_calls=(ToolCall("", "look"),))
    seven = tool(lambda: "7", name="look", description="Look.")
    with serve(SPEAKS[provider][0](), lambda _: look) as server:
        agent = Agent(model_of(provider, server), [seven], max_tokens=900, force="never")
        outcome = way(agent, "Hello")
    assert outcome.exit == "budget"
    assert outcome.usage.estimated is True
    assert outcome.model_calls < 9
    used = sum(len(json.dumps(body)) for body in server.requests) / 4
    assert outcome.usage.input_tokens == pytest.approx(used, rel=0.1)


PROXIES = ["http://u:pass@proxy:port", "htp://u:pass@proxy:1", "http://u:pass/x@proxy:1"]


@every_provider
@pytest.mark.parametrize("proxy", PROXIES)
def test_a_proxy_address_that_is_not_valid_is_one_of_our_errors(provider, proxy, monkeypatch):
    monkeypatch.setenv("ALL_PROXY", proxy)
    _, spec, options = SPEAKS[provider]
    for ask in ASK.values():
        with pytest.raises(ConnectionFailed, match="check HTTP_PROXY") as caught:
            ask(connect(spec, base_url="https://models.example", **options), HELLO)
        assert "pass" not in "".join(traceback.format_exception(caught.value))


ECHOES = {  # what is secret, and an address that holds it
    "sk-ANT+SECRET/KEY=1": "",
    "abc+DEF/ghi123": "/?key=abc+DEF/ghi123",
    "in-the-path-0123456789": "/in-the-path-0123456789/v1",
}


@combined(provider=SPEAKS, way=ASK, secret=ECHOES)
def test_no_error_holds_a_key_that_the_server_quotes(provider, way, secret):
    """In an answer of any status, plain or as a URL spells it; nor does the chain of errors."""
    _, spec, usual = SPEAKS[provider]
    with serve(SPEAKS[provider][0](), lambda _: LONG) as server:
        url = server.url.replace("//", "//me:pass%2Fword-0123456789@") + ECHOES[secret]
        model = connect(spec, **{**usual, "base_url": url, "api_key": secret})
        bare(model).retries = 0
        for quoted in (secret, quote(secret, safe=""), "pass/word-0123456789"):
            error = {"error": {"message": f"no: {quoted}", "code": "x", "param": quoted}}
            for answer in (Reply(400, error), Reply(200, error)):
                server.canned = [answer]
                with pytest.raises(ModelError) as caught:
                    ASK[way](model, HELLO)
                assert quoted not in "".join(traceback.format_exception(caught.value))
                assert caught.value.__context__ is None
                assert caught.value.__cause__ is None
    with pytest.raises(ConnectionFailed) as caught:  # the server is gone
        ASK[way](model, HELLO)
    assert f"no server at {server.url};" in str(caught.value)
    assert caught.value.retryable


# What chose the address.

WRONG = {  # answers of a server of another kind, and what the error says
    "a page": (Reply(chunks=[b"<html>"], content_type="text/html"), "check that {name} points"),
    "a text": (Reply(chunks=[b"Hello."], content_type="text/plain"), "check that {name} points"),
    "no such path": (Reply(404, {"error": "no route"}), "check {name} ("),
    "a redirect": (Reply(302, {}), "check {name}"),
}


def model_by_variable(provider: str, url: str, monkeypatch: pytest.MonkeyPatch) -> Provider:
    """A model whose address is in the variable of its provider."""
    _, spec, usual = SPEAKS[provider]
    variable = bare(connect(spec, **usual, base_url=url)).url_variable
    monkeypatch.setenv(variable, url)
    model = bare(connect(spec, **usual))
    model.retries = 0
    return model


@every_provider
@pytest.mark.parametrize("answer", WRONG)
def test_an_error_of_a_wrong_server_names_the_variable_of_its_address(
    provider, answer, monkeypatch
):
    reply, says = WRONG[answer]
    with serve(SPEAKS[provider][0](), lambda _: LONG) as server:
        model = model_by_variable(provider, server.url, monkeypatch)
        server.canned = [reply]
        assert says.format(name=model.url_variable) in str(failure(model))


@every_provider
def test_an_error_of_a_server_that_is_gone_names_the_variable_of_its_address(provider, monkeypatch):
    model = model_by_variable(provider, "http://127.0.0.1:9", monkeypatch)
    assert f"no server at http://127.0.0.1:9 ({model.url_variable});" in str(failure(model))


@every_provider
def test_an_address_that_was_given_is_not_blamed_on_the_variable(provider, monkeypatch):
    url = "http://127.0.0.1:9"
    variable = model_by_variable(provider, url, monkeypatch).url_variable
    _, spec, usual = SPEAKS[provider]
    model = bare(connect(spec, **usual, base_url=url))
    model.retries = 0
    assert variable not in str(failure(model))


@pytest.mark.parametrize("variable", ["OPENAI_BASE_URL", "ANTHROPIC_BASE_URL"])
def test_a_variable_that_holds_no_address_is_named(variable, monkeypatch):
    monkeypatch.setenv(variable, "http://")
    with pytest.raises(ConnectionFailed, match=f"the address isn't a URL; check {variable}"):
        connect(variable.partition("_")[0].lower(), api_key=KEY)


def test_a_port_that_is_no_number_is_blamed_on_its_variable(monkeypatch):
    monkeypatch.setenv("OLLAMA_HOST", "host:port")
    with pytest.raises(ValueError, match="check OLLAMA_HOST"):
        connect("ollama")


NOT_SHOWN = "(an address that cannot be shown)"


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("https://api.openai.com/v1", "https://api.openai.com"),
        ("http://localhost:11434", "http://localhost:11434"),
        ("localhost:11434", "http://localhost:11434"),
        ("127.0.0.1", "http://127.0.0.1"),
        ("http://[::1]:8000/v1", "http://[::1]:8000"),
        ("http://me:key@host:8000/v1", "http://host:8000"),
        ("me:key@host/v1", "http://host"),
        ("https://key@host", "https://host"),
        ("https://a@b@host/x", "https://host"),
        ("https://host/v1?api_key=key", "https://host"),
        ("https://host?key", "https://host"),
        ("https://host/key/v1", "https://host"),
        ("https://host/v1#key", "https://host"),
        ("HTTPS://HOST/v1", "https://host"),
        # A slash, a question mark or a hash in a password: the "host" is a part of the login.
        ("https://me:k/ey@host/v1", NOT_SHOWN),
        ("https://me:1/ey@host/v1", NOT_SHOWN),
        ("https://me?key@host/v1", NOT_SHOWN),
        ("https://me#key@host/v1", NOT_SHOWN),
        ("https://host/v1?mail=a@b", NOT_SHOWN),  # which cannot be told apart from that
        ("https://host:key/v1", NOT_SHOWN),
        ("http://[::1", NOT_SHOWN),
        ("https://ho st/key", NOT_SHOWN),
        ("https://", NOT_SHOWN),
        ("", NOT_SHOWN),
    ],
)
def test_only_scheme_host_and_port_of_an_address_are_shown(address, shown):
    assert mask_address(address) == shown


def test_an_address_without_a_scheme_is_one_of_plain_http():
    assert check_url("localhost:11434/v1", "ollama") == "http://localhost:11434/v1"
    assert check_url("https://host/v1", "ollama") == "https://host/v1"


@pytest.mark.parametrize(
    "given",
    [
        "1.2.3.4",
        ":56789",
        "1.2.3.4:56789",
        "example.com",
        "example.com:56789/path/",
        "example.com/",
        "[0001:002:003:0004::1]",
        "[::1]:56789/path",
        "localhost",
    ],
)
def test_an_address_of_ollama_is_read_as_its_sdk_reads_it(given, monkeypatch):
    assert ollama_address(given) == _parse_host(given)
    monkeypatch.setenv("OLLAMA_HOST", given)
    assert ollama_address(None) == _parse_host(given)


def test_a_port_without_a_server_is_silent():
    with serve(SPEAKS["ollama"][0](), lambda _: LONG) as server:
        assert not is_silent(server.url)
    assert is_silent(server.url)


@pytest.mark.parametrize("url", ["http://models.example:11434", "https://127.0.0.1:9"])
def test_another_machine_is_not_asked(url):
    """There may be a proxy before it."""
    assert not is_silent(url)


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("ALL_PROXY", PROXIES[0]),
        ("OLLAMA_HOST", "http://me:pass@[::1"),
        ("OLLAMA_HOST", "http://me:pass/word@host"),
        ("OLLAMA_API_KEY", "pass@é"),
    ],
)
def test_an_import_that_fails_for_a_variable_quotes_nothing_of_it(variable, value):
    done = connected_elsewhere("ollama", **{variable: value})
    assert "cannot be imported (" in done.splitlines()[-1]
    assert "; check OLLAMA_* and *_PROXY" in done.splitlines()[-1]
    assert "pass" not in done.splitlines()[-1]


def test_an_import_that_fails_says_what_failed(tmp_path):
    path = f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '.')}"
    for package, source, words in [
        ("anthropic", "raise RuntimeError", "cannot be imported (RuntimeError); check ANTHROPIC_*"),
        ("openai", "from json import no_such_name", "cannot import name 'no_such_name'"),
        ("ollama", "import no_such_package", "No module named 'no_such_package'"),
    ]:
        (tmp_path / f"{package}.py").write_text(source)
        last = connected_elsewhere(package, PYTHONPATH=path).splitlines()[-1]
        assert words in last


def connected_elsewhere(provider: str, **environment: str) -> str:
    """What a new process says that connects to a provider."""
    script = f"from think_agent import connect; connect({provider!r}, api_key='k')"
    read_by_an_sdk = re.compile("proxy$|^(ollama|anthropic)_", re.IGNORECASE)
    env = {name: value for name, value in os.environ.items() if not read_by_an_sdk.search(name)}
    command = [sys.executable, "-c", script]
    return subprocess.run(command, env=env | environment, capture_output=True, text=True).stderr


@every_provider
@pytest.mark.parametrize("ending", ["the deadline", "its reader leaves"])
def test_an_async_stream_that_is_cut_is_closed_at_once(provider, ending):
    """A server that goes on writing sees the connection close."""
    gone = threading.Event()

    def endless(reply: Reply) -> Reply:
        def pieces() -> Iterator[bytes]:
            first, *others = in_bytes(reply)
            yield first
            try:
                for piece in itertools.islice(itertools.cycle(others[:3]), 3_000):
                    yield piece
                    time.sleep(0.001)
            except GeneratorExit:  # the server could not write any more
                gone.set()
                raise

        return replace(reply, chunks=pieces())

    async def ask(model: Model) -> bool:
        request = HELLO
        if ending == "the deadline":
            request = replace(HELLO, deadline=time.monotonic() + 1)
        events = model.astream(request)
        async for _ in events:
            if ending == "its reader leaves":
                break
        await events.aclose()
        return await asyncio.to_thread(gone.wait, 5)

    with serving(provider, endless) as (_, model):
        assert asyncio.run(ask(model))


@every_provider
@every_way
def test_a_bug_is_not_blamed_on_the_server(provider, way, monkeypatch):
    """An exception before an answer has come is raised as it is."""
    with talking(provider) as (server, model):

        def broken(*given, **named):
            raise KeyError("ours")

        monkeypatch.setattr(type(model), "post", broken)
        with pytest.raises(KeyError, match="ours"):
            ASK[way](model, HELLO)
        assert server.requests == []

"""Ollama for lesson 01, or a scripted server in its place. It is not part of the lesson.

Rule 1: `--provider ollama[:MODEL]` uses Ollama and fails if it does not run. `offline` uses the
        scripted server. Without the flag, Ollama is used if it answers and has a model: qwen3.5:4b
        or, if that is not installed, any model that can call tools.
Rule 2: the scripted server is a real HTTP server that knows just enough of `/api/chat` for the SDK.
        Its replies depend only on the messages. The first printed line says that it is no language
        model.

Limitations: like the lesson, it imports nothing of the kit.
"""

import argparse
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any, NoReturn, TypeAlias

import ollama

Json: TypeAlias = dict[str, Any]

MODEL = "qwen3.5:4b"
STAND_IN = "[scripted stand-in, no language model]"


class OneLine(argparse.ArgumentParser):
    """Prints errors without the usage."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"error: {message}\n")


@contextmanager
def ollama_or_stand_in() -> Iterator[tuple[ollama.Client, str]]:
    """A client, and the model to ask."""
    parser = OneLine()
    parser.add_argument("--provider", default="auto", metavar="auto|offline|ollama[:MODEL]")
    provider, _, model = parser.parse_args().provider.partition(":")
    if provider not in ("auto", "offline", "ollama"):
        parser.error("this lesson is on Ollama: use --provider ollama[:MODEL]")
    if provider != "offline":
        client = ollama.Client()
        try:
            found = usable(client, model)
        except (ConnectionError, ollama.ResponseError) as error:
            if provider == "ollama":
                advice = f"run `ollama serve` and `ollama pull {model or MODEL}`"
                parser.exit(1, f"error: {str(error).split('. ')[0]}; {advice}\n")
        else:
            print(f"[ollama:{found}]")
            yield client, found
            return
    print(STAND_IN)
    with HTTPServer(("127.0.0.1", 0), StandIn) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield ollama.Client(f"http://127.0.0.1:{server.server_port}"), "stand-in"
        server.shutdown()


def usable(client: ollama.Client, named: str) -> str:
    """The named model, or else the default model or, if that is not installed, another model on
    this machine that can call tools. Raises the server's error if there is none.
    """
    if named:
        client.show(named)
        return named
    names = [str(model.model) for model in client.list().models]
    names.sort(key=lambda name: name != MODEL)
    for name in names:
        capabilities = client.show(name).capabilities or ()
        if "tools" in capabilities and not name.endswith("cloud"):
            return name
    client.show(MODEL)
    return MODEL


def _call(name: str, **arguments: str) -> Json:
    return {"function": {"name": name, "arguments": arguments}}


PLAN = "Two orders. Look both up, then compare their age with the 30 days."
CHECK = "ORD-001: 13 days, so yes. ORD-002: 44 days, so no. What is left is the answer."
ANSWER = "You can return ORD-001 (13 days old). ORD-002 is 44 days old; the limit is 30 days."
REPLIES: list[Json] = [
    {"tool_calls": [_call("think", thought=PLAN, should_continue="true")]},
    {"tool_calls": [_call("lookup_order", order_id=f"ORD-00{n}") for n in (1, 2)]},
    {"tool_calls": [_call("think", thought=CHECK, should_continue="false")]},
    {"content": ANSWER},
]


def reply(messages: list[Json]) -> Json:
    """The next message of the script, by the number of its messages so far."""
    spoken = sum(message["role"] == "assistant" for message in messages)
    about_orders = "ORD-" in messages[1]["content"]
    return REPLIES[spoken] if about_orders else {"content": "You are welcome."}


class StandIn(BaseHTTPRequestHandler):
    """Answers POST /api/chat."""

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        message = {"role": "assistant", "content": "", **reply(body["messages"])}
        answer = json.dumps({"model": body["model"], "message": message, "done": True}).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, format: str, *args: object) -> None:
        """Print nothing, so that only the lesson's own output is on the screen."""

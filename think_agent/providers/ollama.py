"""Ollama: models on your own machine, through the official `ollama` package.

Rule 1: raw JSON goes through the SDK's clients, under its typed methods. These silently drop fields
        that they do not know: call ids, empty content, most of a tool's schema.
Rule 2: the lines of a stream are split here, at line feeds alone. The SDK splits them like
        `str.splitlines`, which breaks a reply with U+0085 in it: Go writes it into JSON as it is.
Rule 3: the server is asked about its model once (`learn`): whether it can reason, how long its
        window is, and how its template shows calls. If it does not tell, the request is tried.
"""

import json
import os
import re
from dataclasses import replace
from time import monotonic
from typing import Any

import httpx
import ollama
from ollama._client import _parse_host

from ..errors import ModelError, ModelNotFound
from ..messages import Json
from ..model import Request
from ..wire import ollama as wire
from ..wire.forms import form_of, has_ignored
from ..wire.incoming import ErrorAnswer
from ..wire.outgoing import body_text
from .provider import Provider
from .reasoning import ALL, ALWAYS, Levels
from .transport import Trip

# A template that shows either the text of a message or its calls.
TEXT_OR_CALLS = re.compile(r"\{\{-?\s*else if \.ToolCalls")
SOON = 2.0  # seconds for a question whose answer only a watcher sees
HARMONY = re.compile("'family': 'gpt-?oss'")  # these cannot be asked not to reason
# Numbers in the Modelfile. A num_predict of -1, no bound, is not kept.
PARAMETERS = re.compile(r"^(num_ctx|num_predict)\s+([1-9]\d*)", re.MULTILINE)


class Ollama(Provider):
    """A model of an Ollama server.

    `base_url`: the server's address, in any form that OLLAMA_HOST takes; None means OLLAMA_HOST, or
    else this machine. `num_ctx`: how many tokens the context window holds at least. It never lowers
    what the Modelfile says or the model is loaded with (`window`). `keep_alive`: how long the
    server keeps the model loaded after a request (`"30m"`, seconds, -1 for ever); None leaves it to
    the server, whose default is 5 minutes. `format`: a forced thought and the closing reply are
    asked for in a form (`wire/forms.py`). Without it nothing forces a thought, and the closing
    call leaves the tools out. `think`: a level of the server's own instead of `reasoning`, such as
    `"max"`.
    """

    wire = wire
    http = httpx
    main_key = "OLLAMA_API_KEY"
    keys = (main_key,)
    needs_key = False
    usual_url = "http://127.0.0.1:11434"
    url_variable = "OLLAMA_HOST"
    remedies = (
        ("single tool-calls at once", "one_call", True),  # Llama 3.1 in Jinja
        ("length 9", "short_ids", True),  # Mistral Small and Nemo in Jinja: ids of calls
    )
    no_server = "start it with: ollama serve (or install it from ollama.com)"

    def __init__(
        self,
        model: str,
        *,
        num_ctx: int = 16384,
        keep_alive: str | float | None = None,
        format: bool = True,
        think: str | None = None,
        base_url: str | None = None,
        **where: Any,
    ) -> None:
        options = {"num_ctx": num_ctx, "keep_alive": keep_alive, "think": think}
        address = base_url or os.getenv("OLLAMA_HOST")
        if address and "://" not in address:
            address = _parse_host(address)  # which knows `:11434` and a host alone
        super().__init__(model, options, base_url=address, **where)
        self.refused = {"named": "", "required": "", "none": ""}
        if not format:
            self.refused["form"] = ""
        self._window = f"{num_ctx:,} tokens, by num_ctx"

    def connect(self, arguments: Json, *, is_async: bool) -> Any:
        kind = ollama.AsyncClient if is_async else ollama.Client
        client = kind(
            self.url,
            timeout=self.timeout,
            # Without one the SDK would look for a key in the environment.
            headers={"authorization": f"Bearer {self.key}"},
            **arguments,
        )
        # The whole address, so that it is parsed once and not for every request.
        self._chat = client._client.build_request("POST", wire.PATH).url
        return client

    # What the server says of its models.

    def learn(self) -> Levels:
        try:
            shown = self._ask("POST", "/api/show", {"model": self.model})
            loaded = self._ask("GET", "/api/ps").get("models", [])
        except ModelNotFound:
            raise
        except ModelError:
            return ALL  # the request will meet it, and try again where that may help

        self.options["text_hides_calls"] = bool(TEXT_OR_CALLS.search(shown.get("template") or ""))
        made = dict(PARAMETERS.findall(shown.get("parameters") or ""))
        if self.settings.max_output_tokens is None and "num_predict" in made:
            self.settings = replace(self.settings, max_output_tokens=int(made["num_predict"]))
        self._measure_window(int(made.get("num_ctx", 0)), loaded, shown.get("model_info") or {})
        return _levels(shown)

    def _measure_window(self, made: int, loaded: list[Json], info: Json) -> None:
        """Set the window: at least `num_ctx` and what the Modelfile has `made` it, and not shorter
        than it is now.
        """
        windows = [(self.options["num_ctx"], "by num_ctx"), (made, "by the Modelfile")]
        for model in loaded:
            if self._is_this(model):
                windows.append((model.get("context_length", 0), "as the model is loaded"))
        tokens, why = max(windows)
        self.options["num_ctx"] = tokens
        for name, value in info.items():
            if name.endswith(".context_length") and value < tokens:  # the server cuts it down
                tokens, why = value, "the longest that the model takes"
        self._window = f"{tokens:,} tokens, {why}"

    def window(self) -> str:
        """How long the context window of a request is, and why. Raises a ModelError if the server
        does not answer.
        """
        self.installed()  # `learn` says nothing if there is no server
        super().check()
        return self._window

    def where_loaded(self) -> str:
        """Where the model is in memory: "CPU", "GPU" (also if only a part of it is there), or "" if
        it isn't loaded yet. Raises a ModelError if the server does not answer. A watcher may ask
        this from another thread while a request is on its way.
        """
        with Trip(monotonic() + SOON):
            loaded = self._ask("GET", "/api/ps").get("models") or []
        for model in loaded:
            if self._is_this(model):
                return "GPU" if model.get("size_vram") else "CPU"
        return ""

    def _is_this(self, model: Json) -> bool:
        return model["model"] in (self.model, f"{self.model}:latest")

    def check(self) -> None:
        """Raises the error that a run would meet: no server, no such model, no tool calling, or a
        level of reasoning that the model does not have.
        """
        if not self._calls_tools(self.model):
            raise self.error(f"model {self.model!r} does not support tools")
        super().check()

    def installed(self) -> list[str]:
        """The names of the models on the server."""
        return [model["model"] for model in self._ask("GET", "/api/tags")["models"]]

    def able(self) -> list[str]:
        """The names of those that can call tools, this model first. Models that run in Ollama's
        cloud are left out.
        """
        names = []
        for name in sorted(self.installed(), key=lambda name: name != self.model):
            if not name.endswith("cloud") and self._calls_tools(name):
                names.append(name)
        return names

    def pick(self) -> str:
        """This model if it is installed and can call tools, else another one that can. Raises the
        error that a run would meet if there is none.
        """
        for name in self.able():
            return name
        self.check()
        return self.model

    def _calls_tools(self, name: str) -> bool:
        """Can the model call tools, as far as the server says?"""
        can = self._ask("POST", "/api/show", {"model": name}).get("capabilities")
        return not can or "tools" in can

    def _ask(self, method: str, path: str, body: Json | None = None) -> Any:
        """What the server answers, as it is: the SDK's types drop what they do not know. Raises a
        ModelError if it does not answer.
        """
        try:
            return self.client._request(dict, method, path, json=body)
        except Exception as error:
            problem = self.translate(error)
        if isinstance(problem, ModelNotFound):
            able = ", ".join(self.able()) or "none"
            problem.args = (f"{problem}; installed here, and able to call tools: {able}",)
        raise problem

    # A request.

    def form(self, request: Request) -> Json | None:
        if "form" in self.refused:
            return None
        if request.tool_choice == "none" and has_ignored(request.messages, self.host):
            return None  # without the tools, nothing can be called
        return form_of(request)

    def rendered(self, request: Request) -> str | None:
        """The prompt as the chat template renders it. No token is evaluated."""
        trip = Trip(request.deadline)
        self._learn_once(trip)  # the window: another one would load the model anew
        body = {**self.to_wire(request), "stream": False, "_debug_render_only": True}
        with trip:
            shown = self._ask("POST", wire.PATH, body)
        prompt: str | None = shown.get("_debug_info", {}).get("rendered_template")
        return prompt

    def post(self, client: Any, body: Json, *, stream: bool) -> Any:
        content = body_text({**body, "stream": stream}).encode()
        if not stream:
            return client._request(dict, "POST", self._chat, content=content)
        request = client._client.build_request("POST", self._chat, content=content)
        answer = client._client.send(request, stream=True)
        if isinstance(client, ollama.AsyncClient):
            return _async_pieces(answer)
        return _pieces(answer)

    def fold(self) -> Any:
        return Fold()


def _levels(shown: Json) -> Levels:
    """The levels of reasoning of a model, as far as the server tells. Other servers than 0.34 tell
    only whether there is any.
    """
    can = shown.get("capabilities")
    if can and "thinking" not in can:
        return ("off",)
    values = (shown.get("thinking") or {}).get("values")
    if values:
        levels = [level for level in ALWAYS if level in values]
        if False in values:
            return ["off", *levels]
        return levels
    if HARMONY.search(str(shown.get("details"))):
        return ALWAYS
    return ALL


class Fold(wire.Fold):
    """Accumulates the events of a stream that comes in pieces of any size (rule 2)."""

    _line = b""  # the part of it that has come

    def feed(self, piece: Any) -> Any:
        *lines, self._line = (self._line + piece).split(b"\n")
        for line in lines:
            event = json.loads(line)
            if event.get("error"):
                raise ErrorAnswer(event["error"])
            yield from super().feed(event)


def _pieces(response: httpx.Response) -> Any:
    if not response.is_success:
        response.read()
    return response.raise_for_status().iter_bytes()


async def _async_pieces(sent: Any) -> Any:
    response = await sent
    if not response.is_success:
        await response.aread()
    return response.raise_for_status().aiter_bytes()

"""Ollama: models on your own machine, through the official `ollama` package.

Rule 1: raw JSON is sent with the SDK's low-level clients, because its typed methods silently drop
        unknown fields: call ids, empty content, most of a tool's schema.
Rule 2: a stream's lines are split here, only at line feeds. The SDK splits like `str.splitlines`,
        which breaks a reply that contains U+0085, because Go doesn't escape it in JSON.
Rule 3: the server is asked about its model once (`learn`): whether it can reason, its context
        window, and how its template shows calls. If it can't tell, the request is tried.
Rule 4: replies are always streamed, so `timeout` limits the server's silence, not a reply's length.
        (While Ollama's parser holds back a long call, it sends nothing.)
Rule 5: a form constrains a reasoning model only after its reasoning. So reasoning is turned off for
        a forced thought, if that changes only the end of the prompt. Otherwise less of the prompt
        would come from the cache.
"""

import json
import re
from contextlib import suppress
from dataclasses import replace
from time import monotonic
from typing import Any

import httpx
import ollama

from ..errors import ModelError, ModelNotFound
from ..messages import Assistant, Force, Json, ToolResult
from ..model import Request
from ..wire import ollama as wire
from ..wire.counts import read_count
from ..wire.forms import form_of, has_ignored, with_notice
from ..wire.incoming import ErrorAnswer
from ..wire.outgoing import encode_body
from .address import NO_OLLAMA, OLLAMA, ollama_address
from .complaints import is_failure
from .provider import Provider
from .reasoning import ALL, ALWAYS, Levels
from .refusals import Lesson
from .transport import Trip

# A template that shows either a message's text or its calls.
TEXT_OR_CALLS = re.compile(r"\{\{-?\s*else if \.ToolCalls")
SOON = 2.0  # seconds, for a question whose answer is only shown
HARMONY = re.compile("'family': 'gpt-?oss'")  # reasoning can't be turned off for these
# Numbers in the Modelfile. A num_predict of -1 (no limit) isn't used.
PARAMETERS = re.compile(r"^(num_ctx|num_predict)\s+([1-9]\d*)", re.MULTILINE)
MOST_NAMED = 5  # models named in an error
# Seconds. A loaded model takes 2 ms, and the smallest unloaded one 270 ms (0.34.4).
LOADING = 0.1
LAST_WORDS = "said the kestrel"  # a text that occurs nowhere else


class Ollama(Provider):
    """A model on an Ollama server.

    `base_url`: the server's address, in any form that OLLAMA_HOST accepts; None means OLLAMA_HOST,
    or else this machine. `num_ctx`: the minimum size of the context window, in tokens. It never
    lowers the Modelfile's value or the loaded window (`window`). `keep_alive`: how long the server
    keeps the model loaded after a request (`"30m"`, seconds, -1 for ever); None means the server's
    default, 5 minutes. `format`: use a schema for forced thoughts and the closing reply
    (`wire/forms.py`). Without it nothing forces a thought, and the closing call leaves the tools
    out. `think`: one of the server's own levels instead of `reasoning`, such as `"max"`.
    """

    wire = wire
    http = httpx
    main_key = "OLLAMA_API_KEY"
    keys = (main_key,)
    needs_key = False
    usual_url = OLLAMA
    url_variable = "OLLAMA_HOST"
    remedies = (
        ("single tool-calls at once", "one_call", True),  # Llama 3.1 in Jinja
        ("length 9", "short_ids", True),  # Mistral Small and Nemo in Jinja: call ids
    )
    no_server = NO_OLLAMA
    always_streams = True  # rule 4

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
        super().__init__(model, options, base_url=base_url, **where)
        self.refused = {"named": "", "required": "", "none": ""}
        if not format:
            self.refused["form"] = ""
        self._window = f"{num_ctx:,} tokens, by num_ctx"
        self._notices: list[str] = []  # for the next reply
        self._has_replied = False
        self._tells_of_loads = True
        self._renders = True  # until the server fails to show a prompt
        self._reasons = False  # without being asked to
        # Does turning it off change only the end of the prompt? By the last message's role.
        self._stops_at_end: dict[str, bool] = {}

    def find_address(self, given: str | None) -> str | None:
        try:
            return ollama_address(given)
        except ValueError as error:
            raise ValueError(f"ollama: {error}; check {self.url_source}") from None

    def connect(self, arguments: Json, *, is_async: bool) -> Any:
        kind = ollama.AsyncClient if is_async else ollama.Client
        client = kind(
            self.url,
            timeout=self.timeout,
            # Without a header, the SDK would look for a key in the environment.
            headers={"authorization": f"Bearer {self.key}"},
            **arguments,
        )
        # The full address, so that it's parsed once, not for every request.
        self._chat = client._client.build_request("POST", wire.PATH).url
        return client

    # Questions to the server about its models.

    def learn(self) -> Levels:
        try:
            shown = self._ask("POST", "/api/show", {"model": self.model})
            loaded = self._ask("GET", "/api/ps").get("models", [])
        except ModelNotFound:
            raise
        except ModelError:
            return ALL  # the request will get the same error, and may retry

        self.options["text_hides_calls"] = bool(TEXT_OR_CALLS.search(shown.get("template") or ""))
        made = dict(PARAMETERS.findall(shown.get("parameters") or ""))
        if self.settings.max_output_tokens is None and "num_predict" in made:
            self.settings = replace(self.settings, max_output_tokens=int(made["num_predict"]))
        self._measure_window(int(made.get("num_ctx", 0)), loaded, shown.get("model_info") or {})
        is_asked = self.settings.reasoning is not None or self.options["think"] is not None
        self._reasons = "thinking" in (shown.get("capabilities") or ()) and not is_asked
        return _levels(shown)

    def _measure_window(self, made: int, loaded: list[Json], info: Json) -> None:
        """Set the window to the largest of `num_ctx`, the Modelfile's value (`made`) and the loaded
        window.
        """
        now = 0  # the window that the model is loaded with
        for model in loaded:
            if self._is_this(model):
                now = model.get("context_length", 0)
        tokens, why = max(
            (self.options["num_ctx"], "by num_ctx"),
            (made, "by the Modelfile"),
            (now, "as the model is loaded"),
        )
        self.options["num_ctx"] = tokens
        for name, value in info.items():
            if name.endswith(".context_length") and value < tokens:  # the server reduces it
                tokens, why = value, "the longest that the model takes"
        self._window = f"{tokens:,} tokens, {why}"
        if 0 < now < tokens:
            self._notices.append(
                f"{self.model} is loaded with a window of {now:,} tokens, and this client asks for "
                f"{tokens:,}, so it is loaded again; if another client uses it, that happens at "
                "each change between the two: give both the same num_ctx"
            )

    def window(self) -> str:
        """The size of a request's context window, and the reason. Raises a ModelError if the server
        doesn't answer.
        """
        self.list_installed()  # `learn` says nothing if there is no server
        super().check()
        return self._window

    def where_loaded(self) -> str:
        """Where the model is loaded: "CPU", "GPU" (even if only partly), or "" if it isn't loaded
        yet. Raises a ModelError if the server doesn't answer. A watcher may call this from another
        thread during a request.
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
        """Raises the error that a run would get: no server, no such model, no tool calling, or a
        level of reasoning that the model doesn't have.
        """
        if not self.calls_tools(self.model):
            raise self.make_error(f"model {self.model!r} does not support tools")
        super().check()

    def list_installed(self) -> list[str]:
        """The names of the models on the server, newest first."""
        return [model["model"] for model in self._ask("GET", "/api/tags")["models"]]

    def able(self) -> list[str]:
        """The names of the models that can call tools, this one first. Cloud models are left
        out.
        """
        names = []
        for name in sorted(self.list_installed(), key=lambda name: name != self.model):
            if not name.endswith("cloud") and self.calls_tools(name):
                names.append(name)
        return names

    def calls_tools(self, name: str) -> bool:
        """Can the model call tools, according to the server?"""
        can = self._ask("POST", "/api/show", {"model": name}).get("capabilities")
        return not can or "tools" in can

    def _ask(self, method: str, path: str, body: Json | None = None) -> Any:
        """The server's raw answer, because the SDK's types drop unknown fields. Raises a ModelError
        if it doesn't answer.
        """
        try:
            return self.client._request(dict, method, path, json=body)
        except Exception as error:
            problem = self.translate(error)
        if isinstance(problem, ModelNotFound):
            problem.args = (f"{problem}; {_list_able(self.able())}",)
        raise problem

    # A request.

    def form(self, request: Request) -> Json | None:
        if "form" in self.refused:
            return None
        if request.tool_choice == "none" and has_ignored(request.messages, self.host):
            return None  # without the tools, nothing can be called
        return form_of(request)

    def render_prompt(self, request: Request) -> str | None:
        """The prompt as the chat template renders it. This costs no tokens."""
        trip = Trip(request.deadline)
        self._learn_once(trip)  # sets the window, since another window would reload the model
        with trip:
            return self._render(self.to_wire(request))

    def _render(self, body: Json) -> str | None:
        if not self._renders:
            return None
        # A server that doesn't know this field answers the request, with one token.
        options = {**body["options"], "num_predict": 1}
        asked = {**body, "options": options, "_debug_render_only": True}
        shown = self._ask("POST", wire.PATH, asked)
        prompt: str | None = shown.get("_debug_info", {}).get("rendered_template")
        self._renders = prompt is not None
        return prompt

    def _has_questions(self, request: Request) -> bool:
        return super()._has_questions(request) or self._has_to_compare(request)

    def _has_to_compare(self, request: Request) -> bool:
        """Is a thought forced, and is it unknown whether reasoning can be turned off for it?"""
        if not self._reasons or not isinstance(request.tool_choice, Force):
            return False
        role = "tool" if isinstance(request.messages[-1], ToolResult) else "user"
        return role not in self._stops_at_end and self.form(request) is not None

    def _learn_once(self, trip: Trip, request: Request | None = None) -> None:
        super()._learn_once(trip, request)
        if request is not None and self._has_to_compare(request):
            with trip, suppress(ModelError):  # the request will get the same error
                self._compare_ends(super().to_wire(request))

    def _compare_ends(self, body: Json) -> None:
        """Find out whether `body`'s prompts with and without reasoning differ only after the last
        message's text.
        """
        *messages, last = body["messages"]
        body = {**body, "messages": [*messages, {**last, "content": LAST_WORDS}]}
        usual = self._render(body)
        without = self._render({**body, "think": False})
        is_alike = False
        if usual is not None and without is not None and LAST_WORDS in usual:
            end = usual.rindex(LAST_WORDS) + len(LAST_WORDS)
            is_alike = usual != without and usual[:end] == without[:end]
        self._stops_at_end[last["role"]] = is_alike

    def to_wire(
        self, request: Request, lesson: Lesson | None = None, *, stream: bool = False
    ) -> Json:
        body = super().to_wire(request, lesson, stream=stream)
        is_forced = isinstance(request.tool_choice, Force) and "format" in body
        if is_forced and self._stops_at_end.get(body["messages"][-1]["role"]):  # rule 5
            body["think"] = False
        return body

    def post(self, client: Any, body: Json, *, stream: bool) -> Any:
        content = encode_body(body).encode()
        request = client._client.build_request("POST", self._chat, content=content)
        answer = client._client.send(request, stream=True)
        if isinstance(client, ollama.AsyncClient):
            return _async_pieces(answer)
        return _pieces(answer)

    def fold(self) -> Any:
        return Fold(was_loaded=self._has_replied)

    def remark(self, reply: Assistant, response: Json, body: Json) -> Assistant:
        """`reply` with the reason if it was cut off, and a notice if the server reloaded the
        model.
        """
        self._has_replied = True
        notices = self._notices
        self._notices = []
        seconds = read_count(response, "load_duration") / 1e9
        was_loaded_again = response.get("was_loaded") and seconds > LOADING
        if was_loaded_again and self._tells_of_loads:
            self._tells_of_loads = False  # once
            notices.append(
                f"the server loaded {self.model} again ({seconds:.1f} s): another client uses it "
                "with another num_ctx or shift, or keep_alive had passed"
            )
        for notice in notices:
            reply = with_notice(reply, f"{self.name}: {notice}")
        if reply.stop_reason != "max_tokens":
            return reply

        bound = body["options"]["num_predict"]
        cause = f"the reply reached its bound of {bound:,} tokens (max_output_tokens)"
        if read_count(response, "eval_count") < bound:
            cause = (
                f"the context window is full ({self._window}): raise num_ctx, or show fewer turns "
                "(keep_turns)"
            )
        return replace(reply, cause=cause)


def _list_able(names: list[str]) -> str:
    """The models to use instead. Some machines have dozens."""
    shown = ", ".join(names[:MOST_NAMED]) or "none"
    more = len(names) - MOST_NAMED
    if more > 0:
        shown += f" and {more} more"
    return f"installed here, and able to call tools: {shown}"


def _levels(shown: Json) -> Levels:
    """A model's levels of reasoning, if the server reports them. Servers other than 0.34 report
    only whether there are any.
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
    """Accumulates a stream's events from pieces of any size (rule 2)."""

    _line = b""  # the part received so far

    def __init__(self, *, was_loaded: bool = False) -> None:
        super().__init__()
        self._was_loaded = was_loaded  # before the request

    def feed(self, piece: Any) -> Any:
        *lines, self._line = (self._line + piece).split(b"\n")
        for line in lines:
            line = line.strip().removeprefix(b"data:").strip()  # some servers frame it as SSE
            if line and line != b"[DONE]":
                yield from self._feed_event(json.loads(line))
        if self._line.endswith(b"}"):  # the last line may lack a line feed
            with suppress(ValueError):
                event = json.loads(self._line)
                self._line = b""
                yield from self._feed_event(event)

    def _feed_event(self, event: Json) -> Any:
        if is_failure(event, wire.KEYS):
            raise ErrorAnswer(event)
        yield from super().feed(event)

    def result(self) -> Json:
        return {**super().result(), "was_loaded": self._was_loaded}


def _pieces(response: httpx.Response) -> Any:
    if not response.is_success:
        response.read()
    return response.raise_for_status().iter_bytes()


async def _async_pieces(sent: Any) -> Any:
    response = await sent
    if not response.is_success:
        await response.aread()
    return response.raise_for_status().aiter_bytes()

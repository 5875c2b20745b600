"""Ollama: models on your own machine, through the official `ollama` package.

Rule 1: raw JSON goes through the SDK's clients, under its typed methods. These silently drop fields
        that they do not know: call ids, empty content, most of a tool's schema.
Rule 2: the lines of a stream are split here, at line feeds alone. The SDK splits them like
        `str.splitlines`, which breaks a reply with U+0085 in it: Go writes it into JSON as it is.
Rule 3: the server is asked about its model once (`learn`): whether it can reason, how long its
        window is, and how its template shows calls. If it does not tell, the request is tried.
Rule 4: a reply is always read from a stream, so `timeout` bounds the silence of the server, and not
        the length of a reply. (While Ollama's parser holds back a long call, it sends nothing.)
Rule 5: a model that reasons by itself is bound by a form only after its reasoning. So a forced
        thought is asked for without reasoning, if that changes the end of the prompt and nothing
        before it: else less of the prompt is read from the cache.
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

# A template that shows either the text of a message or its calls.
TEXT_OR_CALLS = re.compile(r"\{\{-?\s*else if \.ToolCalls")
SOON = 2.0  # seconds for a question whose answer only a watcher sees
HARMONY = re.compile("'family': 'gpt-?oss'")  # these cannot be asked not to reason
# Numbers in the Modelfile. A num_predict of -1, no bound, is not kept.
PARAMETERS = re.compile(r"^(num_ctx|num_predict)\s+([1-9]\d*)", re.MULTILINE)
MOST_NAMED = 5  # models in an error
# Seconds. A model that is loaded already takes 2 ms, and the smallest that is not 270 (0.34.4).
LOADING = 0.1
LAST_WORDS = "said the kestrel"  # a text that stands nowhere else


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
    usual_url = OLLAMA
    url_variable = "OLLAMA_HOST"
    remedies = (
        ("single tool-calls at once", "one_call", True),  # Llama 3.1 in Jinja
        ("length 9", "short_ids", True),  # Mistral Small and Nemo in Jinja: ids of calls
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
        self._renders = True  # until the server has shown no prompt
        self._reasons = False  # by itself, without being asked to
        # Can that be turned off at the end of the prompt alone? By the role of the last message.
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
        is_asked = self.settings.reasoning is not None or self.options["think"] is not None
        self._reasons = "thinking" in (shown.get("capabilities") or ()) and not is_asked
        return _levels(shown)

    def _measure_window(self, made: int, loaded: list[Json], info: Json) -> None:
        """Set the window: at least `num_ctx` and what the Modelfile has `made` it, and not shorter
        than it is now.
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
            if name.endswith(".context_length") and value < tokens:  # the server cuts it down
                tokens, why = value, "the longest that the model takes"
        self._window = f"{tokens:,} tokens, {why}"
        if 0 < now < tokens:
            self._notices.append(
                f"{self.model} is loaded with a window of {now:,} tokens, and this client asks for "
                f"{tokens:,}, so it is loaded again; if another client uses it, that happens at "
                "each change between the two: give both the same num_ctx"
            )

    def window(self) -> str:
        """How long the context window of a request is, and why. Raises a ModelError if the server
        does not answer.
        """
        self.list_installed()  # `learn` says nothing if there is no server
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
        if not self.calls_tools(self.model):
            raise self.make_error(f"model {self.model!r} does not support tools")
        super().check()

    def list_installed(self) -> list[str]:
        """The names of the models on the server, the latest first."""
        return [model["model"] for model in self._ask("GET", "/api/tags")["models"]]

    def able(self) -> list[str]:
        """The names of those that can call tools, this model first. Models that run in Ollama's
        cloud are left out.
        """
        names = []
        for name in sorted(self.list_installed(), key=lambda name: name != self.model):
            if not name.endswith("cloud") and self.calls_tools(name):
                names.append(name)
        return names

    def calls_tools(self, name: str) -> bool:
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
        """The prompt as the chat template renders it. No token is evaluated."""
        trip = Trip(request.deadline)
        self._learn_once(trip)  # the window: another one would load the model anew
        with trip:
            return self._render(self.to_wire(request))

    def _render(self, body: Json) -> str | None:
        if not self._renders:
            return None
        # A server that does not know this field answers the request, with one token.
        options = {**body["options"], "num_predict": 1}
        asked = {**body, "options": options, "_debug_render_only": True}
        shown = self._ask("POST", wire.PATH, asked)
        prompt: str | None = shown.get("_debug_info", {}).get("rendered_template")
        self._renders = prompt is not None
        return prompt

    def _has_questions(self, request: Request) -> bool:
        return super()._has_questions(request) or self._has_to_compare(request)

    def _has_to_compare(self, request: Request) -> bool:
        """Is a thought forced, and not known whether reasoning can be turned off for it?"""
        if not self._reasons or not isinstance(request.tool_choice, Force):
            return False
        role = "tool" if isinstance(request.messages[-1], ToolResult) else "user"
        return role not in self._stops_at_end and self.form(request) is not None

    def _learn_once(self, trip: Trip, request: Request | None = None) -> None:
        super()._learn_once(trip, request)
        if request is not None and self._has_to_compare(request):
            with trip, suppress(ModelError):  # the request will meet it, too
                self._compare_ends(super().to_wire(request))

    def _compare_ends(self, body: Json) -> None:
        """Find out whether the prompts of `body` with and without reasoning differ behind the text
        of the last message alone.
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
        """`reply` with why it was cut, and whether the server had to load the model again."""
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
    """The models that can be taken instead. Some machines have dozens."""
    shown = ", ".join(names[:MOST_NAMED]) or "none"
    more = len(names) - MOST_NAMED
    if more > 0:
        shown += f" and {more} more"
    return f"installed here, and able to call tools: {shown}"


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

    def __init__(self, *, was_loaded: bool = False) -> None:
        super().__init__()
        self._was_loaded = was_loaded  # before the request

    def feed(self, piece: Any) -> Any:
        *lines, self._line = (self._line + piece).split(b"\n")
        for line in lines:
            line = line.strip().removeprefix(b"data:").strip()  # some servers frame it as SSE
            if line and line != b"[DONE]":
                yield from self._feed_event(json.loads(line))
        if self._line.endswith(b"}"):  # the last line may have no end
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

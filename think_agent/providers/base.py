"""What all providers share, except sending requests. A provider is a wire protocol and a client.

Rule 1: the protocol (`wire/`) translates requests and replies. The client is the SDK's: `post`
        sends JSON with it, and `translate` reads its exceptions. `errors.py` defines what an error
        means; `provider.py` sends requests and handles errors.
Rule 2: the server is asked about its model once, before the first request (`learn`).
Rule 3: signed content is sent back only to the host that signed it, and only under the same
        instructions and tools if the signature covers them.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import cached_property
from math import inf
from types import ModuleType
from typing import Any
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary, finalize

from ..errors import (
    AuthError,
    BadRequest,
    BadResponse,
    ConnectionFailed,
    ModelError,
    ModelNotFound,
    TimedOut,
)
from ..messages import Assistant, Json
from ..model import Model, Request
from ..text import shorten
from ..wire.incoming import ErrorAnswer
from ..wire.settings import Settings
from .address import NOT_NEEDED, check_url, find_key, is_left_out, mask_address, secrets_in
from .complaints import describe_damage, read_complaint
from .errors import RIGHT_KIND, classify, read_wait
from .pace import Pace
from .reasoning import ALL, Levels, check_level
from .refusals import Lesson, ask_in_words, change_options, leave_fields_out
from .successors import describe_end
from .transport import Trip, find_trip, keep_until_closed, make_client_arguments

AT_ONCE = 16  # requests on one async client
PAGE = "the server sent an HTML page instead of JSON"


class Endpoint(Model):
    """Where requests go and in which form: the part of a provider that knows its server.

    `wire`: its module in `wire/`. `options`: arguments of its `to_wire` other than the settings.
    `refused`: the kinds of tool choice that this model doesn't support (`"named"`, `"required"`,
    `"none"`, and `"form"` for a schema instead of a choice), each with the refusal's text. It
    starts with what's known about the model, without texts, and grows with each refusal.
    `left_out`: fields of the kit's own that this server doesn't accept (`refusals.py`).
    """

    wire: ModuleType
    http: ModuleType  # the HTTP library under the SDK
    main_key: str  # the environment variable for its key that errors name
    keys: tuple[str, ...]  # all variables for the key
    needs_key = True  # at the usual address
    usual_url: str
    url_variable: str  # may set another one
    extras: Mapping[str, tuple[str, Any]] = {}  # variables that the SDK sends; how to remove them
    # A pattern for a server's complaint; the option of `to_wire` that helps, and its value.
    remedies: tuple[tuple[str, str, Any], ...] = ()
    retries = 2
    always_streams = False  # even in `complete`, so `timeout` bounds each silence there as well
    no_server = "check {address}, the network, and that the server runs"  # advice

    def __init__(
        self,
        model: str,
        options: Json,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        settings: Settings = Settings(),  # noqa: B008 (it is frozen)
    ) -> None:
        self.name = self.wire.NAME
        self.model = model
        self.options = options
        self.timeout = settings.timeout
        self.settings = settings
        self.pace = Pace(settings.per_minute or inf)
        self.refused: dict[str, str] = {}
        self.left_out: set[str] = set()
        self.url_source = "base_url"
        if not base_url and os.getenv(self.url_variable):
            self.url_source = self.url_variable
        base_url = self.find_address(base_url)
        self.is_local = bool(base_url) or not self.needs_key  # the user's own server
        self.url = check_url(base_url or self.usual_url, self.name, self.url_source)
        self.host = urlsplit(self.url).hostname or ""
        self.key = find_key(api_key, self.name, self.url, *self.keys)
        if self.key == NOT_NEEDED and not self.is_local:
            raise AuthError(
                f"{self.name}: no API key; set the environment variable {self.main_key} (in code: "
                "api_key=)"
            )
        is_left_out(self.name, self.url, *self.extras)
        self.secrets = secrets_in(
            self.key, self.url, *(os.getenv(variable, "") for variable in self.extras)
        )
        self._has_learned = False
        # The free slots on each event loop's async clients.
        self._async_clients: WeakKeyDictionary[Any, list[Any]] = WeakKeyDictionary()

    def find_address(self, given: str | None) -> str | None:
        """`given`, or else the variable's address. None if neither is set."""
        return given or os.getenv(self.url_variable)

    @property
    def shown_address(self) -> str:
        """The server's address, with the variable that set it, if one did."""
        address = mask_address(self.url)
        if self.url_source == self.url_variable:
            return f"{address} ({self.url_variable})"
        return address

    @cached_property
    def client(self) -> Any:
        """The SDK's client, created when needed."""
        client = self._connect_or_fail()
        finalize(self, client.close)
        return client

    @asynccontextmanager
    async def _loop_client(self, trip: Trip) -> AsyncIterator[Any]:
        """A client of the running event loop, for one request (`trip`).

        A connection pool belongs to the loop that opened it and is unusable in a second
        `asyncio.run`. And a pool scans all its connections for each request, so 200 parallel
        requests are much faster on a dozen clients than on one.
        """
        free = self._async_clients.setdefault(asyncio.get_running_loop(), [])
        if not free:
            life = keep_until_closed(self._connect_or_fail(is_async=True))
            free += [(await anext(life), life)] * AT_ONCE
        place = free.pop()
        with trip:
            try:
                yield place[0]
            finally:
                free.append(place)
                if trip.response:
                    await trip.response.aclose()

    def _connect_or_fail(self, *, is_async: bool = False) -> Any:
        """`connect`. At this point, only the environment's proxy settings can be wrong."""
        try:
            arguments = make_client_arguments(self.http, self.url)
            return self.connect(arguments, is_async=is_async)
        except (ImportError, ValueError, self.http.InvalidURL):
            pass  # it may quote a password, so it mustn't become our error's context
        raise ConnectionFailed(
            f"{self.name}: the address of the proxy does not work (SOCKS needs the package "
            "socksio); check HTTP_PROXY, HTTPS_PROXY and ALL_PROXY"
        )

    def to_wire(
        self, request: Request, lesson: Lesson | None = None, *, stream: bool = False
    ) -> Json:
        """The request as the provider's JSON, without what this server doesn't accept."""
        left_out = self.left_out
        options = self.options
        if lesson is not None:
            left_out = left_out | lesson.left_out
            options = options | lesson.options
        if "response_format" in left_out:
            request = ask_in_words(request)
        body: Json = self.wire.to_wire(  # rule 3: for this host
            request,
            self.model,
            self.settings,
            host=self.host,
            **change_options(options, left_out),
        )
        if stream:
            body |= self.wire.STREAMED
        if left_out:
            body = leave_fields_out(body, left_out)
        return body

    def check(self) -> None:
        """Raises the ModelError that a run would get at once, if the server can tell."""
        self._learn_once(Trip())

    def _has_questions(self, request: Request) -> bool:
        """Does the server have to be asked something before this request?"""
        return not self._has_learned

    def _learn_once(self, trip: Trip, request: Request | None = None) -> None:
        """Ask the server about its model, and anything else that a `request` depends on."""
        if not self._has_learned:  # rule 2
            with trip:
                levels = self.learn()
            check_level(f"{self.name}: {self.model}", self.settings.reasoning, levels, BadRequest)
            self._has_learned = True

    def form(self, request: Request) -> Json | None:
        """The schema that replaces a tool choice (`wire/forms.py`), if any."""
        return None

    def render_prompt(self, request: Request) -> str | None:
        """The prompt that the model would see. None if the server doesn't reveal it."""
        return None

    def keep(self, lesson: Lesson) -> set[str]:
        """Apply a lesson from now on. Returns the fields that are newly left out."""
        new = lesson.left_out - self.left_out
        self.options |= lesson.options
        self.refused |= lesson.refused
        self.left_out |= lesson.left_out
        return new

    def digest_signed(self, body: Json) -> str:
        """A digest of what the reply's signature covers in addition to the messages (rule 3)."""
        return ""

    def remark(self, reply: Assistant, response: Json, body: Json) -> Assistant:
        """`reply` with the response's information for a person (`cause`, `notice`)."""
        return reply

    # Errors, translated into ours.

    def translate(self, error: BaseException) -> ModelError:
        """Translate `error` into one of ours. If it comes from neither the provider nor the
        network, it's a bug and is raised. Once a response has arrived, any error means that it
        can't be read. A provider adds the SDK errors that say more than the response.
        """
        where = self.shown_address
        match error:
            case ModelError():  # already one of ours
                return error
            case self.http.TimeoutException():
                return TimedOut(
                    f"{self.name}: no answer from {where} within {self.timeout:g} s; set a longer "
                    "timeout (a large model takes long to load)"
                )
            case self.http.ConnectError() | ConnectionError():
                advice = self.no_server.format(address=self.url_source)
                return ConnectionFailed(
                    f"{self.name}: no server at {where}; {advice}", retryable=True
                )
            case self.http.TransportError():
                broken = f"the connection to {where} broke ({type(error).__name__})"
                return ConnectionFailed(f"{self.name}: {broken}; ask again", retryable=True)
            case ErrorAnswer(args=[answer]):
                return self.make_error(answer)
        response = find_trip().response
        if response is None:
            raise error
        if not response.is_success:
            return self.make_error(response.text)
        return self.make_damage_error(error)

    def make_damage_error(self, error: BaseException | None = None) -> BadResponse:
        """The error for an HTTP 200 without a valid reply. `error` was raised when it was read."""
        if find_trip().is_page:
            return BadResponse(f"{self.name}: {PAGE}; {self.right_kind}")
        return BadResponse(
            f"{self.name}: what the server sent is not a reply ({describe_damage(error)}); "
            f"{self.right_kind}"
        )

    @property
    def right_kind(self) -> str:
        """The advice for an answer that isn't a reply."""
        return RIGHT_KIND.format(address=self.url_source)

    def make_error(self, answer: Any) -> ModelError:
        """The error in a response: an error object, or a text."""
        trip = find_trip()
        complaint = read_complaint(answer)
        if trip.is_page:
            complaint = complaint._replace(message=PAGE)
        meaning, status = classify(complaint, self.name, trip.response.status_code)
        advice = meaning.advice.format(
            key=self.main_key,
            model=self.model,
            most=f"{self.settings.most_output:,} tokens",
            address=self.url_source,
        )
        if issubclass(meaning.kind, ModelNotFound):
            advice += describe_end(self.model)
        # The header may contradict the status.
        headers = trip.response.headers
        may_retry = headers.get("x-should-retry") != "false"
        return meaning.kind(
            f"{self.name}: {self.quote(complaint.message) or f'HTTP {status}'}; {advice}",
            status=status,
            retry_after=read_wait(headers),
            retryable=meaning.retryable and may_retry,
            complaint=self.secrets.sub("***", complaint.message),
        )

    def quote(self, text: str) -> str:
        """A provider's text for an error message: one line, shortened, without secrets."""
        return shorten(self.secrets.sub("***", text).strip().rstrip("."), 300)

    # What each provider defines.

    def connect(self, arguments: Json, *, is_async: bool) -> Any:
        """A client of the SDK. Its HTTP client is created with these `arguments`, which apply the
        bounds of `transport.py`. Its `close` closes the connections.
        """
        raise NotImplementedError

    def post(self, client: Any, body: Json, *, stream: bool) -> Any:
        """Send the JSON of `to_wire` with one of these clients. Returns the response or, for a
        `stream`, an iterator of events. With an async client, it returns an awaitable of these.
        """
        raise NotImplementedError

    def decode(self, answer: Any) -> Any:
        """The JSON of a response or of an event, if the SDK returns something else."""
        return answer

    def fold(self) -> Any:
        """An accumulator that turns a stream's events into one response."""
        return self.wire.Fold()

    def learn(self) -> Levels:
        """Ask the server what the model supports, before the first request. Returns its levels of
        reasoning, or all levels if the server can't tell: the request will then show.
        """
        return ALL

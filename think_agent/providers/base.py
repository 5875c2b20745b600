"""What the providers share, besides asking. A provider is a wire protocol and a client.

Rule 1: the protocol (`wire/`) translates requests and replies. The client is the SDK's: `post`
        sends JSON with it, and `translate` reads its exceptions. What an error means stands in
        `errors.py`; what is done about it, in `exchange.py`; how one asks, in `provider.py`.
Rule 2: questions to a server about its model are asked once, before the first request (`learn`).
Rule 3: what a provider signed goes back to the host that signed it, and to no other; where the
        signature covers them, under the same instructions and tools.
"""

import asyncio
import os
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import cached_property
from math import inf
from types import ModuleType
from typing import Any
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary, finalize

from ..errors import AuthError, BadRequest, BadResponse, ConnectionFailed, ModelError, TimedOut
from ..messages import Json, ToolChoice
from ..mistakes import warn
from ..model import Model, Request
from ..text import shorten
from ..wire.incoming import ErrorAnswer
from ..wire.settings import Settings
from .address import NOT_NEEDED, checked_url, find_key, is_left_out, secrets_in, shown_address
from .errors import MEANINGS, RIGHT_KIND, STATUS, asked_wait, quoted_error, refused_kinds
from .pace import Pace
from .reasoning import ALL, Levels, check_level
from .transport import Trip, client_arguments, current_trip, life_of

AT_ONCE = 16  # requests on one async client


class Endpoint(Model):
    """Where requests go, and in which form: the part of a provider that knows its server.

    `wire`: the module of `wire/` that it speaks. `options`: what its `to_wire` takes besides the
    settings. `refused`: the kinds of tool choice that this model does not take (`"named"`,
    `"required"`, `"none"`, and `"form"` for a schema in place of one), each with the text of the
    refusal. It starts with what is known of the model, without a text, and grows with what its
    server refuses.
    """

    wire: ModuleType
    http: ModuleType  # the HTTP library under the SDK
    main_key: str  # the variable of its key that errors name
    keys: tuple[str, ...]  # the variables that may hold the key
    needs_key = True  # at the usual address
    usual_url: str
    url_variable: str  # which may hold another one
    extras: Mapping[str, tuple[str, Any]] = {}  # variables that the SDK sends; how to take them out
    # What a server complains of, as a pattern; the option of `to_wire` that helps, and its value.
    remedies: tuple[tuple[str, str, Any], ...] = ()
    retries = 2
    no_server = "check base_url, the network, and that the server runs"  # advice

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
        base_url = base_url or os.getenv(self.url_variable)
        self.is_local = bool(base_url) or not self.needs_key  # a server of the user's own
        self.url = checked_url(base_url or self.usual_url, self.name)
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
        # The free places on the async clients of each event loop.
        self._async_clients: WeakKeyDictionary[Any, list[Any]] = WeakKeyDictionary()

    @cached_property
    def client(self) -> Any:
        """The SDK's client, made when it is needed."""
        client = self._connected()
        finalize(self, client.close)
        return client

    @asynccontextmanager
    async def _loop_client(self, trip: Trip) -> AsyncIterator[Any]:
        """A client of the running loop, for one request, which is on this `trip`.

        A connection pool belongs to the loop that opened it: in a second `asyncio.run` it is dead.
        And for every request it looks at all its connections, so 200 requests at once are much
        faster on a dozen clients than on one.
        """
        free = self._async_clients.setdefault(asyncio.get_running_loop(), [])
        if not free:
            life = life_of(self._connected(is_async=True))
            free += [(await anext(life), life)] * AT_ONCE
        place = free.pop()
        with trip:
            try:
                yield place[0]
            finally:
                free.append(place)
                if trip.response:
                    await trip.response.aclose()

    def _connected(self, *, is_async: bool = False) -> Any:
        """`connect`. By now only the proxy that the environment names can be wrong."""
        try:
            arguments = client_arguments(self.http, self.url)
            return self.connect(arguments, is_async=is_async)
        except (ImportError, ValueError, self.http.InvalidURL):
            pass  # it may quote a password, so it is not the context of ours
        raise ConnectionFailed(
            f"{self.name}: the address of the proxy does not work (SOCKS needs the package "
            "socksio); check HTTP_PROXY, HTTPS_PROXY and ALL_PROXY"
        )

    def to_wire(self, request: Request) -> Json:
        """The request as the provider's JSON."""
        body: Json = self.wire.to_wire(  # rule 3: for this host
            request, self.model, self.settings, host=self.host, **self.options
        )
        return body

    def check(self) -> None:
        """Raises the ModelError that a run would meet at once, as far as the server tells."""
        self._learn_once(Trip())

    def _learn_once(self, trip: Trip) -> None:
        if not self._has_learned:  # rule 2
            with trip:
                levels = self.learn()
            check_level(f"{self.name}: {self.model}", self.settings.reasoning, levels, BadRequest)
            self._has_learned = True

    def form(self, request: Request) -> Json | None:
        """The schema that the reply has to have in place of a tool choice (`wire/forms.py`)."""
        return None

    def rendered(self, request: Request) -> str | None:
        """The prompt that the model would see. None if the server does not tell."""
        return None

    def remember(self, refusal: BadRequest, asked: ToolChoice, form: Json | None) -> None:
        """Ask in another way from now on, if the server's `refusal` tells of one that helps: with
        an option of `remedies`, without a `form`, or with a weaker tool choice than was `asked`.
        """
        complaint = refusal.complaint
        for words, option, value in self.remedies:
            if re.search(words, complaint) and self.options.get(option) != value:
                self.options[option] = value
                if option == "strict":
                    warn(f"{self.name}: strict schemas are left out")
                return
        for kind in refused_kinds(asked, form, complaint):
            self.refused[kind] = str(refusal)

    def signed_under(self, body: Json) -> str:
        """A digest of what a signature in the reply covers, besides the messages (rule 3)."""
        return ""

    # What went wrong, as one of our errors.

    def translate(self, error: BaseException) -> ModelError:
        """`error` as one of ours. Raises it if it comes neither from the provider nor from the
        network: then it is a bug. After a response has come, any error means that it cannot be
        read. A provider adds the errors of its SDK that say more than the response.
        """
        where = shown_address(self.url)
        match error:
            case ModelError():  # already one of ours
                return error
            case self.http.TimeoutException():
                return TimedOut(
                    f"{self.name}: no answer from {where} within {self.timeout:g} s; set a longer "
                    "timeout (a large model takes long to load)"
                )
            case self.http.ConnectError() | ConnectionError():
                return ConnectionFailed(
                    f"{self.name}: no server at {where}; {self.no_server}", retryable=True
                )
            case self.http.TransportError():
                broken = f"the connection to {where} broke ({type(error).__name__})"
                return ConnectionFailed(f"{self.name}: {broken}; ask again", retryable=True)
            case ErrorAnswer(args=[answer]):
                return self.error(answer)
        response = current_trip().response
        if response is None:
            raise error
        if not response.is_success:
            return self.error(response.text)
        return BadResponse(
            f"{self.name}: what the server sent is not a reply ({type(error).__name__}: "
            f"{self.quote(str(error))}); {RIGHT_KIND}"
        )

    def error(self, answer: Any) -> ModelError:
        """The error in the response that has come: an error object, or a text."""
        message, code = quoted_error(answer)
        response = current_trip().response
        status = response.status_code
        if status == 200:  # an error inside it
            status = STATUS.get(code, 400)
            if code.isdecimal():
                status = int(code)
        line = f"{status} {self.name}: {code} {message}"
        for meaning in MEANINGS:  # the last one fits any line
            if re.search(meaning.pattern, line, re.IGNORECASE | re.DOTALL):
                break
        advice = meaning.advice.format(key=self.main_key, model=self.model)
        # The server may know better than its status.
        may_retry = response.headers.get("x-should-retry") != "false"
        return meaning.kind(
            f"{self.name}: {self.quote(message) or f'HTTP {status}'}; {advice}",
            status=status,
            retry_after=asked_wait(response.headers),
            retryable=meaning.retryable and may_retry,
            complaint=self.secrets.sub("***", message),
        )

    def quote(self, text: str) -> str:
        """A provider's text for use in a message: one line, not too long, without secrets."""
        if text.lstrip().startswith("<"):
            return "the server sent an HTML page instead of JSON"
        return shorten(self.secrets.sub("***", text).strip().rstrip("."), 300)

    # What each provider writes.

    def connect(self, arguments: Json, *, is_async: bool) -> Any:
        """A client of the SDK. Its HTTP client is made with these `arguments`: they hold the bounds
        of `transport.py`. Its `close` closes the connections.
        """
        raise NotImplementedError

    def post(self, client: Any, body: Json, *, stream: bool) -> Any:
        """Send the JSON of `to_wire` with one of these clients. Returns the response or, for a
        `stream`, an iterator of events; an async client returns an awaitable of it.
        """
        raise NotImplementedError

    def decoded(self, answer: Any) -> Any:
        """The JSON of a response or of an event, if the SDK returns something else."""
        return answer

    def fold(self) -> Any:
        """What accumulates the events of a stream into one response."""
        return self.wire.Fold()

    def learn(self) -> Levels:
        """Ask the server what the model can do, before the first request. Returns the levels of
        reasoning that it takes: all of them if the server does not tell, for then it is tried.
        """
        return ALL

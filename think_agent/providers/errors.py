"""What a provider's error means: one table for all of them.

Rule 1: an adapter takes from its SDK's exception what was said (`Fault`); what that means is
        decided here, by the HTTP status, or by the one that the provider's code would have had.
Rule 2: words decide only where statuses do not, and they are data (`MEANINGS`).
Rule 3: `retryable` is what may pass by itself: too many requests, an overload, a broken line. A
        server that was silent for the whole timeout is not waited for once more.
Rule 4: advice names a setting as it is called in code and, with dashes, on the command line.
Rule 5: a tool choice that a server refuses is asked for more weakly (`wire.common.weaken`).
"""

import json
import re
from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from math import inf
from time import time
from types import ModuleType
from typing import Any, NamedTuple

from ..errors import (
    AuthError,
    BadRequest,
    BadResponse,
    ConnectionFailed,
    ModelError,
    ModelNotFound,
    Overloaded,
    RateLimited,
    TimedOut,
    ToolsUnsupported,
)
from ..messages import Force, Json, ToolChoice
from ..text import shorten

LONGEST_QUOTE = 300  # characters
OFFLINE = "check base_url, the network, and that the server runs"

RIGHT_KIND = "check that base_url points to the right kind of server"
UNSENDABLE = (
    "in the request is a lone surrogate, a number that is no JSON, or a setting that no header can "
    "carry; look at the messages, the key and the other environment variables"
)
# What comes of taking an answer apart that is not what it should be.
STUMBLES = (KeyError, TypeError, IndexError, AttributeError, ValueError, RecursionError)

# The HTTP status that an error inside an HTTP 200 would have had. Any other code speaks of the
# request (400); none at all, of the server (500).
STATUS = {
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "insufficient_quota": 429,
    "": 500,
    "error": 500,  # the type of an `error` event that names no code
    "api_error": 500,
    "server_error": 500,
    "vector_store_timeout": 503,
    "timeout_error": 504,
    "overloaded_error": 529,
}


class UnreadCall(BadResponse):
    """The server could not read the model's call, or got none where one was forced."""

    said = ""


class Meaning(NamedTuple):
    """What an error of one of these statuses means, if its words (a regular expression) stand in
    it. `advice` may hold `{key}` (the variable of the API key) and `{model}`.
    """

    kind: type[ModelError]
    statuses: Container[int]
    words: str
    advice: str
    retryable: bool = False


ANY = range(400, 600)
CREDIT = "insufficient_quota|billing_hard_limit"
NO_CALL = (
    r"pars\w+ (the )?(tool|function) call|tool call pars|failed to parse input|"
    "tool_use_failed|XML syntax error|did not call a tool|expected element type|"
    "empty (Laguna )?(tool|function|argument)|mismatched arg_key|is missing for tool|"
    "tool .* (is not declared|not found)|undeclared .*function|missing ATEM"
)
NO_JSON = "failed to parse JSON|unexpected end of JSON|invalid character|cannot unmarshal|^ EOF$"
SLIP = "this was the model's slip; ask again"
NO_MODEL = (
    "model_not_found|model.*not (found|exist)|(invalid|not a valid|not a chat) model|"
    "supported API model names"
)
CHECK_KEY = "check {key} (in code: api_key=) and its rights"
CHECK_NAME = "check the model's name"
MEANINGS = [  # the first one that fits
    Meaning(ToolsUnsupported, ANY, "does not support tools", "pick one that does, such as "
            "qwen2.5:7b, or speak the json dialect"),
    Meaning(BadRequest, ANY, "does not support thinking", "leave out reasoning"),
    Meaning(BadRequest, ANY, "requires --jinja", "start the server with --jinja"),
    Meaning(BadRequest, ANY, "use /v1/responses", 'set api to "responses"'),
    Meaning(BadRequest, ANY, "context (length|size|window)|prompt is too long|input token count",
            "say less at a time, show fewer turns (keep_turns) or, on Ollama, raise num_ctx"),
    Meaning(ModelNotFound, {400}, NO_MODEL, CHECK_NAME),
    Meaning(ModelNotFound, {404}, "model", CHECK_NAME),
    Meaning(AuthError, {400}, "credit balance", "add credit to the account"),
    Meaning(AuthError, {400}, "API key", CHECK_KEY),
    Meaning(UnreadCall, {400, 422, 500}, NO_CALL, SLIP, retryable=True),
    Meaning(UnreadCall, {500}, NO_JSON, SLIP, retryable=True),
    Meaning(RateLimited, {402, 403, 429}, CREDIT, "no credit is left: check plan and billing"),
    Meaning(RateLimited, {429}, "too large", "send less"),
    Meaning(RateLimited, {429}, "usage limit|PerDay", "wait until the limit is lifted"),
    Meaning(AuthError, {401, 402, 403}, "", CHECK_KEY),
    Meaning(BadRequest, {404, 405}, "", "check base_url (OpenAI's kind usually ends in /v1)"),
    Meaning(Overloaded, {408, 409}, "", "try again", retryable=True),
    Meaning(BadRequest, {413}, "", "send a shorter conversation"),
    Meaning(RateLimited, {429}, "", "wait, or send less at a time", retryable=True),
    Meaning(BadRequest, range(400, 500), "", "change the request"),
    Meaning(Overloaded, range(500, 2**63), "", "try again later", retryable=True),
    Meaning(BadResponse, range(400), "", "check base_url"),
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Fault:
    """What an adapter reads off an error: the provider's words, the HTTP status (None: inside a
    200), its own `code`, the headers, and the seconds to wait where only the body says them.
    """

    said: str
    status: int | None = None
    code: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    retry_after: float | None = None


@dataclass(frozen=True, slots=True)
class Account:
    """What the errors of one provider are made with: its name, its model, the variable of its key,
    the address without secrets, the `secrets` that no error may hold, and `advice` of its own.
    """

    name: str
    model: str
    key: str
    address: str
    secrets: re.Pattern[str]
    advice: Mapping[type[ModelError], str] = field(default_factory=dict)

    def error(self, fault: Fault) -> ModelError:
        """`fault` in our terms."""
        inner = int(fault.code) if fault.code.isdecimal() else STATUS.get(fault.code, 400)
        status = inner if fault.status in (None, 200) else fault.status
        words = f"{fault.code} {fault.said}"
        kind, _, _, advice, retryable = next(
            meaning
            for meaning in MEANINGS
            if status in meaning.statuses and re.search(meaning.words, words, re.IGNORECASE)
        )
        if fault.status not in (None, 200):  # else the header is no word about this
            retryable = {"true": True, "false": False}.get(
                fault.headers.get("x-should-retry", ""), retryable
            )
        advice = self.advice.get(kind, advice).format(key=self.key, model=self.model)
        wait = fault.retry_after or asked_wait(fault.headers)
        error = kind(
            f"{self.name}: {self.quote(fault.said) or f'HTTP {status}'}; {advice}",
            status=fault.status,
            retry_after=wait,
            retryable=retryable,
        )
        if isinstance(error, UnreadCall):
            error.said = fault.said
        return error

    def missing_key(self, said: str = "no API key") -> AuthError:
        """The error for a provider that needs a key and has none."""
        how = f"set the environment variable {self.key} (in code: api_key=)"
        return AuthError(f"{self.name}: {said}; {how}")

    def quote(self, said: str) -> str:
        """A provider's own words for use in a message: one line, not too long, without secrets."""
        if said.lstrip().startswith("<"):
            return "the server sent an HTML page instead of JSON"
        return shorten(self.secrets.sub("***", said).strip().rstrip("."), LONGEST_QUOTE)

    def unreached(
        self, error: BaseException | None, http: ModuleType, timeout: float
    ) -> ModelError | None:
        """The error for one of the HTTP library `http` (httpx or httpx2); None for any other."""
        kind: type[ModelError] = ConnectionFailed
        retryable = False
        match error:
            case http.InvalidURL() | http.UnsupportedProtocol():
                words = "{where} is no URL; check base_url"
            case http.TimeoutException():
                kind, words = TimedOut, "no answer from {where} within {timeout:g} s; set a longer "
                words += "timeout (a large model takes long to load)"
            case http.ConnectError() | ConnectionError():
                words, retryable = "no server at {where}; " + self.advice.get(kind, OFFLINE), True
            case http.TransportError():
                words, retryable = "the connection to {where} broke ({what}); ask again", True
            case http.HTTPError():
                kind, words = BadResponse, "{where} is no answer ({what}); check base_url"
            case _:
                return None
        said = words.format(where=self.address, timeout=timeout, what=type(error).__name__)
        return kind(f"{self.name}: {said}", retryable=retryable)

    def stumbled(self, error: Exception, body: Json) -> ModelError | None:
        """What it means that an SDK or a `from_wire` fell over a request with this `body`, or over
        its answer; None for what is neither.
        """
        if isinstance(error, RecursionError) or "integer string conversion" in str(error):
            said = "JSON nested too deeply, or with a number too long, to be sent or read"
            unread = UnreadCall(f"{self.name}: {said}; {SLIP}")
            unread.said = said
            return unread
        try:
            json.dumps(body, allow_nan=False)
            sound = not isinstance(error, UnicodeEncodeError)
        except TypeError:  # such as a set in the parameters of a tool
            return None
        except ValueError:
            sound = False
        if not sound:
            return BadRequest(f"{self.name}: {UNSENDABLE}")
        if not isinstance(error, STUMBLES):
            return None
        what = f"{type(error).__name__}: {self.quote(str(error))}"
        return BadResponse(f"{self.name}: the server sent what is no reply ({what}); {RIGHT_KIND}")


def asked_wait(headers: Mapping[str, str]) -> float | None:
    """The seconds that a server asks to wait, as milliseconds, seconds or a date; None where it
    says nothing to go by.
    """
    try:
        if "retry-after-ms" in headers:
            wait = float(headers["retry-after-ms"]) / 1000
        elif (said := headers.get("retry-after", "")).endswith("GMT"):
            wait = parsedate_to_datetime(said).timestamp() - time()
        else:
            wait = float(said)
    except (ValueError, OverflowError):
        return None
    return wait if 0 < wait < inf else None


def quoted_error(error: Any) -> tuple[str, str]:
    """Words and code of the error object that OpenAI, Anthropic and their kin send."""
    if not isinstance(error, dict):
        return str(error), ""
    said = str(error.get("message") or error)
    metadata = error.get("metadata")
    if isinstance(metadata, dict) and metadata.get("raw"):  # OpenRouter: the words of the host
        said += f" ({metadata['raw']})"
    param = str(error.get("param") or "")
    if param and param not in said:
        said += f" ({param})"
    codes = [str(error[name]) for name in ("code", "type") if error.get(name)]
    quota = [code for code in codes if code == "insufficient_quota"]
    return said, (quota or codes or [""])[0]


# By text, for there are no codes: as reported of Anthropic, DeepSeek, DashScope, LM Studio, Gemini.
REFUSED_CHOICE = re.compile(
    r"tool[_ ]?choice|Thinking mode does not support|function[ _]?calling[ _]?(config|mode)",
    re.IGNORECASE,
)
ONLY_STRINGS = re.compile(r"type: 'object'|Supported string values", re.IGNORECASE)


def refused_kinds(asked: ToolChoice, complaint: str) -> list[str]:
    """The kinds of tool choice that a server refuses with this `complaint`; none where it is about
    something else.
    """
    if asked == "auto" or not REFUSED_CHOICE.search(complaint):
        return []
    if not isinstance(asked, Force):
        return [asked]
    # One that forces "required" may know no choice as an object.
    return ["named"] if ONLY_STRINGS.search(complaint) else ["named", "required"]

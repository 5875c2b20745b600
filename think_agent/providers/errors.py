"""What a provider's error means: one table for all providers.

Rule 1: the message comes from the response or the SDK's exception (`complaints.py`). Its meaning is
        decided here, from one line: the HTTP status, provider, type, code and message.
Rule 2: the table is data. The first pattern that matches the line decides: first the wordings
        (`WORDINGS`), then the status alone (`STATUSES`).
Rule 3: an error inside an HTTP 200 has no status. `classify` finds one from its type, or else its
        code, or else the first wording that matches. If all are unknown, it counts as the server's
        fault, and the request is retried.
Rule 4: an error is `retryable` if waiting may help: too many requests, an overload, a broken
        connection. Spent credit isn't. There is no retry after a full timeout, or if the server
        says `x-should-retry: false`.
Rule 5: advice names settings as in code. On the command line they have dashes.
"""

import re
import time
from collections.abc import Mapping
from contextlib import suppress
from email.utils import parsedate_to_datetime
from typing import NamedTuple

from ..errors import (
    AuthError,
    BadRequest,
    BadResponse,
    ModelError,
    ModelNotFound,
    Overloaded,
    RateLimited,
    ToolsUnsupported,
)
from .complaints import Complaint

RIGHT_KIND = "check that {address} points to the right kind of server"


class UnreadCall(BadResponse):
    """The model's call couldn't be read, or a forced call is missing, or the model repeated one
    token again and again.
    """


class ErrorPattern(NamedTuple):
    """What an error means if the pattern occurs in `STATUS provider: type code message`. `advice`
    may contain `{key}` (the variable for the API key), `{model}`, `{most}` (the limit on a reply's
    tokens), and `{address}` (what set the server's address: a variable, or `base_url`).
    """

    kind: type[ModelError]
    pattern: str
    advice: str
    retryable: bool = False

    def fits(self, line: str) -> bool:
        return re.search(self.pattern, line, re.IGNORECASE | re.DOTALL) is not None


NO_CALL = (
    r"^(400|422|500) .*(pars\w+ (the )?(tool|function) call|tool call pars|failed to parse input|"
    "tool_use_failed|did not call a tool|does not match the expected .*format)"
)
OLLAMA_PARSERS = (  # for Ollama's own models; from another server these mean something else
    "^500 ollama: .*(token repeat limit|XML syntax error|expected element type|"
    "empty (Laguna )?(tool|function|argument)|mismatched arg_key|is missing for tool|"
    "tool .* (is not declared|not found)|undeclared .*function|ATEM|Glimmer|GLM tool call|"
    "failed to parse JSON|unexpected end of JSON|invalid character|cannot unmarshal)|"
    "^500 ollama: EOF$"
)
# The wordings of Ollama, OpenRouter, OpenAI, Groq, and (about missing flags) vLLM and llama.cpp.
NO_TOOLS = (
    "does not support tools|support tool use|tools is not supported|"
    "tool calling` is not supported|requires --(enable-auto-tool-choice|jinja)"
)
NO_MODEL = (
    r"^40[04] .*(model[_ ]?not[_ ]?found|\bmodel\b.*\bnot (found|exist)|no such model|"
    r"unknown model|(invalid|not a valid|not a chat) model|supported API model names|"
    r"\bmodel\b.*\b(was|is|has been) (deprecated|retired|decommissioned|shut ?down|removed))"
)
# The kit's token limit for a reply exceeds the window, the model's own limit, or the tokens per
# minute: vLLM, SGLang, OpenAI, Anthropic, DeepSeek, Groq, OpenRouter, TGI, Gemini.
OUTPUT_BOUND = (
    r"max_?(completion_|output_|new_)?tokens|(in|for) the (completion|output)\b|draft tokens|"
    r"completion tokens|maximum tokens you requested|tokens per min"
)
NOT_FITTING = (
    r"too (large|high|many|big)|exceed|at most|less than or equal|<=|\d >|\brange\b|reduce|maximum"
)
TOO_LONG_A_REPLY = (
    rf"^4(00|13|22) (?=.*({OUTPUT_BOUND}))(?=.*({NOT_FITTING}))(?!.*(unsupported|not supported))"
)
SPENT = (
    r"insufficient[_ ](user[_ ])?(quota|balance|credit|funds)|billing[_ ](hard[_ ]limit|error)|"
    r"spend(ing)?[_ ]?(limit|cap)|out of (credits?|funds|balance)|credit balance|"
    r"(no|not enough|more|all available|remaining) credits?\b|exceeded_current_quota|"
    r"recharge|top[- ]?up|arrear|overdue|payment|usage[_ ]limit"
)
# OpenAI says this only about money, Gemini also about a quota per minute.
QUOTA = r"^429 (?!gemini).*current quota, please check your plan(?!.*(retry in|per.?minute))"
PLAN = "check plan and billing, wait until the limit is lifted, or send less"
SLIP = "the model made a mistake; ask again"
KEY = "check {key} (in code: api_key=), its rights and its credit"
CONTEXT = (
    "send less at a time, begin a new conversation (a signed one is never shortened), show fewer "
    "turns (keep_turns) or, on Ollama, raise num_ctx"
)
REPLY_BOUND = "set max_output_tokens lower: a reply may take up to {most} now"
WORDINGS = [  # the first match decides
    ErrorPattern(ToolsUnsupported, NO_TOOLS,
            "speak json with it (--dialect json), or pick a model and a server that call tools"),
    ErrorPattern(BadRequest, "does not support thinking", "leave out reasoning"),
    ErrorPattern(BadRequest, "system memory|out of memory|unable to allocate",
            "change how the server is started, or take a smaller model"),
    ErrorPattern(BadRequest,
            "Expected `thinking`|bound to a different|block_binding|thinking-binding",
            "finish this turn with the instructions and tools it began with, or begin a new turn"),
    ErrorPattern(BadRequest, "use /v1/responses", 'set api to "responses"'),
    ErrorPattern(BadRequest, TOO_LONG_A_REPLY, f"{REPLY_BOUND}, or {CONTEXT}"),
    ErrorPattern(BadRequest, "context (length|size|window)|(prompt|input) is too long|"
            "input token count|^413 ", CONTEXT),
    ErrorPattern(ModelNotFound, "^404 ollama: .*model.*(not found|pull)",
            "run: ollama pull {model}"),
    ErrorPattern(ModelNotFound, NO_MODEL, "check the model's name"),
    ErrorPattern(UnreadCall, f"{NO_CALL}|{OLLAMA_PARSERS}", SLIP),
    ErrorPattern(AuthError, "^402 .*max_?tokens", f"add credit, or {REPLY_BOUND}"),  # OpenRouter
    ErrorPattern(RateLimited, "^429 .*(too large)", f"{PLAN}, or {REPLY_BOUND}"),
    ErrorPattern(RateLimited, f"^4(03|29) .*({SPENT})|^402 .*insufficient_quota|{QUOTA}", PLAN),
    ErrorPattern(AuthError, r"^40[01] .*(API[_ -]?key|credit balance)", KEY),
    ErrorPattern(AuthError, f"^402 .*({SPENT})", KEY),
    ErrorPattern(AuthError,
            "^401 .*(unauthori[sz]ed|authenti|credentials|invalid (access )?token|"
            "access denied|permission|forbidden)", KEY),
    ErrorPattern(BadRequest,
            r"^400 .*(usage polic|content[_ ](management )?polic|polic(y|ies) violat|"
            r"policy_violation|safety (system|filter|setting)|content filter|inspection ?failed|"
            "inappropriate|prohibited content|sensitive (content|information|words))",
            "the provider's filter refuses it: change the request"),
    # General wordings for a wrong request. They only matter inside an HTTP 200.
    ErrorPattern(BadRequest, r"^400 .*(bad request|extra inputs|not (supported|permitted|allowed)|"
            r"unsupported|unrecogni[sz]ed|unknown (parameter|field|name)|malformed|"
            r"invalid (request|param|argument|value|schema|type|input|json|message|role|image)|"
            r"(is|field) required|missing (required )?(param|field|argument)|must be)",
            "change the request"),
]  # fmt: skip
STATUSES = [
    ErrorPattern(AuthError, "^40[123] ollama: ",
            "run: ollama signin, or set {key} (in code: api_key=)"),
    ErrorPattern(AuthError, "^40[123] ", KEY),
    ErrorPattern(ModelNotFound, "^404 .*model", "check the model's name"),
    ErrorPattern(BadRequest, "^40[45] ",
            "check {address} (OpenAI's kind usually ends in /v1, Ollama's does not)"),
    ErrorPattern(RateLimited, "^429 ", "wait, or send less at a time", retryable=True),
    ErrorPattern(Overloaded, "^40[89] |^[5-9]", "try again later", retryable=True),
    ErrorPattern(BadRequest, "^4", "change the request"),
    ErrorPattern(BadResponse, "", "it redirects, or sends nothing: check {address}"),
]  # fmt: skip
WORDED = (400, 401, 402, 404, 500)  # the statuses to try for a wording (rule 3)

# The HTTP status for a type or a code, by words in it (`DataInspectionFailed`, `model_not_found`).
# The first match decides.
CODES = (
    (400, r"image"),
    (429, r"quota|rate limit|too many|slow ?down|throttl|resource exhausted|usage limit"),
    (402, r"billing|payment|insufficient (balance|credit|funds)|spend|arrear|overdue|credit"),
    (401, r"api ?key|authenti|unauthori|credential|auth error|token (invalid|expired)|account"),
    (403, r"permission|access|^forbidden|on hold"),
    (404, r"not found|no such|does not exist"),
    (504, r"time ?out|timed out|deadline"),
    (529, r"overload|unavailable|capacity|busy|temporar"),
    (400, r"invalid|bad request|unsupported|unknown (param|field)|unrecogni|missing|malformed|"
          r"polic|violat|inspect|moderat|safety|filter|prohibited|sensitive|mismatch|forbidden|"
          r"too (large|long|small)|exceed|validation|failed precondition|out of range|"
          r"not (supported|allowed)|refus|blocked|value error|schema"),
)  # fmt: skip
GENERAL = r"^(invalid|bad) request( error)?$"  # a vague type: the code says more


def classify(complaint: Complaint, provider: str, status: int) -> tuple[ErrorPattern, int]:
    """The meaning of a complaint, and its HTTP status (rule 3)."""
    if status != 200:
        return _look_up(complaint, provider, status), status
    known = find_status(complaint)
    if known:
        return _look_up(complaint, provider, known), known
    for meaning in WORDINGS:
        for status in WORDED:
            if meaning.fits(_write_line(complaint, provider, status)):
                return meaning, status
    return _look_up(complaint, provider, 500), 500


def find_status(complaint: Complaint) -> int:
    """The HTTP status for a complaint's type, or else its code; 0 if neither is known. "Invalid
    request" is a vague type, so the code comes first for it.
    """
    words = [_words(complaint.kind), _words(complaint.code)]
    is_general = re.search(GENERAL, words[0])
    if is_general:
        words.reverse()
    for word in words:
        if word.isdecimal():
            number = int(word)
            if 400 <= number < 600 and number != 500:  # 500 says nothing
                return number
            continue
        for status, pattern in CODES:
            if re.search(pattern, word):
                return status
    return 0


def read_wait(headers: Mapping[str, str]) -> float | None:
    """How many seconds the server asks to wait; None if it doesn't. It can send milliseconds,
    seconds or a date.
    """
    header = headers.get("retry-after", "")
    wait = 0.0
    with suppress(ValueError):
        wait = parsedate_to_datetime(header).timestamp() - time.time()
    with suppress(ValueError):
        wait = float(header)
    with suppress(KeyError, ValueError):
        wait = float(headers["retry-after-ms"]) / 1000
    if wait > 0:
        return wait
    return None


def _look_up(complaint: Complaint, provider: str, status: int) -> ErrorPattern:
    line = _write_line(complaint, provider, status)
    for meaning in (*WORDINGS, *STATUSES):  # the last pattern matches any line
        if meaning.fits(line):
            break
    return meaning


def _write_line(complaint: Complaint, provider: str, status: int) -> str:
    said = [part for part in (complaint.kind, complaint.code, complaint.message) if part]
    return f"{status} {provider}: {' '.join(said)}"


def _words(code: str) -> str:
    """A type or a code as words: `"DataInspectionFailed"` is "data inspection failed"."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|[^A-Za-z0-9]+", " ", code).strip().lower()

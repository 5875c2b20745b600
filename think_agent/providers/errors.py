"""What a provider's error means: one table for all of them.

Rule 1: the message is read out of the response, or out of the SDK's exception. What it means is
        decided here, by one line: the HTTP status (or the one that fits the provider's code), the
        provider, the code and the message.
Rule 2: the table is data (`MEANINGS`). The first pattern that fits that line counts.
Rule 3: an error is `retryable` if it may pass by itself: too many requests, an overload, a broken
        connection. After a whole timeout of silence there is no second try, and where the server
        says `x-should-retry: false`.
Rule 4: advice names a setting as it is called in code and, with dashes, on the command line.
Rule 5: if a server refuses a tool choice, it is asked for a weaker one (`wire.outgoing.relax`).
"""

import re
import time
from collections.abc import Mapping
from contextlib import suppress
from email.utils import parsedate_to_datetime
from typing import Any, NamedTuple

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
from ..messages import Force, Json, ToolChoice
from ..wire.json_reading import json_value

RIGHT_KIND = "check that base_url points to the right kind of server"

# The HTTP status that fits an error inside an HTTP 200, by its code. Any other code is about the
# request (400); no code at all is about the server (500).
STATUS = {
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "insufficient_quota": 429,
    "": 500,
    "error": 500,  # the type of an `error` event that names no code
    "api_error": 500,
    "server_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}


class UnreadCall(BadResponse):
    """The model's call could not be read, or there was none where one was forced, or the model
    wrote the same token again and again.
    """


class Meaning(NamedTuple):
    """What an error means, if the pattern is found in `STATUS provider: code message`. `advice` may
    hold `{key}` (the variable of the API key) and `{model}`.
    """

    kind: type[ModelError]
    pattern: str
    advice: str
    retryable: bool = False


NO_CALL = (
    r"^(400|422|500) .*(pars\w+ (the )?(tool|function) call|tool call pars|failed to parse input|"
    "tool_use_failed|did not call a tool|does not match the expected .*format)"
)
OLLAMA_PARSERS = (  # of Ollama's own models; from another server this means an error of its own
    "^500 ollama: .*(token repeat limit|XML syntax error|expected element type|"
    "empty (Laguna )?(tool|function|argument)|mismatched arg_key|is missing for tool|"
    "tool .* (is not declared|not found)|undeclared .*function|ATEM|Glimmer|GLM tool call|"
    "failed to parse JSON|unexpected end of JSON|invalid character|cannot unmarshal)|"
    "^500 ollama:  EOF$"
)
# As they say it: Ollama, OpenRouter, OpenAI, Groq, and vLLM and llama.cpp of how they were started.
NO_TOOLS = (
    "does not support tools|support tool use|tools is not supported|"
    "tool calling` is not supported|requires --(enable-auto-tool-choice|jinja)"
)
SLIP = "the model made a mistake; ask again"
MEANINGS = [  # the first one that fits
    Meaning(ToolsUnsupported, NO_TOOLS,
            "speak json with it (--dialect json), or pick a model and a server that call tools"),
    Meaning(BadRequest, "does not support thinking", "leave out reasoning"),
    Meaning(BadRequest, "system memory|out of memory|unable to allocate",
            "change how the server is started, or take a smaller model"),
    Meaning(BadRequest, "Expected `thinking`|bound to a different|block_binding|thinking-binding",
            "finish this turn with the instructions and tools it began with, or begin a new turn"),
    Meaning(BadRequest, "use /v1/responses", 'set api to "responses"'),
    Meaning(BadRequest, "context (length|size|window)|prompt is too long|input token count|^413 ",
            "send less at a time, begin a new conversation (a signed one is never shortened), "
            "show fewer turns (keep_turns) or, on Ollama, raise num_ctx"),
    Meaning(ModelNotFound, "^404 ollama: .*model", "run: ollama pull {model}"),
    Meaning(ModelNotFound, "^404 .*model|^400 .*(model_not_found|model.*not (found|exist)|"
            "(invalid|not a valid|not a chat) model|supported API model names)",
            "check the model's name"),
    Meaning(UnreadCall, f"{NO_CALL}|{OLLAMA_PARSERS}", SLIP),
    Meaning(RateLimited, "^4(02|03|29) .*(insufficient_quota|billing_hard_limit)|"
            "^429 .*(too large|usage limit)",
            "check plan and billing, wait until the limit is lifted, or send less"),
    Meaning(AuthError, "^40[123] ollama: ",
            "run: ollama signin, or set {key} (in code: api_key=)"),
    Meaning(AuthError, "^40[123] |^400 .*(API key|credit balance)",
            "check {key} (in code: api_key=), its rights and its credit"),
    Meaning(BadRequest, "^40[45] ",
            "check base_url (OpenAI's kind usually ends in /v1, Ollama's does not)"),
    Meaning(RateLimited, "^429 ", "wait, or send less at a time", retryable=True),
    Meaning(Overloaded, "^40[89] |^[5-9]", "try again later", retryable=True),
    Meaning(BadRequest, "^4", "change the request"),
    Meaning(BadResponse, "", "it redirects, or sends nothing: check base_url"),
]  # fmt: skip


def asked_wait(headers: Mapping[str, str]) -> float | None:
    """The seconds that a server asks to wait; None if it does not ask. It may give milliseconds,
    seconds, or a date.
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


def quoted_error(error: Any) -> tuple[str, str]:
    """Message and code of an error object as OpenAI, Anthropic and similar servers send it."""
    match error:
        case {"error": inner}:
            return quoted_error(inner)
        case str() if json_value(error):  # Ollama passes on what its engine said, as text
            return quoted_error(json_value(error))
        case dict():
            message = str(error.get("message") or error)
        case _:
            return str(error), ""
    for detail in (error.get("param"), error.get("metadata")):  # OpenRouter: its host's text
        if detail and str(detail) not in message:
            message += f" ({detail})"

    code = error.get("code") or error.get("type", "")
    return message, str(code)


# Rule 5. By text, as there are no codes: of Anthropic, DeepSeek, DashScope, LM Studio, Gemini.
REFUSED_CHOICE = re.compile(
    r"tool[_ ]?choice(?! requires)|Thinking mode does not support|"
    r"function[ _]?calling[ _]?(config|mode)",
    re.IGNORECASE,
)
ONLY_STRINGS = re.compile(r"type: 'object'|Supported string values", re.IGNORECASE)
REFUSED_FORM = re.compile("grammar|format|schema|tool[_ ]?choice", re.IGNORECASE)


def refused_kinds(asked: ToolChoice, form: Json | None, complaint: str) -> list[str]:
    """The kinds of tool choice that a server refuses with this `complaint`: `"form"` if it was
    asked for one. None of them if it is about something else.
    """
    if form and REFUSED_FORM.search(complaint):
        return ["form"]
    if asked == "auto" or not REFUSED_CHOICE.search(complaint):
        return []
    if not isinstance(asked, Force):
        return [asked]
    if ONLY_STRINGS.search(complaint):  # it takes no object, but maybe "required"
        return ["named"]
    return ["named", "required"]

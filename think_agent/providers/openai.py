"""OpenAI, and every server that speaks one of its APIs, through the official `openai` package.

Rule 1: the Responses API for the official host, Chat Completions for every other (`base_url`);
        `api` overrides.
Rule 2: a server of your own needs no key; the official host does.
"""

import os
from typing import Literal
from urllib.parse import urlsplit

import openai

from ..messages import Json
from ..model import Request
from ..wire import openai_chat, openai_responses
from ..wire.common import Settings
from .settings import NOT_NEEDED, account_of, checked_url, find_key, missing_key
from .stainless import Stainless

NAME = "openai"
KEY = "OPENAI_API_KEY"
OFFICIAL = "https://api.openai.com/v1"
WIRES = {"chat": openai_chat, "responses": openai_responses}
NEW_NAME = {"max_name": "max_completion_tokens"}


class OpenAI(Stainless):
    """A model at OpenAI, or at any server that speaks one of its APIs.

    `api`: `"responses"` or `"chat"`; None chooses by the host. `strict`: send closed schemas of
    tools as such, for the sampler to hold to; None: at the official host.
    """

    sdk = openai
    client_class = "OpenAI"

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        timeout: float = 120.0,
        api: Literal["responses", "chat"] | None = None,
        strict: bool | None = None,
        settings: Settings = Settings(),  # noqa: B008 (it is frozen)
    ) -> None:
        url = checked_url(base_url or os.getenv("OPENAI_BASE_URL") or OFFICIAL, NAME)
        host = urlsplit(url).hostname or ""
        official = f".{host}".endswith(".api.openai.com")  # or one of its regions
        spoken = api or ("responses" if official else "chat")
        if spoken not in WIRES:
            raise ValueError(f'unknown api {api!r}; use "responses" or "chat"')
        key = find_key(api_key, NAME, url, KEY)
        if official and not key:
            raise missing_key(NAME, KEY)
        if spoken == "responses":
            settings.refuse("openai's Responses API", "seed")
            if openai_responses.NO_REASONING.match(model):
                settings.refuse(model, "reasoning")
        options: Json = {"strict": official if strict is None else strict}
        if official and spoken == "chat":
            options |= NEW_NAME
        super().__init__(
            account_of(NAME, model, KEY, url, key),
            timeout,
            WIRES[spoken],
            settings,
            options,
            {"base_url": url, "api_key": key or NOT_NEEDED},
        )

    def adapt(self, complaint: str, request: Request) -> bool:
        if self.wire is openai_responses or NEW_NAME["max_name"] not in complaint:
            return super().adapt(complaint, request)
        known = "max_name" in self.options
        self.options |= NEW_NAME  # as all newer models of OpenAI have it, behind a proxy, too
        return not known

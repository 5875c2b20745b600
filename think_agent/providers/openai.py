"""OpenAI, and every server that speaks one of its APIs, through the official `openai` package.

Rule 1: it uses the Responses API at the official host, and Chat Completions at any other
        (`base_url`). `api` overrides this.
Rule 2: the official host needs a key; other servers may not.
"""

from types import ModuleType
from typing import Any, Literal

import openai

from ..messages import Json
from ..model import Request
from ..wire import openai_chat, openai_responses
from ..wire.forms import form_of, has_ignored
from .reasoning import OPENAI, check_reasoning
from .stainless import Stainless


class OpenAI(Stainless):
    """A model at OpenAI, or at any server that speaks one of its APIs.

    `api`: `"responses"` or `"chat"`; None chooses by host. `strict`: the sampler follows the tools'
    closed schemas; None means only at the official host.
    """

    sdk = openai
    client_class = "OpenAI"
    main_key = "OPENAI_API_KEY"
    keys = (main_key,)
    extras = {  # noqa: RUF012
        "OPENAI_CUSTOM_HEADERS": ("_custom_headers", {}),
        "OPENAI_ADMIN_KEY": ("admin_api_key", None),
        "OPENAI_ORG_ID": ("organization", None),
        "OPENAI_PROJECT_ID": ("project", None),
    }
    usual_url = "https://api.openai.com/v1"
    url_variable = "OPENAI_BASE_URL"
    wire: ModuleType = openai_chat

    def __init__(
        self,
        model: str,
        *,
        api: Literal["responses", "chat"] | None = None,
        strict: bool | None = None,
        **where: Any,
    ) -> None:
        super().__init__(model, {}, **where)
        is_official = f".{self.host}".endswith(".api.openai.com")  # or one of its regions
        if is_official:
            check_reasoning(model.removeprefix("ft:"), self.settings.reasoning, OPENAI)
        if api is None:
            api = "responses" if is_official else "chat"  # rule 1
        match api:
            case "responses":
                self.wire = openai_responses
                self.settings.refuse("openai's Responses API", "seed")
            case "chat":
                name = "max_completion_tokens"  # the name for all newer OpenAI models
                self.remedies = ((name, "max_name", name), (r"length (of )?9", "short_ids", True))
            case _:
                raise ValueError(f'unknown api {api!r}; use "responses" or "chat"')
        if strict is None:
            strict = is_official
        self.options["strict"] = strict

    def form(self, request: Request) -> Json | None:
        """If another server has ignored a tool choice, try a schema instead."""
        if self.wire is not openai_chat or not self.is_local or "form" in self.refused:
            return None
        if has_ignored(request.messages, self.host):
            return form_of(request)
        return None

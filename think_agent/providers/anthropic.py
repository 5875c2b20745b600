"""Anthropic: a client of the Messages API, through the official SDK.

The edge: a token that a profile holds and that was revoked before its time is an AuthError: only
with retries of its own would the SDK fetch another.
"""

import re
from typing import Unpack

import anthropic

from ..messages import Json
from ..wire import anthropic as wire
from .base import Where
from .settings import NOT_NEEDED
from .stainless import Stainless

# These answer 400 to any forced tool use. A date may follow the name, but no digit right away:
# claude-fable-5-20260801 is another model.
REFUSES_FORCING = re.compile(r"claude-(fable-5-[12]|mythos-5-[12]|opus-5-5|sonnet-5-5)(?!\d)")
ALWAYS_REASONS = re.compile(r"claude-(fable|mythos|opus-5-5)")


class Anthropic(Stainless):
    """A Claude model, or another one behind a server that speaks the Messages API.

    `thinking` is the API's own setting for native thinking, such as `{"type": "adaptive"}`, for
    what `reasoning` does not say. `strict`: closed schemas of tools are sent as such, for the
    sampler to hold to.
    """

    sdk = anthropic
    client_class = "Anthropic"
    main_key = "ANTHROPIC_API_KEY"
    keys = (main_key, "ANTHROPIC_AUTH_TOKEN")  # which the API takes alike
    extras = {"ANTHROPIC_CUSTOM_HEADERS": ("_custom_headers", {})}  # noqa: RUF012
    address = ("ANTHROPIC_BASE_URL", "https://api.anthropic.com")
    wire = wire

    def __init__(
        self,
        model: str,
        *,
        thinking: Json | None = None,
        strict: bool = True,
        **where: Unpack[Where],
    ) -> None:
        super().__init__(model, {"thinking": thinking, "strict": strict}, **where)
        self.settings.refuse("anthropic's API", "temperature", "seed")
        if self.settings.reasoning == "off" and ALWAYS_REASONS.search(model):
            raise ValueError(f"{model} cannot be asked not to reason; leave out reasoning")
        if REFUSES_FORCING.search(model) or (thinking or {}).get("type") == "enabled":
            self.refused = {"named": "", "required": ""}
        # Without a key the SDK looks for a profile, and goes where that says, not where we say.
        key = self.key or (NOT_NEEDED if self.base_url else None)
        self.arguments = {"base_url": self.url if key else None, "api_key": key}
        try:
            client = self.client
        except anthropic.AnthropicError as error:  # such as a profile that cannot be read
            raise self.missing_key(self.quote(str(error))) from None
        if not (client.api_key or client.auth_token or client.credentials):
            # The SDK would find out at the first request, by a TypeError.
            raise self.missing_key()

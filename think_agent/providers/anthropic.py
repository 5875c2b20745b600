"""Anthropic: a client of the Messages API, through the official SDK.

The edge: a token that a profile holds and that was revoked before its time is an AuthError: only
with retries of its own would the SDK fetch another.
"""

import os
import re

import anthropic

from ..errors import AuthError
from ..messages import Json
from ..wire import anthropic as wire
from ..wire.common import Settings
from .settings import NOT_NEEDED, account_of, checked_url, find_key, is_exposed, missing_key
from .stainless import Stainless

KEY = "ANTHROPIC_API_KEY"
TOKEN = "ANTHROPIC_AUTH_TOKEN"
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

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        timeout: float = 120.0,
        settings: Settings = Settings(),  # noqa: B008 (it is frozen)
        thinking: Json | None = None,
        strict: bool = True,
    ) -> None:
        settings.refuse("anthropic's API", "temperature", "seed")
        if settings.reasoning == "off" and ALWAYS_REASONS.search(model):
            raise ValueError(f"{model} cannot be asked not to reason; leave out reasoning")
        url = base_url or os.getenv("ANTHROPIC_BASE_URL") or "https://api.anthropic.com"
        url = checked_url(url, wire.NAME)
        key = find_key(api_key, wire.NAME, url, KEY)
        if not key and is_exposed(url):  # or the SDK would send what a profile or a token says
            key = find_key(None, wire.NAME, url, TOKEN) or NOT_NEEDED
        token = find_key(None, wire.NAME, "", TOKEN)
        budgeted = thinking is not None and thinking.get("type") == "enabled"
        no_forcing = budgeted or REFUSES_FORCING.search(model)
        super().__init__(
            account_of(wire.NAME, model, KEY, url, key, token),
            timeout,
            wire,
            settings,
            {"thinking": thinking, "strict": strict},
            {"base_url": base_url, "api_key": key or None},
            refused={"named", "required"} if no_forcing else (),
        )
        try:
            client = self._client
        except anthropic.AnthropicError as error:  # such as a profile that cannot be read
            said = self.account.quote(str(error))
            raise AuthError(f"anthropic: {said}; or set {KEY} (in code: api_key=)") from None
        if not (client.api_key or client.auth_token or client.credentials):
            # The SDK would find out at the first request, by a TypeError.
            raise missing_key(wire.NAME, KEY)

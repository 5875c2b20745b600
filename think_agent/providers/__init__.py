"""Providers: each is a Model that speaks one wire protocol through its official SDK.

`connect` is the entry point. An SDK is imported when its provider is connected, never before.
"""

import importlib
import inspect
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

import pydantic

from ..errors import ModelError
from ..installing import install_command
from ..model import Model
from ..schema import problems

if TYPE_CHECKING:
    from ..wire.settings import Reasoning


class Entry(NamedTuple):
    """The name of a provider's class (in the module of the provider's name), its default model, and
    the package of its SDK.
    """

    class_name: str
    default_model: str
    package: str


PROVIDERS = {
    "ollama": Entry("Ollama", "qwen3.5:4b", "think-agent"),
    "anthropic": Entry("Anthropic", "claude-haiku-5-5", "think-agent[anthropic]"),
    "openai": Entry("OpenAI", "gpt-6-luna", "think-agent[openai]"),
    "gemini": Entry("Gemini", "gemini-3.8-flash", "think-agent[gemini]"),
    "offline": Entry("Offline", "stand-in", ""),
}


def connect(
    spec: str,
    *,
    base_url: str | None = None,
    api_key: str | None = None,
    timeout: float = 120.0,
    reasoning: "Reasoning | None" = None,
    max_output_tokens: int | None = None,
    temperature: float | None = None,
    seed: int | None = None,
    per_minute: int | None = None,
    **options: Any,
) -> Model:
    """A model by its name: `"provider"` or `"provider:model"`, split at the first colon
    (`"ollama:qwen3.5:4b"`).

    `timeout`: the longest wait for an answer, or for the next piece of one, in seconds (two of the
    SDKs would wait forever). `reasoning`: `"off"`, `"low"`, `"medium"` or `"high"`, if the provider
    supports it. `max_output_tokens` limits one reply (default 8,192). `temperature` and `seed` go
    to the sampler. `per_minute` limits the rate of this model's requests, across threads and tasks.
    Keys come from the provider's usual environment variable unless `api_key` is given.
    `options` are the provider's own: see the class in its module (for OpenAI
    `api="responses"|"chat"`, for Ollama `num_ctx`, for Anthropic `cache=False`). Ollama's models
    use the dialect `auto` (`dialects/auto.py`) unless you pass `dialect="native"`.

    Raises ValueError for an unknown provider, or a setting that the provider or model is known not
    to support. Raises ModelError if the SDK isn't installed or there is no key. If only the server
    knows what its model supports, `check()` or the first request raises BadRequest.
    """
    provider, _, model = spec.partition(":")
    if provider not in PROVIDERS:
        raise ValueError(
            f"unknown provider {provider!r}; write PROVIDER:MODEL with one of: "
            f"{', '.join(PROVIDERS)}"
        )
    from ..wire.settings import Settings  # late: it loads most of pydantic

    try:
        settings = Settings(
            reasoning=reasoning,
            max_output_tokens=max_output_tokens,
            temperature=temperature,
            seed=seed,
            per_minute=per_minute,
            timeout=timeout,
        )
    except pydantic.ValidationError as error:
        raise ValueError(problems(error)) from None

    dialect = "native"
    if provider == "ollama":
        dialect = options.pop("dialect", "auto")
    entry = PROVIDERS[provider]
    make = getattr(_module_of(provider, entry.package), entry.class_name)
    for name in options:
        if name not in inspect.getfullargspec(make).kwonlyargs:
            raise ValueError(
                f"{provider} takes no {name}; leave it out (a model is named as in openai:MODEL)"
            )
    connected: Model = make(
        model or entry.default_model,
        base_url=base_url,
        api_key=api_key,
        settings=settings,
        **options,
    )
    if not getattr(connected, "is_local", False):
        return connected
    from ..dialects import Tags, in_dialect, recovered, tagged  # late: rarely needed

    if provider == "ollama":
        connected = tagged(connected, Tags(plain="answer", answer=()), asks=False)
    return in_dialect(recovered(connected), dialect)  # local servers can leave calls in the text


def _module_of(provider: str, package: str) -> ModuleType:
    """The module of a provider, which imports its SDK."""
    try:
        return importlib.import_module(f".{provider}", __name__)
    except ImportError as error:  # the advice works in a clone and outside of one
        problem = (
            f"its SDK is not installed, or not complete ({error}); run: {install_command(package)}"
        )
    except Exception as error:
        # Ollama's SDK creates a client on import, from environment variables. Its error may quote a
        # password.
        problem = (
            f"its SDK cannot be imported ({type(error).__name__}); check {provider.upper()}_* and "
            "*_PROXY in the environment"
        )
    raise ModelError(f"{provider}: {problem}")

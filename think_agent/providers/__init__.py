"""Providers: each speaks one wire protocol through its official SDK, and is a Model.

`connect` is the door. An SDK is imported when its provider is connected, never before.
"""

import importlib
import inspect
from math import inf
from typing import Any, NamedTuple, get_args

from ..errors import ModelError
from ..model import Model
from ..wire.common import Reasoning, Settings


class Entry(NamedTuple):
    """Where a provider is to be found, and the model it is asked for where none is named. `extra`:
    what pip has to install for it.
    """

    module: str
    class_name: str
    extra: str | None
    default_model: str


PROVIDERS = {
    "ollama": Entry("ollama", "Ollama", None, "qwen2.5:7b"),
    "anthropic": Entry("anthropic", "Anthropic", "anthropic", "claude-haiku-5-5"),
    "openai": Entry("openai", "OpenAI", "openai", "gpt-6-luna"),
    "gemini": Entry("gemini", "Gemini", "gemini", "gemini-3.8-flash"),
    "offline": Entry("offline", "Offline", None, "stand-in"),
}
TIMEOUT = 120.0  # seconds without an answer; two of the SDKs would wait for ever


def connect(
    spec: str,
    *,
    base_url: str | None = None,
    api_key: str | None = None,
    timeout: float = TIMEOUT,
    reasoning: Reasoning | None = None,
    max_output_tokens: int | None = None,
    temperature: float | None = None,
    seed: int | None = None,
    **options: Any,
) -> Model:
    """A model by its name: `"provider"` or `"provider:model"`, split at the first colon
    (`"ollama:qwen2.5:7b"`).

    `timeout`: the seconds without an answer, or between two pieces of one. `reasoning`: `"off"`,
    `"low"`, `"medium"` or `"high"`, by each provider's own means. `max_output_tokens` bounds one
    reply (8,192 where it is not given), `temperature` and `seed` go to the sampler. Keys come from
    the provider's usual environment variable unless `api_key` is given. `options` are the
    provider's own: see the class in its module (for OpenAI `api="responses"|"chat"`, for Ollama
    `num_ctx`). Raises ValueError for an unknown provider and for what the provider or the model
    cannot take, and ModelError when the SDK is not installed or has no key.
    """
    provider, _, model = spec.partition(":")
    if provider not in PROVIDERS:
        raise ValueError(f"unknown provider {provider!r}; use one of: {', '.join(PROVIDERS)}")
    if isinstance(timeout, bool) or not (isinstance(timeout, int | float) and 0 < timeout < inf):
        raise ValueError(f"timeout={timeout!r}: use seconds above 0")
    settings = Settings(reasoning, max_output_tokens, temperature, seed)
    _check(settings)
    entry = PROVIDERS[provider]
    model = model or entry.default_model
    try:
        module = importlib.import_module(f".{entry.module}", __name__)
        make = getattr(module, entry.class_name)
        known = inspect.signature(make).parameters.keys()
        if "settings" in known:
            options["settings"] = settings
        else:
            settings.refuse(provider, "reasoning", "max_output_tokens", "temperature", "seed")
        for name in options.keys() - known:
            raise ValueError(f"{provider} takes no {name}; leave it out")
        made = make(model, base_url=base_url, api_key=api_key, timeout=timeout, **options)
    except ImportError as error:
        if (error.name or "").partition(".")[0] == __package__.partition(".")[0]:
            raise
        raise ModelError(
            f"the {provider} provider needs an SDK that is not installed ({error.name}); "
            f'in the clone run: pip install ".[{entry.extra}]"'
        ) from error
    assert isinstance(made, Model)
    return _cleaned(made, provider, base_url)


def _check(settings: Settings) -> None:
    """ValueError for values that no provider takes."""
    bound, heat = settings.max_output_tokens, settings.temperature
    if settings.reasoning not in (None, *get_args(Reasoning)):
        levels = ", ".join(get_args(Reasoning))
        raise ValueError(f"reasoning={settings.reasoning!r}: use one of {levels}")
    if bound is not None and (type(bound) is not int or bound < 1):
        raise ValueError(f"max_output_tokens={bound!r}: use a whole number above 0")
    if heat is not None and (type(heat) not in (int, float) or not 0 <= heat < inf):
        raise ValueError(f"temperature={heat!r}: use a number from 0")
    if type(settings.seed) not in (int, type(None)):
        raise ValueError(f"seed={settings.seed!r}: use a whole number")


def _cleaned(model: Model, provider: str, base_url: str | None) -> Model:
    """What local servers let slip into the text, put where it belongs: reasoning and calls."""
    from ..dialects.tags import tagged
    from ..dialects.text_calls import recovered

    if provider == "ollama":
        model = tagged(model, plain="answer", answer=())
    if provider == "ollama" or (base_url and provider != "offline"):
        model = recovered(model)
    return model

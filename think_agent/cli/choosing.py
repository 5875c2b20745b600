"""The flags for the model and the limits, and the choice of the model.

Rule 1: a named model is used, or there is an error.
Rule 2: only `--provider auto` without a model falls back: to Ollama if it's running and has a model
        with tool calling, otherwise to the scripted model. It says which, and how to get a real
        model.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any, get_args

import click
from click import Context
from click.decorators import FC

from ..errors import ConnectionFailed, ModelError
from ..model import Model
from ..providers import PROVIDERS, connect
from ..providers.address import NO_OLLAMA, OLLAMA, is_silent, mask_address, ollama_address
from ..testing.scripted import Script
from ..wire.settings import Reasoning
from .options import Command, Group, positive, prices_of, together, whole
from .screen import say

REAL_PROVIDERS = ", ".join(name for name in PROVIDERS if name != "offline")
ANY_PROVIDER = f"auto (Ollama where it runs, else a script), {REAL_PROVIDERS}, offline"


model_option = Group("model")
limit_option = Group("limits")


def model_flags(
    *, default: str, providers: str = ANY_PROVIDER, whose: str = ""
) -> Callable[[FC], FC]:
    """The flags for the model, its server and its options: see `choose_model`. `whose`: the
    requests that `--per-minute` counts, if not only this process's.
    """
    return together(
        model_option("--provider", "P[:MODEL]", providers, default=default),
        model_option("--model", "M", "another model than the provider's default"),
        model_option("--base-url", "U", "another server that speaks the provider's protocol"),
        model_option("--timeout", "S", "seconds of silence before it is given up", type=positive),
        model_option("--num-ctx", "N", "Ollama's context window, in tokens", type=whole),
        model_option(
            "--reasoning",
            "LEVEL",
            "how much to reason: off, low, medium or high",
            type=click.Choice(get_args(Reasoning)),
        ),
        model_option("--max-output-tokens", "N", "tokens a reply", type=whole),
        model_option("--temperature", "T", "0 for the likeliest words", type=float),
        model_option("--seed", "N", "for the same words again, where a server can", type=int),
        model_option(
            "--per-minute", "N", f"requests a minute{whose}, at most: they are spaced", type=whole
        ),
    )


ERRORS = ("tell_model", "fail_fast")
limit_flags = together(
    limit_option("--max-model-calls", "N", "model calls a turn", type=whole, default=30),
    limit_option("--max-actions", "N", "tool calls a turn, thoughts not counted", type=whole),
    limit_option("--max-tokens", "N", "tokens a turn, input and output", type=whole),
    limit_option("--max-seconds", "S", "seconds a turn", type=positive),
    limit_option("--max-cost", "X", "cost a turn; needs prices in --config", type=positive),
    limit_option("--patience", "N", "failed actions in a row", type=whole, default=3),
    limit_option("--keep-turns", "N", "turns of the conversation that a request shows", type=whole),
    limit_option(
        "--on-tool-error",
        "E",
        f"a failed tool: {' or '.join(ERRORS)}",
        type=click.Choice(ERRORS),
        default=ERRORS[0],
    ),
)
"""The flags for the limits of a turn: see `limits`."""


class ModelCommand(Command):
    """A command with model flags. Its `--show-config` also asks Ollama for its window."""

    def settings(self, ctx: Context) -> Iterator[str]:
        yield from super().settings(ctx)
        if not ctx.params["provider"].startswith(("auto", "ollama")):
            return
        try:
            model: Any = choose_model(ctx)
            if model.name == "ollama":
                yield f"{'context window':18} {model.window()}"
        except (ModelError, click.UsageError) as error:
            yield f"{'context window':18} not known ({error})"


def limits(ctx: Context) -> dict[str, Any]:
    """The limits from the flags, as keyword arguments of `Agent`."""
    found = limit_option.read_given(ctx) | {"prices": prices_of(ctx)}
    if "max_cost" in found and not found["prices"]:
        table = '[think_agent.prices."MODEL"] with input and output, per million tokens'
        raise click.UsageError(f"--max-cost needs prices: {table}, in the file of --config")
    return found


def choose_model(ctx: Context, **stand_ins: Any) -> Model:
    """The model that the flags choose; `--model` wins over `--provider P:MODEL`. The other flags of
    their group are arguments of `connect`.
    """
    options = model_option.read_given(ctx)
    spec = options.pop("provider")
    if "model" in options:
        spec = f"{spec.partition(':')[0]}:{options.pop('model')}"
    return make_named_model(spec, options, **stand_ins)


def make_named_model(
    spec: str,
    options: Mapping[str, Any] = {},
    scripts: Mapping[str, Script] = {},
    pace: float = 0.0,
) -> Model:
    """`spec` is `P`, `P:MODEL` or `auto`; `options` are the other arguments of `connect`.
    `offline:NAME` plays one of the `scripts` at `pace`. Without scripts, any name plays the default
    one.
    """
    provider, _, name = spec.partition(":")
    if provider == "auto":
        if "base_url" in options:
            hint = "name the provider whose protocol it speaks, such as --provider openai:MODEL"
            raise click.UsageError(f"--base-url: {hint}")
        provider = "ollama"
        name = name or _on_this_machine()
        if not name:
            provider = "offline"
            options = {}  # they're for a real model
    if provider == "offline":
        name = name or "stand-in"
        if scripts and name not in scripts:
            names = ", offline:".join(scripts)
            raise click.UsageError(
                f"--provider: there is no offline:{name}; use one of offline:{names}"
            )
        options = {**options, "script": scripts.get(name), "pace": pace}
    return connect(f"{provider}:{name}", **options)


def _on_this_machine() -> str:
    """The Ollama model for `--provider auto`: the default, or else the newest one that can call
    tools. Empty, with a message, if there is none.
    """
    usual = PROVIDERS["ollama"].default_model
    advice = f"run `ollama pull {usual}`, or name a --provider."
    try:
        _check_ollama()
        server: Any = connect("ollama", timeout=2.0, dialect="native")
        installed = server.list_installed()
        for name in installed:  # without tool calling: json needs none
            if not name.endswith("cloud"):
                advice = f"to use what is installed: --provider ollama:{name}"
                break
        if usual in installed and server.calls_tools(usual):
            return usual
        able = server.able()
        if not able:
            server.check()  # raises the error that a run would get
        why = "the only one here that can call tools"
        if len(able) > 1:
            why = f"the latest of {len(able)} here that can call tools"
        problem = "cannot call tools" if usual in installed else "is not installed"
        say(f"{usual} {problem}: taking {able[0]}, {why}.")
        return str(able[0])
    except ModelError as error:
        say(str(error))
        say(f"Playing a script instead of a model; {advice}")
        return ""


def _check_ollama() -> None:
    """Raises ConnectionFailed if Ollama isn't running on this machine. Its SDK takes a third of a
    second to load, so this checks the port first.
    """
    named = None
    with suppress(ValueError):  # `connect` reports an invalid address
        named = ollama_address(None)
    url = named or OLLAMA
    if is_silent(url):
        shown = mask_address(url)
        if named:
            shown += " (OLLAMA_HOST)"
        raise ConnectionFailed(f"ollama: no server at {shown}; {NO_OLLAMA}")

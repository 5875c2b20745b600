"""The flags for the model and its limits, and the model that they choose.

Rule 1: the model that is named is used, or there is an error.
Rule 2: only `--provider auto` falls back: to Ollama if it answers and has a model with tool
        calling, else to the scripted model. It says which, and how to get a real model.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any, get_args

import click
from click import Context
from click.decorators import FC

from ..errors import ModelError, ToolsUnsupported
from ..model import Model
from ..providers import PROVIDERS, connect
from ..testing.scripted import Script
from ..wire.settings import Reasoning
from .options import Command, flags, given, positive, prices_of, whole
from .screen import say

REAL_PROVIDERS = ", ".join(name for name in PROVIDERS if name != "offline")
ANY_PROVIDER = f"auto (Ollama where it runs, else a script), {REAL_PROVIDERS}, offline"


def model_flags(*, default: str, providers: str = ANY_PROVIDER) -> Callable[[FC], FC]:
    """The flags for the model, its server and its options: see `chosen_model`."""
    return flags(
        "model",
        ("--provider P[:MODEL]", str, default, providers),
        ("--model M", str, "another model than the provider's default"),
        ("--base-url U", str, "another server that speaks the provider's protocol"),
        ("--timeout S", positive, "seconds of silence before it is given up"),
        ("--num-ctx N", whole, "Ollama's context window, in tokens"),
        ("--reasoning LEVEL", get_args(Reasoning), "how much to reason: off, low, medium or high"),
        ("--max-output-tokens N", whole, "tokens a reply"),
        ("--temperature T", float, "0 for the likeliest words"),
        ("--seed N", int, "for the same words again, where a server can"),
        ("--per-minute N", whole, "requests a minute, at most: they are spaced"),
    )


ERRORS = ("tell_model", "fail_fast")
limit_flags = flags(
    "limits",
    ("--max-model-calls N", whole, 30, "model calls a turn"),
    ("--max-actions N", whole, "tool calls a turn, thoughts not counted"),
    ("--max-tokens N", whole, "tokens a turn, input and output"),
    ("--max-seconds S", positive, "seconds a turn"),
    ("--max-cost X", positive, "cost a turn; needs prices in --config"),
    ("--patience N", whole, 3, "failed actions in a row"),
    ("--keep-turns N", whole, "turns of the conversation that a request shows"),
    ("--on-tool-error E", ERRORS, ERRORS[0], f"a failed tool: {' or '.join(ERRORS)}"),
)
"""The flags for the limits of a turn: see `limits`."""


class ModelCommand(Command):
    """A command with the flags of a model. `--show-config` also asks Ollama for its window."""

    def settings(self, ctx: Context) -> Iterator[str]:
        yield from super().settings(ctx)
        provider = ctx.params["provider"].partition(":")[0]
        if provider not in ("auto", "ollama"):
            return
        try:
            window = getattr(chosen_model(ctx), "window", None)
            if window:
                yield f"{'context window':18} {window()}"
        except (ModelError, click.UsageError) as error:
            yield f"{'context window':18} not known ({error})"


def limits(ctx: Context) -> dict[str, Any]:
    """The limits from the flags, as keywords of `Agent`."""
    found = given(ctx, "limits") | {"prices": prices_of(ctx)}
    if "max_cost" in found and not found["prices"]:
        table = '[think_agent.prices."MODEL"] with input and output, per million tokens'
        raise click.UsageError(f"--max-cost needs prices: {table}, in the file of --config")
    return found


def chosen_model(ctx: Context, **stand_ins: Any) -> Model:
    """The model that the flags name; `--model` wins over `--provider P:MODEL`."""
    options = given(ctx, "model")
    spec = options.pop("provider")
    if "model" in options:
        spec = f"{spec.partition(':')[0]}:{options.pop('model')}"
    return named_model(spec, options, **stand_ins)


def named_model(
    spec: str,
    options: Mapping[str, Any] = {},
    scripts: Mapping[str, Script] = {},
    pace: float = 0.0,
) -> Model:
    """`spec` is `P`, `P:MODEL` or `auto`; `options` are the other arguments of `connect`.
    `offline:NAME` plays one of the `scripts` at `pace`. Without scripts, any name plays the usual
    one.
    """
    provider, _, model = spec.partition(":")
    if provider == "auto":
        if "base_url" in options:
            hint = "name the provider whose protocol it speaks, such as --provider openai:MODEL"
            raise click.UsageError(f"--base-url: {hint}")
        found = _on_this_machine(model)
        if not found:
            return named_model("offline", scripts=scripts, pace=pace)
        spec = f"ollama:{found}"
    if provider != "offline":
        return connect(spec, **options)
    name = model or "stand-in"
    if scripts and name not in scripts:
        names = ", offline:".join(scripts)
        raise click.UsageError(f"--provider: there is no {spec}; use one of offline:{names}")
    return connect(spec, **options, script=scripts.get(name), pace=pace)


def _on_this_machine(model: str) -> str:
    """The Ollama model that `--provider auto` takes: `model` if it is named, else the default, else
    any with tool calling. Empty, with a message, if there is none.
    """
    usual = PROVIDERS["ollama"].default_model
    installed: list[str] = []
    try:
        server: Any = connect(f"ollama:{model or usual}", timeout=2.0, dialect="native")
        installed = server.installed()
        if model:
            with suppress(ToolsUnsupported):  # it may still speak a dialect
                server.check()
            return model
        model = server.pick()
        if model != usual:
            say(f"{usual} is not installed: taking {model}, which is.")
        return model
    except ModelError as error:
        say(str(error))
        say(f"Playing a scripted stand-in; {_how_to_get_a_model(usual, installed)}")
        return ""


def _how_to_get_a_model(usual: str, installed: list[str]) -> str:
    """The command for an installed model, even without tool calling, or for another model."""
    context = click.get_current_context(silent=True)
    command = context.command_path if context else ""
    for name in installed:
        if not name.endswith("cloud"):
            return f"to use what is installed: {command} --provider ollama:{name}"
    return f"run `ollama pull {usual}`, or name a --provider."

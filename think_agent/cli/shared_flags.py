"""The flags that several commands share, of the model and of its limits, and what they come to.

Rule 1: a model that is named is the model that speaks, or there is an error. Only `auto` falls back
        to the scripted stand-in, and it says so.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, get_args

import click
from click import Context

from ..dialects import in_dialect
from ..errors import ModelError, ToolsUnsupported
from ..messages import Json
from ..model import Model, Script
from ..providers import PROVIDERS, connect
from ..wire.common import Reasoning
from .console import say
from .options import PRICES, Decorated, flags, given, nearest, positive, whole

LEVELS = get_args(Reasoning)
STAND_IN = "scripted stand-in: no language model is at work"
ERRORS = ("tell_model", "fail_fast")


def model_flags(*, default: str) -> Callable[[Decorated], Decorated]:
    """Which model, where, and how it is asked: see `chosen_model`."""
    names = ", ".join(PROVIDERS)
    return flags(
        "model",
        ("--provider", "P[:MODEL]", str, default, f"auto, {names}"),
        ("--model", "M", str, None, "another model than the provider's default"),
        ("--base-url", "U", str, None, "another server that speaks the provider's protocol"),
        ("--timeout", "S", positive, None, "seconds of silence before it is given up"),
        ("--num-ctx", "N", whole, None, "Ollama's context window, in tokens"),
        ("--reasoning", "R", LEVELS, None, f"how much to reason: {', '.join(LEVELS)}"),
        ("--max-output-tokens", "N", whole, None, "tokens a reply"),
        ("--temperature", "T", float, None, "0 for the likeliest words"),
        ("--seed", "N", int, None, "for the same words again, where a server can"),
    )


limit_flags = flags(
    "limits",
    ("--max-model-calls", "N", whole, 30, "model calls a turn"),
    ("--max-actions", "N", whole, None, "tool calls a turn, thoughts not counted"),
    ("--max-tokens", "N", whole, None, "tokens a turn, input and output"),
    ("--max-seconds", "S", positive, None, "seconds a turn"),
    ("--max-cost", "X", positive, None, "cost a turn; needs prices in --config"),
    ("--patience", "N", whole, 3, "failed actions in a row"),
    ("--keep-turns", "N", whole, None, "turns of the conversation that a request shows"),
    ("--on-tool-error", "E", ERRORS, ERRORS[0], "what a failed tool means: tell_model, fail_fast"),
)
"""The limits of a turn: see `limits`."""


def chosen_model(ctx: Context, **stand_ins: Any) -> Model:
    """The model that the flags name. `--model` wins over `--provider P:MODEL`, unless that was said
    nearer: on the command line, when the other is in the environment.
    """
    how = given(ctx, "model")
    spec, model = how.pop("provider"), how.pop("model", None)
    said, said_of_model = (ctx.get_parameter_source(name) for name in ("provider", "model"))
    if model and not (":" in spec and said and said_of_model and said < said_of_model):
        spec = f"{spec.partition(':')[0]}:{model}"
    return named_model(spec, how, **stand_ins)


def named_model(
    spec: str, how: Json | None = None, scripts: Mapping[str, Script] = {}, pace: float = 0.0
) -> Model:
    """`spec` is `P`, `P:MODEL` or `auto`: Ollama where it answers and has the model or, where none
    is named, any that can call tools; else the stand-in. `how` is what else `connect` takes.
    `scripts`: what `offline:NAME` may name, at its `pace`; where there are none, any name echoes.
    """
    name, _, model = spec.partition(":")
    how, known = how or {}, ("auto", *PROVIDERS)
    if name not in known:
        hint = nearest(name, known) or f"; use one of {', '.join(known)}"
        raise click.UsageError(f"--provider: there is no provider {name!r}{hint}")
    if "base_url" in how and name in ("auto", "offline"):
        said = "name the provider whose protocol it speaks, such as --provider openai:MODEL"
        raise click.UsageError(f"--base-url {how['base_url']}: {said}")
    if name == "offline":
        if scripts and (model or "stand-in") not in scripts:
            names = ", offline:".join(scripts)
            raise click.UsageError(f"--provider: there is no {spec}; use one of offline:{names}")
        return connect(spec, **how, script=scripts.get(model or "stand-in"), pace=pace)
    if name != "auto":
        return connect(spec, **how)
    usual = PROVIDERS["ollama"].default_model
    try:
        connect("ollama")  # says so where the package is not there to be imported
        from ..providers.ollama import Ollama

        here = Ollama(model or usual, timeout=2.0)
        if model:
            with suppress(ToolsUnsupported):  # then it speaks another dialect: see `speak`
                here.check()
        elif (model := here.pick()) != usual:
            say(f"{usual} is not installed: taking {model}, which is.")
    except ModelError as error:
        say(str(error))
        local = f"`ollama serve` and `ollama pull {usual}`"
        say(f"Playing a scripted stand-in. For a model: {local}, or name one with --provider.")
        return named_model("offline", None, scripts, pace)
    return connect(f"ollama:{model}", **how)


def speak(model: Model, dialect: str) -> Model:
    """`model` in a dialect. `auto` is native tool calling where the model has it, else json, else
    react; what is not native is said on stderr.
    """
    if dialect == "auto":
        dialect = "native"
        try:
            model.check()
        except ToolsUnsupported:
            dialect = "json" if model.capabilities.structured_output else "react"
            say(f"{model.model} has no tool calling: speaking {dialect}.")
    return in_dialect(model, dialect)


def limits(ctx: Context) -> dict[str, Any]:
    """The limits among the flags, as keywords of `Agent`."""
    found = given(ctx, "limits") | {"prices": ctx.meta.get(PRICES)}
    if "max_cost" in found and not found["prices"]:
        said = '[think_agent.prices."MODEL"] with input and output, per million tokens'
        raise click.UsageError(f"--max-cost needs prices: {said}, in the file of --config")
    return found

"""The command `think-agent probe`: from flags to a table of what an endpoint honors."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from json import dumps
from typing import Any

import click
from rich.console import Console
from rich.text import Text

from ..model import Model
from ..probe.asking import planned, probe
from ..text import sanitize
from .console import say
from .options import Command, config_flags, flags
from .shared_flags import chosen_model, model_flags


@click.command(
    cls=Command, epilog="exit codes: 0 there is a table, 1 no answer came, 2 a flag is wrong"
)
@model_flags(default="ollama")
@flags("output", ("--json", "", bool, False, "print one JSON object and nothing else"))
@config_flags
@click.pass_context
def command(ctx: click.Context, /, json: bool, **settings: Any) -> None:
    """Ask an endpoint what it really does: tools, forcing, schemas, streaming."""
    if settings["provider"].partition(":")[0] in ("auto", "offline"):
        raise click.UsageError("--provider: name a real one, there is nothing else to probe")
    model = chosen_model(ctx)
    with _progress(model) as answered:
        found = probe(model, answered)
    if json:
        print(dumps(found.as_json()))
        return
    console = Console(highlight=False)
    for line in found.table(plain=not console.is_terminal):
        console.print(line, soft_wrap=not console.is_terminal)
    best = found.recommended
    flags = f"--force {best.force} --dialect {best.dialect}"
    advice = Text(f"recommended: {flags} ({best.because})", style="bold")
    console.print(advice, soft_wrap=not console.is_terminal)


@contextmanager
def _progress(model: Model) -> Iterator[Callable[[str], None]]:
    """Says what it costs before the first call; a terminal shows how far it is."""
    spec, questions = f"{model.name}:{model.model}", planned(model)
    say(
        f"probe: {len(questions)} calls to {spec}, short ones but for one of about 5,000 tokens; "
        "what it refuses is asked twice"
    )
    console = Console(stderr=True, highlight=False)
    with console.status(Text(sanitize(f"asking {spec}"))) as line:

        def answered(name: str) -> None:
            done = f"{questions.index(name) + 1} of {len(questions)} done"
            line.update(Text(sanitize(f"asking {spec}: {done}")))

        yield answered

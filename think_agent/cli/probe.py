"""The command `think-agent probe`: a table of the features that an endpoint supports."""

from dataclasses import asdict
from json import dumps

import click

from ..evaluation.tables import Section, show_sections
from ..probe.asking import probe
from ..probe.report import QUESTIONS
from .choosing import REAL_PROVIDERS, ModelCommand, choose_model, model_flags
from .options import config_flags, output_option
from .screen import Screen, say

EXIT_CODES = "exit codes: 0 there is a table, 1 no answer came, 2 a flag is wrong"


@click.command(cls=ModelCommand, epilog=EXIT_CODES)
@model_flags(default="ollama", providers=REAL_PROVIDERS)
@output_option("--json", is_flag=True, help="print one JSON object and nothing else")
@config_flags
@click.pass_context
def command(ctx: click.Context, /, json: bool, **_: object) -> None:
    """Ask an endpoint what it really does. That is: tools, forcing, schemas, streaming."""
    if ctx.params["provider"].partition(":")[0] in ("auto", "offline"):
        raise click.UsageError("--provider: name a real one, there is nothing else to probe")
    model = choose_model(ctx)
    spec = f"{model.name}:{model.model}"
    say(
        f"probe: up to {len(QUESTIONS)} calls to {spec}, one of about 5,000 tokens; "
        "a refusal is asked twice"
    )
    found = probe(model)
    if json:
        print(dumps(asdict(found)))
        return
    rows = [("what", "result"), *[(row.name, row.text) for row in found.rows]]
    best = found.recommended
    advice = f"recommended: --force {best.force} --dialect {best.dialect} ({best.because})"
    remark = "one try each; silently ignored: taken without an error, and not done"
    show_sections([Section(spec, remark, rows), Section("", advice)], Screen())

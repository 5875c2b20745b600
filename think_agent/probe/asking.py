"""Does an endpoint do what it says? `think-agent probe` asks a handful of questions and prints a
table.

Rule 1: asking and judging are apart. `observe` asks a Model the questions, by Requests alone; what
        the answers mean is in `probe_report.py`.
Rule 2: an error is a finding, and the probe goes on. Only the plain question must be answered:
        where it fails (no server, a wrong key), the rest would, too, and its error is the probe's.
Rule 3: a tool choice that the provider is known not to take is not sent; one that the kit learned
        on the way is forgotten before each question, so that each gets its own answer.

The edge: one try a row. What a small model did once it may do otherwise the next time.
"""

import argparse
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..cli.console import printable, say
from ..cli.main import add_model_flags, choose_model
from ..cli.options import UserError, add_flag
from ..errors import ModelError
from ..messages import Assistant, Json
from ..model import Model, Wrapper
from ..providers.base import Provider
from ..streaming import Delta
from .report import QUESTIONS, ROWS, Advice, Result, Row, Seen, judge, recommend


def planned(model: Model) -> list[str]:
    """The questions that this model will be asked: all but the choices it is known not to take."""
    return [name for name in QUESTIONS if name not in _never_sent(_refusals(model))]


def observe(model: Model, answered: Callable[[str], None] | None = None) -> dict[str, Seen]:
    """Ask. `answered` hears of each question that is done. Raises ModelError when not even the
    plain one is answered, which is the first.
    """
    refusals = _refusals(model)
    never = _never_sent(refusals)
    seen = {name: Seen(refused="") for name in never}
    for name in planned(model):
        refusals.clear()
        refusals |= never
        try:
            seen[name] = _ask(model, name)
        except ModelError as error:
            if name == "plain":
                raise
            seen[name] = Seen(error=str(error))
        if name in refusals:
            seen[name] = replace(seen[name], refused=refusals[name])
        if answered:
            answered(name)
    return seen


def _ask(model: Model, name: str) -> Seen:
    if name != "stream":
        return Seen(model.complete(QUESTIONS[name]))
    reply, pieces = None, []
    for event in model.stream(QUESTIONS[name]):
        match event:
            case Delta(kind="answer", text=text):
                pieces.append(text)
            case Assistant():
                reply = event
    return Seen(reply, pieces=tuple(pieces))


def _refusals(model: Model) -> dict[str, str]:
    """The provider's own memory of refused choices (`Provider.refused`); other models have none."""
    while isinstance(model, Wrapper):
        model = model.inner
    return model.refused if isinstance(model, Provider) else {}


def _never_sent(refusals: Mapping[str, str]) -> dict[str, str]:
    return {kind: words for kind, words in refusals.items() if not words}


# The command.


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of `think-agent probe`."""
    parser.epilog = "exit codes: 0 there is a table, 1 nobody answered, 2 a flag is wrong"
    add_model_flags(parser, default="ollama")
    add_flag(parser, "--json", action="store_true", help="print one JSON object and nothing else")


def main(args: argparse.Namespace) -> int:
    """Probe the endpoint that the flags name, and print what was found."""
    if args.provider.partition(":")[0] in ("auto", "offline"):
        raise UserError(f"--provider {args.provider}: name a real one, there is nothing to probe")
    model = choose_model(args.provider, args.model, args.base_url)
    with _progress(model) as answered:
        rows = judge(observe(model, answered))
    advice = recommend(rows)
    if args.json:
        print(json.dumps(as_json(model, rows, advice)))
        return 0
    console = Console(highlight=False)
    for line in table(model, rows, advice, plain=not console.is_terminal):
        console.print(line, soft_wrap=not console.is_terminal)
    return 0


@contextmanager
def _progress(model: Model) -> Iterator[Callable[[str], None]]:
    """Says what it costs before the first call; a terminal shows how far it is."""
    spec, questions = f"{model.name}:{model.model}", planned(model)
    say(
        f"probe: {len(questions)} calls to {spec}, short ones but for one of about 5,000 tokens; "
        "what it refuses is asked twice"
    )
    console = Console(stderr=True, highlight=False)
    with console.status(Text(printable(f"asking {spec}"))) as line:

        def answered(name: str) -> None:
            done = f"{questions.index(name) + 1} of {len(questions)} done"
            line.update(Text(printable(f"asking {spec}: {done}")))

        yield answered


def as_json(model: Model, rows: Sequence[Row], advice: Advice) -> Json:
    """What `--json` prints."""
    return {
        "provider": model.name,
        "model": model.model,
        "rows": [asdict(row) for row in rows],
        "recommended": asdict(advice),
    }


STYLES: dict[Result, str] = {"yes": "green", "unknown": "dim"}


def table(
    model: Model, rows: Sequence[Row], advice: Advice, *, plain: bool
) -> Iterator[Text | Table]:
    """What is printed: one line a row, which wraps on a terminal and not in a pipe."""
    yield Text(printable(f"{model.name}:{model.model}"), style="bold")
    grid = Table.grid(padding=(0, 2))
    width = max(map(len, ROWS)) + 2
    for row in rows:
        text = Text(printable(row.text), style=STYLES.get(row.result, "yellow"))
        grid.add_row(row.name, text)
        if plain:
            yield Text(row.name.ljust(width)).append_text(text)
    if not plain:
        yield grid
    flags = f"--force {advice.force} --dialect {advice.dialect}"
    yield Text(f"recommended: {flags} ({advice.because})", style="bold")

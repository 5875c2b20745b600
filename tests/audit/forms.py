"""The forms in which the audit shows a run, as texts."""

import io
import json
import re

from rich.console import Console

from think_agent.audit import report, to_html, to_json_report
from think_agent.audit.report import Step
from think_agent.cli.audit import show_report


def to_text(made) -> str:
    out = io.StringIO()
    show_report(made, Console(file=out, highlight=False))
    return out.getvalue()


def text_in(page):
    return " ".join(re.sub(r"<[^>]*>", " ", page.partition("<body>")[2]).split())


def in_each_form(entries, **options):
    """The report, and the text of each of its forms."""
    made = report(entries, **options)
    data = json.dumps(to_json_report(made))
    return made, {"page": text_in(to_html(made)), "json": data, "text": to_text(made)}


def steps(made):
    return [step for turn in made.turns for step in turn.entries if isinstance(step, Step)]

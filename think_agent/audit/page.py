"""The audit as one HTML page: it needs no network, runs no script, and can be mailed or printed.

Rule 1: text becomes markup in the templates alone, where jinja2 escapes all of it, after `sanitize`
        has written control characters out (`_finalize`): no text of a model or a tool can be
        anything but text. Nothing here makes markup.
Rule 2: the page says so itself: its content security policy allows its own style sheet, and no
        script, image or request.
Rule 3: what is shown by place or color is also said in words, for screen readers and for paper.
Rule 4: the story stands first: a line for each decision. What led to it is one click away.

The look is in page.css, the structure in the templates; this module prepares what they show.
"""

import json
from functools import cache
from pathlib import Path
from typing import Any

from ..messages import to_json
from ..text import sanitize, shorten
from ..wire.json_reading import json_value
from . import words
from .report import Note, Report, Step, Turn


def chapters(turn: Turn) -> list[list[Step | Note]]:
    """The entries of a turn, by the decisions that they led to: these are of the last step in each.
    The last chapter may have none.
    """
    found: list[list[Step | Note]] = [[]]
    for entry in turn.entries:
        found[-1].append(entry)
        if isinstance(entry, Step) and any(call.decision for call in entry.calls):
            found.append([])
    return found


def to_html(report: Report) -> str:
    """The page of a run."""
    return rendered("run.html.j2", report=report)


def rendered(file: str, **shown: Any) -> str:
    """The page that a template makes of what it shows."""
    page: str = _templates().get_template(file).render(words=words, **shown)
    return page.lstrip()


@cache
def _templates() -> Any:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined  # only a page needs them

    templates = Environment(
        autoescape=True,
        finalize=_finalize,
        loader=FileSystemLoader(Path(__file__).parent),
        undefined=StrictUndefined,
    )
    templates.filters |= {
        "chapters": chapters,
        "json": _json,
        "json_value": json_value,
        "raw": to_json,
        "shorten": shorten,
    }
    return templates


def _finalize(value: object) -> object:
    """What `{{ value }}` shows, before it is escaped; markup is what the template itself made."""
    return value if hasattr(value, "__html__") else sanitize(str(value))


def _json(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False)

"""Makes the HTML page of an audit. It needs no network, runs no script and can be printed.

Rule 1: only the templates make markup. There `sanitize` writes control characters out and jinja2
        escapes every text (`_finalize`). So what a model or a tool wrote can only be text.
Rule 2: the content security policy of the page allows its own style sheet, and no script, image or
        request.
Rule 3: what is shown by place or color is also said in words, for screen readers and for paper.
Rule 4: the story comes first: one line for each decision. One click opens what led to it.

The look is in page.css, the structure in the templates. This module prepares what they show.
"""

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from ..messages import to_json
from ..outcome import pluralize
from ..text import sanitize, shorten
from ..wire.json_reading import json_value
from . import words
from .report import Call, Note, Report, Step, Turn


def chapters(turn: Turn) -> Iterator[list[Step | Note]]:
    """The entries of a turn, cut after each step with a decision. The last may have none."""
    chapter: list[Step | Note] = []
    for entry in turn.entries:
        chapter.append(entry)
        if isinstance(entry, Step) and entry.decisions:
            yield chapter
            chapter = []
    if chapter:
        yield chapter


def verdict(call: Call) -> str:
    """What became of a decision, in a word: `✓ approve`, or `✗ refused, not run: approve`."""
    status = words.STATUS[call.status]
    if not call.verb:
        return status
    if call.status == "done":
        return f"✓ {call.verb}"
    return f"{status}: {call.verb}"


def about(call: Call) -> str:
    """What a decision is about: its arguments without the verb, on one line."""
    if not call.arguments:
        return ""
    return words.brief(call.arguments, [call.verb])


def to_html(report: Report) -> str:
    """The page of a run."""
    return rendered("run.html.j2", report=report)


def rendered(file: str, **shown: Any) -> str:
    """The page that a template makes of these values."""
    page: str = _templates().get_template(file).render(words=words, pluralize=pluralize, **shown)
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
        "about": about,
        "chapters": chapters,
        "json": _json,
        "json_value": json_value,
        "raw": to_json,
        "shorten": shorten,
        "verdict": verdict,
    }
    return templates


def _finalize(value: object) -> object:
    """What `{{ value }}` shows, before it is escaped; markup of the template itself is kept."""
    return value if hasattr(value, "__html__") else sanitize(str(value))


def _json(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False)

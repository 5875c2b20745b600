"""The audit as one HTML page: it needs no network, runs no script, and can be mailed or printed.

Rule 1: text becomes markup in the template alone, where jinja2 escapes all of it, after `sanitize`
        has written control characters out (`_finalize`): no text of a model or a tool can be
        anything but text. Nothing here makes markup.
Rule 2: the page says so itself: its content security policy allows its own style sheet, by hash,
        and nothing else.
Rule 3: what is shown by place or color is also said in words, for screen readers and for paper.

The look is in page.css, the structure in page.html.j2; this module prepares what they show.
"""

import base64
import hashlib
import json
from dataclasses import asdict
from pathlib import Path

from ..messages import MESSAGES, Json, to_json
from ..text import json_value, sanitize, shorten
from . import words
from .reading import Entry
from .report import Report

HERE = Path(__file__).parent


def to_html(report: Report) -> str:
    """The whole page."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined  # only a page needs them
    from markupsafe import Markup

    files = FileSystemLoader(HERE)
    made = Environment(autoescape=True, finalize=_finalize, loader=files, undefined=StrictUndefined)
    made.filters.update(json=_json, json_value=json_value, raw=_raw, shorten=shorten)
    style = (HERE / "page.css").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    shown = {"report": report, "words": words, "style": Markup(style), "digest": digest}
    return made.get_template("page.html.j2").render(shown).lstrip()


def _finalize(value: object) -> object:
    """What `{{ value }}` shows, before it is escaped; markup is what the template itself made."""
    return value if hasattr(value, "__html__") else sanitize(str(value))


def _raw(entry: Entry) -> Json:
    return to_json(entry) if isinstance(entry, MESSAGES) else asdict(entry)


def _json(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False)

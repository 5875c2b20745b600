"""Creates an audit's HTML page. It needs no network, runs no script and can be printed.

Rule 1: only the templates produce markup. They escape control characters (`sanitize`) and every
        text (`_finalize`). So what a model or a tool wrote can only be text.
Rule 2: the page's content security policy allows only its own style sheet: no script, image or
        request.
Rule 3: anything shown by position or color is also there as text, for screen readers and for paper.
Rule 4: the story comes first, with one line per decision. One click shows what led to it.
Rule 5: templates only print values. All decisions are made here.

The look is in page.css, the structure in the templates.
"""

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from ..messages import to_json
from ..outcome import pluralize
from ..text import sanitize, shorten
from ..wire.json_reading import json_value
from . import words
from .explain import Explained
from .report import CallReport, Note, RunReport, Step, TurnReport

LONGEST_TITLE = 120  # characters; a longer request is also shown in full
SCRIPTED = ("offline:", "scripted:")
# Colors, by code. No color means neither good nor bad: a denial is also done.
STATUS_TONES = {"done": "", "not run": "aside", "waits": "aside"}
EXIT_TONES = {"signal": "good", "silence": "aside", "needs_human": "aside", None: "aside"}
BAD = "bad"  # any other


class Chip(NamedTuple):
    """A decision in a word or two, and its color."""

    text: str
    tone: str


class StepScreen(NamedTuple):
    """One step of the second view, which shows one step per screen. `number` counts from 1."""

    number: int
    name: str
    shown: Explained
    begins_turn: bool


def to_html(report: RunReport, *, at_steps: bool = False) -> str:
    """The page of a run. It opens on the story or, with `at_steps`, on its first step."""
    return render_page(
        "run.html.j2",
        report=report,
        about=describe_report(report),
        screens=list(screens(report)),
        at_steps=at_steps,
    )


def describe_report(report: RunReport) -> str:
    """The subject of the page on one line: the agent, the models, the run and its date."""
    models: list[str] = report.figures["models"]
    header = report.header
    facts = [str(header.get("name", "")), ", ".join(models)]
    if models and all(model.startswith(SCRIPTED) for model in models):
        facts.append("scripted: no language model was at work")
    if "id" in header:
        facts.append(f"run {str(header['id'])[:8]}")
    if "created" in header:
        facts.append(f"begun {str(header['created'])[:19].replace('T', ' ')} UTC")
    return words.join_facts(*facts)


def make_title(turn: TurnReport) -> str:
    """A turn's request, on a line or two."""
    text = turn.request.text if turn.request else ""
    return shorten(text, LONGEST_TITLE) or "(no request)"


def is_cut(turn: TurnReport) -> bool:
    """Is the turn's title only a part of its request?"""
    return turn.request is not None and make_title(turn) != turn.request.text


def chapters(turn: TurnReport) -> Iterator[list[Step | Note]]:
    """A turn's entries, split after each step with a decision. The last part may have none."""
    chapter: list[Step | Note] = []
    for entry in turn.entries:
        chapter.append(entry)
        if isinstance(entry, Step) and entry.decisions:
            yield chapter
            chapter = []
    if chapter:
        yield chapter


def steps(entries: list[Step | Note]) -> list[Step]:
    """The entries that are steps."""
    return [entry for entry in entries if isinstance(entry, Step)]


def notes(entries: list[Step | Note], *kinds: str) -> list[Note]:
    """The entries that are notes of these kinds."""
    return [entry for entry in entries if isinstance(entry, Note) and entry.kind in kinds]


def alarms(turn: TurnReport) -> list[tuple[Step, CallReport, Note]]:
    """The alarms about calls of the turn, each with its place."""
    return [
        (step, call, event)
        for step in steps(turn.entries)
        for call in step.calls
        for event in call.events
        if event.kind == "alarm"
    ]


def chip(call: CallReport) -> Chip:
    """The outcome of a decision: `approve`, `✗ refused, not run: approve`, `done`."""
    tone = STATUS_TONES.get(call.status, BAD)
    if call.status == "done":
        return Chip(call.verb or "done", tone)
    text = words.STATUS[call.status]
    if call.verb:
        text = f"{text}: {call.verb}"
    return Chip(text, tone)


def show_status(call: CallReport) -> Chip:
    """What happened to a call, as on the console."""
    return Chip(words.STATUS[call.status], STATUS_TONES.get(call.status, BAD))


def what(call: CallReport) -> str:
    """The subject of a decision: its arguments without the verb, on one line."""
    if not call.arguments:
        return ""
    return words.brief(call.arguments, [call.verb])


def has_history(call: CallReport) -> bool:
    """Is there more to show about a call than its result?"""
    if len(call.events) > 1 or call.status == "refused":
        return True
    return any(event.is_warning for event in call.events)


def tone(turn: TurnReport) -> str:
    """The color of a turn's headline. It's never the good one if the turn has an alarm."""
    if alarms(turn):
        return ""
    return exit_tone(turn.exit)


def exit_tone(exit: str | None) -> str:
    """The color of an exit."""
    return EXIT_TONES.get(exit, BAD)


# The second view: one step per screen, without a script. Each step has a radio button, so the arrow
# keys work, and the style sheet shows the chosen one.


def screens(report: RunReport) -> Iterator[StepScreen]:
    """The steps of the second view."""
    turn = 0
    for number, shown in enumerate(report.steps, 1):
        name = f"Step {number} of {len(report.steps)}: {shown.title}"
        yield StepScreen(number, name, shown, shown.turn != turn)
        turn = shown.turn


def screen_style(screens: list[StepScreen], at_steps: bool) -> str:
    """The style that shows one screen or the story. The chosen radio button decides, or else the
    link's target (`page.html#at-7`). With neither, it's the first step if the page opens
    `at_steps`, and otherwise the story.
    """
    chosen = "body:has(.stepper input:checked)"
    none_chosen = "body:not(:has(.stepper input:checked))"
    no_target = f"{none_chosen}:not(:has(:target))"
    story = ":is(nav, .turn, .look, .checked, footer)"
    shown = [f"{none_chosen}:has(#at-{one.number}:target) #screen-{one.number}" for one in screens]
    shown += [f"body:has(#at-{one.number}:checked) #screen-{one.number}" for one in screens]
    hidden = [
        f"{chosen}:not(:has(#at-0:checked)) {story}",
        f"{none_chosen}:has(.stepper input:target):not(:has(#at-0:target)) {story}",
    ]
    current = [
        ".stepper label:has(:checked)",
        ".stepper:not(:has(:checked)) label:has(:target)",
        f"{no_target} .stepper label.opening",
    ]
    if at_steps:
        shown.append(f"{no_target} #screen-1")
        hidden.append(f"{no_target} {story}")
    return (
        "@supports selector(:has(*)) { @media screen { .screen { display: none; }\n"
        f"{', '.join(shown)} {{ display: block; }}\n"
        f"{', '.join(hidden)} {{ display: none; }}\n"
        f"{', '.join(current)} {{ background: var(--ink); color: var(--paper); }} }} }}"
    )


# From values to a page.


def render_page(file: str, **shown: Any) -> str:
    """Render a template with these values."""
    page: str = _templates().get_template(file).render(words=words, **shown)
    return page.lstrip()


@cache
def _templates() -> Any:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined  # only a page needs it

    templates = Environment(
        autoescape=True,
        finalize=_finalize,
        loader=FileSystemLoader(Path(__file__).parent),
        undefined=StrictUndefined,
    )
    templates.filters |= {
        "alarms": alarms,
        "chapters": chapters,
        "chip": chip,
        "exit_tone": exit_tone,
        "has_history": has_history,
        "is_cut": is_cut,
        "json": _json,
        "json_value": json_value,
        "notes": notes,
        "pluralize": pluralize,
        "raw": to_json,
        "screen_style": screen_style,
        "shorten": shorten,
        "status": show_status,
        "steps": steps,
        "title_of": make_title,
        "tone": tone,
        "what": what,
    }
    return templates


def _finalize(value: object) -> object:
    """What `{{ value }}` shows, before escaping. The template's own markup is kept."""
    return value if hasattr(value, "__html__") else sanitize(str(value))


def _json(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False)

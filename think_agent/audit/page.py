"""The audit as one HTML page: it needs no network, runs no script, and can be mailed or printed.

Rule 1: text becomes markup in one place, `tag`. Whatever is not an Html is escaped there, with
        control characters written out, so no text of a model or a tool can be anything but text.
Rule 2: the page says so itself: its content security policy allows its own style sheet, by hash,
        and nothing else.
Rule 3: what is shown by place or color is also said in words, for screen readers and for paper.

The look is in page.html; this module fills it in.
"""

import base64
import hashlib
import html
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from string import Template
from typing import Any

from ..cli.console import printable
from ..messages import Usage, to_json
from ..trail import How
from .layout import (
    EXITS,
    HOW,
    STATUS,
    Action,
    Note,
    Report,
    Step,
    Thought,
    Turn,
    asked,
    behind,
    duration,
    tokens,
    verdict_text,
    warnings,
)
from .redaction import parsed

PAGE = Path(__file__).with_name("page.html")
LONG = 1500  # characters; a longer text scrolls in a box of its own
CARRIED_OUT = {
    "tool_choice": "enforced by tool choice",
    "schema": "enforced by schema",
    "prompt": "asked in words",
    "ignored": "ignored",
}


LEGEND: dict[How, str] = {
    "forced": "the provider was made to call think, and did",
    "schema": "the sampler could write nothing else",
    "gated": "an action without a thought was refused, then the model thought",
    "volunteered": "the model called think by itself",
}


class Html(str):
    """Text that is markup already. Only `tag` and `joined` make it."""

    __slots__ = ()


def tag(name: str, *content: str, **attributes: str | int | None) -> Html:
    """An element. Content and attributes are escaped here, unless they are Html; an attribute that
    is None is left out. `class_` is the attribute `class`, `aria_label` is `aria-label`.
    """
    named = ((key.rstrip("_").replace("_", "-"), value) for key, value in attributes.items())
    written = "".join(f' {key}="{_escaped(str(v))}"' for key, v in named if v is not None)
    return Html(f"<{name}{written}>{joined(content)}</{name}>")


def joined(content: Iterable[str]) -> Html:
    """One after the other, escaped where they are not Html."""
    return Html("".join(c if isinstance(c, Html) else _escaped(c) for c in content))


def _escaped(text: str) -> Html:
    return Html(html.escape(printable(text)))


def to_html(report: Report) -> str:
    """The whole page."""
    page = PAGE.read_text(encoding="utf-8")
    style = page.partition("<style>")[2].partition("</style>")[0]
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    body = [
        tag("header", *_summary(report)),
        tag(
            "main",
            *_requests(report),
            *_warnings(report),
            *(_turn(turn, report) for turn in report.turns),
        ),
        tag("footer", *_footer(report)),
    ]
    # One pass: a "$" in what is filled in stays what it is.
    return Template(page).substitute(
        policy=_escaped(policy), title=_escaped(_title(report)), body="\n".join(body)
    )


def _title(report: Report) -> str:
    return f"Audit: {_title_of(report.turns[0])}" if report.turns else "Audit of a run"


def _summary(report: Report) -> Iterator[Html]:
    yield tag("h1", "Audit of a run")
    named = [f"Run {report.header['id']}"] if report.header.get("id") else []
    created = [f"begun {_when(report.header['created'])}"] if report.header.get("created") else []
    if named or created:
        yield tag("p", " · ".join([*named, *created]), class_="id")
    if report.turns:
        yield _exit(report.turns[-1].exit)
    usage = report.usage
    facts = [
        ("Model", ", ".join(report.models) or "not said", ""),
        ("Actions behind a thought", _of(report), behind(report)),
        ("Model calls", str(len(report.steps)), ""),
        ("Tokens", f"{usage.input_tokens:,} in", _more_tokens(usage)),
        ("Time", duration(report.seconds) or "not recorded", ""),
    ]
    yield tag("dl", *(_fact(*fact) for fact in facts), class_="facts")


def _more_tokens(usage: Usage) -> str:
    cached = f", {usage.cached_tokens:,} of the input cached" if usage.cached_tokens else ""
    return f"{usage.output_tokens:,} out{cached}"


def _of(report: Report) -> str:
    return f"{report.behind_a_thought} of {len(report.actions)}"


def _when(at: object) -> str:
    """An ISO time as a person reads it; anything else as it is."""
    return re.sub(r"^(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d).*(?:Z|\+00:00)$", r"\1 \2 UTC", str(at))


def _fact(name: str, value: str, more: str) -> Html:
    small = [tag("small", more)] if more else []
    return tag("div", tag("dt", name), tag("dd", value, *small))


def _exit(exit: str | None) -> Html:
    return tag("p", _exit_name(exit), EXITS.get(exit or "", ""), class_="exit")


def _exit_name(exit: str | None) -> Html:
    good = "good" if exit in ("signal", "silence") else "bad"
    return tag("strong", f"Exit: {exit}" if exit else "Not ended", class_=good)


def _warnings(report: Report) -> Iterator[Html]:
    found = list(warnings(report))
    if found:
        lines = (
            tag("li", *([_link(f"step-{step}", f"Step {step}"), ": "] if step else []), text)
            for step, text in found
        )
        title = tag("h2", "Worth a look", id="look")
        yield tag("section", title, tag("ul", *lines), class_="look", aria_labelledby="look")


def _requests(report: Report) -> Iterator[Html]:
    """A way to each request of a conversation, with how it ended."""
    if len(report.turns) > 1:
        items = (
            tag("li", _link(f"request-{turn.number}", _title_of(turn)), _exit_name(turn.exit))
            for turn in report.turns
        )
        yield tag("nav", tag("ol", *items), class_="requests", aria_label="Requests")


def _title_of(turn: Turn) -> str:
    words = " ".join(turn.request.text.split()) if turn.request else ""
    return words[:80] or f"Request {turn.number}"


def _link(target: str, text: str) -> Html:
    return tag("a", text, href=f"#{target}")


class _Rail:
    """The time line of a turn. It is marked between a thought and the last action it covers."""

    def __init__(self, turn: Turn) -> None:
        calls = [call for step in turn.steps for call in step.calls]
        self._left = Counter(c.thought for c in calls if isinstance(c, Action) and c.thought)
        self._open: int | None = None

    def row(self, kind: str, dot: str, *content: str, thought: int = 0, behind: int = 0) -> Html:
        """One row: `thought` is the thought that it shows, `behind` the one that covers it."""
        classes = ["row", kind, *(["behind"] if behind else []), *(["in"] if self._open else [])]
        if thought and self._left[thought]:
            self._open = thought
        if behind:
            self._left[behind] -= 1
            self._open = self._open if self._left[behind] else None
        classes += ["out"] if self._open else []
        mark = [tag("span", dot, class_="dot", aria_hidden="true")] if dot else []
        return tag("div", *mark, *content, class_=" ".join(classes))


def _turn(turn: Turn, report: Report) -> Html:
    rail = _Rail(turn)
    items = []
    if turn.request:
        said = tag("blockquote", _text(turn.request.text), class_="request")
        items.append(tag("li", rail.row("person", "?", said, _raw([to_json(turn.request)]))))
    for entry in turn.entries:
        match entry:
            case Step():
                items.append(
                    tag("li", *_step(entry, rail, turn, report), id=f"step-{entry.number}")
                )
            case Note():
                items.append(tag("li", _note(entry, rail)))
    title = tag("h2", f"Request {turn.number}", id=f"request-{turn.number}")
    line = tag("ol", *items, class_="line")
    end = tag("div", _exit(turn.exit), class_="ending")
    return tag("section", title, line, end, class_="turn", aria_labelledby=f"request-{turn.number}")


def _note(note: Note, rail: _Rail) -> Html:
    speaker = {"kit": "The kit said: ", "person": "A person decided: ", "file": ""}[note.who]
    words = tag("div", speaker, _text(note.text), class_="aside")
    kind = "warning" if note.is_warning else "note"
    return rail.row(kind, "!" if note.is_warning else "·", words, _raw([note.raw]))


def _step(step: Step, rail: _Rail, turn: Turn, report: Report) -> Iterator[Html]:
    yield rail.row("head", str(step.number), *_head(step, report))
    reply = step.reply
    if reply.thinking.strip():
        reasoning = tag(
            "div", tag("h5", "Native reasoning"), _text(reply.thinking), class_="thinking"
        )
        yield rail.row("", "", reasoning)
    if reply.text.strip():
        is_answer = step is turn.steps[-1] and turn.answer
        label = tag("div", tag("h4", "Answer" if is_answer else "Said"), class_="label")
        words = tag("div", label, _text(reply.text), class_="card")
        yield rail.row("answer" if is_answer else "said", "✓" if is_answer else "", words)
    for call in step.calls:
        match call:
            case Thought():
                yield _thought(call, rail)
            case Action():
                yield _action(call, rail)
    found = [tag("li", warning) for warning in step.warnings]
    warns = [tag("ul", *found, class_="warns")] if found else []
    yield rail.row("tail" if found else "tail bare", "", *warns, _raw(step.raw))


def _head(step: Step, report: Report) -> Iterator[Html]:
    yield tag("h3", f"Step {step.number}")
    reply = step.reply
    carried_out = CARRIED_OUT.get(reply.enforced or "")
    told = asked(reply) + (f" ({carried_out})" if carried_out else "")
    parts = [
        f"at {duration(step.elapsed)}" if step.elapsed is not None else "",
        f"took {duration(step.seconds)}" if step.seconds is not None else "",
        tokens(reply.usage) if reply.usage.input_tokens or reply.usage.output_tokens else "",
        f"{reply.provider}:{reply.model}" if len(report.models) > 1 else "",
        told if reply.tool_choice != "auto" else "",
    ]
    yield tag("p", " · ".join(part for part in parts if part), class_="meta")


def _thought(thought: Thought, rail: _Rail) -> Html:
    signal = "signals the exit" if thought.should_continue is False else ""
    notes = [HOW[thought.how], signal, "recovered from text" if thought.recovered else ""]
    label = tag(
        "div",
        tag("h4", f"Thought {thought.number}"),
        tag("span", " · ".join(note for note in notes if note), class_="meta"),
        class_="label",
    )
    card = tag("div", label, _text(thought.text or "(an empty thought)"), class_="card")
    anchor = tag("div", card, id=f"thought-{thought.number}")
    return rail.row("thought", " ", anchor, thought=thought.number)


def _action(action: Action, rail: _Rail) -> Html:
    call = action.call
    mark, words = STATUS[action.status]
    bad = "bad" if action.status != "done" else "good"
    if action.thought:
        link = _link(f"thought-{action.thought}", f"thought {action.thought}")
        why = tag("span", "behind ", link, f", {HOW[action.how or 'volunteered']}", class_="why")
    else:
        why = tag("span", "behind no thought", class_="meta")
    recovered = [tag("span", "recovered from text", class_="meta")] if call.recovered else []
    time = duration(action.seconds)
    took = [tag("span", time, class_="meta")] if time else []
    title = tag("h4", tag("code", call.name or "(no name)"))
    status = tag("span", f"{mark} {words}", class_=f"status {bad}")
    parts = [tag("div", title, status, *took, *recovered, why, class_="label")]
    if call.arguments != {}:
        parts.append(_value(call.arguments, "arguments"))
    if action.verdict:
        decided = tag("h5", "A person decided")
        parts.append(tag("div", decided, _text(verdict_text(action.verdict)), class_="part"))
        if action.verdict.arguments is not None:
            parts.append(_value(action.verdict.arguments, "arguments of the person"))
    if action.result:
        result = parsed(action.result)
        shown = result if isinstance(result, dict | list) else action.result
        parts.append(tag("div", tag("h5", "Result"), _value(shown, "result"), class_="part"))
    card = tag("div", *parts, class_="card")
    return rail.row(action.status.replace(" ", "-"), mark, card, behind=action.thought or 0)


def _value(value: Any, name: str) -> Html:
    """Arguments or a result: fields where it is flat, JSON where it is deep, else text."""
    if isinstance(value, str):
        return _text(value, name)
    if isinstance(value, dict) and not any(isinstance(v, dict | list) for v in value.values()):
        fields = ((key, v if isinstance(v, str) else json.dumps(v)) for key, v in value.items())
        rows = (joined([tag("dt", key), tag("dd", _text(text, key))]) for key, text in fields)
        return tag("dl", *rows, class_="fields")
    return _json(value, name)


def _text(text: str, name: str = "text") -> Html:
    if not text:
        return tag("div", "(empty)", class_="empty")
    return tag("div", text, **_box("text", text, name))


def _json(value: Any, name: str) -> Html:
    try:
        text = json.dumps(value, indent=2, ensure_ascii=False)
    except RecursionError:
        text = "(nested too deep to be shown; it is in the file)"
    return tag("pre", text, **_box("", text, name))


def _box(kind: str, text: str, name: str) -> dict[str, str | int | None]:
    """A long text scrolls, which must be possible by keyboard, too."""
    if len(text) <= LONG:
        return {"class_": kind or None, "dir": "auto"}
    label = f"{name}, scrolls"
    return {
        "class_": f"{kind} long".strip(),
        "dir": "auto",
        "tabindex": 0,
        "role": "region",
        "aria_label": label,
    }


def _raw(messages: Iterable[Any]) -> Html:
    shown = (_json(message, "raw JSON") for message in messages)
    return tag("details", tag("summary", "Raw JSON"), *shown, class_="raw")


def _footer(report: Report) -> Iterator[Html]:
    yield tag("h2", "How a thought came")
    yield tag("dl", *(joined([tag("dt", HOW[how]), tag("dd", LEGEND[how])]) for how in HOW))
    if report.header:
        yield tag(
            "details",
            tag("summary", "Header of the file"),
            _json(report.header, "header"),
            class_="raw",
        )

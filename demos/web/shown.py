"""What the page shows: messages as rows of text, and questions as cards.

Rule 1: a row has a kind, a text, and the complete text if the text is shortened (`whole`). The page
        shows all of it as text, never as markup. Kinds and wording are those of the terminal
        (`cli/console.py`).
Rule 2: a card shows what will run, like the card at the terminal: each value as JSON, with
        invisible characters escaped.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from typing import Any, NamedTuple

from think_agent import AskHuman, Delta, Notice
from think_agent import messages as said
from think_agent.audit import words
from think_agent.audit.reading import Unreadable
from think_agent.messages import THINK_NAME, Json
from think_agent.running import Event
from think_agent.text import json_text, sanitize, write_out
from think_agent.think import is_remark, read_carried, read_thought
from think_agent.tools import signature


class Line(NamedTuple):
    """A row: its kind, its text, and the whole of it if the text is only a part."""

    kind: str
    text: str
    whole: str = ""


def event_as_json(event: Event) -> Json:
    """An event of a run. A piece of a reply belongs to the row that is `forming` in its place."""
    if isinstance(event, Delta):
        place = f"{event.kind} {event.index}"
        text = sanitize(event.text)
        return {"forming": place, "kind": event.kind, "name": sanitize(event.name), "text": text}
    if isinstance(event, Notice):
        return {"rows": [{"kind": "notice", "text": sanitize(event.text)}]}
    return {"rows": rows(event)}


def rows(entry: object) -> list[Json]:
    """A message, or a line that cannot be read, as rows in the order in which they are read. Some
    messages have none.
    """
    found: list[Json] = []
    for line in _LINES.get(type(entry), _no_lines)(entry):
        text, whole = sanitize(line.text).strip(), sanitize(line.whole).strip()
        if text:
            row = {"kind": line.kind, "text": text}
            found.append({**row, "whole": whole} if whole not in ("", text) else row)
    return found


def _no_lines(entry: Any) -> Iterator[Line]:
    yield from ()


def _of_user(message: said.User) -> Iterator[Line]:
    kind = "request" if message.kind == "person" else "question"
    yield Line(kind, message.text)


def _of_reply(reply: said.Assistant) -> Iterator[Line]:
    yield Line("thinking", reply.thinking)
    yield Line("commentary", reply.commentary)
    if is_remark(reply):
        yield Line("commentary", reply.text)
    for call in reply.tool_calls:
        if call.name == THINK_NAME:
            yield Line("thought", read_thought(call))
        else:
            yield Line("thought", read_carried(call))
            yield Line("call", signature(call))
    if not is_remark(reply):
        yield Line("answer", reply.text)


def _of_result(result: said.ToolResult) -> Iterator[Line]:
    if result.name == THINK_NAME:
        return
    if result.is_error:
        yield Line("error", result.content)
    else:
        yield Line("result", words.gave(result.content, {}), result.content)


def _of_verdict(verdict: said.Verdict) -> Iterator[Line]:
    yield Line("verdict", words.say_decision(verdict))


def _of_check(check: said.Checked) -> Iterator[Line]:
    kind = "met" if check.missing is None else "unmet"
    yield Line(kind, words.say_check(check))


def _of_pause(pause: said.Paused) -> Iterator[Line]:
    yield Line("paused", words.say_pause(pause))


def _of_end(end: said.Ended) -> Iterator[Line]:
    yield Line("answer", end.answer)
    yield Line("end", words.say_end(end.exit))


def _of_damage(line: Unreadable) -> Iterator[Line]:
    text = f"Line {line.line} of the file cannot be read: {line.problem}"
    yield Line("damaged", text, f"{text}\n{line.raw}")


_LINES: Mapping[type, Callable[[Any], Iterator[Line]]] = {
    said.User: _of_user,
    said.Assistant: _of_reply,
    said.ToolResult: _of_result,
    said.Verdict: _of_verdict,
    said.Checked: _of_check,
    said.Paused: _of_pause,
    said.Ended: _of_end,
    Unreadable: _of_damage,
}


# A card.


def card(question: AskHuman) -> Json:
    """A question as the page shows it. `id` names the question in an answer. `asks` is what the
    person decides, and `keys` are the answers: what each posts, and its label; `why` says who reads
    the words that may come with one. `editable` are the arguments as JSON text, if they may be
    edited. `call` is the call as it is.
    """
    shown: Json = {
        "id": question.id,
        "call": asdict(question.call) if question.call else None,
        "asks": _name_question(question),
        "thought": write_out(question.thought),
        "remark": write_out(question.remark),
        "arguments": [],
        "as_new": None,
        "editable": None,
        "keys": _keys(question),
        "why": "Your words, if you like. The model reads them.",
    }
    if question.call is None:
        shown["why"] = "Your words, if you like. With a yes, the model reads them."
        return shown
    arguments = question.received
    if arguments is None and isinstance(question.call.arguments, dict):
        arguments = question.call.arguments
    shown["arguments"] = values(arguments or {})
    if question.as_new and isinstance(question.as_new.arguments, dict):
        shown["as_new"] = values(question.as_new.arguments)
    elif isinstance(question.call.arguments, dict):
        shown["editable"] = json_text(question.call.arguments)
    return shown


def values(arguments: Json) -> list[tuple[str, str]]:
    """The name and the value of each argument, written out."""
    return [(write_out(name), write_out(json_text(value))) for name, value in arguments.items()]


def _name_question(question: AskHuman) -> str:
    if question.call is None:
        return write_out(question.question)
    return f"Run {write_out(question.call.name)}?"


def _keys(question: AskHuman) -> list[Json]:
    """The answers to a question, each with its label. The words are those of the terminal."""
    if question.call is None:
        labels = {"yes": "Yes: continue", "no": "No: end the request"}
    elif question.is_refused:
        labels = {"yes": "Yes (it is refused)", "no": "No"}
    elif question.as_new:
        labels = {"yes": "Yes: the same again", "new": "Yes: a new one", "no": "No"}
    else:
        labels = {"yes": "Yes: run it", "no": "No"}
    return [{"value": value, "label": label} for value, label in labels.items()]

"""What the page shows: a message as rows of text.

Rule 1: a row is a kind and a text. The page shows the text as text; nothing in it is markup.
"""

from think_agent import Delta, Notice
from think_agent import messages as said
from think_agent.audit import words
from think_agent.messages import THINK_NAME, Json
from think_agent.running import Event
from think_agent.text import sanitize
from think_agent.think import is_remark, thought
from think_agent.tools import signature


def event_as_json(event: Event) -> Json:
    """An event of a run. A piece of a reply belongs to the row that is `forming` in its place."""
    if isinstance(event, Delta):
        place = f"{event.kind} {event.index}"
        return {"forming": place, "kind": event.kind, "name": event.name, "text": event.text}
    if isinstance(event, Notice):
        return {"rows": [{"kind": "notice", "text": sanitize(event.text)}]}
    return {"rows": rows(event)}


def rows(message: object) -> list[Json]:
    """A message as rows, in the order in which they are read. Some have none."""
    lines = [(kind, sanitize(text).strip()) for kind, text in _lines(message)]
    return [{"kind": kind, "text": text} for kind, text in lines if text]


def _lines(message: object) -> list[tuple[str, str]]:
    match message:
        case said.User(text, kind="person"):
            return [("request", text)]
        case said.User(text):
            return [("question", text)]
        case said.Assistant():
            return _lines_of_reply(message)
        case said.ToolResult(name="think"):
            return []
        case said.ToolResult(content=content, is_error=True):
            return [("error", content)]
        case said.ToolResult(content=content):
            return [("result", words.gave(content, {}))]
        case said.Verdict():
            return [("verdict", words.decided(message))]
        case said.Checked(name, None):
            return [("met", name.replace("_", " "))]
        case said.Checked(missing=str(missing)):
            return [("missing", missing)]
        case said.Paused():
            return [("pause", words.ended("needs_human"))]
        case said.Ended(exit, answer):
            return [("answer", answer), ("end", words.ended(exit))]
    return []


def _lines_of_reply(reply: said.Assistant) -> list[tuple[str, str]]:
    calls = [_line_of_call(call) for call in reply.tool_calls]
    first = [("thinking", reply.thinking), ("commentary", reply.commentary)]
    if is_remark(reply):
        return [*first, ("commentary", reply.text), *calls]
    return [*first, *calls, ("answer", reply.text)]


def _line_of_call(call: said.ToolCall) -> tuple[str, str]:
    if call.name == THINK_NAME:
        return "thought", thought(call)
    return "call", signature(call)

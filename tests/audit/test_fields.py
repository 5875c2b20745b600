"""No field of a foreign log is lost in silence. Each one, at any depth, is in what was read, or is
named in a warning, or may be ignored by its name (METADATA).

Recorded rows are tried, and rows made after the schema of their format. Each of their texts gets a
marked value, and then an object instead; each of their objects gets further fields: an unknown one,
and those that are read elsewhere. Of rows with the same fields only the first is tried.
"""

import json

import pytest

from tests.audit.test_atif import STEPS
from tests.audit.test_imports import READ, TEXT, WIRES, written
from tests.support.recordings import cases, load, needs_wire
from tests.support.sizes import ROOT
from tests.support.traces import needs_traces, recorded
from think_agent import Assistant, ToolCall, ToolResult, User
from think_agent.audit import read_log
from think_agent.audit.formats import METADATA
from think_agent.messages import to_json

MARK = "MARK-17"
YES_OR_NO = "is_error"  # no text is read from it
KNOWN = """args arguments attachment content function_call function_name input is_error message name
    output prompt reasoning reasoning_content refusal results summary text thinking tool_calls"""
FURTHER = ["unknown", *sorted({*KNOWN.split()} - {YES_OR_NO, *METADATA.split()})]
WHOLE = (  # how a warning begins that speaks of a whole row, or of one field that hides another
    "a row ",
    "a step ",
    "a result without a call",
    "the field 'function' of the call",
    "the field 'content beside the message'",
)
IMAGE = {"type": "image_url", "image_url": {"url": "x"}}
FUNCTION = {"name": "pay", "arguments": '{"to": "Ann"}'}
CALL = {"id": "c", "type": "function", "function": FUNCTION}
USE = {"type": "tool_use", "id": "c", "name": "pay", "input": {"to": "Ann", "all": [{"a": "b"}]}}
THOUGHT = {"type": "thinking", "thinking": "hm", "signature": "s"}
PAID = {"type": "tool_result", "tool_use_id": "c", "content": [TEXT], "is_error": True}
SAID = [
    User("Pay Ann."),
    Assistant("I pay.", "Ann first.", (ToolCall("c", "pay", {"to": "Ann"}),)),
    ToolResult("c", "pay", "paid"),
    Assistant("Paid."),
]
MADE = {
    "openai": [
        {"role": "system", "content": [TEXT, IMAGE]},
        {"role": "developer", "content": "x", "name": "n"},
        {"role": "user", "content": [TEXT, IMAGE]},
        {"role": "assistant", "content": [TEXT], "refusal": "no", "reasoning_content": "hm"},
        {"role": "assistant", "content": "x", "reasoning": "hm", "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "c", "content": [TEXT]},
        {"role": "user", "type": "mode", "content": "x"},
    ],
    "anthropic": [
        {"role": "user", "content": [TEXT]},
        {"role": "assistant", "content": [THOUGHT, TEXT, USE]},
        {"role": "assistant", "content": [{"type": "redacted_thinking", "data": "x"}]},
        {"role": "user", "content": [PAID, TEXT]},
    ],
    "ollama": [
        {"role": "assistant", "content": "x", "thinking": "hm", "tool_calls": [CALL]},
        {"role": "tool", "tool_name": "pay", "tool_call_id": "c", "content": "x"},
    ],
    "responses": READ["items of the Agents SDK"][0],
    "claude-code": READ["Claude Code"][0],
    "atif": [
        *STEPS,
        {"step_id": 5, "source": "system", "message": "", "observation": {"results": []}},
        {"step_id": 6, "source": "user", "message": "x", "is_copied_context": True},
    ],
}
FURTHER_ROWS = {
    "openai": "a function call of old OpenAI logs",
    "claude-code": "what was typed while Claude Code worked",
}


def made(form):
    """Conversations in this format, each a list of rows: made here, or written by the kit."""
    yield MADE[form]
    if form in FURTHER_ROWS:
        yield READ[FURTHER_ROWS[form]][0]
    if form in WIRES:
        yield written(SAID, form)
        for path in sorted(ROOT.glob(f"tests/data/recorded/bodies/{WIRES[form]}-*.json")):
            for body in json.loads(path.read_text())["plain"]:
                yield body.get("messages") or body["input"]


def exchanges(form):
    """Recorded conversations in this format."""
    wire = WIRES.get(form, "anthropic")
    for case in cases(wire):
        rows = list(exchanged(load(wire, case)))
        if form == "claude-code":  # each message of Anthropic's API is in a row of its own
            rows = [
                {"type": row["role"], "message": row} for row in rows if row["role"] != "system"
            ]
        yield rows


def exchanged(recording):
    """The rows of a recorded request, and of its response."""
    body = (recording["request"] or {}).get("body") or {}
    said = body.get("messages") or body.get("input") or []
    if isinstance(said, str):
        said = [{"role": "user", "content": said}]
    yield from said
    match recording["response"].get("body"):
        case {"choices": [{"message": row}, *_]} | {"message": row} | ({"role": _} as row):
            yield row
        case {"output": rows}:
            yield from rows


def shape(value):
    """The fields of a row at every depth, with the values that say how to read it."""
    match value:
        case dict():
            names = [value.get(name) for name in ("type", "role", "source")]
            return [str(names), *[(name, shape(inner)) for name, inner in value.items()]]
        case list():
            return [shape(inner) for inner in value]
    return type(value).__name__


def marked(value, path=()):
    """All variants of a value with one marked field that may not be ignored, each with its path."""
    match value:
        case str():
            yield path, MARK
            yield (*path, "unknown"), {"unknown": MARK}
        case dict():
            for name in FURTHER:
                if name not in value:
                    yield (*path, name, "text"), {**value, name: {"text": MARK}}
            for name in value.keys() - METADATA.split():
                for place, variant in marked(value[name], (*path, name)):
                    yield place, {**value, name: variant}
        case list():
            for number, inner in enumerate(value):
                for place, variant in marked(inner, (*path, number)):
                    yield place, [*value[:number], variant, *value[number + 1 :]]


def variants(rows, done):
    """For each row with new fields: its variants, and some rows before it, where its call is."""
    for number, row in enumerate(rows):
        if str(shape(row)) not in done:
            done.add(str(shape(row)))
            yield list(marked(row)), [{"role": "user", "content": "Go"}, *rows[:number][-5:]]


def is_kept(run, unread, row, path):
    """Is the mark in what was read, or in what is listed of its row?"""
    if MARK in json.dumps([run.header, *map(to_json, run.messages)]):
        return True
    named = {repr(name) for name in [*path, *types(row, path)] if not isinstance(name, int)}
    for what in unread:
        if what.startswith(WHOLE) or MARK in what or any(name in what for name in named):
            return True
    return False


def types(value, path):
    """The types of the parts that enclose the mark: a part of unknown type is listed as a whole."""
    for name in path:
        if isinstance(value, dict):
            yield value.get("type")
        value = value[name]


def lost(logs, form, path):
    """The fields that are lost in these conversations, each with its row."""
    done = set()
    for rows in logs:
        for tried, before in variants(rows, done):
            runs = [[*before, row] for _, row in tried]
            if form == "atif":
                runs = [{"steps": run} for run in runs]
            path.write_text(json.dumps(runs))
            for (place, row), run in zip(tried, read_log(path).runs, strict=True):
                unread = [what for number, what in run.unread if number == len(before) + 1]
                if not is_kept(run, unread, row, place):
                    yield place, row


@pytest.fixture
def path(tmp_path):
    return tmp_path / "log.json"


@pytest.mark.parametrize("form", MADE)
def test_no_field_of_a_made_row_is_lost_in_silence(path, form):
    assert [*lost(made(form), form, path)] == []


@needs_wire
@pytest.mark.parametrize("form", [*WIRES, "claude-code"])
def test_no_field_of_a_recorded_row_is_lost_in_silence(path, form):
    assert [*lost(exchanges(form), form, path)] == []


@needs_traces
def test_no_field_of_tau_bench_is_lost_in_silence(path):
    assert [*lost([run["messages"] for run in recorded()], "openai", path)] == []

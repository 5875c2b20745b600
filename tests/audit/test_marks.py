"""Nothing is left out: a mark in each field that people read is in the page, the JSON and the text.

The reader here knows the types of the messages only. It has no `Turn` and no report of ours.
"""

import json
from collections import Counter
from dataclasses import replace
from types import CodeType

import pytest
from hypothesis import given, settings

from tests.audit.forms import in_each_form, to_text
from tests.support.counting import counted
from tests.support.turns import transcripts
from think_agent import Force
from think_agent.audit import explain, report, to_html, to_json_report
from think_agent.audit.reading import Unreadable
from think_agent.messages import (
    Assistant,
    Checked,
    Ended,
    Paused,
    Started,
    ToolCall,
    ToolResult,
    User,
    Verdict,
)


class Marks:
    """Makes marks, each a word of its own; `made` has all of them by what they mark."""

    def __init__(self):
        self.made: dict[str, str] = {}

    def __call__(self, what: str) -> str:
        assert what not in self.made
        self.made[what] = f"Zq{len(self.made):03}Qz"
        return self.made[what]


def think(id: str, thought: str) -> ToolCall:
    return ToolCall(id, "think", {"thought": thought, "should_continue": True})


def marked(mark: Marks):
    """A run with a mark in each field that people read, and in each state of a call."""

    def pay(id: str) -> ToolCall:
        return ToolCall(id, mark(f"name of {id}"), {mark(f"key of {id}"): [mark(f"value of {id}")]})

    def result(id: str, **fields) -> ToolResult:
        return ToolResult(id, "pay", mark(f"result of {id}"), **fields)

    def reply(*calls: ToolCall, **fields) -> Assistant:
        return Assistant(tool_calls=calls, stop_reason="tool_use", **fields)

    edited = {"cents": mark("an edit")}
    retried = {"cents": mark("what a retry runs with")}
    changed = {"cents": mark("what a policy changed")}
    # once a carried thought was in the page alone
    carried = ToolCall("carried", "pay", {"thought": mark("a carried thought"), "n": 1})
    odd = ToolCall("odd", "pay", mark("arguments that are no object"))
    return [
        User(mark("a request")),
        reply(
            think("t", mark("a thought")),
            pay("done"),
            text=mark("text beside calls"),
            thinking=mark("native reasoning"),
            commentary=mark("commentary"),
            provider=mark("a provider"),
            model=mark("a model"),
            dialect=mark("a dialect"),
            notice=mark("a notice"),
            tool_choice=Force("think"),
        ),
        ToolResult("t", "think", "noted"),
        Verdict("yes", "done", mark("why yes"), mark("who said yes")),
        Started("done", "pay", mark("an idempotency key")),
        result("done"),
        reply(pay("failed"), pay("refused"), carried, odd),
        Started("failed", "pay"),
        result("failed", is_error=True),
        result("refused", is_error=True, refused="gate"),
        Verdict("yes", "carried", arguments=edited, edited=True),
        Started("carried", "pay"),
        result("carried", arguments=edited),
        result("odd", is_error=True, refused=mark("an unknown code")),
        reply(pay("doubtful"), pay("denied"), pay("changed")),
        Started("doubtful", "pay"),
        result("doubtful", is_error=True, in_doubt=True),
        Verdict("no", "denied", mark("why no"), mark("who said no")),
        result("denied", is_error=True, refused="person"),
        ToolResult(
            "changed",
            "pay",
            json.dumps({mark("a name in a result"): mark("a value in a result")}),
            arguments=changed,
        ),
        reply(pay("retried"), pay("left"), model=mark("another model")),
        Started("retried", "pay", mark("the key of a crash"), arguments=retried),
        User(mark("what the kit said"), "silence"),
        Verdict("quit", "", mark("why stopped"), mark("who stopped")),
        Assistant(mark("a broken text"), stop_reason="malformed", mistake=mark("a mistake")),
        Assistant(mark("a cut text"), stop_reason="refusal", cause=mark("a cause")),
        result("an orphan"),
        Verdict("yes", "orphaned", mark("why an orphan"), mark("who said an orphan")),
        Started("orphaned", "pay", mark("the key of an orphan")),
        reply(ToolCall("bad", "think", {})),
        ToolResult("bad", "think", mark("what is wrong with a thought"), is_error=True),
        Unreadable(3, mark("a line"), mark("its problem")),
        Checked(mark("a check that is met")),
        Checked(mark("a check"), mark("what is missing")),
        Assistant(mark("an answer")),
        Ended("unmet", ""),
        User(mark("a second request")),
        reply(think("t2", mark("a second thought")), pay("asked")),
        ToolResult("t2", "think", "noted"),
        Paused(mark("a question"), "asked"),
        User(mark("a third request")),
        Assistant("Done."),
        Ended("signal", mark("the last answer")),
    ]


def test_each_mark_is_in_each_form():
    mark = Marks()
    entries = marked(mark)
    _, forms = in_each_form(entries, header={"id": "r1"}, warnings=[mark("of the file")])
    assert len(mark.made) >= 67
    assert "carried by the call" in forms["page"]
    for form, shown in forms.items():
        missing = [what for what, text in mark.made.items() if text not in shown]
        assert not missing, form


MARKED = {  # a field of each message that people read
    User: "text",
    Assistant: "text",
    ToolResult: "content",
    Started: "key",
    Verdict: "reason",
    Checked: "name",
    Paused: "question",
}


def with_marks(messages):
    """The messages with a mark in each, and the marks. Arguments stay, so repeats do, too."""
    marked, marks = [], []
    for number, message in enumerate(messages):
        if isinstance(message, Ended):  # its exit is asked of the page as a whole
            marked.append(replace(message, answer=""))
        elif not isinstance(message, ToolResult) or message.name != "think":
            mark = f"Zq{number:03}Qz"
            marks.append(mark)
            marked.append(replace(message, **{MARKED[type(message)]: mark}))
    return marked, marks


@given(transcripts)
@settings(deadline=None)
def test_a_reader_of_any_transcript_finds_each_message_in_each_form(messages):
    messages, marks = with_marks(messages)
    _, forms = in_each_form(messages)
    for form, shown in forms.items():
        missing = [mark for mark in marks if mark not in shown]
        assert not missing, form


def many_replies(number: int) -> list:
    messages = [User("Settle all")]
    for n in range(number):
        pay = ToolCall(f"p{n}", "pay", {"cents": n})
        messages += [Assistant(tool_calls=(think(f"t{n}", "It is due."), pay))]
        messages += [ToolResult(f"t{n}", "think", "noted"), Started(f"p{n}", "pay")]
        messages += [ToolResult(f"p{n}", "pay", "paid")]
    return messages


def many_calls(number: int) -> list:
    calls = tuple(ToolCall(f"p{n}", "pay", {"cents": n}) for n in range(number))
    messages = [User("Settle all"), Assistant(tool_calls=calls)]
    for call in calls:
        messages += [Started(call.id, "pay"), ToolResult(call.id, "pay", "paid")]
    return messages


@pytest.mark.parametrize("run", [many_replies, many_calls])
@pytest.mark.parametrize("form", [to_html, to_text, to_json_report])
def test_twice_the_steps_take_at_most_2_1_times_the_work(run, form):
    """Counted in the functions of the package, and in those that its templates become."""

    def show(number: int) -> Counter[CodeType]:
        messages = run(number)
        with counted() as found:
            form(report(messages, explained=explain(None, messages)))
        return found

    show(1)  # this pays for what is made once
    once, twice = show(50), show(100)
    assert twice.total() <= 2.1 * once.total()
    has_templates = any(code.co_filename.endswith(".j2") for code in once)
    assert has_templates == (form is to_html)

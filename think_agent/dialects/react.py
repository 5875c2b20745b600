"""The react dialect: tools in plain text, for models that know neither tool calls nor schemas.

    Thought: 13 days and $89, so rule 5.                     -> a think call
    Action: process_refund                                   -> a tool call
    Action Input: {"order_id": "ORD-001", …}
    (the result comes back as)  Observation (process_refund {…}): …
    Thought: All is recorded.
    Final Answer: Your refund is on its way.                 -> the exit signal

Rule 1: a label begins a line, in any case, bold or numbered as it may be. What is quoted (`>`) or
        indented is none. A label opens a section, up to the next one. "Observation:" is a stop
        sequence: what a model invents from there on is cut off. All other text after
        "Final Answer:" is the answer, "Action:" included.
Rule 2: the form is Thoughts, and then one Action with its input, which ends the reply. An Action
        that changes something runs from this form alone. Beside Actions that change nothing, other
        words and further Actions are forgiven; all Thoughts of a reply are one, and stand first.
Rule 3: a reply without anything to act on, or with words beside the name in an Action, is
        `"malformed"`, and nothing in it is run. An Action Input is one JSON object, on several
        lines or in a fence as it may be; without one there are no arguments. Anything else is
        handed on as it stands, and is not run: arguments are their tool's to check, as in any call.
Rule 4: a Final Answer is the exit signal, and its words are the final reply: the final call of the
        loop is answered with them, from the transcript, and the model is not asked a second time.
        With a think tool that has no exit signal, or without one, a Final Answer is silence.
Rule 5: a Final Answer after an Action in the same reply was written before there was a result. It
        is dropped.
Rule 6: a tool choice is asked for in words, in the last message (`enforced="prompt"`); so the
        system prompt stays the same bytes for a whole run, and what was asked once stays asked.
Rule 7: the transcript keeps the model's own words in `native`, and they are what it sees again.

Limitations: an undeclared tool is a call all the same, and the loop answers that there is none. A
raw line break in a JSON string, followed by a label, ends the Action Input; JSON wants it escaped.
In the final call plain words are the answer, wherever they stand outside of Thoughts and Actions. A
Thought that no think tool can take goes to `thinking`. A Thought may say "I must not", and the
Action behind it still is one: this form has no other place for a call.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from ..messages import THINK_NAME, Assistant, Force, ToolCall, ToolChoice, ToolResult
from ..model import Model, Request
from ..policies.answer import unfenced
from ..scripted import ScriptedModel
from ..streaming import Delta
from ..text import json_text
from ..think import thought
from ..tools import ModelMistake, Tool
from ..wire.json_reading import json_at
from ..wire.pieces import marks
from .base import Kind, Reader, Wrapper, joined, may_call, told
from .written import Meaning, Written, kind_of_notes, others, own_words, signals

BEFORE = (r"^ {0,3}", r"(?:[#*_]{1,6} ?)?")
AFTER = (r"[ \t\d*_]{0,12}", "[:：]", r"[*_]{0,3}", "")
LABELS = marks(
    re.IGNORECASE,
    thought=[[*BEFORE, *"thought", *AFTER]],
    action=[[*BEFORE, *"action", *AFTER]],
    input=[[*BEFORE, *"action", "[ _]", *"input", *AFTER]],
    observation=[[*BEFORE, *"observation", *AFTER]],
    answer=[[*BEFORE, *"final", "[ _]", *"answer", *AFTER]],
)
FORM = re.compile(r"(thought )*action( input)?( observation)?")  # by its labels


class React(Written):
    """`react(model)`: a model that is spoken to in Thoughts, Actions and Observations."""

    dialect = "react"
    key = "react"
    enforced = "prompt"
    forcing = "none"
    expected = (
        'Write "Thought:", then either "Action:" with the name of one tool and "Action Input:" '
        'with a JSON object, or "Final Answer:" with the words for the user; each at the start of '
        "a line."
    )

    def ask(self, request: Request) -> tuple[Model, Request]:
        known = _answered_already(request)
        if known:
            return Wrapper(ScriptedModel([known])), request  # it has been streamed
        return super().ask(request)

    def instructions(self, tools: Sequence[Tool]) -> dict[str, str]:
        lines = []
        for tool in others(tools):
            schema = json_text(tool.parameters)
            lines.append(f"- {tool.name}: {tool.description}")
            lines.append(f"  Action Input: JSON of the schema {schema}")
        signal = ""
        if signals(tools):
            signal = '; a Final Answer is its\nshould_continue "false"'
        return {"signal": signal, "tools": "\n".join(lines)}

    def choice(self, choice: ToolChoice) -> str:
        match choice:
            case Force("think"):
                return "Now write a Thought, and no Action yet."
            case Force(name):
                return f"Now write an Action with the tool {name}."
            case "required":
                return "Now write an Action; or, when everything is done, the Final Answer."
            case "none":
                return "Now write the Final Answer, in plain words, and no Action."
        return ""

    def write(self, reply: Assistant) -> str:
        if not reply.tool_calls:
            return f"Final Answer: {reply.text}"
        lines = [reply.text]
        for call in reply.tool_calls:
            if call.name == THINK_NAME:
                lines.append(f"Thought: {thought(call)}")
            else:
                lines.append(f"Action: {call.name}\nAction Input: {json_text(call.arguments)}")
        return joined(lines, "\n")

    def report(self, call: ToolCall, content: str) -> str:
        if call.name == THINK_NAME:
            return f"Observation (thought): {content}"
        return f"Observation ({call.name} {json_text(call.arguments)}): {content}"

    def understand(self, text: str, request: Request) -> Meaning:
        reader = SectionReader(request)
        deltas = reader.whole(text)
        notes = told(deltas, "thought", "thinking")
        answer = told(deltas, "answer")
        if request.tool_choice == "none":
            return Meaning(answer, notes)

        lead, *sections = reader.sections
        calls, rest = _calls(sections)
        if not any([notes, answer, calls]):
            raise ModelMistake("it has no label with a text after it that could be acted on")

        words = lead.text.strip()
        labels = " ".join([section.label for section in sections])
        is_form = FORM.fullmatch(labels) is not None and "```" not in notes
        is_alone = is_form and words + rest == ""
        if answer and not signals(request.tools):
            words = answer
        return Meaning(words, notes, calls, bool(answer), is_alone)

    def reader(self, request: Request) -> Reader:
        if request.tools:
            return SectionReader(request)
        return Reader()


react = React


def _answered_already(request: Request) -> Assistant | None:
    """The reply to the final call, when the model has written it as its Final Answer before."""
    if request.tool_choice != "none" or not may_call(request):
        return None
    match request.messages[-2:]:
        case [Assistant(native={"react": dict(own)}) as reply, ToolResult(name="think")]:
            reader = SectionReader(replace(request, tool_choice="auto"))
            answer = told(reader.whole(own_words(own).text), "answer")
            if answer:
                return Assistant(
                    answer,
                    model=reply.model,
                    provider=reply.provider,
                    native={"react": {}},
                    enforced="prompt",
                    dialect="react",
                )
    return None


# Reading: text -> sections, and their Deltas as they form.


@dataclass
class Section:
    """A part of a reply: its label, empty for the text before all labels, and its text."""

    label: str
    text: str = ""


class SectionReader(Reader):
    """Splits a reply into its sections, and tells Thoughts and the answer."""

    def __init__(self, request: Request) -> None:
        super().__init__(LABELS)
        self.sections = [Section("")]
        self._is_final = request.tool_choice == "none"
        self._kinds: dict[str, Kind] = {"thought": kind_of_notes(request), "answer": "answer"}
        if self._is_final:
            self._kinds[""] = "answer"

    def read(self, mark: str, part: str) -> list[Delta]:
        section = self.sections[-1]
        if mark and opens(mark, section.label):
            self.sections.append(Section(mark))
            if mark == "action" and not self._is_final:
                self._kinds.pop("answer", None)  # it is written before there is a result
            return []

        section.text += part
        if section.label not in self._kinds:
            return []
        return self.tell(self._kinds[section.label], part, len(self.sections))


def opens(kind: str, section: str) -> bool:
    """Does a mark of this kind open a section of its own inside of `section`?"""
    if section == "answer":
        return kind == "observation"
    return section != "observation"


def _calls(sections: Sequence[Section]) -> tuple[list[ToolCall], str]:
    """The calls of the Actions, and the words behind their inputs. Raises ModelMistake."""
    calls = []
    beside = ""
    for section, after in pairwise([*sections, Section("")]):
        if section.label != "action":
            continue
        name = section.text.strip(" \t\n`*\"'[]()<>.")
        if not re.fullmatch(r"[\w.-]+", name):
            raise ModelMistake(f"{name!r} is not the name of a tool alone")

        given = "{}"
        if after.label == "input" and after.text.strip():
            given = unfenced(after.text)
        match json_at(given):
            case (dict(arguments), end):
                calls.append(ToolCall("", name, arguments))
                beside += given[end:]
            case _:  # the loop will say so
                calls.append(ToolCall("", name, given))
    return calls, beside

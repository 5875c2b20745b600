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
        words and further Actions are forgiven.
Rule 3: a reply is read as a whole or not at all. Where anything in it cannot be read, nothing is
        run, and `mistake` tells the model what was wrong and what was expected.
Rule 4: a Final Answer is the exit signal, and its words are the final reply: the final call of the
        loop is answered with them, from the transcript, and the model is not asked a second time.
        With a think tool that has no exit signal, or without one, a Final Answer is silence; and
        where such a tool was asked for, one that stands beside the Thought is not its turn yet.
Rule 5: a Final Answer after an Action in the same reply was written before there was a result. It
        is dropped.
Rule 6: a tool choice is asked for in words, in the last message (`enforced="prompt"`); so the
        system prompt stays the same bytes for a whole run, and what was asked once stays asked.
Rule 7: the transcript keeps the model's own words in `native`, and they are what it sees again.

What counts as an Action Input: a JSON object, on several lines or in a fence as it may be; for a
tool with one parameter, or one required one, also its bare value; for a tool without required
parameters also nothing, but no words beside the name. Where one is needed and missing, Rule 3
applies: half an Action is not run. "Action: None" is no action, "Action: think" is a thought.

Limitations: an undeclared tool is a call all the same, and the loop answers that there is none. A
raw line break in a JSON string, followed by a label, ends the Action Input; JSON wants it escaped.
In the final call plain words are the answer, wherever they stand outside of Thoughts and Actions. A
Thought that no think tool can take goes to `thinking`. A Thought may say "I must not", and the
Action behind it still is one: this form has no other place for a call.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..messages import (
    CARRIED,
    THINK_NAME,
    Assistant,
    Force,
    Json,
    Message,
    ToolCall,
    ToolChoice,
    ToolResult,
)
from ..model import Model, Request
from ..policies.answer import unfenced
from ..scripted import ScriptedModel
from ..streaming import Delta
from ..text import json_text
from ..think import thought
from ..tools import ModelMistake, Tool
from ..wire.json_reading import json_at, json_value
from ..wire.pieces import marks
from .base import Reader, Trimmer, Wrapper, is_final, joined
from .tags import without_leading_thinking
from .text_calls import typed
from .written import (
    Written,
    acting,
    has_think,
    in_silence,
    note,
    others,
    own_words,
    signals,
    think_call,
)

BEFORE = (r"^ {0,3}", r"(?:#{1,6}[ \t]{0,4})?", r"[*_]{0,3}")
SPACE, NUMBER = r"[ \t]{0,4}", r"\d{0,3}"
AFTER = (SPACE, NUMBER, SPACE, r"[*_]{0,3}", SPACE, "[:：]", r"[*_]{0,3}", "")
LABELS = marks(
    re.IGNORECASE | re.ASCII,
    thought=[[*BEFORE, *"thought", *AFTER]],
    action=[[*BEFORE, *"action", *AFTER]],
    input=[[*BEFORE, *"action", "[ _]", *"input", *AFTER]],
    observation=[[*BEFORE, *"observation", *AFTER]],
    answer=[[*BEFORE, *"final", "[ _]", *"answer", *AFTER]],
)
ACTION = re.compile(r"[\s`*\"'\[(<]*([\w.-]*\w)[`*\"'>]*[\])]?\.?[`*\"'>]*(.*)", re.DOTALL)
NOTHING = ("", "none", "null", "n/a")
NOT_ASKED: Json = {"react": {}}  # the `native` of a reply that the transcript knew already
TOOL = "- {0.name}: {0.description}\n  Action Input: JSON of the schema {1}"
SIGNAL_IN_WORDS = '; a Final Answer is its\nshould_continue "false"'
EXPECTED = (
    'Write "Thought:", then either "Action:" with the name of one tool and "Action Input:" with a '
    'JSON object, or "Final Answer:" with the words for the user; each at the start of a line.'
)


class React(Written):
    """`react(model)`: a model that is spoken to in Thoughts, Actions and Observations."""

    dialect = "react"
    key = "react"
    enforced = "prompt"
    forcing = "none"

    def ask(self, request: Request) -> tuple[Model, Request]:
        known = _answered_already(request)
        if known:
            return Wrapper(ScriptedModel([known])), request  # it has been streamed
        return super().ask(request)

    def instructions(self, tools: Sequence[Tool]) -> dict[str, str]:
        think = ""
        if has_think(tools):
            signal = SIGNAL_IN_WORDS if signals(tools) else ""
            think = f"\nWhere you are told to use the tool think, write a Thought{signal}.\n"
        lines = [TOOL.format(tool, json_text(tool.parameters)) for tool in others(tools)]
        return {"think": think, "tools": "\n".join(lines)}

    def choice(self, choice: ToolChoice, tools: Sequence[Tool]) -> str:
        match choice:
            case Force(name=name) if name == THINK_NAME and signals(tools):
                return "Now write a Thought, and no Action yet."
            case Force(name=name) if name == THINK_NAME:
                return "Now write a Thought, and no Action or Final Answer yet."
            case Force(name=name):
                return f"Now write an Action with the tool {name}."
            case "required":
                return "Now write an Action; or, when everything is done, the Final Answer."
            case "none":
                return "Now write the Final Answer, in plain words, and no Action."
        return ""

    def write(self, reply: Assistant) -> str:
        if not reply.tool_calls:
            return f"Final Answer: {reply.text}"
        lines = [reply.text] if reply.text else []
        for call in reply.tool_calls:
            if call.name == THINK_NAME:
                lines.append(f"Thought: {thought(call)}")
            else:
                lines.append(f"Action: {call.name}\nAction Input: {json_text(call.arguments)}")
        return "\n".join(lines)

    def report(self, call: ToolCall, content: str) -> str:
        if call.name == THINK_NAME:
            return f"Observation (thought): {content}"
        return f"Observation ({call.name} {json_text(call.arguments)}): {content}"

    def read(self, reply: Assistant, request: Request) -> Assistant:
        if reply.native == NOT_ASKED:
            return reply
        return super().read(reply, request)

    def understand(self, reply: Assistant, request: Request) -> Assistant:
        if is_final(request) or not reply.is_usable:
            sections = split(reply.text)
            answer = [section.text for section in sections if section.label in ("", "answer")]
            return replace(reply, text=joined(answer))
        return _acted(reply, request)

    def is_strict(self, text: str) -> bool:
        lead, *thoughts, last = _whole_sections(text)
        if lead.text or last.label != "action":
            return False
        for section in thoughts:
            if section.label != "thought" or "```" in section.text:  # a fence quotes
                return False
        return _is_alone(last)

    def mistake(self, problem: ModelMistake, request: Request) -> str:
        return f"{problem}. {EXPECTED}"

    def reader(self, request: Request) -> "SectionReader":
        return SectionReader(request)


react = React


def _answered_already(request: Request) -> Assistant | None:
    """The reply to the final call, when the model has written it as its Final Answer before."""
    if request.tool_choice != "none" or request.output_schema is not None:
        return None
    match _before_thoughts(request.messages):
        case Assistant(native={"react": dict(own)}, tool_calls=[_, *_]) as reply if own:
            sections = split(without_leading_thinking(own_words(own)).text)
            answer = sections[-1]
            if answer.label == "answer" and answer.text:
                known = Assistant(answer.text, model=reply.model, provider=reply.provider)
                return replace(known, native=NOT_ASKED, dialect="react", enforced="prompt")
    return None


def _before_thoughts(messages: Sequence[Message]) -> Message | None:
    """The last message that is not the result of a thought."""
    for message in reversed(messages):
        if not isinstance(message, ToolResult) or message.name != THINK_NAME:
            return message
    return None


# Reading: text -> sections -> Assistant.


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a reply: its label, empty for the text before all labels, and its text. `given`:
    the Action Input behind an Action.
    """

    label: str
    text: str
    given: str = ""


def opens(kind: str, section: str) -> bool:
    """Does a mark of this kind open a section of its own inside of `section`?"""
    return kind == "observation" or section != "answer"


def split(text: str) -> list[Section]:
    """A reply in its sections, up to an Observation. The first is the text before all labels."""
    sections: list[Section] = []
    label = ""
    start = 0
    end = len(text)
    for mark in LABELS[0].finditer(text):
        kind = mark.lastgroup or ""
        if kind == "observation":
            end = mark.start()
            break
        if opens(kind, label):
            sections.append(Section(label, text[start : mark.start()].strip()))
            label = kind
            start = mark.end()
    sections.append(Section(label, text[start:end].strip()))
    return sections


def _whole_sections(text: str) -> list[Section]:
    """The sections of a reply, each Action with its input. Raises ModelMistake."""
    whole: list[Section] = []
    for section in split(text):
        if section.label != "input":
            whole.append(section)
        elif whole[-1].label == "action" and not whole[-1].given:
            whole[-1] = replace(whole[-1], given=section.text)
        else:
            raise ModelMistake("There was an Action Input without an Action before it")
    return whole


def _acted(reply: Assistant, request: Request) -> Assistant:
    """`reply` with the calls of its sections. Raises ModelMistake."""
    lead, *sections = _whole_sections(reply.text)
    tools = request.tools
    calls: list[ToolCall] = []
    has_acted = False
    before = lead
    for section in sections:
        match section.label:
            case "thought" if section.text:
                calls.append(think_call({CARRIED: section.text}, tools))
            case "action":
                found = _calls(section, before, tools)
                has_acted |= any(call.name != THINK_NAME for call in found)
                calls += found
            case "answer" if not has_acted:
                return _answered(reply, lead.text, section.text, calls, request)
        before = section

    has_thought = bool(calls) and has_think(tools)
    if not has_acted and not has_thought:
        raise ModelMistake("Your reply had no label with a text after it that could be acted on")
    return acting(reply, lead.text, calls)


def _answered(
    reply: Assistant, lead: str, answer: str, thoughts: Sequence[ToolCall], request: Request
) -> Assistant:
    """`reply` with a Final Answer behind these thoughts."""
    if signals(request.tools):
        last = ""
        if thoughts:
            *thoughts, call = thoughts
            last = thought(call)
        leave = think_call({CARRIED: last}, request.tools, leaving=True)
        return acting(reply, lead, [*thoughts, leave])

    thought_alone = request.tool_choice == Force(THINK_NAME)  # was asked for
    if thoughts and thought_alone:
        return acting(reply, lead, thoughts)
    return in_silence(acting(reply, answer, thoughts))


def _calls(action: Section, before: Section, tools: Sequence[Tool]) -> list[ToolCall]:
    """The call of an Action; none where it names no tool. Raises ModelMistake."""
    name, words = _name_and_words(action)
    given = _given(action)
    if name.lower() in NOTHING:
        return []
    if name == THINK_NAME:
        if before.label == "thought" and not given:  # that was meant
            return []
        return [think_call(_object(given) or {CARRIED: given}, tools)]
    if words and not given:
        raise ModelMistake(f"The Action {name} has no Action Input, but words")
    return [ToolCall("", name, _arguments(name, given, tools))]


def _name_and_words(action: Section) -> tuple[str, str]:
    """The name of the tool in an Action, and what stands behind it."""
    found = ACTION.match(action.text)
    if found is None:
        return "", action.text
    return found[1], found[2].strip()


def _given(action: Section) -> str:
    """The input of an Action, out of its fence."""
    given = unfenced(action.given)
    if given.lower() in NOTHING:
        return ""
    return given


def _is_alone(action: Section) -> bool:
    """Is there nothing in an Action but the name of a tool and its input?"""
    _, words = _name_and_words(action)
    if words:
        return False
    given = _given(action)
    found = json_at(given)
    if found:
        return found[1] == len(given)
    return "\n" not in given  # further lines may be words of the model's own


def _arguments(name: str, given: str, tools: Sequence[Tool]) -> Json | str:
    """The arguments in an Action Input. Raises ModelMistake."""
    arguments = _object(given)
    if arguments is not None:
        return arguments
    parameters = {tool.name: tool.parameters for tool in tools}
    if name not in parameters:  # the loop will say so
        return given

    properties = parameters[name].get("properties", {})
    wanted = parameters[name].get("required") or list(properties)
    if given and len(wanted) == 1 and not given.startswith("{"):
        return {wanted[0]: _bare_value(given, properties.get(wanted[0], {}))}
    if given or parameters[name].get("required"):
        keys = ", ".join(wanted)
        problem = f"The Action {name} has no Action Input that can be read."
        raise ModelMistake(f"{problem} It must be one JSON object, with: {keys}")
    return {}


def _bare_value(given: str, schema: Json) -> object:
    quoted = json_value(given)
    if isinstance(quoted, str):
        return quoted
    return typed(given, schema)


def _object(text: str) -> Json | None:
    """The JSON object that a text begins with."""
    found = json_at(text)
    if found and isinstance(found[0], dict):
        return found[0]
    return None


# Watching: text -> Deltas.


class SectionReader(Reader):
    """Makes Deltas of the sections as they form: thoughts and the answer."""

    def __init__(self, request: Request) -> None:
        super().__init__(LABELS)
        self._final = is_final(request)
        self._thinks = has_think(request.tools)
        self._section = ""
        self._text = Trimmer()  # of this section
        self._calls = 0  # counted so far
        self._acted = False
        self._answered = False

    def read(self, kind: str, part: str) -> list[Delta]:
        if self._section == "observation":
            return []
        if kind and opens(kind, self._section):
            self._open(kind)
            return []
        is_first = not self._text.begun
        text = self._text.feed(part)
        return self._told(text, is_first) if text else []

    def _open(self, label: str) -> None:
        self._section = label
        self._text = Trimmer()
        if label == "action":
            self._calls += 1
            self._acted = True

    def _told(self, text: str, is_first: bool) -> list[Delta]:
        """The Deltas of a text of this section; `is_first`: none was told before."""
        if self._section == "thought" and not self._final:
            if is_first:
                self._calls += 1
            return [note(text, self._calls - 1, as_thought=self._thinks)]
        if not self._is_answer():
            return []
        if is_first and self._answered:
            text = "\n\n" + text
        self._answered = True
        return [Delta("answer", text)]

    def _is_answer(self) -> bool:
        """Is the text of this section told as the answer?"""
        if self._final:
            return self._section in ("", "answer")
        return self._section == "answer" and not self._acted

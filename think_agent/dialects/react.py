"""The react dialect: tools in plain text, for models without tool calls or schemas.

    Thought: 13 days and $89, so rule 5.                     -> a think call
    Action: process_refund                                   -> a tool call
    Action Input: {"order_id": "ORD-001", …}
    (the result comes back as)  Observation (process_refund {"order_id": "ORD-001", …}): …
    Final Answer: Your refund is on its way.                 -> the exit signal

Rule 1: the format is Thoughts, then one Action with its input, which ends the reply. An Action with
        side effects runs only from exactly this format.
Rule 2: a reply with nothing to act on is `"malformed"`, and nothing in it runs.
Rule 3: a tool choice becomes text at the end of the last message (`enforced="prompt"`).
Rule 4: the transcript keeps the model's own reply in `native`, and the model sees it unchanged.

The format is that of ReAct (arXiv 2210.03629), with JSON as the input of an Action.
"""

import re
from dataclasses import dataclass, replace

from ..messages import THINK_NAME, Assistant, Force, Json, ToolCall, ToolChoice
from ..model import Request
from ..text import json_text, remove_fence
from ..think import read_thought
from ..tools import ModelMistake
from ..wire.json_reading import json_at
from ..wire.pieces import JsonReader
from .base import Reader, join_texts
from .written import ParsedReply, Written

# At the start of a line, in any case, bold or numbered: "**Action 1:**".
LABEL = r"(?im:^ {0,3}(?:[#*_]{1,6} ?)?(?:%s)[ \t\d*_]{0,12}[:：][*_]{0,3})"
ANY = LABEL % "thought|action|action[ _]input"
WORDS = rf"((?:(?!{ANY})[\s\S])*+)"  # up to the next label
THOUGHT = LABEL % "thought" + WORDS
ACTION = LABEL % "action" + WORDS + f"(?:{LABEL % 'action[ _]input'}{WORDS})?"
# Thoughts, then one Action that ends the reply.
FORM = rf"\s*(?:{THOUGHT})*{ACTION}"


NAME = re.compile(r"[\w.-]+")


@dataclass(frozen=True)
class ParsedText:
    """A text in this format, parsed.

    - `thought`: its Thoughts as one text; empty if there is none
    - `calls`: its Actions, in order, without ids. An input that isn't a JSON object stays text.
    - `final_answer`: the text after "Final Answer:"; None if there is no such label
    - `words`: the text before the first label
    - `is_alone`: does the text have exactly the format of rule 1?
    - `problem`: why there is nothing to act on; empty if there is something. With a problem,
      `calls` is empty
    """

    thought: str = ""
    calls: tuple[ToolCall, ...] = ()
    final_answer: str | None = None
    words: str = ""
    is_alone: bool = False
    problem: str = ""

    @property
    def action(self) -> str | None:
        """The name of the tool in the first Action; None if there is no Action."""
        return self.calls[0].name if self.calls else None

    @property
    def input(self) -> Json | str | None:
        """The input of the first Action; None if there is no Action."""
        return self.calls[0].arguments if self.calls else None

    @property
    def is_final(self) -> bool:
        """Is this the end? Not if there is an Action: an answer next to it was written before its
        result.
        """
        return bool(self.final_answer) and not self.calls and not self.problem


def parse(text: str) -> ParsedText:
    """Parse any text. Never raises an exception."""
    known = re.split(LABEL % "observation", text)[0]  # an observation in a reply is invented
    work, *answers = re.split(LABEL % "final[ _]answer", known, maxsplit=1)
    thoughts = [note.strip() for note in re.findall(THOUGHT, work)]
    parsed = ParsedText(thought=join_texts(thoughts), words=re.split(ANY, work)[0].strip())
    for answer in answers:
        parsed = replace(parsed, final_answer=answer.strip())

    actions = [_action(written, given) for written, given in re.findall(ACTION, work)]
    for action in actions:
        if not NAME.fullmatch(action.name):
            return replace(parsed, problem=f"{action.name!r} is not the name of a tool alone")
    if not actions and not parsed.thought and not parsed.final_answer:
        problem = "it has no label with a text after it that could be acted on"
        return replace(parsed, problem=problem)

    is_form = re.fullmatch(FORM, work) is not None and "```" not in parsed.thought
    has_more = any(action.rest for action in actions) or bool(parsed.final_answer)
    calls = tuple(ToolCall("", action.name, action.input) for action in actions)
    return replace(parsed, calls=calls, is_alone=is_form and not has_more)


@dataclass(frozen=True)
class _Action:
    """An Action: the name as written, the input, and the text after the input."""

    name: str
    input: Json | str
    rest: str = ""


def _action(written: str, given: str) -> _Action:
    name = written.strip(" \t\n`*\"'[]()<>.")
    given = remove_fence(given) or "{}"
    match json_at(given):
        case (dict(value), end):
            return _Action(name, value, given[end:])
    return _Action(name, given)  # the loop will report that this isn't a JSON object


class React(Written):
    """`react(model)`: a model that writes Thoughts and Actions and reads Observations."""

    parse = staticmethod(parse)  # for `react.parse(text)`

    dialect = "react"
    key = "react"
    enforced = "prompt"
    signal = '; a Final Answer is its\nshould_continue "false"'
    expected = (
        'Write "Thought:", then either "Action:" with the name of one tool and "Action Input:" '
        'with a JSON object, or "Final Answer:" with the words for the user; each at the start of '
        "a line."
    )

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
                lines.append(f"Thought: {read_thought(call)}")
            else:
                lines.append(f"Action: {call.name}\nAction Input: {json_text(call.arguments)}")
        return join_texts(lines, "\n")

    def understand(self, text: str, request: Request) -> ParsedReply:
        parsed = parse(text)
        answer = parsed.final_answer or ""
        if request.tool_choice == "none":  # plain text is an answer as well
            return ParsedReply(join_texts([parsed.words, answer]), parsed.thought)
        if parsed.problem:
            raise ModelMistake(parsed.problem)
        if parsed.is_final:
            return ParsedReply(answer, parsed.thought, is_leaving=True)
        return ParsedReply(parsed.words, parsed.thought, parsed.calls, is_alone=parsed.is_alone)

    def reader(self, request: Request) -> Reader:
        return Reader(JsonReader(), kinds={})  # only native thinking streams


react = React

"""The react dialect: tools in plain text, for models that know neither tool calls nor schemas.

    Thought: 13 days and $89, so rule 5.                     -> a think call
    Action: process_refund                                   -> a tool call
    Action Input: {"order_id": "ORD-001", …}
    (the result comes back as)  Observation (process_refund {"order_id": "ORD-001", …}): …
    Final Answer: Your refund is on its way.                 -> the exit signal

Rule 1: the form is Thoughts, and then one Action with its input, which ends the reply. An Action
        that changes something runs only from this form.
Rule 2: a reply with nothing to act on is `"malformed"`, and nothing in it is run.
Rule 3: a tool choice is asked for as text, at the end of the last message (`enforced="prompt"`).
Rule 4: the transcript keeps the model's own reply in `native`, and the model sees it unchanged.

The README of this folder says what is read, and what is not.
"""

import re

from ..messages import THINK_NAME, Assistant, Force, Json, ToolCall, ToolChoice
from ..model import Request
from ..text import json_text, remove_fence
from ..think import thought
from ..tools import ModelMistake
from ..wire.json_reading import json_at
from ..wire.pieces import JsonReader
from .base import Reader, joined
from .written import Meaning, Written

# At the start of a line, in any case, bold or numbered: "**Action 1:**".
LABEL = r"(?im:^ {0,3}(?:[#*_]{1,6} ?)?(?:%s)[ \t\d*_]{0,12}[:：][*_]{0,3})"
ANY = LABEL % "thought|action|action[ _]input"
WORDS = rf"((?:(?!{ANY})[\s\S])*+)"  # up to the next label
THOUGHT = LABEL % "thought" + WORDS
ACTION = LABEL % "action" + WORDS + f"(?:{LABEL % 'action[ _]input'}{WORDS})?"
# Thoughts, and one Action that ends the reply.
FORM = rf"\s*(?:{THOUGHT})*{ACTION}"


class React(Written):
    """`react(model)`: a model that writes Thoughts and Actions and reads Observations."""

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
                lines.append(f"Thought: {thought(call)}")
            else:
                lines.append(f"Action: {call.name}\nAction Input: {json_text(call.arguments)}")
        return joined(lines, "\n")

    def understand(self, text: str, request: Request) -> Meaning:
        known = re.split(LABEL % "observation", text)[0]  # from there on it is invented
        work, *final = re.split(LABEL % "final[ _]answer", known, maxsplit=1)
        answer = joined(final).strip()
        words = re.split(ANY, work)[0].strip()
        notes = joined([note.strip() for note in re.findall(THOUGHT, work)])
        if request.tool_choice == "none":
            return Meaning(joined([words, answer]), notes)

        calls, beside = _calls(work)
        if answer and not calls:
            return Meaning(answer, notes, is_leaving=True)
        if not notes and not calls:
            raise ModelMistake("it has no label with a text after it that could be acted on")
        is_form = re.fullmatch(FORM, work) is not None and "```" not in notes
        # An answer beside a call was written before there was a result.
        is_alone = is_form and beside + answer == ""
        return Meaning(words, notes, calls, is_alone=is_alone)

    def reader(self, request: Request) -> Reader:
        return Reader(JsonReader(), kinds={})  # it waits: only native thinking streams


react = React


def _calls(work: str) -> tuple[list[ToolCall], str]:
    """The calls of the Actions, and the text after their inputs. Raises ModelMistake."""
    calls = []
    beside = ""
    for written, given in re.findall(ACTION, work):
        name = written.strip(" \t\n`*\"'[]()<>.")
        if not re.fullmatch(r"[\w.-]+", name):
            raise ModelMistake(f"{name!r} is not the name of a tool alone")

        given = remove_fence(given) or "{}"
        arguments: Json | str = given
        match json_at(given):
            case (dict(value), end):
                arguments = value
                beside += given[end:]
        calls.append(ToolCall("", name, arguments))  # the loop will say that text is no object
    return calls, beside

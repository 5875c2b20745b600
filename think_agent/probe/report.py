"""The questions of a probe, and what their replies say about an endpoint.

Rule 1: `judge` and `recommend` are pure functions, so a table can be tested by values.
Rule 2: a row is judged by the reply, not by the HTTP status: a choice that raised no error and had
        no effect is `silently ignored`. To see this, each question asks for the opposite: the one
        that forces a thought asks for the weather, and so does the one that forbids tools.
Rule 3: an error is a finding, and becomes the text of its row.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from pydantic import BaseModel, ValidationError

from ..dialects.auto import WITH_TOOLS, WITHOUT_TOOLS, tools_are_shown
from ..messages import Assistant, Force, ToolCall, ToolResult, User
from ..model import Request
from ..policies import Forcing
from ..received import honored
from ..schema import problems, reduced
from ..think import THINK
from ..tools import Tool


class Weather(BaseModel, extra="forbid"):
    """The arguments of the tool, and the answer in the question for structured output."""

    city: str
    unit: Literal["celsius", "fahrenheit"]


SCHEMA = reduced(Weather.model_json_schema(), strict=True)
# It has no function: the probe reads calls and never runs one.
WEATHER = Tool(name="weather", description="The weather in one city.", parameters=SCHEMA)
MARKER = "HERON-42"
_TOOLS = (THINK, WEATHER)
_OSLO = User("What is the weather in Oslo, in celsius?")
_OSLO_CALL = ToolCall("call_0", "weather", {"city": "Oslo", "unit": "celsius"})
# About 5,000 tokens, more than the 4,096 at which the usual cut is made.
_LONG = f"The password is {MARKER}.\n{'This line is of no interest to anybody here. ' * 500}\n"
_LONG += "Which password stands in the first line of this message? Reply with it alone."
QUESTIONS: dict[str, Request] = {  # tool choices have their names in `Provider.refused`
    "plain": Request((User("Which city is the capital of Norway? Reply with its name alone."),)),
    "calls": Request(
        (User("What is the weather in Paris and in Oslo, in celsius? Ask for both at once."),),
        _TOOLS,
    ),
    "named": Request((_OSLO,), _TOOLS, tool_choice=Force(THINK.name)),
    "required": Request((User("Just say hello."),), _TOOLS, tool_choice="required"),
    "none": Request((_OSLO,), _TOOLS, tool_choice="none"),
    "schema": Request((_OSLO,), output_schema=SCHEMA),
    "stream": Request((User("Count from one to ten, in words."),)),
    "empty": Request(  # a reply without text, and a result without content
        (_OSLO, Assistant(tool_calls=(_OSLO_CALL,)), ToolResult("call_0", "weather", "")), _TOOLS
    ),
    "long": Request((User(_LONG),)),
    "bare": WITHOUT_TOOLS,
    "behind": WITH_TOOLS,
}
NOTHING = Assistant()
BEHIND = "tools shown behind a result"
ROWS = {  # of the table, each with the question whose reply it reads
    "plain answer": "plain",
    "tool call": "calls",
    "parallel calls": "calls",
    "named forcing": "named",
    "required": "required",
    "none": "none",
    "forcing while thinking": "named",
    "arguments obey the schema": "calls",
    "structured output": "schema",
    "streaming": "stream",
    "usage reported": "plain",
    "empty content in history": "empty",
    "start of a long message seen": "long",
    BEHIND: "behind",
}


@dataclass(frozen=True)
class Seen:
    """What one question brought: a reply or an `error`. A refused tool choice is an error, although
    a reply came without it. `pieces`: the number of streamed pieces.
    """

    reply: Assistant = NOTHING
    error: str = ""
    pieces: int = 0


Sight = Mapping[str, Seen]
Result = Literal["yes", "no", "silently ignored", "error", "unknown"]
Finding = tuple[Result, str]


@dataclass(frozen=True)
class Row:
    """One line of the table. `detail` explains the result; for an error it is the error's text."""

    name: str
    result: Result
    detail: str = ""

    @property
    def text(self) -> str:
        """The result as text."""
        if not self.detail:
            return self.result
        return f"{self.result} ({self.detail})"


@dataclass(frozen=True)
class Advice:
    """The flags to use with the endpoint, and why."""

    force: Forcing
    dialect: Literal["native", "json", "react"]
    because: str


@dataclass(frozen=True)
class Report:
    """What a probe found out about an endpoint."""

    provider: str
    model: str
    rows: Sequence[Row]
    recommended: Advice


def judge(seen: Sight) -> list[Row]:
    """The table: one row for each feature."""
    return [Row(name, *_found(name, seen)) for name in ROWS]


def recommend(rows: Sequence[Row]) -> Advice:
    """The flags for an endpoint with this table."""
    results = {row.name: row.result for row in rows}
    if results["tool call"] != "yes":
        if results["structured output"] == "yes":
            return Advice("first", "json", "no tool calls, but a schema can force a thought")
        return Advice("first", "react", "neither tool calls nor schemas; plain text works anywhere")
    if results[BEHIND] == "no":
        return Advice("first", "json", "behind a tool result the model cannot see its tools")
    if results["named forcing"] == "yes":
        return Advice("first", "native", "tool calls work, and so does a forced thought")
    return Advice("never", "native", "forcing does nothing here; the gate still wants thoughts")


# What each row says.

YES: Finding = ("yes", "")


def _found(name: str, seen: Sight) -> Finding:
    """What the reply to a row's question says, or why there is none."""
    question = ROWS[name]
    if question not in seen:
        return "no", "not sent: it is known not to be taken"
    reply = seen[question].reply
    if seen[question].error:
        return "error", seen[question].error
    finding = _read(name, reply, seen)
    if not honored(QUESTIONS[question].tool_choice, reply):
        finding = "silently ignored", _did(reply)
    if finding[0] == "silently ignored" and reply.stop_reason == "max_tokens":
        return "no", "the reply reached its token limit first"
    return finding


def _read(name: str, reply: Assistant, seen: Sight) -> Finding:
    """What the reply says about the feature of a row."""
    match name:
        case "tool call":
            if not reply.tool_calls:
                return "no", _did(reply)
            if reply.tool_calls[0].recovered:
                return "yes", "found in its text"
        case "parallel calls":
            if len(reply.tool_calls) < 2:
                return "no", f"{len(reply.tool_calls)} of 2 calls"
        case "forcing while thinking":
            if not any(_thinks(asked.reply) for asked in seen.values()):
                return "unknown", "the model showed no native thinking"
            if not _thinks(reply):
                return "no", "when it is forced it does not think"
        case "arguments obey the schema":
            return _arguments(reply)
        case "structured output":
            try:
                Weather.model_validate_json(reply.text)
            except ValidationError as error:
                return "silently ignored", problems(error).removeprefix("arguments: ")
        case "streaming":
            if seen["stream"].pieces < 2:
                return "no", "it came in one piece"
        case "usage reported":
            if reply.usage.estimated:
                return "no", ""
            if seen["stream"].reply.usage.estimated:
                return "no", "not when it streams"
        case "start of a long message seen":
            if MARKER not in reply.text.upper():
                return "no", "the first line of about 5,000 tokens was not repeated"
        case "tools shown behind a result":
            shown = tools_are_shown(seen["bare"].reply, reply)
            if shown is None:
                return "unknown", "this server does not count whole prompts"
            if not shown:
                return "no", "its template hides them there; native tool calling goes blind"
        case _:
            if not reply.text.strip() and not reply.tool_calls:
                return "no", "an empty reply"
    return YES


def _arguments(reply: Assistant) -> Finding:
    if not reply.tool_calls:
        return "unknown", "no call was made"
    for call in reply.tool_calls:
        try:
            if call.name == WEATHER.name:
                Weather.model_validate(call.arguments)
        except ValidationError as error:
            return "no", f"{call.name}: {problems(error)}"
    return YES


def _did(reply: Assistant) -> str:
    if not reply.tool_calls:
        return "it answered in words"
    names = dict.fromkeys(call.name for call in reply.tool_calls)
    return f"it called {', '.join(names)}"


def _thinks(reply: Assistant) -> bool:
    return bool(reply.thinking or reply.usage.reasoning_tokens)

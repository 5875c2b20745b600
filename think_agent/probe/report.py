"""The questions of a probe, and what their replies say about an endpoint.

Rule 1: `judge` and `recommend` are pure functions, so a table can be tested by values.
Rule 2: a row is judged by the reply, not by the HTTP status: a choice that caused no error but had
        no effect is `silently ignored`. To detect this, each question asks for the opposite of its
        choice: the one that forces a thought asks for the weather, and so does the one that forbids
        tools.
Rule 3: an error is a finding, and becomes the text of its row.
Rule 4: code decides by a row's code. Its title may change.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from pydantic import BaseModel, ValidationError

from ..dialects.auto import find_hidden
from ..messages import Assistant, Force, ToolCall, ToolResult, User
from ..model import Request
from ..policies import Forcing
from ..received import is_honored
from ..schema import problems, reduce_schema
from ..think import THINK
from ..tools import Tool


class Weather(BaseModel, extra="forbid"):
    """The arguments of the tool, and the answer in the question for structured output."""

    city: str
    unit: Literal["celsius", "fahrenheit"]


SCHEMA = reduce_schema(Weather.model_json_schema(), strict=True)
# It has no function, because the probe never runs a call.
WEATHER = Tool(name="weather", description="The weather in one city.", parameters=SCHEMA)
MARKER = "HERON-42"
_TOOLS = (THINK, WEATHER)
_OSLO = User("What is the weather in Oslo, in celsius?")
_OSLO_CALL = ToolCall("call_0", "weather", {"city": "Oslo", "unit": "celsius"})
# About 5,000 tokens: more than 4,096, a common default at which servers truncate.
_LONG = f"The password is {MARKER}.\n{'This line is of no interest to anybody here. ' * 500}\n"
_LONG += "Which password stands in the first line of this message? Reply with it alone."
QUESTIONS: dict[str, Request] = {  # the tool choices are named as in `Provider.refused`
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
}
PROMPT = "prompt"  # not a question: the prompt that the server's template renders
NOTHING = Assistant()


@dataclass(frozen=True)
class Seen:
    """The result of one question: a reply or an `error`. A refused tool choice is an error, even if
    there is a reply without it. `pieces`: the number of streamed pieces. `prompt`: what the server
    rendered; None if it doesn't reveal that.
    """

    reply: Assistant = NOTHING
    error: str = ""
    pieces: int = 0
    prompt: str | None = None


Sight = Mapping[str, Seen]
Result = Literal["yes", "no", "silently ignored", "error", "unknown"]
Finding = tuple[Result, str]


@dataclass(frozen=True)
class Row:
    """One line of the table. `detail` explains the result; for an error it is the error's text."""

    code: str
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
class ProbeReport:
    """The findings of a probe about an endpoint."""

    provider: str
    model: str
    rows: Sequence[Row]
    recommended: Advice


def judge(seen: Sight) -> list[Row]:
    """The table: one row for each feature."""
    return [Row(feature.code, feature.title, *_find(feature, seen)) for feature in FEATURES]


def recommend(rows: Sequence[Row]) -> Advice:
    """The flags for an endpoint with this table."""
    results = {row.code: row.result for row in rows}
    if results["calls"] != "yes":
        if results["schema"] == "yes":
            return Advice("first", "json", "no tool calls, but a schema can force a thought")
        return Advice("first", "react", "neither tool calls nor schemas; plain text works anywhere")
    if results["behind"] == "no":
        return Advice("first", "json", "after a tool result the model can't see its tools")
    if results["named"] == "yes":
        return Advice("first", "native", "tool calls work, and so does a forced thought")
    return Advice("never", "native", "forcing does nothing here; the gate still wants thoughts")


def _find(feature: "Feature", seen: Sight) -> Finding:
    """The finding about a feature, from the reply to its question or from the lack of one."""
    if feature.question not in seen:
        return "no", "not sent: it is known not to be supported"
    asked = seen[feature.question]
    if asked.error:
        return "error", asked.error
    finding = feature.judge(asked, seen)
    choice = QUESTIONS.get(feature.question, NO_QUESTION).tool_choice
    if not is_honored(choice, asked.reply):
        finding = "silently ignored", _describe_calls(asked.reply)
    if finding[0] == "silently ignored" and asked.reply.stop_reason == "max_tokens":
        return "no", "the reply reached its token limit first"
    return finding


# What each row says.

YES: Finding = ("yes", "")
NO_QUESTION = Request(())


def _judge_answer(asked: Seen, seen: Sight) -> Finding:
    if not asked.reply.text.strip() and not asked.reply.tool_calls:
        return "no", "an empty reply"
    return YES


def _judge_call(asked: Seen, seen: Sight) -> Finding:
    if not asked.reply.tool_calls:
        return "no", _describe_calls(asked.reply)
    if asked.reply.tool_calls[0].recovered:
        return "yes", "found in its text"
    return YES


def _judge_parallel_calls(asked: Seen, seen: Sight) -> Finding:
    number = len(asked.reply.tool_calls)
    if number < 2:
        return "no", f"{number} of 2 calls"
    return YES


def _judge_thinking_while_forced(asked: Seen, seen: Sight) -> Finding:
    if not any(_thinks(other.reply) for other in seen.values()):
        return "unknown", "the model showed no native thinking"
    if not _thinks(asked.reply):
        return "no", "when it is forced it does not think"
    return YES


def _judge_arguments(asked: Seen, seen: Sight) -> Finding:
    if not asked.reply.tool_calls:
        return "unknown", "no call was made"
    for call in asked.reply.tool_calls:
        try:
            if call.name == WEATHER.name:
                Weather.model_validate(call.arguments)
        except ValidationError as error:
            return "no", f"{call.name}: {problems(error)}"
    return YES


def _judge_schema(asked: Seen, seen: Sight) -> Finding:
    try:
        Weather.model_validate_json(asked.reply.text)
    except ValidationError as error:
        return "silently ignored", problems(error).removeprefix("arguments: ")
    return YES


def _judge_stream(asked: Seen, seen: Sight) -> Finding:
    if asked.pieces < 2:
        return "no", "it came in one piece"
    return YES


def _judge_usage(asked: Seen, seen: Sight) -> Finding:
    if asked.reply.usage.estimated:
        return "no", ""
    if seen["stream"].reply.usage.estimated:
        return "no", "not when it streams"
    return YES


def _judge_memory(asked: Seen, seen: Sight) -> Finding:
    if MARKER not in asked.reply.text.upper():
        return "no", "the first line of about 5,000 tokens was not repeated"
    return YES


def _judge_template(asked: Seen, seen: Sight) -> Finding:
    if asked.prompt is None:
        return "unknown", "this server does not show its prompts"
    hidden = find_hidden(asked.prompt)
    if hidden:
        return "no", f"its template hides {', '.join(hidden)} there; native tool calling goes blind"
    return YES


def _describe_calls(reply: Assistant) -> str:
    if not reply.tool_calls:
        return "it answered in words"
    names = dict.fromkeys(call.name for call in reply.tool_calls)
    return f"it called {', '.join(names)}"


def _thinks(reply: Assistant) -> bool:
    return bool(reply.thinking or reply.usage.reasoning_tokens)


class Feature(NamedTuple):
    """A row of the table. `question`: the question whose reply is judged."""

    code: str
    title: str
    question: str
    judge: Callable[[Seen, Sight], Finding]


FEATURES = (
    Feature("plain", "plain answer", "plain", _judge_answer),
    Feature("calls", "tool call", "calls", _judge_call),
    Feature("parallel", "parallel calls", "calls", _judge_parallel_calls),
    Feature("named", "named forcing", "named", _judge_answer),
    Feature("required", "required", "required", _judge_answer),
    Feature("none", "none", "none", _judge_answer),
    Feature("thinking", "forcing while thinking", "named", _judge_thinking_while_forced),
    Feature("arguments", "arguments obey the schema", "calls", _judge_arguments),
    Feature("schema", "structured output", "schema", _judge_schema),
    Feature("stream", "streaming", "stream", _judge_stream),
    Feature("usage", "usage reported", "plain", _judge_usage),
    Feature("empty", "empty content in history", "empty", _judge_answer),
    Feature("long", "start of a long message seen", "long", _judge_memory),
    Feature("behind", "tools shown after a result", PROMPT, _judge_template),
)

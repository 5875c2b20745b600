"""The questions of a probe, and what their answers say about an endpoint.

Rule 1: `judge` and `recommend` are pure functions of what was seen, so a table can be tested by
        values.
Rule 2: a row is judged by what came back, not by the HTTP status: a choice that was taken without
        an error and not carried out is `silently ignored`. So every question pulls the other way:
        the one that forces a thought asks for the weather, the one that forbids tools does, too.
Rule 3: an error is a finding, and becomes the text of its row.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from pydantic import BaseModel, ValidationError

from ..messages import Assistant, Force, ToolCall, ToolResult, User
from ..model import Request
from ..policies import Forcing
from ..policies.forcing import honored
from ..schema import problems, reduced
from ..text import json_value
from ..think import THINK
from ..tools import tool


class Thought(BaseModel, extra="forbid"):
    """The arguments of the think tool."""

    thought: str
    should_continue: Literal["true", "false"]


@tool
def weather(city: str, unit: Literal["celsius", "fahrenheit"]) -> None:
    """The weather in one city."""  # nobody calls it: the probe looks at calls, and makes none


class Capital(BaseModel, extra="forbid"):
    """What the question with a schema asks for."""

    city: str
    continent: Literal["Africa", "America", "Asia", "Europe", "Oceania"]


MARKER = "HERON-42"
_TOOLS = (THINK, weather)
_ARGUMENTS: Mapping[str, Any] = {THINK.name: Thought, weather.name: weather.arguments_model}
_CAPITAL = "Which city is the capital of Norway? "
_BOTH = User("What is the weather in Paris and in Oslo, in celsius? Ask for both at once.")
_OSLO = User("What is the weather in Oslo, in celsius?")
_OSLO_CALL = ToolCall("call_0", "weather", {"city": "Oslo", "unit": "celsius"})
# About 5,000 tokens, more than the 4,096 at which the usual cut is made.
_LONG = f"The password is {MARKER}.\n{'This line is of no interest to anybody here. ' * 500}\n"
_LONG += "Which password stands in the first line of this message? Reply with it alone."
QUESTIONS: dict[str, Request] = {  # of tool choices, by the names in `Provider.refused`
    "plain": Request((User(_CAPITAL + "Reply with its name alone."),)),
    "calls": Request((_BOTH,), _TOOLS),
    "named": Request((_OSLO,), _TOOLS, tool_choice=Force(THINK.name)),
    "required": Request((User("Just say hello."),), _TOOLS, tool_choice="required"),
    "none": Request((_OSLO,), _TOOLS, tool_choice="none"),
    "schema": Request(
        (User(_CAPITAL + "Answer in a sentence."),),
        output_schema=reduced(Capital.model_json_schema(), strict=True),
    ),
    "stream": Request((User("Count from one to ten, in words."),)),
    "empty": Request(  # a reply with a call and no words, and a result without content
        (_OSLO, Assistant(tool_calls=(_OSLO_CALL,)), ToolResult("call_0", "weather", "")), _TOOLS
    ),
    "long": Request((User(_LONG),)),
}


@dataclass(frozen=True, slots=True)
class Seen:
    """What came of one question: a reply or an `error`; both where its tool choice was refused and
    it was asked without, neither where it was not even sent. `pieces`: in how many it streamed.
    """

    reply: Assistant | None = None
    error: str = ""
    pieces: int = 0


Sight: TypeAlias = Mapping[str, Seen]
Result: TypeAlias = Literal["yes", "no", "silently ignored", "error", "unknown"]
Finding: TypeAlias = tuple[Result, str]
Look: TypeAlias = Callable[[Assistant, Sight], Finding]


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table. `detail` says more about the result; of an error it is the text."""

    name: str
    result: Result
    detail: str = ""

    @property
    def text(self) -> str:
        """The result as people read it."""
        return f"{self.result} ({self.detail})" if self.detail else self.result


@dataclass(frozen=True, slots=True)
class Advice:
    """The flags to use with the endpoint, and why."""

    force: Forcing
    dialect: Literal["native", "json", "react"]
    because: str


@dataclass(frozen=True, slots=True)
class Report:
    """What a probe found out about a model."""

    provider: str
    model: str
    rows: Sequence[Row]
    recommended: Advice


def judge(seen: Sight) -> list[Row]:
    """The table: one row for each thing that was looked for."""
    return [Row(name, *_found(question, look, seen)) for name, (question, look) in ROWS.items()]


def recommend(rows: Sequence[Row]) -> Advice:
    """The flags for an endpoint with this table."""
    works = {row.name for row in rows if row.result == "yes"}
    schema = "structured output" in works
    if "tool call" not in works and schema:
        return Advice("first", "json", "no tool calls, but a schema can force a thought")
    if "tool call" not in works:
        return Advice("first", "react", "neither tool calls nor schemas; plain text works anywhere")
    if "named forcing" in works:
        return Advice("first", "native", "tool calls work, and so does a forced thought")
    gate = "forcing does nothing here; the gate still wants a thought before a guarded action"
    return Advice("never", "native", gate + ("; --dialect json would force it" if schema else ""))


IGNORED = "silently ignored: it was taken without an error, and not done."

# What each row makes of what was seen.

YES: Finding = ("yes", "")


def _found(question: str, look: Look, seen: Sight) -> Finding:
    """What the reply to a question says, or why there is no reply to look at."""
    one = seen[question]
    if one.error:
        return "error", one.error
    if not one.reply:
        return "no", "not sent: it is known not to be taken"
    result, detail = look(one.reply, seen)
    if result == "silently ignored" and one.reply.stop_reason == "max_tokens":
        return "no", "the reply reached its token limit first"
    return result, detail


def _words(reply: Assistant, seen: Sight) -> Finding:
    return YES if reply.text.strip() or reply.tool_calls else ("no", "an empty reply")


def _tool_call(reply: Assistant, seen: Sight) -> Finding:
    if not reply.tool_calls:
        return "no", _did(reply)
    return ("yes", "found in its text") if reply.tool_calls[0].recovered else YES


def _parallel(reply: Assistant, seen: Sight) -> Finding:
    count = len(reply.tool_calls)
    return YES if count > 1 else ("no", f"{count} of 2 calls")


def _choice(kind: str) -> Look:
    def look(reply: Assistant, seen: Sight) -> Finding:
        is_done = honored(QUESTIONS[kind].tool_choice, reply)
        return YES if is_done else ("silently ignored", _did(reply))

    return look


def _while_thinking(reply: Assistant, seen: Sight) -> Finding:
    if not any(_thinks(one.reply) for one in seen.values()):
        return "unknown", "the model showed no native thinking"
    finding = _choice("named")(reply, seen)
    if finding[0] == "yes" and not _thinks(reply):
        return "no", "when it is forced it does not think"
    return finding


def _arguments(reply: Assistant, seen: Sight) -> Finding:
    replies = [one.reply for one in seen.values() if one.reply]
    calls = [c for r in replies if r.stop_reason != "max_tokens" for c in r.tool_calls]
    for call in calls:
        if call.name not in _ARGUMENTS:
            return "no", f"there is no tool {call.name!r}"
        if wrong := misfit(call.arguments, _ARGUMENTS[call.name]):
            return "no", f"{call.name}: {wrong}"
    return YES if calls else ("unknown", "no call was made")


def _structured(reply: Assistant, seen: Sight) -> Finding:
    value = json_value(reply.text)
    wrong = _did(reply) if value is None else misfit(value, Capital)
    return ("silently ignored", wrong) if wrong else YES


def _streaming(reply: Assistant, seen: Sight) -> Finding:
    if seen["stream"].pieces > 1:
        return YES
    return "no", "it came in one piece" if reply.text.strip() else "an empty reply"


def _usage(reply: Assistant, seen: Sight) -> Finding:
    streamed = seen["stream"].reply
    if reply.usage.estimated:
        return "no", ""
    return YES if not (streamed and streamed.usage.estimated) else ("no", "not when it streams")


def _start_seen(reply: Assistant, seen: Sight) -> Finding:
    if MARKER in reply.text.upper():
        return "yes", "about 5,000 tokens"
    return "no", "the first line of about 5,000 tokens was not repeated"


# row: (the question that it is read from, how)
ROWS: dict[str, tuple[str, Look]] = {
    "plain answer": ("plain", _words),
    "tool call": ("calls", _tool_call),
    "parallel calls": ("calls", _parallel),
    "named forcing": ("named", _choice("named")),
    "required": ("required", _choice("required")),
    "none": ("none", _choice("none")),
    "forcing while thinking": ("named", _while_thinking),
    "arguments obey the schema": ("plain", _arguments),
    "structured output": ("schema", _structured),
    "streaming": ("stream", _streaming),
    "usage reported": ("plain", _usage),
    "empty content in history": ("empty", _words),
    "start of a long message seen": ("long", _start_seen),
}


def misfit(value: object, model: type[BaseModel]) -> str:
    """What is wrong with `value` as one of these objects; `""` when nothing is."""
    try:
        model.model_validate(value)
    except ValidationError as error:
        return problems(error)
    return ""


def _did(reply: Assistant) -> str:
    names = dict.fromkeys(call.name for call in reply.tool_calls)
    return f"it called {', '.join(names)}" if names else "it answered in words"


def _thinks(reply: Assistant | None) -> bool:
    return bool(reply and (reply.thinking or reply.usage.reasoning_tokens))

"""Does an endpoint do what it says? `think-agent probe` asks a handful of questions and prints a
table.

Rule 1: observing and judging are apart. `observe` asks a Model the `QUESTIONS`, by Requests alone;
        `judge` and `recommend` are pure functions of what was seen, so a table can be tested by
        values.
Rule 2: a row is judged by what came back, not by the HTTP status: a choice that was taken without
        an error and not carried out is `silently ignored`. So every question pulls the other way:
        the one that forces a thought asks for the weather, the one that forbids tools does, too.
Rule 3: an error is a finding. It becomes the text of its row, and the probe goes on. Only the plain
        question must be answered: where it fails (no server, a wrong key), the rest would, too, and
        its error is the probe's.
Rule 4: a tool choice that the provider is known not to take is not sent; one that the kit learned
        on the way is forgotten before each question, so that each gets its own answer.

The edge: one try a row. What a small model did once it may do otherwise the next time.
"""

import argparse
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from typing import Literal, TypeAlias

from rich.console import Console
from rich.table import Table
from rich.text import Text

from .cli import add_model_flags, choose_model
from .console import printable, say
from .errors import ModelError
from .messages import Assistant, Force, Json, ToolCall, ToolResult, User
from .model import Model, Request, Wrapper, honored
from .policies import Forcing
from .providers.base import Provider
from .settings import UserError, add_flag
from .streaming import Delta
from .think import THINK
from .tools import Tool

WEATHER = Tool(
    name="weather",
    description="The weather in one city.",
    parameters={
        "type": "object",
        "properties": {
            "city": {"type": "string"},
            "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]},
        },
        "required": ["city", "unit"],
        "additionalProperties": False,
    },
)
CAPITAL: Json = {
    "type": "object",
    "properties": {
        "city": {"type": "string"},
        "continent": {"type": "string", "enum": ["Africa", "America", "Asia", "Europe", "Oceania"]},
    },
    "required": ["city", "continent"],
    "additionalProperties": False,
}
MARKER = "HERON-42"
FILLER = 400  # lines; about 5,000 tokens, more than the 4,096 at which the usual cut is made

_TOOLS = (THINK, WEATHER)
_CAPITAL = "Which city is the capital of Norway? "
_OSLO = User("What is the weather in Oslo, in celsius?")
_OSLO_CALL = ToolCall("call_0", "weather", {"city": "Oslo", "unit": "celsius"})
_LONG = "\n".join(
    [
        f"The password is {MARKER}.",
        *(f"Line {number} is of no interest to anybody here." for number in range(FILLER)),
        "Which password stands in the first line of this message? Reply with it alone.",
    ]
)
QUESTIONS: dict[str, Request] = {
    "plain": Request((User(_CAPITAL + "Reply with its name alone."),)),
    "calls": Request(
        (User("What is the weather in Paris and in Oslo, in celsius? Ask for both at once."),),
        _TOOLS,
    ),
    "named": Request((_OSLO,), _TOOLS, tool_choice=Force(THINK.name)),
    "required": Request((User("Just say hello."),), _TOOLS, tool_choice="required"),
    "none": Request((_OSLO,), _TOOLS, tool_choice="none"),
    "schema": Request((User(_CAPITAL + "Answer in a sentence."),), output_schema=CAPITAL),
    "stream": Request((User("Count from one to ten, in words."),)),
    "empty": Request(  # a reply with a call and no words, and a result without content
        (_OSLO, Assistant(tool_calls=(_OSLO_CALL,)), ToolResult("call_0", "weather", "")), _TOOLS
    ),
    "long": Request((User(_LONG),)),
}
CHOICES = ("named", "required", "none")  # these questions are called as the kinds in `refused`


@dataclass(frozen=True, slots=True)
class Seen:
    """What came of one question: a reply or an error. `refused`: the words with which the tool
    choice was refused; `""` where it was not even sent, None where it was taken. `pieces`: the
    answer as it streamed.
    """

    reply: Assistant | None = None
    error: str = ""
    refused: str | None = None
    pieces: tuple[str, ...] = ()


Sight: TypeAlias = Mapping[str, Seen]
Result: TypeAlias = Literal["yes", "no", "silently ignored", "error", "unknown"]
Finding: TypeAlias = tuple[Result, str]


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table. `detail` says more about the result; of an error it is the text."""

    name: str
    result: Result
    detail: str = ""

    @property
    def text(self) -> str:
        """The result as people read it."""
        if self.result == "error":
            return f"error: {self.detail}"
        return f"{self.result} ({self.detail})" if self.detail else self.result


@dataclass(frozen=True, slots=True)
class Advice:
    """The flags to use with the endpoint, and why."""

    force: Forcing
    dialect: Literal["native", "json", "react"]
    because: str


def planned(model: Model) -> list[str]:
    """The questions that this model will be asked: all but the choices it is known not to take."""
    return [name for name in QUESTIONS if name not in _never_sent(_refusals(model))]


def observe(model: Model, answered: Callable[[str], None] | None = None) -> dict[str, Seen]:
    """Ask. `answered` hears of each question that is done. Raises ModelError when not even the
    plain one is answered, which is the first.
    """
    refusals = _refusals(model)
    never = _never_sent(refusals)
    seen = {name: Seen(refused="") for name in never}
    for name in planned(model):
        refusals.clear()
        refusals |= never
        try:
            seen[name] = _ask(model, name)
        except ModelError as error:
            if name == "plain":
                raise
            seen[name] = Seen(error=str(error))
        if name in refusals:
            seen[name] = replace(seen[name], refused=refusals[name])
        if answered:
            answered(name)
    return seen


def judge(seen: Sight) -> list[Row]:
    """The table: one row for each thing that was looked for."""
    rows = []
    for name, (question, look) in ROWS.items():
        reply = seen[question].reply
        verdict = _obstacle(question, seen) or (look(reply, seen) if reply else ("unknown", ""))
        rows.append(Row(name, *verdict))
    return rows


def recommend(rows: Sequence[Row]) -> Advice:
    """The flags for an endpoint with this table."""
    works = {row.name for row in rows if row.result == "yes"}
    schema = "structured output" in works
    if "tool call" not in works:
        if schema:
            return Advice("first", "json", "no tool calls, but a schema can force a thought")
        return Advice("first", "react", "neither tool calls nor schemas; plain text works anywhere")
    if "named forcing" in works:
        return Advice("first", "native", "tool calls work, and so does a forced thought")
    gate = "forcing does nothing here; the gate still wants a thought before a guarded action"
    return Advice("never", "native", gate + ("; --dialect json would force it" if schema else ""))


# What each row makes of what was seen.

CUT: Finding = ("no", "the reply reached its token limit first")
YES: Finding = ("yes", "")


def _obstacle(question: str, seen: Sight) -> Finding | None:
    """Why there is no reply to judge; None when there is one."""
    one = seen[question]
    if one.refused == "":
        no_choices = all(seen[kind].refused == "" for kind in CHOICES)
        known = "the provider has no tool_choice" if no_choices else "this model takes none"
        return "no", f"not sent: {known}"
    if one.refused and question == "named" and one.reply and one.reply.enforced == "tool_choice":
        return None  # refused by its name, and asked again as "required" with that tool alone
    if one.refused or one.error:
        return "error", one.refused or one.error
    return None


def _words(reply: Assistant, seen: Sight) -> Finding:
    return YES if reply.text.strip() or reply.tool_calls else ("no", "an empty reply")


def _tool_call(reply: Assistant, seen: Sight) -> Finding:
    if not reply.tool_calls:
        return "no", _did(reply)
    return ("yes", "found in its text") if reply.tool_calls[0].recovered else YES


def _parallel(reply: Assistant, seen: Sight) -> Finding:
    count = len(reply.tool_calls)
    return YES if count > 1 else ("no", f"{count} of 2 calls")


def _choice(kind: str) -> Callable[[Assistant, Sight], Finding]:
    def look(reply: Assistant, seen: Sight) -> Finding:
        if honored(QUESTIONS[kind].tool_choice, reply):
            return "yes", "as required, with that tool alone" if seen[kind].refused else ""
        return CUT if reply.stop_reason == "max_tokens" else ("silently ignored", _did(reply))

    return look


def _while_thinking(reply: Assistant, seen: Sight) -> Finding:
    if not any(_thinks(one.reply) for one in seen.values()):
        return "unknown", "the model showed no native thinking"
    verdict = _choice("named")(reply, seen)
    if verdict[0] == "yes" and not _thinks(reply):
        return "no", "when it is forced it does not think"
    return verdict


def _arguments(reply: Assistant, seen: Sight) -> Finding:
    schemas = {tool.name: tool.parameters for tool in _TOOLS}
    replies = [one.reply for one in seen.values() if one.reply]
    calls = [c for r in replies if r.stop_reason != "max_tokens" for c in r.tool_calls]
    for call in calls:
        if call.name not in schemas:
            return "no", f"there is no tool {call.name!r}"
        if wrong := misfit(call.arguments, schemas[call.name]):
            return "no", f"{call.name}: {wrong}"
    return YES if calls else ("unknown", "no call was made")


def _structured(reply: Assistant, seen: Sight) -> Finding:
    try:
        wrong = misfit(json.loads(reply.text), CAPITAL)
    except ValueError:
        wrong = _did(reply)
    if wrong and reply.stop_reason == "max_tokens":
        return CUT
    return ("silently ignored", wrong) if wrong else YES


def _streaming(reply: Assistant, seen: Sight) -> Finding:
    pieces = seen["stream"].pieces
    if len(pieces) < 2:
        return "no", "it came in one piece" if reply.text.strip() else "an empty reply"
    return YES if "".join(pieces) == reply.text else ("no", "the pieces are not the reply")


def _usage(reply: Assistant, seen: Sight) -> Finding:
    streamed = seen["stream"].reply
    if not (reply.usage.input_tokens and reply.usage.output_tokens):
        return "no", ""
    return YES if not streamed or streamed.usage.output_tokens else ("no", "not when it streams")


def _start_seen(reply: Assistant, seen: Sight) -> Finding:
    if MARKER in reply.text.upper():
        return "yes", "about 5,000 tokens"
    return "no", "the first line of about 5,000 tokens was not repeated"


# row: (the question that it is read from, how)
ROWS: dict[str, tuple[str, Callable[[Assistant, Sight], Finding]]] = {
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


def misfit(value: object, schema: Json) -> str:
    """What is wrong with `value` under one of the flat schemas above; `""` when nothing is."""
    if not isinstance(value, dict):
        return "no JSON object"
    if missing := set(schema["required"]) - value.keys():
        return f"{', '.join(sorted(missing))} missing"
    if extra := value.keys() - schema["properties"].keys():
        return f"{', '.join(sorted(extra))} not in the schema"
    for name, item in value.items():
        if not isinstance(item, str):
            return f"{name} is no string"
        if item not in schema["properties"][name].get("enum", (item,)):
            return f"{name} is none of the allowed values"
    return ""


def _did(reply: Assistant) -> str:
    names = dict.fromkeys(call.name for call in reply.tool_calls)
    return f"it called {', '.join(names)}" if names else "it answered in words"


def _thinks(reply: Assistant | None) -> bool:
    return bool(reply and (reply.thinking or reply.usage.reasoning_tokens))


def _ask(model: Model, name: str) -> Seen:
    if name != "stream":
        return Seen(model.complete(QUESTIONS[name]))
    reply, pieces = None, []
    for event in model.stream(QUESTIONS[name]):
        match event:
            case Delta(kind="answer", text=text):
                pieces.append(text)
            case Assistant():
                reply = event
    return Seen(reply, pieces=tuple(pieces))


def _refusals(model: Model) -> dict[str, str]:
    """The provider's own memory of refused choices (`Provider.refused`); other models have none."""
    while isinstance(model, Wrapper):
        model = model.inner
    return model.refused if isinstance(model, Provider) else {}


def _never_sent(refusals: Mapping[str, str]) -> dict[str, str]:
    return {kind: words for kind, words in refusals.items() if not words}


# The command.


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of `think-agent probe`."""
    parser.epilog = "exit codes: 0 there is a table, 1 nobody answered, 2 a flag is wrong"
    add_model_flags(parser, default="ollama")
    add_flag(parser, "--json", action="store_true", help="print one JSON object and nothing else")


def main(args: argparse.Namespace) -> int:
    """Probe the endpoint that the flags name, and print what was found."""
    if args.provider.partition(":")[0] in ("auto", "offline"):
        raise UserError(f"--provider {args.provider}: name a real one, there is nothing to probe")
    model = choose_model(args.provider, args.model, args.base_url)
    with _progress(model) as answered:
        rows = judge(observe(model, answered))
    advice = recommend(rows)
    if args.json:
        print(json.dumps(as_json(model, rows, advice)))
        return 0
    console = Console(highlight=False)
    for line in table(model, rows, advice, plain=not console.is_terminal):
        console.print(line, soft_wrap=not console.is_terminal)
    return 0


@contextmanager
def _progress(model: Model) -> Iterator[Callable[[str], None]]:
    """Says what it costs before the first call; a terminal shows how far it is."""
    spec, questions = f"{model.name}:{model.model}", planned(model)
    say(
        f"probe: {len(questions)} calls to {spec}, short ones but for one of about 5,000 tokens; "
        "what it refuses is asked twice"
    )
    console = Console(stderr=True, highlight=False)
    with console.status(Text(printable(f"asking {spec}"))) as line:

        def answered(name: str) -> None:
            done = f"{questions.index(name) + 1} of {len(questions)} done"
            line.update(Text(printable(f"asking {spec}: {done}")))

        yield answered


def as_json(model: Model, rows: Sequence[Row], advice: Advice) -> Json:
    """What `--json` prints."""
    return {
        "provider": model.name,
        "model": model.model,
        "rows": [asdict(row) for row in rows],
        "recommended": asdict(advice),
    }


STYLES: dict[Result, str] = {"yes": "green", "unknown": "dim"}


def table(
    model: Model, rows: Sequence[Row], advice: Advice, *, plain: bool
) -> Iterator[Text | Table]:
    """What is printed: one line a row, which wraps on a terminal and not in a pipe."""
    yield Text(printable(f"{model.name}:{model.model}"), style="bold")
    grid = Table.grid(padding=(0, 2))
    width = max(map(len, ROWS)) + 2
    for row in rows:
        text = Text(printable(row.text), style=STYLES.get(row.result, "yellow"))
        grid.add_row(row.name, text)
        if plain:
            yield Text(row.name.ljust(width)).append_text(text)
    if not plain:
        yield grid
    flags = f"--force {advice.force} --dialect {advice.dialect}"
    yield Text(f"recommended: {flags} ({advice.because})", style="bold")

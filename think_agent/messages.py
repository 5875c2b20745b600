"""What was said and done: the messages of a transcript.

Rule 1: a message is a value. It is frozen, knows no provider and no I/O, and equals another with
        the same content (`at`, the time at which it was recorded, does not count).
Rule 2: a transcript is a sequence of messages and the only state of a run. Everything else is read
        out of it (`turn.py`).
Rule 3: `to_json` and `from_json` are exact inverses, so what is on disk is what was in memory.
Rule 4: what a model said is never changed afterwards.

The edge: how a message looks on a provider's wire is the business of `wire/`.
"""

from dataclasses import dataclass, field
from functools import cache
from typing import Annotated, Any, Literal, TypeAlias

import pydantic

Json: TypeAlias = dict[str, Any]
Count: TypeAlias = Annotated[int, pydantic.Field(ge=0)]  # a file may hold any number
THINK_NAME = "think"  # the tool itself is in think.py
CARRIED = "thought"  # the argument of any tool that holds a thought; no tool has another so named


@dataclass(frozen=True, slots=True)
class Force:
    """A tool choice: the model must call the tool of this name."""

    name: str


ToolChoice: TypeAlias = Literal["auto", "required", "none"] | Force


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call the model asks for. `arguments` is a dict, or the raw text when the model wrote no
    JSON object. `recovered`: it was found in the text of a model that wrote it there.
    """

    id: str
    name: str
    arguments: Json | str = field(default_factory=dict)
    recovered: bool = False


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens, in one meaning for every provider: input *with* cached, output *with* reasoning.
    `estimated`, from the number of characters, where a server has not counted.
    """

    input_tokens: Count = 0
    output_tokens: Count = 0
    cached_tokens: Count = 0
    reasoning_tokens: Count = 0
    estimated: bool = False

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cached_tokens + other.cached_tokens,
            self.reasoning_tokens + other.reasoning_tokens,
            self.estimated or other.estimated,
        )


@dataclass(frozen=True, slots=True)
class User:
    """A message in the user's role. `kind` says who really speaks.

    `"person"` opens a new turn. The others are written by the kit, inside a turn: `"nudge"` after
    an empty reply, `"silence"` after one that stopped though its thought said to go on, `"format"`
    after one that could not be read, `"repeat"` after the same action again and again, `"answer"`
    to ask for the answer in its form, `"limit"` and `"budget"` to ask for closing words.
    """

    text: str
    kind: Literal["person", "nudge", "silence", "format", "repeat", "answer", "limit", "budget"] = (
        "person"
    )
    at: str | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Assistant:
    """One reply of a model.

    What it says. `text` is for the user. `thinking` (the provider's native reasoning, where it
    shows any) and `commentary` (what it marks as said on the way) are no part of the answer.
    What it asks for: `tool_calls`.
    Why it ended. `stop_reason`: `"end_turn"`, `"tool_use"`, `"stop_sequence"`; `"malformed"`, it
    could not be read (`mistake` says why, for the model); or one of BROKEN_OFF (`cause` says why,
    for a person).
    Who said it: `provider`, `model`, `usage` (its tokens) and `dialect`, the way in which it was
    asked for tools (empty: native tool calling).
    What goes back to the same provider. `native`: the provider's own message as JSON, verbatim, for
    it may hold what no field here does. `signed`: it holds a signature over all that stands before
    it, with which some providers check native thinking; so nothing before it may be left out.
    What was asked of it. `tool_choice`: which tool it had to call. `enforced`: who saw to that:
    `"tool_choice"`, the provider; `"schema"`, the server's sampler, which could write nothing else;
    `"prompt"`, nobody, it was only asked in words; `"ignored"`, nobody, though the provider had
    taken the choice; None, nothing had to be called.
    `notice`: what whoever watches the run should know of it.
    """

    text: str = ""
    thinking: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    stop_reason: str = "end_turn"
    usage: Usage = Usage()
    model: str = ""
    provider: str = ""
    native: Any = None
    enforced: Literal["tool_choice", "schema", "prompt", "ignored"] | None = None
    tool_choice: ToolChoice = "auto"
    mistake: str = ""
    dialect: str = ""
    commentary: str = ""
    signed: bool = False
    cause: str = ""
    notice: str = ""
    at: str | None = field(default=None, compare=False)

    @property
    def words(self) -> str:
        """What it says to the user: its text, or else the commentary; empty when both are blank."""
        return next((said for said in (self.text, self.commentary) if said.strip()), "")


BROKEN_OFF: dict[str, Literal["truncated", "refused"]] = {  # a stop reason, and the exit it means
    "max_tokens": "truncated",
    "pause_turn": "truncated",
    "incomplete": "truncated",  # the server, or a limit of ours, ended it in the middle
    "refusal": "refused",
}
HALF = (*BROKEN_OFF, "malformed")  # nothing in such a reply is acted on


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The answer to one tool call. Errors are answers too: the model is meant to read them and try
    again. `refused` is empty for a call that ran, whether or not it failed; else the code of the
    policy that answered in its place: `"gate"` (no thought stood behind it), `"limit"`, `"person"`,
    `"failed"` (a call before it failed, so this one was not run), or `"stopped"`, for the run was.
    `arguments`: what it was run with, where a person or a policy changed them.
    """

    call_id: str
    name: str
    content: str
    is_error: bool = False
    refused: str = ""
    arguments: Json | None = None
    at: str | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Started:
    """A call with side effects is about to run. One without a result after it may have happened.
    `key` is its idempotency key, the same whenever the call is tried again; empty for a tool that
    takes none.
    """

    call_id: str
    name: str
    key: str = field(default="", compare=False)
    at: str | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was decided when a person was asked: about a call, or (no `call_id`) about going on.

    `"yes"`: do it, with `arguments` instead of the model's where they are given. `"no"`: do not,
    and the model reads `reason`. `"quit"`: end the run. `by` says who, or which rule, decided.
    `shown`: the arguments as they were decided about; a yes is to these, and to no others.
    """

    decision: Literal["yes", "no", "quit"]
    call_id: str = ""
    reason: str = ""
    by: str = ""
    arguments: Json | None = None
    shown: Json | None = None
    at: str | None = field(default=None, compare=False)


Spoken: TypeAlias = User | Assistant | ToolResult  # what a model gets to see
Message: TypeAlias = Spoken | Started | Verdict
MESSAGES = (User, Assistant, ToolResult, Started, Verdict)
for kind in (*MESSAGES, ToolCall, Usage, Force):  # a name that is unknown is an error
    setattr(kind, "__pydantic_config__", {"extra": "forbid"})  # noqa: B010
_KINDS: dict[str, type] = {kind.__name__.lower(): kind for kind in MESSAGES}


def to_json(message: Message) -> Json:
    """A message as a JSON object; fields that hold their default are left out."""
    kind: type = type(message)
    values = checks(kind).dump_python(message, exclude_defaults=True, warnings=False)
    return {"type": kind.__name__.lower(), **values}


def from_json(data: Json) -> Message:
    """The message that `to_json` wrote, every field of its type. Raises ValueError when it is not
    one.
    """
    known = dict(data)
    kind = _KINDS.get(str(known.pop("type", "")))
    if kind is None:
        raise ValueError(f"there is no message of type {data.get('type')!r}")
    if known.get("refused") is True:  # before there were codes (2026-11)
        known["refused"] = "refused"
    try:
        return checks(kind).validate_python(known)
    except pydantic.ValidationError as error:
        problem = error.errors(include_url=False)[0]
        place = ".".join(map(str, problem["loc"]))
        raise ValueError(f"{place or data['type']}: {problem['msg']}") from None


@cache
def checks(kind: type) -> pydantic.TypeAdapter[Message]:
    """The validator of a message's fields."""
    return pydantic.TypeAdapter(kind)

"""What was said and done: the messages of a transcript.

Rule 1: a message is a value. It is frozen, knows no provider and no I/O, and equals another with
        the same content (`at`, the time at which it was recorded, does not count).
Rule 2: a transcript is a sequence of messages and the only state of a run. Everything else is read
        out of it (`turn.py`).
Rule 3: `to_json` and `from_json` are exact inverses, so what is on disk is what was in memory.
Rule 4: what a model said is never changed afterwards.
Rule 5: a result answers the first call of its id that is still open in the last reply before it.
        `OpenCalls` is the one place where calls and results are matched.

Limitations: how a message looks on a provider's wire is the business of `wire/`.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal

import pydantic

Json = dict[str, Any]
THINK_NAME = "think"  # the tool itself is in think.py
# With `carry=True`, a guarded tool gets this argument, for the thought behind its call.
CARRIED = "thought"


@dataclass(frozen=True, slots=True)
class Force:
    """A tool choice: the model must call the tool of this name."""

    name: str


ToolChoice = Literal["auto", "required", "none"] | Force
Enforced = Literal["tool_choice", "schema", "prompt", "ignored"] | None
Exit = Literal[
    "signal",  # a thought said should_continue false, and a last call without tools gave the answer
    "silence",  # the model called no tool
    "unmet",  # the model said that it is done, and a check says that something is missing
    "limit",  # a limit on calls, actions or seconds was reached
    "budget",  # tokens or money ran out
    "gave_up",  # too many failures or repeats in a row
    "declined",  # a person stopped the run; a "no" to one call does not
    "needs_human",  # a person has to decide, and none is there
    "refused",  # the model or its provider refused to answer
    "truncated",  # a reply broke off; its calls were not run
    "empty",  # no words even after a nudge
    "invalid_answer",  # the final answer does not fit the asked schema
]


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
    """Tokens, counted the same way for every provider: input *with* those that were read from a
    cache (`cached_tokens`) or written to one (`written_tokens`), output *with* reasoning.
    `estimated`: the server gave no counts, so they are made from the number of characters.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    reasoning_tokens: int = 0
    estimated: bool = False
    written_tokens: int = 0

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cached_tokens + other.cached_tokens,
            self.reasoning_tokens + other.reasoning_tokens,
            self.estimated or other.estimated,
            self.written_tokens + other.written_tokens,
        )


@dataclass(frozen=True, slots=True)
class User:
    """A message in the user's role. `kind` says who really speaks.

    `"person"` opens a new turn. The others are written by the kit, inside a turn: `"nudge"` after
    an empty reply, `"silence"` after one that stopped though its thought said to go on, `"format"`
    after one that could not be read, `"repeat"` after the same action again and again, `"check"`
    to say what is still missing, `"answer"` to ask for the answer in its form, `"limit"` and
    `"budget"` to ask for closing words.
    """

    text: str
    kind: Literal[
        "person", "nudge", "silence", "format", "repeat", "check", "answer", "limit", "budget"
    ] = "person"
    at: str | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Assistant:
    """One reply of a model.

    What it says. `text` is for the user. `thinking` is the provider's native reasoning, where it
    shows any; it is no part of the answer. `commentary` is what it marks as said on the way; it is
    the answer where there is no text (`words`).
    What it asks for: `tool_calls`.
    Why it ended. `stop_reason`: `"end_turn"`, `"tool_use"`, `"stop_sequence"`; `"malformed"`, it
    could not be read (`mistake` says why, for the model). Any other means that it was broken off
    (`cause` says why, for a person).
    `not_done`: its provider says that the model has more to do, whatever the reply looks like.
    Who said it: `provider`, `model`, `usage` (its tokens) and `dialect`, the way in which it was
    asked for tools (empty: native tool calling).
    What goes back to the same `host`. `native`: the provider's own message as JSON, verbatim, for
    it may hold what no field here does. `signed`: some providers sign their thinking over
    everything before it, so nothing before it may be left out.
    What was asked of it. `tool_choice`: whether it had to call a tool, and which. `enforced`: who
    saw to that: `"tool_choice"`, the provider; `"schema"`, the server's sampler, which could write
    nothing else; `"prompt"`, nobody, it was only asked in words; `"ignored"`, nobody, though the
    provider had taken the choice; None, nothing had to be called.
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
    enforced: Enforced = None
    tool_choice: ToolChoice = "auto"
    mistake: str = ""
    dialect: str = ""
    commentary: str = ""
    signed: bool = False
    cause: str = ""
    notice: str = ""
    not_done: bool = False
    host: str = ""
    at: str | None = field(default=None, compare=False)

    @property
    def words(self) -> str:
        """What it says to the user: its text, or else the commentary; empty when both are blank."""
        if self.text.strip():
            return self.text
        if self.commentary.strip():
            return self.commentary
        return ""

    @property
    def is_usable(self) -> bool:
        """Did it come whole, and can it be read? Nothing is acted on in one that is not."""
        return self.stop_reason in WHOLE


WHOLE = ("end_turn", "tool_use", "stop_sequence")
BROKEN_OFF: dict[str, Literal["truncated", "refused"]] = {  # a stop reason, and the exit it means
    "max_tokens": "truncated",
    "pause_turn": "truncated",
    "incomplete": "truncated",  # the server, or a limit of ours, ended it in the middle
    "refusal": "refused",
}


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The answer to one tool call. Errors are answers too: the model is meant to read them and try
    again.

    `refused` says why the call was not run, and is empty when it ran, also when it failed. Its
    codes: `"gate"` (no thought stood behind it), `"invalid"` (there is no such tool, or the
    arguments do not fit it), `"text"` (it was written as text), `"doubt"` (the same call may have
    happened), `"limit"`, `"person"`, `"failed"` (a call before it failed), `"stopped"` (the run was
    stopped before it), or one of a policy of the user's.
    `arguments`: what it was run with, where a person or a policy changed them.
    `in_doubt`: the tool changes something and did not return, so it may have happened.
    """

    call_id: str
    name: str
    content: str
    is_error: bool = False
    refused: str = ""
    arguments: Json | None = None
    in_doubt: bool = False
    at: str | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Started:
    """A call with side effects is about to run. If no result follows, it may have happened.
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
    A yes is to the arguments as the model wrote them, or as they stand here.
    """

    decision: Literal["yes", "no", "quit"]
    call_id: str = ""
    reason: str = ""
    by: str = ""
    arguments: Json | None = None
    at: str | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Checked:
    """What a check of `done_when` found: nothing is `missing` (None), or what is, in words for the
    model. `name` is the check's.
    """

    name: str
    missing: str | None = None
    at: str | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Ended:
    """The turn is over. An empty `answer` means the words of the last reply. Any message after it
    opens the turn again, but that of a person, which begins a new one.
    """

    exit: Exit
    answer: str = ""
    at: str | None = field(default=None, compare=False)


Spoken = User | Assistant | ToolResult  # what a model gets to see
Message = Spoken | Started | Verdict | Checked | Ended
MESSAGES = (User, Assistant, ToolResult, Started, Verdict, Checked, Ended)
for kind in (*MESSAGES, ToolCall, Usage, Force):  # pydantic: refuse field names that are not ours
    setattr(kind, "__pydantic_config__", {"extra": "forbid"})  # noqa: B010
_KINDS: dict[str, type] = {kind.__name__.lower(): kind for kind in MESSAGES}


def to_json(message: Message) -> Json:
    """A message as a JSON object; fields that hold their default are left out."""
    kind: type = type(message)
    values = validator_of(kind).dump_python(message, exclude_defaults=True, warnings=False)
    return {"type": kind.__name__.lower(), **values}


def from_json(data: Json) -> Message:
    """The message that `to_json` wrote, every field of its type. Raises ValueError when it is not
    one.
    """
    known = dict(data)
    kind = _KINDS.get(str(known.pop("type", "")))
    if kind is None:
        raise ValueError(f"there is no message of type {data.get('type')!r}")
    try:
        return validator_of(kind).validate_python(known)
    except pydantic.ValidationError as error:
        problem = error.errors(include_url=False)[0]
        place = ".".join(str(part) for part in problem["loc"])
        raise ValueError(f"{place}: {problem['msg']}") from None


@cache
def validator_of(kind: type) -> "pydantic.TypeAdapter[Message]":
    """The validator of a message's fields."""
    return pydantic.TypeAdapter(kind)


@dataclass(slots=True)
class OpenCalls:
    """The calls of one reply that have no result yet, in order."""

    waiting: deque[ToolCall] = field(default_factory=deque)

    def answer(self, result: ToolResult) -> ToolCall | None:
        """The call that `result` answers, which is open no more; None where there is none."""
        for call in self.waiting:
            if call.id == result.call_id:
                self.waiting.remove(call)
                return call
        return None


def pairs(messages: Iterable[Message]) -> Iterator[tuple[Message, ToolCall | None]]:
    """Each message with, for a result, the call that it answers (None where there is none)."""
    open_calls = OpenCalls()
    for message in messages:
        call = None
        if isinstance(message, Assistant):
            open_calls = OpenCalls(deque(message.tool_calls))
        elif isinstance(message, ToolResult):
            call = open_calls.answer(message)
        yield message, call

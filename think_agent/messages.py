"""Messages: the records that make up a conversation.

Rule 1: a message is an immutable value, independent of any provider or I/O. Messages with the same
        content are equal. (Time stamps, ids of questions, and the key and digest of a `Started`
        aren't compared.)
Rule 2: a transcript is a sequence of messages. It's the only state of a run; everything else is
        derived from it (`turn.py`).
Rule 3: `to_json` and `from_json` are exact inverses, so a saved transcript loses nothing.
Rule 4: what a model said is never changed later.
Rule 5: a result answers the first open call of the latest reply with the same id (`take_answered`).

How each provider writes these messages is in `wire/`.
"""

import json
from collections import deque
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal, get_args

import pydantic

from .checking import show_error

Json = dict[str, Any]
THINK_NAME = "think"  # the tool itself is in think.py
# With `Agent(carry=True)`, the model writes the thought for a call into this argument of the call.
CARRIED = "thought"


@dataclass(frozen=True, slots=True)
class Force:
    """A tool choice: the model must call the tool of this name."""

    name: str


ToolChoice = Literal["auto", "required", "none"] | Force
Enforced = Literal["tool_choice", "schema", "prompt", "ignored"] | None
Exit = Literal[
    "signal",  # a thought said should_continue "false", and the closing reply gave the answer
    "silence",  # the model called no tool
    "cannot",  # a thought said that it can't be done (`THINK_CANNOT`)
    "unmet",  # the model said it's done, but a check found something missing
    "limit",  # a limit on model calls, actions, seconds or thoughts in a row was reached
    "budget",  # a limit on tokens or cost was reached
    "gave_up",  # too many failures or repeats in a row
    "declined",  # a person stopped the run (a "no" to one call doesn't stop it)
    "needs_human",  # a person has to decide, and the run can't ask one now: it's paused
    "refused",  # the model or its provider refused to answer
    "truncated",  # a reply was cut off or unreadable; its calls didn't run
    "empty",  # the model wrote no text, even when asked again
    "invalid_answer",  # the answer isn't valid for the type in `answer=`
]

Kind = Literal[  # who wrote a message in the user's role, and why
    "person",
    "nudge",
    "silence",
    "format",
    "repeat",
    "check",
    "answer",
    "limit",
    "budget",
    "guidance",
    "policy",
]

COMPLETE = ("end_turn", "tool_use", "stop_sequence")  # the stop reasons of a complete reply


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call that the model asks for. `arguments` is a dict, or the raw text if the model didn't
    write a JSON object. `recovered`: the call was found in the text of the reply. `thought_in`: the
    name of the argument that holds the call's thought, if it carries one. (It's "thought", unless
    the tool has a parameter of that name: `Tool.thought_in`.)
    """

    id: str
    name: str
    arguments: Json | str = field(default_factory=dict)
    recovered: bool = False
    thought_in: str = CARRIED


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens, counted the same way for every provider. The input includes tokens read from a cache
    (`cached_tokens`) or written to one (`written_tokens`). The output includes reasoning.
    `estimated`: the server sent no counts, so they're estimated from the number of characters.
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
    """A message in the user's role. `kind` says who wrote it and why. `limits`: limits for this run
    only, such as `{"max_model_calls": 5}`.

    A person's message is `"person"` and begins a new turn. The kit writes the others, inside a
    turn: `"nudge"` after an empty or truncated reply, `"silence"` after a reply that stopped
    although there seems to be more to do, `"format"` after an unreadable reply, `"repeat"` after
    the same action again and again, `"check"` to say what is still missing, `"answer"` to ask for
    the answer in the right form, `"limit"` and `"budget"` to ask for the closing reply.
    `"guidance"` passes on what a person said when they let the run continue. `"policy"` comes from
    a custom policy.
    """

    text: str
    kind: Kind = "person"
    limits: dict[str, float] | None = field(default=None, hash=False)
    at: str | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Assistant:
    """One reply of a model, with how it was requested and where it came from."""

    text: str = ""  # for the user
    thinking: str = ""  # the provider's native reasoning, if it's shown; not part of the answer
    tool_calls: tuple[ToolCall, ...] = ()
    # Complete: "end_turn", "tool_use", "stop_sequence". "malformed": it can't be read. "refusal":
    # the model refused. Anything else: it was cut off.
    stop_reason: str = "end_turn"
    usage: Usage = Usage()
    model: str = ""
    provider: str = ""
    native: Any = None  # the provider's own message as JSON; it goes back to `host` unchanged
    # Who enforced `tool_choice`. "tool_choice": the provider. "schema": the server's sampler.
    # "prompt": no one, the prompt only asked. "ignored": no one, although the provider accepted the
    # choice. None: there was nothing to enforce, or it isn't known.
    enforced: Enforced = None
    tool_choice: ToolChoice = "auto"  # whether it had to call a tool, and which
    mistake: str = ""  # for the model: why the reply is "malformed"
    dialect: str = ""  # how the model calls tools; empty: native tool calling
    commentary: str = ""  # an interim remark, if the provider marks it (see `words`)
    # The provider signed its thinking together with everything before it, so nothing before it may
    # be left out.
    signed: bool = False
    signed_under: str = ""  # a digest of what else the signature covers
    cause: str = ""  # for a person: why the reply was cut off or refused
    notice: str = ""  # for a person who watches the run
    not_done: bool = False  # the provider says that the model isn't finished
    host: str = ""  # the server that it came from
    at: str | None = field(default=None, compare=False)

    @property
    def words(self) -> str:
        """The text for the user: `text`, or else `commentary`. Empty if both are blank."""
        for words in (self.text, self.commentary):
            if words.strip():
                return words
        return ""

    @property
    def is_usable(self) -> bool:
        """Is the reply complete and readable? If it isn't, none of its calls run."""
        return self.stop_reason in COMPLETE


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The result of one tool call. An error is a result as well: the model reads it and may try
    again.

    `refused` says why the call wasn't run now. It's empty if the call ran, even if it failed. The
    codes: `"gate"` (no thought covered it), `"invalid"` (unknown tool or invalid arguments),
    `"text"` (it was written as text), `"repeat"` (the same call has already succeeded in this
    reply), `"limit"`, `"person"`, `"failed"` (an earlier call failed), `"stopped"` (the run stopped
    first), or a code from a custom policy.
    `arguments`: the arguments it ran with, if a person or a policy changed them.
    `in_doubt`: the tool has side effects and didn't return, so this call may have happened.
    `number`: its number in the conversation, which an answer cites as a source
    (`policies/answer.py`). 0 if answers have no sources.
    """

    call_id: str
    name: str
    content: str
    is_error: bool = False
    refused: str = ""
    arguments: Json | None = None
    in_doubt: bool = False
    number: int = 0
    at: str | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Started:
    """A call with side effects is about to run. If no result follows, it may have happened.

    `key` is its idempotency key, which stays the same in a retry. It's empty if the tool takes no
    key. `same` is a digest of the arguments that identify the call (`Tool.same`). `arguments`: the
    arguments it runs with, if they aren't the ones the model wrote.
    """

    call_id: str
    name: str
    key: str = field(default="", compare=False)
    same: str = field(default="", compare=False)
    arguments: Json | None = None
    at: str | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Verdict:
    """A person's decision about a call, or (without `call_id`) about whether to continue. Create
    one with `AskHuman.yes` and its siblings.

    `"yes"`: run it with `arguments`. If they're left out, the yes is to the arguments in the
    question, which are filled in when the verdict is recorded. `edited`: the person changed the
    arguments. `new`: run it as a separate call, although an earlier one may have happened. `"no"`:
    don't run it. `"quit"`: end the turn; a "no" to continuing does the same. `reason`: the person's
    reason, which the model reads after a yes or no to a call. `by`: the person or rule that
    decided. `question`: the id of the question (`AskHuman.id`); only its first part is recorded.
    """

    decision: Literal["yes", "no", "quit"]
    call_id: str = ""
    reason: str = ""
    by: str = ""
    arguments: Json | None = None
    edited: bool = False
    new: bool = False
    question: str = field(default="", compare=False)
    at: str | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Checked:
    """The result of a `done_when` check. `missing` explains to the model what is missing; None
    means that nothing is.
    """

    name: str
    missing: str | None = None
    at: str | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Ended:
    """The turn is over. If `answer` is empty, the latest reply's text is the answer. After `Ended`,
    a person's message begins a new turn. Any other message reopens this one: the kit adds one when
    a turn that ended `truncated` is resumed.
    """

    exit: Exit
    answer: str = ""
    at: str | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Paused:
    """The run is waiting for a person, who may answer in another process (`Agent.resume`).

    `question` is the text for readers. It shows the call with the arguments as written. `call_id`:
    the call in question; empty if the question is whether to continue. `arguments`: the call's
    arguments in the question, if they aren't the ones the model wrote. `id`: the first part of the
    question's id (`AskHuman.id`).
    """

    question: str
    call_id: str = ""
    arguments: Json | None = None
    id: str = field(default="", compare=False)
    at: str | None = field(default=None, compare=False)


Spoken = User | Assistant | ToolResult  # what a model sees
Message = Spoken | Started | Verdict | Checked | Ended | Paused
MESSAGES = get_args(Message)
_TYPES: dict[str, type] = {message.__name__.lower(): message for message in MESSAGES}
for _one in (*MESSAGES, ToolCall, Usage, Force):
    setattr(_one, "__pydantic_config__", {"extra": "forbid"})  # noqa: B010  (no unknown fields)


def to_json(message: Message) -> Json:
    """A message as a JSON object. Fields that have their default value are left out."""
    kind: type = type(message)
    values = validator_of(kind).dump_python(message, exclude_defaults=True, warnings=False)
    return {"type": kind.__name__.lower(), **values}


def from_json(data: Json) -> Message:
    """The message that `to_json` wrote. Raises ValueError if `data` isn't a valid message."""
    known = dict(data)
    kind = _TYPES.get(str(known.pop("type", "")))
    if kind is None:
        raise ValueError(f"there is no message of type {data.get('type')!r}")
    try:
        return validator_of(kind).validate_python(known)
    except pydantic.ValidationError as error:
        problem = error.errors(include_url=False)[0]
        place = ".".join(str(part) for part in problem["loc"])
        raise ValueError(f"{place}: {problem['msg']}") from None


def find_problem(message: Message) -> str:
    """Why a message that custom code made can't be saved and loaded again; empty if it can. (Its
    fields may have the wrong types, or its arguments may not be JSON.)
    """
    try:
        record = json.loads(json.dumps(to_json(message)))
        found = from_json(record)
        for name in message.__dataclass_fields__:
            if getattr(found, name) != getattr(message, name):
                return f"{name}: it is not the same after it was written as JSON"
    except Exception as error:  # `repr`, `str` and `==` of any object may raise
        return show_error(error)
    return ""


@cache
def validator_of(kind: type) -> "pydantic.TypeAdapter[Message]":
    """The validator for a type of message."""
    return pydantic.TypeAdapter(kind)


def take_answered(open_calls: deque[ToolCall], result: ToolResult) -> ToolCall | None:
    """Remove the call that `result` answers from `open_calls` (a reply's calls without a result)
    and return it. None if there is no such call.
    """
    for call in open_calls:
        if call.id == result.call_id:
            open_calls.remove(call)
            return call
    return None

"""Messages: what was said and done in a conversation.

Rule 1: a message is a value. Nobody changes it, and it knows no provider and no I/O. Two messages
        with the same content are equal. (The time of recording, `at`, and the key and the digest of
        a `Started` do not count.)
Rule 2: a transcript is a sequence of messages. It is the only state of a run: everything else is
        read from it (`turn.py`).
Rule 3: `to_json` and `from_json` are exact inverses, so a saved transcript loses nothing.
Rule 4: what a model said is never changed afterwards.
Rule 5: a result answers the first call of the latest reply that has its id and no result yet
        (`take_answered`).

Limitations: the form that a message has on a provider's wire is in `wire/`.
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
# With `Agent(carry=True)`, the model writes the thought behind a call into this argument of it.
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
    "cannot",  # a thought said that it cannot be done (`THINK_CANNOT`)
    "unmet",  # the model said that it is done, but a check says that something is missing
    "limit",  # a limit on model calls, actions or seconds was reached
    "budget",  # tokens or money ran out
    "gave_up",  # too many failures or repeats in a row
    "declined",  # a person stopped the run (a "no" to one call does not stop it)
    "needs_human",  # a person has to decide, and there is nobody to ask
    "refused",  # the model or its provider refused to answer
    "truncated",  # a reply broke off or was not readable; its calls were not run
    "empty",  # the model was asked again, and still wrote no text
    "invalid_answer",  # the answer does not fit the type that was asked for
]

Kind = Literal[  # who speaks in the user's role, and why
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
    """One call that the model asks for. `arguments` is a dict, or the raw text if the model wrote
    no JSON object. `recovered`: the model wrote the call into its text, and it was found there.
    `thought_in`: the argument that holds the thought behind the call, if it carries one. It has
    another name than usual if the tool itself has a parameter of that name (`Tool.thought_in`).
    """

    id: str
    name: str
    arguments: Json | str = field(default_factory=dict)
    recovered: bool = False
    thought_in: str = CARRIED


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens, counted the same way for every provider. The input includes the tokens that were read
    from a cache (`cached_tokens`) or written to one (`written_tokens`). The output includes
    reasoning. `estimated`: the server gave no counts, so they are computed from the number of
    characters.
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
    """A message in the user's role. `kind` says who speaks, and why. `limits`: those that were
    given for this run alone, such as `{"max_model_calls": 5}`.

    A person's message is `"person"`, and begins a new turn. The kit writes the others, inside a
    turn: `"nudge"` after an empty reply or one that was cut, `"silence"` after a reply that stopped
    although there seems to be more to do, `"format"` after a reply that could not be read,
    `"repeat"` after the same action again and again, `"check"` to say what is still missing,
    `"answer"` to ask for the answer in the right form, `"limit"` and `"budget"` to ask for the
    closing reply. `"guidance"` passes on what a person said with a yes to going on. `"policy"` is
    what a policy of your own says.
    """

    text: str
    kind: Kind = "person"
    limits: dict[str, float] | None = field(default=None, hash=False)
    at: str | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Assistant:
    """One reply of a model.

    What the model says: `text` is for the user. `thinking` is the provider's native reasoning, if
    the provider shows it; it is not part of the answer. `commentary` is text that the provider
    marks as a remark on the way; it is the answer if there is no text (`words`).
    What it asks for: `tool_calls`.
    Why it ended, in `stop_reason`: complete are `"end_turn"`, `"tool_use"`, `"stop_sequence"`. Not
    readable: `"malformed"` (`mistake` tells the model why). `"refusal"`: the model refused. Any
    other means that the reply broke off (`cause` tells a person why).
    `not_done`: the provider says that the model has more to do, whatever the reply looks like.
    Who said it: `provider`, `model`, `usage` (its tokens) and `dialect`, the way in which the model
    calls tools (empty: native tool calling).
    What goes back to the server it came from (`host`): `native` is the provider's own message as
    JSON, unchanged, because it may hold more than the fields here. `signed`: the provider signed
    its thinking together with everything before it, so nothing before it may be left out.
    `signed_under`: a digest of the model, instructions and tools, if the signature covers them.
    What was asked of the model: `tool_choice` is whether it had to call a tool, and which.
    `enforced` says who made sure of that. `"tool_choice"`: the provider. `"schema"`: the server's
    sampler, which could write nothing else. `"prompt"`: nobody, the model was only asked in words.
    `"ignored"`: nobody, although the provider accepted the choice. None: there was nothing to make
    sure of, or it is not known.
    `notice`: what somebody who watches the run should know about the reply.
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
    signed_under: str = ""
    cause: str = ""
    notice: str = ""
    not_done: bool = False
    host: str = ""
    at: str | None = field(default=None, compare=False)

    @property
    def words(self) -> str:
        """What it says to the user: its text, or else the commentary. Empty if both are blank."""
        for words in (self.text, self.commentary):
            if words.strip():
                return words
        return ""

    @property
    def is_usable(self) -> bool:
        """Is the reply complete and readable? If it is not, none of its calls is run."""
        return self.stop_reason in COMPLETE


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The answer to one tool call. An error is an answer, too: the model reads it and may try
    again.

    `refused` says why the call was not run. It is empty if the call ran, even if it failed. The
    codes: `"gate"` (there was no thought behind it), `"invalid"` (there is no such tool, or the
    arguments do not fit it), `"text"` (it was written as text), `"repeat"` (the same call has
    succeeded in this reply), `"limit"`, `"person"`, `"failed"` (a call before it failed),
    `"stopped"` (the run was stopped before it), or a code from a policy of your own.
    `arguments`: the arguments it was run with, if a person or a policy changed them.
    `in_doubt`: the tool changes something and did not return, so this call may have happened.
    `number`: by this an answer names it as a source (`policies/answer.py`); the results of a
    conversation are counted. 0 if the answer has no sources.
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

    `key` is its idempotency key, which stays the same if the call is tried again. It is empty if
    the tool takes no key. `same` is a digest of what makes two calls the same (`Tool.same`).
    `arguments`: those with which it runs, if they are not the ones that the model wrote.
    """

    call_id: str
    name: str
    key: str = field(default="", compare=False)
    same: str = field(default="", compare=False)
    arguments: Json | None = None
    at: str | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Verdict:
    """A decision about a call, or (no `call_id`) whether to go on. `AskHuman.yes` and the like make
    one.

    `"yes"`: run it with `arguments`. An answer may leave them out: then the yes is to those in the
    question, and they are filled in when the verdict is recorded. `edited`: the person put in other
    arguments. `new`: run it as a second call of its own, although an earlier one may have happened.
    `"no"`: do not run it. `"quit"`: end the turn, as a "no" to going on does. `reason`: what the
    person says; after a yes or a no to a call the model reads it. `by`: the person, or the rule,
    that decided. `question`: the id of the question (`AskHuman.id`); its first part is recorded.
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
    """The result of a check of `done_when`. `missing` tells the model what is missing; None means
    that nothing is. `name` is the name of the check.
    """

    name: str
    missing: str | None = None
    at: str | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Ended:
    """The turn is over. An empty `answer` means that the words of the latest reply are the answer.
    After `Ended`, a person's message begins a new turn. Any other message reopens this one: the kit
    adds one if a turn that ended `truncated` is resumed.
    """

    exit: Exit
    answer: str = ""
    at: str | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Paused:
    """The run waits for a person, who may answer in another process (`Agent.resume`).

    `question` is for readers; it shows the call with the arguments as they were written. `call_id`:
    the call that it is about; empty if it asks whether to go on. `arguments`: those of the call in
    the question, if they are not the ones that the model wrote. `id`: the first part of the id of
    the question (`AskHuman.id`).
    """

    question: str
    call_id: str = ""
    arguments: Json | None = None
    id: str = field(default="", compare=False)
    at: str | None = field(default=None, compare=False)


Spoken = User | Assistant | ToolResult  # what a model gets to see
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
    """The message that `to_json` wrote, with every field of the right type. Raises ValueError if
    `data` is no such message.
    """
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
    """Why a message, made by a user's own code, could not be read again from a file; empty if it
    can be. (Its fields may have other types, or its arguments may hold what is no JSON.)
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
    """Take the call that `result` answers out of `open_calls`, the calls of a reply that have no
    result yet, and return it. None if there is no such call.
    """
    for call in open_calls:
        if call.id == result.call_id:
            open_calls.remove(call)
            return call
    return None

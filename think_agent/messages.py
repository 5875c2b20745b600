"""What was said and done: the messages of a transcript.

Rule 1: a message is a value. It is frozen, knows no provider and no I/O, and equals another with
        the same content (`at`, the time the writer stamped on it, does not count).
Rule 2: a transcript is a sequence of messages and the only state of a run. Everything else is
        computed from it.
Rule 3: `to_json` and `from_json` are exact inverses, so what is on disk is what was in memory.

The edge: how a message looks on a provider's wire is the business of `providers/`.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import takewhile
from typing import Any, Literal, TypeAlias

Json: TypeAlias = dict[str, Any]
THINK_NAME = "think"  # the tool itself is in think.py


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
    """Tokens, in one meaning for every provider: input *with* cached, output *with* reasoning."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    reasoning_tokens: int = 0

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(Usage)))


@dataclass(frozen=True, slots=True)
class User:
    """A message in the user's role. `kind` says who really speaks.

    `"person"` opens a new turn. The others are written by the kit, inside a turn: `"nudge"` after
    an empty reply, `"format"` after one that a dialect could not read, `"repeat"` after the same
    action again and again, `"answer"` to ask for the answer in its form, `"limit"` and `"budget"`
    to ask for closing words.
    """

    text: str
    kind: Literal["person", "nudge", "format", "repeat", "answer", "limit", "budget"] = "person"
    at: str | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Assistant:
    """One reply of a model.

    `thinking`: the provider's native reasoning, where it shows any; never part of the answer.
    `stop_reason`: `"end_turn"`, `"tool_use"`, `"stop_sequence"`, `"max_tokens"`, `"pause_turn"` or
    `"refusal"`; or `"malformed"`, from a dialect that could not read the text, with what was wrong
    in `mistake`. `dialect`: its name, empty for native tool calling. `native`: the provider's own
    message as JSON, handed back verbatim to the same provider. `tool_choice`: what was asked of
    this reply; `enforced`: how that was carried out: `"tool_choice"` (by the provider), `"schema"`
    (by constrained sampling), `"prompt"` (by asking nicely), `"ignored"` (it was taken and not
    done), None (nothing had to be enforced).
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
    at: str | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The answer to one tool call. Errors are answers too: the model is meant to read and mend
    them. `refused` means that a policy answered and the call was never run; `arguments` is what it
    was run with where a person changed them.
    """

    call_id: str
    name: str
    content: str
    is_error: bool = False
    refused: bool = False
    arguments: Json | None = None
    at: str | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Started:
    """A call with side effects is about to run. One without a result after it may have happened."""

    call_id: str
    name: str
    at: str | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a person decided when asked: about a call, or (no `call_id`) about going on at all.

    `"yes"`: do it, with `arguments` instead of the model's where they are given. `"no"`: do not,
    and the model reads `reason`. `"quit"`: end the run. `by` names who decided.
    """

    decision: Literal["yes", "no", "quit"]
    call_id: str = ""
    reason: str = ""
    by: str = ""
    arguments: Json | None = None
    at: str | None = field(default=None, compare=False)


Spoken: TypeAlias = User | Assistant | ToolResult  # what a model gets to see
Message: TypeAlias = Spoken | Started | Verdict
MESSAGES = (User, Assistant, ToolResult, Started, Verdict)


def json_text(value: Any) -> str:
    """`value` as JSON, in whatever characters it has."""
    import json  # so that importing the kit stays light

    return json.dumps(value, ensure_ascii=False)


def whole_characters(text: str) -> str:
    """`text` with half characters (lone surrogates) joined where two make one, and replaced where
    not: they can be sent to nobody.
    """
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def current_turn(transcript: Sequence[Message]) -> Sequence[Message]:
    """The messages since a person last spoke, that one included."""
    for index in range(len(transcript) - 1, -1, -1):
        message = transcript[index]
        if isinstance(message, User) and message.kind == "person":
            return transcript[index:]
    return transcript


def paired(
    reply: Assistant, after: Iterable[Message]
) -> tuple[tuple[ToolCall, ToolResult | None], ...]:
    """The calls of `reply`, each with its result among the messages `after` it and before the next
    reply (None: it has none yet). Ids may repeat: a result answers the first open call of its id.
    """
    between = takewhile(lambda message: not isinstance(message, Assistant), after)
    results = [message for message in between if isinstance(message, ToolResult)]
    pairs = []
    for call in reply.tool_calls:
        result = next((r for r in results if r.call_id == call.id), None)
        if result:
            results.remove(result)
        pairs.append((call, result))
    return tuple(pairs)


def unanswered(reply: Assistant, after: Iterable[Message]) -> tuple[ToolCall, ...]:
    """The calls of `reply` that have no result among the messages `after` it, in order."""
    return tuple(call for call, result in paired(reply, after) if result is None)


def mint_ids(reply: Assistant, history: Sequence[Message]) -> Assistant:
    """`reply` with an id on every call: where the wire had none, `call_N`, N counted over the whole
    `history`.

    Counted, not random: the same reply to the same history gets the same ids, streamed or not,
    resumed or not.
    """
    if all(call.id for call in reply.tool_calls):
        return reply
    n = sum(len(message.tool_calls) for message in history if isinstance(message, Assistant))
    taken = {c.id for m in (*history, reply) if isinstance(m, Assistant) for c in m.tool_calls}
    calls = []
    for number, call in enumerate(reply.tool_calls, n):
        while not call.id and f"call_{number}" in taken:
            number += 1
        calls.append(call if call.id else replace(call, id=f"call_{number}"))
        taken.add(calls[-1].id)
    return replace(reply, tool_calls=tuple(calls))


def to_json(message: Message) -> Json:
    """A message as a JSON object; fields that hold their default are left out."""
    return {"type": _kind(type(message)), **_fields(message)}


def from_json(data: Json) -> Message:
    """The message that `to_json` wrote. Raises ValueError when it is not one."""
    known = dict(data)
    try:
        make = _KINDS[known.pop("type")]
        if "tool_calls" in known:
            known["tool_calls"] = tuple(ToolCall(**call) for call in known["tool_calls"])
        if "usage" in known:
            known["usage"] = Usage(**known["usage"])
        if isinstance(known.get("tool_choice"), dict):
            known["tool_choice"] = Force(**known["tool_choice"])
        return make(**known)
    except (KeyError, TypeError) as error:
        raise ValueError(f"not a message of a transcript: {error}") from error


def _kind(message: type[Message]) -> str:
    """What `"type"` says of a message: the name of its class, in small letters."""
    return message.__name__.lower()


_KINDS: dict[str, Callable[..., Message]] = {_kind(message): message for message in MESSAGES}


def _fields(value: Message | ToolCall | Usage | Force) -> Json:
    pairs = ((f, getattr(value, f.name)) for f in fields(value))
    return {f.name: _plain(item) for f, item in pairs if item != f.default}


def _plain(value: Any) -> Any:
    match value:
        case ToolCall() | Usage() | Force():
            return _fields(value)
        case tuple():
            return [_plain(item) for item in value]
    return value

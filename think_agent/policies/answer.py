"""A typed answer: `Agent(..., answer=Refund)`, or any type that pydantic can validate.

Rule 1: the closing reply uses the provider's structured output. If the type isn't an object or
        contains itself, the model is asked for `{"answer": …}`; the bare value is accepted as well.
Rule 2: the answer must be the whole text, since a JSON object inside other text may be a quotation.
Rule 3: if it's invalid, the model may correct it once; after that the exit is "invalid_answer".
        After silence, the answer is plain text, so the model is first asked for the right form.
Rule 4: the closing reply at a limit, a refusal and a truncated reply are left alone.
Rule 5: if the type has a `Source` field, results are numbered, and the model sees the numbers. A
        source must be the number of a successful result, from any turn.
Rule 6: without a type, a reply in a dialect may contain the answer together with the signal.

Limitations: it can't detect a valid number next to a wrong claim.
"""

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

import pydantic
import pydantic_core

from ..checking import show_error
from ..history import OpenCall
from ..loop import CallModel, Done, Step
from ..messages import THINK_NAME, Json, Message, Spoken, ToolResult, User
from ..outcome import Outcome
from ..schema import problems, reduce_schema, remove_null
from ..text import json_text, remove_fence, shorten
from ..tools import ModelMistake
from ..turn import Turn

ASK = "Now give that answer as one JSON object in the form that is asked, and nothing else."
ANSWERED = ("signal", "silence", "unmet")  # exits at which the model meant to answer
WRAPPED = "answer"  # the key for an answer that isn't an object
SOURCE = "source"  # the format of a Source in a schema
NUMBERED = (
    "Each result begins with its number, such as [3]. In the answer, a source is the number of a "
    "result that it stands on."
)


class _Number:
    """How pydantic validates and describes a source. (`Field` could do it, but then importing the
    package would load most of pydantic.)
    """

    def __get_pydantic_core_schema__(self, kind: Any, handler: Any) -> Any:
        schema = pydantic_core.core_schema.str_schema(coerce_numbers_to_str=True)
        return pydantic_core.core_schema.with_info_after_validator_function(_source, schema)

    def __get_pydantic_json_schema__(self, schema: Any, handler: Any) -> Json:
        return {**handler(schema), "format": SOURCE}


def _source(text: str, info: "pydantic.ValidationInfo") -> str:
    """A source, reduced to its number. Outside a run, any text is accepted."""
    number = text.strip("[] ")
    if info.context is not None and not info.context.get(number):
        raise ValueError("this is not the number of a result that succeeded")
    return number


Source = Annotated[str, _Number()]
"""A type for answer fields: the number of the result that supports a claim (rule 5)."""


@dataclass
class Sources:
    """The numbers of a conversation's results, and which of these succeeded."""

    numbers: dict[str, bool] = field(default_factory=dict)

    def add(self, message: Message, about: OpenCall | None) -> None:
        """Read the next message of the conversation. `about`: the call it belongs to."""
        if not isinstance(message, ToolResult) or about is None:
            return
        if message.number and about.call.name != THINK_NAME:
            self.numbers[str(message.number)] = not message.is_error


class TypedAnswer:
    """The type of the answer. `ask_for_answer` is the policy; `read` creates the object.

    `schema` is the JSON schema, reduced to keywords that every provider accepts. Raises TypeError
    if pydantic can't validate the type.
    """

    def __init__(self, kind: Any) -> None:
        if isinstance(kind, str) or inspect.isroutine(kind):
            raise TypeError(f"answer={kind!r}: pass the type itself, such as a pydantic model")
        try:
            self._adapter = pydantic.TypeAdapter[Any](kind)
            schema = self._adapter.json_schema()
            self._is_wrapped = "properties" not in schema
            if self._is_wrapped:
                fields: Any = {WRAPPED: (kind, ...)}
                self._adapter = pydantic.TypeAdapter(pydantic.create_model("Answer", **fields))
                schema = self._adapter.json_schema()
            self.schema = reduce_schema(schema, strict=True)
            self.has_sources = f'"format": "{SOURCE}"' in json_text(schema)
        except Exception as error:  # pydantic raises many kinds of errors
            why = shorten(str(error))
            raise TypeError(f"answer={kind!r}: pydantic cannot validate it ({why})") from None

    def read(self, text: str, sources: Mapping[str, bool] | None = None) -> Any:
        """The object in an answer, validated like a tool's arguments. `sources`: the numbers of
        results, and which succeeded; None accepts any. Raises ModelMistake, which explains the
        problem to the model.
        """
        try:
            value = pydantic_core.from_json(remove_fence(text), allow_inf_nan=False)
        except ValueError:
            raise ModelMistake("it is not JSON alone") from None
        if not self._is_wrapped:
            return self._validate(value, sources)

        has_wrapper = isinstance(value, dict) and value.keys() == {WRAPPED}
        if not has_wrapper:
            value = {WRAPPED: value}
        return getattr(self._validate(value, sources), WRAPPED)

    def _validate(self, value: Any, sources: Mapping[str, bool] | None) -> Any:
        try:
            return self._adapter.validate_json(json_text(value), context=sources)
        except pydantic.ValidationError as error:
            # The schema requires every property, so the model wrote null for an optional one.
            has_changed = False
            for item in error.errors():
                if remove_null(value, item["loc"]):
                    has_changed = True
            if has_changed:
                return self._validate(value, sources)
            raise ModelMistake(problems(error)) from error
        except Exception as error:  # from a validator in the type itself
            raise ModelMistake(shorten(show_error(error))) from error

    def ask_for_answer(self, step: Step, turn: Turn) -> Step:
        """The policy: a turn ends only with a valid answer."""
        if not isinstance(step, Done) or step.exit not in ("signal", "silence"):
            return step
        try:
            self.read(step.answer, turn.history.read(Sources).numbers)
            return step
        except ModelMistake as problem:
            question = f"Your answer does not fit: {problem}. Correct that. {ASK}"

        times_corrected = turn.asked["answer"]
        if step.exit == "silence":  # the first question only asks for the form
            times_corrected -= 1
        if times_corrected > 0:
            return Done("invalid_answer", step.answer)
        if times_corrected < 0:
            question = ASK
        return CallModel("none", say=User(question, kind="answer"))

    def ask_for_form(self, step: Step, turn: Turn) -> Step:
        """The policy: a closing reply must have the form of the answer (rule 1)."""
        if turn.signal == "cannot":  # with a form, it would invent an answer
            return step
        if isinstance(step, CallModel) and step.tool_choice == "none":
            return replace(step, bounds=replace(step.bounds, output_schema=self.schema))
        return step

    def data_of(self, outcome: Outcome, turn: Turn) -> Any:
        """The object in a run's answer; None if there is no valid answer."""
        if outcome.exit not in ANSWERED:
            return None
        try:
            return self.read(outcome.answer, turn.history.read(Sources).numbers)
        except ModelMistake:  # it ended "unmet", or was resumed with another type
            return None

    def add_number(self, message: Message, turn: Turn) -> Message:
        """The message to record: a tool's result gets its number (rule 5)."""
        if not self.has_sources or not isinstance(message, ToolResult):
            return message
        if message.name == THINK_NAME:
            return message
        return replace(message, number=len(turn.history.read(Sources).numbers) + 1)


def with_numbers(shown: tuple[Spoken, ...], turn: Turn) -> tuple[Spoken, ...]:
    """Messages for a request. A result with a number begins with it."""
    if not turn.history.read(Sources).numbers:
        return shown
    return tuple(_with_number(message) for message in shown)


def _with_number(message: Spoken) -> Spoken:
    if isinstance(message, ToolResult) and message.number:
        return replace(message, content=f"[{message.number}] {message.content}")
    return message


def keep_answer(step: Step, turn: Turn) -> Step:
    """The policy: a reply in a dialect may signal the end and answer at once (rule 6)."""
    reply = turn.reply
    if reply is None or not reply.dialect or not turn.says_done:
        return step
    only_thinks = turn.thoughts_in_a_row > 0
    if only_thinks and reply.words:
        return Done("signal", reply.words)
    return step

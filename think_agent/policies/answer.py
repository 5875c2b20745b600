"""An answer with a type: `Agent(..., answer=Refund)`, or any type that pydantic can validate.

Rule 1: the closing reply asks for structured output in the provider's own way. A type that is not
        an object, or that contains itself, is asked for as `{"answer": …}`; it is read with or
        without that.
Rule 2: the answer must be the whole text: a JSON object inside other text may be a quotation.
Rule 3: if it does not fit, the model is told once what was wrong; then it is "invalid_answer".
        After silence the answer was in plain words, so it is first asked for in the right form.
Rule 4: the closing reply at a limit, a refusal and a reply that broke off are left as they are.
Rule 5: with a `Source` in the type, results have numbers, which the model sees before them. A
        source is right if it is the number of a result that succeeded, in whatever turn.
Rule 6: without a type, a reply in a dialect may give the answer together with the signal.

Limitations: a right number under a wrong claim is not seen.
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
ANSWERED = ("signal", "silence", "unmet")  # with these exits, the model meant to give an answer
WRAPPED = "answer"  # the key for an answer that is not an object
SOURCE = "source"  # the format of a Source in a schema
NUMBERED = (
    "Each result begins with its number, such as [3]. In the answer, a source is the number of a "
    "result that it stands on."
)


class _Number:
    """How pydantic validates and describes a source. (`Field` would do it, too, but then importing
    the package would load most of pydantic.)
    """

    def __get_pydantic_core_schema__(self, kind: Any, handler: Any) -> Any:
        schema = pydantic_core.core_schema.str_schema(coerce_numbers_to_str=True)
        return pydantic_core.core_schema.with_info_after_validator_function(_source, schema)

    def __get_pydantic_json_schema__(self, schema: Any, handler: Any) -> Json:
        return {**handler(schema), "format": SOURCE}


def _source(text: str, info: "pydantic.ValidationInfo") -> str:
    """A source as its number alone. Outside of a run, any text is taken."""
    number = text.strip("[] ")
    if info.context is not None and not info.context.get(number):
        raise ValueError("this is not the number of a result that succeeded")
    return number


Source = Annotated[str, _Number()]
"""A type for fields of an answer: the number of a result on which a claim stands (rule 5)."""


@dataclass
class Sources:
    """The numbers of results in a conversation, and which of these succeeded."""

    numbers: dict[str, bool] = field(default_factory=dict)

    def add(self, message: Message, about: OpenCall | None) -> None:
        """Read the next message of the conversation. `about`: the call it belongs to."""
        if not isinstance(message, ToolResult) or about is None:
            return
        if message.number and about.call.name != THINK_NAME:
            self.numbers[str(message.number)] = not message.is_error


class TypedAnswer:
    """The type of the answer. `ask_for_answer` is the policy, `read` makes the object.

    `schema` is the JSON schema, with only the keywords that every provider accepts. Raises
    TypeError if pydantic cannot validate the type.
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
        """The object in an answer, validated like the arguments of a tool. `sources`: the numbers
        of results, and which succeeded; None if any is right. Raises ModelMistake, which tells the
        model what is wrong.
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
        """The policy: a turn ends only with an answer that fits."""
        if not isinstance(step, Done) or step.exit not in ("signal", "silence"):
            return step
        try:
            self.read(step.answer, turn.history.read(Sources).numbers)
            return step
        except ModelMistake as problem:
            question = f"Your answer does not fit: {problem}. Correct that. {ASK}"

        times_corrected = turn.asked["answer"]
        if step.exit == "silence":  # the first question is only for the form
            times_corrected -= 1
        if times_corrected > 0:
            return Done("invalid_answer", step.answer)
        if times_corrected < 0:
            question = ASK
        return CallModel("none", say=User(question, kind="answer"))

    def ask_for_form(self, step: Step, turn: Turn) -> Step:
        """The policy: a closing reply is asked for in the form of the answer (rule 1)."""
        if turn.signal == "cannot":  # a form would make it invent an answer
            return step
        if isinstance(step, CallModel) and step.tool_choice == "none":
            return replace(step, bounds=replace(step.bounds, output_schema=self.schema))
        return step

    def data_of(self, outcome: Outcome, turn: Turn) -> Any:
        """The object in the answer of a run; None if it gave no answer that fits."""
        if outcome.exit not in ANSWERED:
            return None
        try:
            return self.read(outcome.answer, turn.history.read(Sources).numbers)
        except ModelMistake:  # the turn ended unmet, or was resumed with another type
            return None

    def add_number(self, message: Message, turn: Turn) -> Message:
        """A message as it is recorded: the result of a tool gets its number (rule 5)."""
        if not self.has_sources or not isinstance(message, ToolResult):
            return message
        if message.name == THINK_NAME:
            return message
        return replace(message, number=len(turn.history.read(Sources).numbers) + 1)


def with_numbers(shown: tuple[Spoken, ...], turn: Turn) -> tuple[Spoken, ...]:
    """Messages as a request shows them: before a result stands its number, if it has one."""
    if not turn.history.read(Sources).numbers:
        return shown
    return tuple(_with_number(message) for message in shown)


def _with_number(message: Spoken) -> Spoken:
    if isinstance(message, ToolResult) and message.number:
        return replace(message, content=f"[{message.number}] {message.content}")
    return message


def keep_answer(step: Step, turn: Turn) -> Step:
    """The policy: a reply in a dialect that says it is done has given its answer (rule 6)."""
    reply = turn.reply
    if reply is None or not reply.dialect or not turn.says_done:
        return step
    only_thinks = turn.thoughts_in_a_row > 0
    if only_thinks and reply.words:
        return Done("signal", reply.words)
    return step

"""An answer with a type: `Agent(..., answer=Refund)`.

The type may be any that pydantic can validate, such as `list[Refund]`.

Rule 1: after the signal there is a closing reply anyway. It asks for structured output in the
        provider's own way; no tool is misused for that.
Rule 2: the answer must be the whole text: a JSON object inside other text may be a quotation. One
        code fence around it is allowed. A type that is not an object is asked for as `{"answer":
        …}`, and is read with or without that. The same holds for a type that contains itself.
Rule 3: if the answer does not fit, the model is told once what was wrong. After that the turn is
        Done("invalid_answer"). If the turn ended in silence, the answer was in plain words, so the
        model is first asked for the right form.
Rule 4: the closing reply at a limit, a refusal and a reply that broke off are left as they are.
"""

import inspect
import re
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import pydantic
import pydantic_core

from ..loop import CallModel, Done, Step
from ..messages import User
from ..schema import problems, reduced
from ..text import json_text, shorten
from ..tools import ModelMistake
from ..turn import Turn

ASK = "Now give that answer as one JSON object in the form that is asked, and nothing else."
FENCED = re.compile(r"```(?:[a-zA-Z][\w-]*\s)?(.*?)(?:```)?", re.DOTALL)
WRAPPED = "answer"  # the key for an answer that is not an object


class TypedAnswer:
    """The type of the answer. `ask_for_answer` is the policy, `read` makes the object.

    `schema` is the JSON schema, with only the keywords that every provider accepts. Raises
    TypeError if pydantic cannot validate the type.
    """

    def __init__(self, kind: Any) -> None:
        if isinstance(kind, str) or inspect.isroutine(kind):
            raise TypeError(f"answer={kind!r}: pass the type itself, such as a pydantic model")
        self.kind = kind
        self._is_wrapped = False
        try:
            self._adapter = pydantic.TypeAdapter[Any](kind)
            schema = self._adapter.json_schema()
            if "properties" not in schema:
                fields: Any = {WRAPPED: (kind, ...)}
                self._is_wrapped = True
                self._adapter = pydantic.TypeAdapter(pydantic.create_model("Answer", **fields))
                schema = self._adapter.json_schema()
            self.schema = reduced(schema, strict=True)
        except Exception as error:  # pydantic raises many kinds of errors
            why = shorten(str(error))
            raise TypeError(f"answer={kind!r}: pydantic cannot validate it ({why})") from None

    def read(self, text: str) -> Any:
        """The object in an answer, validated like the arguments of a tool. Raises ModelMistake,
        which tells the model what is wrong.
        """
        try:
            value = pydantic_core.from_json(unfenced(text), allow_inf_nan=False)
        except ValueError:
            raise ModelMistake("it is not JSON alone") from None
        if not self._is_wrapped:
            return self._validated(value)

        has_wrapper = isinstance(value, dict) and value.keys() == {WRAPPED}
        if not has_wrapper:
            value = {WRAPPED: value}
        return getattr(self._validated(value), WRAPPED)

    def _validated(self, value: Any) -> Any:
        try:
            return self._adapter.validate_json(json_text(value))
        except pydantic.ValidationError as error:
            # The schema requires every property, so the model wrote null for an optional one.
            nulls = [item["loc"] for item in error.errors() if item["input"] is None]
            taken_out = [_take_out(value, place) for place in nulls]
            if any(taken_out):
                return self._validated(value)
            raise ModelMistake(problems(error)) from error
        except Exception as error:  # from a validator in the type itself
            raise ModelMistake(f"{type(error).__name__}: {shorten(str(error))}") from error

    def ask_for_answer(self, step: Step, turn: Turn) -> Step:
        """The policy: a turn ends only with an answer that fits."""
        if not isinstance(step, Done) or step.exit not in ("signal", "silence"):
            return step
        try:
            self.read(step.answer)
        except ModelMistake as problem:
            return self._ask_again(step, problem, times_asked=turn.asked["answer"])
        return step

    def _ask_again(self, step: Done, problem: ModelMistake, *, times_asked: int) -> Step:
        after_silence = step.exit == "silence"
        if after_silence and not times_asked:
            return CallModel("none", say=User(ASK, kind="answer"))
        most = 2 if after_silence else 1  # after silence, the first question was for the form
        if times_asked >= most:
            return Done("invalid_answer", step.answer)
        correct = f"Your answer does not fit: {problem}. Correct that. {ASK}"
        return CallModel("none", say=User(correct, kind="answer"))


def unfenced(text: str) -> str:
    """A text without the whitespace around it, and without one code fence around all of it. (The
    end of the fence may be missing: some servers take it for a stop word.)
    """
    body = text.strip()
    fenced = FENCED.fullmatch(body)
    if fenced:
        return fenced[1].strip()
    return body


def _take_out(value: Any, place: Sequence[Any]) -> bool:
    """Take the null at `place` out of the object that holds it. Returns False if there was none."""
    holder = value
    key = None
    for step in place:
        with suppress(LookupError, TypeError):  # `step` may be the name of a union's branch
            inner = value[step]
            holder = value
            key = step
            value = inner
    if value is not None or not isinstance(holder, dict):
        return False
    del holder[key]
    return True

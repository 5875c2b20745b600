"""A final answer of a type: `Agent(..., answer=Refund)`, or any other type that pydantic can
validate, such as `list[Refund]`.

Rule 1: it uses the final call that the pattern has anyway. That call asks for structured output by
        the provider's own means; no tool is misused for it.
Rule 2: the answer is the whole text, one fence around it aside: a JSON object among words may be
        but quoted. A type that is no object is asked for as `{"answer": …}`, and read with or
        without that. So is one that holds itself.
Rule 3: an answer that does not fit goes back once, with what was wrong; then the turn is
        Done("invalid_answer"). A model that ended in silence answered in plain words, and is asked
        for the form first.
Rule 4: the words of a limit, a refusal or a broken-off reply are left as they are.
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
WRAPPED = "answer"  # the key of an answer that is no object


class TypedAnswer:
    """What the answer has to be. `ask_for_answer` holds a run to it, `read` makes the object.

    `schema` is the JSON schema, in the keywords that every provider takes. Raises TypeError for a
    type that pydantic cannot validate.
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
        except Exception as error:  # pydantic raises many kinds
            why = shorten(str(error))
            raise TypeError(f"answer={kind!r}: pydantic cannot validate it ({why})") from None

    def read(self, text: str) -> Any:
        """The object in an answer, coerced as the arguments of a tool are. Raises ModelMistake with
        what is wrong, in the model's terms.
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
            # Where every property is required, one that may be left out is null.
            nulls = [item["loc"] for item in error.errors() if item["input"] is None]
            taken_out = [_take_out(value, place) for place in nulls]
            if any(taken_out):
                return self._validated(value)
            raise ModelMistake(problems(error)) from error
        except Exception as error:  # of a validator that is the user's own
            raise ModelMistake(f"{type(error).__name__}: {shorten(str(error))}") from error

    def ask_for_answer(self, step: Step, turn: Turn) -> Step:
        """Ends a turn only with an answer that fits."""
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
        most = 2 if after_silence else 1  # silence was asked for the form first
        if times_asked >= most:
            return Done("invalid_answer", step.answer)
        correct = f"Your answer does not fit: {problem}. Correct that. {ASK}"
        return CallModel("none", say=User(correct, kind="answer"))


def unfenced(text: str) -> str:
    """A text without the whitespace around it, and without one fence around all of it. (Its end may
    be missing: some servers take it for a stop word.)
    """
    body = text.strip()
    fenced = FENCED.fullmatch(body)
    if fenced:
        return fenced[1].strip()
    return body


def _take_out(value: Any, place: Sequence[Any]) -> bool:
    """Take the null at `place` out of the object that holds it. Was it there?"""
    holder = value
    key = None
    for step in place:
        with suppress(LookupError, TypeError):  # it may be the name of a union's branch
            inner = value[step]
            holder = value
            key = step
            value = inner
    if value is not None or not isinstance(holder, dict):
        return False
    del holder[key]
    return True

"""A final answer of a type: `Agent(..., answer=Model)`, a pydantic model.

Rule 1: it uses the final call that the pattern has anyway. That call asks for structured output by
        the provider's own means; no tool is misused for it.
Rule 2: an answer that does not fit goes back once, with what was wrong; then the turn is
        Done("invalid_answer"). A model that ended in silence answered in plain words, and is asked
        for the form first.
Rule 3: the words of a limit, a refusal or a broken-off reply are left as they are.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import pydantic

from ..dialects.schemas import fitted, reduced
from ..loop import CallModel, Done, Step
from ..messages import Json, Message, User, current_turn
from ..tools import ModelMistake

ASK = "Now give that answer as one JSON object in the form that is asked, and nothing else."


@dataclass(frozen=True)
class TypedAnswer:
    """What the answer has to be. `policy` holds a run to it, `read` makes the object."""

    kind: type[pydantic.BaseModel]

    @cached_property
    def schema(self) -> Json:
        """The JSON schema, in the keywords that every provider takes."""
        return reduced(self.kind.model_json_schema(), strict=True)

    def read(self, text: str) -> pydantic.BaseModel:
        """The object in an answer. Raises ModelMistake with what is wrong, in the model's terms."""
        try:
            start, end = text.index("{"), text.rindex("}") + 1  # it may stand in a fence
            value = fitted(json.loads(text[start:end]), self.schema)
            return self.kind.model_validate(value)
        except pydantic.ValidationError as error:
            problems = (f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors())
            raise ModelMistake("; ".join(problems)) from error
        except ValueError as error:
            raise ModelMistake("it is not one JSON object") from error

    def policy(self, step: Step, transcript: Sequence[Message]) -> Step:
        """Ends a turn only with an answer that fits."""
        if not (isinstance(step, Done) and step.exit in ("signal", "silence")):
            return step
        try:
            self.read(step.answer)
        except ModelMistake as problem:
            turn, in_silence = current_turn(transcript), step.exit == "silence"
            asked = sum(isinstance(m, User) and m.kind == "answer" for m in turn)
            if asked >= (2 if in_silence else 1):  # silence was asked for the form first
                return Done("invalid_answer", step.answer)
            if in_silence and not asked:
                return CallModel("none", say=User(ASK, kind="answer"))
            said = f"Your answer does not fit: {problem}. Mend that. {ASK}"
            return CallModel("none", say=User(said, kind="answer"))
        return step

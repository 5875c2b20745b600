"""Two models as one, in one transcript: a thinker writes the thoughts, an actor everything else
(like aider's architect and editor).

Rule 1: a request that forces `think` goes to the thinker. Every other request goes to the actor,
        with the final one. With `force="always"` each action follows a thought of the thinker; with
        `"first"` the thinker makes the plan.
Rule 2: each model sees the whole transcript, but only its own replies as `native`: a signature is
        no use to another model.
"""

from dataclasses import replace

from ..messages import THINK_NAME, Assistant, Force, Spoken
from ..model import Model, Request
from .base import Dialect


class Split(Dialect):
    """`split(thinker=..., actor=...)`: two models as one. Its name is the actor's, and `model` also
    names the thinker, so that `name:model` is true of both.
    """

    def __init__(self, *, thinker: Model, actor: Model) -> None:
        super().__init__(actor)
        self.thinker = thinker
        self.model = f"{actor.model}, with thoughts of {thinker.name}:{thinker.model}"

    def ask(self, request: Request) -> tuple[Model, Request]:
        model = self.inner
        if request.tool_choice == Force(THINK_NAME):
            model = self.thinker
        messages: list[Spoken] = []
        for message in request.messages:
            # Providers report a model by its name, or by its name and a date.
            if isinstance(message, Assistant) and not message.model.startswith(model.model):
                message = replace(message, native=None)
            messages.append(message)
        return model, replace(request, messages=messages)


split = Split

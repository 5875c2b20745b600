"""Two models in one transcript: a thinker writes the thoughts, an actor everything else (like
aider's architect and editor).

Rule 1: a request that forces `think` goes to the thinker. Every other request goes to the actor,
        including the last one. With `force="always"`, each action follows a thought of the thinker.
        With `"first"`, the thinker only makes the plan.
Rule 2: each model sees the whole transcript, but gets only its own replies back as `native`,
        because another model can't use a signature.
"""

from dataclasses import replace

from ..messages import THINK_NAME, Assistant, Force, Spoken
from ..model import Model, Request
from .base import Dialect


class Split(Dialect):
    """`split(thinker=..., actor=...)`: two models as one. `name` is the actor's; `model` names
    both.
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
            # Providers report a model's name alone, or with a date.
            if isinstance(message, Assistant) and not message.model.startswith(model.model):
                message = replace(message, native=None)
            messages.append(message)
        return model, replace(request, messages=messages)


split = Split

"""Two models behind one: thoughts come from a thinker, everything else from an actor, in one
transcript (the architect and the editor of aider).

Rule 1: a request that forces `think` goes to the thinker; every other one, the final answer
        included, goes to the actor. With `force="always"` each action stands behind a thought of
        the thinker; with `"first"` the thinker makes the plan.
Rule 2: each model sees the whole transcript, but its own words alone as native: signatures do not
        travel between models.
"""

from dataclasses import replace

from ..messages import THINK_NAME, Assistant, Force, Message
from ..model import Model, Request
from .base import Dialect


class Split(Dialect):
    """`split(thinker=..., actor=...)`: two as one Model. Its name is the actor's;
    `model` says of whom the thoughts are, so that `name:model` is true of both.
    """

    def __init__(self, *, thinker: Model, actor: Model) -> None:
        super().__init__(actor)
        self.thinker = thinker
        self.model = f"{actor.model}, with thoughts of {thinker.name}:{thinker.model}"

    def ask(self, request: Request) -> tuple[Model, Request]:
        model = self.inner
        if request.tool_choice == Force(THINK_NAME):
            model = self.thinker
        messages = [_shown_to(model, message) for message in request.messages]
        return model, replace(request, messages=tuple(messages))


split = Split


def _shown_to(model: Model, message: Message) -> Message:
    """A message, without `native` where another model said it."""
    if not isinstance(message, Assistant):
        return message
    # Providers report a model by its name, or by its name with a date behind it.
    if message.provider == model.name and message.model.startswith(model.model):
        return message
    return replace(message, native=None)

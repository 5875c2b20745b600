"""The offline provider: a scripted model, for machines without a language model.

connect("offline")                    repeats the user's text
connect("offline", script=function)   plays a function Request -> Assistant
connect("offline", pace=0.03)         waits so many seconds between the pieces of a stream
"""

import time
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from ..messages import Assistant, Force, User
from ..model import Request
from ..scripted import Script, ScriptedModel
from ..streaming import Delta
from ..testing import think
from ..wire.settings import Settings


class Offline(ScriptedModel):
    """A ScriptedModel with the provider name `offline`. It ignores address, key and timeout, and
    refuses settings.
    """

    def __init__(
        self,
        model: str,
        *,
        script: Script | None = None,
        pace: float = 0.0,
        settings: Settings,
        **where: Any,
    ) -> None:
        settings.refuse("offline", *asdict(settings))
        super().__init__(script or echo, name="offline", model=model)
        self._pace = pace

    def stream(self, request: Request) -> Iterator[Delta | Assistant]:
        for event in super().stream(request):
            time.sleep(self._pace)
            yield event


def echo(request: Request) -> Assistant:
    """The default script: it answers with the user's text, and thinks only if it is forced to."""
    text = ""
    for message in request.messages:
        if isinstance(message, User) and message.kind == "person":
            text = message.text

    if isinstance(request.tool_choice, Force):
        notes = think(f"A stand-in has no plan. The request was: {text}", should_continue=False)
        return Assistant(tool_calls=(notes,), stop_reason="tool_use")
    return Assistant(text=f"[scripted stand-in, no language model] You said: {text}")

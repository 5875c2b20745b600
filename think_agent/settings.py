"""Settings: what a run has to know of its agent."""

from collections.abc import Mapping
from dataclasses import dataclass

from .policies.answer import TypedAnswer
from .policies.limits import Limits
from .think import has_signal
from .tools import Tool


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The settings of an agent that its runs need. `tools` can be run. `shown` is what the model
    sees of them, with `think`.
    """

    instructions: str
    think: Tool | None
    tools: Mapping[str, Tool]
    shown: tuple[Tool, ...]
    limits: Limits
    answer: TypedAnswer | None
    keep_turns: float

    @property
    def can_signal(self) -> bool:
        """Does the think tool have the exit signal?"""
        return self.think is not None and has_signal(self.think)

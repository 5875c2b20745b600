"""Policies: what the loop plans, amended. Each is a function `(step, transcript) -> step`, and none
is in the loop.

Rule 1: a policy reads the transcript and keeps nothing, so a resumed run decides as the first one
        did.
Rule 2: a policy changes only the steps it is about, and hands on the others as they are.
Rule 3: factories take settings and give policies: `max_model_calls(30)` is a policy.
"""

from .approval import approval, care, declined, edited, nobody
from .forcing import Forcing, force, stop_asking
from .gate import gate
from .limits import (
    Price,
    check_whole,
    last_words,
    max_actions,
    max_cost,
    max_model_calls,
    max_seconds,
    max_tokens,
    price,
)
from .patience import OnToolError, mend_format, no_repeats, patience

__all__ = [
    "Forcing",
    "OnToolError",
    "Price",
    "approval",
    "care",
    "check_whole",
    "declined",
    "edited",
    "force",
    "gate",
    "last_words",
    "max_actions",
    "max_cost",
    "max_model_calls",
    "max_seconds",
    "max_tokens",
    "mend_format",
    "no_repeats",
    "nobody",
    "patience",
    "price",
    "stop_asking",
]

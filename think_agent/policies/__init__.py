"""Policies: what the loop plans, amended. Each is a function `(step, turn) -> step`, and none is in
the loop.

Rule 1: a policy reads facts from the turn and keeps nothing, so a resumed run decides as the first
        one did.
Rule 2: a policy changes only the steps it is about, and hands on the others as they are.
Rule 3: factories take settings and give policies: `max_model_calls(30)` is a policy.

In which order an agent applies them, and why, stands in `Agent.policies`.
"""

from .forcing import Forcing as Forcing
from .limits import Price as Price

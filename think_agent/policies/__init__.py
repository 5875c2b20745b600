"""Policies change what the loop plans. Each is a function `(step, turn) -> step`; none is in the
loop.

Rule 1: a policy reads facts from the turn and keeps nothing. So a resumed run decides as it would
        have without the pause.
Rule 2: a policy changes only the steps that it is about, and returns the others as they are.
Rule 3: a policy with settings is made by a function: `patience(3)` gives a policy.

`Agent.policies` shows the order in which an agent applies them, and why.
"""

from .forcing import Forcing as Forcing
from .limits import Price as Price

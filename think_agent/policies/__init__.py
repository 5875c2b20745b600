"""Policies change the steps that the loop plans. Each is a function `(step, turn) -> step`.

Rule 1: a policy reads facts from the turn and keeps no state. So a resumed run decides as it would
        have without the pause.
Rule 2: a policy changes only the steps it's about, and returns all others unchanged.
Rule 3: a function creates a policy that has settings: `patience(3)` returns one.

`Agent.policies` shows the order in which an agent applies them, and why.
"""

from .forcing import Forcing as Forcing
from .limits import Price as Price

"""Policies: what the loop plans, amended. Each is a function `(step, turn) -> step`, and none is in
the loop.

Rule 1: a policy reads facts from the turn and keeps nothing, so a resumed run decides as the first
        one did.
Rule 2: a policy changes only the steps it is about, and hands on the others as they are.
Rule 3: factories take settings and give policies: `max_model_calls(30)` is a policy.

In which order an agent applies them, and why, stands in `Agent.policies`.
"""

from .approval import approval as approval
from .approval import as_decided as as_decided
from .approval import care_after_a_crash as care_after_a_crash
from .approval import declined as declined
from .approval import pause_for_a_person as pause_for_a_person
from .forcing import Forcing as Forcing
from .forcing import force as force
from .forcing import stop_asking as stop_asking
from .gate import gate as gate
from .limits import Limits as Limits
from .limits import Price as Price
from .limits import check_whole as check_whole
from .limits import closing_words as closing_words
from .limits import price as price
from .limits import seconds as seconds
from .patience import OnToolError as OnToolError
from .patience import ask_for_format as ask_for_format
from .patience import no_repeats as no_repeats
from .patience import patience as patience
from .silence import confirm_silence as confirm_silence

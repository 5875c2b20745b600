"""How much of a long conversation a request shows. The transcript itself keeps everything.

Rule 1: only whole turns are left out, the oldest first, so a call is never parted from its result.
Rule 2: nothing is left out when the history carries signed thinking: the signatures of the newest
        models cover every message before them, and a shorter history is refused.
"""

from collections.abc import Sequence
from typing import Any

from .messages import Assistant, Message, User

SIGNED = {"signature", "thoughtSignature", "encrypted_content", "data"}


def recent(transcript: Sequence[Message], keep_turns: int | None) -> tuple[Message, ...]:
    """The last `keep_turns` turns of a transcript; None keeps all."""
    if keep_turns is None:
        return tuple(transcript)
    if isinstance(keep_turns, bool) or keep_turns < 1:
        raise ValueError(f"keep_turns={keep_turns!r}: use a whole number from 1")
    starts = [i for i, m in enumerate(transcript) if isinstance(m, User) and m.kind == "person"]
    if len(starts) <= keep_turns or any(
        isinstance(m, Assistant) and _is_signed(m.native) for m in transcript
    ):
        return tuple(transcript)
    return tuple(transcript[starts[-keep_turns] :])


def _is_signed(native: Any) -> bool:
    match native:
        case dict():
            return any(
                (key in SIGNED and bool(value)) or _is_signed(value)
                for key, value in native.items()
            )
        case list():
            return any(_is_signed(item) for item in native)
    return False

"""How much of a long conversation a request shows. The transcript itself keeps everything.

Rule 1: only whole turns are left out, the oldest first, so a call is never parted from its result.
Rule 2: nothing is left out when the history carries signed thinking: the signatures of the newest
        models cover every message before them, and a shorter history is refused.
"""

from collections.abc import Sequence
from typing import Any

from .messages import Assistant, Message, User
from .policies import check_whole

SIGNED = {"signature", "thoughtSignature", "encrypted_content", "data"}


def recent(transcript: Sequence[Message], keep_turns: int | None) -> tuple[Message, ...]:
    """The last `keep_turns` turns of a transcript; None keeps all."""
    if keep_turns is None:
        return tuple(transcript)
    check_whole("keep_turns", keep_turns)
    starts = [i for i, m in enumerate(transcript) if isinstance(m, User) and m.kind == "person"]
    if len(starts) <= keep_turns or _has_signed_thinking(transcript):
        return tuple(transcript)
    return tuple(transcript[starts[-keep_turns] :])


def _has_signed_thinking(transcript: Sequence[Message]) -> bool:
    return any(isinstance(m, Assistant) and _is_signed(m.native) for m in transcript)


def _is_signed(native: Any) -> bool:
    open_parts = [native]  # a list, not recursion: what a model writes may be nested deeply
    while open_parts:
        match open_parts.pop():
            case dict() as part:
                if any(part.get(key) for key in SIGNED):
                    return True
                open_parts += part.values()
            case list() as part:
                open_parts += part
    return False

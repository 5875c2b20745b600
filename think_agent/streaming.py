"""Streaming: a reply as it arrives, in pieces called Deltas.

Rule 1: Deltas are only for display. The kit never acts on them. The Assistant at the end of the
        stream is what counts. It equals what `complete` would have returned.
Rule 2: there are five kinds, so that a program can choose what to show: native `thinking`, the
        `thought` of a think call, a `call` as it arrives, `commentary` (if the provider marks it),
        and the `answer`, the text for the user.
Rule 3: if a reply calls a tool, its text wasn't the answer but a remark ("Let me look that up.").
        That's known only when its Assistant message arrives. So join the Deltas reply by reply, as
        `join_answer` does.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from .messages import THINK_NAME, Assistant
from .think import is_remark


@dataclass(frozen=True, slots=True)
class Delta:
    """A piece of a reply. For `thought` and `call`, `name` is the tool's name, and `index` is the
    call's place in the reply, from 0.

    The `text` of a `call` is a piece of the arguments as raw JSON. It's empty if only the name has
    arrived. The `text` of a `thought` is decoded.
    """

    kind: Literal["thinking", "thought", "call", "answer", "commentary"]
    text: str
    name: str = ""
    index: int = 0


@dataclass(frozen=True, slots=True)
class Progress:
    """A model call begins: number `model_call` of the turn, of at most `most` (None: no limit).
    `agent` is the agent's name.
    """

    model_call: int
    most: int | None = None
    agent: str = ""


@dataclass(frozen=True, slots=True)
class Notice:
    """A note for a person who watches the run, such as: a tool choice was ignored."""

    text: str


def join_answer(events: Iterable[object]) -> str:
    """Join the answer from the events of a run (`agent.stream`). It's the text of the last reply
    that has one and calls no tool. In the middle of a run, it's the answer so far.
    """
    answer = ""
    pieces: list[str] = []  # of the reply that's arriving
    for event in events:
        match event:
            case Delta(kind="answer", text=text):
                pieces.append(text)
            case Assistant():
                text = "".join(pieces)
                pieces = []
                if any(call.name != THINK_NAME for call in event.tool_calls):
                    answer = ""  # the run continues, so the earlier text wasn't the answer
                if text.strip() and not is_remark(event):
                    answer = text
    return answer

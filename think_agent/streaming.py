"""Streaming: a reply as it forms, in pieces that are called Deltas.

Rule 1: a Delta is only for showing; nothing is ever decided by it. The reply that counts is the
        Assistant at the end of the stream. It equals what `complete` would have returned.
Rule 2: there are five kinds, so that each can be shown or hidden: native `thinking`, the `thought`
        of a think call, a `call` as it forms, the `commentary` (if the provider marks it), and the
        `answer`, which is the text meant for the user.
Rule 3: each reply's own message ends its text. If it calls a tool, that text was no answer but a
        remark ("Let me look that up."). A stream can't know that beforehand. So whoever joins the
        Deltas of a run joins them reply by reply: `join_answer` does.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from .messages import THINK_NAME, Assistant
from .think import is_remark


@dataclass(frozen=True, slots=True)
class Delta:
    """A piece of a reply. For `thought` and `call`, `name` is the name of the tool, and `index` is
    the number of the call in the reply, from 0.

    The `text` of a `call` is a piece of the arguments as raw JSON. It may be empty if only the name
    is known so far. The `text` of a `thought` is decoded.
    """

    kind: Literal["thinking", "thought", "call", "answer", "commentary"]
    text: str
    name: str = ""
    index: int = 0


@dataclass(frozen=True, slots=True)
class Progress:
    """The model is asked now: it is call number `model_call` of the turn, of at most `most` (None:
    no limit). `agent` is the agent's name.
    """

    model_call: int
    most: int | None = None
    agent: str = ""


@dataclass(frozen=True, slots=True)
class Notice:
    """Something that a watcher of the run should know, such as a tool choice that was ignored."""

    text: str


def join_answer(events: Iterable[object]) -> str:
    """The answer in the events of a run (`agent.stream`), joined from its Deltas: the text of the
    last reply that had one and called no tool. While the run goes on, it's the answer so far.
    """
    answer = ""
    pieces: list[str] = []  # of the reply that is arriving
    for event in events:
        match event:
            case Delta(kind="answer", text=text):
                pieces.append(text)
            case Assistant():
                text = "".join(pieces)
                pieces = []
                if any(call.name != THINK_NAME for call in event.tool_calls):
                    answer = ""  # it goes on, so what it said before wasn't the answer
                if text.strip() and not is_remark(event):
                    answer = text
    return answer

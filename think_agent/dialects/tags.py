"""Tags: thinking and answer in one text, told apart by `<thinking>…</thinking>` and `<answer>`.

`TagParser` turns streamed text into Deltas; `split_tags` reads a complete text. `tagged(model)`
asks the model to write the tags and reads them: marked notes go to `Assistant.thinking`, never into
its text.

Rule 1: everything from `<thinking>` to its closing tag is thinking. The same tag can nest.
Rule 2: text after a closed thinking tag, or inside `<answer>`, is the answer.
Rule 3: all other text is `Tags.plain`. A tag that's never closed lasts to the end.
Rule 4: text is passed on as soon as it's certain. The joined Deltas are the same wherever the text
        is split.

Limitations: if a chat template writes the first `<think>` itself, a stream with `plain="answer"`
passes the reasoning on as answer before it sees `</think>`. The Assistant is still right, because
the text is read again. The README of this folder lists what counts as a tag.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache

from ..messages import Assistant
from ..model import Model, Request
from ..streaming import Delta
from ..wire.pieces import Marks, Splitter, marks
from .base import Dialect, Kind, Reader, join_texts


@dataclass(frozen=True, kw_only=True)
class Tags:
    """How a model marks its text: the names of its tags, and the kind of text outside them.

    `plain="answer"` is for a model that doesn't mark its answer.
    """

    plain: Kind = "thinking"
    thinking: Sequence[str] = ("thinking", "think")  # local models write the short one
    answer: Sequence[str] = ("answer",)


TAGS = Tags()
# Some models refuse to write out their reasoning, so the text asks for notes (`think.py`).
HEADING = "# How to write your replies\n"
NOTES = (
    "Put your working notes between <{name}> and </{name}>: what is asked, which rules apply, what "
    "a result means, which step comes next. Keep them short; the user does not see them."
)
ANSWER = "Put what the user is to read between <{name}> and </{name}>, and nothing else in there."
NO_TAGS = "Where you are asked for JSON alone, and in the arguments of a tool, write no such tags."
LEADING = re.compile(  # thinking at the start of a text; a chat template may have opened it
    r"\s*+(?![{`])(?:<think(?:ing)?>)?+((?:(?!<think).)*?)</think(?:ing)?>",
    re.DOTALL | re.IGNORECASE,
)


@cache  # compile the patterns once, not for each reply
def _marks(names: Sequence[str]) -> Marks:
    written = []
    for name in names:
        letters = [re.escape(letter) for letter in name]
        written.append(["<", " ?", "(?:/ ?)?", *letters, " ?", ">"])
    return marks(re.IGNORECASE, tag=written, code=["```", "`"])


class TagParser(Reader):
    """Reads one text, piece by piece.

    `unopened`: if the first tag closes thinking that was never opened, its name; otherwise empty.
    The thinking has then been passed on as answer.
    """

    unopened = ""
    _open = ""  # the thinking tag opened last
    _depth = 0  # how often it is open
    _code = ""  # the backticks that opened the current code
    _changes = 0  # of kind so far; each change begins another section

    def __init__(self, tags: Tags = TAGS) -> None:
        self._splitter = Splitter(_marks((*tags.thinking, *tags.answer)))
        super().__init__(self._splitter, {})
        self._plain = tags.plain
        self._answers = [name.casefold() for name in tags.answer]
        self._kind = self._plain  # of the next text

    def read(self, name: str, part: str) -> Iterable[Delta]:
        """Handle a tag; anything else is text."""
        if name == "tag" and not self._code:  # in code, every tag is text
            tag = part.strip("</ >").casefold()
            if not self._depth or tag == self._open:  # in thinking, every other tag is text
                kind = self._obey(tag, closing="/" in part)
                if kind != self._kind:
                    self._kind = kind
                    self._changes += 1
                return []

        if self._kind == "answer":
            self._follow_code(name, part)
        return self.stream_part(self._kind, part, self._changes)

    def close(self, reply: Assistant | None = None) -> Iterable[Delta]:
        """Deltas for the text that was held back."""
        return self.read("", self._splitter.close())

    def _obey(self, name: str, *, closing: bool) -> Kind:
        """Handle a tag. Returns the kind of the text after it."""
        if name in self._answers:
            return self._plain if closing else "answer"
        if not closing:
            self._open = name
            self._depth += 1
        elif self._depth:
            self._depth -= 1
        elif not self._open and self._plain == "answer":
            self.unopened = name
        return "thinking" if self._depth else "answer"  # rule 2

    def _follow_code(self, mark: str, part: str) -> None:
        """Remember where code in an answer begins and ends."""
        if mark == "code":
            if not self._code:
                self._code = part
            elif self._code == part:
                self._code = ""
        elif self._code == "`" and "\n" in part:
            self._code = ""  # inline code ends with its line at the latest


def split_tags(text: str, tags: Tags = TAGS) -> tuple[str, str]:
    """The thinking and the answer of a complete text."""
    parser = TagParser(tags)
    deltas = [*parser.feed(text), *parser.close()]
    if parser.unopened:
        return split_tags(f"<{parser.unopened}>{text}", tags)
    thinking = [delta.text for delta in deltas if delta.kind == "thinking"]
    answer = [delta.text for delta in deltas if delta.kind == "answer"]
    return "".join(thinking), "".join(answer)


def without_leading_thinking(reply: Assistant) -> Assistant:
    """The reply, with marked thinking at the start of its text moved to `thinking`. All other tags
    stay text: they may be in the arguments of a call.
    """
    found = LEADING.match(reply.text)
    if found is None:
        return reply
    return _with(reply, found[1].strip(), reply.text[found.end() :])


def instruction(tags: Tags) -> str:
    """The system prompt's text that asks a model to write these tags. Empty if there are none."""
    lines = []
    for name in tags.thinking[:1]:
        lines.append(NOTES.format(name=name))
    for name in tags.answer[:1]:
        lines.append(ANSWER.format(name=name))
    if not lines:
        return ""
    return "\n".join([HEADING, *lines, NO_TAGS])


class Tagged(Dialect):
    """`tagged(model)`: a model that marks its thinking and its answer in the text of a reply.

    `asks`: add the instruction to write the tags to the end of the system prompt, once for a whole
    run. `asks=False` is for a model that writes them anyway, such as one whose chat template writes
    `<think>`.

    - Native thinking comes first; marked thinking follows after a blank line. (The Deltas don't
      have that line.)
    - Calls and the rest of the reply don't change. Neither does `native`: it's the provider's own
      message, its chat template knows the tags, and a changed one would miss the prompt cache. So
      this provider gets its own reasoning back; no other provider does.
    - A reply under an `output_schema` is JSON without tags, so it's read with `plain="answer"`.
    """

    def __init__(self, inner: Model, tags: Tags = TAGS, *, asks: bool = True) -> None:
        super().__init__(inner)
        self._tags = tags
        self._instruction = ""
        if asks:
            self._instruction = instruction(tags)

    def ask(self, request: Request) -> tuple[Model, Request]:
        if self._instruction in request.system:  # true for an empty one as well
            return self.inner, request
        system = f"{request.system}\n\n{self._instruction}".strip()
        return self.inner, replace(request, system=system)

    def read(self, reply: Assistant, request: Request) -> Assistant:
        if not reply.text:
            return reply
        return _with(reply, *split_tags(reply.text, self._tags_in(request)))

    def reader(self, request: Request) -> TagParser:
        return TagParser(self._tags_in(request))

    def _tags_in(self, request: Request) -> Tags:
        if request.output_schema is None:
            return self._tags
        return replace(self._tags, plain="answer")


tagged = Tagged


def _with(reply: Assistant, thinking: str, answer: str) -> Assistant:
    """The reply with this thinking added, and with this text."""
    if not thinking and answer == reply.text:  # usually; copying a reply takes time
        return reply
    return replace(reply, thinking=join_texts([reply.thinking, thinking]), text=answer)

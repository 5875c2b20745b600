"""Thinking and answer told apart in a text that marks them: `<thinking>…</thinking>`,
`<answer>…</answer>`.

`TagParser` is values in, values out: `feed(text)` for every piece and `close()` at the end give
Deltas of kind `"thinking"` or `"answer"`. `split_tags` reads a whole text. `tagged(model)` puts
both around a model: its marked reasoning goes to `Assistant.thinking`, never to `Assistant.text`.

Rule 1: from `<thinking>` to its own closing tag everything is thinking, as in XML: the same tag
        nests, every other tag in it is text. One that is never closed lasts to the end.
Rule 2: after a thinking tag was closed, and inside `<answer>`, text is answer. An answer that is
        never closed lasts to the end; answers do not nest.
Rule 3: all other text (before the first tag, after an answer, or no tag at all) is `plain`:
        `"thinking"` for a model that was told to mark its answer, `"answer"` for one that need not.
Rule 4: a tag is `<name>` or `</name>` in any case, with at most one space after `<`, after `/` and
        before `>`. Tags are left out, even those that close what was never opened. Anything
        else is text: a tag with attributes, half a tag at the end, and, in an answer, what stands
        in `code` or a ``` fence. In thinking a tag counts in code too: a fence that the model
        forgot to close must not swallow the answer.
Rule 5: text is passed on as soon as it is certain. Held back are only an end that may yet become
        a tag or a fence, and whitespace that may yet turn out to be the end.
Rule 6: where the kind changes, a part begins. A part loses the whitespace around it, and a blank
        line stands between two parts of a kind (42 and 43 are not 4243).
Rule 7: the joined Deltas are the same wherever a text is cut into pieces.

Limitations: some chat templates open `<think>` themselves, so a reply begins with reasoning and its
first tag is `</think>`. With `plain="thinking"` that is read rightly. With `plain="answer"` a
parser has passed the reasoning on as answer by then, and can but say so (`unopened`); a whole text
is read again as if it began with `<think>`. So the Assistant is right in any case, streamed or not,
and in this one case the joined answer Deltas of a tagged model are not its text.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from ..messages import Assistant
from ..model import Model, Request
from ..streaming import Delta
from ..wire.pieces import marks
from .base import Dialect, Kind, Reader, joined, told


@dataclass(frozen=True, kw_only=True)
class Tags:
    """How a model marks its text: the names of its tags, and the kind of text outside of them all.

    `plain="answer"` is for a model that need not mark its answer: text without tags stays as it is.
    """

    plain: Kind = "thinking"
    thinking: Sequence[str] = ("thinking", "think")  # local models write the short one
    answer: Sequence[str] = ("answer",)


TAGS = Tags()
LEADING = re.compile(  # thinking at the start of a text; a chat template may have opened it
    r"\s*+(?![{`])(?:<think(?:ing)?>)?+((?:(?!<think).)*?)</think(?:ing)?>",
    re.DOTALL | re.IGNORECASE,
)


class TagParser(Reader):
    """Reads one text, piece by piece.

    `unopened` is empty, or the name of the first tag when that closed thinking which the text had
    not opened and which was passed on as answer.
    """

    def __init__(self, tags: Tags = TAGS) -> None:
        written = []
        for name in (*tags.thinking, *tags.answer):
            letters = [re.escape(letter) for letter in name]
            written.append(["<", " ?", "(?:/ ?)?", *letters, " ?", ">"])
        super().__init__(marks(re.IGNORECASE, tag=written, code=["```", "`"]))
        self.unopened = ""
        self._plain = tags.plain
        self._answers = [name.casefold() for name in tags.answer]
        self._part = 1  # the kind has not changed yet
        self._open: list[str] = []  # the thinking tags that are open, all of one name
        self._outside = self._plain  # the kind of text when none is open
        self._code = ""  # the backticks that opened the code we are in

    @property
    def _kind(self) -> Kind:
        """That of the text which comes next."""
        if self._open:
            return "thinking"
        return self._outside

    def read(self, mark: str, part: str) -> Iterable[Delta]:
        """Obey a tag; anything else is text."""
        name = re.sub("[</ >]", "", part).casefold()
        kind = self._kind
        if mark == "tag" and self._counts(name):
            self._obey(name, closing="/" in part)
            if self._kind != kind:
                self._part += 1
            return []

        if kind == "answer":
            self._follow_code(mark, part)
        return self.tell(kind, part, self._part)

    def _counts(self, name: str) -> bool:
        """Is a tag obeyed here? In code none is, and in thinking only the name that opened it."""
        if self._code:
            return False
        return not self._open or name == self._open[0]

    def _obey(self, name: str, *, closing: bool) -> None:
        if name in self._answers:
            self._outside = self._plain if closing else "answer"
            return
        if not closing:
            self._open.append(name)
            return

        if self._open:
            self._open.pop()
        elif self._part == 1 and self._outside == "answer":
            self.unopened = name
        self._outside = "answer"

    def _follow_code(self, mark: str, part: str) -> None:
        """Note where code in an answer begins and ends."""
        if mark == "code" and not self._code:
            self._code = part
        elif mark == "code" and self._code == part:
            self._code = ""
        elif self._code == "`" and "\n" in part:
            self._code = ""  # it ends with its line at the latest


def split_tags(text: str, tags: Tags = TAGS) -> tuple[str, str]:
    """The thinking and the answer of a whole text."""
    parser = TagParser(tags)
    deltas = [*parser.feed(text), *parser.close()]
    if parser.unopened:
        return split_tags(f"<{parser.unopened}>{text}", tags)
    return told(deltas, "thinking"), told(deltas, "answer")


def without_leading_thinking(reply: Assistant) -> Assistant:
    """The reply, with the marked thinking that its text begins with as thinking. All other tags
    stay text: they may stand in the arguments of a call.
    """
    found = LEADING.match(reply.text)
    if found is None:
        return reply
    return _with(reply, found[1].strip(), reply.text[found.end() :])


class Tagged(Dialect):
    """`tagged(model, Tags(plain="answer"))`: its text is read with its tags, and the thinking and
    the answer that it marks told apart.

    - Native thinking stays first, marked thinking follows behind a blank line. (Their Deltas come
      without that line.)
    - Calls and the rest of the reply stay as they are, and so does `native`: it is the provider's
      own message, whose chat template knows its own tags, and a changed one would miss the prompt
      cache. So that provider is handed its own reasoning back; no other one is.
    - A reply under an `output_schema` is JSON and marks nothing: it is read with `plain="answer"`.
    """

    def __init__(self, inner: Model, tags: Tags = TAGS) -> None:
        super().__init__(inner)
        self._tags = tags

    def read(self, reply: Assistant, request: Request) -> Assistant:
        return _with(reply, *split_tags(reply.text, self._tags_in(request)))

    def reader(self, request: Request) -> TagParser:
        return TagParser(self._tags_in(request))

    def _tags_in(self, request: Request) -> Tags:
        if request.output_schema is None:
            return self._tags
        return replace(self._tags, plain="answer")


tagged = Tagged


def _with(reply: Assistant, thinking: str, answer: str) -> Assistant:
    """The reply with this thinking behind its own, and this text."""
    return replace(reply, thinking=joined([reply.thinking, thinking]), text=answer)

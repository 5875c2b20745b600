"""Was a call in a text made, or quoted? It is held against what tools returned and persons wrote.

Rule 1: a call is quoted when its name and all of its text arguments (of each the first line, for
        words of the model may follow) stand together in one string: in the text of a person, in
        one of the strings of a result (a list of lines is one), or in the whole of a result that
        has the name for one of its strings or keys.
Rule 2: they are compared by letters and digits alone: who repeats a call may write other quotes,
        dashes, spaces, markup or case than were read.
Rule 3: they are compared as they stand and decoded (escapes of JSON, Python, JavaScript, Markdown,
        HTML, URLs, mail), one layer after the other. LAYERS bounds that: a hostile result must not
        hold up the run.

The edge: a call that differs from a quoted one in any text is the model's own, and so is one that
was translated, summed up, encoded in another way (base64) or spread over the fields of a result,
its name among other words.
"""

import html
import re
from collections.abc import Iterator, Sequence
from typing import Any
from unicodedata import category, normalize

from ..messages import Message, ToolCall, ToolResult, User
from ..text import json_value, well_formed
from ..think import bare

LAYERS = 8
HEX = "[0-9a-fA-F]"
ENCODED = re.compile(
    rf"(?:(?:\\x|[%=]){HEX}{{2}})+"  # bytes: Python, URLs, mail
    rf"|\\u{HEX}{{4}}|\\u\{{{HEX}{{1,5}}\}}|\\U00(?:0{HEX}|10){HEX}{{4}}"  # JSON and others
    r"|\\(?:[bfnrt]|[^\w\s])"  # JSON, Markdown
    r"|&#?\w{1,31};"  # HTML
)
LATIN_1 = {0xDC00 + byte: byte for byte in range(0x80, 0x100)}  # what is no UTF-8
OTHER = re.compile(r"[\W_]+")


def quoted(calls: Sequence[ToolCall], messages: Sequence[Message]) -> ToolCall | None:
    """The first of these calls that was quoted from these messages; None for none."""
    heard = list(_heard(messages))
    naming = {name: list(_naming(name, heard)) for name in {call.name for call in calls}}
    for call in calls:
        texts = (text.strip().partition("\n")[0] for text in _strings(bare(call).arguments))
        given = [list(map(_joined, _forms(text))) for text in texts]
        for said in naming[call.name]:
            if all(any(form in said for form in forms) for forms in given):
                return call
    return None


def _heard(messages: Sequence[Message]) -> Iterator[tuple[str, Sequence[str]]]:
    """The texts that were heard, in words: of a result each string, and the whole with its strings
    beside it.
    """
    for message in messages:
        match message:
            case User(text=text, kind="person"):
                yield " ".join(_forms(text)), ()
            case ToolResult(content=text):
                parts = [" ".join(_forms(part)) for part in _strings(json_value(text), keys=True)]
                yield " ".join(_forms(text)), parts
                yield from ((part, ()) for part in parts)


def _naming(name: str, heard: Sequence[tuple[str, Sequence[str]]]) -> Iterator[str]:
    """The letters of the texts in which a call of this name may be quoted."""
    spaced = " ?".join(_joined(_words(name)))  # it may be spelled with other breaks
    anywhere, alone = re.compile(rf"\b{spaced}\b"), re.compile(rf"(?:\w+ ){{0,2}}{spaced}")
    for text, parts in heard:
        if any(map(alone.fullmatch, parts)) if parts else anywhere.search(text):
            yield _joined(text)


def _strings(value: Any, *, keys: bool = False) -> Iterator[str]:
    """The strings in a JSON value; `keys`: those too, and the lines of a list as one."""
    match value:
        case str():
            yield value
        case list():
            if keys:
                yield "\n".join(item for item in value if isinstance(item, str))
            for item in value:
                yield from _strings(item, keys=keys)
        case dict():
            yield from value if keys else ()
            for item in value.values():
                yield from _strings(item, keys=keys)


def _forms(text: str) -> list[str]:
    """The words of a text as it stands, and decoded layer by layer."""
    forms = [text]
    for _ in range(LAYERS):
        text = well_formed(ENCODED.sub(_decoded, text))
        if text == forms[-1]:
            break
        forms.append(text)
    return list(map(_words, forms))


def _decoded(found: re.Match[str]) -> str:
    text = found[0]
    if text[0] == "&":
        return html.unescape(text)
    if text[0] in "%=" or text[1] == "x":
        data = bytes.fromhex(re.sub(r"\\x|[%=]", "", text))
        return data.decode(errors="surrogateescape").translate(LATIN_1)
    if text[1] in "uU":
        return chr(int(text[2:].strip("{}"), 16))
    return " " if text[1].isalpha() else text[1]


def _words(text: str) -> str:
    """The letters and digits of a text, one space between words."""
    text = normalize("NFKC", text).casefold()
    visible = text if text.isascii() else "".join(c for c in text if category(c) != "Cf")
    return OTHER.sub(" ", visible).strip()


def _joined(words: str) -> str:
    return words.replace(" ", "")

"""Read the message of an error response, whatever its shape.

Rule 1: the message is text for a person. It's never a Python value. It's JSON only if nothing in
        the response looks like a message.
Rule 2: if the server names a field (`param`, `loc`), so does the message.
Rule 3: a gateway may quote its upstream's error. The message then includes both.
"""

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

from ..text import json_text
from ..wire.incoming import find_error_object
from ..wire.json_reading import json_value

# The keys under which servers put the message: OpenAI, Anthropic, Google and Ollama first, then
# FastAPI (`detail`), lists of errors (`errors`), MiniMax, Baidu, OAuth, and problem+json.
MESSAGE_KEYS = (
    "message",
    "detail",
    "errors",
    "msg",
    "status_msg",
    "error_msg",
    "error_message",
    "error_description",
    "title",
    "reason",
)
ERROR_KEYS = (  # these are about errors alone
    "detail",
    "errors",
    "error_msg",
    "error_message",
    "error_description",
    "error_code",
)
FINE = ("", "0", "200", "ok", "success")  # codes of no error
CODE_KEYS = ("code", "error_code", "status_code", "errcode", "status")


class Complaint(NamedTuple):
    """A server's error. `kind` is OpenAI's and Anthropic's `type`, or Google's `status`. Each part
    may be empty.
    """

    message: str = ""
    kind: str = ""
    code: str = ""


def read_complaint(answer: Any) -> Complaint:
    """The complaint in an error response: a text, an error object, or a list of them."""
    match answer:
        case None:
            return Complaint()
        case str():
            inner = json_value(answer)  # Ollama passes on its engine's error as text
            if isinstance(inner, (dict, list)):
                return read_complaint(inner)
            if isinstance(inner, str):
                return Complaint(inner)
            return Complaint(answer)
        case list():
            return _join([read_complaint(item) for item in answer])
        case {"base_resp": dict(inner)}:  # MiniMax
            return read_complaint(inner)
        case {"error": dict() | list() as inner} if inner:
            return _fill(read_complaint(inner), _read_object(answer))
        case dict():
            return _read_object(answer)
    return Complaint(str(answer))


def is_complaint(body: Any) -> bool:
    """Does a body that isn't a reply contain an error message?"""
    if not isinstance(body, dict):
        return False
    return any(isinstance(body.get(key), (str, list)) and body[key] for key in MESSAGE_KEYS)


def is_failure(event: Any, keys: Collection[str]) -> bool:
    """Does an event, or a whole body, say what went wrong? `keys`: a reply has one of them. Some
    servers give an error without an object `error`. But a text alone is no error: some servers
    send events of their own, such as `{"title": "A greeting"}`.
    """
    if isinstance(event, list):
        return any(isinstance(item, dict) and find_error_object(item) for item in event)
    if not isinstance(event, dict):
        return False
    if find_error_object(event):
        return True
    if not event.keys().isdisjoint(keys):
        return False
    if any(event.get(key) for key in ERROR_KEYS):
        return True
    is_marked = event.get("success") is False or "error" in (event.get("object"), event.get("type"))
    return is_complaint(event) and (is_marked or _find_code(event).lower() not in FINE)


def describe_damage(error: BaseException | None) -> str:
    """What's wrong with a body, from the `error` that reading it raised. In plain words, because
    the name of a Python exception doesn't help to debug a server.
    """
    match error:
        case KeyError(args=[str(key)]):
            return f"it has no {key}"
        case ValueError():
            return "it is not the JSON of a reply"
        case None:
            return "it is empty"
    return "a part of it has another type than in a reply"


def _read_object(error: dict[str, Any]) -> Complaint:
    named = error.get("error")
    found = Complaint(kind=_show_code(error.get("type")), code=_find_code(error))
    if isinstance(error.get("status"), str):
        found = _fill(found, Complaint(kind=error["status"]))

    for key in MESSAGE_KEYS:
        if error.get(key):
            found = _fill(found, read_complaint(error[key]))
            break
    if isinstance(named, str) and named:
        is_code = found.message and " " not in named  # {"error": "model_not_found", "message": …}
        if is_code:
            found = _fill(found, Complaint(code=named))
        else:
            found = _fill(read_complaint(named), found)
    if not found.message:
        return found._replace(message=json_text(error) if error else "")  # rule 1
    return _name_field(found, error)


def _name_field(found: Complaint, error: dict[str, Any]) -> Complaint:
    """`found` with the field that the error names (rule 2), and with a gateway's upstream error
    (rule 3).
    """
    message = found.message
    place = error.get("loc")
    if isinstance(place, Sequence) and not isinstance(place, str):  # FastAPI
        message = f"{'.'.join(str(part) for part in place)}: {message}"
    field = _show_code(error.get("param"))
    if field and field not in message:
        message += f" ({field})"

    metadata = error.get("metadata")
    if isinstance(metadata, dict):  # OpenRouter
        behind = read_complaint(metadata.get("raw"))
        if behind.message and behind.message not in message:
            message += f" ({behind.message})"
        found = _fill(found, behind._replace(message=""))
        found = _fill(found, Complaint(kind=_show_code(metadata.get("error_type"))))
    return found._replace(message=message)


def _find_code(error: dict[str, Any]) -> str:
    details = error.get("details")
    if isinstance(details, dict) and details.get("error_code"):  # Anthropic: says more than `type`
        return _show_code(details["error_code"])
    for key in CODE_KEYS:
        code = error.get(key)
        is_words = key == "status" and isinstance(code, str)  # Google's kind
        if code and not is_words:
            return _show_code(code)
    return ""


def _show_code(value: Any) -> str:
    """A type or a code as text. Some gateways write `"None"` instead of null."""
    if isinstance(value, (str, int)) and not isinstance(value, bool) and value != "None":
        return str(value)
    return ""


def _fill(first: Complaint, second: Complaint) -> Complaint:
    """`first`, with its empty parts filled from `second`."""
    return Complaint(*[one or other for one, other in zip(first, second, strict=True)])


def _join(complaints: list[Complaint]) -> Complaint:
    joined = Complaint("; ".join([one.message for one in complaints if one.message]))
    for complaint in complaints:
        joined = _fill(joined, complaint)
    return joined

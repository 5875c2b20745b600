"""Errors: what can go wrong with a model, in one tree for all providers.

    ModelError
    ├── AuthError          no key, a wrong key, no permission, no credit
    ├── RateLimited        too many requests or tokens; `retry_after` if the provider gives it
    ├── Overloaded         the provider is up but can't serve now
    ├── BadRequest         the provider refuses the request as it is
    │   ├── ModelNotFound     there is no such model
    │   └── ToolsUnsupported  this model can't call tools: use a dialect
    ├── ConnectionFailed   no server answered, or the connection broke
    ├── TimedOut           no answer within the timeout
    └── BadResponse        a broken answer: cut off, not JSON, or not the expected structure

A message is one line, says what to do next, and never contains a secret. A *model's* mistakes
aren't here, because they go back to it as tool results. FileError is separate.
"""

from .messages import Message
from .text import sanitize


class ModelError(Exception):
    """Something went wrong between the kit and the model.

    The message is short and for people. `complaint` is the server's full text, which the kit's
    decisions use. `status` is the HTTP status, if there was one; for an error inside an HTTP 200,
    the matching status. `retry_after` is in seconds. `retryable` means that the same request may
    succeed later. `transcript`: the messages of the run that this error stopped.
    """

    transcript: tuple[Message, ...] = ()

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        retry_after: float | None = None,
        retryable: bool = False,
        complaint: str = "",
    ) -> None:
        super().__init__(sanitize(" ".join(message.split()), keep=""))
        self.complaint = complaint or message
        self.status = status
        self.retry_after = retry_after
        self.retryable = retryable


class AuthError(ModelError):
    """No key, a wrong key, no permission or no credit."""


class RateLimited(ModelError):
    """Too many requests or tokens."""


class Overloaded(ModelError):
    """The provider is up but can't serve the request now."""


class BadRequest(ModelError):
    """The provider refuses the request as it is. It will refuse the same request again."""


class ModelNotFound(BadRequest):
    """There is no such model."""


class ToolsUnsupported(BadRequest):
    """This model can't call tools."""


class ConnectionFailed(ModelError):
    """No server answered at the address, or the connection broke."""


class TimedOut(ModelError):
    """No answer came within the timeout."""


class BadResponse(ModelError):
    """An unreadable answer: cut off, not JSON, or not the expected structure."""


class FileError(Exception):
    """A file or database that the user named can't be used."""


class TranscriptError(FileError):
    """A transcript file can't be opened, read, written or continued."""


class TranscriptInUse(TranscriptError):
    """Another run has the file open."""

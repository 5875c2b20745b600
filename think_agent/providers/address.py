"""The address and the key of a provider: read from the arguments and the environment, and checked
before an HTTP library can quote them.

Rule 1: only `shown_address` of an address is ever shown. The rest may hold a key.
Rule 2: a key from the environment was not meant for any server. It is not sent over plain http to
        another machine, with a warning. A key that is given as an argument is sent.
"""

import os
import re
import socket
from urllib.parse import quote, unquote, urlsplit

from ..errors import AuthError, ConnectionFailed
from ..mistakes import warn

NOT_NEEDED = "not-needed"  # the key for a server that asks for none; some SDKs require one
OLLAMA = "http://127.0.0.1:11434"  # the usual address of its server
NO_OLLAMA = "start it with: ollama serve (or install it from ollama.com)"
NOT_SHOWN = "(an address that cannot be shown)"
SHORTEST_SECRET = 12  # characters; shorter ones are made-up keys for local servers

# The scheme, a login, host and port, and the rest. A rest with an "@" in it is half of a login
# whose password has a slash.
ADDRESS = re.compile(
    r"(https?://)?(?:[^\s/?#]*@)?([\w.-]+|\[[\da-f:.]+\])(:\d+)?(?:[/?#][^\s@]*)?", re.IGNORECASE
)
KEPT_PRIVATE = re.compile(  # nobody else reads what is sent: by https, or to this machine
    r"https:|http://((.+\.)?localhost|127(\.\d+){3}|0\.0\.0\.0|\[::1?\])(:\d+)?$"
)


def mask_address(url: str) -> str:
    """The part of an address that may be shown: its scheme, host and port."""
    found = ADDRESS.fullmatch(url)
    if not found:
        return NOT_SHOWN
    scheme, host, port = found.groups("")
    return f"{scheme or 'http://'}{host}{port}".lower()  # rule 1


def check_url(url: str, provider: str, source: str = "base_url") -> str:
    """`url` with a scheme; plain http if it names none. Raises ConnectionFailed if it is not valid:
    each HTTP library would raise another error. `source`: where the address is set.
    """
    if mask_address(url) == NOT_SHOWN:
        raise ConnectionFailed(f"{provider}: the address is no URL; check {source}")
    if "://" in url:
        return url
    return f"http://{url}"


def ollama_address(given: str | None) -> str | None:
    """The address of an Ollama server: the one that is `given`, else that of OLLAMA_HOST, in any
    form that Ollama takes (`:11434`, a host alone). None if there is neither. Raises ValueError for
    a port that is no number.
    """
    address = given or os.getenv("OLLAMA_HOST")
    if not address or "://" in address:
        return address
    parts = urlsplit(f"//{address}")
    host = parts.hostname or "127.0.0.1"
    if ":" in host:
        host = f"[{host}]"
    port = parts.port or urlsplit(OLLAMA).port
    return f"http://{host}:{port}{parts.path.rstrip('/')}"


def is_silent(url: str) -> bool:
    """Is nothing listening at `url`? False for another machine: there may be a proxy in between."""
    parts = urlsplit(url)
    if parts.scheme != "http" or is_exposed(url):
        return False
    try:
        socket.create_connection((parts.hostname, parts.port or 80), timeout=1.0).close()
    except OSError:
        return True
    return False


def is_exposed(url: str) -> bool:
    """Could others read a key on its way to `url`: plain http, and not to this machine?"""
    return not KEPT_PRIVATE.match(mask_address(url))


def find_key(given: str | None, provider: str, url: str, *variables: str) -> str:
    """The key that was `given`, else that of the first variable that holds one, else NOT_NEEDED.
    Raises AuthError for a key that cannot be sent in a header.
    """
    source = "api_key"
    key = (given or "").strip()
    for variable in variables:
        if not key:
            source = variable
            key = os.getenv(variable, "").strip()
            if key and is_left_out(provider, url, variable):
                return NOT_NEEDED
    if not key:
        return NOT_NEEDED
    # A key that was copied from a page may hold a quotation mark or an invisible character.
    if not (key.isascii() and key.isprintable()):
        raise AuthError(f"{provider}: no header can carry this API key; check {source}")
    return key


def is_left_out(provider: str, url: str, *variables: str) -> bool:
    """Are these variables of the environment not sent to `url`? Then there is a warning."""
    held = [variable for variable in variables if os.getenv(variable)]
    if not held or not is_exposed(url):  # rule 2
        return False
    warn(
        f"{provider}: {', '.join(held)} is not sent over plain http to {urlsplit(url).hostname}; "
        "use https, or give the key on purpose (in code: api_key=)"
    )
    return True


def secrets_in(key: str, url: str, *headers: str) -> re.Pattern[str]:
    """What no error may repeat: the key, and each word of the `headers` and of `url` except its
    host. Also as a URL spells them.
    """
    text = " ".join((url, *headers))
    words = {key, *re.split(r"[\s:/@?&=]+", text)} - {urlsplit(url).hostname}
    spellings = {NOT_NEEDED}
    for word in words:
        if len(word) >= SHORTEST_SECRET:
            spellings |= {word, unquote(word), quote(word, safe="")}
    longest_first = sorted(spellings, reverse=True)  # of two that begin alike
    return re.compile("|".join(map(re.escape, longest_first)))

"""A provider's address and key: read them from arguments or the environment, and check them before
an HTTP library can quote them in an error.

Rule 1: only an address's scheme, host and port are ever shown (`mask_address`). The rest may
        contain a key.
Rule 2: a key from the environment wasn't chosen for this server. So it isn't sent over plain http
        to another machine, and a warning says so. A key that's passed as an argument is always
        sent.
"""

import os
import re
import socket
from urllib.parse import quote, unquote, urlsplit

from ..errors import AuthError, ConnectionFailed
from ..mistakes import warn

NOT_NEEDED = "not-needed"  # for servers without keys; some SDKs require one
OLLAMA = "http://127.0.0.1:11434"  # the usual address of its server
NO_OLLAMA = "start it with: ollama serve (or install it from ollama.com)"
NOT_SHOWN = "(an address that cannot be shown)"
SHORTEST_SECRET = 12  # characters; shorter ones are dummy keys for local servers

# The scheme, a login, host and port, and the rest. An "@" in the rest means that the login's
# password has a slash.
ADDRESS = re.compile(
    r"(https?://)?(?:[^\s/?#]*@)?([\w.-]+|\[[\da-f:.]+\])(:\d+)?(?:[/?#][^\s@]*)?", re.IGNORECASE
)
KEPT_PRIVATE = re.compile(  # private connections: https, or to this machine
    r"https:|http://((.+\.)?localhost|127(\.\d+){3}|0\.0\.0\.0|\[::1?\])(:\d+)?$"
)


def mask_address(url: str) -> str:
    """The part of an address that's safe to show: its scheme, host and port."""
    found = ADDRESS.fullmatch(url)
    if not found:
        return NOT_SHOWN
    scheme, host, port = found.groups("")
    return f"{scheme or 'http://'}{host}{port}".lower()  # rule 1


def check_url(url: str, provider: str, source: str = "base_url") -> str:
    """`url` with a scheme; http if it has none. Raises ConnectionFailed if it's invalid, since each
    HTTP library would raise a different error. `source`: where the address was set.
    """
    if mask_address(url) == NOT_SHOWN:
        raise ConnectionFailed(f"{provider}: the address isn't a URL; check {source}")
    if "://" in url:
        return url
    return f"http://{url}"


def ollama_address(given: str | None) -> str | None:
    """An Ollama server's address: `given`, or else OLLAMA_HOST, in any form that Ollama accepts
    (`:11434`, a host alone). None if neither is set. Raises ValueError if the port isn't a number.
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
    """Is nothing listening at `url`? False for another machine, because of possible proxies."""
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
    """`given`, or else the first variable that's set, or else NOT_NEEDED. Raises AuthError for a
    key that can't be sent in a header.
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
    # A key copied from a web page may contain a curly quote or an invisible character.
    if not (key.isascii() and key.isprintable()):
        raise AuthError(f"{provider}: no header can carry this API key; check {source}")
    return key


def is_left_out(provider: str, url: str, *variables: str) -> bool:
    """Must these environment variables not be sent to `url`? If so, warn about it."""
    held = [variable for variable in variables if os.getenv(variable)]
    if not held or not is_exposed(url):  # rule 2
        return False
    warn(
        f"{provider}: {', '.join(held)} is not sent over plain http to {urlsplit(url).hostname}; "
        "use https, or give the key on purpose (in code: api_key=)"
    )
    return True


def secrets_in(key: str, url: str, *headers: str) -> re.Pattern[str]:
    """What errors must not repeat: the key, and each word of `headers` and `url` except the host.
    Also in URL encoding.
    """
    text = " ".join((url, *headers))
    words = {key, *re.split(r"[\s:/@?&=]+", text)} - {urlsplit(url).hostname}
    spellings = {NOT_NEEDED}
    for word in words:
        if len(word) >= SHORTEST_SECRET:
            spellings |= {word, unquote(word), quote(word, safe="")}
    longest_first = sorted(spellings, reverse=True)  # in case one is a prefix of another
    return re.compile("|".join(map(re.escape, longest_first)))

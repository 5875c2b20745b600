"""Where a provider is and with which key: read from the arguments and the environment, and checked
before an HTTP library can quote them.
"""

import os
import re
import warnings
from collections.abc import Iterator
from ipaddress import ip_address
from urllib.parse import parse_qsl, unquote, urlsplit

from ..errors import AuthError, ConnectionFailed

NOT_NEEDED = "not-needed"  # the key for a server that asks for none; some SDKs insist on one
SHORTEST_SECRET = 9  # characters; shorter ones are made up for local servers


def checked_url(url: str, provider: str) -> str:
    """`url`, of which each HTTP library would say in its own way that it is none. Without a scheme
    it is plain http.
    """
    url = url if "://" in url else f"http://{url}"
    try:
        _ = urlsplit(url).port
    except ValueError:
        where = shown_address(url)
        raise ConnectionFailed(f"{provider}: {where} is no URL; check base_url") from None
    return url


def find_key(given: str | None, provider: str, url: str, *variables: str) -> str:
    """The key that was `given`, else that of the first variable that holds one; "" for none.

    One from the environment was not meant for just any `url`: over plain http to another machine it
    is left out, with a warning.
    """
    key, variable = (given or "").strip(), "api_key"
    if not key:
        variable = next(filter(os.getenv, variables), variables[0])
        key = os.getenv(variable, "").strip()
        if key and is_exposed(url):
            warnings.warn(
                f"{provider}: {variable} is not sent over plain http to {urlsplit(url).hostname}; "
                "use https, or give the key on purpose (in code: api_key=)",
                stacklevel=5,
            )
            return NOT_NEEDED
    if not (key.isascii() and key.isprintable()):
        raise AuthError(f"{provider}: no header can carry this API key; check {variable}")
    return key


def is_exposed(url: str) -> bool:
    """Would a key on its way to `url` be read by others: plain http, and not to this machine?"""
    parts = urlsplit(url)
    host = parts.hostname or ""
    if parts.scheme != "http" or host == "localhost" or host.endswith(".localhost"):
        return False
    try:
        address = ip_address(host)
    except ValueError:
        return True
    return not (address.is_loopback or address.is_unspecified)


def shown_address(url: str) -> str:
    """`url` without user, password and query: those may hold a key."""
    return re.sub(r"//[^/]*@", "//", url.partition("?")[0])


def secrets_in(key: str, url: str) -> Iterator[str]:
    """What no error may hold: the key, and the password and the values of the query of `url`."""
    parts = urlsplit(url)
    for one in (key, parts.password or "", *(value for _, value in parse_qsl(parts.query))):
        yield from (form for form in {one, unquote(one)} if len(form) >= SHORTEST_SECRET)

"""Where a provider is and with which key: read from the arguments and the environment, and checked
before an HTTP library can quote them.
"""

import os
import re
import warnings
from base64 import b64encode
from collections.abc import Iterable
from contextlib import suppress
from ipaddress import ip_address
from types import ModuleType
from urllib.parse import unquote, unquote_plus, urlsplit

from ..errors import AuthError, ConnectionFailed

NOT_NEEDED = "not-needed"  # the key for a server that asks for none; some SDKs insist on one
SHORTEST_SECRET = 9  # characters; shorter ones are made up for local servers
LONG = 16  # characters; no word, but a key
CREDENTIAL = re.compile(r"(?<![a-z])(auth\w*|(api)?key|token|secret|password)(?![a-z])", re.I)


def checked_url(url: str, provider: str, http: ModuleType) -> str:
    """`url`, of which each HTTP library would say in its own way that it is none. Without a scheme
    it is plain http.
    """
    url = url if "://" in url else f"http://{url}"
    with suppress(ValueError, http.InvalidURL):
        _ = urlsplit(url).port
        if http.URL(url).scheme in ("http", "https"):
            return url
    raise ConnectionFailed(f"{provider}: the address is no URL; check base_url")


def find_key(given: str | None, provider: str, url: str, *variables: str) -> str:
    """The key that was `given`, else that of the first variable that holds one; "" for none."""
    key, variable = (given or "").strip(), "api_key"
    if not key:
        variable = next(filter(os.getenv, variables), variables[0])
        key = os.getenv(variable, "").strip()
        if key and stays_here(provider, url, variable):
            return NOT_NEEDED
    if not (key.isascii() and key.isprintable()):
        raise AuthError(f"{provider}: no header can carry this API key; check {variable}")
    return key


def stays_here(provider: str, url: str, *variables: str) -> bool:
    """What the environment holds was not meant for just any `url`: over plain http to another
    machine it is left out, with a warning.
    """
    held = ", ".join(filter(os.getenv, variables))
    if not held or not is_exposed(url):
        return False
    warnings.warn(
        f"{provider}: {held} is not sent over plain http to {urlsplit(url).hostname}; "
        "use https, or give the key on purpose (in code: api_key=)",
        stacklevel=6,
    )
    return True


def is_exposed(url: str) -> bool:
    """Would a key on its way to `url` be read by others: plain http, and not to this machine?"""
    host = urlsplit(url).hostname or ""
    is_here = f".{host}".endswith(".localhost")
    with suppress(ValueError):  # where it is a name, and no number
        is_here = ip_address(host).is_loopback or ip_address(host).is_unspecified
    return urlsplit(url).scheme != "https" and not is_here


def shown_address(url: str) -> str:
    """Scheme, host and port of `url`: all else may hold a key."""
    scheme, _, rest = url.partition("://")
    return f"{scheme}://{re.split('[/?#]', rest)[0].rpartition('@')[2]}"


def secrets_in(key: str, url: str, *headers: str, sure: bool = False) -> list[str]:
    """What is not to be repeated: the key, the values of `headers`, and of `url` the login, the
    values of its query and what of its path is as long as a key. `sure`: without what may as well
    be an ordinary word, such as a deployment in the path or a header that says who asks.
    """
    parts = urlsplit(url)
    user, password = parts.username or "", parts.password or ""
    login = b64encode(f"{unquote(user)}:{unquote(password)}".encode()).decode()
    found = {key, *key.split(), user, password, login}
    fields = [piece.partition("=")[::2] for piece in parts.query.split("&")]
    fields += [line.partition(":")[::2] for lines in headers for line in lines.splitlines()]
    for name, value in fields:
        if not sure or CREDENTIAL.search(name):
            found.update(re.split(r"[\s,;=]+", value or name))
    if not sure:
        found |= {piece for piece in parts.path.split("/") if len(piece) >= LONG}
    found |= {form(one) for one in found for form in (unquote, unquote_plus)}
    return [one for one in found if len(one) >= (LONG if sure else SHORTEST_SECRET)]


def any_of(secrets: Iterable[str]) -> re.Pattern[str]:
    """Any of these, in any spelling that an address or a header has."""
    spelled = ("".join(map(_spelled, one)) for one in secrets)
    return re.compile("|".join(spelled) or r"(?!)", re.IGNORECASE)


def _spelled(char: str) -> str:
    quoted = "".join(f"%(?:25)*{byte:02x}" for byte in char.encode())
    return f"(?:{re.escape(char)}|{quoted})"

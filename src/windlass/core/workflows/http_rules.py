"""Rules for outgoing HTTP requests.

They are checked twice: in definitions, for literal values, and again before the complete request is sent.
"""

import re
from ipaddress import ip_address

from windlass.errors import Invalid

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
# Headers that control message framing or the connection: a step must not set them.
CONNECTION_HEADERS = frozenset(
    {"host", "content-length", "transfer-encoding", "connection", "keep-alive", "proxy-connection"}
    | {"upgrade", "te", "trailer", "expect"}
)

_NAME = re.compile(r"[A-Za-z0-9._-]{1,255}").fullmatch
_NUMBER = re.compile(r"(?:\d+|0[xX][0-9a-fA-F]*)").fullmatch


def check_address(scheme: str, authority: str, host: str | None, port: int | None) -> None:
    """Raise `Invalid` if the parsed parts of a URL are not allowed. A `port` of None or 0 is not valid."""
    if scheme not in ("http", "https"):
        raise Invalid("the URL must begin with http:// or https://", field="url")
    if "@" in authority:
        raise Invalid("the URL contains a user or a password: send an Authorization header instead", field="url")
    if not host:
        raise Invalid("the URL has no host", field="url")
    check_host(host)
    if not port:
        raise Invalid("the port must be from 1 to 65535", field="url")


def check_host(host: str) -> None:
    """Raise `Invalid` unless the host is a plain name or an IP address in its usual form.

    Parsers disagree about other forms.
    """
    if ":" in host and is_address(host) and "%" not in host:
        return
    if not _NAME(host):
        raise Invalid("the host is neither a name nor an IP address", field="url")
    if _NUMBER(host.rstrip(".").rpartition(".")[2]) and not is_address(host):
        raise Invalid(f"{host} is an IP address in an unusual form{_usual(host)}", field="url")


def check_header(name: str) -> None:
    if name.lower() in CONNECTION_HEADERS:
        raise Invalid(f"the header {name} cannot be set: the HTTP client sets it", field=f"headers.{name}")


def is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def _usual(host: str) -> str:
    """Return a hint with the usual form of an IPv4 address: up to four numbers, the last fills the remaining bytes."""
    try:
        *first, last = [_number(part) for part in host.rstrip(".").split(".")]
        value = sum(part << (24 - 8 * n) for n, part in enumerate(first)) + last
        fits = len(first) < 4 and all(part < 256 for part in first) and last < 256 ** (4 - len(first))
        return f": write {ip_address(value)}" if fits else ""
    except ValueError:
        return ""


def _number(text: str) -> int:
    """Return the number as the C library parses it: 0x10 and 020 are sixteen."""
    if text.lower().startswith("0x"):
        return int(text[2:] or "0", 16)
    return int(text, 8) if text.startswith("0") and len(text) > 1 else int(text)

"""Addresses of requests, read once and checked before anything is connected to.

The parser is the one of the library that connects: there is no second one that could read the same text otherwise.
"""

import re

from yarl import URL

from windlass.effects.addresses import check_host
from windlass.errors import Invalid

_CONTROL = re.compile(r"[\x00-\x1f\x7f]").search


def read(text: str, base: URL | None = None) -> URL:
    """An absolute address, or one that is meant from `base` on."""
    if _CONTROL(text):
        raise Invalid("the address has a control character in it", field="url")
    try:
        url = URL(text) if base is None else base.join(URL(text))
    except ValueError as error:  # its words repeat parts of the address
        raise Invalid("the address cannot be read", field="url") from error
    _check(url)
    return url.with_fragment(None)


def _check(url: URL) -> None:
    if url.scheme not in ("http", "https"):
        raise Invalid("the address must begin with http:// or https://", field="url")
    if "@" in url.raw_authority:
        raise Invalid("the address has a user or a password in it: send an Authorization header instead", field="url")
    if not url.raw_host:
        raise Invalid("the address has no host", field="url")
    check_host(url.raw_host)
    if not url.port:
        raise Invalid("the port must be from 1 to 65535", field="url")

"""Addresses of requests, read once and checked before anything is connected to.

The parser is the one of the library that connects: there is no second one that could read the same text otherwise.
"""

import re

from yarl import URL

from windlass.core.workflows.http_rules import check_address
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
    check_address(url.scheme, url.raw_authority, url.raw_host, url.port)
    return url.with_fragment(None)

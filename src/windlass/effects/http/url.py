"""Parses and checks URLs before any connection is made.

The parser is the one of the HTTP library itself, so no second parser can interpret the same text differently.
"""

import re

from yarl import URL

from windlass.core.workflows.http_rules import check_address
from windlass.errors import Invalid

_CONTROL = re.compile(r"[\x00-\x1f\x7f]").search


def read(text: str, base: URL | None = None) -> URL:
    """Parse an absolute URL, or one relative to `base`, and check it."""
    if _CONTROL(text):
        raise Invalid("the address has a control character in it", field="url")
    try:
        url = URL(text) if base is None else base.join(URL(text))
    except ValueError as error:  # its message contains parts of the URL
        raise Invalid("the address cannot be read", field="url") from error
    check_address(url.scheme, url.raw_authority, url.raw_host, url.port)
    return url.with_fragment(None)

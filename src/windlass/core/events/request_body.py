"""Inbound requests that start runs or call back: bodies parsed by content type, headers without secrets.

Senders are untrusted, so all input is bounded. A body declared as JSON that is not JSON is refused; an empty body is
null; any other body is text, with replacement characters for bytes that cannot be decoded.
"""

from collections.abc import Mapping
from typing import Any

from windlass.core import json_value
from windlass.core.sensitive import is_secret
from windlass.errors import Invalid

BODY_LIMIT = 1_048_576
MOST_CONTAINERS = 50_000  # lists and objects: more of them would stop the event loop while they are parsed
HEADER_LIMIT = 65_536  # all names and values together
# Decoders that an untrusted sender may choose: others (punycode, idna, utf-7) are slow or surprising.
CHARSETS = frozenset({"utf-8", "utf8", "us-ascii", "iso-8859-1", "latin1", "windows-1252", "utf-16"})


def parse_body(body: bytes, content_type: str | None) -> Any:
    """Return the value of a JSON body, None for an empty one, and the text of any other."""
    if len(body) > BODY_LIMIT:
        raise Invalid(f"the body is {len(body)} bytes, the limit is {BODY_LIMIT}", field="body")
    if not body:
        return None
    kind, charset = _read(content_type or "")
    if _is_json(kind):
        if body.count(b"[") + body.count(b"{") > MOST_CONTAINERS:
            raise Invalid(f"the body has more than {MOST_CONTAINERS} lists and objects", field="body")
        try:
            return json_value.parse(body.decode("utf-8-sig"), field="body")
        except UnicodeDecodeError:
            raise Invalid("body is not JSON: it is not UTF-8 text", field="body") from None
    return body.decode(charset if charset in CHARSETS else "utf-8", "replace")


def stored_body(body: bytes, content_type: str | None) -> str:
    """Return the stored text of a callback's body; on reading it is parsed as JSON if possible, else it is text."""
    if not body:
        return "null"
    if _is_json(_read(content_type or "")[0]):
        parse_body(body, content_type)
    return json_value.plain(body.decode("utf-8", "replace"))


def kept_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the headers to store and show to templates: lower-case names, without headers that hold secrets."""
    kept = {name.lower(): json_value.plain(value) for name, value in headers.items() if not is_secret(name)}
    if sum(len(name) + len(value) for name, value in kept.items()) > HEADER_LIMIT:
        raise Invalid(f"the headers have more than {HEADER_LIMIT} characters", field="headers")
    return kept


def _is_json(kind: str) -> bool:
    return kind == "application/json" or kind.endswith("+json")


def _read(content_type: str) -> tuple[str, str]:
    kind, *parameters = (part.strip().lower() for part in content_type.split(";"))
    named = dict(parameter.split("=", 1) for parameter in parameters if "=" in parameter)
    return kind, named.get("charset", "utf-8").strip("\"' ")

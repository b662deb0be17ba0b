"""Inbound requests that start runs or call back: URL tokens, signatures, bodies and headers.

Senders are untrusted, so all input is bounded. A body declared as JSON that is not JSON is refused; an empty body is
null; any other body is text, with replacement characters for bytes that cannot be decoded. A signature must match the
secret and, where it is signed, the time must be recent.

There are three schemes. `standard` is Standard Webhooks: the headers `webhook-id`, `webhook-timestamp` and
`webhook-signature`, with HMAC-SHA256 over `id.timestamp.body`; its secret is `whsec_` and base64, or any text. `github`
signs the body alone, in `x-hub-signature-256`. `stripe` signs `timestamp.body`, in `stripe-signature`.
"""

import binascii
import hashlib
import hmac
from base64 import b64decode, b64encode, urlsafe_b64encode
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, assert_never
from uuid import UUID

from windlass.core import json_value
from windlass.core.json_value import is_secret
from windlass.errors import Invalid

BODY_LIMIT = 1_048_576
MOST_CONTAINERS = 50_000  # lists and objects; parsing more would block the event loop
HEADER_LIMIT = 65_536  # all names and values together
# Decoders that an untrusted sender may choose: others (punycode, idna, utf-7) are slow or surprising.
CHARSETS = frozenset({"utf-8", "utf8", "us-ascii", "iso-8859-1", "latin1", "windows-1252", "utf-16"})
PREFIX = "whsec_"
TOLERANCE = timedelta(minutes=5)
MIN_SECRET = 16  # characters
MIN_KEY = 24  # bytes after `whsec_`, as Standard Webhooks requires


class Scheme(StrEnum):
    STANDARD = "standard"
    GITHUB = "github"
    STRIPE = "stripe"


def callback_token(key: bytes, run: UUID, step: int, round_: int = 0) -> str:
    """Return the token in the callback URL of a step in one round of its run.

    256 bits, derived from the key by HMAC, so that any process can recompute it. A retry or rerun has a new token, so
    that callbacks to the old URL no longer count. The token of round 0 leaves the round out, as older releases did, so
    that URLs they issued stay valid.
    """
    place = run.bytes + step.to_bytes(4, "big")
    mark = hmac.digest(key, place + round_.to_bytes(4, "big") if round_ else place, "sha256")
    return urlsafe_b64encode(mark).rstrip(b"=").decode()


def token_digest(token_: str) -> bytes:
    """Return the digest that is stored to look up a token; the token cannot be derived from it."""
    return hashlib.sha256(token_.encode("utf-8", "replace")).digest()


def signature_mistake(
    secret: str, headers: Mapping[str, str], body: bytes, now: datetime, scheme: Scheme = Scheme.STANDARD
) -> str | None:
    """Return what is wrong with the signature, or None if it is valid. Header names must be in lower case."""
    match scheme:
        case Scheme.STANDARD:
            return _standard(secret, headers, body, now)
        case Scheme.GITHUB:
            return _github(secret, headers, body)
        case Scheme.STRIPE:
            return _stripe(secret, headers, body, now)
        case _:
            assert_never(scheme)


def signed_id(headers: Mapping[str, str], body: bytes, scheme: Scheme) -> str | None:
    """Return the id that identifies a repeated request, derived from the signed content if possible.

    GitHub signs the body only, and two deliveries may have the same body: its id is a header that a replay can change.
    """
    match scheme:
        case Scheme.STANDARD:
            return headers.get("webhook-id")
        case Scheme.GITHUB:
            return headers.get("x-github-delivery")
        case Scheme.STRIPE:
            moment = next((value for name, value in _stripe_parts(headers) if name == "t"), "")
            return hashlib.sha256(f"{moment}.".encode() + body).hexdigest()
        case _:
            assert_never(scheme)


def secret_mistake(secret: str, scheme: Scheme = Scheme.STANDARD) -> str | None:
    """Return why a secret is malformed or too weak to be published, or None if it is acceptable."""
    if scheme is Scheme.STANDARD and secret.startswith(PREFIX):
        key = _decoded(secret)
        if key is None:
            return f"the text after {PREFIX} is not base64: generate a secret with `openssl rand -base64 32`"
        if len(key) < MIN_KEY:
            return f"the text after {PREFIX} decodes to {len(key)} bytes, at least {MIN_KEY} are required"
    elif len(secret) < MIN_SECRET:
        return f"it has {len(secret)} characters, at least {MIN_SECRET} are required"
    return None


def signature(secret: str, id_: str, moment: str, body: bytes) -> str:
    """Return the Standard Webhooks signature in base64."""
    signed = f"{id_}.{moment}.".encode() + body
    return b64encode(hmac.digest(_key(secret), signed, hashlib.sha256)).decode()


def _standard(secret: str, headers: Mapping[str, str], body: bytes, now: datetime) -> str | None:
    id_, moment, signatures = (headers.get(f"webhook-{name}", "") for name in ("id", "timestamp", "signature"))
    if not (id_ and moment and signatures):
        return "the headers webhook-id, webhook-timestamp and webhook-signature are required"
    if why := _stale("webhook-timestamp", moment, now):
        return why
    candidates = (part.removeprefix("v1,") for part in signatures.split() if part.startswith("v1,"))
    return None if _matches(signature(secret, id_, moment, body), candidates) else "webhook-signature does not match"


def _github(secret: str, headers: Mapping[str, str], body: bytes) -> str | None:
    received = headers.get("x-hub-signature-256", "")
    if not received:
        return "the header x-hub-signature-256 is required"
    expected = "sha256=" + hmac.digest(secret.encode(), body, hashlib.sha256).hex()
    return None if _matches(expected, [received]) else "x-hub-signature-256 does not match"


def _stripe(secret: str, headers: Mapping[str, str], body: bytes, now: datetime) -> str | None:
    parts = _stripe_parts(headers)
    moment = next((value for name, value in parts if name == "t"), "")
    candidates = [value for name, value in parts if name == "v1"]
    if not (moment and candidates):
        return "the header stripe-signature with t and v1 is required"
    if why := _stale("t in stripe-signature", moment, now):
        return why
    expected = hmac.digest(secret.encode(), f"{moment}.".encode() + body, hashlib.sha256).hex()
    return None if _matches(expected, candidates) else "stripe-signature does not match"


def _stripe_parts(headers: Mapping[str, str]) -> list[tuple[str, str]]:
    parts = (part.strip().partition("=") for part in headers.get("stripe-signature", "").split(","))
    return [(name, value) for name, _, value in parts]


def _stale(name: str, moment: str, now: datetime) -> str | None:
    if not moment.isascii() or not moment.isdecimal() or len(moment) > 12:
        return f"{name} is not a number of seconds"
    if abs(now.timestamp() - int(moment)) > TOLERANCE.total_seconds():
        return f"{name} differs from the current time by more than 5 minutes"
    return None


def _matches(expected: str, candidates: Iterable[str]) -> bool:
    """Return whether any signature matches. All are compared, each in constant time."""
    return sum(hmac.compare_digest(expected.encode(), part.encode("latin-1", "replace")) for part in candidates) > 0


def _key(secret: str) -> bytes:
    return (_decoded(secret) if secret.startswith(PREFIX) else None) or secret.encode()


def _decoded(secret: str) -> bytes | None:
    try:
        return b64decode(secret.removeprefix(PREFIX), validate=True)
    except binascii.Error:
        return None


def parse_body(body: bytes, content_type: str | None) -> Any:
    """Return the value of a JSON body, None for an empty body, and any other body as a string."""
    if len(body) > BODY_LIMIT:
        raise Invalid(f"the body is {len(body)} bytes, the limit is {BODY_LIMIT}", field="body")
    if not body:
        return None
    kind, charset = _content_type(content_type or "")
    if _is_json(kind):
        if body.count(b"[") + body.count(b"{") > MOST_CONTAINERS:
            raise Invalid(f"the body has more than {MOST_CONTAINERS} lists and objects", field="body")
        try:
            return json_value.parse(body.decode("utf-8-sig"), field="body")
        except UnicodeDecodeError:
            raise Invalid("body is not JSON: it is not UTF-8 text", field="body") from None
    return body.decode(charset if charset in CHARSETS else "utf-8", "replace")


def stored_body(body: bytes, content_type: str | None) -> str:
    """Return a callback's body as it is stored; when read, it is parsed as JSON if possible, else it is a string."""
    if not body:
        return "null"
    if _is_json(_content_type(content_type or "")[0]):
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


def _content_type(content_type: str) -> tuple[str, str]:
    kind, *parameters = (part.strip().lower() for part in content_type.split(";"))
    named = dict(parameter.split("=", 1) for parameter in parameters if "=" in parameter)
    return kind, named.get("charset", "utf-8").strip("\"' ")

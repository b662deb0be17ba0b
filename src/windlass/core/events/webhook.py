"""Verification of signed requests: the signature must match the secret and, where signed, the time must be recent.

Three schemes. `standard` is Standard Webhooks: the headers `webhook-id`, `webhook-timestamp` and `webhook-signature`,
with HMAC-SHA256 over `id.timestamp.body`; its secret is `whsec_` and base64, or any text. `github` signs the body
alone, in `x-hub-signature-256`. `stripe` signs `timestamp.body`, in `stripe-signature`.
"""

import binascii
import hashlib
import hmac
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from enum import StrEnum
from typing import assert_never

PREFIX = "whsec_"
TOLERANCE = timedelta(minutes=5)
MIN_SECRET = 16  # characters
MIN_KEY = 24  # bytes behind `whsec_`, as Standard Webhooks asks


class Scheme(StrEnum):
    STANDARD = "standard"
    GITHUB = "github"
    STRIPE = "stripe"


def objection(
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
    """Return the id that identifies a repeated request, made of what the signature covers.

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
            return f"the text behind {PREFIX} is not base64: generate a secret with `openssl rand -base64 32`"
        if len(key) < MIN_KEY:
            return f"the text behind {PREFIX} decodes to {len(key)} bytes, at least {MIN_KEY} are needed"
    elif len(secret) < MIN_SECRET:
        return f"it has {len(secret)} characters, at least {MIN_SECRET} are needed"
    return None


def signature(secret: str, id_: str, moment: str, body: bytes) -> str:
    """Return the Standard Webhooks signature in base64."""
    signed = f"{id_}.{moment}.".encode() + body
    return b64encode(hmac.digest(_key(secret), signed, hashlib.sha256)).decode()


def _standard(secret: str, headers: Mapping[str, str], body: bytes, now: datetime) -> str | None:
    id_, moment, signatures = (headers.get(f"webhook-{name}", "") for name in ("id", "timestamp", "signature"))
    if not (id_ and moment and signatures):
        return "the headers webhook-id, webhook-timestamp and webhook-signature are needed"
    if why := _stale("webhook-timestamp", moment, now):
        return why
    given = (part.removeprefix("v1,") for part in signatures.split() if part.startswith("v1,"))
    return None if _matches(signature(secret, id_, moment, body), given) else "webhook-signature does not match"


def _github(secret: str, headers: Mapping[str, str], body: bytes) -> str | None:
    given = headers.get("x-hub-signature-256", "")
    if not given:
        return "the header x-hub-signature-256 is needed"
    expected = "sha256=" + hmac.digest(secret.encode(), body, hashlib.sha256).hex()
    return None if _matches(expected, [given]) else "x-hub-signature-256 does not match"


def _stripe(secret: str, headers: Mapping[str, str], body: bytes, now: datetime) -> str | None:
    parts = _stripe_parts(headers)
    moment = next((value for name, value in parts if name == "t"), "")
    given = [value for name, value in parts if name == "v1"]
    if not (moment and given):
        return "the header stripe-signature with t and v1 is needed"
    if why := _stale("t in stripe-signature", moment, now):
        return why
    expected = hmac.digest(secret.encode(), f"{moment}.".encode() + body, hashlib.sha256).hex()
    return None if _matches(expected, given) else "stripe-signature does not match"


def _stripe_parts(headers: Mapping[str, str]) -> list[tuple[str, str]]:
    parts = (part.strip().partition("=") for part in headers.get("stripe-signature", "").split(","))
    return [(name, value) for name, _, value in parts]


def _stale(name: str, moment: str, now: datetime) -> str | None:
    if not moment.isascii() or not moment.isdecimal() or len(moment) > 12:
        return f"{name} is not a number of seconds"
    if abs(now.timestamp() - int(moment)) > TOLERANCE.total_seconds():
        return f"{name} is too far from now"
    return None


def _matches(expected: str, given: Iterable[str]) -> bool:
    """Return whether any signature matches. All are compared, each in constant time."""
    return sum(hmac.compare_digest(expected.encode(), part.encode("latin-1", "replace")) for part in given) > 0


def _key(secret: str) -> bytes:
    return (_decoded(secret) if secret.startswith(PREFIX) else None) or secret.encode()


def _decoded(secret: str) -> bytes | None:
    try:
        return b64decode(secret.removeprefix(PREFIX), validate=True)
    except binascii.Error:
        return None

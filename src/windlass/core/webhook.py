"""Standard Webhooks: is a callback signed by somebody who knows the secret, and fresh?

The headers `webhook-id`, `webhook-timestamp` and `webhook-signature`; signed is `id.timestamp.body` with HMAC-SHA256. A
secret is `whsec_` and base64, or any text.
"""

import binascii
import hashlib
import hmac
from base64 import b64decode, b64encode
from collections.abc import Mapping
from datetime import datetime, timedelta

PREFIX = "whsec_"
TOLERANCE = timedelta(minutes=5)


def objection(secret: str, headers: Mapping[str, str], body: bytes, now: datetime) -> str | None:
    """What is wrong with the signature; None: nothing. `headers` have their names in lower case."""
    id_, moment, signatures = (headers.get(f"webhook-{name}", "") for name in ("id", "timestamp", "signature"))
    if not (id_ and moment and signatures):
        return "the headers webhook-id, webhook-timestamp and webhook-signature are needed"
    if not moment.isascii() or not moment.isdecimal() or len(moment) > 12:
        return "webhook-timestamp is no number of seconds"
    if abs(now.timestamp() - int(moment)) > TOLERANCE.total_seconds():
        return "webhook-timestamp is too far from now"
    expected = signature(secret, id_, moment, body)
    given = (part.removeprefix("v1,") for part in signatures.split() if part.startswith("v1,"))
    # All are compared, each in constant time.
    if not sum(hmac.compare_digest(expected.encode(), part.encode("latin-1", "replace")) for part in given):
        return "webhook-signature does not match"
    return None


def signature(secret: str, id_: str, moment: str, body: bytes) -> str:
    signed = f"{id_}.{moment}.".encode() + body
    return b64encode(hmac.digest(_key(secret), signed, hashlib.sha256)).decode()


def _key(secret: str) -> bytes:
    try:
        return b64decode(secret.removeprefix(PREFIX), validate=True) if secret.startswith(PREFIX) else secret.encode()
    except binascii.Error:
        return secret.encode()

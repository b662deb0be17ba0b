"""Tokens of callback URLs: 256 bits, derived from the key by HMAC, so that any process can recompute them."""

import hashlib
import hmac
from base64 import urlsafe_b64encode
from uuid import UUID


def token(key: bytes, run: UUID, step: int, round_: int = 0) -> str:
    """Return the token of a step in one round of its run.

    A retry or rerun has a new token, so that callbacks to the old URL no longer count. The token of round 0 leaves the
    round out, as older releases did, so that URLs they issued stay valid.
    """
    place = run.bytes + step.to_bytes(4, "big")
    mark = hmac.digest(key, place + round_.to_bytes(4, "big") if round_ else place, "sha256")
    return urlsafe_b64encode(mark).rstrip(b"=").decode()


def fingerprint(token_: str) -> bytes:
    """Return the digest that is stored to look up a token; the token cannot be derived from it."""
    return hashlib.sha256(token_.encode("utf-8", "replace")).digest()

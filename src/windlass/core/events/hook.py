"""Callback addresses: a token of 256 bits that any process can rebuild and nobody can guess."""

import hashlib
import hmac
from base64 import urlsafe_b64encode
from uuid import UUID


def token(key: bytes, run: UUID, step: int, round_: int = 0) -> str:
    """The token of a step in a round of its run. A retry or rerun makes another one, so that no old call counts again.

    The first round's is made as it was before rounds counted: addresses that were handed out stay valid.
    """
    place = run.bytes + step.to_bytes(4, "big")
    mark = hmac.digest(key, place + round_.to_bytes(4, "big") if round_ else place, "sha256")
    return urlsafe_b64encode(mark).rstrip(b"=").decode()


def fingerprint(token_: str) -> bytes:
    """What is stored: it finds the hook of a token and gives no token away."""
    return hashlib.sha256(token_.encode("utf-8", "replace")).digest()

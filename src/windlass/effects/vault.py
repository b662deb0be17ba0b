"""Seals values with AES-256-GCM: secrets with the data key of their org, data keys and server keys with a master key.

A sealed value is a nonce and the ciphertext with its tag. Its context (`org|name|version`) is associated data: a value
that was changed, or sealed in another context, does not open. `cryptography` is imported on first use.
"""

import base64
import binascii
import hashlib
import os
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from windlass.effects import private_file
from windlass.errors import Invalid, MasterKeyRequired

KEY_BYTES = 32
NONCE_BYTES = 12
ID_LENGTH = 8
VARIABLE = "WINDLASS_MASTER_KEY"
FILE = "master.key"
ADVICE = "if they cannot have read it, run chmod 600; otherwise rotate the key as docs/how-to/secrets.md describes"
MAKE_ONE = 'python -c "import base64, os; print(base64.b64encode(os.urandom(32)).decode())"'


class Tampered(ValueError):
    """Raised if a sealed value does not open: it was changed, or sealed with another key or in another context."""


@dataclass(frozen=True, slots=True)
class MasterKey:
    id: str  # the first digits of its SHA-256
    value: bytes = field(repr=False)

    @classmethod
    def of(cls, value: bytes) -> "MasterKey":
        return cls(hashlib.sha256(value).hexdigest()[:ID_LENGTH], value)


@dataclass(frozen=True, slots=True)
class MasterKeys:
    """The keys of this process: the first one seals, all of them open."""

    keys: tuple[MasterKey, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.keys)

    def __iter__(self) -> Iterator[MasterKey]:
        return iter(self.keys)

    @property
    def first(self) -> MasterKey:
        if not self.keys:
            raise MasterKeyRequired(f"{VARIABLE} is not set, and this needs it: make a key with {MAKE_ONE}")
        return self.keys[0]

    def get(self, id_: str) -> MasterKey:
        for key in self.keys:
            if key.id == id_:
                return key
        known = f"has only {', '.join(key.id for key in self.keys)}" if self.keys else "is not set"
        raise MasterKeyRequired(
            f"the master key {id_} is needed to open what this database has sealed, and {VARIABLE} {known}:"
            f" add the key whose SHA-256 begins with {id_}",
            key=id_,
        )


def parse_master_keys(text: str) -> MasterKeys:
    """Parse comma-separated keys in base64. The message of a `ValueError` does not contain them."""
    keys = []
    for part in filter(None, map(str.strip, text.split(","))):
        try:
            value = base64.b64decode(part, validate=True)
        except (binascii.Error, ValueError):
            raise ValueError(f"a key is not base64: make one with {MAKE_ONE}") from None
        if len(value) != KEY_BYTES:
            raise ValueError(f"a key has {len(value)} bytes instead of {KEY_BYTES}: make one with {MAKE_ONE}")
        keys.append(MasterKey.of(value))
    if len({key.id for key in keys}) < len(keys):
        raise ValueError("two of the keys are the same")
    return MasterKeys(tuple(keys))


def new_key() -> bytes:
    return os.urandom(KEY_BYTES)


def about(*parts: object) -> bytes:
    """Return the associated data of a sealed value. No part contains the separator."""
    return "|".join(map(str, parts)).encode()


def seal(key: bytes, value: bytes, context: bytes) -> bytes:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    nonce = os.urandom(NONCE_BYTES)
    return nonce + AESGCM(key).encrypt(nonce, value, context)


def open_sealed(key: bytes, sealed: bytes, context: bytes) -> bytes:
    """Return the value; raise `Tampered` if the key, the sealed value or the context does not match."""
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    try:
        return AESGCM(key).decrypt(sealed[:NONCE_BYTES], sealed[NONCE_BYTES:], context)
    except (InvalidTag, ValueError):
        raise Tampered(f"the sealed value of {context.decode()} does not open: it was changed") from None


# The key of the embedded server


def key_file(home: Path, needed: Collection[str]) -> MasterKeys:
    """Return the master keys of an embedded server, from a file in its home. The file is created on first use, unless
    the database has values that were sealed with a key that is now missing: `needed` are the ids of their keys."""
    path = home / FILE
    text = private_file.read(path, advice=ADVICE)
    if text is None and needed:
        ids = ", ".join(sorted(needed))
        raise MasterKeyRequired(
            f"{path} is missing, and the database has values that were sealed with the master key {ids}:"
            f" restore the file, or set {VARIABLE}",
            key=min(needed),
        )
    if text is None:
        text = private_file.make(path, lambda: base64.b64encode(new_key()).decode() + "\n", advice=ADVICE)
    try:
        return parse_master_keys(text)
    except ValueError as error:
        raise Invalid(f"{path}: {error}", field=VARIABLE) from None

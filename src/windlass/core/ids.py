"""Ids are UUIDv7: ordered by time, so that indexes grow at one end. Time and random bytes are arguments."""

import hashlib
import re
from datetime import datetime
from uuid import UUID

RANDOM_BYTES = 10
SPELLING = "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx"
# Tables that set the high bits of a byte: those of byte 6 to the version, those of byte 8 to the variant.
_VERSION = bytes(0x70 | byte & 0x0F for byte in range(256))
_VARIANT = bytes(0x80 | byte & 0x3F for byte in range(256))
_spelled = re.compile(SPELLING.replace("x", "[0-9a-f]")).fullmatch


def earliest(moment: datetime) -> UUID:
    """Return a lower bound of the ids made at this moment or later. Clocks differ: callers must leave a margin."""
    milliseconds = int(moment.timestamp() * 1000)
    return UUID(int=min(max(milliseconds, 0), 0xFFFF_FFFF_FFFF) << 80)


def uuid7(milliseconds: int, random: bytes) -> UUID:
    """Return a UUIDv7 made of 48 bits of time and 74 of the 80 random bits given."""
    return UUID(bytes=ascending(milliseconds, random[:RANDOM_BYTES])[0])


def ascending(milliseconds: int, random: bytes) -> list[bytes]:
    """Return the bytes of UUIDv7s of the same time in ascending order, one for each RANDOM_BYTES of `random`."""
    moment = (milliseconds & 0xFFFF_FFFF_FFFF).to_bytes(6, "big")
    dice = bytearray(random)
    dice[::RANDOM_BYTES] = dice[::RANDOM_BYTES].translate(_VERSION)
    dice[2::RANDOM_BYTES] = dice[2::RANDOM_BYTES].translate(_VARIANT)
    rolled = bytes(dice)
    return sorted([moment + rolled[n : n + RANDOM_BYTES] for n in range(0, len(rolled), RANDOM_BYTES)])


def beginning_with(text: str) -> tuple[UUID, UUID] | None:
    """Return the first and the last id with this prefix; None if no id can have it."""
    first, last = (text.lower() + (SPELLING.replace("x", digit))[len(text) :] for digit in "0f")
    return (UUID(first), UUID(last)) if _spelled(first) else None


def of_name(name: str) -> UUID:
    """Return the id for an external name: a UUIDv8 from its hash, always the same."""
    digest = bytearray(hashlib.sha256(name.encode()).digest()[:16])
    digest[6], digest[8] = digest[6] & 0x0F | 0x80, digest[8] & 0x3F | 0x80
    return UUID(bytes=bytes(digest))

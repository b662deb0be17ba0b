"""Ids are UUIDv7: ordered by time, so that indexes grow at one end. Time and random bytes are arguments."""

import hashlib
import re
from datetime import datetime
from uuid import UUID

RANDOM_BYTES = 8
SPELLING = "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx"
# Sets the two high bits of a byte to the variant of RFC 9562.
_VARIANT = bytes(0x80 | byte & 0x3F for byte in range(256))
_spelled = re.compile(SPELLING.replace("x", "[0-9a-f]")).fullmatch


def earliest(moment: datetime) -> UUID:
    """Return a lower bound of the ids generated at this time or later. Clocks differ: callers must leave a margin."""
    milliseconds = int(moment.timestamp() * 1000)
    return UUID(int=min(max(milliseconds, 0), 0xFFFF_FFFF_FFFF) << 80)


def uuid7(nanoseconds: int, random: bytes) -> UUID:
    """Return a UUIDv7 of a time and 62 of the 64 random bits."""
    return UUID(bytes=ascending(nanoseconds, random[:RANDOM_BYTES])[0])


def ascending(nanoseconds: int, random: bytes) -> list[bytes]:
    """Return the bytes of UUIDv7s of the same time in ascending order, one for each RANDOM_BYTES of `random`.

    The 12 bits after the milliseconds are a fraction of the millisecond (RFC 9562, 6.2, method 3), so that the ids of
    successive calls ascend, too: runs that wait for their workflow's concurrency limit start in the order of their ids.
    """
    milliseconds, rest = divmod(nanoseconds, 1_000_000)
    head = (milliseconds & 0xFFFF_FFFF_FFFF) << 16 | 0x7000 | (rest << 12) // 1_000_000
    time = head.to_bytes(8, "big")
    patched = bytearray(random)
    patched[::RANDOM_BYTES] = patched[::RANDOM_BYTES].translate(_VARIANT)
    tail = bytes(patched)
    return sorted([time + tail[n : n + RANDOM_BYTES] for n in range(0, len(tail), RANDOM_BYTES)])


def beginning_with(text: str) -> tuple[UUID, UUID] | None:
    """Return the first and the last id with this prefix; None if no id can have it."""
    first, last = (text.lower() + (SPELLING.replace("x", digit))[len(text) :] for digit in "0f")
    return (UUID(first), UUID(last)) if _spelled(first) else None


def of_name(name: str) -> UUID:
    """Return the id for an external name: a UUIDv8 derived from its hash, so that equal names have equal ids."""
    digest = bytearray(hashlib.sha256(name.encode()).digest()[:16])
    digest[6], digest[8] = digest[6] & 0x0F | 0x80, digest[8] & 0x3F | 0x80
    return UUID(bytes=bytes(digest))

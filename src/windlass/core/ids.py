"""Ids we make are UUIDv7: sorted by time, so that the tables' indexes grow at one end. Time and dice are arguments."""

import hashlib
import re
from datetime import datetime
from uuid import UUID

RANDOM_BYTES = 10
SPELLING = "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx"
_VERSION = 0x7 << 76
_VARIANT = 0x2 << 62
_RANDOM_A = (1 << 12) - 1
_RANDOM_B = (1 << 62) - 1
_spelled = re.compile(SPELLING.replace("x", "[0-9a-f]")).fullmatch


def earliest(moment: datetime) -> UUID:
    """No id made at this moment or later is smaller. Clocks differ: leave them some room."""
    milliseconds = int(moment.timestamp() * 1000)
    return UUID(int=min(max(milliseconds, 0), 0xFFFF_FFFF_FFFF) << 80)


def uuid7(milliseconds: int, random: bytes) -> UUID:
    """48 bits of time, then 74 of the 80 random bits given."""
    dice = int.from_bytes(random[:RANDOM_BYTES], "big")
    high = (milliseconds & 0xFFFF_FFFF_FFFF) << 80
    return UUID(int=high | _VERSION | (dice >> 62 & _RANDOM_A) << 64 | _VARIANT | (dice & _RANDOM_B))


def beginning_with(text: str) -> tuple[UUID, UUID] | None:
    """The first and the last id that begins like this; None: no id does."""
    first, last = (text.lower() + (SPELLING.replace("x", digit))[len(text) :] for digit in "0f")
    return (UUID(first), UUID(last)) if _spelled(first) else None


def of_name(name: str) -> UUID:
    """The id that stands for a name of somebody else's making: always the same (version 8)."""
    digest = bytearray(hashlib.sha256(name.encode()).digest()[:16])
    digest[6], digest[8] = digest[6] & 0x0F | 0x80, digest[8] & 0x3F | 0x80
    return UUID(bytes=bytes(digest))

"""Ids we make are UUIDv7: sorted by time, so that the tables' indexes grow at one end. Time and dice are arguments."""

from datetime import datetime
from uuid import UUID

RANDOM_BYTES = 10
_VERSION = 0x7 << 76
_VARIANT = 0x2 << 62
_RANDOM_A = (1 << 12) - 1
_RANDOM_B = (1 << 62) - 1


def earliest(moment: datetime) -> UUID:
    """No id made at this moment or later is smaller. Clocks differ: leave them some room."""
    milliseconds = int(moment.timestamp() * 1000)
    return UUID(int=min(max(milliseconds, 0), 0xFFFF_FFFF_FFFF) << 80)


def uuid7(milliseconds: int, random: bytes) -> UUID:
    """48 bits of time, then 74 of the 80 random bits given."""
    dice = int.from_bytes(random[:RANDOM_BYTES], "big")
    high = (milliseconds & 0xFFFF_FFFF_FFFF) << 80
    return UUID(int=high | _VERSION | (dice >> 62 & _RANDOM_A) << 64 | _VARIANT | (dice & _RANDOM_B))

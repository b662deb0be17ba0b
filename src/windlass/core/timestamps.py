"""Instants as they are told to programs."""

from datetime import UTC, datetime


def instant(at: datetime) -> str:
    """RFC 3339, in UTC, milliseconds; without a fraction where there is none."""
    text = at.astimezone(UTC).isoformat(timespec="milliseconds").removesuffix("+00:00")
    return text.removesuffix(".000") + "Z"

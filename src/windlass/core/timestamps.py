"""Timestamps in API responses."""

from datetime import UTC, datetime


def instant(at: datetime) -> str:
    """Return RFC 3339 in UTC with milliseconds; the fraction is left out if it is zero."""
    text = at.astimezone(UTC).isoformat(timespec="milliseconds").removesuffix("+00:00")
    return text.removesuffix(".000") + "Z"

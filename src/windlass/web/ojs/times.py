"""Reads and writes times of the Open Job Spec: RFC 3339 instants, ISO 8601 durations, milliseconds, `+PT5S`."""

import re
from datetime import datetime, timedelta
from typing import Any

from windlass.errors import Invalid

_ISO = re.compile(
    r"P(?:(?P<weeks>\d+)W)?(?:(?P<days>\d+)D)?"
    r"(?:T(?=\d)(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?(?:(?P<seconds>\d+(?:\.\d+)?)S)?)?",
    re.ASCII,
).fullmatch
LONGEST = timedelta(days=36_525)


def span(value: Any, *, field: str) -> timedelta:
    """Return the length of an ISO 8601 duration without years and months, whose lengths vary."""
    match = _ISO(value) if isinstance(value, str) and len(value) <= 64 else None
    if match is None or not any(match.groupdict().values()):
        raise Invalid(f"{field} must be an ISO 8601 duration, for example PT30S", field=field)
    try:
        length = timedelta(**{unit: float(number) for unit, number in match.groupdict(default="0").items()})
    except OverflowError:
        length = timedelta.max
    if length > LONGEST:
        raise Invalid(f"{field} is longer than {LONGEST.days} days", field=field)
    return length


def milliseconds(value: Any, *, field: str) -> timedelta:
    most = LONGEST // timedelta(milliseconds=1)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value <= most:
        raise Invalid(f"{field} must be a positive integer of milliseconds", field=field)
    return timedelta(milliseconds=value)


def instant(value: Any, *, field: str, now: datetime) -> datetime:
    """Return an instant, written with its time zone or as `+` and a duration from now."""
    if isinstance(value, str) and value.startswith("+"):
        return now + span(value[1:], field=field)
    try:
        parsed = datetime.fromisoformat(value) if isinstance(value, str) and len(value) >= 20 else None
        if parsed is not None and parsed.tzinfo is not None:
            parsed.astimezone(now.tzinfo)  # raises OverflowError at the ends of the calendar
            return parsed
    except (ValueError, OverflowError):
        pass
    raise Invalid(f"{field} must be an instant such as 2030-01-31T12:00:00Z, or relative such as +PT5S", field=field)


def is_relative(*values: Any) -> bool:
    return any(isinstance(value, str) and value.startswith("+") for value in values)


def duration(length: timedelta) -> str:
    """Return an ISO 8601 duration."""
    seconds, rest = divmod(round(length / timedelta(milliseconds=1)), 1000)
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    last = f"{seconds}.{rest:03}".rstrip("0").rstrip(".") if rest else str(seconds)
    parts = [f"{hours}H" if hours else "", f"{minutes}M" if minutes else "", f"{last}S" if last != "0" else ""]
    return "PT" + ("".join(parts) or "0S")

"""Parsing and formatting of durations such as 30s, 5m, 1h30m, 500ms or 2d."""

import math
import re
from datetime import timedelta
from decimal import Decimal

from windlass.errors import Invalid

# Largest first; the values are microseconds, so that sums are exact.
UNITS = {"d": 86_400_000_000, "h": 3_600_000_000, "m": 60_000_000, "s": 1_000_000, "ms": 1_000}
ALLOWED = "a number with a unit (ms, s, m, h, d), for example 500ms, 30s, 5m, 1h30m or 2d"
LONGEST = timedelta(days=36_525)
Duration = timedelta | float | str  # a timedelta, a number of seconds, or a string such as "1h30m"

_WHOLE = re.compile("".join(rf"(?:([0-9]+(?:\.[0-9]+)?){unit})?" for unit in UNITS), re.ASCII)


def parse(text: str, *, field: str = "duration") -> timedelta:
    """Return the duration that a string denotes; `field` names the option in the error."""
    match = _WHOLE.fullmatch(text.strip())
    if match is None or not any(match.groups()):
        raise Invalid(f"{field} is {text!r}: it must be {ALLOWED}", field=field)
    micros = sum((Decimal(n) * size for n, size in zip(match.groups(), UNITS.values(), strict=True) if n), Decimal())
    if micros > LONGEST // timedelta(microseconds=1):
        raise Invalid(f"{field} is {text!r}: the longest is {LONGEST.days}d", field=field)
    return timedelta(microseconds=round(micros))


def read(value: Duration, *, field: str = "duration") -> timedelta:
    """Return a duration given in any form of `Duration`; the caller must reject negative durations."""
    if isinstance(value, timedelta):
        return value
    if isinstance(value, str):
        return parse(value, field=field)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise Invalid(f"{field} is {value!r}: it must be a timedelta, a number of seconds, or {ALLOWED}", field=field)
    if abs(value) > LONGEST.total_seconds():
        raise Invalid(f"{field} is {value!r}: the longest is {LONGEST.days}d", field=field)
    return timedelta(seconds=value)


def text(span: timedelta) -> str:
    """Return the shortest string for a duration, largest unit first; microseconds are a fraction of milliseconds."""
    left = abs(span) // timedelta(microseconds=1)
    parts = []
    for unit, size in UNITS.items():
        count, left = divmod(left, size)
        if unit == "ms" and left:
            parts.append(f"{count}.{left:03}".rstrip("0") + unit)
        elif count:
            parts.append(f"{count}{unit}")
    return ("-" if span < timedelta() else "") + ("".join(parts) or "0s")


def rough(span: timedelta) -> str:
    """Return the duration for display: whole seconds, at most the two largest units."""
    seconds = timedelta(seconds=round(span.total_seconds()))
    return "".join(re.findall(r"-?[0-9]+[a-z]+", text(seconds))[:2])


def brief(span: timedelta) -> str:
    """Return an elapsed time for display: 340ms, 3.2s, 2m5s."""
    if span < timedelta(seconds=1):
        return f"{max(span, timedelta()) // timedelta(milliseconds=1)}ms"
    return f"{span.total_seconds():.1f}s" if span < timedelta(seconds=10) else rough(span)

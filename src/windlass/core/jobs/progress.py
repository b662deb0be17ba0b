"""Progress that a job reports, as a fraction."""

import math

from windlass.errors import Invalid

MAX_MESSAGE = 8192
MAX_DATA = 65_536  # bytes of the data reported with it


def fraction_of(value: object, *, whole: float = 1.0, field: str = "progress") -> float:
    """Return `value / whole`, clamped to 0..1: a job that counts slightly too far is done."""
    if isinstance(value, bool) or not isinstance(value, int | float) or math.isnan(value):
        raise Invalid(f"{field} is {value!r}: it must be a number between 0 and {whole:g}", field=field)
    return min(1.0, max(0.0, value / whole))

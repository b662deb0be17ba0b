"""How far a job says it is: a share of the whole."""

import math

from windlass.errors import Invalid

MAX_MESSAGE = 8192
MAX_DATA = 65_536  # bytes of what comes with it


def fraction_of(value: object, *, whole: float = 1.0, field: str = "progress") -> float:
    """A number as a share of `whole`, kept between 0 and 1: who counts a little too far means done."""
    if isinstance(value, bool) or not isinstance(value, int | float) or math.isnan(value):
        raise Invalid(f"{field} is {value!r}: it must be a number between 0 and {whole:g}", field=field)
    return min(1.0, max(0.0, value / whole))

"""The regression guard: compares ratios of Windlass to a rival with the recorded ratios.

A ratio is the median of `ours / theirs` over the repetitions of one run. Each repetition measures both shortly after
one another, so that a slow minute of the machine affects both. Its range is from the lower to the upper quartile.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import median, quantiles

from bench.plan import Measure, Series, is_time
from bench.thresholds import BEST_PEER, FLOORS

TOLERANCE = 0.10


class Verdict(StrEnum):
    SAME = "same"
    BETTER = "better"
    WORSE = "WORSE"
    UNCLEAR = "unclear: worse, within the noise"
    NOT_MEASURED = "not measured"


@dataclass(frozen=True, order=True)
class Pair:
    """The two sides of a ratio: a column of Windlass, divided by a column of a rival."""

    measure: Measure
    column: str
    rival: str
    rival_column: str

    def __str__(self) -> str:
        return f"{self.measure} {self.column} / {self.rival} {self.rival_column}"


@dataclass(frozen=True)
class Ratio:
    value: float
    low: float
    high: float
    repetitions: int


@dataclass(frozen=True)
class Compared:
    pair: Pair
    recorded: Ratio
    now: Ratio | None
    verdict: Verdict


# The ratios of all floors with a named rival. The best peer is left out: which one it is may change.
GUARDED = sorted(
    {
        Pair(floor.measure, floor.column, floor.rival, floor.rival_column)
        for floor in FLOORS
        if floor.rival is not None and floor.rival != BEST_PEER
    }
)


def ratios(series: Iterable[Series]) -> dict[Pair, Ratio]:
    """Return the guarded ratios of which both sides were measured."""
    values = {(one.measure, one.contestant, one.column): one.values for one in series}
    result: dict[Pair, Ratio] = {}
    for pair in GUARDED:
        ours = values.get((pair.measure, "windlass", pair.column), ())
        theirs = values.get((pair.measure, pair.rival, pair.rival_column), ())
        if ours and theirs:  # a contestant that failed has fewer repetitions
            result[pair] = ratio([mine / other for mine, other in zip(ours, theirs, strict=False)])
    return result


def ratio(values: Sequence[float]) -> Ratio:
    if len(values) == 1:
        return Ratio(values[0], values[0], values[0], 1)
    low, _, high = quantiles(values, n=4, method="inclusive")
    return Ratio(median(values), low, high, len(values))


def compare(recorded: Mapping[Pair, Ratio], now: Mapping[Pair, Ratio]) -> list[Compared]:
    return [
        Compared(pair, before, now.get(pair), judge(pair, before, now.get(pair))) for pair, before in recorded.items()
    ]


def judge(pair: Pair, before: Ratio, now: Ratio | None) -> Verdict:
    """Return the verdict: a difference counts if it exceeds the tolerance and the ranges do not overlap."""
    if now is None:
        return Verdict.NOT_MEASURED
    if not is_time(pair.measure, pair.column):
        loss, apart_down, apart_up = 1 - now.value / before.value, now.high < before.low, now.low > before.high
    else:
        loss, apart_down, apart_up = now.value / before.value - 1, now.low > before.high, now.high < before.low
    if loss > TOLERANCE:
        return Verdict.WORSE if apart_down else Verdict.UNCLEAR
    return Verdict.BETTER if loss < -TOLERANCE and apart_up else Verdict.SAME

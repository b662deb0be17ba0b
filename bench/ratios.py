"""The regression guard: ratios to a rival that ran in turns with us, compared with those that were recorded.

A ratio is the median over the repetitions of one run of `ours / theirs`, each pair measured next to each other, so that
a slow minute of the machine affects both sides. Its range is from the lower to the upper quartile of these pairs.
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
    """What is divided by what: our column, and the rival's."""

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


# Every floor that compares with a named rival. The best peer may be another one tomorrow.
GUARDED = sorted(
    {
        Pair(floor.measure, floor.column, floor.rival, floor.rival_column)
        for floor in FLOORS
        if floor.rival is not None and floor.rival != BEST_PEER
    }
)


def ratios(found: Iterable[Series]) -> dict[Pair, Ratio]:
    """The guarded ratios of which both sides were measured."""
    values = {(series.measure, series.contestant, series.column): series.values for series in found}
    result: dict[Pair, Ratio] = {}
    for pair in GUARDED:
        ours = values.get((pair.measure, "windlass", pair.column), ())
        theirs = values.get((pair.measure, pair.rival, pair.rival_column), ())
        if ours and theirs:  # a contestant that broke has fewer repetitions
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
    """Worse or better only if the medians differ by more than the tolerance and the ranges do not touch."""
    if now is None:
        return Verdict.NOT_MEASURED
    if not is_time(pair.measure, pair.column):
        loss, apart_down, apart_up = 1 - now.value / before.value, now.high < before.low, now.low > before.high
    else:
        loss, apart_down, apart_up = now.value / before.value - 1, now.low > before.high, now.high < before.low
    if loss > TOLERANCE:
        return Verdict.WORSE if apart_down else Verdict.UNCLEAR
    return Verdict.BETTER if loss < -TOLERANCE and apart_up else Verdict.SAME

"""The floors: what Windlass must reach in a run, told as pass, fail or not measured. They never fail the run."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from bench.plan import Measure, Series
from bench.room import PEERS

BEST_PEER = "best peer"


@dataclass(frozen=True, kw_only=True)
class Floor:
    """Our median, divided by a rival's, must be at least (or, for times, at most) so much."""

    text: str
    measure: Measure
    column: str
    rival: str
    rival_column: str
    needed: float
    at_most: bool = False


@dataclass(frozen=True, kw_only=True)
class Judged:
    floor: Floor
    reached: float | None  # None: one of the two was not measured

    @property
    def verdict(self) -> str:
        if self.reached is None:
            return "not measured"
        low, high = (self.reached, self.floor.needed) if self.floor.at_most else (self.floor.needed, self.reached)
        return "pass" if low <= high else "FAIL"


class Results:
    """Medians, found by what they are of."""

    def __init__(self, found: Sequence[Series]) -> None:
        self._medians = {(s.measure, s.contestant, s.column): median(s.values) for s in found}

    def of(self, measure: Measure, contestant: str, column: str) -> float | None:
        if contestant != BEST_PEER:
            return self._medians.get((measure, contestant, column))
        known = [value for name in PEERS if (value := self.of(measure, name, column)) is not None]
        best = min if measure is Measure.LATENCY else max
        return best(known, default=None)


def judge(results: Results) -> list[Judged]:
    return [Judged(floor=floor, reached=_reached(floor, results)) for floor in FLOORS]


def _reached(floor: Floor, results: Results) -> float | None:
    ours = results.of(floor.measure, "windlass", floor.column)
    theirs = results.of(floor.measure, floor.rival, floor.rival_column)
    return ours / theirs if ours is not None and theirs else None


FLOORS = (
    Floor(
        text="drain: ahead of the best peer",
        measure=Measure.DRAIN,
        column="rate",
        rival=BEST_PEER,
        rival_column="rate",
        needed=1,
    ),
    Floor(
        text="drain: half of the bare loop",
        measure=Measure.DRAIN,
        column="rate",
        rival="bare",
        rival_column="rate",
        needed=0.5,
    ),
    Floor(
        text="submit: half of a bare insert",
        measure=Measure.SUBMIT,
        column="rate",
        rival="bare",
        rival_column="rate",
        needed=0.5,
    ),
    Floor(
        text="latency: p50 no slower than pgqueuer",
        measure=Measure.LATENCY,
        column="p50",
        rival="pgqueuer",
        rival_column="p50",
        needed=1,
        at_most=True,
    ),
    Floor(
        text="latency: p99 no slower than pgqueuer",
        measure=Measure.LATENCY,
        column="p99",
        rival="pgqueuer",
        rival_column="p99",
        needed=1,
        at_most=True,
    ),
    Floor(
        text="snapshot: 80 % of the rate without one",
        measure=Measure.SNAPSHOT,
        column="held",
        rival="windlass",
        rival_column="quiet",
        needed=0.8,
    ),
)

"""The floors: what Windlass must reach in a run, told as pass, fail or not measured. They never fail the run."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from bench.environment import PEERS
from bench.plan import TIMES, Measure, Series

BEST_PEER = "best peer"


@dataclass(frozen=True, kw_only=True)
class Floor:
    """Our median, divided by a rival's if there is one, must be at least (or, for times, at most) so much."""

    text: str
    measure: Measure
    column: str
    needed: float
    rival: str | None = None
    rival_column: str = ""
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
        best = min if measure in TIMES else max
        return best(known, default=None)


def judge(results: Results) -> list[Judged]:
    return [Judged(floor=floor, reached=_reached(floor, results)) for floor in FLOORS]


def _reached(floor: Floor, results: Results) -> float | None:
    ours = results.of(floor.measure, "windlass", floor.column)
    if floor.rival is None:
        return ours
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
    Floor(
        text="chains: 40 % of the bare loop",
        measure=Measure.CHAINS,
        column="rate",
        rival="bare",
        rival_column="rate",
        needed=0.4,
    ),
    Floor(
        text="chains: ahead of the best peer",
        measure=Measure.CHAINS,
        column="rate",
        rival=BEST_PEER,
        rival_column="rate",
        needed=1,
    ),
    Floor(
        text="fanout: seconds",
        measure=Measure.FANOUT,
        column="seconds",
        needed=0.3,
        at_most=True,
    ),
    Floor(
        text="fanout: 2.5 times the bare loop's time",
        measure=Measure.FANOUT,
        column="seconds",
        rival="bare",
        rival_column="seconds",
        needed=2.5,
        at_most=True,
    ),
    Floor(
        text="lone: a step of a long chain, of a short",
        measure=Measure.LONE,
        column="long",
        rival="windlass",
        rival_column="short",
        needed=1.3,
        at_most=True,
    ),
    Floor(
        text="history: 75 % of the rate without one",
        measure=Measure.HISTORY,
        column="full",
        rival="windlass",
        rival_column="empty",
        needed=0.75,
    ),
)

"""The floors: what Windlass must reach in a run. One that is missed is printed as missed; it never fails the run."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from bench.environment import PEERS
from bench.plan import CONNECTIONS, Measure, Series, is_time

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
        return "met" if low <= high else "MISSED"


class Results:
    """Medians, found by what they are of."""

    def __init__(self, found: Sequence[Series]) -> None:
        self._medians = {(s.measure, s.contestant, s.column): median(s.values) for s in found}

    def of(self, measure: Measure, contestant: str, column: str) -> float | None:
        if contestant != BEST_PEER:
            return self._medians.get((measure, contestant, column))
        known = [value for name in PEERS if (value := self.of(measure, name, column)) is not None]
        best = min if is_time(measure, column) else max
        return best(known, default=None)


def judge(results: Results) -> list[Judged]:
    return [Judged(floor=floor, reached=_reached(floor, results)) for floor in FLOORS]


def _reached(floor: Floor, results: Results) -> float | None:
    ours = results.of(floor.measure, "windlass", floor.column)
    if floor.rival is None:
        return ours
    theirs = results.of(floor.measure, floor.rival, floor.rival_column)
    return ours / theirs if ours is not None and theirs else None


def _least(text: str, measure: Measure, column: str, needed: float, rival: str, rival_column: str = "") -> Floor:
    """A rate: at least `needed` of the rival's, in the same column if no other is named."""
    rival_column = rival_column or column
    return Floor(text=text, measure=measure, column=column, needed=needed, rival=rival, rival_column=rival_column)


def _most(
    text: str, measure: Measure, column: str, needed: float, rival: str | None = None, rival_column: str = ""
) -> Floor:
    """A time: at most `needed` of the rival's, or so much itself."""
    return Floor(
        text=text,
        measure=measure,
        column=column,
        needed=needed,
        rival=rival,
        rival_column=rival_column or column,
        at_most=True,
    )


FLOORS = (
    _least("drain: ahead of the best peer", Measure.DRAIN, "rate", 1, BEST_PEER),
    _least("drain: of the bare loop", Measure.DRAIN, "rate", 0.75, "bare"),
    _least("processes: two, of one", Measure.PROCESSES, "two", 1.5, "windlass", "one"),
    _least("processes: two, of pgqueuer's two", Measure.PROCESSES, "two", 1, "pgqueuer"),
    _least("submit: of a bare insert", Measure.SUBMIT, "rate", 0.75, "bare"),
    _least("submit: of pgqueuer", Measure.SUBMIT, "rate", 1, "pgqueuer"),
    _least("singles: of bare inserts", Measure.SINGLES, "rate", 0.7, "bare"),
    _most("latency: p50, of pgqueuer's", Measure.LATENCY, "p50", 0.9, "pgqueuer"),
    _most("latency: p99, of pgqueuer's", Measure.LATENCY, "p99", 1, "pgqueuer"),
    _least("snapshot: of the rate without one", Measure.SNAPSHOT, "held", 0.8, "windlass", "quiet"),
    _least("chains: of the bare loop", Measure.CHAINS, "rate", 0.62, "bare"),
    _least("chains: ahead of the best peer", Measure.CHAINS, "rate", 1, BEST_PEER),
    _most("fanout: seconds", Measure.FANOUT, "seconds", 0.3),
    _most("fanout: of the bare loop's time", Measure.FANOUT, "seconds", 2.5, "bare"),
    _most("lone: a step of a long chain, of a short", Measure.LONE, "long", 1.3, "windlass", "short"),
    _least("history: of the rate without one", Measure.HISTORY, "full", 0.75, "windlass", "empty"),
    *(_least(f"http: of the bare handler, over {n}", Measure.HTTP, f"{n} rate", 0.65, "bare") for n in CONNECTIONS),
)

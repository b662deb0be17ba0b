"""The floors: the results that Windlass must reach. A missed floor is printed as MISSED and does not fail the run."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from bench.environment import PEERS
from bench.plan import CONNECTIONS, Measure, Series, is_time

BEST_PEER = "best peer"


@dataclass(frozen=True, kw_only=True)
class Floor:
    """A bound for our median, or for its ratio to the median of a rival: at least, or at most, `needed`."""

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
    """The medians of all series, by measure, contestant and column."""

    def __init__(self, series: Sequence[Series]) -> None:
        self._medians = {(one.measure, one.contestant, one.column): median(one.values) for one in series}

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


def _at_least(text: str, measure: Measure, column: str, needed: float, rival: str, rival_column: str = "") -> Floor:
    """Return a floor for a rate: at least `needed` times the rival's rate, by default in the same column."""
    rival_column = rival_column or column
    return Floor(text=text, measure=measure, column=column, needed=needed, rival=rival, rival_column=rival_column)


def _at_most(
    text: str, measure: Measure, column: str, needed: float, rival: str | None = None, rival_column: str = ""
) -> Floor:
    """Return a floor for a time: at most `needed` times the rival's time, or at most `needed` if there is no rival."""
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
    _at_least("drain / best peer", Measure.DRAIN, "rate", 1, BEST_PEER),
    _at_least("drain / bare loop", Measure.DRAIN, "rate", 0.75, "bare"),
    _at_least("processes: two / one", Measure.PROCESSES, "two", 1.5, "windlass", "one"),
    _at_least("processes: two / two of pgqueuer", Measure.PROCESSES, "two", 1, "pgqueuer"),
    _at_least("submit / bare inserts", Measure.SUBMIT, "rate", 0.75, "bare"),
    _at_least("submit / pgqueuer", Measure.SUBMIT, "rate", 1, "pgqueuer"),
    _at_least("singles / bare inserts", Measure.SINGLES, "rate", 0.7, "bare"),
    _at_most("latency p50 / pgqueuer", Measure.LATENCY, "p50", 0.9, "pgqueuer"),
    _at_most("latency p99 / pgqueuer", Measure.LATENCY, "p99", 1, "pgqueuer"),
    _at_least("snapshot: with / without a snapshot", Measure.SNAPSHOT, "held", 0.8, "windlass", "quiet"),
    _at_least("chains / bare loop", Measure.CHAINS, "rate", 0.62, "bare"),
    _at_least("chains / best peer", Measure.CHAINS, "rate", 1, BEST_PEER),
    _at_most("fanout, seconds", Measure.FANOUT, "seconds", 0.3),
    _at_most("fanout / bare loop", Measure.FANOUT, "seconds", 2.5, "bare"),
    _at_most("lone: step of a long / of a short chain", Measure.LONE, "long", 1.3, "windlass", "short"),
    _at_least("history: with / without a history", Measure.HISTORY, "full", 0.75, "windlass", "empty"),
    *(_at_least(f"http / bare handler, clients: {n}", Measure.HTTP, f"{n} rate", 0.65, "bare") for n in CONNECTIONS),
)

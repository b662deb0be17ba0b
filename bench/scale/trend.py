"""Judges whether a series of measurements stayed flat. Pure functions."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import median

FLAT = 0.10


@dataclass(frozen=True)
class Minute:
    """The measurements of one interval."""

    drain: float  # jobs/s
    chains: float  # runs/s
    claim_p99: float  # ms
    list_p99: float  # ms
    wal_per_job: float  # bytes; the steps of runs count as jobs
    dead: int  # tuples in all tables
    autovacuum: float  # seconds


JUDGED = {"drain": True, "chains": True, "claim_p99": False, "list_p99": False, "wal_per_job": False}  # more is better?


@dataclass(frozen=True)
class Trend:
    name: str
    middle: float
    drift: float  # from the first interval to the last, as a share of the middle; more than 0 is worse

    @property
    def verdict(self) -> str:
        if abs(self.drift) <= FLAT:
            return "flat"
        return "WORSE" if self.drift > 0 else "better"


def trends(minutes: Sequence[Minute], warm_up: int) -> list[Trend]:
    """Return the drift of each figure after the warm-up; nothing if fewer than three intervals are left."""
    kept = minutes[warm_up:]
    if len(kept) < 3:
        return []
    rows = {name: [float(getattr(minute, name)) for minute in kept] for name in JUDGED}
    return [Trend(name, median(row), drift(row) * (-1 if JUDGED[name] else 1)) for name, row in rows.items()]


def drift(values: Sequence[float]) -> float:
    """Return the change over all values as a share of their median, by the median slope of all pairs (Theil-Sen).

    One bad interval, such as that of a checkpoint, does not change it.
    """
    slopes = [(values[b] - values[a]) / (b - a) for a, b in combinations(range(len(values)), 2)]
    middle = median(values)
    return median(slopes) * (len(values) - 1) / middle if middle else 0.0


def percentile(values: Sequence[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * share))] if values else 0.0

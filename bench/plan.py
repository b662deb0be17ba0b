"""What is measured: the measures, who takes part in each, how much they are given, and the floors they are held to."""

from dataclasses import dataclass
from enum import StrEnum

CONTESTANTS = ("bare", "windlass", "pgqueuer", "procrastinate")
SLOW = {"procrastinate": 5}  # gets this many times fewer jobs; a shorter queue is no harder


class Measure(StrEnum):
    DRAIN = "drain"
    SUBMIT = "submit"
    LATENCY = "latency"
    SNAPSHOT = "snapshot"


ENTRANTS = {
    Measure.DRAIN: CONTESTANTS,
    Measure.SUBMIT: CONTESTANTS,
    Measure.LATENCY: ("windlass", "pgqueuer"),
    Measure.SNAPSHOT: ("windlass", "pgqueuer"),
}

TITLES = {
    Measure.DRAIN: "drain: no-op jobs waiting, one worker process, audit events written (jobs/s)",
    Measure.SUBMIT: "submit: jobs recorded in batches of 1,000, with their first event (jobs/s)",
    Measure.LATENCY: "latency: from the enqueue call to the handler's start on an idle worker (ms)",
    Measure.SNAPSHOT: "snapshot: drain without and with an idle transaction holding a snapshot (jobs/s)",
}


@dataclass(frozen=True, kw_only=True)
class Plan:
    """One run. The defaults are the ones the floors are meant for."""

    measures: tuple[Measure, ...] = tuple(Measure)
    contestants: tuple[str, ...] = CONTESTANTS
    repeat: int = 5
    jobs: int = 20_000
    samples: int = 300
    snapshot_jobs: int = 200_000

    def entrants(self, measure: Measure) -> list[str]:
        return [name for name in self.contestants if name in ENTRANTS[measure]]

    def count(self, measure: Measure, contestant: str) -> int:
        match measure:
            case Measure.LATENCY:
                return self.samples
            case Measure.SNAPSHOT:
                return self.snapshot_jobs
            case Measure.DRAIN | Measure.SUBMIT:
                return max(1, self.jobs // SLOW.get(contestant, 1))


@dataclass(frozen=True, kw_only=True)
class Series:
    """One row of a table: what a contestant reached, one number a repetition."""

    measure: Measure
    contestant: str
    column: str  # which number: rate, p50, p99, quiet, held
    values: tuple[float, ...]

"""What is measured: the measures, who takes part in each, how much they are given, and the floors they are held to."""

from dataclasses import dataclass
from enum import StrEnum

CONTESTANTS = ("bare", "windlass", "pgqueuer", "procrastinate", "dbos", "celery")


class Measure(StrEnum):
    DRAIN = "drain"
    SUBMIT = "submit"
    LATENCY = "latency"
    SNAPSHOT = "snapshot"
    CHAINS = "chains"
    FANOUT = "fanout"
    LONE = "lone"
    HISTORY = "history"


TIMES = frozenset({Measure.LATENCY, Measure.FANOUT, Measure.LONE})  # less is better

# Who gets this many times fewer jobs or runs; a shorter queue is no harder.
SLOW = {
    (Measure.DRAIN, "procrastinate"): 5,
    (Measure.SUBMIT, "procrastinate"): 5,
    (Measure.CHAINS, "pgqueuer"): 5,
    (Measure.CHAINS, "dbos"): 20,
    (Measure.CHAINS, "celery"): 20,
}

ENTRANTS = {
    Measure.DRAIN: ("bare", "windlass", "pgqueuer", "procrastinate"),
    Measure.SUBMIT: ("bare", "windlass", "pgqueuer", "procrastinate"),
    Measure.LATENCY: ("windlass", "pgqueuer"),
    Measure.SNAPSHOT: ("windlass", "pgqueuer"),
    Measure.CHAINS: ("bare", "windlass", "pgqueuer", "dbos", "celery"),
    Measure.FANOUT: ("bare", "windlass", "dbos"),
    Measure.LONE: ("windlass",),
    Measure.HISTORY: ("windlass",),
}

TITLES = {
    Measure.DRAIN: "drain: no-op jobs waiting, one worker process, audit events written (jobs/s)",
    Measure.SUBMIT: "submit: jobs recorded in batches of 1,000, with their first event (jobs/s)",
    Measure.LATENCY: "latency: from the enqueue call to the handler's start on an idle worker (ms)",
    Measure.SNAPSHOT: "snapshot: drain without and with an idle transaction holding a snapshot (jobs/s)",
    Measure.CHAINS: "chains: runs of three no-op steps waiting, one worker process (runs/s)",
    Measure.FANOUT: "fanout: one step, then many, then one; from the start call to the run's end, warm worker (s)",
    Measure.LONE: "lone: one run at a time, chains of 40 steps and a long one (ms a step)",
    Measure.HISTORY: "history: chains in empty tables and behind many finished jobs (runs/s)",
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
    chains: int = 10_000
    fan_out: int = 1_000
    lone_steps: int = 2_000
    history: int = 5_000_000

    def entrants(self, measure: Measure) -> list[str]:
        return [name for name in self.contestants if name in ENTRANTS[measure]]

    def count(self, measure: Measure, contestant: str) -> int:
        match measure:
            case Measure.LATENCY:
                return self.samples
            case Measure.SNAPSHOT:
                return self.snapshot_jobs
            case Measure.FANOUT:
                return self.fan_out
            case Measure.LONE:
                return self.lone_steps
            case Measure.DRAIN | Measure.SUBMIT:
                return max(1, self.jobs // SLOW.get((measure, contestant), 1))
            case Measure.CHAINS | Measure.HISTORY:
                return max(1, self.chains // SLOW.get((measure, contestant), 1))


@dataclass(frozen=True, kw_only=True)
class Series:
    """One row of a table: what a contestant reached, one number a repetition."""

    measure: Measure
    contestant: str
    column: str  # which number: rate, p50, p99, quiet, held, seconds, short, long, empty, full
    values: tuple[float, ...]

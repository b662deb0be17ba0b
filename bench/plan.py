"""The plan of a run: the measures, the contestants of each, and the amounts."""

from dataclasses import dataclass
from enum import StrEnum

CONTESTANTS = ("bare", "windlass", "pgqueuer", "procrastinate", "chancy", "oban", "absurd", "dbos", "celery")
CONNECTIONS = (1, 8, 32)  # clients of the measure `http`


class Measure(StrEnum):
    DRAIN = "drain"
    PROCESSES = "processes"
    SUBMIT = "submit"
    SINGLES = "singles"
    LATENCY = "latency"
    SNAPSHOT = "snapshot"
    CHAINS = "chains"
    FANOUT = "fanout"
    LONE = "lone"
    HISTORY = "history"
    HTTP = "http"


# Divisors of the number of jobs or runs of slow contestants; a shorter queue is no harder.
SLOW = {
    (Measure.DRAIN, "procrastinate"): 5,
    (Measure.DRAIN, "chancy"): 5,
    (Measure.DRAIN, "oban"): 5,
    (Measure.DRAIN, "absurd"): 5,
    (Measure.DRAIN, "celery"): 5,
    (Measure.SUBMIT, "procrastinate"): 5,
    (Measure.SUBMIT, "chancy"): 5,
    (Measure.SUBMIT, "oban"): 5,
    (Measure.SUBMIT, "absurd"): 5,
    (Measure.SUBMIT, "celery"): 5,
    (Measure.CHAINS, "pgqueuer"): 5,
    (Measure.CHAINS, "absurd"): 20,
    (Measure.CHAINS, "dbos"): 20,
    (Measure.CHAINS, "celery"): 20,
}

ENTRANTS = {
    Measure.DRAIN: ("bare", "windlass", "pgqueuer", "procrastinate", "chancy", "oban", "absurd", "celery"),
    Measure.PROCESSES: ("bare", "windlass", "pgqueuer"),
    Measure.SUBMIT: ("bare", "windlass", "pgqueuer", "procrastinate", "chancy", "oban", "absurd", "celery"),
    Measure.SINGLES: ("bare", "windlass", "pgqueuer"),
    Measure.LATENCY: ("windlass", "pgqueuer"),
    Measure.SNAPSHOT: ("windlass", "pgqueuer"),
    Measure.CHAINS: ("bare", "windlass", "pgqueuer", "absurd", "dbos", "celery"),
    Measure.FANOUT: ("bare", "windlass", "dbos"),
    Measure.LONE: ("windlass",),
    Measure.HISTORY: ("windlass",),
    Measure.HTTP: ("bare", "windlass"),
}

TITLES = {
    Measure.DRAIN: "drain: pending no-op jobs executed by one worker process, with their events (jobs/s)",
    Measure.PROCESSES: "processes: drain by one and by two worker processes (jobs/s)",
    Measure.SUBMIT: "submit: jobs inserted in batches of 1,000, with their first event (jobs/s)",
    Measure.SINGLES: "singles: jobs inserted one by one by 32 concurrent tasks (jobs/s)",
    Measure.LATENCY: "latency: from the submit call to the start of the handler on an idle worker (ms)",
    Measure.SNAPSHOT: "snapshot: drain without and with an idle transaction that holds a snapshot (jobs/s)",
    Measure.CHAINS: "chains: pending runs of three no-op steps executed by one worker process (runs/s)",
    Measure.FANOUT: "fanout: one step, many instances, one step; from the start call to the run's end, warm worker (s)",
    Measure.LONE: "lone: a single run on an idle worker; chains of 40 steps and a long chain (ms per step)",
    Measure.HISTORY: "history: chains in empty tables and in tables with many ended jobs (runs/s)",
    Measure.HTTP: "http: runs started over 1, 8 and 32 connections; bare: a handler with one insert (req/s, ms)",
}


def is_time(measure: Measure, column: str) -> bool:
    """Return whether a lower value is better."""
    return measure in (Measure.LATENCY, Measure.FANOUT, Measure.LONE) or column.endswith(("p50", "p99"))


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The options of one run of the benchmark. The floors apply to the defaults."""

    measures: tuple[Measure, ...] = tuple(Measure)
    contestants: tuple[str, ...] = CONTESTANTS
    repeat: int = 5
    jobs: int = 20_000
    process_jobs: int = 60_000
    singles: int = 10_000
    samples: int = 3_000
    snapshot_jobs: int = 200_000
    chains: int = 10_000
    fan_out: int = 1_000
    lone_steps: int = 2_000
    history: int = 5_000_000
    requests: int = 3_000

    def entrants(self, measure: Measure) -> list[str]:
        return [name for name in self.contestants if name in ENTRANTS[measure]]

    def count(self, measure: Measure, contestant: str) -> int:
        """Return the number of jobs, runs, samples or requests of a contestant in one repetition."""
        full = {
            Measure.DRAIN: self.jobs,
            Measure.PROCESSES: self.process_jobs,
            Measure.SUBMIT: self.jobs,
            Measure.SINGLES: self.singles,
            Measure.LATENCY: self.samples,
            Measure.SNAPSHOT: self.snapshot_jobs,
            Measure.CHAINS: self.chains,
            Measure.FANOUT: self.fan_out,
            Measure.LONE: self.lone_steps,
            Measure.HISTORY: self.chains,
            Measure.HTTP: self.requests,
        }
        return max(1, full[measure] // SLOW.get((measure, contestant), 1))


@dataclass(frozen=True, kw_only=True)
class Series:
    """A row of a table: the values of one column for one contestant, one for each repetition."""

    measure: Measure
    contestant: str
    column: str  # rate, p50, p99, one, two, quiet, held, seconds, short, long, empty, full, "8 rate"
    values: tuple[float, ...]

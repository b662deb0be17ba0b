"""Prometheus metrics of the workers in this process, under the names that clients of the SQL contract use."""

from bisect import bisect_left
from collections import Counter as Tally
from collections.abc import Iterable, Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from windlass.core.jobs.job import JobMove, Report, Success, Suspension


class BatchHistogram(Histogram):
    """A histogram that observes a batch at once: `observe` for each job took a twentieth of the worker's CPU time."""

    def observe_many(self, amounts: Sequence[float]) -> None:
        self._sum.inc(sum(amounts))
        for bucket, count in Tally(bisect_left(self._upper_bounds, amount) for amount in amounts).items():
            self._buckets[bucket].inc(count)


REGISTRY = CollectorRegistry()
_JOB = ("workflow_type", "worker_id")

claimed_total = Counter("workflow_run_claimed_total", "Jobs claimed.", _JOB, registry=REGISTRY)
completed_total = Counter(
    "workflow_run_completed_total",
    "Attempts that ended, by the resulting state of the job.",
    (*_JOB, "status"),
    registry=REGISTRY,
)
failed_total = Counter("workflow_run_failed_total", "Jobs that ended as failed.", _JOB, registry=REGISTRY)
failed_attempts_total = Counter(
    "workflow_run_failed_attempts_total", "Failed attempts by number.", (*_JOB, "attempt"), registry=REGISTRY
)
duration_seconds = BatchHistogram(
    "workflow_run_execution_duration_seconds",
    "The duration of attempts in seconds.",
    (*_JOB, "status"),
    buckets=(0.1, 0.5, 1, 5, 10, 30, 60, 300),
    registry=REGISTRY,
)
polls_total = Counter("workflow_worker_poll_cycle_total", "Polls for work.", ("worker_id",), registry=REGISTRY)
poll_errors_total = Counter(
    "workflow_worker_poll_errors_total", "Turns that failed.", ("worker_id", "error_type"), registry=REGISTRY
)
queue_depth = Gauge("workflow_run_queue_depth", "Due jobs by type.", ("workflow_type", "status"), registry=REGISTRY)
loop_blocked_total = Counter(
    "workflow_worker_loop_blocked_total",
    "Times that a handler blocked the worker's event loop for a second or more.",
    _JOB,
    registry=REGISTRY,
)
quarantined = Gauge("windlass_quarantined", "Quarantined items, by kind.", ("kind",), registry=REGISTRY)
uptime_seconds = Gauge("workflow_worker_uptime_seconds", "Uptime in seconds.", ("worker_id",), registry=REGISTRY)
last_poll = Gauge(
    "workflow_worker_last_poll_timestamp", "When the worker last polled for work.", ("worker_id",), registry=REGISTRY
)


# The type and the status after it of its job, its number if it failed, and its seconds. Not a named tuple: one is made
# for each job, which took a hundredth of the worker's time.
EndedAttempt = tuple[str, str, int | None, float]


def ended_attempt(report: Report, seconds: float) -> EndedAttempt:
    """Return an attempt for the metrics. One that was suspended, released or cancelled has not failed."""
    job = report.job
    if isinstance(report, Success):
        return (job.type, "succeeded", None, seconds)
    if isinstance(report, Suspension) or report.move is JobMove.RELEASE:
        return (job.type, "pending", None, seconds)
    if report.move is JobMove.CANCEL:
        return (job.type, "cancelled", None, seconds)
    return (job.type, "failed" if report.move is JobMove.FAIL else "pending", job.number, seconds)


class WorkerMetrics:
    """The metrics of one worker, updated in batches: labels are looked up once per batch and type, not once per job."""

    def __init__(self, worker: str) -> None:
        self._worker = worker

    def claimed(self, types: Iterable[str]) -> None:
        for type_, count in Tally(types).items():
            claimed_total.labels(type_, self._worker).inc(count)

    def ended(self, ends: Iterable[EndedAttempt]) -> None:
        by_kind: dict[tuple[str, str], list[float]] = {}
        for type_, status, failed, seconds in ends:
            by_kind.setdefault((type_, status), []).append(seconds)
            if failed is not None:
                failed_attempts_total.labels(type_, self._worker, str(failed) if failed < 3 else "3+").inc()
        for (type_, status), durations in by_kind.items():
            completed_total.labels(type_, self._worker, status).inc(len(durations))
            if status == "failed":
                failed_total.labels(type_, self._worker).inc(len(durations))
            duration_seconds.labels(type_, self._worker, status).observe_many(durations)

    def polled(self, now: float, uptime: float) -> None:
        polls_total.labels(self._worker).inc()
        last_poll.labels(self._worker).set(now)
        uptime_seconds.labels(self._worker).set(uptime)

    def erred(self, error: BaseException) -> None:
        poll_errors_total.labels(self._worker, type(error).__name__).inc()

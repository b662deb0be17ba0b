"""Metrics of attempts: durations recorded in a batch, and which attempts count as failed."""

from datetime import UTC, datetime
from uuid import UUID

import pytest
from prometheus_client import CollectorRegistry, Histogram, generate_latest

from windlass.core.jobs.job import Cancelled, Claimed, Failed, Outcome, Released, Succeeded, after
from windlass.core.jobs.replay import Suspended
from windlass.core.jobs.retry import Retry
from windlass.runtime.metrics import BatchHistogram, ended_attempt


def test_observing_a_batch_of_durations_equals_observing_each_of_them() -> None:
    buckets, amounts = (0.1, 0.5, 1.0), [0.0, 0.1, 0.25, 0.5, 0.75, 1.0, 7.0, 0.05]
    one_by_one, together = CollectorRegistry(), CollectorRegistry()
    each = Histogram("seconds", "How long.", ("type",), buckets=buckets, registry=one_by_one).labels("a")
    batch = BatchHistogram("seconds", "How long.", ("type",), buckets=buckets, registry=together).labels("a")
    for amount in amounts:
        each.observe(amount)
    batch.observe_many(amounts)

    assert _lines(together) == _lines(one_by_one)


@pytest.mark.parametrize(
    ("outcome", "status", "failed"),
    [
        (Succeeded("null"), "succeeded", None),
        (Suspended(["sleep"]), "pending", None),
        (Released(), "pending", None),
        (Cancelled(), "cancelled", None),
        (Failed({"message": "no"}), "pending", 1),
    ],
)
def test_only_attempts_that_failed_count_as_failed(outcome: Outcome, status: str, failed: int | None) -> None:
    report = after(_job(max_attempts=2), outcome, Retry(), 0.5)
    assert ended_attempt(report, 1.5) == ("a.b.v1", status, failed, 1.5)


def test_the_last_attempt_fails_the_job() -> None:
    report = after(_job(max_attempts=1), Failed({"message": "no"}), Retry(), 0.5)
    assert ended_attempt(report, 1.5) == ("a.b.v1", "failed", 1, 1.5)


def _job(max_attempts: int) -> Claimed:
    born = datetime(2030, 1, 1, tzinfo=UTC)
    return Claimed(UUID(int=1), "a.b.v1", "{}", "default", 100, 1, 0, 0, max_attempts, 1, None, None, born, None)


def _lines(registry: CollectorRegistry) -> list[bytes]:
    return [line for line in generate_latest(registry).splitlines() if b"_created" not in line]

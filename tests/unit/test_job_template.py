"""The job template of a schedule survives storing and reading unchanged."""

from datetime import UTC, datetime, timedelta

from windlass.core.jobs.retry import Backoff, Retry
from windlass.core.jobs.spec import JobSpec, JobTemplate, Limit, OnConflict, Unique

NOW = datetime(2030, 1, 1, tzinfo=UTC)
FULL = JobSpec(
    type="a.b",
    payload=[1, None],
    queue="q",
    priority=90,
    delay=timedelta(seconds=5),
    max_attempts=7,
    retry=Retry(Backoff.LINEAR, base=2.0, both_ways=True, non_retryable=("A.*",), dead_letter=True),
    timeout=timedelta(milliseconds=1500),
    tags=["x"],
    meta={"m": 1},
    visibility=timedelta(minutes=1),
    unique=Unique(key="k", on_conflict=OnConflict.IGNORE, standings=frozenset({"due"}), period=timedelta(hours=1)),
    limit=Limit(key="l", rate=1.5, period=timedelta(minutes=1), concurrency=2),
    envelope={"fields": {"x": 1}},
)


def test_a_job_template_round_trips_through_json() -> None:
    for template in (JobTemplate(FULL, timedelta(seconds=30)), JobTemplate(JobSpec(type="a.b", payload=[]))):
        assert JobTemplate.from_json(template.to_json()) == template


def test_the_lifetime_of_a_job_counts_from_the_tick() -> None:
    assert JobTemplate(FULL, timedelta(seconds=30)).job(NOW).expires_at == NOW + timedelta(seconds=30)
    assert JobTemplate(FULL).job(NOW) == FULL

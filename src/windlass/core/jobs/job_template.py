"""A template for jobs: what a schedule enqueues at each tick. Its times are relative to the tick."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from windlass.core.jobs.retry import Retry
from windlass.core.jobs.spec import JobSpec, Limit, OnConflict, Unique

PLAIN = ("type", "payload", "queue", "priority", "held", "max_attempts", "tags", "meta", "envelope")


@dataclass(frozen=True, slots=True)
class Template:
    """A job spec without absolute times; it may have a delay."""

    spec: JobSpec
    lifetime: timedelta | None = None  # the job expires this long after the tick

    def job(self, tick: datetime) -> JobSpec:
        return replace(self.spec, expires_at=tick + self.lifetime) if self.lifetime else self.spec

    def to_json(self) -> dict[str, Any]:
        spec = self.spec
        spans = {"delay": spec.delay, "timeout": spec.timeout, "visibility": spec.visibility, "lifetime": self.lifetime}
        found: dict[str, Any] = {name: getattr(spec, name) for name in PLAIN}
        found |= {name: span.total_seconds() for name, span in spans.items() if span is not None}
        if spec.retry:
            found["retry"] = spec.retry.to_json()
        if spec.unique:
            unique = spec.unique
            period = unique.period.total_seconds() if unique.period else None
            found["unique"] = [unique.key, unique.on_conflict.value, sorted(unique.standings), period]
        if spec.limit:
            limit = spec.limit
            found["limit"] = [limit.key, limit.rate, limit.period.total_seconds(), limit.concurrency]
        return found

    @classmethod
    def from_json(cls, kept: Mapping[str, Any]) -> "Template":
        spec = JobSpec(
            **{name: kept[name] for name in PLAIN},
            delay=_span(kept.get("delay")),
            timeout=_span(kept.get("timeout")),
            visibility=_span(kept.get("visibility")),
            retry=Retry.from_json(kept["retry"]) if "retry" in kept else None,
            unique=_unique(*kept["unique"]) if "unique" in kept else None,
            limit=_limit(*kept["limit"]) if "limit" in kept else None,
        )
        return cls(spec, _span(kept.get("lifetime")))


def _span(seconds: float | None) -> timedelta | None:
    return None if seconds is None else timedelta(seconds=seconds)


def _unique(key: str, on_conflict: str, standings: list[str], period: float | None) -> Unique:
    return Unique(key=key, on_conflict=OnConflict(on_conflict), standings=frozenset(standings), period=_span(period))


def _limit(key: str, rate: float | None, period: float, concurrency: int | None) -> Limit:
    return Limit(key=key, rate=rate, period=timedelta(seconds=period), concurrency=concurrency)

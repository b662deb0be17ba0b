"""Builds job specs from the arguments of the Python API; defaults come from the handler of the type."""

import contextlib
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from windlass.core.jobs.retry import Retry
from windlass.core.jobs.spec import DEFAULT_PRIORITY, JobSpec
from windlass.effects.handlers import Handlers
from windlass.errors import Invalid


def job_spec(
    handlers: Handlers,
    type: str,  # noqa: A002 - the domain's word
    payload: Any = None,
    *,
    queue: str | None = None,
    priority: int = DEFAULT_PRIORITY,
    run_at: datetime | None = None,
    delay: timedelta | float | None = None,
    max_attempts: int | None = None,
    retry: Retry | None = None,
    timeout: timedelta | float | None = None,
    idempotency_key: str | None = None,
    tags: Sequence[str] = (),
    meta: Mapping[str, Any] | None = None,
) -> JobSpec:
    """Return a job with the defaults that its handler declares."""
    handler = handlers.find(type) if isinstance(type, str) else None
    if queue is None:
        queue = handler.queue if handler else "default"
    if max_attempts is None:
        max_attempts = handler.max_attempts if handler else 3
    return JobSpec(
        type=type,
        payload={} if payload is None else payload,
        queue=queue,
        priority=priority,
        run_at=run_at,
        delay=span(delay, "delay"),
        max_attempts=max_attempts,
        retry=retry,
        timeout=span(timeout),
        idempotency_key=idempotency_key,
        tags=tags,
        meta=meta,
    )


def span(value: timedelta | float | None, field: str = "timeout") -> timedelta | None:
    """Return a duration given as a timedelta or in seconds."""
    if value is None or isinstance(value, timedelta):
        return value
    with contextlib.suppress(TypeError, OverflowError, ValueError):
        return timedelta(seconds=value)
    raise Invalid(f"{field} is {value!r}: it must be a timedelta or a number of seconds", field=field)

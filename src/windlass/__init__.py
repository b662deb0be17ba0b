"""Windlass: durable jobs and workflows on Postgres.

Names are imported lazily, on first access, so that `import windlass.cron` does not load the database driver.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from windlass.app import Windlass
    from windlass.core.jobs.job import JobState
    from windlass.core.jobs.retry import Backoff, Retry
    from windlass.core.jobs.spec import JobSpec
    from windlass.core.runs.run import RunFailed, RunResult, RunState
    from windlass.effects.context import Context
    from windlass.engine.runs.start import RunSpec
    from windlass.errors import (
        Conflict,
        Invalid,
        InvalidWorkflow,
        NonRetryable,
        NotFound,
        QuotaExceeded,
        RetryAfter,
        Unavailable,
        WaitTimeout,
        WindlassError,
    )
    from windlass.runtime.handle import Run
    from windlass.runtime.worker.worker import WorkerOptions
    from windlass.store.jobs import Job

__version__ = "0.1.0"

__all__ = [
    # The application
    "Windlass",
    "WorkerOptions",
    # Jobs
    "Context",
    "Job",
    "JobSpec",
    "JobState",
    # Runs of workflows
    "InvalidWorkflow",
    "Run",
    "RunFailed",
    "RunResult",
    "RunSpec",
    "RunState",
    # Retries
    "Backoff",
    "NonRetryable",
    "Retry",
    "RetryAfter",
    # Errors
    "Conflict",
    "Invalid",
    "NotFound",
    "QuotaExceeded",
    "Unavailable",
    "WaitTimeout",
    "WindlassError",
]

_HOMES = {
    "Backoff": "core.jobs.retry",
    "Conflict": "errors",
    "Context": "effects.context",
    "Invalid": "errors",
    "InvalidWorkflow": "errors",
    "Job": "store.jobs",
    "JobSpec": "core.jobs.spec",
    "JobState": "core.jobs.job",
    "NonRetryable": "errors",
    "NotFound": "errors",
    "QuotaExceeded": "errors",
    "Retry": "core.jobs.retry",
    "RetryAfter": "errors",
    "Run": "runtime.handle",
    "RunFailed": "core.runs.run",
    "RunResult": "core.runs.run",
    "RunSpec": "engine.runs.start",
    "RunState": "core.runs.run",
    "Unavailable": "errors",
    "WaitTimeout": "errors",
    "Windlass": "app",
    "WindlassError": "errors",
    "WorkerOptions": "runtime.worker",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

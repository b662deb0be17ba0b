"""Windlass: record work first, execute it later, never lose what was recorded."""

from windlass.app import Windlass
from windlass.core.job import JobState
from windlass.core.retry import Backoff, Retry
from windlass.core.run import RunState
from windlass.core.submission import JobSpec
from windlass.effects.context import Context
from windlass.engine.starts import RunSpec
from windlass.errors import (
    Conflict,
    Invalid,
    InvalidWorkflow,
    NonRetryable,
    NotFound,
    RetryAfter,
    Unavailable,
    WindlassError,
)
from windlass.runtime.handle import Run, RunFailed, RunResult
from windlass.runtime.worker import WorkerOptions
from windlass.store.rows import Job

__version__ = "0.1.0"

__all__ = [
    # The front door
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
    "Unavailable",
    "WindlassError",
]

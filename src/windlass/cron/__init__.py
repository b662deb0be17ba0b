"""Cron jobs with dependencies inside your process, without a database.

Executions are kept in memory and lost at a restart. Use the durable engine for work that must survive one.
"""

from windlass.core.cron.expression import Cron as Spec
from windlass.core.cron.syntax import CLASSIC, FULL, IN_PROCESS, Dialect, Presence
from windlass.core.duration import Duration
from windlass.core.workflows.step import Condition
from windlass.cron.builder import Workflow, WorkflowStep
from windlass.cron.clock import Clock, FakeClock, SystemClock, Timer
from windlass.cron.context import EntryId, JobContext, job_context, workflow_execution_id
from windlass.cron.cron import Cron
from windlass.cron.dependencies import Dependency, JobResult, matches
from windlass.cron.entry import Entry, EntryOptions, Missed
from windlass.cron.errors import (
    AlreadyRunning,
    CronError,
    CycleDetected,
    DependencyInUse,
    DuplicateName,
    EmptyWorkflow,
    EntryNotFound,
    EntryPaused,
    InvalidCondition,
    InvalidJob,
    InvalidName,
    MaxEntriesReached,
    MultipleFinalSteps,
    NotRunning,
    ScheduledStep,
    StillStopping,
    UnknownStep,
)
from windlass.cron.executions import Triggered, WorkflowExecution
from windlass.cron.job import Call, Failure, Job, JobFailed, JobTimedOut, Skip, Wrapper
from windlass.cron.observers import JobCompleted, JobStarted, Observer, Scheduled
from windlass.cron.recovery import BreakerState, CircuitBreaker, circuit_breaker, retry_with_backoff
from windlass.cron.schedules import SECOND_OPTIONAL, WITH_SECONDS, parse
from windlass.cron.wrappers import (
    delay_if_running,
    jitter,
    max_concurrent,
    max_concurrent_skip,
    recover,
    skip_if_running,
    timeout,
)

__all__ = [
    # the scheduler
    "Cron",
    "Entry",
    "EntryId",
    "EntryOptions",
    "Missed",
    "Triggered",
    # workflows
    "Condition",
    "Dependency",
    "JobResult",
    "Workflow",
    "WorkflowExecution",
    "WorkflowStep",
    "matches",
    "workflow_execution_id",
    # jobs
    "Failure",
    "Job",
    "JobContext",
    "JobFailed",
    "JobTimedOut",
    "Skip",
    "job_context",
    # observers
    "JobCompleted",
    "JobStarted",
    "Observer",
    "Scheduled",
    # wrappers
    "BreakerState",
    "Call",
    "CircuitBreaker",
    "Wrapper",
    "circuit_breaker",
    "delay_if_running",
    "jitter",
    "max_concurrent",
    "max_concurrent_skip",
    "recover",
    "retry_with_backoff",
    "skip_if_running",
    "timeout",
    # time
    "CLASSIC",
    "Clock",
    "Dialect",
    "Duration",
    "FULL",
    "FakeClock",
    "IN_PROCESS",
    "Presence",
    "SECOND_OPTIONAL",
    "Spec",
    "SystemClock",
    "Timer",
    "WITH_SECONDS",
    "parse",
    # errors
    "AlreadyRunning",
    "CronError",
    "CycleDetected",
    "DependencyInUse",
    "DuplicateName",
    "EmptyWorkflow",
    "EntryNotFound",
    "EntryPaused",
    "InvalidCondition",
    "InvalidJob",
    "InvalidName",
    "MaxEntriesReached",
    "MultipleFinalSteps",
    "NotRunning",
    "ScheduledStep",
    "StillStopping",
    "UnknownStep",
]

"""Sets of values that fields of the API have.

Those of the rules are defined in `core` and `engine`, above this layer: they are strings here, and the string in the
annotation names the enumeration for the OpenAPI document.
"""

from enum import StrEnum
from typing import Annotated, Literal

JobState = Annotated[str, "JobState"]  # pending, leased, succeeded, failed, cancelled
RunState = Annotated[str, "RunState"]  # pending, running, completed, failed, cancelled, timeout
Activity = Annotated[str, "Activity"]  # queued, no_worker, backing_off, running, sleeping, ...
OriginKind = Annotated[str, "OriginKind"]  # api, cron, webhook, parent, ojs
SpanKind = Annotated[str, "SpanKind"]  # queued, running, backoff, sleeping, waiting
Join = Annotated[str, "Join"]  # all, any
Condition = Annotated[str, "Condition"]  # success, failure, skipped, complete
Change = Annotated[str, "Change"]  # new, changed, unchanged
QuarantineKind = Annotated[str, "Kind"]  # run, workflow, trigger, cron, schedule, job, event, duty
Starts = Literal["run", "job"]


class TaskStatus(StrEnum):
    PENDING = "pending"
    RUNNING = "running"
    SLEEPING = "sleeping"
    WAITING = "waiting"
    SUCCESS = "success"
    FAILED = "failed"
    TIMEOUT = "timeout"
    SKIPPED = "skipped"
    TEMPLATE_ERROR = "template_error"
    CANCELLED = "cancelled"


class WorkerStatus(StrEnum):
    RUNNING = "running"
    DRAINING = "draining"
    STOPPED = "stopped"
    SILENT = "silent"

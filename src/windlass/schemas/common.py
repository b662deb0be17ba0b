"""Types shared by all resources: enumerations, pages of lists and problem documents."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Generic, Literal, TypeVar

T = TypeVar("T")
PAGE_LIMIT = 1000  # items of a list in one response
BATCH_LIMIT = 1000  # runs or dead letters that one request acts on
CREATE_LIMIT = 10_000  # jobs or runs that one call creates

# Enumerations that are defined in `core` and `engine`, above this layer, are strings here. The string in the annotation
# names the enumeration for the OpenAPI document.
JobState = Annotated[str, "JobState"]  # pending, leased, succeeded, failed, cancelled
RunState = Annotated[str, "RunState"]  # pending, running, completed, failed, cancelled, timeout
Activity = Annotated[str, "Activity"]  # queued, no_worker, backing_off, running, sleeping, ...
OriginKind = Annotated[str, "OriginKind"]  # api, cron, webhook, parent, ojs
SpanKind = Annotated[str, "SpanKind"]  # queued, running, backoff, sleeping, waiting
Join = Annotated[str, "Join"]  # all, any
Condition = Annotated[str, "Condition"]  # success, failure, skipped, complete
Change = Annotated[str, "Change"]  # new, changed, unchanged
QuarantineKind = Annotated[str, "Kind"]  # run, workflow, trigger, cron, schedule, job, start, message, event, duty
ApprovalState = Annotated[str, "ApprovalState"]  # open, approved, rejected, expired, cancelled
Role = Annotated[str, "Role"]  # viewer, operator, developer, admin
Starts = Literal["run", "job"]


class TaskStatus(StrEnum):
    PENDING = "pending"
    DISPATCHED = "dispatched"
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


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """A page of a list; on the wire it is `{"data": [...], "next": cursor}`. `next` is the cursor of the following
    page; None means that there is none."""

    items: list[T]
    next: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldProblem:
    field: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """A problem document (RFC 9457). `detail` is for people; programs read the other fields."""

    type: str = "about:blank"
    title: str
    status: int
    detail: str
    what: str | None = None
    """The kind of object that does not exist: job, run, workflow, ..."""
    key: str | None = None
    """Its id or name, as requested."""
    hint: str | None = None
    """How to fix it, where that is known."""
    scope: str | None = None
    """The scope that the caller lacks."""
    field: str | None = None
    """The first invalid field."""
    code: str | None = None
    """The limit of the org's plan that does not allow this: executions_per_month, runs_at_once, ..."""
    limit: int | None = None
    """Its value."""
    used: int | None = None
    """The current usage."""
    resets_at: datetime | None = None
    """When the count is reset."""
    errors: list[FieldProblem] | None = None
    """All invalid fields."""

"""Converts jobs, dead letters, queues and workers to the types of the API."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, cast
from uuid import UUID

from windlass.core import duration
from windlass.core.jobs.job import TERMINAL, JobState
from windlass.core.jobs.streams import StreamChunk
from windlass.engine.database import MOST_COUNTED
from windlass.engine.jobs import dead_letters, queues
from windlass.engine.jobs.checkpoints import Progress, TimelineStep
from windlass.engine.jobs.control import Event, LogLine, Recorded
from windlass.engine.jobs.control import Job as JobRow
from windlass.engine.workers.registry import WorkerRow
from windlass.schemas.common import WorkerStatus
from windlass.schemas.jobs import (
    DeadLetterBatch,
    DeadLetterGroup,
    Job,
    JobChunk,
    JobDetail,
    JobEvent,
    JobLogLine,
    JobProgress,
    JobStep,
    SubmittedJob,
    SubmittedJobs,
)
from windlass.schemas.monitoring import Depth, Queue, Worker, WorkerDetail

# Jobs


def line(row: JobRow, *, org: str, tasks: Mapping[UUID, str]) -> Job:
    """Return a job as a list item; `tasks` maps job ids to the names of the tasks that the jobs execute."""
    return Job(**_line(row, org, tasks))


def detail(row: JobRow, *, org: str, tasks: Mapping[UUID, str], progress: Progress | None) -> JobDetail:
    return JobDetail(
        **_line(row, org, tasks),
        payload=row.payload,
        result=row.result,
        errors=row.errors,
        lost_leases=row.lost,
        started_over=row.epoch,
        lease_until=row.lease_until,
        cancel_requested=row.cancel_requested,
        timeout=None if row.timeout is None else duration.text(row.timeout),
        retry=row.retry,
        meta=row.meta,
        progress=None if progress is None else _progress(progress),
    )


def submitted(recorded: Recorded) -> SubmittedJobs:
    jobs = [SubmittedJob(id=str(id_), created=id_ in recorded.new) for id_ in recorded.ids]
    return SubmittedJobs(created=len(recorded.new), jobs=jobs)


def event(row: Event) -> JobEvent:
    return JobEvent(
        id=str(row.id), event=row.event_type, attempt=row.attempt, actor=row.actor, data=row.data, at=row.created_at
    )


def chunk(row: StreamChunk) -> JobChunk:
    section, number = row.position
    return JobChunk(section=section, number=number, attempt=row.attempt, at=row.at, data=row.data)


def step(row: TimelineStep) -> JobStep:
    return JobStep(
        name=row.name,
        kind=cast(Any, row.kind),
        status=cast(Any, row.status),
        result=row.result,
        is_large=row.is_large,
        at=row.saved_at,
        until=row.until,
        run_id=row.run_id,
        message=row.message,
        key=None if row.is_signal else row.key,
    )


def log_line(row: LogLine) -> JobLogLine:
    return JobLogLine(attempt=row.attempt, at=row.at, level=row.level, message=row.message)


def _progress(row: Progress) -> JobProgress:
    return JobProgress(fraction=row.fraction, message=row.message, data=row.data, at=row.updated_at)


def _line(row: JobRow, org: str, tasks: Mapping[UUID, str]) -> dict[str, Any]:
    begun = row.status in (JobState.LEASED, JobState.SUCCEEDED)
    return {
        "id": str(row.id),
        "type": row.type,
        "status": row.status,
        "queue": row.queue,
        "priority": row.priority,
        "attempt": row.attempt + row.lost + begun,
        "max_attempts": row.max_attempts,
        "run_at": row.run_at,
        "inserted_at": row.created_at,
        "updated_at": row.updated_at,
        "finished_at": row.updated_at if row.status in TERMINAL else None,
        "worker": row.leased_by,
        "error": row.last_error,
        "tags": row.tags,
        "idempotency_key": None if row.idempotency_key is None else row.idempotency_key.removeprefix(f"{org}/"),
        "run_id": str(row.run_id) if row.run_id else None,
        "task": tasks.get(row.id),
        "index": row.item,
        "place": str(row.seq),
    }


# Dead letters


def dead_letter_group(row: dead_letters.Group) -> DeadLetterGroup:
    return DeadLetterGroup(
        type=row.type,
        queue=row.queue,
        error=row.error,
        of_runs=row.of_run,
        count=row.count,
        capped=row.count >= MOST_COUNTED,
        first_at=row.first_at,
        last_at=row.last_at,
        example_job_id=str(row.example_id),
        example_error=row.example,
    )


def dead_letter_batch(done: dead_letters.BatchResult) -> DeadLetterBatch:
    return DeadLetterBatch(
        dry_run=False,
        done=len(done.jobs) + len(done.runs),
        left=done.left,
        jobs=[str(id_) for id_ in done.jobs],
        runs=[str(id_) for id_ in done.runs],
        next=None if done.next is None else str(done.next),
    )


def counted_dead_letters(left: int) -> DeadLetterBatch:
    """Return the batch of a dry run."""
    return DeadLetterBatch(dry_run=True, done=0, left=left, jobs=[], runs=[], next=None)


# Queues and workers


def queue(item: queues.Queue) -> Queue:
    row = item.row
    return Queue(
        **_depth(row), paused_at=row.paused_at, resumed_at=row.resumed_at, ended_per_second=round(item.rate, 3)
    )


def depth(row: queues.QueueRow) -> Depth:
    return Depth(**_depth(row))


def worker(row: WorkerRow) -> Worker:
    return Worker(**_worker(row))


def worker_detail(row: WorkerRow, held: Sequence[JobRow], *, org: str, tasks: Mapping[UUID, str]) -> WorkerDetail:
    return WorkerDetail(**_worker(row), jobs=[line(job, org=org, tasks=tasks) for job in held])


def _depth(row: queues.QueueRow) -> dict[str, Any]:
    return {
        "name": row.name,
        "paused": row.paused,
        "due": row.due,
        "scheduled": row.scheduled,
        "leased": row.leased,
        "capped": row.capped,
        "oldest_seconds": None if row.oldest is None else _seconds(row.oldest),
    }


def _worker(row: WorkerRow) -> dict[str, Any]:
    return {
        "id": row.id,
        "status": _worker_status(row.state, alive=row.alive),
        "host": row.host,
        "pid": row.pid,
        "queues": row.queues,
        "types": row.types,
        "slots": row.concurrency,
        "active": row.active,
        "started_at": row.started_at,
        "seen_at": row.seen_at,
        "seen_seconds_ago": _seconds(row.silence),
    }


def _seconds(span: timedelta) -> float:
    return round(max(span, timedelta()).total_seconds(), 3)


def _worker_status(state: str, *, alive: bool) -> WorkerStatus:
    """Return the status of a worker. A worker that reported its stop is stopped, not silent."""
    status = WorkerStatus(state)
    return status if alive or status is WorkerStatus.STOPPED else WorkerStatus.SILENT

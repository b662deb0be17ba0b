"""Operations on /jobs, /job-types, /dead-letters, /queues, /workers, /pools and /quarantine."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from windlass.client.descriptors import Group, W, downloading, downwards, operation, streaming, upwards
from windlass.client.request import NOTHING, Call, one, page, present
from windlass.schemas.common import Page
from windlass.schemas.job_types import JobType, JobTypeDetail
from windlass.schemas.jobs import (
    DeadLetterBatch,
    DeadLetterGroup,
    Job,
    JobDetail,
    JobEvent,
    JobLogLine,
    JobStep,
    SubmittedJobs,
)
from windlass.schemas.monitoring import Pool, Quarantined, Queue, Worker, WorkerDetail
from windlass.schemas.tasks import TaskArtifact

QUEUE = "/queues/{name}"
JOB = "/jobs/{job_id}"
POOL = "/pools/{name}"


class Jobs(Group[W]):
    @operation
    def submit(
        self,
        type: str,  # noqa: A002 - the domain's word
        payload: Any = NOTHING,
        *,
        queue: str | None = None,
        priority: int | None = None,
        run_at: datetime | None = None,
        delay: timedelta | float | str | None = None,
        max_attempts: int | None = None,
        retry: Mapping[str, Any] | None = None,
        timeout: timedelta | float | str | None = None,
        idempotency_key: str | None = None,
        tags: Sequence[str] = (),
        meta: Mapping[str, Any] | None = None,
    ) -> Call[JobDetail]:
        """Submit a job and return it; if a job with this idempotency key exists, return that job."""
        body = present({**locals(), "payload": None, "idempotency_key": None})
        if payload is not None and payload is not NOTHING:
            body["payload"] = payload
        headers = {} if idempotency_key is None else {"Idempotency-Key": idempotency_key}
        return one(JobDetail, "POST", "/jobs", body=body, headers=headers)

    @operation
    def submit_many(self, jobs: Iterable[Mapping[str, Any]]) -> Call[SubmittedJobs]:
        """Submit jobs, all or none. Each is a mapping with `type` and other arguments of `submit`, as JSON values."""
        return one(SubmittedJobs, "POST", "/jobs/batch", body={"jobs": [dict(job) for job in jobs]})

    @downwards
    def list(
        self,
        *,
        status: Sequence[str] = (),
        queue: str | None = None,
        type: str | None = None,  # noqa: A002
        tag: str | None = None,
        run: str | None = None,
        steps: bool | None = None,
        before: int | None = None,
        limit: int | None = None,
    ) -> Call[Page[Job]]:
        """List jobs, newest first. `type` is a LIKE pattern such as `billing.%`; `steps=False` omits tasks of runs."""
        return page(Job, "/jobs", **present(locals()))

    @operation
    def get(self, job_id: str) -> Call[JobDetail]:
        return one(JobDetail, "GET", JOB, {"job_id": job_id})

    @streaming
    def stream(self, job_id: str, *, after: str | None = None) -> Call[None]:
        """Yield what the handler passes to `ctx.stream`, from the first chunk until the job has ended.

        Each chunk is the `data` of a `chunk` event; each attempt starts a new `section`.
        """
        return Call("GET", f"{JOB}/stream", lambda _: None, {"job_id": job_id}, present({"after": after}))

    @operation
    def cancel(self, job_id: str, *, reason: str | None = None) -> Call[JobDetail]:
        return one(JobDetail, "POST", f"{JOB}/cancel", {"job_id": job_id}, body=present({"reason": reason}))

    @operation
    def retry(self, job_id: str, *, fresh: bool | None = None) -> Call[JobDetail]:
        """Retry a failed or cancelled job with its attempts reset; `fresh` also discards its checkpoint."""
        return one(JobDetail, "POST", f"{JOB}/retry", {"job_id": job_id}, query={"fresh": fresh})

    @operation
    def delete(self, job_id: str) -> Call[None]:
        """Hide a job; if it is pending, it is never claimed."""
        return Call("DELETE", JOB, lambda _: None, {"job_id": job_id})

    @upwards
    def events(self, job_id: str, *, after: int | None = None, limit: int | None = None) -> Call[Page[JobEvent]]:
        """List the events of a job, oldest first."""
        return page(JobEvent, f"{JOB}/events", {"job_id": job_id}, after=after, limit=limit)

    @upwards
    def steps(self, job_id: str, *, after: int | None = None, limit: int | None = None) -> Call[Page[JobStep]]:
        """List the durable steps and waits that the handler recorded, oldest first."""
        return page(JobStep, f"{JOB}/steps", {"job_id": job_id}, after=after, limit=limit)

    @upwards
    def logs(
        self, job_id: str, *, attempt: int | None = None, after: str | None = None, limit: int | None = None
    ) -> Call[Page[JobLogLine]]:
        """List the lines that the handler logged, by attempt."""
        return page(JobLogLine, f"{JOB}/logs", {"job_id": job_id}, attempt=attempt, after=after, limit=limit)

    @upwards
    def artifacts(self, job_id: str, *, after: str | None = None, limit: int | None = None) -> Call[Page[TaskArtifact]]:
        """List the files that the job wrote, sorted by name, including those of failed attempts."""
        return page(TaskArtifact, f"{JOB}/artifacts", {"job_id": job_id}, after=after, limit=limit)

    @downloading
    def download(self, job_id: str, name: str, *, attempt: int | None = None) -> Call[None]:
        """Yield the content of an artifact in chunks, by default of the attempt that succeeded, else of the latest."""
        values, query = {"job_id": job_id, "name": name}, present({"attempt": attempt})
        return Call("GET", f"{JOB}/artifacts/{{name}}/content", lambda _: None, values, query)


class JobTypes(Group[W]):
    """The schemas that workers publish for the payloads of their handlers."""

    @upwards
    def list(self, *, after: str | None = None, limit: int | None = None) -> Call[Page[JobType]]:
        """List job types, sorted by name."""
        return page(JobType, "/job-types", after=after, limit=limit)

    @operation
    def get(self, type: str) -> Call[JobTypeDetail]:  # noqa: A002
        """Return a job type with all its schemas."""
        return one(JobTypeDetail, "GET", "/job-types/{type}", {"type": type})


class DeadLetters(Group[W]):
    """Jobs that failed and were not retried."""

    @downwards
    def list(
        self,
        *,
        type: str | None = None,  # noqa: A002
        queue: str | None = None,
        error: str | None = None,
        of_runs: bool | None = None,
        before: int | None = None,
        limit: int | None = None,
    ) -> Call[Page[DeadLetterGroup]]:
        """List dead letters grouped by type, queue and error, latest failure first."""
        return page(DeadLetterGroup, "/dead-letters", **present(locals()))

    @downwards
    def jobs(
        self,
        *,
        type: str | None = None,  # noqa: A002
        queue: str | None = None,
        error: str | None = None,
        of_runs: bool | None = None,
        before: int | None = None,
        limit: int | None = None,
    ) -> Call[Page[Job]]:
        """List dead letters, newest first."""
        return page(Job, "/dead-letters/jobs", **present(locals()))

    @operation
    def retry(
        self,
        *,
        type: str | None = None,  # noqa: A002
        queue: str | None = None,
        error: str | None = None,
        of_runs: bool | None = None,
        before: int | None = None,
        all: bool | None = None,  # noqa: A002 - the API's word
        dry_run: bool | None = None,
        limit: int | None = None,
    ) -> Call[DeadLetterBatch]:
        """Retry a batch of the matching dead letters, newest first; for tasks, retry their runs.

        Without a filter, `all=True` is required; `dry_run=True` only counts the dead letters.
        """
        return one(DeadLetterBatch, "POST", "/dead-letters/retry", body=present(locals()))

    @operation
    def drop(
        self,
        *,
        type: str | None = None,  # noqa: A002
        queue: str | None = None,
        error: str | None = None,
        of_runs: bool | None = None,
        before: int | None = None,
        all: bool | None = None,  # noqa: A002 - the API's word
        dry_run: bool | None = None,
        limit: int | None = None,
    ) -> Call[DeadLetterBatch]:
        """Hide a batch of the matching dead letters, newest first, except tasks of runs.

        Without a filter, `all=True` is required; `dry_run=True` only counts the dead letters.
        """
        return one(DeadLetterBatch, "POST", "/dead-letters/drop", body=present(locals()))


class Queues(Group[W]):
    @upwards
    def list(self, *, after: str | None = None, limit: int | None = None) -> Call[Page[Queue]]:
        """List queues, sorted by name."""
        return page(Queue, "/queues", after=after, limit=limit)

    @operation
    def get(self, name: str) -> Call[Queue]:
        return one(Queue, "GET", QUEUE, {"name": name})

    @operation
    def pause(self, name: str) -> Call[Queue]:
        """Pause a queue: workers claim no more of its jobs, and leased jobs continue."""
        return one(Queue, "POST", f"{QUEUE}/pause", {"name": name})

    @operation
    def resume(self, name: str) -> Call[Queue]:
        return one(Queue, "POST", f"{QUEUE}/resume", {"name": name})


class Workers(Group[W]):
    @upwards
    def list(self) -> Call[Page[Worker]]:
        """List workers, latest heartbeat first."""
        return page(Worker, "/workers")

    @operation
    def get(self, worker_id: str) -> Call[WorkerDetail]:
        """Return a worker with the jobs that it holds."""
        return one(WorkerDetail, "GET", "/workers/{worker_id}", {"worker_id": worker_id})


class Pools(Group[W]):
    """Pools, which execute the steps with `runs_on`."""

    @upwards
    def list(self) -> Call[Page[Pool]]:
        """List pools, sorted by name."""
        return page(Pool, "/pools")

    @operation
    def get(self, name: str) -> Call[Pool]:
        return one(Pool, "GET", POOL, {"name": name})

    @operation
    def forget(self, name: str) -> Call[None]:
        """Remove a pool that no process offers. Only for the operator."""
        return Call("DELETE", POOL, lambda _: None, {"name": name})


class Quarantine(Group[W]):
    """Items whose processing failed with an unexpected error."""

    @upwards
    def list(self) -> Call[Page[Quarantined]]:
        """List quarantined items, latest failure first."""
        return page(Quarantined, "/quarantine")

    @operation
    def retry(self, kind: str, key: str) -> Call[Quarantined]:
        """Make a quarantined item due for a retry immediately."""
        return one(Quarantined, "POST", "/quarantine/{kind}/{key}/retry", {"kind": kind, "key": key})

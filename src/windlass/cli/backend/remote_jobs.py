"""Commands about jobs, schedules and workers through a server."""

from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any
from uuid import UUID

from windlass.cli.backend.interface import Row, Rows
from windlass.cli.backend.remote_queues import RemoteQueues
from windlass.client import AsyncClient, Job, JobDetail, Schedule
from windlass.core import duration
from windlass.core.jobs.job import JobState
from windlass.schemas.jobs import JobProgress


class RemoteJobs(RemoteQueues):
    def __init__(self, client: AsyncClient) -> None:
        self._client = client

    # Jobs

    async def submit(self, type_: str, payload: Any, **options: Any) -> UUID:
        given = {} if payload is None else payload
        return UUID((await self._client.jobs.submit(type_, given, **options)).id)

    async def job(self, id_: UUID) -> Row:
        return _detail(await self._client.jobs.get(str(id_)))

    async def jobs(self, **filters: Any) -> Rows:
        found = self._client.jobs.list(
            status=filters["statuses"] or (),
            type=filters["type_"],
            queue=filters["queue"],
            tag=filters["tag"],
            before=filters["before"],
            limit=filters["limit"],
        )
        page = await found.page()
        return Rows([_job(one) for one in page.items], page.next)

    async def job_events(self, id_: UUID) -> list[Row]:
        return [
            {
                "id": int(one.id),
                "event_type": one.event,
                "data": one.data,
                "actor": one.actor,
                "attempt": one.attempt,
                "created_at": one.at,
            }
            async for one in self._client.jobs.events(str(id_), limit=1000)
        ]

    async def job_logs(self, id_: UUID, *, attempt: int | None) -> list[Row]:
        return [asdict(one) async for one in self._client.jobs.logs(str(id_), attempt=attempt, limit=1000)]

    async def cancel_job(self, id_: UUID, *, reason: str | None) -> None:
        await self._client.jobs.cancel(str(id_), reason=reason)

    async def retry_job(self, id_: UUID) -> None:
        await self._client.jobs.retry(str(id_))

    async def delete_job(self, id_: UUID) -> None:
        await self._client.jobs.delete(str(id_))

    # Schedules

    async def schedules(self, *, after: str, limit: int) -> tuple[Rows, list[Row]]:
        page = await self._client.schedules.list(after=after, limit=limit).page()
        of_runs = [_run_schedule(one) for one in page.items if one.starts == "run"]
        return Rows(of_runs, page.next), [_job_schedule(one) for one in page.items if one.starts == "job"]

    async def pause_schedule(self, name: str, *, reason: str | None) -> None:
        await self._client.schedules.pause(name, reason=reason)

    async def run_schedule(self, name: str) -> str:
        return (await self._client.schedules.run(name)).run_id

    async def resume_schedule(self, name: str) -> None:
        await self._client.schedules.resume(name)

    async def ticks(self, name: str, *, count: int) -> list[datetime]:
        return (await self._client.schedules.get(name, next=count)).upcoming

    async def backfill(self, name: str, start: datetime, end: datetime | None, *, limit: int) -> Row:
        done = await self._client.schedules.backfill(name, start, end, limit=limit)
        runs: Sequence[tuple[datetime, str]] = [(one.tick, one.run_id) for one in done.runs]
        return {"runs": runs, "started": done.started, "next": done.next}

    # Workers

    async def workers(self) -> list[Row]:
        return [
            {
                "id": one.id,
                "host": one.host,
                "pid": one.pid,
                "queues": one.queues,
                "types": one.types,
                "concurrency": one.slots,
                "state": one.status,
                "active": one.active,
                "started_at": one.started_at,
                "seen_at": one.seen_at,
                "alive": one.status not in ("silent", "stopped"),
            }
            async for one in self._client.workers.list()
        ]


def _job(one: Job) -> Row:
    failures = one.attempt - (one.status in (JobState.LEASED, JobState.SUCCEEDED))  # the present one has not failed
    return {
        "id": one.id,
        "type": one.type,
        "status": JobState(one.status),
        "queue": one.queue,
        "priority": one.priority,
        "attempt": failures,
        "lost": 0,
        "max_attempts": one.max_attempts,
        "run_at": one.run_at,
        "created_at": one.inserted_at,
        "updated_at": one.updated_at,
        "leased_by": one.worker,
        "last_error": one.error,
        "idempotency_key": one.idempotency_key,
        "tags": one.tags,
        "run_id": one.run_id,
        "step": one.task,
        "item": one.index,
        "seq": one.place,
    }


def _detail(one: JobDetail) -> Row:
    """In the order in which people read it."""
    short = _job(one)
    return {
        **{name: short.pop(name) for name in ("id", "type", "status")},
        "payload": one.payload,
        "result": one.result,
        **{name: short.pop(name) for name in ("queue", "priority")},
        "attempt": short.pop("attempt") - one.lost_leases,
        "lost": one.lost_leases,
        **{name: short.pop(name) for name in ("max_attempts", "run_at", "created_at", "updated_at", "leased_by")},
        "lease_until": one.lease_until,
        "last_error": one.error,
        "errors": one.errors,
        "idempotency_key": one.idempotency_key,
        "timeout": None if one.timeout is None else duration.parse(one.timeout, field="timeout"),
        "retry": one.retry,
        "tags": one.tags,
        "meta": one.meta,
        "seq": one.place,
        "epoch": one.started_over,
        **{name: short.pop(name) for name in ("run_id", "step", "item")},
        "cancel_requested": one.cancel_requested,
        "progress": None if one.progress is None else _said(one.progress),
    }


def _run_schedule(one: Schedule) -> Row:
    fields = asdict(one)
    fields["workflow"] = fields.pop("name")
    fields["buffered_at"] = fields.pop("waiting_tick")
    return fields


def _job_schedule(one: Schedule) -> Row:
    return {
        "id": one.id,
        "type": one.name,
        "payload": one.input,
        "schedule": one.cron,
        "timezone": one.timezone,
        "next_run_at": one.next_run_at,
        "last_run_at": one.last_run_at,
        "enabled": one.enabled,
    }


def _said(one: JobProgress) -> Row:
    return {"fraction": one.fraction, "message": one.message, "data": one.data, "updated_at": one.at}

"""Row types that several modules of the store return: jobs, events, log lines and workers."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import asyncpg

from windlass.core.jobs.job import JobState
from windlass.core.json_value import decode, decode_object, decode_objects

FAR = datetime.max.replace(tzinfo=UTC)  # Postgres's infinity, which the driver returns without a time zone


@dataclass(frozen=True, slots=True)
class Job:
    """A job, as it is displayed."""

    id: UUID
    type: str
    status: JobState
    payload: Any
    result: Any
    queue: str
    priority: int
    attempt: int
    lost: int
    max_attempts: int
    run_at: datetime
    created_at: datetime
    updated_at: datetime
    leased_by: str | None
    lease_until: datetime | None
    last_error: str | None
    errors: list[dict[str, Any]]
    idempotency_key: str | None
    timeout: timedelta | None
    retry: dict[str, Any] | None
    tags: list[str]
    meta: dict[str, Any]
    seq: int
    epoch: int
    run_id: UUID | None  # the run that it is a step of
    step: int | None
    item: int | None
    cancel_requested: bool
    version_id: int | None  # of the run's workflow
    envelope: dict[str, Any] | None  # attributes that an API (such as OJS) stores with it
    expires_at: datetime | None  # if not started by then, it is not run

    @property
    def client_id(self) -> str:
        """The id that its client gave it, or else its own."""
        alias = (self.envelope or {}).get("alias")
        return alias if isinstance(alias, str) and alias else str(self.id)


@dataclass(frozen=True, slots=True)
class Event:
    id: int
    event_type: str
    data: Any
    actor: str | None
    attempt: int | None
    created_at: datetime


@dataclass(frozen=True, slots=True)
class LogLine:
    attempt: int
    line: int
    at: datetime
    level: str
    message: str
    epoch: int = 0  # how often its job had been started over


@dataclass(frozen=True, slots=True)
class WorkerRow:
    id: str
    host: str
    pid: int
    queues: list[str]
    types: list[str]
    concurrency: int
    state: str
    active: int
    started_at: datetime
    seen_at: datetime
    alive: bool
    silence: timedelta = timedelta()  # since it was seen


def job(row: asyncpg.Record) -> Job:
    return Job(
        id=row["id"],
        type=row["type"],
        status=JobState(row["status"]),
        payload=decode(row["payload"]),
        result=decode(row["result"]),
        queue=row["queue"],
        priority=row["priority"],
        attempt=row["attempt"],
        lost=row["lost"],
        max_attempts=row["max_attempts"],
        run_at=row["run_at"] if row["run_at"].tzinfo else FAR,
        created_at=row["created_at"],
        updated_at=row["updated_at"],
        leased_by=row["leased_by"],
        lease_until=row["lease_until"],
        last_error=row["last_error"],
        errors=decode_objects(row["errors"]),
        idempotency_key=row["idempotency_key"],
        timeout=row["timeout"],
        retry=decode_object(row["retry"]),
        tags=list(row["tags"] or ()),
        meta=decode_object(row["meta"]) or {},
        seq=row["seq"],
        epoch=row["epoch"],
        run_id=row["run_id"],
        step=row["step"],
        item=row["item"],
        cancel_requested=row["cancel_requested"],
        version_id=row["version_id"],
        envelope=decode_object(row["envelope"]),
        expires_at=row["expires_at"],
    )


def event(row: asyncpg.Record) -> Event:
    return Event(row["id"], row["event_type"], decode(row["data"]), row["actor"], row["attempt"], row["created_at"])

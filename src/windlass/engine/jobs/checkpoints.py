"""Data that outlives an attempt: the state that a worker saved, the results of durable steps, and the latest progress.

State and steps are kept across attempts and reopens; the recorded steps are ignored if the payload has changed since,
or if the job has succeeded since and is repeated (its run is retried from an earlier step). Of the progress only the
latest report is kept, also after the job ends.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NoReturn
from uuid import UUID

from windlass.core.jobs.job import MAX_DATA, MAX_MESSAGE, TERMINAL
from windlass.core.jobs.replay import Call, NewRecord, Recorded
from windlass.core.jobs.spec import MAX_NAME, check_name, check_range
from windlass.core.json_value import PAYLOAD_LIMIT, RESULT_LIMIT, decode, encode, plain
from windlass.engine.database import Database, Tenant
from windlass.engine.jobs import control as jobs
from windlass.errors import Conflict, Invalid, LeaseLost, NotFound
from windlass.schemas.common import PAGE_LIMIT
from windlass.store import checkpoints as store
from windlass.store import jobs as job_store
from windlass.store.checkpoints import Checkpoint, EndedWait, Progress, ProgressReport, Resumption, TimelineStep
from windlass.store.messages import waiters
from windlass.store.postgres.pool import UNSTORABLE, Connection

__all__ = ["Checkpoint", "EndedWait", "Progress", "ProgressReport", "Resumption", "TimelineStep"]

MAX_STEP = MAX_NAME + 40  # characters of a step's name, with its number: pack#2
Work = Callable[[Connection], Awaitable[str]]  # returns JSON


async def save(db: Tenant, job: UUID, state: Any, *, worker: str | None = None, fence: int | None = None) -> Checkpoint:
    """Replace the saved state of a live job. `worker` and `fence`, if given, must be those of its current claim."""
    text = encode(state, field="state", limit=PAYLOAD_LIMIT)
    if db.label is not None:
        await jobs.get(db, job)
    async with db.begin() as conn:
        try:
            holder = worker and db.stored(worker)
            saved = await store.save(conn, job, text, org=db.org, worker=holder, fence=fence)
        except UNSTORABLE as error:
            raise Invalid(f"Postgres cannot store this: {error}", field="state") from None
    if saved is None:
        await _refuse(db, job, "only the checkpoint of a live job can be saved", is_fenced=bool(worker or fence))
    return Checkpoint(state, *saved)


async def _refuse(db: Tenant, job: UUID, rule: str, *, is_fenced: bool) -> NoReturn:
    """Raise `LeaseLost` if the job is live and the claim no longer holds it, else `Conflict` with `rule`."""
    row = await jobs.get(db, job)
    if is_fenced and row.status not in TERMINAL:
        raise LeaseLost(job)
    raise Conflict(f"job {job} is {row.status}: {rule}")


async def get(db: Tenant, job: UUID) -> Checkpoint:
    """Return the latest checkpoint, also of a job that ended."""
    await jobs.get(db, job)
    async with db.once() as conn:
        checkpoint = await store.get(conn, job)
    if checkpoint is None:
        raise NotFound("checkpoint of job", job)
    return checkpoint


async def of_jobs(db: Database, ids: Sequence[UUID]) -> dict[UUID, Resumption]:
    """Return the checkpoints of the jobs that a worker has just claimed, and how their waits ended. A wait that is
    still open has timed out, and is ended here."""
    async with db.once() as conn:
        resumed = await store.of_jobs(conn, ids)
    if opened := {job: row.open for job, row in sorted(resumed.items()) if row.open is not None}:
        async with db.begin() as conn:
            await job_store.lock(conn, opened)
            for job, place in opened.items():
                resumed[job].wait = await _end_wait(conn, job, place)
    return resumed


async def remove(db: Tenant, job: UUID) -> None:
    """Delete the checkpoint and the recorded steps of a job, if any: the next attempt starts from the beginning."""
    await jobs.get(db, job)
    async with db.once() as conn:
        await store.remove(conn, job)


async def recorded(db: Database, jobs: Sequence[UUID]) -> dict[UUID, list[Recorded]]:
    """Return the calls that earlier attempts of these jobs recorded."""
    async with db.once() as conn:
        return await store.recorded(conn, jobs)


async def record(db: Database, job: UUID, *, fence: int, records: Sequence[NewRecord]) -> None:
    """Record calls of a handler; raise `LeaseLost` if the job is no longer held under this fence."""
    async with db.once() as conn:
        if not await store.record(conn, job, fence, records):
            raise LeaseLost(job)


async def record_steps(db: Tenant, job: UUID, steps: Sequence[tuple[str, Any]], *, worker: str, fence: int) -> int:
    """Record the results of steps, given as (name, result), for an HTTP worker; return the number of different names.
    Raise `LeaseLost` if the worker no longer holds the job. Of two results for one name the first counts.

    All or none, unlike log lines: a step may have used the result of an earlier step. If only the earlier result were
    refused, the next attempt would run that step again and combine its new result with the record of the later step.
    """
    texts: dict[str, str] = {}
    for n, (name, value) in enumerate(steps):
        check_name(name, f"steps[{n}].name", "name the step, for example charge", limit=MAX_STEP)
        texts.setdefault(name, encode(value, field=f"steps[{n}].value", limit=RESULT_LIMIT))
    if not texts:
        return 0
    if db.label is not None:
        await jobs.get(db, job)
    async with db.begin() as conn:
        try:
            held = await store.record_steps(conn, job, texts, org=db.org, worker=db.stored(worker), fence=fence)
        except UNSTORABLE as error:
            raise Invalid(f"Postgres cannot store this: {error}", field="steps") from None
    if not held:
        await jobs.get(db, job)
        raise LeaseLost(job)
    return len(texts)


async def transact(
    db: Database, job: UUID, *, fence: int, records: Sequence[NewRecord], call: Call, work: Work, again: bool
) -> Any:
    """Call `work` with a connection, and record its result in the same transaction; return the result.

    `again`: an earlier try ended without a response from the database, so it may have committed.
    """
    async with db.begin() as conn:
        if again:
            known = {row.name: row for row in (await store.recorded(conn, [job])).get(job, [])}
            if call.name in known:
                return known[call.name].value
        value = await work(conn)
        if not await store.record(conn, job, fence, [*records, call.record(value)]):
            raise LeaseLost(job)
    return decode(value)


async def end_wait(db: Database, job: UUID, *, fence: int, place: str) -> EndedWait:
    """End a wait for a message whose timeout has expired. A message that arrived before this call still counts."""
    async with db.begin() as conn:
        if not await store.hold(conn, job, fence):
            raise LeaseLost(job)
        return await _end_wait(conn, job, place)


async def _end_wait(conn: Connection, job: UUID, place: str) -> EndedWait:
    """End a wait of a locked job."""
    received = await waiters.give_up(conn, job, place)
    payload = None if received is None else encode(received.payload, field="payload", limit=RESULT_LIMIT)
    return await store.end_wait(conn, job, place, payload)


async def timeline(db: Tenant, job: UUID, *, limit: int = 100, skip: int = 0) -> list[TimelineStep]:
    """Return the recorded calls of a job's handler, oldest first."""
    check_range(limit, "limit", most=PAGE_LIMIT)
    await jobs.get(db, job)
    async with db.once() as conn:
        return await store.timeline(conn, job, limit=limit, skip=skip)


async def report_progress(db: Database, reports: Sequence[ProgressReport]) -> None:
    """Record the progress that attempts of Python workers reported, one report per job; ignore stale claims."""
    async with db.once() as conn:
        await store.report_progress(conn, reports)


async def record_progress(
    db: Tenant,
    job: UUID,
    fraction: float,
    message: str | None = None,
    data: Any = None,
    *,
    worker: str | None = None,
    fence: int | None = None,
) -> Progress:
    """Record the progress of a live job, reported by a worker in any language. `worker` and `fence`, if given, must be
    those of its current claim."""
    text = None if message is None else plain(message[:MAX_MESSAGE])
    data_json = None if data is None else encode(data, field="data", limit=MAX_DATA)
    if db.label is not None:
        await jobs.get(db, job)
    async with db.begin() as conn:
        holder = worker and db.stored(worker)
        at = await store.record_progress(conn, job, fraction, text, data_json, org=db.org, worker=holder, fence=fence)
    if at is None:
        await _refuse(db, job, "only a live job has progress to report", is_fenced=bool(worker or fence))
    return Progress(fraction, text, data, at)


async def progress(db: Tenant, job: UUID) -> Progress | None:
    """Return the latest progress of a job; None if it has reported none."""
    await jobs.get(db, job)
    async with db.once() as conn:
        return await store.get_progress(conn, job)

"""Stores the log lines of workers that use HTTP, numbered after the lines that the same claim has stored before.

Lines of a job that the worker does not hold under the fence are dropped: another attempt may be writing its log.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from windlass.core.jobs.job import MAX_LINES, MAX_MESSAGE, Fence
from windlass.core.json_value import plain
from windlass.engine.database import Tenant
from windlass.store import events as store
from windlass.store.events import HeldJob, NewLogLine

MOST_LINES = 1000  # per request


class SentLine(NamedTuple):
    job: UUID
    fence: int
    at: datetime
    level: str
    message: str


async def append(db: Tenant, sent: Sequence[SentLine], *, worker: str) -> int:
    """Store log lines; return how many were accepted."""
    if not sent:
        return 0
    fences = {(line.job, line.fence) for line in sent}
    async with db.begin() as conn:
        held = await store.lock_held(conn, fences, org=db.org, worker=db.stored(worker), label=db.label)
        if not held:
            return 0
        last = await store.last_lines(conn, [(job.id, job.epoch, job.number, _before(job)) for job in held])
        rows, accepted = _numbered(sent, {job.fence: job for job in held}, last)
        if rows:
            await store.insert_log_lines(conn, rows)
    return accepted


def _before(job: HeldJob) -> int:
    """Return the number before the first line of a claim: claims of one attempt have separate ranges."""
    return (job.claim_no - 1) * (MAX_LINES + 1)


def _numbered(
    sent: Iterable[SentLine], held: Mapping[Fence, HeldJob], last: Mapping[UUID, int]
) -> tuple[list[NewLogLine], int]:
    """Return the rows and the number of accepted lines. A claim stores MAX_LINES, and a note if there were more."""
    rows: list[NewLogLine] = []
    numbers = dict(last)
    accepted = 0
    for line in sent:
        job = held.get((line.job, line.fence))
        if job is None:
            continue
        number = numbers[job.id] = numbers.get(job.id, _before(job)) + 1
        place = job.id, job.epoch, job.number, number
        if number <= _before(job) + MAX_LINES:
            rows.append((*place, line.at, line.level, plain(line.message[:MAX_MESSAGE])))
            accepted += 1
        elif number == _before(job) + MAX_LINES + 1:
            note = f"more than {MAX_LINES} lines: the rest of this attempt is not stored"
            rows.append((*place, line.at, "WARNING", note))
    return rows, accepted

"""Claims jobs: from lanes for Python workers (docs/explanation/claiming.md), from queues for HTTP workers.

Also contains the other statements on the job table that only HTTP workers and producers use. Shared statements are in
`store.jobs`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from windlass.core.jobs.job import Claimed, Success
from windlass.core.jobs.spec import MAX_LEASE, Limit, Unique
from windlass.core.json_value import encode, plain
from windlass.errors import Conflict
from windlass.store.jobs import Job, job, successes_by_id
from windlass.store.postgres.pool import Connection
from windlass.store.postgres.queries import column, columns, mapping, statements, without_reports

_SQL = statements("claims")
_JOBS = statements("jobs")
_CLAIM_ONLY = without_reports(_JOBS["claim"])

PAGE = 1000  # lanes that one `find_lanes` statement visits
NOWHERE = (None, None, None)


@dataclass(frozen=True, slots=True)
class Lane:
    """Due jobs with the same queue (its stored name), type and priority, and the cursor (`seq`) up to which they were
    claimed."""

    queue: str
    type: str
    priority: int
    seq: int
    alone: bool = False  # its jobs are suspects: one more lost lease would fail them


Offer = Iterable[tuple[Lane, int]]  # lanes, each with the maximum to claim from it


@dataclass(frozen=True, slots=True)
class Served:
    """The job types to search for: exact types and LIKE patterns."""

    types: Sequence[str]
    patterns: Sequence[str] = ()


class LockedJob(NamedTuple):
    """A locked job with its state and lease holder, if any."""

    job: Claimed
    status: str
    holder: str | None
    cancel_requested: bool


@dataclass(frozen=True, slots=True)
class JobDetails:
    """A job, with data about its last attempt from the event trail."""

    job: Job
    started_at: datetime | None
    number: int | None  # of the last attempt that started
    now: datetime


class KeyOwner(NamedTuple):
    """The owner of a unique key: a job, or a workflow (by the client's id) with a step that has not started yet."""

    id: UUID | None
    status: str
    run_at: datetime | None
    workflow: str | None


class Fetched(NamedTuple):
    jobs: list[Job]
    unreadable: dict[UUID, str]  # rows whose values, written by plain SQL, cannot be decoded, and the reason
    limited: bool  # a job among them has a rate limit, so other jobs with its key may have become due


async def find_lanes(conn: Connection, queues: Sequence[str], served: Served | None = None) -> list[Lane]:
    """Return every lane with due jobs of the served types (None: all), by priority and then by age.

    Lanes of other types may be among them. One statement visits at most PAGE lanes, so that it stays short; the next
    one continues after the last lane of each queue.
    """
    types = None if served is None else list(served.types)
    patterns = [] if served is None else list(served.patterns)
    after: dict[str, Lane | None] = dict.fromkeys(queues)
    lanes: list[Lane] = []
    while True:
        places = [
            (queue, *((last.type, last.priority, last.alone) if last else NOWHERE)) for queue, last in after.items()
        ]
        rows = await conn.fetch(_JOBS["find_lanes"], *columns(places), types, patterns, PAGE)
        page = [Lane(*row) for row in rows]
        lanes += page
        if len(page) < PAGE:
            return sorted(lanes, key=lambda lane: (lane.priority, lane.seq))
        after |= {lane.queue: lane for lane in page}


async def find_orgs(conn: Connection, *, after: str, limit: int) -> list[str]:
    """Return orgs with due jobs, other than `default`, in alphabetical order."""
    return column(await conn.fetch(_JOBS["find_orgs"], after, limit))


async def claim(
    conn: Connection,
    lanes: Offer,
    *,
    count: int,
    worker: str,
    lease: timedelta,
    worker_lease: int | None = None,
    successes: Sequence[Success] = (),
) -> tuple[list[Claimed], set[UUID]]:
    """Claim up to `count` jobs, under the worker's lease if it has one, and record successes of the same worker; return
    the jobs claimed and the ids recorded. The other successes do not match the fence, or their rows are locked."""
    taken = [(lane.queue, lane.type, lane.priority, lane.seq, lane.alone, room) for lane, room in lanes]
    if not taken or count < 1:
        assert not successes  # without a claim they are recorded by `jobs.succeed`
        return [], set()
    claiming = (*columns(taken), count, worker, lease, worker_lease)
    if not successes:
        return list(map(Claimed._make, await conn.fetch(_CLAIM_ONLY, *claiming))), set()
    ended = successes_by_id(successes)
    rows = await conn.fetch(_JOBS["claim"], *claiming, *ended)
    claimed, recorded = list(map(Claimed._make, rows)), set(ended[0])
    while claimed and claimed[-1].type is None:
        recorded.discard(claimed.pop().id)
    return claimed, recorded


async def defer_first(conn: Connection, lane: Lane, *, pause: timedelta) -> UUID | None:
    """Defer the first job of a lane by `pause`; return its id."""
    place = lane.queue, lane.type, lane.priority, lane.alone, lane.seq
    id_: UUID | None = await conn.fetchval(_JOBS["defer_first"], *place, pause)
    return id_


async def fetch(
    conn: Connection,
    queues: Sequence[str],
    *,
    org: str,
    count: int,
    worker: str,
    lease: timedelta | None,
    default: timedelta,
    tenant: str | None = None,
    served: Served | None = None,
) -> Fetched:
    types = (None, []) if served is None else (list(served.types), list(served.patterns))
    arguments = list(queues), count, worker, lease, default, tenant, MAX_LEASE, org, *types
    rows = await conn.fetch(_SQL["fetch"], *arguments)
    fetched = Fetched([], {}, any(row["rate_key"] is not None for row in rows))
    for row in rows:
        try:
            fetched.jobs.append(job(row))
        except Exception as error:  # of any kind: one bad row must not keep the others from being handed out
            fetched.unreadable[row["id"]] = f"the job cannot be read: {plain(str(error))}"
    return fetched


async def set_aside(
    conn: Connection, reasons: Mapping[UUID, str], *, worker: str, delay: timedelta, actor: str
) -> None:
    """Release jobs that this transaction claimed but cannot hand out; they become due again after `delay`."""
    if reasons:
        await conn.execute(_SQL["set_aside"], list(reasons), list(reasons.values()), worker, delay, actor)


async def runs_of(conn: Connection, ids: Sequence[UUID], *, org: str | None) -> list[UUID]:
    return sorted(column(await conn.fetch(_SQL["runs_of"], list(ids), org)))


async def lock(conn: Connection, ids: Sequence[UUID], *, org: str | None) -> dict[UUID, LockedJob]:
    rows = await conn.fetch(_SQL["lock"], list(ids), org)
    return {row[0]: LockedJob(Claimed._make(tuple(row)[:-3]), *tuple(row)[-3:]) for row in rows}


async def succeed(
    conn: Connection,
    successes: Sequence[tuple[UUID, int | None, str]],
    *,
    worker: str,
    org: str,
    label: str | None,
) -> dict[UUID, str]:
    """Record successes (id, fence if any, result as JSON), in ascending id, of jobs that a worker holds and that belong
    to no run; return the queues of those recorded."""
    return mapping(await conn.fetch(_SQL["succeed"], *columns(successes), worker, org, label))


async def read(conn: Connection, ids: Sequence[UUID]) -> dict[UUID, Job]:
    return {row["id"]: job(row) for row in await conn.fetch(_SQL["read"], list(ids))}


async def heartbeat(
    conn: Connection, ids: Sequence[UUID], *, org: str, worker: str, lease: timedelta | None, default: timedelta
) -> list[tuple[UUID, bool, str | None]]:
    """Extend the worker's leases; return for each job still held its id, whether it should stop, and the test
    directive in its metadata."""
    rows = await conn.fetch(_SQL["heartbeat"], list(ids), worker, lease, default, MAX_LEASE, org)
    return [(row[0], row[1], row[2]) for row in rows]


async def cancelled(conn: Connection, ids: Sequence[UUID], *, org: str) -> list[UUID]:
    return column(await conn.fetch(_SQL["cancelled"], list(ids), org))


async def seen(
    conn: Connection,
    *,
    org: str,
    worker: str,
    host: str,
    queues: Sequence[str],
    state: str,
    active: int,
    reported: bool,
) -> tuple[str, str | None, datetime]:
    """Insert or update the worker's row; return its state, its directive and the time. Raise `Conflict` if a worker of
    another org has the id.

    `reported`: the worker itself reported the state.
    """
    row = await conn.fetchrow(_SQL["seen"], worker, host, list(queues), state, active, reported, org)
    if row is None:
        raise Conflict(f"worker id {worker!r} is in use: choose another id")
    return row[0], row[1], row[2]


async def register(
    conn: Connection, *, org: str, worker: str, host: str, queues: Sequence[str], types: Sequence[str]
) -> None:
    await conn.execute(_SQL["register"], worker, host, list(queues), list(types), org)


async def overdue(conn: Connection, batch: int) -> list[tuple[UUID, int]]:
    return [(row[0], row[1]) for row in await conn.fetch(_SQL["overdue"], batch)]


async def find_expired(conn: Connection, *, limit: int) -> list[UUID]:
    return column(await conn.fetch(_SQL["find_expired"], limit))


async def expire(conn: Connection, batch: int, *, actor: str, only: Sequence[UUID] | None = None) -> list[UUID]:
    return column(await conn.fetch(_SQL["expire"], batch, actor, only))


async def activate(conn: Connection, id_: UUID, *, org: str) -> str | None:
    """Activate a held-back job; return its queue, or None if there is no such job or it is not held back."""
    queue: str | None = await conn.fetchval(_SQL["activate"], id_, org)
    return queue


async def details(conn: Connection, id_: UUID, *, org: str) -> JobDetails | None:
    row = await conn.fetchrow(_SQL["details"], id_, org)
    return JobDetails(job(row), row["started_at"], row["number"], row["now"]) if row else None


async def lock_keys(conn: Connection, keys: Iterable[str]) -> None:
    await conn.execute(_SQL["lock_keys"], sorted(set(keys)))


async def find_unique(conn: Connection, keys: Sequence[tuple[str, Unique]]) -> dict[str, KeyOwner]:
    """Return the owners of unique keys, by key (prefixed with the org)."""
    states = [encode(sorted(unique.standings), field="states") for _, unique in keys]
    periods = [unique.period for _, unique in keys]
    rows = await conn.fetch(_SQL["find_unique"], [key for key, _ in keys], states, periods)
    return {row[0]: KeyOwner(*tuple(row)[1:]) for row in rows}


async def put_rate_limits(conn: Connection, limits: Sequence[tuple[str, Limit]]) -> None:
    rows = [(key, limit.rate, limit.period, limit.concurrency) for key, limit in dict(limits).items()]
    await conn.execute(_SQL["put_rate_limits"], *columns(rows))


async def unlabelled(conn: Connection, ids: Sequence[UUID], label: str) -> set[UUID]:
    """Return which of these jobs have another label, or none."""
    return set(column(await conn.fetch(_SQL["unlabelled"], list(ids), label)))

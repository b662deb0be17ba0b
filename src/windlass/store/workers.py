"""The worker table, the leases of workers, the registry of which runtime serves a job type, orphaned claims (committed,
but the worker did not receive the result), leader terms (leases on duties), and the pending work of background loops.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice
from typing import NamedTuple
from uuid import UUID

from windlass.core.jobs.job import Claimed, Fence
from windlass.store.postgres.pool import Connection
from windlass.store.postgres.queries import column, sql, statements
from windlass.store.schedules import NextDue
from windlass.store.steps import TimersDue

RUNTIME = "python"  # of the types that our workers execute
ALIVE_WITHIN = timedelta(seconds=30)  # a worker sends a heartbeat every third of its lease, 10 s by default
_SQL = statements("workers")
_ORPHANS = statements("orphans")
_TERMS = statements("terms")
_PENDING = statements("pending")


@dataclass(frozen=True, slots=True)
class WorkerRow:
    id: str
    host: str
    pid: int
    queues: list[str]  # of a worker that uses HTTP: their stored names
    types: list[str]
    concurrency: int
    state: str
    active: int
    started_at: datetime
    seen_at: datetime
    alive: bool
    silence: timedelta = timedelta()  # since it was seen

    @property
    def uses_http(self) -> bool:
        return self.pid == 0


class Registered(NamedTuple):
    """The process that registered under a worker's id."""

    directive: str | None  # set by an operator
    host: str
    pid: int
    alive: bool  # it was seen recently and has not reported that it stopped


async def register(
    conn: Connection, *, id_: str, host: str, pid: int, queues: Sequence[str], types: Sequence[str], concurrency: int
) -> Registered | None:
    """Register a worker; return the process that was registered under this id before, if any."""
    row = await conn.fetchrow(_SQL["register"], id_, host, pid, list(queues), list(types), concurrency)
    return Registered(*row) if row else None


async def seen(conn: Connection, *, id_: str, state: str, active: int) -> Registered | None:
    row = await conn.fetchrow(_SQL["seen"], id_, state, active)
    return Registered(*row) if row else None


async def list_(
    conn: Connection, *, org: str | None = None, alive_within: timedelta, id_: str | None = None
) -> list[WorkerRow]:
    """List the workers of an org, or of all orgs, by their stored ids."""
    return [WorkerRow(*row) for row in await conn.fetch(_SQL["list"], alive_within, id_, org)]


async def forget(conn: Connection, *, silent_for: timedelta) -> None:
    await conn.execute(_SQL["forget"], silent_for)


async def open_lease(conn: Connection, worker: str, *, lease: timedelta) -> int:
    """Insert the lease of a process; return its id."""
    id_: int = await conn.fetchval(_SQL["open_lease"], worker, lease)
    return id_


async def extend_lease(conn: Connection, id_: int, worker: str, *, lease: timedelta) -> None:
    await conn.execute(_SQL["extend_lease"], id_, worker, lease)


async def find_under_lease(conn: Connection, id_: int, *, older_than: timedelta) -> list[Fence]:
    return [(row[0], row[1]) for row in await conn.fetch(_SQL["find_under_lease"], id_, older_than)]


async def part_from_lease(conn: Connection, fences: Iterable[Fence], id_: int, *, lease: timedelta) -> list[UUID]:
    jobs, claims = zip(*sorted(fences), strict=True)
    return column(await conn.fetch(_SQL["part_from_lease"], list(jobs), list(claims), id_, lease))


async def close_lease(conn: Connection, id_: int) -> None:
    await conn.execute(_SQL["close_lease"], id_)


async def forget_leases(conn: Connection, *, expired_for: timedelta) -> None:
    await conn.execute(_SQL["forget_leases"], expired_for)


async def date_open_leases(conn: Connection, lease: timedelta, *, of_unknown_worker: timedelta) -> None:
    await conn.execute(_SQL["date_open_leases"], lease, of_unknown_worker)


async def direct(conn: Connection, id_: str, directive: str | None, *, org: str) -> bool:
    return await conn.fetchval(_SQL["direct"], id_, directive, org) is True


async def remove(conn: Connection, id_: str, *, org: str) -> None:
    await conn.execute(_SQL["remove"], id_, org)


class Registry(NamedTuple):
    types: dict[str, tuple[str, bool]]  # runtime and whether it is enabled, of the registered types
    several_orgs: bool


async def registry(conn: Connection) -> Registry:
    rows = await conn.fetch(_SQL["registry"])
    types = {name: (runtime, enabled) for _, name, runtime, enabled in rows if name is not None}
    return Registry(types, several_orgs=rows[0][0])


async def find_orphans(conn: Connection, *, worker: str) -> list[Fence]:
    return [(row[0], row[1]) for row in await conn.fetch(_ORPHANS["find"], worker)]


async def take_orphan(conn: Connection, fence: Fence, *, worker: str, lease: timedelta) -> Claimed | None:
    row = await conn.fetchrow(_ORPHANS["take"], *fence, worker, lease)
    return Claimed._make(row) if row else None


async def put_back_orphan(conn: Connection, fence: Fence, *, worker: str, pause: timedelta, reason: str) -> bool:
    return await conn.fetchval(_ORPHANS["put_back"], *fence, worker, pause, reason) is True


class TermAnswer(NamedTuple):
    """The result of an attempt to take or renew a term."""

    held: bool  # by the caller
    now: datetime
    renewed_before: datetime | None  # the previous renewal, by any holder; None if there was none


async def take_term(conn: Connection, *, duty: str, holder: str, term: timedelta) -> TermAnswer:
    row = await conn.fetchrow(_TERMS["take"], duty, holder, term)
    assert row is not None  # it has no `from`
    return TermAnswer(*row)


async def resign_term(conn: Connection, *, duty: str, holder: str) -> None:
    await conn.execute(_TERMS["resign"], duty, holder)


# The pending work of the background loops: a query for each loop, and one that combines them


class ProcessWork(NamedTuple):
    """State that concerns a process as a whole and not a single loop."""

    now: datetime
    leader: str | None  # the holder of the leader term; None: it is free
    renewed_at: datetime | None  # the last renewal of that term, by any holder
    leased: bool  # there are leased jobs
    uncounted: bool  # there are events that the usage of orgs does not include yet
    subscriptions: bool  # there are active ones


class PendingRunWork(NamedTuple):
    """The pending work of the sweep of runs."""

    starts: bool  # runs are pending
    messages: bool  # messages are to be delivered, or requested runs to be started
    events: bool  # runs have unapplied events
    retries: bool  # entries of the quarantine are due


class PendingJobWork(NamedTuple):
    """The pending work of upkeep for jobs."""

    rate_limited: bool
    expired: bool  # not started in time
    overdue: bool  # attempts that exceeded their timeout
    unlogged: bool  # without a `created` event


class PendingWork(NamedTuple):
    """The pending work of all background loops."""

    process: ProcessWork
    jobs: PendingJobWork
    timers: TimersDue
    schedules: NextDue
    runs: PendingRunWork


# Each of the queries returns one row, so a join without a condition puts the rows side by side. Two have parameters.
ALL_PENDING = "select * from " + ", ".join(  # noqa: S608 - of our own queries
    f"({text}\n) as {name}"
    for name, text in (
        ("process", _PENDING["process"]),
        ("jobs", _PENDING["jobs"]),
        ("timers", sql("timers", "next_due")),
        ("schedules", sql("schedules", "next_due")),
        ("runs", _PENDING["runs"].replace("$1", "$3")),
    )
)


async def pending_work(conn: Connection, *, duty: str, kinds: Sequence[str], looks_for_leases: bool) -> PendingWork:
    """Return the pending work of all loops, and the leader of `duty`. It includes quarantine entries of `kinds`."""
    row = await conn.fetchrow(ALL_PENDING, duty, looks_for_leases, list(kinds))
    assert row is not None  # each part has one
    values = iter(tuple(row))
    return PendingWork(
        process=ProcessWork._make(islice(values, len(ProcessWork._fields))),
        jobs=PendingJobWork._make(islice(values, len(PendingJobWork._fields))),
        timers=TimersDue._make(islice(values, len(TimersDue._fields))),
        schedules=NextDue._make(islice(values, len(NextDue._fields))),
        runs=PendingRunWork._make(islice(values, len(PendingRunWork._fields))),
    )


async def pending_run_work(conn: Connection, *, kinds: Sequence[str]) -> PendingRunWork:
    """Return the pending work of the sweep of runs, which retries quarantine entries of these `kinds`."""
    row = await conn.fetchrow(_PENDING["runs"], list(kinds))
    assert row is not None  # it has no `from`
    return PendingRunWork(*row)


async def pending_job_work(conn: Connection) -> PendingJobWork:
    row = await conn.fetchrow(_PENDING["jobs"])
    assert row is not None  # it has no `from`
    return PendingJobWork(*row)

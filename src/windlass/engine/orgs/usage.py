"""Counts the executions of orgs, from the event trail, and reports their usage.

A submission must not wait for a counter that every other submission of its org updates. So the `created` events are
counted afterwards, in the order of commits, by one process at a time, once a second. The position in the trail moves in
the transaction that adds to the counts: each event is counted exactly once, even after a crash.
"""

import logging
from dataclasses import dataclass, fields
from datetime import UTC

from windlass.core.events.cursor import Cursor
from windlass.core.jobs.spec import check_range
from windlass.core.json_value import encode
from windlass.core.orgs import check_org
from windlass.engine.database import MOST_COUNTED, Database, Tenant
from windlass.engine.orgs import plans
from windlass.engine.orgs.quota import month_end
from windlass.errors import NotFound
from windlass.schemas.common import PAGE_LIMIT, Page
from windlass.schemas.plans import MonthlyUsage, Plan, Usage, UsageDetail
from windlass.store.orgs import usage as store
from windlass.store.orgs.usage import UsageRow

BATCH = 2_000  # transactions whose events are counted in one batch
MONTHS = 12  # in the history of an org
STRIDE = 1_000  # transactions after which the position is saved even if there are no new jobs
_log = logging.getLogger("windlass.usage")


@dataclass(frozen=True, slots=True)
class Metered:
    executions: int = 0
    more: bool = False  # there are later transactions


async def count(db: Database, *, batch: int = BATCH) -> Metered:
    """Add the new jobs to the counts of their orgs; return their number. The first call only records the position."""
    async with db.begin() as conn:
        at = await store.lock(conn)
        if at is None:
            await store.begin(conn)
            return Metered()
        counted = await store.count(conn, at.upto, transactions=batch)
        if not counted.more and not counted.upto.covers(at.upto):
            _log.warning("the saved position is not in this event trail: only later jobs are counted")
            await store.add(conn, [], place=Cursor(counted.upto), read_at=counted.read_at)
            return Metered()
        executions = sum(each.executions for each in counted.counts)
        passed = counted.upto.xmax - at.upto.xmax
        # If no transaction is in progress, the new position covers all events that were read: once it is saved, nothing
        # is left to count until there is a new event.
        if executions or counted.more or passed > STRIDE or (passed and not counted.upto.under_way):
            await store.add(conn, counted.counts, place=Cursor(counted.upto), read_at=counted.read_at)
    return Metered(executions, counted.more)


async def of_caller(db: Tenant) -> UsageDetail:
    """Return the usage of the caller's org."""
    return await of_org(db, db.org)


async def of_org(db: Database, org: str) -> UsageDetail:
    async with db.begin() as conn:
        rows = await store.list_(conn, org=check_org(org), most_runs=MOST_COUNTED)
        if not rows:
            raise NotFound("org", org)
        history = await store.history(conn, org, months=MONTHS)
    usage = _usage(rows[0], await plans.get(db, rows[0].plan))
    shown = {field.name: getattr(usage, field.name) for field in fields(Usage)}
    return UsageDetail(**shown, history=[MonthlyUsage(*month) for month in history])


async def list_(db: Database, *, after: str = "", limit: int = 100) -> Page[Usage]:
    """Return a page of the usage of all orgs, by name."""
    encode(after, field="after")
    check_range(limit, "limit", most=PAGE_LIMIT)
    known = {plan.name: plan for plan in await plans.list_(db)}
    async with db.once() as conn:
        rows = await store.list_(conn, after=after, limit=limit, most_runs=MOST_COUNTED)
    return Page([_usage(row, known[row.plan]) for row in rows], rows[-1].org if len(rows) == limit else None)


def _usage(row: UsageRow, plan: Plan) -> Usage:
    return Usage(
        org=row.org,
        plan=plan,
        month=f"{row.now.astimezone(UTC):%Y-%m}",
        executions=row.executions,
        resets_at=month_end(row.now),
        counted_at=row.counted_at,
        workflows=row.workflows,
        runs=row.runs,
        executing=row.executing,
    )

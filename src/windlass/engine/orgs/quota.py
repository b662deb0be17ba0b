"""What an org may still do under its plan.

Monthly executions are compared with a count that may be a second old, plus what this process has admitted since: other
processes may admit as much in that second. The other limits are exact: they are counted in the transaction that they
limit, behind a lock of the org. An org without limits takes no lock and no statement.
"""

import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from windlass.core.plans import NO_LIMITS, Limits
from windlass.core.workflows.workflow import CronTrigger, Workflow
from windlass.engine.allowances import FRESH, FRESH_UNLIMITED, Allowance
from windlass.engine.database import Database, Tenant
from windlass.errors import QuotaExceeded
from windlass.store.orgs import usage as store
from windlass.store.postgres.pool import Connection

RUN_PAUSE = 1.0  # seconds after which it makes sense to start a run again


def is_unlimited(db: Database, org: str) -> bool:
    """Return whether an org is known to have no limits: nothing else needs to be checked."""
    return time.monotonic() < db.allowances.unlimited_until.get(org, 0.0)


async def admit(db: Tenant, executions: int, conn: Connection | None = None) -> None:
    """Count executions that the caller is about to record; raise `QuotaExceeded` if they are too many."""
    if is_unlimited(db, db.org):
        return
    if conn is None:
        async with db.once() as conn:
            allowance = await _allowance(conn, db, db.org)
    else:
        allowance = await _allowance(conn, db, db.org)
    if allowance is not None:
        _admit(allowance, db.org, executions)


async def admit_runs(conn: Connection, db: Tenant, count: int) -> None:
    """Count runs that the caller is about to start in this transaction; raise `QuotaExceeded` if they are too many.

    A run counts as one execution here. Its further steps are counted when they exist, and they are never refused.
    """
    if is_unlimited(db, db.org) or (allowance := await _allowance(conn, db, db.org)) is None:
        return
    most = allowance.limits.runs_at_once
    if most is not None:
        await store.lock_runs(conn, db.org)
        live = await store.live_runs(conn, db.org, cap=most)
        if live + count > most:
            message = (
                f"org {db.org} has {live} live runs and would start {count}, its plan allows {most} at a time: "
                "wait until one ends"
            )
            raise QuotaExceeded(message, code="runs_at_once", limit=most, used=live, retry_after=RUN_PAUSE)
    _admit(allowance, db.org, count)


async def child_objection(conn: Connection, db: Database, org: str, count: int) -> str | None:
    """Count child runs that are about to be started; return why they may not."""
    if is_unlimited(db, org) or (allowance := await _allowance(conn, db, org)) is None:
        return None
    try:
        _admit(allowance, org, count)
    except QuotaExceeded as refusal:
        return str(refusal)
    return None


async def check_publication(conn: Connection, db: Tenant, workflows: Sequence[Workflow]) -> None:
    """Raise `QuotaExceeded` if the plan does not allow these workflows. Locks the publications of the org."""
    limits = await limits_of(conn, db)
    for workflow in workflows:
        steps, most = len(workflow.steps), limits.steps_per_workflow
        if most is not None and steps > most:
            message = f"workflow {workflow.name!r} has {steps} steps, the plan of org {db.org} allows {most}"
            raise QuotaExceeded(message, code="steps_per_workflow", limit=most, used=steps)
        if isinstance(workflow.trigger, CronTrigger):
            check_schedule(db, limits, f"workflow {workflow.name!r} has a cron trigger")
    if limits.workflows is not None:
        await store.lock_workflows(conn, db.org)
        names = await store.workflow_names(conn, db.org)
        if len(names | {workflow.name for workflow in workflows}) > max(limits.workflows, len(names)):
            message = f"org {db.org} has {len(names)} workflows, its plan allows {limits.workflows}: delete some first"
            raise QuotaExceeded(message, code="workflows", limit=limits.workflows, used=len(names))


def check_schedule(db: Tenant, limits: Limits, subject: str) -> None:
    if not limits.schedules:
        message = f"{subject}, and the plan of org {db.org} has no schedules"
        raise QuotaExceeded(message, code="schedules", limit=0, used=0)


async def limits_of(conn: Connection, db: Tenant) -> Limits:
    """Return the limits of the caller's plan."""
    if is_unlimited(db, db.org):
        return NO_LIMITS
    allowance = await _allowance(conn, db, db.org)
    return NO_LIMITS if allowance is None else allowance.limits


def _admit(allowance: Allowance, org: str, executions: int) -> None:
    most, used = allowance.limits.executions_per_month, allowance.used
    if most is not None:
        if used + executions > most:
            resets_at = month_end(allowance.now)
            message = (
                f"org {org} has used {used} of {most} executions of this month and would use {executions} more: "
                f"the count begins anew at {resets_at.isoformat().replace('+00:00', 'Z')}"
            )
            wait = max(1.0, (resets_at - allowance.now).total_seconds())
            raise QuotaExceeded(
                message, code="executions_per_month", limit=most, used=used, resets_at=resets_at, retry_after=wait
            )
        allowance.admit(executions)


def month_end(now: datetime) -> datetime:
    """Return the beginning of the next month, UTC."""
    first = now.astimezone(UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    return (first + timedelta(days=32)).replace(day=1)


async def _allowance(conn: Connection, db: Database, org: str) -> Allowance | None:
    """Return the allowance of an org, read again if it is not fresh; None if it has no limits."""
    known = db.allowances.limited.get(org)
    began = time.monotonic()
    if known is not None and began - known.read_at < FRESH:
        return known
    row = await store.allowance(conn, org)
    if row is None or row.limits == NO_LIMITS:
        db.allowances.limited.pop(org, None)
        db.allowances.unlimited_until[org] = began + FRESH_UNLIMITED
        return None
    db.allowances.unlimited_until.pop(org, None)
    # The object is kept: another task may be about to admit something with it.
    allowance = db.allowances.limited.setdefault(org, Allowance(row.limits, row.executions, row.now, began))
    allowance.update(row.limits, row.executions, row.now, began, lag=row.lag)
    return allowance

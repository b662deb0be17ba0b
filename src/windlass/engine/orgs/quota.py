"""Enforces the limits of plans.

Monthly executions are compared with a count that may be a second old, plus what this process has admitted since: other
processes may admit as much in that second. The other limits are exact: usage is counted in the transaction that they
limit, behind a lock of the org. For an org without limits there is no lock and no statement.
"""

import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from windlass.core.orgs import owner
from windlass.core.plans import NO_LIMITS, Limits
from windlass.core.workflows.workflow import CronTrigger, Workflow
from windlass.engine.allowances import FRESH, FRESH_UNLIMITED, Allowance
from windlass.engine.database import Database, Tenant
from windlass.errors import QuotaExceeded
from windlass.store.orgs import usage as store
from windlass.store.postgres.pool import Connection

RUN_PAUSE = 1.0  # seconds after which a client may retry the start of a run


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

    A run counts as one execution here. Its further steps are counted when they are created, and never refused.
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
    """Count child runs that are about to be started; return the reason if the plan does not allow them."""
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
        steps, most = len(workflow.steps) - len(workflow.plan.undo), limits.steps_per_workflow
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


# Claims


def limited_orgs(db: Database, queues: Iterable[str]) -> list[str]:
    """Return the orgs of these queues that may have limits."""
    return sorted(org for org in {owner(queue)[0] for queue in queues} if not is_unlimited(db, org))


def limits_claims(db: Database, org: str) -> bool:
    """Return whether an org is known to limit concurrent executions: jobs may then be waiting for another to end."""
    known = db.allowances.limited.get(org)
    return known is not None and known.limits.executions_at_once is not None


async def claim_room(conn: Connection, db: Database, orgs: Sequence[str]) -> dict[str, int | None]:
    """Lock the claims of these orgs; return how many more jobs of each may be leased in this transaction.

    Orgs without a limit are left out. None: another transaction has the claims of the org locked.
    """
    allowances = await _allowances(conn, db, orgs)
    most = {org: each.limits.executions_at_once for org, each in allowances.items()}
    limits = {org: limit for org, limit in most.items() if limit is not None}
    if not limits:
        return {}
    locked = await store.lock_claims(conn, sorted(limits))
    leased = await store.leased(conn, locked) if locked else {}
    return {org: max(0, limits[org] - leased.get(org, 0)) if org in locked else None for org in limits}


async def wait_for_claim_room(conn: Connection, db: Tenant) -> int | None:
    """Lock the claims of the org, waiting for other transactions that claim; return how many more jobs may be leased in
    this one, None if there is no limit. Call it before locking any row: a claim that holds rows must not wait here."""
    if is_unlimited(db, db.org):
        return None
    allowance = await _allowance(conn, db, db.org)
    most = None if allowance is None else allowance.limits.executions_at_once
    if most is None:
        return None
    await store.wait_for_claims(conn, db.org)
    return max(0, most - (await store.leased(conn, [db.org])).get(db.org, 0))


def _admit(allowance: Allowance, org: str, executions: int) -> None:
    most, used = allowance.limits.executions_per_month, allowance.used
    if most is not None:
        if used + executions > most:
            resets_at = month_end(allowance.now)
            message = (
                f"org {org} has used {used} of {most} executions of this month and would use {executions} more: "
                f"the count is reset at {resets_at.isoformat().replace('+00:00', 'Z')}"
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
    return (await _allowances(conn, db, [org])).get(org)


async def _allowances(conn: Connection, db: Database, orgs: Iterable[str]) -> dict[str, Allowance]:
    """Return the allowances of the orgs that have limits. A disabled org may execute nothing."""
    known, now = db.allowances, time.monotonic()
    fresh = {org: each for org in orgs if (each := known.limited.get(org)) and now - each.read_at < FRESH}
    stale = [org for org in orgs if org not in fresh and not is_unlimited(db, org)]
    rows = await store.allowances(conn, stale) if stale else {}
    for org in stale:
        row = rows.get(org)
        limits = NO_LIMITS if row is None else replace(row.limits, executions_at_once=0) if row.disabled else row.limits
        if row is None or limits == NO_LIMITS:
            known.limited.pop(org, None)
            known.unlimited_until[org] = now + FRESH_UNLIMITED
            continue
        known.unlimited_until.pop(org, None)
        # Keep the object: another task may be about to count an admission in it.
        fresh[org] = known.limited.setdefault(org, Allowance(limits, row.executions, row.now, now))
        fresh[org].update(limits, row.executions, row.now, now, lag=row.lag)
    return fresh

"""Lists and decides approvals. A decision ends the step that waits for it in the same transaction."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

from windlass.core.approvals import (
    LINK_DAYS,
    MAX_COMMENT,
    MAX_VALUES,
    ApprovalState,
    Decision,
    Link,
    ended,
    may_decide,
    read_link,
    require_role,
)
from windlass.core.jobs.spec import check_range
from windlass.core.json_value import encode
from windlass.core.runs.run import LIVE, Letter
from windlass.engine.database import Database, Tenant
from windlass.engine.definitions import find_live
from windlass.engine.orgs import audit
from windlass.engine.runs.settle import settle
from windlass.errors import Conflict, Gone, Invalid, NotFound
from windlass.schemas.approvals import Approval, ApprovalLinks
from windlass.schemas.common import PAGE_LIMIT, Page
from windlass.store import approvals as store
from windlass.store import runs, steps
from windlass.store.approvals import ApprovalRow, Cursor, Linked
from windlass.store.postgres.pool import Connection

LINK_ACTOR = "link"  # the actor of a decision by link, whose holder is unknown
ENDS: Mapping[str, str] = {
    ApprovalState.EXPIRED: "its timeout has expired",
    ApprovalState.CANCELLED: "its run was stopped",
}


async def list_(
    db: Tenant,
    *,
    states: Sequence[str] | None = None,
    workflow: str | None = None,
    run_id: UUID | None = None,
    before: str | None = None,
    limit: int = 50,
) -> Page[Approval]:
    """List approvals, the open ones first, newest first."""
    check_range(limit, "limit", most=PAGE_LIMIT)
    for state in states or ():
        if state not in list(ApprovalState):
            raise Invalid(f"state is {state!r}: one of {', '.join(ApprovalState)}", field="state")
    place = None if before is None else _parse(before)
    async with db.search("filter by state, workflow or run") as conn:
        live = None if workflow is None else await find_live(conn, workflow, org=db.org)
        rows = await store.list_(
            conn,
            org=db.org,
            states=states or None,
            workflow_id=None if live is None else live.workflow_id,
            run_id=run_id,
            after=place,
            limit=limit,
        )
    return Page([_shown(db, row) for row in rows], _text(rows[-1]) if len(rows) == limit else None)


async def get(db: Tenant, id_: UUID) -> Approval:
    """Return an approval. Callers who may decide it also get the links with which others can."""
    async with db.begin() as conn:
        row = _known(await store.find(conn, id_, org=db.org), id_)
        shown = _shown(db, row)
        return (
            replace(shown, links=await links(conn, db, Linked(row.id, row.round, row.until)))
            if shown.may_decide
            else shown
        )


async def links(conn: Connection, db: Database, row: Linked) -> ApprovalLinks:
    """Return the URLs that decide an open approval. They expire with it, or after a week if it does not expire."""
    key, base = await db.hook_key(conn), await db.public_url.get(conn)
    expires_at = row.until or await runs.now(conn) + LINK_DAYS
    approve, reject = (
        f"{base}/approve/{Link(row.id, row.round, decision, expires_at).token(key)}" for decision in Decision
    )
    return ApprovalLinks(approve=approve, reject=reject, expires_at=expires_at)


async def links_of(db: Database, ids: Sequence[UUID]) -> dict[UUID, ApprovalLinks]:
    """Return the links to those of these approvals that are open, for the subscribers of their events."""
    async with db.begin() as conn:
        return {row.id: await links(conn, db, row) for row in await store.open_of_ids(conn, ids)}


async def open_link(db: Database, token: str) -> tuple[Tenant, Link, Approval]:
    """Return the tenant that a link acts for, the link and its approval; raise `Gone` if it can no longer be used."""
    async with db.begin() as conn:
        link = read_link(await db.hook_key(conn), token)
        org = None if link is None else await store.org_of(conn, link.approval)
        row = None if link is None or org is None else await store.find(conn, link.approval, org=org)
        if link is None or row is None:
            raise NotFound("approval", "of this link")
        if row.state != ApprovalState.OPEN or row.round != link.round:
            by = f": {row.state} by {row.decided_by}" if row.decided_by else ""
            raise Gone(f"this link was used, or its approval has ended{by}")
        if link.expires_at <= await runs.now(conn):
            raise Gone("this link has expired")
    acting = db.tenant(row.org, actor=LINK_ACTOR)
    return acting, link, _shown(acting, row)


async def decide(
    db: Tenant, id_: UUID, decision: Decision, *, values: Any = None, comment: str | None = None
) -> Approval:
    """Approve or reject. The first decision counts; later ones raise `Conflict`."""
    encode(comment, field="comment", limit=MAX_COMMENT)
    async with db.once() as conn:
        row = _known(await store.find(conn, id_, org=db.org), id_)
    require_role(row.roles, db.scopes, db.actor)
    text = await _checked(db, row, decision, values)
    async with db.begin() as conn:
        locked = await runs.lock(conn, [row.run_id])
        row = _known(await store.find(conn, id_, org=db.org), id_)  # read again under the lock of its run
        require_role(row.roles, db.scopes, db.actor)
        [run] = locked
        _check_open(row, is_waiting=run.state in LIVE and run.steps[row.step] == Letter.ACTIVE)
        await store.decide(conn, id_, decision.state, by=db.actor, values=text, comment=comment)
        await audit.record(
            conn,
            db,
            f"approval.{decision}",
            str(id_),
            run=str(row.run_id),
            task=row.task,
            values=values or None,
            comment=comment,
        )
        await steps.delete_timers(conn, [(row.run_id, row.step)])
        events = {row.run_id: [ended(row.step, decision, db.actor, comment)]}
        wakeups = await settle(conn, db, locked, events, actor=db.actor)
        decided = _known(await store.find(conn, id_, org=db.org), id_)
    wakeups.poke(db)
    return _shown(db, decided)


def _check_open(row: ApprovalRow, *, is_waiting: bool) -> None:
    """Raise `Conflict` or `Gone` if the approval can no longer be decided."""
    if row.state in (ApprovalState.APPROVED, ApprovalState.REJECTED):
        raise Conflict(f"approval {row.id} was already decided: {row.state} by {row.decided_by}")
    if row.state != ApprovalState.OPEN or not is_waiting:
        raise Gone(f"approval {row.id} can no longer be decided: {ENDS.get(row.state, 'its step has ended')}")


async def _checked(db: Tenant, row: ApprovalRow, decision: Decision, values: Any) -> str | None:
    """Return the values as JSON; raise `Invalid` if they do not fit the form. A rejection needs no values."""
    if values is not None and not isinstance(values, dict):
        raise Invalid("values must be an object: a value for each field of the form", field="values")
    if row.form is None:
        if values:
            raise Invalid("values must be left out: this approval has no form", field="values")
        return None
    if not values and decision is Decision.REJECT:
        return None
    text = encode(values or {}, field="values", limit=MAX_VALUES)
    await db.schema_validator.check(json.dumps(row.form), values or {}, "values")
    return text


def _shown(db: Tenant, row: ApprovalRow) -> Approval:
    return Approval(
        id=str(row.id),
        run_id=str(row.run_id),
        workflow=row.workflow,
        task=row.task,
        state=row.state,
        message=row.message,
        form=row.form,
        roles=row.roles,
        may_decide=row.state == ApprovalState.OPEN and may_decide(row.roles, db.scopes),
        requested_at=row.requested_at,
        until=row.until,
        escalated_at=row.escalated_at,
        reminded_at=row.reminded_at,
        decided_at=row.decided_at,
        by=row.decided_by,
        values=row.form_values,
        comment=row.comment,
    )


def _known(row: ApprovalRow | None, id_: UUID) -> ApprovalRow:
    if row is None:
        raise NotFound("approval", id_)
    return row


def _text(row: ApprovalRow) -> str:
    return f"{'open' if row.state == ApprovalState.OPEN else 'ended'}.{row.id}"


def _parse(text: str) -> Cursor:
    part, _, id_ = text.partition(".")
    try:
        if part in ("open", "ended"):
            return Cursor(part == "open", UUID(id_))
    except ValueError:
        pass
    raise Invalid("before is not a cursor of this list: pass the `next` of the previous page", field="before")

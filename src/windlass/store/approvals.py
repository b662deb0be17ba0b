"""Approvals: steps of runs that wait for the decision of a person. Rows are changed under the lock of their run."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from windlass.core import property_order
from windlass.core.approvals import Requested, Times, output
from windlass.core.json_value import decode
from windlass.store.postgres.pool import Connection
from windlass.store.postgres.queries import columns, statements
from windlass.store.steps import StepRef

_SQL = statements("approvals")


class NewApproval(NamedTuple):
    id: UUID
    run_id: UUID
    step: int
    round: int
    task: str
    message: str
    form: str | None  # JSON
    roles: str  # separated by commas
    requested_at: datetime
    until: datetime | None


class OpenApproval(NamedTuple):
    id: UUID
    run_id: UUID
    step: int
    times: Times


class Described(NamedTuple):
    """The fields of an approval that an event about it contains."""

    id: UUID
    message: str
    form: str | None  # JSON
    roles: list[str]
    until: datetime | None


class Linked(NamedTuple):
    """The fields of an approval from which its links are built."""

    id: UUID
    round: int
    until: datetime | None


class Cursor(NamedTuple):
    """The position of an approval in the list: the open ones come first."""

    is_open: bool
    id: UUID


@dataclass(frozen=True, slots=True)
class ApprovalRow:
    id: UUID
    org: str
    run_id: UUID
    step: int
    round: int
    workflow: str
    task: str
    state: str
    message: str
    form: dict[str, Any] | None
    roles: list[str]
    requested_at: datetime
    until: datetime | None
    escalated_at: datetime | None
    reminded_at: datetime | None
    decided_at: datetime | None
    decided_by: str | None
    form_values: dict[str, Any] | None
    comment: str | None


async def insert(conn: Connection, rows: Sequence[NewApproval]) -> None:
    await conn.execute(_SQL["insert"], *columns(rows))


async def open_of_steps(conn: Connection, places: Sequence[StepRef]) -> list[OpenApproval]:
    rows = await conn.fetch(_SQL["open_of_steps"], *columns(places))
    return [OpenApproval(id_, run, step, Times(*times)) for id_, run, step, *times in rows]


async def cancel(conn: Connection, places: Sequence[StepRef]) -> None:
    await conn.execute(_SQL["cancel"], *columns(places))


async def decide(
    conn: Connection,
    id_: UUID,
    state: str,
    *,
    by: str | None = None,
    values: str | None = None,
    comment: str | None = None,
) -> bool:
    """Close an open approval; return False if it is not open."""
    return await conn.fetchval(_SQL["decide"], id_, state, by, values, comment) is not None


async def escalate(conn: Connection, id_: UUID, roles: Sequence[str], until: datetime | None, *, at: datetime) -> None:
    await conn.execute(_SQL["escalate"], id_, list(map(str, roles)), until, at)


async def remind(conn: Connection, rows: Sequence[tuple[UUID, datetime]]) -> None:
    await conn.execute(_SQL["remind"], *columns(rows))


async def outputs(conn: Connection, places: Sequence[StepRef]) -> dict[StepRef, dict[str, Any]]:
    """Return the outputs of the given steps that have a decision."""
    return {
        (run, step): output(state, by=by, at=at, values=decode(values), comment=comment)
        for run, step, state, by, at, values, comment in await conn.fetch(_SQL["decisions"], *columns(places))
    }


async def of_run(conn: Connection, run: UUID) -> dict[int, Requested]:
    """Return the open approvals of a run, by step number."""
    return {row[0]: Requested(row[1], row[2]) for row in await conn.fetch(_SQL["of_run"], run)}


async def find(conn: Connection, id_: UUID, *, org: str) -> ApprovalRow | None:
    row = await conn.fetchrow(_SQL["find"], id_, org)
    return None if row is None else _row(row)


async def of_steps(conn: Connection, places: Sequence[StepRef]) -> dict[StepRef, Described]:
    """Return the latest approval of each of these steps."""
    rows = await conn.fetch(_SQL["of_steps"], *columns(places))
    return {(run, step): Described(*values) for run, step, *values in rows}


async def open_of_ids(conn: Connection, ids: Sequence[UUID]) -> list[Linked]:
    return list(map(Linked._make, await conn.fetch(_SQL["open_of_ids"], list(ids))))


async def org_of(conn: Connection, id_: UUID) -> str | None:
    org: str | None = await conn.fetchval(_SQL["org_of"], id_)
    return org


async def list_(
    conn: Connection,
    *,
    org: str,
    states: Sequence[str] | None = None,
    workflow_id: UUID | None = None,
    run_id: UUID | None = None,
    after: Cursor | None = None,
    limit: int = 50,
) -> list[ApprovalRow]:
    """List approvals, the open ones first, newest first."""
    place = after or (None, None)
    only = None if states is None else list(states)
    return [_row(row) for row in await conn.fetch(_SQL["list"], org, only, workflow_id, run_id, *place, limit)]


def _row(row: Any) -> ApprovalRow:
    return ApprovalRow(
        **{**row, "form": property_order.restore(decode(row["form"])), "form_values": decode(row["form_values"])}
    )

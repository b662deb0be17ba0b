"""The usage of orgs: monthly counts, and the position in the event trail up to which they are complete."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from windlass.core.events.cursor import Cursor, Snapshot
from windlass.core.plans import NAMES, Limits
from windlass.store import events
from windlass.store.events import snapshot_arguments
from windlass.store.postgres.pool import Connection
from windlass.store.postgres.queries import column, columns, mapping, statements

_SQL = statements("usage")


class Count(NamedTuple):
    org: str
    month: str  # its first day
    executions: int


@dataclass(frozen=True, slots=True)
class Counted:
    """The executions counted after a position, the next position, and whether there may be more."""

    counts: list[Count]
    upto: Snapshot
    read_at: datetime
    more: bool


async def begin(conn: Connection) -> None:
    """Start to count the events committed from now on, unless the count has begun."""
    await conn.execute(_SQL["begin"], str(Cursor(await events.here(conn))))


async def lock(conn: Connection) -> Cursor | None:
    """Lock and return the position; None if there is none, or another process has locked it."""
    place = await conn.fetchval(_SQL["lock"])
    return None if place is None else Cursor.parse(place)


async def count(conn: Connection, at: Snapshot, *, transactions: int) -> Counted:
    """Count the executions in the next `transactions` transaction ids after a position, which must be locked."""
    end = at.xmax + transactions
    rows = await conn.fetch(_SQL["count"], *snapshot_arguments(at), str(end))
    now = Snapshot.parse(rows[0]["snapshot"])
    return Counted(
        counts=[Count(row["org"], row["month"], row["executions"]) for row in rows if row["org"] is not None],
        upto=now.below(end),
        read_at=rows[0]["read_at"],
        more=end < now.xmax,
    )


async def add(conn: Connection, counts: Sequence[Count], *, place: Cursor, read_at: datetime) -> None:
    await conn.execute(_SQL["add"], str(place), read_at, *(columns(counts) or ([], [], [])))


@dataclass(frozen=True, slots=True)
class AllowanceRow:
    limits: Limits
    disabled: bool
    executions: int  # counted this month
    now: datetime
    lag: float | None  # seconds since the last count; None: it has not begun


async def allowances(conn: Connection, orgs: Sequence[str]) -> dict[str, AllowanceRow]:
    return {
        row["name"]: AllowanceRow(
            Limits(**{name: row[name] for name in NAMES}), row["disabled"], row["executions"], row["now"], row["lag"]
        )
        for row in await conn.fetch(_SQL["allowances"], list(orgs))
    }


async def lock_runs(conn: Connection, org: str) -> None:
    await conn.execute(_SQL["lock_runs"], org)


async def live_runs(conn: Connection, org: str, *, cap: int) -> int:
    count: int = await conn.fetchval(_SQL["live_runs"], org, cap)
    return count


async def lock_workflows(conn: Connection, org: str) -> None:
    await conn.execute(_SQL["lock_workflows"], org)


async def workflow_names(conn: Connection, org: str) -> set[str]:
    return set(column(await conn.fetch(_SQL["workflow_names"], org)))


async def lock_claims(conn: Connection, orgs: Sequence[str]) -> set[str]:
    """Try to lock the claims of orgs; return the orgs whose lock was free."""
    return set(column(await conn.fetch(_SQL["lock_claims"], list(orgs))))


async def wait_for_claims(conn: Connection, org: str) -> None:
    await conn.execute(_SQL["wait_for_claims"], org)


async def leased(conn: Connection, orgs: Collection[str]) -> dict[str, int]:
    return mapping(await conn.fetch(_SQL["leased"], list(orgs)))


@dataclass(frozen=True, slots=True)
class UsageRow:
    org: str
    plan: str
    executions: int  # of this month
    counted_at: datetime | None
    now: datetime
    workflows: int
    runs: int
    executing: int


async def list_(
    conn: Connection, *, org: str | None = None, after: str = "", limit: int = 1, most_runs: int
) -> list[UsageRow]:
    """Return the usage of orgs, sorted by name, or that of one org."""
    return [UsageRow(*row) for row in await conn.fetch(_SQL["list"], org, after, limit, most_runs)]


async def history(conn: Connection, org: str, *, months: int) -> list[tuple[str, int]]:
    return [(row[0], row[1]) for row in await conn.fetch(_SQL["history"], org, months)]

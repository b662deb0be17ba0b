"""Plans, and the orgs that have them."""

from dataclasses import astuple, dataclass
from datetime import datetime

from windlass.core.plans import NAMES, Limits
from windlass.store.postgres.pool import Connection
from windlass.store.postgres.queries import column, statements

_SQL = statements("plans")


@dataclass(frozen=True, slots=True)
class PlanRow:
    name: str
    limits: Limits
    orgs: int
    created_at: datetime
    updated_at: datetime


async def list_(conn: Connection, *, name: str | None = None) -> list[PlanRow]:
    """Return all plans, or the one of this name."""
    rows = await conn.fetch(_SQL["list"], name)
    return [
        PlanRow(
            name=row["name"],
            limits=Limits(**{limit: row[limit] for limit in NAMES}),
            orgs=row["orgs"],
            created_at=row["created_at"],
            updated_at=row["updated_at"],
        )
        for row in rows
    ]


async def lock(conn: Connection, name: str) -> Limits | None:
    row = await conn.fetchrow(_SQL["lock"], name)
    return Limits(**row) if row else None


async def put(conn: Connection, name: str, limits: Limits) -> None:
    await conn.execute(_SQL["put"], name, *astuple(limits))


async def orgs(conn: Connection, name: str, *, limit: int) -> list[str]:
    return column(await conn.fetch(_SQL["orgs"], name, limit))


async def delete(conn: Connection, name: str) -> None:
    await conn.execute(_SQL["delete"], name)


async def assign(conn: Connection, org: str, plan: str) -> str | None:
    """Assign a plan to an org; return its previous plan, or None if there is no such org."""
    former: str | None = await conn.fetchval(_SQL["assign"], org, plan)
    return former

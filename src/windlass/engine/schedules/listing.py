"""All schedules in one list: those that start runs, by workflow name, then those of plain SQL, by type."""

from dataclasses import dataclass
from uuid import UUID

from windlass.core.jobs.spec import check_range
from windlass.core.json_value import encode
from windlass.engine.database import Database
from windlass.errors import Invalid
from windlass.schemas.common import PAGE_LIMIT
from windlass.store import schedules, triggers
from windlass.store.schedules import FIRST, JobScheduleRow
from windlass.store.triggers import ScheduleRow

__all__ = ["JobScheduleRow", "Page", "ScheduleRow", "list_"]
JOBS = "job/"  # prefix of a cursor among those of plain SQL; names of workflows have no slash


@dataclass(frozen=True, slots=True)
class Page:
    """A page of schedules. Pass `next` as `after` for the next page; None means the end."""

    schedules: list[ScheduleRow | JobScheduleRow]
    next: str | None


async def list_(db: Database, *, after: str = "", limit: int = 50) -> Page:
    encode(after, field="after")
    check_range(limit, "limit", most=PAGE_LIMIT)
    beyond = after.startswith(JOBS)
    place = _place(after) if beyond else FIRST
    found: list[ScheduleRow | JobScheduleRow] = []
    async with db.begin() as conn:
        if not beyond:
            found += await triggers.list_(conn, org=db.org, after=after, limit=limit)
        if len(found) < limit:
            found += await schedules.list_(conn, limit=limit - len(found), after=place)
    return Page(found, _text(found[-1]) if len(found) == limit else None)


def _text(row: ScheduleRow | JobScheduleRow) -> str:
    return row.workflow if isinstance(row, ScheduleRow) else f"{JOBS}{row.id}/{row.type}"


def _place(text: str) -> tuple[str, UUID]:
    id_, _, type_ = text.removeprefix(JOBS).partition("/")
    try:
        return type_, UUID(id_)
    except ValueError:
        raise Invalid("after is no place in this list: give what `next` said", field="after") from None

"""Statements on workflows and their versions. Names are unique in an org among workflows that are not deleted."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from windlass.core import property_order
from windlass.core.json_value import decode
from windlass.store.postgres.pool import Connection
from windlass.store.postgres.queries import column, columns, statements

_SQL = statements("workflows")


@dataclass(frozen=True, slots=True)
class Live:
    """The live version of a workflow, on which new runs start."""

    name: str
    workflow_id: UUID
    version_id: int
    number: int
    enabled: bool
    fingerprint: str
    now: datetime | None = None  # when it was read


class NewVersion(NamedTuple):
    """A version to be published, as JSON."""

    name: str
    document: str
    fingerprint: str
    input: str | None  # the input schema of the document, which keeps the order of its keys


@dataclass(frozen=True, slots=True)
class WorkflowRow:
    """A workflow with one complete version."""

    name: str
    id: UUID
    version_id: int
    number: int
    live: int
    enabled: bool
    document: dict[str, Any]
    fingerprint: str
    published_at: datetime
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class WorkflowLine:
    """A workflow in a list."""

    name: str
    id: UUID
    version_id: int
    live: int
    enabled: bool
    trigger: Any
    description: str | None
    steps: int
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class VersionRow:
    id: int
    number: int
    live: bool
    fingerprint: str
    steps: int
    created_at: datetime


async def hold(conn: Connection, ids: Sequence[UUID], names: Sequence[str], *, org: str) -> None:
    """Lock the workflows with these names until the end of the transaction; insert the missing ones with their ids."""
    await conn.execute(_SQL["hold"], list(ids), list(names), org)


async def publish(conn: Connection, versions: Iterable[NewVersion], *, org: str) -> set[int]:
    """Publish versions of locked names; return the ids of the new versions."""
    return set(column(await conn.fetch(_SQL["publish"], org, *columns(versions))))


async def live(conn: Connection, names: Iterable[str], *, org: str) -> dict[str, Live]:
    return {row[0]: Live(*row) for row in await conn.fetch(_SQL["live"], org, list(names))}


async def documents(conn: Connection, version_ids: Iterable[int]) -> dict[int, dict[str, Any]]:
    return {row[0]: _document(row[1], row[2]) for row in await conn.fetch(_SQL["documents"], list(version_ids))}


async def get(conn: Connection, name: str, *, org: str, number: int | None = None) -> WorkflowRow | None:
    row = await conn.fetchrow(_SQL["get"], org, name, number)
    if row is None:
        return None
    values = dict(row)
    return WorkflowRow(**values | {"document": _document(row["document"], values.pop("input"))})


def _document(document: str, input_: str | None) -> Any:
    """Return a stored document, with the fields of its forms and of its `input` in their original order."""
    value = property_order.of_forms(decode(document), property_order.restore)
    return value if input_ is None or not isinstance(value, dict) else {**value, "input": decode(input_)}


async def list_(conn: Connection, *, org: str, after: str, limit: int) -> list[WorkflowLine]:
    rows = await conn.fetch(_SQL["list"], org, after, limit)
    return [WorkflowLine(**{**row, "trigger": decode(row["trigger"])}) for row in rows]


async def names(conn: Connection, *, org: str, limit: int) -> list[str]:
    return column(await conn.fetch(_SQL["names"], org, limit))


async def exists(conn: Connection, id_: UUID, *, org: str) -> bool:
    """Return whether there is such a workflow, deleted or not."""
    is_known: bool = await conn.fetchval(_SQL["exists"], org, id_)
    return is_known


async def name_of(conn: Connection, id_: UUID, *, org: str) -> str | None:
    name: str | None = await conn.fetchval(_SQL["name_of"], org, id_)
    return name


async def versions(conn: Connection, name: str, *, org: str, before: int, limit: int) -> list[VersionRow]:
    return [VersionRow(*row) for row in await conn.fetch(_SQL["versions"], org, name, before, limit)]


async def enable(conn: Connection, name: str, enabled: bool, *, org: str) -> bool:
    return await conn.fetchval(_SQL["enable"], org, name, enabled) is not None


async def soft_delete(conn: Connection, name: str, *, org: str) -> bool:
    return await conn.fetchval(_SQL["soft_delete"], org, name) is not None


async def move_run(
    conn: Connection, run: UUID, version_id: int, *, numbers: Mapping[int, int], gone: Sequence[int]
) -> None:
    """Move a locked run to another version: renumber its steps, and delete the rows of the steps that are `gone`."""
    if gone:
        await conn.execute(_SQL["drop_steps"], run, list(gone))
    await conn.execute(_SQL["shift_steps"], run, list(numbers), list(numbers.values()), version_id)
    await conn.execute(_SQL["settle_steps"], run)

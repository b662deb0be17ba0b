"""The audit log: who did what to which object of an org.

An action is recorded in its own transaction, so that there is no action without an entry and no entry without an
action. Work itself (submitting jobs, starting runs, reports of workers) is not recorded here: the event trails of jobs
and runs have the actor of each event.
"""

import re
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from typing import Any

from windlass.core.jobs.spec import check_range
from windlass.core.json_value import encode
from windlass.engine.database import Tenant
from windlass.errors import Invalid
from windlass.schemas.common import PAGE_LIMIT, Page
from windlass.store.orgs import audit as store
from windlass.store.orgs.audit import AuditCursor, AuditEntry
from windlass.store.postgres.pool import Connection

__all__ = ["AuditCursor", "AuditEntry"]
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_is_place = re.compile(r"[0-9]{1,17}\.[0-9]{1,18}", re.ASCII).fullmatch


async def record(conn: Connection, db: Tenant, action: str, object_: str | None = None, **data: Any) -> None:
    """Record an action of the caller, such as `key.create`. `data` describes the change, and never has a secret."""
    await record_many(conn, db, action, [(object_, data)])


async def record_many(
    conn: Connection, db: Tenant, action: str, objects: Iterable[tuple[str | None, Mapping[str, Any]]]
) -> None:
    """Record an action of the caller on each of these objects, with the data that describes the change."""
    entries = [
        (object_, {name: value for name, value in data.items() if value is not None}) for object_, data in objects
    ]
    if entries:
        await store.insert(conn, entries, org=db.org, actor=db.actor, action=action)


def described(filter_: Any) -> dict[str, Any]:
    """Return the fields of a filter that are set, for the entry of an action on everything that it selects."""
    values = {
        one.name: getattr(filter_, one.name) for one in fields(filter_) if getattr(filter_, one.name) != one.default
    }
    return {name: _plain(value) for name, value in values.items() if value not in (None, "", (), [], {})}


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, Sequence | Set) and not isinstance(value, str):
        return [_plain(one) for one in value]
    return value if isinstance(value, bool | int | float | str) else str(value)


async def list_(
    db: Tenant,
    *,
    actor: str | None = None,
    action: str | None = None,
    object_: str | None = None,
    before: str | None = None,
    limit: int = 50,
) -> Page[AuditEntry]:
    """List the entries of the org, newest first; `action` is a prefix such as `key.`."""
    encode([actor, action, object_], field="filter")
    check_range(limit, "limit", most=PAGE_LIMIT)
    place = None if before is None else _parse(before)
    async with db.search("name an actor, an action or an object") as conn:
        rows = await store.list_(
            conn, org=db.org, actor=actor, action=action, object_=object_, before=place, limit=limit
        )
    return Page(rows, _text(rows[-1]) if len(rows) == limit else None)


def _text(entry: AuditEntry) -> str:
    return f"{(entry.at - _EPOCH) // timedelta(microseconds=1)}.{entry.id}"


def _parse(text: str) -> AuditCursor:
    if not _is_place(text):
        raise Invalid("before is not a cursor of this list: pass the `next` of the previous page", field="before")
    at, _, id_ = text.partition(".")
    return AuditCursor(_EPOCH + timedelta(microseconds=int(at)), int(id_))

"""The audit log: who did what to which object of an org.

An action is recorded in its own transaction, so that there is no action without an entry and no entry without an
action. Work itself (submitting jobs, starting runs, what workers report) is not recorded here: the event trails of
jobs and runs have the actor of each line.
"""

from typing import Any

from windlass.engine.database import Tenant
from windlass.store.orgs import audit as store
from windlass.store.orgs.audit import AuditCursor, AuditEntry
from windlass.store.postgres.pool import Connection

__all__ = ["AuditCursor", "AuditEntry"]


async def record(conn: Connection, db: Tenant, action: str, object_: str | None = None, **data: Any) -> None:
    """Record what the caller did, such as `key.create`. `data` holds what changed, and never a secret."""
    await store.insert(conn, org=db.org, actor=db.actor, action=action, object_=object_, data=data)

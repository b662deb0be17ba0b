"""Helpers to deploy and start workflows and to list the quarantine."""

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from windlass.engine import quarantine, workflows
from windlass.engine.database import Tenant
from windlass.engine.runs import start as run_start
from windlass.engine.runs.start import RunSpec

Client = Any  # asyncpg.Connection is generic in the stubs only
NOON = datetime(2030, 3, 1, 12, 0, tzinfo=UTC)


async def deploy(db: Tenant, name: str, tasks: dict[str, Any], **more: Any) -> None:
    await workflows.publish_many(db, [{"name": name, "tasks": tasks, **more}])


async def start(db: Tenant, name: str, input_: Any = None) -> UUID:
    return (await run_start.start(db, name, [RunSpec(input=input_ or {})]))[0]


async def aside(db: Tenant) -> list[tuple[str, str]]:
    return sorted((entry.kind, entry.key) for entry in await quarantine.list_(db))

"""Types that begin with `windlass.` and the queue `windlass` are reserved for the engine, however a job is inserted."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from tests.runtime.conftest import eventually
from windlass import Windlass
from windlass.engine.database import Tenant
from windlass.engine.events import subscriptions
from windlass.engine.runs import start
from windlass.engine.runs.start import RunSpec
from windlass.errors import Invalid, InvalidWorkflow
from windlass.runtime.worker.worker import WorkerOptions

TYPES = ("windlass.command.v1", "windlass.http.v1", "windlass.webhook.v1", "windlass.anything")


@pytest.mark.parametrize("type_", TYPES)
async def test_a_program_cannot_submit_a_reserved_type(app: Windlass, type_: str) -> None:
    with pytest.raises(Invalid, match=f"type is '{type_}': types that begin with windlass. are reserved") as refused:
        await app.submit(type_, {"run": "id"}, queue="default")
    assert refused.value.field == "type"


async def test_a_program_cannot_submit_to_the_reserved_queue(app: Windlass) -> None:
    with pytest.raises(Invalid, match="queue is 'windlass': the queue windlass is reserved"):
        await app.submit("a.b.v1", queue="windlass")


@pytest.mark.parametrize(
    ("step", "place"),
    [({"job": "windlass.command.v1"}, "tasks.a.job"), ({"job": "a.b.v1", "queue": "windlass"}, "tasks.a.queue")],
)
async def test_a_step_cannot_name_a_reserved_type_or_queue(app: Windlass, step: dict[str, Any], place: str) -> None:
    with pytest.raises(InvalidWorkflow, match="reserved for the engine") as refused:
        await app.deploy({"name": "w", "tasks": {"a": step}})
    assert [path for path, _ in refused.value.errors] == [place]


async def test_a_wildcard_handler_does_not_match_reserved_types(app: Windlass) -> None:
    @app.job("%")
    def anything(payload: Any) -> None: ...

    assert app.handlers.find("a.b.v1") is not None
    assert app.handlers.find("windlass.command.v1") is None


async def test_a_client_cannot_use_the_reserved_idempotency_key_of_a_tick(db: Tenant) -> None:
    with pytest.raises(Invalid, match="schedule/ is reserved for schedules") as refused:
        await start.start(db, "w", [RunSpec(idempotency_key="schedule/1/2030-01-01T00:00:00Z")])
    assert refused.value.field == "idempotency_key"


@pytest.fixture
async def working(app: Windlass) -> AsyncIterator[Windlass]:
    stop = asyncio.Event()
    task = asyncio.create_task(app.work(WorkerOptions(allow_commands=True), stop=stop))
    yield app
    stop.set()
    await task


async def ended(conn: "asyncpg.Connection[Any]", id_: UUID) -> tuple[str, str | None]:
    async def look() -> tuple[str, str | None] | None:
        row = await conn.fetchrow("select status, last_error from workflow.workflow_run where id = $1", id_)
        return None if row is None or row["status"] in ("pending", "leased") else (row["status"], row["last_error"])

    return await eventually(look, seconds=60)


@pytest.mark.parametrize("queue", ["default", "sql", "windlass"])
async def test_a_command_job_that_the_engine_did_not_create_is_not_executed(
    working: Windlass, conn: "asyncpg.Connection[Any]", tmp_path: Path, queue: str
) -> None:
    """The owner of the tables bypasses every check with this insert: the handler itself refuses the job."""
    proof = tmp_path / "proof"
    payload = json.dumps({"run": f"id > {proof}", "input": {}, "runs_on": "local"})
    await conn.execute("set session_replication_role = replica")  # no triggers
    id_ = await conn.fetchval(
        "insert into workflow.workflow_run (type, payload, queue) values ('windlass.command.v1', $1, $2) returning id",
        payload, queue,
    )  # fmt: skip
    status, error = await ended(conn, id_)
    assert (status, proof.exists()) == ("failed", False)
    assert "windlass.command.v1 is reserved for `run` steps of workflows" in str(error)


async def test_a_delivery_is_made_only_for_the_org_of_its_job(app: Windlass, conn: "asyncpg.Connection[Any]") -> None:
    db = await app.open()
    made, _ = await subscriptions.create(db, {"url": "https://hooks.example/x", "events": ["job.*"]})
    row = "insert into workflow.workflow_run (type, payload, org) values ('a.b.v1', '{}', $1) returning id"
    mine, foreign = [await conn.fetchval(row, org) for org in ("default", "other")]
    assert await subscriptions.target(db, made.id, job=mine) is not None
    assert await subscriptions.target(db, made.id, job=foreign) is None

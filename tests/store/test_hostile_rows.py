"""Unusual values in rows of plain SQL do not prevent other rows from being claimed, fetched or released."""

import json
from datetime import timedelta
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from tests.engine.harness import begin, node
from windlass.core.jobs.spec import MAX_LEASE, JobSpec
from windlass.engine import upkeep
from windlass.engine.database import Tenant
from windlass.engine.jobs import control as jobs
from windlass.engine.upkeep import UpkeepResult
from windlass.engine.workers import remote, turn
from windlass.engine.workers.remote import Fetch
from windlass.errors import Invalid
from windlass.store.claims import Lane
from windlass.testing import Clock

Connection = Any
LEASE = timedelta(seconds=30)
SUBMIT = "select windlass.submit('a.b.v1', queue => 'default', {field} => {value})"


async def stored(conn: Connection, **columns: Any) -> UUID:
    """Insert a row with triggers disabled, like one that was written before the bounds existed."""
    given = {"type": "a.b.v1", "payload": "{}", "queue": "default", **columns}
    values = ", ".join(value if name in columns else f"'{value}'" for name, value in given.items())
    await conn.execute("set session_replication_role = replica")
    id_: UUID = await conn.fetchval(
        f"insert into workflow.workflow_run ({', '.join(given)}) values ({values}) returning id"
    )
    await conn.execute("set session_replication_role = origin")
    return id_


async def fetched(db: Tenant, count: int = 10) -> list[UUID]:
    [found] = await remote.fetch(db, [Fetch(queues=["default"], count=count, worker="w")])
    return [job.id for job in found]


async def claimed(db: Tenant) -> list[UUID]:
    lanes = [(lane, 10) for lane in await turn.look(db, ["default"])]
    lanes = [(Lane(lane.queue, lane.type, lane.priority, 0, lane.alone), room) for lane, room in lanes]
    found, _ = await turn.turn(db, turn.Turn(worker="w", lease=LEASE, lanes=lanes, count=10))
    return [job.id for job in found]


HOSTILE = {
    "a timeout beyond all calendars": {"timeout": "interval '170000000 years'"},
    "a timeout no timedelta holds": {"timeout": "interval '3000000 years'"},
    "a visibility beyond all calendars": {"visibility": "interval '170000000 years'"},
    "a birth in the year 200000": {"created_at": "timestamptz '200000-01-01'"},
    "a birth before our era": {"created_at": "timestamptz '0044-03-15 BC'"},
    "a due time before our era": {"run_at": "timestamptz '0044-03-15 BC'"},
    "an expiry in the year 200000": {"expires_at": "timestamptz '200000-01-01'"},
}


@pytest.mark.parametrize("columns", HOSTILE.values(), ids=HOSTILE.keys())
async def test_a_stored_row_with_extreme_times_is_claimed_like_any_other(
    db: Tenant, conn: Connection, columns: dict[str, str]
) -> None:
    bad = await stored(conn, **columns)
    [good] = await jobs.submit(db, [JobSpec(type="c.d.v1")])
    assert set(await claimed(db)) == {bad, good}


@pytest.mark.parametrize("columns", HOSTILE.values(), ids=HOSTILE.keys())
async def test_a_stored_row_with_extreme_times_is_fetched_like_any_other(
    db: Tenant, conn: Connection, columns: dict[str, str]
) -> None:
    bad = await stored(conn, **columns)
    [good] = await jobs.submit(db, [JobSpec(type="c.d.v1")])
    assert set(await fetched(db)) == {bad, good}


async def test_a_job_with_an_infinite_timeout_is_claimed_and_fetched(db: Tenant, conn: Connection) -> None:
    if conn.get_server_version().major < 17:
        pytest.skip("intervals have no infinity before Postgres 17")
    bad = await stored(conn, timeout="interval 'infinity'")
    assert await claimed(db) == [bad]
    other = await stored(conn, timeout="interval 'infinity'")
    assert await fetched(db) == [other]


@pytest.mark.parametrize("payload", ["[1e5000]", "[" * 3000 + "]" * 3000], ids=["a huge number", "great depth"])
async def test_a_payload_that_python_cannot_decode_does_not_block_a_fetch(
    db: Tenant, conn: Connection, payload: str
) -> None:
    await stored(conn, payload=f"'{payload}'", priority="1")
    good = await jobs.submit(db, [JobSpec(type="a.b.v1")] * 3)
    assert (await fetched(db))[-3:] == good


async def test_a_row_of_an_unknown_version_is_set_aside_and_the_others_are_fetched(
    db: Tenant, clock: Clock, conn: Connection
) -> None:
    clock.move(timedelta())
    bad = await stored(conn, version_id="4711", step="0", run_id="gen_random_uuid()", priority="1")
    good = await jobs.submit(db, [JobSpec(type="a.b.v1")] * 3)
    assert await fetched(db) == good
    row = await conn.fetchrow("select * from workflow.workflow_run where id = $1", bad)
    assert (row["status"], row["due"], row["leased_by"], row["attempt"]) == ("pending", False, None, 0)
    assert row["last_error"] == "the version of its workflow cannot be read by this process"
    assert json.loads(row["errors"])[0]["type"] == "Unreadable"
    assert await fetched(db) == []
    clock.move(timedelta(minutes=2))
    [later] = await jobs.submit(db, [JobSpec(type="a.b.v1")])
    assert await fetched(db) == [later]  # it was tried again, and is set aside again


async def test_only_a_job_of_an_unknown_version_or_step_has_no_step_name(db: Tenant, conn: Connection) -> None:
    run = await begin(db, node("a"))
    version = await conn.fetchval("select version_id from windlass.run where id = $1", run)
    await stored(conn, version_id="4711", step="0", run_id="gen_random_uuid()")
    await stored(conn, version_id=str(version), step="7", run_id="gen_random_uuid()")
    page = await jobs.list_(db)
    assert len(page.jobs) == 3
    assert list((await jobs.steps(db, page.jobs)).values()) == ["a"]


async def test_an_invalid_retry_policy_does_not_stop_lease_recovery(db: Tenant, clock: Clock, conn: Connection) -> None:
    clock.move(timedelta(hours=1))
    lost = {"status": "'leased'", "leased_by": "'dead'", "claim_no": "1", "lease_until": "now() - interval '1 minute'"}
    bad = await stored(conn, retry="""'{"kind": "constant", "dead_letter": "maybe"}'""", max_attempts="1", **lost)
    endless = await stored(conn, max_attempts="2147483647", **{**lost, "queue": "'sql'"})
    good = [await stored(conn, **lost) for _ in range(5)]
    assert await upkeep.release_expired(db) == UpkeepResult(released=6, failed=1)
    rows = await conn.fetch("select id, status, dead_letter from workflow.workflow_run")
    assert {row["id"]: row["status"] for row in rows} == {
        bad: "failed",
        endless: "pending",
        **dict.fromkeys(good, "pending"),
    }
    assert {row["id"]: row["dead_letter"] for row in rows}[bad] is False


async def test_a_dead_letter_policy_applies_when_the_last_lease_is_lost(
    db: Tenant, clock: Clock, conn: Connection
) -> None:
    clock.move(timedelta(hours=1))
    lost = {"status": "'leased'", "leased_by": "'dead'", "lease_until": "now() - interval '1 minute'"}
    await stored(conn, retry="""'{"kind": "constant", "dead_letter": true}'""", max_attempts="1", **lost)
    await upkeep.release_expired(db)
    assert await conn.fetchval("select dead_letter from workflow.workflow_run") is True


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("timeout", "interval '170000000 years'"),
        ("timeout", "interval '102 years'"),
        ("retry", """'{"kind": "constant", "dead_letter": "maybe"}'"""),
        ("max_attempts", "2147483647"),
        ("run_at", "timestamptz '200000-01-01'"),
    ],
)
async def test_submit_rejects_values_out_of_bounds_and_names_the_field(
    conn: Connection, field: str, value: str
) -> None:
    with pytest.raises(asyncpg.CheckViolationError, match=rf"^{field}\b"):
        await conn.execute(SUBMIT.format(field=field, value=value))
    assert await conn.fetchval("select count(*) from workflow.workflow_run") == 0


@pytest.mark.parametrize("field", ["created_at", "updated_at", "expires_at", "priority", "attempt", "visibility"])
async def test_a_plain_insert_has_the_same_bounds(conn: Connection, field: str) -> None:
    value = {"priority": "2147483647", "attempt": "-1", "visibility": "interval '102 years'"}.get(
        field, "timestamptz '200000-01-01'"
    )
    with pytest.raises(asyncpg.CheckViolationError, match=rf"^{field} is "):
        await conn.execute(
            f"insert into workflow.workflow_run (type, payload, {field}) values ('a.b', '{{}}', {value})"
        )


async def test_a_job_may_wait_until_it_is_activated(conn: Connection) -> None:
    await conn.execute("insert into workflow.workflow_run (type, payload, run_at) values ('a.b', '{}', 'infinity')")
    assert await conn.fetchval("select due from workflow.workflow_run") is False


async def test_python_rejects_durations_over_the_maximum(db: Tenant) -> None:
    long: dict[str, Any] = {"timeout": timedelta(days=150_000_000), "visibility": MAX_LEASE + timedelta(seconds=1)}
    for field in long:
        spec = JobSpec(type="a.b.v1", **{field: long[field]})
        with pytest.raises(Invalid, match=f"^{field} is .*: the longest is ") as refused:
            await jobs.submit(db, [spec])
        assert refused.value.field == field


async def test_the_length_of_a_lease_is_limited(db: Tenant, conn: Connection) -> None:
    with pytest.raises(Invalid, match="visibility_timeout_ms"):
        Fetch(queues=["default"], count=1, worker="w", lease=timedelta(days=36_500))
    with pytest.raises(Invalid, match="visibility_timeout_ms"):
        await remote.heartbeat(db, "w", [], lease=timedelta(days=36_500))
    await stored(conn, visibility="interval '100 years'")
    assert len(await fetched(db)) == 1
    assert await conn.fetchval("select lease_until <= now() + interval '7 days' from workflow.workflow_run")

"""Claiming, fencing and releasing: no two workers hold a job, and lanes keep their order."""

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import product
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from windlass.core.jobs.job import Claimed, JobMove, Setback, Success, spent
from windlass.store import claims, jobs, steps
from windlass.store.claims import Lane

LEASE = timedelta(seconds=30)
Connection = Any


async def insert(conn: Connection, count: int = 1, **columns: Any) -> list[UUID]:
    """Insert rows one by one, as plain SQL does, and return their ids."""
    given = {"type": "a.b.v1", "payload": "{}", "queue": "default", **columns}
    names, marks = ", ".join(given), ", ".join(f"${n}" for n in range(1, len(given) + 1))
    statement = f"insert into workflow.workflow_run ({names}) values ({marks}) returning id"
    return [await conn.fetchval(statement, *given.values()) for _ in range(count)]


async def lanes(conn: Connection, queues: list[str] | None = None) -> list[Lane]:
    return [replace(lane, seq=lane.seq - 1) for lane in await claims.find_lanes(conn, queues or ["default", "sql"])]


async def claim(
    conn: Connection, count: int = 10, worker: str = "w1", queues: list[str] | None = None
) -> list[Claimed]:
    offered = [(lane, count) for lane in await lanes(conn, queues)]
    claimed, _ = await claims.claim(conn, offered, count=count, worker=worker, lease=LEASE)
    return claimed


async def row(conn: Connection, id_: UUID) -> dict[str, Any]:
    return dict(await conn.fetchrow("select * from workflow.workflow_run where id = $1", id_))


async def jump(conn: Connection, by: timedelta = timedelta(hours=1)) -> None:
    """Move this session's windlass.now()."""
    await conn.execute("select set_config('windlass.now', (windlass.now() + $1::interval)::text, false)", by)


@pytest.fixture
async def others(database: str) -> AsyncIterator[list[Connection]]:
    opened = [await asyncpg.connect(database) for _ in range(8)]
    yield opened
    for other in opened:
        await other.close()


async def test_two_claimers_never_share_a_job(conn: Connection, others: list[Connection]) -> None:
    await conn.execute("""insert into workflow.workflow_run (type, payload, queue, priority)
      select 'type' || n % 5, '{}', 'default', n % 3 from generate_series(1, 2000) n""")

    async def take_all(other: Connection, worker: str) -> list[UUID]:
        taken: list[UUID] = []
        while some := await claim(other, 17, worker):
            taken += [job.id for job in some]
        return taken

    taken = await asyncio.gather(*(take_all(other, f"w{n}") for n, other in enumerate(others)))
    ids = [id_ for some in taken for id_ in some]
    ids += [job.id for job in await claim(conn, 2000)]  # a session that found every row locked may have stopped early
    assert len(ids) == len(set(ids)) == 2000
    for n, some in enumerate(taken):
        held = "select count(*) from workflow.workflow_run where leased_by = $1 and claim_no = 1"
        assert await conn.fetchval(held, f"w{n}") == len(some)
    events = "select count(*) from workflow.workflow_event where event_type = 'leased'"
    assert await conn.fetchval(events) == 2000


async def test_a_claim_returns_all_data_that_a_worker_needs(conn: Connection) -> None:
    [id_] = await insert(conn, payload='{"n": 1}', priority=5, meta='{"trace": "x"}', timeout=timedelta(minutes=1))
    [job] = await claim(conn)
    assert (job.id, job.type, job.queue, job.priority) == (id_, "a.b.v1", "default", 5)
    assert (json.loads(job.payload), json.loads(job.meta or "")) == ({"n": 1}, {"trace": "x"})
    assert (job.claim_no, job.number, job.timeout) == (1, 1, timedelta(minutes=1))
    now = await row(conn, id_)
    assert (now["status"], now["leased_by"], now["claim_no"], now["attempt"]) == ("leased", "w1", 1, 0)
    assert LEASE - timedelta(seconds=5) < now["lease_until"] - datetime.now(UTC) <= LEASE


async def test_jobs_are_claimed_by_priority_and_then_by_age(conn: Connection) -> None:
    late = await insert(conn, 2, priority=200)
    first = await insert(conn, 2)
    urgent = await insert(conn, 2, priority=-5)
    second = await insert(conn, 1)
    assert [job.id for job in await claim(conn)] == [*urgent, *first, *second, *late]


async def test_single_claims_keep_the_order_across_types_and_queues(conn: Connection) -> None:
    ids = [(await insert(conn, type=f"t{n % 3}.x.v1", queue=("default", "sql")[n % 2]))[0] for n in range(12)]
    assert [(await claim(conn, 1))[0].id for _ in ids] == ids


async def test_a_claim_is_limited_by_its_count_and_by_the_room_of_each_lane(conn: Connection) -> None:
    await insert(conn, 5)
    await insert(conn, 5, type="c.d.v1")
    assert len(await claim(conn, 3)) == 3
    rooms = [(lane, 1) for lane in await lanes(conn)]
    claimed, _ = await claims.claim(conn, rooms, count=9, worker="w", lease=LEASE)
    assert sorted(job.type for job in claimed) == ["a.b.v1", "c.d.v1"]
    assert await claims.claim(conn, [], count=9, worker="w", lease=LEASE) == ([], set())
    assert await claims.claim(conn, rooms, count=0, worker="w", lease=LEASE) == ([], set())


async def test_scheduled_deleted_and_unrequested_jobs_are_not_claimed(conn: Connection) -> None:
    await insert(conn, run_at=datetime.now(UTC) + timedelta(hours=1))
    await insert(conn, deleted_at=datetime.now(UTC))
    await insert(conn, queue="elsewhere")
    [hidden_later] = await insert(conn)
    offered = [(lane, 9) for lane in await lanes(conn)]
    await jobs.soft_delete(conn, [hidden_later], org="default")
    assert await claims.claim(conn, offered, count=9, worker="w1", lease=LEASE) == ([], set())
    assert await claim(conn) == []
    assert [job.queue for job in await claim(conn, queues=["elsewhere"])] == ["elsewhere"]


async def test_the_cursor_skips_the_jobs_before_it(conn: Connection) -> None:
    await insert(conn, 3)
    [lane] = await lanes(conn)
    middle = replace(lane, seq=lane.seq + 2)
    assert len((await claims.claim(conn, [(middle, 9)], count=9, worker="w1", lease=LEASE))[0]) == 1


async def test_a_full_scan_returns_each_lane_once_by_priority_and_age(conn: Connection) -> None:
    await insert(conn, 3, type="b.x.v1")
    await insert(conn, 3, type="a.x.v1")
    await insert(conn, 3, type="a.x.v1", priority=1)
    await insert(conn, 3, queue="other")
    found = await claims.find_lanes(conn, ["default", "sql"])
    assert [(lane.type, lane.priority) for lane in found] == [("a.x.v1", 1), ("b.x.v1", 100), ("a.x.v1", 100)]
    heads = "select min(seq) from workflow.workflow_run where queue = 'default' group by type, priority"
    assert {lane.seq for lane in found} == {r[0] for r in await conn.fetch(heads)}


@pytest.mark.parametrize("move", [JobMove.RETRY, JobMove.FAIL, JobMove.RELEASE])
async def test_the_fence_rejects_a_report_after_a_lost_lease(conn: Connection, move: JobMove) -> None:
    [id_] = await insert(conn, max_attempts=9)
    [zombie] = await claim(conn)
    await jump(conn)
    await jobs.release_expired(conn, 10, actor="upkeep")
    setback = Setback(zombie, move, {"message": "late"}, timedelta())

    async def reports() -> set[UUID]:
        told = await jobs.succeed(conn, [Success(zombie, '"late"')], worker="w1")
        told |= set(await jobs.set_back(conn, [setback], worker="w1"))
        return told | {held.job_id for held in await jobs.heartbeat(conn, [zombie.fence], worker="w1", lease=LEASE)}

    before = await row(conn, id_)
    assert await reports() == set()
    assert await row(conn, id_) == before
    [again] = await claim(conn)  # the same worker, a new lease
    before = await row(conn, id_)
    assert await reports() == set()
    assert await jobs.held(conn, [zombie.fence], worker="w1") == []
    assert await row(conn, id_) == before
    assert await jobs.succeed(conn, [Success(again, "1")], worker="another") == set()
    assert await jobs.succeed(conn, [Success(again, "1")], worker="w1") == {id_}
    assert await jobs.succeed(conn, [Success(again, "2")], worker="w1") == set()
    assert (await row(conn, id_))["result"] == "1"


async def test_the_fence_rejects_a_report_of_a_cancelled_job(conn: Connection) -> None:
    [id_] = await insert(conn)
    [job] = await claim(conn)
    assert await jobs.held(conn, [job.fence], worker="w1") == [(*job.fence, False, False)]
    await jobs.cancel(conn, [id_], org="default", actor="ada", reason=None)
    assert await jobs.held(conn, [job.fence], worker="w1") == []
    assert await jobs.succeed(conn, [Success(job, "1")], worker="w1") == set()
    assert (await row(conn, id_))["status"] == "cancelled"


async def test_a_report_moves_the_row_and_clears_the_lease(conn: Connection) -> None:
    ids = await insert(conn, 4)
    won, tried, lost, back = await claim(conn)
    error = {"type": "ValueError", "message": "boom"}
    setbacks = [
        Setback(tried, JobMove.RETRY, error, timedelta(minutes=1)),
        Setback(lost, JobMove.FAIL, error, timedelta()),
        Setback(back, JobMove.RELEASE, None, timedelta()),
    ]
    await jobs.succeed(conn, [Success(won, '{"ok": true}')], worker="w1")
    told = dict(zip(ids[1:], ("pending", "failed", "pending"), strict=True))
    assert await jobs.set_back(conn, setbacks, worker="w1") == told
    rows = [await row(conn, id_) for id_ in ids]
    assert [(r["status"], r["attempt"], r["due"]) for r in rows] == [
        ("succeeded", 0, True),
        ("pending", 1, False),
        ("failed", 1, True),
        ("pending", 0, True),
    ]
    assert {(r["leased_by"], r["lease_until"]) for r in rows} == {(None, None)}
    assert [r["last_error"] for r in rows] == [None, "boom", "boom", None]
    assert timedelta(seconds=50) < rows[1]["run_at"] - datetime.now(UTC) < timedelta(seconds=61)


async def test_every_return_to_pending_puts_a_job_at_the_end_of_its_queue(conn: Connection) -> None:
    retried, released, _expired, reopened = ids = await insert(conn, 4)
    claimed = {job.id: job for job in await claim(conn)}
    first = {id_: (await row(conn, id_))["seq"] for id_ in ids}
    await insert(conn)
    last = max(first.values()) + 1
    setbacks = [
        Setback(claimed[retried], JobMove.RETRY, {"message": "x"}, timedelta()),
        Setback(claimed[released], JobMove.RELEASE, None, timedelta()),
    ]
    await jobs.set_back(conn, setbacks, worker="w1")
    await jobs.cancel(conn, [reopened], org="default", actor="ada", reason=None)
    await jobs.reopen(conn, [reopened], org="default", actor="ada")
    await jump(conn)
    await jobs.release_expired(conn, 10, actor="upkeep")
    for id_ in ids:
        back = await row(conn, id_)
        assert (back["status"], back["due"]) == ("pending", True)
        assert back["seq"] > last


async def test_release_expired_agrees_with_the_rule_in_core(conn: Connection) -> None:
    grid = [*product(range(5), range(8), range(1, 5), ("sql", "default"))]
    await conn.executemany(
        """insert into workflow.workflow_run
             (type, payload, status, leased_by, lease_until, attempt, lost, max_attempts, queue)
           values ('a.b.v1', '{}', 'leased', 'gone', now(), $1, $2, $3, $4)""",
        grid,
    )
    await jump(conn)
    freed = await jobs.release_expired(conn, 10_000, actor="upkeep")
    assert len(freed) == len(grid)
    for found in await conn.fetch("select * from workflow.workflow_run"):
        counts = found["attempt"], found["lost"], found["max_attempts"], found["queue"]
        assert (found["status"] == "failed") is spent(*counts), counts
        assert found["leased_by"] is None
        assert "gone fell silent" in found["last_error"]


async def test_only_expired_leases_are_released_and_only_one_batch_at_a_time(conn: Connection) -> None:
    await insert(conn, 5)
    await claim(conn)
    assert await jobs.release_expired(conn, 10, actor="upkeep") == []
    await jump(conn)
    assert [len(await jobs.release_expired(conn, 2, actor="upkeep")) for _ in range(4)] == [2, 2, 1, 0]


async def test_no_lease_is_released_in_the_first_seconds_after_a_server_start(conn: Connection) -> None:
    await insert(conn)
    await claim(conn)
    await conn.execute("update workflow.workflow_run set lease_until = pg_postmaster_start_time()")
    for seconds, released in ((1, 0), (4, 0), (6, 1)):
        moved = "select set_config('windlass.now', (pg_postmaster_start_time() + $1::interval)::text, false)"
        await conn.execute(moved, timedelta(seconds=seconds))
        assert len(await jobs.release_expired(conn, 10, actor="upkeep")) == released


async def test_the_last_ten_errors_are_kept(conn: Connection) -> None:
    [id_] = await insert(conn, max_attempts=100)
    for n in range(13):
        [job] = await claim(conn)
        assert job.number == n + 1
        if n % 2:
            await jump(conn)
            await jobs.release_expired(conn, 10, actor="upkeep")
        else:
            error = {"type": "ValueError", "message": f"boom {n + 1}"}
            await jobs.set_back(conn, [Setback(job, JobMove.RETRY, error, timedelta())], worker="w1")
    errors = json.loads((await row(conn, id_))["errors"])
    assert [error["attempt"] for error in errors] == [*range(4, 14)]
    assert [error["type"] for error in errors] == ["LeaseLost", "ValueError"] * 5
    assert errors[-1]["message"] == "boom 13"
    assert datetime.fromisoformat(errors[-1]["at"]) <= await conn.fetchval("select windlass.now()")


async def test_scheduled_jobs_become_due_in_the_order_of_their_time(conn: Connection) -> None:
    hours = [5, 1, 4, 2, 3]
    ids = [(await insert(conn, run_at=datetime.now(UTC) + timedelta(hours=hour)))[0] for hour in hours]
    assert await claim(conn) == []
    assert timedelta(minutes=59) < ((await steps.next_due(conn))[0] or timedelta()) <= timedelta(hours=1)
    soon = datetime.now(UTC) + timedelta(hours=4, minutes=30)
    await conn.execute("select set_config('windlass.now', $1, false)", soon.isoformat())
    assert [await jobs.become_due(conn, 3), await jobs.become_due(conn, 3)] == [["default"] * 3, ["default"]]
    assert [job.id for job in await claim(conn)] == [ids[hours.index(hour)] for hour in (1, 2, 3, 4)]
    assert await jobs.become_due(conn, 3) == []


async def test_depth_counts_due_jobs_and_live_includes_leased_jobs(conn: Connection) -> None:
    await insert(conn, 3)
    await insert(conn, 2, priority=1)
    await insert(conn, 1, type="c.d.v1")
    await insert(conn, 1, run_at=datetime.now(UTC) + timedelta(hours=1), type="later.x.v1")
    assert sorted(await jobs.depth(conn, cap=100)) == [("default", "a.b.v1", 5), ("default", "c.d.v1", 1)]
    assert sorted(await jobs.depth(conn, cap=2)) == [("default", "a.b.v1", 4), ("default", "c.d.v1", 1)]
    await claim(conn, 6)
    assert await jobs.depth(conn, cap=100) == []
    assert sorted(await jobs.live(conn)) == [("default", "a.b.v1"), ("default", "c.d.v1")]


@pytest.mark.parametrize("created", ["now()", "now() + interval '2 hours'"])
async def test_a_row_of_plain_sql_is_not_due_before_its_run_at_regardless_of_created_at(
    conn: Connection, created: str
) -> None:
    statement = f"""insert into workflow.workflow_run (type, payload, run_at, created_at)
      values ('a.b.v1', '{{}}', now() + interval '1 hour', {created}) returning due"""
    assert await conn.fetchval(statement) is False
    assert await claim(conn) == []

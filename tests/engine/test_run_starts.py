"""Starting runs: inputs, keys, errors, many runs in one call, and starts in the transaction of the caller."""

import asyncio
from datetime import timedelta
from typing import Any

import asyncpg
import pytest

from tests.engine.harness import ManualWorker, begin, events_of, letters, node, publish, state
from windlass.core.workflows.step import JobAction, Parallel
from windlass.engine import workflows
from windlass.engine.database import Tenant
from windlass.engine.runs import control as runs
from windlass.engine.runs import search, start
from windlass.engine.runs.start import RunSpec
from windlass.errors import Conflict, Invalid, NotFound
from windlass.store.postgres.pool import DatabaseOptions
from windlass.testing import Clock

Connection = Any
WRITERS = """select xmin::text, count(*) as rows from (
  select xmin from windlass.run union all select xmin from windlass.event
  union all select xmin from workflow.workflow_run union all select xmin from workflow.workflow_event) as written
 group by 1 order by 2"""
COUNT = "select (select count(*) from windlass.run), (select count(*) from workflow.workflow_run)"


async def counted(conn: Connection) -> tuple[int, int]:
    """Return the numbers of runs and of jobs."""
    row = await conn.fetchrow(COUNT)
    return row[0], row[1]


async def test_a_run_starts_immediately_with_its_input_and_the_jobs_of_its_root_steps(
    db: Tenant, conn: Connection
) -> None:
    run = await begin(db, node("a"), node("b"), node("c", "a"), input={"n": 1})
    row = await runs.get(db, run)
    assert (row.workflow, row.version, row.state, row.letters, row.input) == ("w", 1, "running", "aa.", {"n": 1})
    assert row.started_at == row.created_at
    assert row.finished_at is None
    assert row.expires_at - row.created_at == timedelta(days=30)
    assert await events_of(db, run) == ["running"]
    jobs = await conn.fetch("select type, run_id, step, item, items, settled from workflow.workflow_run order by step")
    assert [tuple(job) for job in jobs] == [
        ("test.a.v1", run, 0, 0, None, False),
        ("test.b.v1", run, 1, 0, None, False),
    ]


@pytest.mark.parametrize("value", [{}, [], "text", 0, False, None, {"deep": [{"er": None}]}])
async def test_any_json_can_be_the_input(db: Tenant, value: Any) -> None:
    await publish(db, node("a"))
    [run] = await start.start(db, "w", [RunSpec(input=value)])
    assert (await runs.get(db, run)).input == value


async def test_labels_of_a_run_override_those_of_its_workflow(db: Tenant) -> None:
    await publish(db, node("a"), labels={"team": "red", "tier": "1"})
    plain, labelled = await begin(db), await begin(db, labels={"tier": "2", "who": "ada"})
    assert (await runs.get(db, plain)).labels == {"team": "red", "tier": "1"}
    assert (await runs.get(db, labelled)).labels == {"team": "red", "tier": "2", "who": "ada"}
    found = await search.list_(db, labels={"tier": "2"})
    assert [row.id for row in found.runs] == [labelled]


async def test_a_run_can_have_its_own_max_duration(db: Tenant) -> None:
    await publish(db, node("a"), max_duration=timedelta(hours=2))
    mixed = [RunSpec(), RunSpec(max_duration=timedelta(minutes=5)), RunSpec()]
    rows = [await runs.get(db, run) for run in await start.start(db, "w", mixed)]
    assert [(row.expires_at - row.created_at).total_seconds() for row in rows] == [7200, 300, 7200]


async def test_a_run_without_work_completes_as_it_starts(db: Tenant) -> None:
    run = await begin(db, node("a", fan_out=Parallel(0)))
    row = await runs.get(db, run)
    assert (row.state, row.letters) == ("completed", "s")
    assert row.finished_at is not None  # else it would never be pruned
    assert (await events_of(db, run))[-1] == "completed"


# Keys


async def test_a_known_key_returns_the_existing_run(db: Tenant, conn: Connection) -> None:
    await publish(db, node("a"))
    first = await begin(db, idempotency_key="k", input={"n": 1})
    assert await begin(db, idempotency_key="k", input={"n": 2}) == first
    assert (await runs.get(db, first)).input == {"n": 1}
    assert await counted(conn) == (1, 1)


async def test_a_key_stays_taken_when_its_run_has_ended(db: Tenant) -> None:
    first = await begin(db, node("a"), idempotency_key="k")
    await (await ManualWorker.registered(db)).play()
    assert await state(db, first) == "completed"
    assert await begin(db, idempotency_key="k") == first


async def test_a_repeated_key_in_a_batch_starts_one_run(db: Tenant, conn: Connection) -> None:
    await publish(db, node("a"))
    old = await begin(db, idempotency_key="old")
    specs = [RunSpec(idempotency_key=key) for key in ("k", None, "k", "old", None, "k")]
    ids = await start.start(db, "w", specs)
    assert ids[0] == ids[2] == ids[5]
    assert ids[3] == old
    assert len(set(ids)) == 4
    assert await counted(conn) == (4, 4)


async def test_concurrent_starts_with_the_same_key_start_one_run(db: Tenant, conn: Connection) -> None:
    await publish(db, node("a"))
    ids = await asyncio.gather(*(begin(db, idempotency_key="k") for _ in range(8)))
    assert len(set(ids)) == 1
    assert await counted(conn) == (1, 1)


async def test_batches_with_the_same_keys_in_any_order_do_not_deadlock(db: Tenant, conn: Connection) -> None:
    await publish(db, node("a"))
    for trial in range(5):
        keys = [f"{trial}-{n}" for n in range(300)]
        batches = [[RunSpec(idempotency_key=key) for key in some] for some in (keys, keys[::-1])]
        there, back = await asyncio.gather(*(start.start(db, "w", batch) for batch in batches))
        assert there == back[::-1]
    assert await counted(conn) == (1500, 1500)


async def test_the_same_key_in_another_org_is_another_run(db: Tenant, database: str, clock: Clock) -> None:
    await publish(db, node("a"))
    other = await Tenant.open(DatabaseOptions(url=database, clock=clock.now), org="other")
    await publish(other, node("a"))
    run = await begin(db, idempotency_key="k")
    assert await begin(other, idempotency_key="k") != run
    with pytest.raises(NotFound):
        await runs.get(other, run)
    with pytest.raises(NotFound):
        await runs.cancel(other, run)
    await other.close()


# Refusals


async def test_the_error_for_an_unknown_workflow_suggests_a_similar_name(db: Tenant) -> None:
    await publish(db, node("a"), name="order-processing")
    with pytest.raises(NotFound, match="no workflow order-procesing: did you mean order-processing"):
        await begin(db, name="order-procesing")


async def test_the_error_for_a_disabled_workflow_contains_the_command_that_enables_it(
    db: Tenant, conn: Connection
) -> None:
    await publish(db, node("a"))
    await workflows.enable(db, "w", False)
    with pytest.raises(Conflict, match="workflow 'w' is disabled: windlass workflows enable w"):
        await begin(db)
    assert await counted(conn) == (0, 0)
    await workflows.enable(db, "w")
    await begin(db)


async def test_a_deleted_workflow_is_unknown(db: Tenant) -> None:
    await publish(db, node("a"))
    await workflows.delete(db, "w")
    with pytest.raises(NotFound, match="no workflow w"):
        await begin(db)


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        ({"max_duration": timedelta()}, "max_duration must be positive"),
        ({"idempotency_key": ""}, "idempotency_key"),
        ({"labels": {"a": 1}}, "labels.a"),
        ({"labels": {str(n): "x" for n in range(65)}}, "labels is not a mapping of up to 64 strings"),
        ({"input": float("nan")}, "input"),
        ({"input": "\x00"}, "input"),
        ({"input": "x" * 1_100_000}, "input is 1100002 bytes, the limit is 1048576"),
    ],
)
async def test_an_invalid_start_is_refused_with_its_field(
    db: Tenant, conn: Connection, spec: dict[str, Any], sentence: str
) -> None:
    await publish(db, node("a"))
    with pytest.raises(Invalid, match=sentence):
        await start.start(db, "w", [RunSpec(), RunSpec(**spec)])
    assert await counted(conn) == (0, 0)


# Batches


async def test_a_batch_of_runs_starts_in_the_requested_order(db: Tenant, conn: Connection) -> None:
    await publish(db, node("a"), node("b", "a"))
    ids = await start.start(db, "w", [RunSpec(input=n) for n in range(1000)])
    assert await counted(conn) == (1000, 1000)
    rows = dict(await conn.fetch("select id, input from windlass.run"))
    assert [rows[id_] for id_ in ids] == [str(n) for n in range(1000)]


async def test_a_batch_may_be_empty_but_not_exceed_the_limit(db: Tenant) -> None:
    await publish(db, node("a"))
    assert await start.start(db, "w", []) == []
    with pytest.raises(Invalid, match="10001 runs in one call, the limit is 10000: start in batches"):
        await start.start(db, "w", [RunSpec()] * 10_001)


@pytest.mark.parametrize("value", [1, "{{trigger.body.n}}"], ids=["one statement", "several"])
async def test_one_transaction_writes_all_that_a_batch_of_starts_creates(
    db: Tenant, conn: Connection, value: object
) -> None:
    await publish(db, node("a", action=JobAction("test.a.v1", {"n": value})))
    await start.start(db, "w", [RunSpec(input={"n": 0})])  # reads the limits of the org
    await start.start(db, "w", [RunSpec(input={"n": n}) for n in range(3)])
    rows = [row["rows"] for row in await conn.fetch(WRITERS)]
    assert rows == [4, 12]  # for each run the run, its job, and an event of both


# The caller's transaction


async def test_a_start_in_the_callers_transaction_is_rolled_back_with_it(db: Tenant, conn: Connection) -> None:
    await publish(db, node("a"))
    transaction = conn.transaction()
    await transaction.start()
    await start.start(db, "w", [RunSpec()], connection=conn)
    assert await counted(conn) == (1, 1)
    await transaction.rollback()
    assert await counted(conn) == (0, 0)


async def test_a_start_in_the_callers_transaction_is_visible_after_its_commit(
    db: Tenant, conn: Connection, database: str
) -> None:
    await publish(db, node("a"))
    other: Connection = await asyncpg.connect(database)
    async with other.transaction():
        [run] = await start.start(db, "w", [RunSpec()], connection=other)
        assert await counted(conn) == (0, 0)
    await other.close()
    assert await letters(db, run) == "a"
    await (await ManualWorker.registered(db)).play()
    assert await state(db, run) == "completed"


async def test_a_concurrently_taken_key_leaves_no_partial_start_in_the_callers_transaction(
    db: Tenant, conn: Connection, database: str
) -> None:
    """The key does not exist when it is read, and does when it is written."""
    await publish(db, node("a"))
    rival: Connection = await asyncpg.connect(database)
    held = rival.transaction()
    await held.start()
    [taken] = await start.start(db, "w", [RunSpec(idempotency_key="k")], connection=rival)
    async with conn.transaction():
        specs = [RunSpec(), RunSpec(idempotency_key="k")]
        asked = asyncio.create_task(start.start(db, "w", specs, connection=conn))
        async with asyncio.timeout(30):
            while not await rival.fetchval("select count(*) from pg_stat_activity where wait_event_type = 'Lock'"):
                await asyncio.sleep(0)
        await held.commit()
        assert (await asked)[1] == taken
    await rival.close()
    assert await counted(conn) == (2, 2)


async def test_a_refused_start_that_the_caller_handles_leaves_no_rows(db: Tenant, conn: Connection) -> None:
    await publish(db, node("a"))
    async with conn.transaction():
        with pytest.raises(Invalid, match="input"):
            await start.start(db, "w", [RunSpec(), RunSpec(input=float("nan"))], connection=conn)
        await start.start(db, "w", [RunSpec()], connection=conn)
    assert await counted(conn) == (1, 1)


async def test_a_start_on_a_connection_without_a_transaction_is_atomic(db: Tenant, conn: Connection) -> None:
    await publish(db, node("a"))
    with pytest.raises(Invalid, match="input"):
        await start.start(db, "w", [RunSpec(), RunSpec(input=float("nan"))], connection=conn)
    assert await counted(conn) == (0, 0)
    await start.start(db, "w", [RunSpec()], connection=conn)
    assert await counted(conn) == (1, 1)
    assert not conn.is_in_transaction()


async def test_a_key_of_another_workflows_run_is_refused(db: Tenant) -> None:
    await publish(db, node("a"), name="one")
    await publish(db, node("a"), name="two")
    await start.start(db, "one", [RunSpec(idempotency_key="k")])
    with pytest.raises(Conflict, match=r"'k' belongs to run .* of another workflow: use another key"):
        await start.start(db, "two", [RunSpec(idempotency_key="k")])

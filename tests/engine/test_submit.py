"""Submitting jobs, from Python and with the SQL function."""

import asyncio
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from tests.engine.job_harness import SPEC, finish, submit, take, words
from windlass import Windlass
from windlass.core.jobs.retry import Backoff, Retry
from windlass.engine.database import Tenant
from windlass.engine.jobs import control as jobs
from windlass.errors import Invalid
from windlass.settings import Settings

Connection = Any


async def count(conn: Connection) -> tuple[int, int]:
    """Return the numbers of jobs and of events in the whole database."""
    rows = await conn.fetchval("select count(*) from workflow.workflow_run")
    return rows, await conn.fetchval("select count(*) from workflow.workflow_event")


# From Python


async def test_a_submitted_job_has_the_requested_options(db: Tenant) -> None:
    at = datetime(2090, 1, 1, tzinfo=UTC)
    retry = Retry(Backoff.LINEAR, base=5)
    id_ = await submit(
        db,
        queue="other",
        priority=-7,
        run_at=at,
        max_attempts=9,
        retry=retry,
        timeout=timedelta(seconds=90),
        idempotency_key="k",
        tags=["red", "größe"],
        meta={"trace": {"id": 1}},
    )
    job = await jobs.get(db, id_)
    assert (job.type, job.payload, job.status) == ("content.thumbnail.v1", {"content_id": "c_123"}, "pending")
    assert (job.queue, job.priority, job.run_at, job.max_attempts) == ("other", -7, at, 9)
    assert (Retry.from_json(job.retry or {}), job.timeout) == (retry, timedelta(seconds=90))
    assert (job.tags, job.meta, job.idempotency_key) == (["red", "größe"], {"trace": {"id": 1}}, "default/k")
    assert (job.attempt, job.lost, job.result, job.errors, job.leased_by) == (0, 0, None, [], None)
    assert id_.version == 7
    assert await words(db, id_) == ["created"]


async def test_a_delay_counts_from_the_clock_of_the_database(db: Tenant) -> None:
    job = await jobs.get(db, await submit(db, delay=timedelta(hours=2)))
    assert job.run_at - job.created_at == timedelta(hours=2)
    assert await take(db) == []


async def test_any_json_is_a_payload(db: Tenant) -> None:
    for payload in ({}, [], [1, {"a": None}], "text", 5, 1.5, True, None, {"€": "😀", "q": '"\\'}):
        assert (await jobs.get(db, await submit(db, payload=payload))).payload == payload


async def test_a_batch_of_jobs_is_recorded_in_order(db: Tenant, conn: Connection) -> None:
    ids = await jobs.submit(db, [replace(SPEC, payload={"n": n}) for n in range(5000)])
    assert len(set(ids)) == 5000
    assert await count(conn) == (5000, 5000)
    taken = await take(db, 100)
    assert [json.loads(job.payload)["n"] for job in taken] == [*range(100)]
    assert [job.id for job in taken] == ids[:100]


async def test_jobs_of_a_batch_keep_their_own_payloads_and_options(app: Windlass) -> None:
    class Odd:
        """A value that cannot be compared, as an array of numpy."""

        def __eq__(self, other: object) -> bool:
            raise ValueError("ambiguous")

    batch: list[Any] = [
        {"type": "a.b.v1", "payload": 1, "tags": ["x"]},
        {"type": "a.b.v1", "payload": 2, "tags": ["x"]},
        {"type": "a.b.v1", "payload": 3},
        {"type": "a.b.v1"},
        replace(SPEC, payload=4),
        {"type": "c.d.v1", "payload": None, "priority": 5},
    ]
    submitted = [await app.get(id_) for id_ in await app.submit_many(batch)]
    assert [(job.type, job.payload, job.tags, job.priority) for job in submitted] == [
        ("a.b.v1", 1, ["x"], 100),
        ("a.b.v1", 2, ["x"], 100),
        ("a.b.v1", 3, [], 100),
        ("a.b.v1", {}, [], 100),
        (SPEC.type, 4, [], 100),
        ("c.d.v1", {}, [], 5),
    ]
    with pytest.raises(Invalid, match="meta"):
        await app.submit_many([{"type": "a.b.v1", "meta": {"a": Odd()}}, {"type": "a.b.v1", "meta": {"a": Odd()}}])


async def test_concurrent_submits_share_a_transaction_and_an_invalid_job_fails_alone(
    app: Windlass, conn: Connection
) -> None:
    """One payload is refused only by Postgres, and one delay is refused before it reaches Postgres."""
    refused: dict[int, dict[str, Any]] = {17: {"payload": {"n": "\ud800"}}, 40: {"delay": -1}}
    options = [refused.get(n, {"payload": {"n": n}}) for n in range(64)]
    answers = await asyncio.gather(*(app.submit("a.b.v1", **one) for one in options), return_exceptions=True)
    assert {n for n, answer in enumerate(answers) if isinstance(answer, BaseException)} == set(refused)
    assert isinstance(answers[17], Invalid)
    assert isinstance(answers[40], Invalid)
    recorded = [answer for answer in answers if isinstance(answer, UUID)]
    assert [(await app.get(id_)).payload for id_ in recorded] == [
        one["payload"] for one in options if one not in refused.values()
    ]
    assert await count(conn) == (62, 62)
    assert await conn.fetchval("select count(distinct xmin::text) from workflow.workflow_run") < 62


async def test_a_batch_may_be_empty_but_not_exceed_the_limit(db: Tenant, conn: Connection) -> None:
    assert await jobs.submit(db, []) == []
    with pytest.raises(Invalid, match="10001"):
        await jobs.submit(db, [SPEC] * 10_001)
    assert await count(conn) == (0, 0)


async def test_a_known_key_returns_the_existing_job(db: Tenant, conn: Connection) -> None:
    first = await submit(db, idempotency_key="k")
    assert await submit(db, idempotency_key="k", payload={"other": 1}) == first
    assert await jobs.submit(db, [SPEC, replace(SPEC, idempotency_key="k")]) != [first, first]
    assert (await jobs.get(db, first)).payload == {"content_id": "c_123"}
    assert await count(conn) == (2, 2)


async def test_a_finished_job_still_holds_its_key(db: Tenant) -> None:
    first = await submit(db, idempotency_key="k")
    await finish(db, first, "succeeded")
    assert await submit(db, idempotency_key="k") == first


async def test_equal_keys_in_one_batch_create_one_job(db: Tenant, conn: Connection) -> None:
    keys = ["a", "b", "a", None, "b", None]
    ids = await jobs.submit(db, [replace(SPEC, idempotency_key=key) for key in keys])
    assert (ids[0], ids[1]) == (ids[2], ids[4])
    assert len(set(ids)) == 4
    assert await count(conn) == (4, 4)


async def test_concurrent_submits_with_the_same_key_create_one_job(db: Tenant, conn: Connection) -> None:
    batches = [jobs.submit(db, [replace(SPEC, idempotency_key=f"k{n}") for n in range(20)]) for _ in range(8)]
    first, *others = await asyncio.gather(*batches)
    assert others == [first] * 7
    assert await count(conn) == (20, 20)


async def test_keys_of_two_orgs_are_independent(db: Tenant, other_org: Tenant) -> None:
    ours, theirs = await submit(db, idempotency_key="k"), await submit(other_org, idempotency_key="k")
    assert ours != theirs


def ring() -> list[Any]:
    made: list[Any] = []
    made.append(made)
    return made


def deep(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


BAD: list[tuple[dict[str, Any], str]] = [
    ({"payload": object()}, "payload"),
    ({"payload": {1, 2}}, "payload"),
    ({"payload": {"a": "\x00"}}, "payload"),
    ({"payload": float("nan")}, "payload"),
    ({"payload": "\ud800"}, "payload"),
    ({"payload": deep(65)}, "payload"),
    ({"payload": deep(100_000)}, "payload"),
    ({"payload": ring()}, "payload"),
    ({"payload": "x" * 2_000_000}, "payload"),
    ({"meta": {"blob": "x" * 70_000}}, "meta"),
    ({"meta": {"a": "\x00"}}, "meta"),
    ({"type": ""}, "type"),
    ({"type": 5}, "type"),
    ({"type": "a\x00b"}, "type"),
    ({"queue": ""}, "queue"),
    ({"priority": 10**9}, "priority"),
    ({"priority": "high"}, "priority"),
    ({"max_attempts": 0}, "max_attempts"),
    ({"idempotency_key": "\x00"}, "idempotency_key"),
    ({"tags": ["\x00"]}, "tags"),
    ({"run_at": datetime(2030, 1, 1)}, "run_at"),  # noqa: DTZ001
    ({"run_at": "tomorrow"}, "run_at"),
    ({"delay": timedelta(seconds=-1)}, "delay"),
    ({"timeout": timedelta()}, "timeout"),
    ({"retry": "soon"}, "retry"),
]


async def test_an_invalid_job_is_refused_with_its_field_and_writes_no_rows(db: Tenant, conn: Connection) -> None:
    for fields, field in BAD:
        with pytest.raises(Invalid, match=field) as refusal:
            await jobs.submit(db, [SPEC, replace(SPEC, **fields), SPEC])
        assert refusal.value.field == field, fields
    assert await count(conn) == (0, 0)


@pytest.mark.parametrize(
    "fields",
    [{"delay": timedelta.max}, {"idempotency_key": "".join(map(chr, range(0x4E00, 0x5200)))}],
    ids=["a delay beyond the calendar", "a key too long for an index"],
)
async def test_values_that_only_postgres_refuses_raise_invalid(
    db: Tenant, conn: Connection, fields: dict[str, Any]
) -> None:
    with pytest.raises(Invalid):
        await jobs.submit(db, [SPEC, replace(SPEC, **fields)])
    assert await count(conn) == (0, 0)


async def test_a_job_joins_the_callers_transaction(db: Tenant, database: str, conn: Connection) -> None:
    caller = await asyncpg.connect(database)
    await caller.execute("create table orders (id int)")
    transaction = caller.transaction()
    await transaction.start()
    await caller.execute("insert into orders values (1)")
    [id_] = await jobs.submit(db, [replace(SPEC, idempotency_key="order-1")], connection=caller)
    assert await count(conn) == (0, 0)
    await transaction.rollback()
    assert await count(conn) == (0, 0)
    async with caller.transaction():
        [again] = await jobs.submit(db, [replace(SPEC, idempotency_key="order-1")], connection=caller)
    assert again != id_
    assert (await jobs.get(db, again)).status == "pending"
    await caller.close()


async def test_a_refused_job_leaves_the_callers_transaction_usable(db: Tenant, database: str, conn: Connection) -> None:
    caller = await asyncpg.connect(database)
    async with caller.transaction():
        with pytest.raises(Invalid):
            await jobs.submit(db, [replace(SPEC, priority=10**9)], connection=caller)
        await jobs.submit(db, [SPEC], connection=caller)
    await caller.close()
    assert await count(conn) == (1, 1)


async def test_a_submit_uses_the_options_of_its_handler(app: Windlass) -> None:
    @app.job("content.ocr.v1", max_attempts=7, queue="ocr")
    async def ocr() -> None: ...

    job = await app.get(await app.submit("content.ocr.v1"))
    assert (job.max_attempts, job.queue, job.payload) == (7, "ocr", {})


async def test_delays_and_timeouts_may_be_numbers_of_seconds_but_not_other_types(database: str) -> None:
    async with Windlass(database, settings=Settings(notify=False)) as app:
        job = await app.get(await app.submit("a.b.v1", delay=60, timeout=1.5))
        assert (job.run_at - job.created_at, job.timeout) == (timedelta(seconds=60), timedelta(seconds=1.5))
        for wrong in ({"delay": "soon"}, {"timeout": "long"}, {"delay": 1e300}):
            with pytest.raises(Invalid, match=next(iter(wrong))):
                await app.submit("a.b.v1", **wrong)


# The SQL function


async def test_the_sql_function_submits_a_job_with_its_options(db: Tenant, conn: Connection) -> None:
    id_ = await conn.fetchval("""select windlass.submit('content.thumbnail.v1', '{"content_id": "c"}')""")
    job = await jobs.get(db, id_)
    assert (job.payload, job.queue, job.priority, job.max_attempts) == ({"content_id": "c"}, "sql", 100, 3)
    assert await words(db, id_) == ["created"]
    full = await conn.fetchval("""select windlass.submit(
      type => 'a.b.v1', queue => 'q', priority => 5, max_attempts => 9,
      delay => '1 hour', timeout => '10 s', retry => '{"kind": "constant"}', tags => '{red}', meta => '{"a": 1}')""")
    job = await jobs.get(db, full)
    assert (job.queue, job.priority, job.max_attempts, job.timeout) == ("q", 5, 9, timedelta(seconds=10))
    assert (job.retry, job.tags, job.meta) == ({"kind": "constant"}, ["red"], {"a": 1})
    assert timedelta(minutes=59) < job.run_at - job.created_at <= timedelta(hours=1)


async def test_the_sql_function_returns_the_existing_job_of_a_known_key(conn: Connection) -> None:
    submit_ = "select windlass.submit('a.b.v1', idempotency_key => 'k')"
    assert await conn.fetchval(submit_) == await conn.fetchval(submit_)
    assert await count(conn) == (1, 1)


INVALID_ARGUMENTS = {
    "''": "type",
    "'  '": "type",
    "null": "type",
    "'a.b.v1', null": "payload",
    "'a.b.v1', to_jsonb(repeat('x', 2000000))": "payload",
    "'a.b.v1', max_attempts => 0": "max_attempts",
    "'a.b.v1', max_attempts => null": "max_attempts",
    "'a.b.v1', run_at => now(), delay => '1 s'": "run_at",
    "'a.b.v1', queue => ''": "queue",
    "'a.b.v1', priority => 2000000000": "priority",
    "'a.b.v1', delay => '-1 hour'": "delay",
    "'a.b.v1', timeout => '0 s'": "timeout",
    """'a.b.v1', retry => '{"kind": "soon"}'""": "retry",
    """'a.b.v1', meta => '[1]'""": "meta",
}


async def test_the_sql_function_refuses_invalid_arguments_by_name(conn: Connection) -> None:
    accepted, unclear = [], []
    for arguments, named in INVALID_ARGUMENTS.items():
        try:
            await conn.fetchval(f"select windlass.submit({arguments})")
            accepted.append(arguments)
        except asyncpg.PostgresError as error:
            unclear += [] if named in str(error) else [str(error)]
    assert (accepted, unclear) == ([], [])
    assert await count(conn) == (0, 0)


async def test_the_sql_function_warns_about_a_type_without_a_version(conn: Connection) -> None:
    said: list[str] = []
    conn.add_log_listener(lambda _, message: said.append(message.message))
    assert await conn.fetchval("select windlass.submit('cleanup')")
    assert "domain.action.vN" in said[0]

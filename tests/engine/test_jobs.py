"""Jobs as producers and operators see them."""

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import asyncpg
import pytest

from windlass import Windlass
from windlass.core.jobs.job import Claimed, JobMove, JobState, Report, Setback, Success
from windlass.core.jobs.retry import Backoff, Retry
from windlass.core.jobs.spec import JobSpec
from windlass.engine.database import Database
from windlass.engine.jobs import control as jobs
from windlass.engine.workers import turn
from windlass.engine.workers.turn import Turn
from windlass.errors import Conflict, Invalid, NotFound, WindlassError
from windlass.settings import Settings
from windlass.store.postgres.pool import DatabaseOptions

Connection = Any
LEASE = timedelta(seconds=30)
SPEC = JobSpec(type="content.thumbnail.v1", payload={"content_id": "c_123"})


async def submit(db: Database, **fields: Any) -> UUID:
    return (await jobs.submit(db, [replace(SPEC, **fields)]))[0]


async def take(db: Database, count: int = 1, *, reports: list[Report] | None = None) -> list[Claimed]:
    lanes = [(replace(lane, seq=0), count) for lane in await turn.look(db, ["default", "sql", "other"])]
    wish = Turn(worker="w1", lease=LEASE, reports=reports or [], lanes=lanes, count=count)
    return (await turn.turn(db, wish))[0]


async def finish(db: Database, id_: UUID, status: str) -> None:
    """Bring the one job in line to its end."""
    if status == "cancelled":
        await jobs.cancel(db, id_)
        return
    [job] = await take(db)
    assert job.id == id_
    ends: dict[str, Report] = {
        "succeeded": Success(job, '"done"'),
        "failed": Setback(job, JobMove.FAIL, {"type": "ValueError", "message": "boom"}, timedelta()),
    }
    await turn.turn(db, Turn(worker="w1", lease=LEASE, reports=[ends[status]]))


async def words(db: Database, id_: UUID) -> list[str]:
    return [event.event_type for event in await jobs.events(db, id_)]


async def count(conn: Connection) -> tuple[int, int]:
    """Rows and lines in the whole database."""
    rows = await conn.fetchval("select count(*) from workflow.workflow_run")
    return rows, await conn.fetchval("select count(*) from workflow.workflow_event")


@pytest.fixture
async def other_org(database: str) -> AsyncIterator[Database]:
    opened = await Database.open(DatabaseOptions(url=database), org="acme")
    yield opened
    await opened.close()


# Submitting


async def test_a_submitted_job_is_kept_as_it_was_asked_for(db: Database) -> None:
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


async def test_a_delay_counts_from_the_databases_now(db: Database) -> None:
    job = await jobs.get(db, await submit(db, delay=timedelta(hours=2)))
    assert job.run_at - job.created_at == timedelta(hours=2)
    assert await take(db) == []


async def test_any_json_is_a_payload(db: Database) -> None:
    for payload in ({}, [], [1, {"a": None}], "text", 5, 1.5, True, None, {"€": "😀", "q": '"\\'}):
        assert (await jobs.get(db, await submit(db, payload=payload))).payload == payload


async def test_many_are_recorded_in_order_and_at_once(db: Database, conn: Connection) -> None:
    ids = await jobs.submit(db, [replace(SPEC, payload={"n": n}) for n in range(5000)])
    assert len(set(ids)) == 5000
    assert await count(conn) == (5000, 5000)
    taken = await take(db, 100)
    assert [json.loads(job.payload)["n"] for job in taken] == [*range(100)]
    assert [job.id for job in taken] == ids[:100]


async def test_nothing_to_submit_is_no_mistake_and_too_much_is(db: Database, conn: Connection) -> None:
    assert await jobs.submit(db, []) == []
    with pytest.raises(Invalid, match="10001"):
        await jobs.submit(db, [SPEC] * 10_001)
    assert await count(conn) == (0, 0)


async def test_a_known_key_answers_with_the_job_that_has_it(db: Database, conn: Connection) -> None:
    first = await submit(db, idempotency_key="k")
    assert await submit(db, idempotency_key="k", payload={"other": 1}) == first
    assert await jobs.submit(db, [SPEC, replace(SPEC, idempotency_key="k")]) != [first, first]
    assert (await jobs.get(db, first)).payload == {"content_id": "c_123"}
    assert await count(conn) == (2, 2)


async def test_a_finished_job_still_holds_its_key(db: Database) -> None:
    first = await submit(db, idempotency_key="k")
    await finish(db, first, "succeeded")
    assert await submit(db, idempotency_key="k") == first


async def test_equal_keys_in_one_batch_are_one_job(db: Database, conn: Connection) -> None:
    keys = ["a", "b", "a", None, "b", None]
    ids = await jobs.submit(db, [replace(SPEC, idempotency_key=key) for key in keys])
    assert (ids[0], ids[1]) == (ids[2], ids[4])
    assert len(set(ids)) == 4
    assert await count(conn) == (4, 4)


async def test_submitters_at_the_same_moment_agree_on_one_job(db: Database, conn: Connection) -> None:
    batches = [jobs.submit(db, [replace(SPEC, idempotency_key=f"k{n}") for n in range(20)]) for _ in range(8)]
    first, *others = await asyncio.gather(*batches)
    assert others == [first] * 7
    assert await count(conn) == (20, 20)


async def test_keys_of_two_orgs_do_not_meet(db: Database, other_org: Database) -> None:
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


async def test_bad_input_gets_a_clear_error_and_leaves_nothing_behind(db: Database, conn: Connection) -> None:
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
async def test_what_only_postgres_can_refuse_is_invalid(db: Database, conn: Connection, fields: dict[str, Any]) -> None:
    with pytest.raises(Invalid):
        await jobs.submit(db, [SPEC, replace(SPEC, **fields)])
    assert await count(conn) == (0, 0)


async def test_a_job_joins_the_callers_transaction(db: Database, database: str, conn: Connection) -> None:
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


async def test_a_refused_job_leaves_the_callers_transaction_usable(
    db: Database, database: str, conn: Connection
) -> None:
    caller = await asyncpg.connect(database)
    async with caller.transaction():
        with pytest.raises(Invalid):
            await jobs.submit(db, [replace(SPEC, priority=10**9)], connection=caller)
        await jobs.submit(db, [SPEC], connection=caller)
    await caller.close()
    assert await count(conn) == (1, 1)


async def test_handlers_lend_their_options_to_submit(app: Windlass) -> None:
    @app.job("content.ocr.v1", max_attempts=7, queue="ocr")
    async def ocr() -> None: ...

    job = await app.get(await app.submit("content.ocr.v1"))
    assert (job.max_attempts, job.queue, job.payload) == (7, "ocr", {})


async def test_numbers_of_seconds_will_do_and_other_things_will_not(database: str) -> None:
    async with Windlass(database, settings=Settings(notify=False)) as app:
        job = await app.get(await app.submit("a.b.v1", delay=60, timeout=1.5))
        assert (job.run_at - job.created_at, job.timeout) == (timedelta(seconds=60), timedelta(seconds=1.5))
        for wrong in ({"delay": "soon"}, {"timeout": "long"}, {"delay": 1e300}):
            with pytest.raises(Invalid, match=next(iter(wrong))):
                await app.submit("a.b.v1", **wrong)


# The SQL function


async def test_the_sql_function_submits_from_any_language(db: Database, conn: Connection) -> None:
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


async def test_the_sql_function_answers_a_duplicate_with_the_job_that_has_the_key(conn: Connection) -> None:
    submit_ = "select windlass.submit('a.b.v1', idempotency_key => 'k')"
    assert await conn.fetchval(submit_) == await conn.fetchval(submit_)
    assert await count(conn) == (1, 1)


NONSENSE = {
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


async def test_the_sql_function_refuses_what_makes_no_sense_and_names_it(conn: Connection) -> None:
    accepted, unclear = [], []
    for arguments, named in NONSENSE.items():
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


# Looking


async def test_an_unknown_job_is_not_found_whatever_is_asked(db: Database, other_org: Database) -> None:
    theirs = await submit(other_org)
    for id_ in (uuid4(), theirs):
        for ask in (jobs.get, jobs.cancel, jobs.reopen, jobs.delete, jobs.events, jobs.logs):
            with pytest.raises(NotFound, match=str(id_)):
                await ask(db, id_)
    assert (await jobs.list_(db)).jobs == []
    assert (await jobs.get(other_org, theirs)).status == "pending"


def test_an_id_that_is_none_is_invalid() -> None:
    with pytest.raises(Invalid, match="'x'"):
        jobs.ids_of(["x"])
    assert jobs.ids_of([str(UUID(int=1))]) == [UUID(int=1)]


async def test_pages_show_each_job_once_newest_first(db: Database) -> None:
    ids = await jobs.submit(db, [replace(SPEC, type=f"t{n % 3}.x.v1", priority=n % 2) for n in range(25)])
    for _ in range(5):
        [job] = await take(db)
        await turn.turn(db, Turn(worker="w1", lease=LEASE, reports=[Success(job, "1")]))
    await take(db, 3)
    await jobs.cancel(db, ids[20])
    await submit(db, delay=timedelta(days=1))
    seen, before = [], None
    while True:
        page = await jobs.list_(db, before=before, limit=7)
        seen += page.jobs
        before = page.next
        if before is None:
            break
    assert [job.seq for job in seen] == sorted((job.seq for job in seen), reverse=True)
    assert len(seen) == len({job.id for job in seen}) == 26
    assert {job.status for job in seen} == {"pending", "leased", "succeeded", "cancelled"}


async def test_a_page_that_ends_with_the_last_job_is_followed_by_an_empty_one(db: Database) -> None:
    await jobs.submit(db, [SPEC] * 4)
    first = await jobs.list_(db, limit=4)
    assert len(first.jobs) == 4
    assert (await jobs.list_(db, limit=4, before=first.next or 0)).jobs == []


async def listed(db: Database, **filters: Any) -> set[UUID]:
    return {job.id for job in (await jobs.list_(db, **filters)).jobs}


async def test_every_filter_narrows_and_they_combine(db: Database) -> None:
    done = await submit(db, tags=["red"])
    await finish(db, done, "succeeded")
    broken = await submit(db, type="billing.invoice.v1", tags=["red", "blue"])
    await finish(db, broken, "failed")
    gone = await submit(db, type="billing.refund.v1")
    await finish(db, gone, "cancelled")
    held = await submit(db, type="billing.invoice.v1", queue="other", tags=["blue"])
    await take(db)
    waiting = await submit(db, type="billing.invoice.v1", queue="other")
    later = await submit(db, delay=timedelta(days=1), tags=["blue"])
    everything = {done, broken, gone, held, waiting, later}
    assert await listed(db) == everything
    by_status = {"succeeded": {done}, "failed": {broken}, "cancelled": {gone}, "leased": {held}}
    by_status["pending"] = {waiting, later}
    assert set(by_status) == set(JobState)
    for status, ids in by_status.items():
        assert await listed(db, statuses=[status]) == ids
    assert await listed(db, statuses=["succeeded", "pending"]) == {done, waiting, later}
    assert await listed(db, queue="other") == {held, waiting}
    assert await listed(db, type_="billing.%") == {broken, gone, held, waiting}
    assert await listed(db, type_="billing.invoice.v1") == {broken, held, waiting}
    assert await listed(db, tag="blue") == {broken, held, later}
    assert await listed(db, tag="blue", statuses=["failed"], type_="billing.%", queue="default") == {broken}
    assert await listed(db, tag="blue", statuses=["cancelled"]) == set()


async def test_a_filter_that_makes_no_sense_is_refused_by_name(db: Database) -> None:
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"limit": 0}, "limit"),
        ({"limit": 1001}, "limit"),
        ({"statuses": ["running"]}, "status"),
        ({"type_": "a\x00"}, "type"),
        ({"queue": "a\x00"}, "queue"),
        ({"tag": "a\x00"}, "tag"),
        ({"before": 2**70}, "before"),
    ]
    for filters, named in wrong:
        with pytest.raises(Invalid, match=named):
            await jobs.list_(db, **filters)


# Cancelling, reopening, deleting

LIVE_OR_NOT = ["pending", "leased", "succeeded", "failed", "cancelled"]


async def in_state(db: Database, status: str) -> UUID:
    id_ = await submit(db)
    if status == "leased":
        await take(db)
    elif status != "pending":
        await finish(db, id_, status)
    assert (await jobs.get(db, id_)).status == status
    return id_


@pytest.mark.parametrize("status", LIVE_OR_NOT)
async def test_only_live_jobs_can_be_cancelled(db: Database, status: str) -> None:
    id_ = await in_state(db, status)
    before = await jobs.get(db, id_)
    if status in ("pending", "leased"):
        await jobs.cancel(db, id_, reason="not needed")
        assert (await jobs.get(db, id_)).status == "cancelled"
        last = (await jobs.events(db, id_))[-1]
        assert (last.event_type, last.data, last.actor) == ("cancelled", {"reason": "not needed"}, "windlass")
        assert await take(db) == []
    else:
        with pytest.raises(Conflict, match=f"is {status} and cannot be cancelled"):
            await jobs.cancel(db, id_)
        assert await jobs.get(db, id_) == before


@pytest.mark.parametrize("status", LIVE_OR_NOT)
async def test_only_failed_and_cancelled_jobs_can_be_reopened(db: Database, status: str) -> None:
    id_ = await in_state(db, status)
    before = await jobs.get(db, id_)
    if status in ("failed", "cancelled"):
        await jobs.reopen(db, id_)
        job = await jobs.get(db, id_)
        assert (job.status, job.attempt, job.lost, job.epoch) == ("pending", 0, 0, before.epoch + 1)
        assert job.errors == before.errors
        assert job.seq > before.seq
        assert (await words(db, id_))[-1] == "retried"
        await finish(db, id_, "succeeded")
        assert (await jobs.get(db, id_)).result == "done"
    else:
        with pytest.raises(Conflict, match=f"is {status} and cannot be retried"):
            await jobs.reopen(db, id_)
        assert await jobs.get(db, id_) == before


@pytest.mark.parametrize("status", LIVE_OR_NOT)
async def test_any_job_can_be_hidden_once(db: Database, status: str) -> None:
    id_ = await in_state(db, status)
    await jobs.delete(db, id_)
    for ask in (jobs.get, jobs.cancel, jobs.reopen, jobs.delete, jobs.events):
        with pytest.raises(NotFound):
            await ask(db, id_)
    assert (await jobs.list_(db)).jobs == []
    assert await take(db) == []


async def test_a_reason_that_cannot_be_stored_is_refused_and_cancels_nothing(db: Database) -> None:
    id_ = await submit(db)
    for reason in ("a\x00b", "\ud800"):
        with pytest.raises(WindlassError, match="reason"):
            await jobs.cancel(db, id_, reason=reason)
    assert (await jobs.get(db, id_)).status == "pending"


async def test_two_who_cancel_at_once_do_not_both_succeed(db: Database) -> None:
    id_ = await submit(db)
    told = await asyncio.gather(*(jobs.cancel(db, id_) for _ in range(6)), return_exceptions=True)
    assert sum(answer is None for answer in told) == 1
    assert {type(answer) for answer in told} == {type(None), Conflict}
    assert (await words(db, id_)).count("cancelled") == 1


# The trail and the errors


async def test_the_trail_tells_the_whole_story_in_order(db: Database) -> None:
    id_ = await submit(db, max_attempts=2)
    for move in (JobMove.RETRY, JobMove.FAIL):
        [job] = await take(db)
        error = {"type": "ValueError", "message": f"boom {job.number}"}
        await turn.heartbeat(db, [job.fence], worker="w1", lease=LEASE)
        await take(db, 0, reports=[Setback(job, move, error, timedelta())])
    trail = await jobs.events(db, id_)
    assert [(event.event_type, event.attempt) for event in trail] == [
        ("created", None),
        ("leased", 1),
        ("heartbeat", 1),
        ("retried", 1),
        ("leased", 2),
        ("heartbeat", 2),
        ("failed", 2),
    ]
    assert [event.actor for event in trail] == ["windlass", *["w1"] * 6]
    assert trail[3].data == {"error": "boom 1", "delay_seconds": 0}
    assert trail[-1].data == {"error": "boom 2"}
    errors = (await jobs.get(db, id_)).errors
    assert [(error["attempt"], error["message"]) for error in errors] == [(1, "boom 1"), (2, "boom 2")]
    assert (await jobs.get(db, id_)).last_error == "boom 2"
    assert {event.created_at.tzinfo for event in trail} == {UTC}


async def test_lines_are_kept_by_attempt_and_a_line_sent_twice_is_kept_once(db: Database) -> None:
    id_ = await submit(db)
    at = datetime(2030, 1, 1, tzinfo=UTC)
    lines = [(id_, 0, attempt, n, at, "INFO", f"{attempt}.{n}") for attempt in (1, 2) for n in (1, 2)]
    for _ in range(2):
        await turn.turn(db, Turn(worker="w1", lease=LEASE, lines=lines))
    assert [line.message for line in await jobs.logs(db, id_)] == ["1.1", "1.2", "2.1", "2.2"]
    assert [line.message for line in await jobs.logs(db, id_, attempt=2)] == ["2.1", "2.2"]

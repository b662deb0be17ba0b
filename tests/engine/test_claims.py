"""Claims for workers that use HTTP, at the level of the engine: several processes, with a Python worker beside them."""

import asyncio
from collections import Counter
from datetime import timedelta
from uuid import UUID

from windlass import Windlass, WorkerOptions
from windlass.core.jobs.job import Failed, Released, Succeeded
from windlass.core.jobs.retry import Retry
from windlass.core.jobs.spec import JobSpec, Limit, OnConflict, Unique
from windlass.engine.database import Tenant
from windlass.engine.jobs import control as jobs
from windlass.engine.jobs import dead_letters, submit
from windlass.engine.workers import remote, remote_reports, turn
from windlass.engine.workers.remote import Fetch, Job
from windlass.engine.workers.remote_reports import RemoteReport
from windlass.errors import Conflict, Duplicate, NotFound
from windlass.settings import Settings
from windlass.store.postgres.pool import DatabaseOptions
from windlass.testing import Clock

SPEC = JobSpec(type="a.b.v1", payload=[1])


def fetch_request(count: int = 10, worker: str = "w") -> Fetch:
    return Fetch(queues=["default"], count=count, worker=worker)


async def test_concurrent_fetches_of_two_processes_claim_every_job_exactly_once(db: Tenant, database: str) -> None:
    other = await Tenant.open(DatabaseOptions(url=database))
    await jobs.submit(db, [SPEC] * 200)
    taken: list[UUID] = []

    async def take(which: Tenant, worker: str) -> None:
        while found := (await remote.fetch(which, [fetch_request(10, worker)]))[0]:
            taken.extend(job.id for job in found)

    await asyncio.gather(take(db, "a"), take(other, "b"), take(db, "c"), take(other, "d"))
    assert len(taken) == len(set(taken)) == 200
    await other.close()


async def test_concurrent_submits_of_a_unique_job_by_two_processes_create_one_job(db: Tenant, database: str) -> None:
    other = await Tenant.open(DatabaseOptions(url=database))
    spec = JobSpec(type="a.b.v1", unique=Unique(key="k", on_conflict=OnConflict.REJECT))

    async def push(which: Tenant) -> bool:
        try:
            return bool(await submit.push(which, [spec]))
        except Duplicate:
            return False

    won = await asyncio.gather(*(push(which) for which in [db, other] * 8))
    assert sum(won) == 1
    await other.close()


async def test_each_report_of_a_batch_has_its_own_result(db: Tenant) -> None:
    ids = await jobs.submit(db, [JobSpec(type="a.b.v1", retry=Retry(dead_letter=True), max_attempts=1)] * 5)
    await remote.fetch(db, [fetch_request(5)])
    nothing = UUID(int=1)
    answers = await remote_reports.record(
        db,
        [
            RemoteReport(ids[0], Succeeded('{"a": 1}')),
            RemoteReport(ids[1], Failed({"type": "E", "message": "m"}), worker="w"),
            RemoteReport(ids[2], Released(), worker="w"),
            RemoteReport(ids[3], Succeeded(), worker="other"),
            RemoteReport(ids[4], Succeeded(), fence=99),
            RemoteReport(nothing, Succeeded()),
            RemoteReport(ids[0], Succeeded("2")),
        ],
    )
    assert [type(answer) for answer in answers] == [Job, Job, Job, Conflict, Conflict, NotFound, Conflict]
    found = [await jobs.get(db, id_) for id_ in ids]
    assert [job.status for job in found] == ["succeeded", "failed", "pending", "leased", "leased"]
    assert found[0].result == {"a": 1}
    dead, total = await dead_letters.list_by_queue(db, queue=None, limit=10, offset=0)
    assert ([job.id for job in dead], total) == ([ids[1]], 1)


async def test_a_report_that_cannot_be_stored_fails_alone(db: Tenant) -> None:
    ids = await jobs.submit(db, [SPEC] * 8)
    await remote.fetch(db, [fetch_request(8)])
    told = [RemoteReport(id_, Succeeded("{" if n == 3 else "1")) for n, id_ in enumerate(ids)]
    answers = await remote_reports.record(db, told)
    assert Counter(type(answer).__name__ for answer in answers) == {"Job": 7, "Invalid": 1}
    assert (await jobs.get(db, ids[3])).status == "leased"


async def test_a_success_that_cannot_be_stored_fails_alone_in_a_batch_without_rows(db: Tenant) -> None:
    ids = await jobs.submit(db, [SPEC] * 8)
    await remote.fetch(db, [fetch_request(8)])
    reports = [RemoteReport(id_, Succeeded("{" if n == 3 else "1"), worker="w") for n, id_ in enumerate(ids)]
    answers = await remote_reports.record_batch(db, reports)
    assert Counter(type(answer).__name__ for answer in answers) == {"NewState": 7, "Invalid": 1}
    assert (await jobs.get(db, ids[3])).status == "leased"
    assert [event.event_type for event in await jobs.events(db, ids[0])] == ["created", "leased", "succeeded"]


async def test_claims_of_a_python_worker_skip_expired_and_rate_limited_jobs(db: Tenant, clock: Clock) -> None:
    clock.move(timedelta())
    now = await db.now()
    late = JobSpec(type="a.b.v1", expires_at=now + timedelta(seconds=1))
    limited = JobSpec(type="a.b.v1", limit=Limit(key="x", rate=1.0))
    await submit.push(db, [late, *[limited] * 3, SPEC])
    clock.move(timedelta(seconds=2))
    lanes = [(lane, 10) for lane in await turn.look(db, ["default"])]
    wish = turn.Turn(worker="w", lease=timedelta(seconds=30), lanes=lanes, count=10)
    claimed, _ = await turn.turn(db, wish)
    assert len(claimed) == 2  # one of the three, and the plain one


async def test_a_python_worker_executes_a_pushed_job_that_has_a_timeout(database: str) -> None:
    async with Windlass(database, settings=Settings()) as app:
        seen: list[object] = []
        stop = asyncio.Event()

        @app.job("email.send")
        async def send(payload: list[object]) -> None:
            seen.append(payload)
            stop.set()

        db = await app.open()
        [pushed] = await submit.push(db, [JobSpec(type="email.send", payload=["a"], timeout=timedelta(seconds=30))])
        await app.work(WorkerOptions(), stop=stop)
        assert seen == [["a"]]
        assert (await app.get(pushed.job.id)).status == "succeeded"

"""Jobs: listing, cancelling, reopening, deleting, and their event trail."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from tests.engine.job_harness import LEASE, SPEC, finish, submit, take, words
from windlass.core.jobs.job import JobMove, JobState, Setback, Success
from windlass.engine.database import Tenant
from windlass.engine.jobs import control as jobs
from windlass.engine.orgs import control as orgs
from windlass.engine.workers import turn
from windlass.engine.workers.turn import Turn
from windlass.errors import Conflict, Invalid, NotFound, WindlassError

# Listing


async def test_every_operation_on_an_unknown_job_raises_not_found(db: Tenant, other_org: Tenant) -> None:
    theirs = await submit(other_org)
    for id_ in (uuid4(), theirs):
        for ask in (jobs.get, jobs.cancel, jobs.reopen, jobs.delete, jobs.events, jobs.logs):
            with pytest.raises(NotFound, match=str(id_)):
                await ask(db, id_)
    assert (await jobs.list_(db)).jobs == []
    assert (await jobs.get(other_org, theirs)).status == "pending"


@pytest.fixture(params=["default", "acme"])
async def each_org(db: Tenant, request: pytest.FixtureRequest) -> Tenant:
    """Orgs other than `default` are listed from their own index, and their callers are isolated."""
    if request.param == "default":
        return db
    await orgs.create(db, request.param)
    await jobs.submit(db, [SPEC])  # of another org: must not be listed
    return db.tenant(request.param, isolated=True)


async def test_pages_show_each_job_once_newest_first(each_org: Tenant) -> None:
    db = each_org
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


async def test_a_page_that_ends_with_the_last_job_is_followed_by_an_empty_one(db: Tenant) -> None:
    await jobs.submit(db, [SPEC] * 4)
    first = await jobs.list_(db, limit=4)
    assert len(first.jobs) == 4
    assert (await jobs.list_(db, limit=4, before=first.next or 0)).jobs == []


async def listed(db: Tenant, **filters: Any) -> set[UUID]:
    return {job.id for job in (await jobs.list_(db, **filters)).jobs}


async def test_each_filter_narrows_the_list_and_filters_can_be_combined(each_org: Tenant) -> None:
    db = each_org
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
    assert await listed(db, statuses=["leased", "pending"], tag="blue") == {held, later}
    assert await listed(db, queue="other") == {held, waiting}
    assert await listed(db, type_="billing.%") == {broken, gone, held, waiting}
    assert await listed(db, type_="billing.invoice.v1") == {broken, held, waiting}
    assert await listed(db, tag="blue") == {broken, held, later}
    assert await listed(db, tag="blue", statuses=["failed"], type_="billing.%", queue="default") == {broken}
    assert await listed(db, tag="blue", statuses=["cancelled"]) == set()


async def test_an_invalid_filter_is_refused_with_its_name(db: Tenant) -> None:
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


LIVE_OR_NOT = ["pending", "leased", "succeeded", "failed", "cancelled"]


async def in_state(db: Tenant, status: str) -> UUID:
    id_ = await submit(db)
    if status == "leased":
        await take(db)
    elif status != "pending":
        await finish(db, id_, status)
    assert (await jobs.get(db, id_)).status == status
    return id_


# Cancelling, reopening, deleting


@pytest.mark.parametrize("status", LIVE_OR_NOT)
async def test_only_live_jobs_can_be_cancelled(db: Tenant, status: str) -> None:
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
async def test_only_failed_and_cancelled_jobs_can_be_reopened(db: Tenant, status: str) -> None:
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
async def test_any_job_can_be_deleted_once(db: Tenant, status: str) -> None:
    id_ = await in_state(db, status)
    await jobs.delete(db, id_)
    for ask in (jobs.get, jobs.cancel, jobs.reopen, jobs.delete, jobs.events):
        with pytest.raises(NotFound):
            await ask(db, id_)
    assert (await jobs.list_(db)).jobs == []
    assert await take(db) == []


async def test_a_reason_that_cannot_be_stored_is_refused_and_cancels_nothing(db: Tenant) -> None:
    id_ = await submit(db)
    for reason in ("a\x00b", "\ud800"):
        with pytest.raises(WindlassError, match="reason"):
            await jobs.cancel(db, id_, reason=reason)
    assert (await jobs.get(db, id_)).status == "pending"


async def test_only_one_of_several_concurrent_cancellations_succeeds(db: Tenant) -> None:
    id_ = await submit(db)
    told = await asyncio.gather(*(jobs.cancel(db, id_) for _ in range(6)), return_exceptions=True)
    assert sum(answer is None for answer in told) == 1
    assert {type(answer) for answer in told} == {type(None), Conflict}
    assert (await words(db, id_)).count("cancelled") == 1


# Event trail and errors


async def test_the_event_trail_contains_every_transition_in_order(db: Tenant) -> None:
    id_ = await submit(db, max_attempts=2)
    for move in (JobMove.RETRY, JobMove.FAIL):
        [job] = await take(db)
        error = {"type": "ValueError", "message": f"boom {job.number}"}
        await turn.heartbeat(db, [job.fence], worker="w1", lease=LEASE)  # writes no event
        await take(db, 0, reports=[Setback(job, move, error, timedelta())])
    trail = await jobs.events(db, id_)
    assert [(event.event_type, event.attempt) for event in trail] == [
        ("created", None),
        ("leased", 1),
        ("retried", 1),
        ("leased", 2),
        ("failed", 2),
    ]
    assert [event.actor for event in trail] == ["windlass", *["w1"] * 4]
    assert trail[2].data == {"error": "boom 1", "delay_seconds": 0}
    assert trail[-1].data == {"error": "boom 2"}
    errors = (await jobs.get(db, id_)).errors
    assert [(error["attempt"], error["message"]) for error in errors] == [(1, "boom 1"), (2, "boom 2")]
    assert (await jobs.get(db, id_)).last_error == "boom 2"
    assert {event.created_at.tzinfo for event in trail} == {UTC}


async def test_log_lines_are_kept_per_attempt_and_a_duplicate_is_ignored(db: Tenant) -> None:
    id_ = await submit(db)
    at = datetime(2030, 1, 1, tzinfo=UTC)
    lines = [(id_, 0, attempt, n, at, "INFO", f"{attempt}.{n}") for attempt in (1, 2) for n in (1, 2)]
    for _ in range(2):
        await turn.turn(db, Turn(worker="w1", lease=LEASE, lines=lines))
    assert [line.message for line in await jobs.logs(db, id_)] == ["1.1", "1.2", "2.1", "2.2"]
    assert [line.message for line in await jobs.logs(db, id_, attempt=2)] == ["2.1", "2.2"]

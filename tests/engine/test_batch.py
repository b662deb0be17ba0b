"""A report that cannot be recorded does not fail the other reports of its batch."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from windlass.core.jobs.job import Claimed, JobMove, Report, Setback, Success
from windlass.core.jobs.spec import JobSpec
from windlass.engine.database import Tenant
from windlass.engine.jobs import control as jobs
from windlass.engine.workers import turn
from windlass.engine.workers.turn import NewLogLine, Turn

LEASE = timedelta(seconds=30)
NUL = r'"\u0000"'  # JSON that Postgres cannot hold
AT = datetime(2030, 1, 1, tzinfo=UTC)


async def taken(db: Tenant, count: int) -> list[Claimed]:
    await jobs.submit(db, [JobSpec(type="a.b.v1")] * count)
    lanes = [(replace(lane, seq=0), count) for lane in await turn.look(db, ["default"])]
    claimed, _ = await turn.turn(db, Turn(worker="w1", lease=LEASE, lanes=lanes, count=count))
    assert len(claimed) == count
    return claimed


async def send_reports(db: Tenant, reports: list[Report], lines: list[NewLogLine] | None = None) -> set[UUID]:
    return (await turn.turn(db, Turn(worker="w1", lease=LEASE, reports=reports, lines=lines or [])))[1]


def good(job: Claimed) -> Report:
    return Success(job, '"done"')


POISONS: dict[str, Any] = {
    "nul in a result": lambda job: Success(job, NUL),
    "result that is not json": lambda job: Success(job, "{"),
    "half a surrogate pair": lambda job: Success(job, '"\ud800"'),
    "nul in an error": lambda job: Setback(job, JobMove.RETRY, {"message": "a\x00b"}, timedelta()),
    "delay beyond the calendar": lambda job: Setback(job, JobMove.RETRY, {"message": "x"}, timedelta.max),
}


@pytest.mark.parametrize("poison", POISONS.values(), ids=POISONS)
@pytest.mark.parametrize("place", [0, 4, 8])
async def test_a_poisoned_report_fails_alone(db: Tenant, poison: Any, place: int) -> None:
    claimed = await taken(db, 9)
    reports = [poison(job) if n == place else good(job) for n, job in enumerate(claimed)]
    assert await send_reports(db, reports) == {job.id for job in claimed}
    for n, job in enumerate(claimed):
        found = await jobs.get(db, job.id)
        if n == place:
            assert found.status == "failed"
            assert "could not be stored" in (found.last_error or "")
            assert [error["attempt"] for error in found.errors] == [1]
        else:
            assert (found.status, found.result) == ("succeeded", "done")
        assert len(await jobs.events(db, job.id)) == 3


async def test_a_batch_of_only_poisoned_reports_fails_all_its_jobs(db: Tenant) -> None:
    claimed = await taken(db, 5)
    assert await send_reports(db, [Success(job, NUL) for job in claimed]) == {job.id for job in claimed}
    assert {(await jobs.get(db, job.id)).status for job in claimed} == {"failed"}


@pytest.mark.parametrize(("reports", "lines"), [(1, 1), (1, 5), (5, 1), (4, 4), (0, 3)])
async def test_a_poisoned_log_line_is_dropped_alone(db: Tenant, reports: int, lines: int) -> None:
    claimed = await taken(db, max(reports, 1))
    told = [(claimed[0].id, 0, 1, n, AT, "INFO", f"line {n}") for n in range(lines)]
    told[0] = (claimed[0].id, 0, 1, 0, AT, "INFO", "a\x00b")
    recorded = await send_reports(db, [good(job) for job in claimed[:reports]], told)
    assert recorded == {job.id for job in claimed[:reports]}
    kept = [line.message for line in await jobs.logs(db, claimed[0].id)]
    assert kept == [f"line {n}" for n in range(1, lines)]


async def test_a_stale_report_in_a_batch_is_skipped_and_the_others_are_recorded(db: Tenant) -> None:
    claimed = await taken(db, 3)
    await jobs.cancel(db, claimed[1].id)
    assert await send_reports(db, [good(job) for job in claimed]) == {claimed[0].id, claimed[2].id}
    assert (await jobs.get(db, claimed[1].id)).status == "cancelled"


async def test_a_poisoned_stale_report_is_refused_and_changes_nothing(db: Tenant) -> None:
    first, second = await taken(db, 2)
    await jobs.cancel(db, first.id)
    assert await send_reports(db, [Success(first, NUL), good(second)]) == {second.id}
    assert (await jobs.get(db, first.id)).status == "cancelled"


async def test_the_same_report_twice_is_recorded_once(db: Tenant) -> None:
    [job] = await taken(db, 1)
    assert await send_reports(db, [good(job)]) == {job.id}
    assert await send_reports(db, [good(job)]) == set()
    assert [event.event_type for event in await jobs.events(db, job.id)] == ["created", "leased", "succeeded"]

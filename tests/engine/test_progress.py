"""The progress of jobs, as reported by their handlers."""

import asyncio
import math
from typing import Any
from uuid import UUID, uuid4

import pytest
from click.testing import CliRunner

from tests.web.serving import data, served
from windlass import Conflict, Context, Invalid, NotFound, Windlass
from windlass.cli.commands import cli
from windlass.core.jobs.job import fraction_of
from windlass.engine.jobs import checkpoints
from windlass.engine.jobs.checkpoints import ProgressReport
from windlass.testing import run_until_idle


def test_a_fraction_is_clamped_to_the_range_from_0_to_1() -> None:
    assert [fraction_of(value) for value in (-1, 0, 0.25, 1, 7, math.inf)] == [0, 0, 0.25, 1, 1, 1]
    assert fraction_of(40, whole=100, field="percentage") == 0.4
    for value in (None, "0.5", True, math.nan, [1]):
        with pytest.raises(Invalid, match="between 0 and 1"):
            fraction_of(value)


async def test_the_last_reported_progress_is_kept_after_the_end_of_the_job(app: Windlass) -> None:
    db = await app.open()
    job = await app.submit("a.b.v1")
    assert await checkpoints.progress(db, job) is None
    await checkpoints.record_progress(db, job, 0.1, "begun")
    await checkpoints.record_progress(db, job, 0.4, "under way", {"rows": 4})
    await app.cancel(job)
    with pytest.raises(Conflict):
        await checkpoints.record_progress(db, job, 1.0)
    with pytest.raises(NotFound):
        await checkpoints.record_progress(db, uuid4(), 1.0)
    with pytest.raises(NotFound):
        await checkpoints.progress(db.tenant("other", actor="x"), job)
    found = await checkpoints.progress(db, job)
    assert found is not None
    assert (found.fraction, found.message, found.data) == (0.4, "under way", {"rows": 4})


async def test_progress_reports_are_coalesced_and_the_last_one_is_written(app: Windlass, conn: Any) -> None:
    await conn.execute("create table writes (n int); insert into writes values (0)")
    counted = "begin update writes set n = n + 1; return new; end"
    await conn.execute(f"create function seen() returns trigger language plpgsql as $$ {counted} $$")
    await conn.execute("create trigger seen before insert on windlass.progress for each row execute function seen()")

    @app.job("talk.v1")
    async def talk(ctx: Context) -> None:
        for n in range(1001):
            await ctx.progress(n / 1000, f"{n} of 1000", {"n": n})
            if n % 100 == 0:
                await asyncio.sleep(0)
        with pytest.raises(Invalid):
            ctx.progress(0.5, None, object())

    job = await app.submit("talk.v1")
    await run_until_idle(app)
    found = await checkpoints.progress(await app.open(), job)
    assert found is not None
    assert (found.fraction, found.message, found.data) == (1.0, "1000 of 1000", {"n": 1000})
    assert await conn.fetchval("select n from writes") <= 3


async def test_progress_reports_after_a_lost_lease_are_ignored(app: Windlass, conn: Any) -> None:
    db = await app.open()
    job = await app.submit("a.b.v1")
    await conn.execute("update workflow.workflow_run set status = 'leased', leased_by = 'second', claim_no = 2")

    def said(fence: int, fraction: float) -> ProgressReport:
        return ProgressReport(job, fence, fraction, None, None)

    await checkpoints.report_progress(db, [said(2, 0.2)])
    await checkpoints.report_progress(db, [said(1, 0.9), ProgressReport(UUID(int=0), 1, 0.9, None, None)])
    found = await checkpoints.progress(db, job)
    assert found is not None
    assert found.fraction == 0.2


async def test_progress_is_shown_over_http_and_by_the_cli(
    app: Windlass, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = await app.submit("a.b.v1")
    async with served(app) as http:
        assert data(await http.get(f"/jobs/{job}"))["progress"] is None
        await checkpoints.record_progress(await app.open(), job, 0.4, "40 of 100 pages", {"pages": 40})
        found = data(await http.get(f"/jobs/{job}"))["progress"]
        assert (found["fraction"], found["message"], found["data"]) == (0.4, "40 of 100 pages", {"pages": 40})
    monkeypatch.setenv("WINDLASS_DATABASE_URL", database)
    shown = await asyncio.to_thread(CliRunner().invoke, cli, ["jobs", "show", str(job)])
    assert " 40%  40 of 100 pages" in shown.output, shown.output
    assert '{"pages": 40}' in shown.output

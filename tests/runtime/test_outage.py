"""Outages of the database: work is delayed, no attempt is charged, and the log has two lines about it."""

import asyncio
import logging
import os
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import asyncpg
import httpx
import pytest

from tests.runtime.conftest import Working, eventually
from windlass import Context, Windlass
from windlass.embedded import server as embedded
from windlass.embedded.server import EmbeddedOptions
from windlass.engine.database import prepare
from windlass.errors import Unavailable
from windlass.runtime.loops.loop import run_periodically
from windlass.settings import Settings
from windlass.store.postgres.pool import DatabaseOptions
from windlass.testing import embedded_server
from windlass.web import server as web_server
from windlass.web.middleware.guard import GuardOptions
from windlass.web.server import listen, serving

Connection = Any


@pytest.fixture(scope="module")
def own_server() -> Iterator[str]:
    """A server whose settings a test may change."""
    with embedded_server() as url:
        asyncio.run(prepare(DatabaseOptions(url=url)))
        yield url


@asynccontextmanager
async def read_only(url: str) -> AsyncIterator[None]:
    """Make all sessions read-only while they keep their connections, as on a primary that became a standby."""
    admin = await asyncpg.connect(url)
    await admin.execute("set default_transaction_read_only = off")

    async def switch(value: str) -> None:
        await admin.execute(f"alter system set default_transaction_read_only = {value}")
        await admin.execute("select pg_reload_conf()")
        other = await asyncpg.connect(url)
        await eventually(lambda: _shows(other, value))
        await other.close()

    try:
        await switch("on")
        yield
    finally:
        await switch("off")
        await admin.close()


async def _shows(conn: Connection, value: str) -> bool:
    return bool(await conn.fetchval("show default_transaction_read_only") == value)


def log_lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


async def test_a_step_that_ends_while_the_database_is_read_only_waits_and_charges_no_attempt(
    own_server: str, working: Working
) -> None:
    app, finished, release, calls = Windlass(own_server, settings=Settings()), asyncio.Event(), asyncio.Event(), []

    @app.job("outage.step.v1", max_attempts=1)
    async def handler(ctx: Context) -> str:
        async def charge() -> str:
            calls.append(1)
            finished.set()
            await release.wait()
            return "charged"

        return str(await ctx.step("charge", charge))

    async with app, working(app, id="step"):
        job = await app.submit("outage.step.v1")
        await finished.wait()
        async with read_only(own_server):
            release.set()
            with pytest.raises(Unavailable, match="read-only"):
                await app.submit("outage.other.v1")

        async def ended() -> bool:
            return (await app.get(job)).status == "succeeded"

        await eventually(ended)
        found = await app.get(job)
    assert (found.result, found.errors, len(calls)) == ("charged", [], 1)


async def test_an_outage_is_logged_once_when_it_begins_and_once_when_it_ends(
    own_server: str, working: Working, caplog: pytest.LogCaptureFixture
) -> None:
    app = Windlass(own_server, settings=Settings())

    async def over() -> bool:
        return any("available again" in line for line in log_lines(caplog))

    async with app, Windlass(own_server, settings=Settings()) as beside, working(app, id="log"):
        async with read_only(own_server):
            for one in [app, beside] * 10:  # two pools of a process are one outage too
                with pytest.raises(Unavailable):
                    await one.submit("outage.nobody.v1")
        await eventually(over)
    lines = log_lines(caplog)
    assert lines[0] == "the database refuses to write: it is read-only; operations that need it wait and retry"
    assert lines[1].startswith("the database is available again after ")
    assert len(lines) == 2, lines


async def test_a_connection_that_reported_read_only_is_not_reused(own_server: str) -> None:
    async with Windlass(own_server, settings=Settings(pool_size=2)) as app:
        db = await app.open()
        async with db.once() as conn:
            before = await conn.fetchval("select pg_backend_pid()")
        async with read_only(own_server):
            with pytest.raises(Unavailable):
                await app.submit("outage.nobody.v1")
        async with db.once() as conn:
            assert await conn.fetchval("select pg_backend_pid()") != before


async def test_a_server_with_a_read_only_database_is_alive_and_not_ready(own_server: str) -> None:
    async with Windlass(own_server, settings=Settings()) as app:
        listener = listen("127.0.0.1", 0)
        web = web_server.build(app, GuardOptions(host=listener.host))
        async with serving(web, listener), httpx.AsyncClient(base_url=listener.url) as http:
            assert (await http.get("/ready")).status_code == 200
            async with read_only(own_server):
                ready, health = await http.get("/ready"), await http.get("/health")
                listed = await http.get("/api/v1/jobs")
    assert (ready.status_code, ready.headers["retry-after"]) == (503, "1")
    assert "read-only" in ready.json()["detail"]
    assert (health.status_code, listed.status_code) == (200, 200)  # what only reads goes on


async def test_the_first_success_after_an_outage_wakes_loops_that_back_off(
    own_server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("FIRST_PAUSE", "RECOVERY_PAUSE"):
        monkeypatch.setattr(f"windlass.runtime.loops.loop.{name}", 3600.0)  # only the signal can be in time
    async with Windlass(own_server, settings=Settings()) as app:
        db, stop, worked, failed = await app.open(), asyncio.Event(), asyncio.Event(), asyncio.Event()

        async def tick() -> None:
            try:
                await app.submit("outage.nobody.v1")
            except Unavailable:
                failed.set()
                raise
            if failed.is_set():
                worked.set()

        async with asyncio.TaskGroup() as group:
            async with read_only(own_server):
                group.create_task(run_periodically(tick, every=timedelta(hours=1), stop=stop))
                await failed.wait()
                assert db.pool.outage.reason is not None
            async with asyncio.timeout(15):
                await worked.wait()
            stop.set()


async def test_a_killed_embedded_postmaster_is_restarted_by_the_process_that_uses_it(
    tmp_path: Path, working: Working, caplog: pytest.LogCaptureFixture
) -> None:
    tmp_path.chmod(0o755)
    home, done = tmp_path / "home", asyncio.Semaphore(0)
    app = Windlass(settings=Settings(home=home, database_url=None))

    @app.job("outage.embedded.v1")
    async def handler() -> None:
        done.release()

    async with app, working(app):
        await app.submit("outage.embedded.v1")
        await done.acquire()
        pid = embedded.status(EmbeddedOptions(home=home)).pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)

        async def submitted() -> bool:
            try:
                return bool(await app.submit("outage.embedded.v1"))
            except Unavailable:
                return False

        await eventually(submitted, seconds=40)
        async with asyncio.timeout(20):
            await done.acquire()

        async def started() -> list[str]:
            return [line for line in log_lines(caplog) if "started again" in line]

        await eventually(started)  # the server accepts connections before its start has been noticed
    assert await started() == ["the embedded Postgres died and was started again"]
    assert "asyncpg.pool" not in {record.name for record in caplog.records}


async def test_an_embedded_server_that_was_stopped_on_purpose_stays_stopped(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    options = EmbeddedOptions(home=tmp_path / "home")
    with embedded.Embedded.start(options) as server:
        assert embedded.stop(options)
        assert server.revive() is False
        assert not embedded.status(options).running


async def test_a_connection_outside_the_pool_does_not_log_an_outage_that_the_pool_logs(
    own_server: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The heartbeat thread closes its connection immediately: the outage must not be logged a second time."""
    async with Windlass(own_server, settings=Settings()) as app:
        apart = await (await app.open()).open_apart()
        async with read_only(own_server):
            with pytest.raises(Unavailable):
                async with apart.begin() as conn:
                    await conn.execute("delete from windlass.worker")
            assert apart.pool.outage.reason is not None
            await apart.close()
            assert log_lines(caplog) == []
            with pytest.raises(Unavailable):
                await app.submit("outage.nobody.v1")
            assert len(log_lines(caplog)) == 1

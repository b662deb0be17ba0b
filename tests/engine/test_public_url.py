"""The base URL of callback addresses: it is the same in every process."""

from datetime import UTC, datetime, timedelta

import pytest

from tests.engine.fake_services import deploy, run_of
from tests.engine.schedule_harness import another
from tests.keys import KEYS
from windlass import Windlass
from windlass.engine import hooks
from windlass.engine.database import URL_LIVE_WITHIN, Tenant
from windlass.engine.doctor import Level, examine, judge_public_url
from windlass.engine.schedules import workflow as workflow_schedules
from windlass.settings import Settings
from windlass.store.hooks import RecordedUrl
from windlass.testing import Clock

WAIT = {"wait_for_webhook": {"timeout": "1h"}}
SHOP, OTHER, BOUND = "https://flows.shop.example", "https://other.example", "http://127.0.0.1:18931"


async def url_of(db: Tenant) -> str:
    async with db.once() as conn:
        return await db.public_url.get(conn)


async def record(db: Tenant, url: str, *, configured: bool) -> None:
    db.public_url.configured, db.public_url.listening = (url, None) if configured else (None, url)
    async with db.once() as conn:
        await db.public_url.record(conn)


async def test_a_process_without_a_setting_uses_the_url_that_a_server_recorded(
    database: str, clock: Clock, db: Tenant
) -> None:
    await record(db, BOUND, configured=False)
    run = await run_of(db, paid=WAIT)
    async with another(database, clock) as worker:
        for address in (await hooks.address(worker, run, "paid"), await hooks.address(db, run, "paid")):
            assert address.startswith(f"{BOUND}/wh/")
        assert await workflow_schedules.address(worker, "token") == f"{BOUND}/in/token"


async def test_a_configured_url_takes_precedence_over_a_listening_address(
    database: str, clock: Clock, db: Tenant
) -> None:
    clock.set(datetime(2031, 5, 5, tzinfo=UTC))
    await record(db, SHOP, configured=True)
    async with another(database, clock) as server, another(database, clock) as worker:
        clock.move(timedelta(seconds=1))
        await record(server, BOUND, configured=False)
        assert [await url_of(one) for one in (db, server, worker)] == [SHOP] * 3


async def test_a_stale_url_is_replaced_by_the_url_of_a_live_server(database: str, clock: Clock, db: Tenant) -> None:
    clock.set(datetime(2031, 5, 5, tzinfo=UTC))
    await record(db, SHOP, configured=True)
    clock.move(URL_LIVE_WITHIN + timedelta(seconds=1))
    async with another(database, clock) as worker:
        assert await url_of(worker) == SHOP  # there is no other, and the server may restart
    async with another(database, clock) as server, another(database, clock) as worker:
        await record(server, BOUND, configured=False)
        assert await url_of(worker) == BOUND


async def test_a_process_uses_its_own_setting(database: str, db: Tenant) -> None:
    await record(db, SHOP, configured=True)
    async with Windlass(database, settings=Settings(public_url=OTHER, master_keys=KEYS)) as app:
        assert await url_of(await app.open()) == OTHER


async def test_without_any_server_the_default_address_is_used(db: Tenant) -> None:
    assert await url_of(db) == "http://127.0.0.1:8080"


async def test_a_server_records_where_it_listens(database: str, db: Tenant) -> None:
    async with Windlass(database, settings=Settings(master_keys=KEYS)) as app:
        assert await app.listen_at(BOUND) == BOUND
    assert await url_of(db) == BOUND


@pytest.mark.parametrize(
    ("urls", "own", "called", "level", "message"),
    [
        ([], None, False, Level.OK, "nothing is called from outside"),
        ([], None, True, Level.WARNING, "no server has recorded its URL"),
        ([RecordedUrl(BOUND, False, True)], None, True, Level.WARNING, "which only this machine can reach"),
        ([RecordedUrl("http://localhost:8080", True, True)], None, True, Level.WARNING, "only this machine can reach"),
        ([RecordedUrl(SHOP, True, True)], None, True, Level.OK, f"callbacks are sent to {SHOP}"),
        (
            [RecordedUrl(SHOP, True, True), RecordedUrl(OTHER, True, True)],
            None,
            True,
            Level.PROBLEM,
            "different public URLs",
        ),
        ([RecordedUrl(SHOP, True, True), RecordedUrl(OTHER, True, False)], None, True, Level.OK, SHOP),
        ([RecordedUrl(SHOP, True, True)], OTHER, True, Level.PROBLEM, "different public URLs"),
    ],
)
def test_the_doctor_reports_a_public_url_that_senders_cannot_reach(
    urls: list[RecordedUrl], own: str | None, called: bool, level: Level, message: str
) -> None:
    finding = judge_public_url(urls, own, called=called)
    assert (finding.level, message in finding.message) == (level, True)
    assert (finding.fix is None) == (level is Level.OK)


async def test_the_doctor_checks_the_public_url_when_a_step_waits_for_a_callback(db: Tenant) -> None:
    await deploy(db, paid=WAIT)
    await run_of(db, paid=WAIT)
    [finding] = [one for one in await examine(db) if one.check == "public URL"]
    assert (finding.level, "no server has recorded" in finding.message) == (Level.WARNING, True)

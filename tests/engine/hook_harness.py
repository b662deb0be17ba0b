"""A workflow with a step that waits for a callback."""

from datetime import timedelta
from typing import Any
from uuid import UUID

from tests.engine.fake_services import ServiceWorker, play, run_of
from tests.engine.harness import letters
from windlass.engine.database import Tenant
from windlass.engine.hooks import Received

Connection = Any
HOUR = timedelta(hours=1)
NEW, AGAIN = Received(again=False), Received(again=True)
ASK = {"job": "test.ask.v1", "input": {"url": "{{wait.paid.url}}"}}
PAID = {"needs": ["ask"], "wait_for_webhook": {"timeout": "1h"}}
SHIP = {"needs": ["paid"], "job": "test.ship.v1", "input": {"got": "{{tasks.paid.body}}"}}


async def waiting(db: Tenant, *, paid: Any = None) -> tuple[UUID, ServiceWorker]:
    """Start a run and bring it to the step that waits for its callback."""
    run = await run_of(db, ask=ASK, paid=paid or PAID, ship=SHIP)
    worker = await play(db, ask="asked")
    assert await letters(db, run) == "sa."
    return run, worker


async def timers(conn: Connection) -> int:
    count: int = await conn.fetchval("select count(*) from windlass.timer")
    return count

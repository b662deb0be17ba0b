"""Waiting for runs to end: a run that cannot be read fails only its own waits."""

import asyncio
from typing import Any
from uuid import UUID

import pytest

from tests.engine.harness import begin, node
from windlass.core.runs.run import RunState
from windlass.engine.database import Tenant
from windlass.engine.runs import control as runs
from windlass.errors import NotFound
from windlass.runtime.handle import Waiters

Connection = Any


async def test_an_unreadable_run_fails_only_its_own_waits(db: Tenant, conn: Connection) -> None:
    strange, plain = await begin(db, node("a")), await begin(db, node("a"))
    await conn.execute("alter table windlass.run drop constraint run_state_check")
    await conn.execute("update windlass.run set state = 'strange' where id = $1", strange)
    await runs.cancel(db, plain)
    waiters = Waiters(db)
    failed, ended = await asyncio.gather(waiters.ended(strange), waiters.ended(plain), return_exceptions=True)
    assert isinstance(failed, ValueError)
    assert ended is RunState.CANCELLED
    await waiters.close()


async def test_waiting_for_an_unknown_run_is_refused(db: Tenant) -> None:
    waiters = Waiters(db)
    with pytest.raises(NotFound):
        await waiters.ended(UUID(int=1))
    await waiters.close()

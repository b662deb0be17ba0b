"""Callbacks under load, with a real worker and its loops."""

import asyncio
from typing import Any

import pytest

from tests.engine.fake_services import token_of
from tests.runtime.conftest import Working, eventually
from tests.runtime.shop import deploy
from windlass import Windlass
from windlass.core.events import webhook
from windlass.engine import hooks
from windlass.engine.runs.start import RunSpec


@pytest.mark.parametrize("count", [200, pytest.param(1_000, marks=pytest.mark.soak)])
async def test_each_of_many_concurrent_callbacks_is_processed_once(
    app: Windlass, working: Working, conn: Any, count: int
) -> None:
    """Half arrive before their step waits, each arrives twice, and all arrive while the worker runs."""
    told: list[dict[str, int]] = []

    @app.job("test.ask.v1")
    async def ask() -> None: ...

    @app.job("test.tell.v1")
    async def tell(n: int, got: int) -> None:
        told.append({"n": n, "got": got})

    await deploy(
        app,
        ask={"job": "test.ask.v1", "input": {}},
        paid={"needs": ["ask"], "wait_for_webhook": {"timeout": "1h"}},
        tell={"needs": ["paid"], "job": "test.tell.v1", "input": {"n": "{{input.n}}", "got": "{{tasks.paid.body.n}}"}},
    )
    db = await app.open()
    started = await app.start_many("w", [RunSpec(input={"n": n}) for n in range(count)])
    async with db.once() as ours:
        key = await db.hook_key(ours)
    tokens = [webhook.callback_token(key, run.id, 1) for run in started]

    async def call(n: int) -> bool:
        return (await hooks.receive(db, tokens[n], f'{{"n": {n}}}'.encode(), {})).again

    early = [call(n) for n in range(0, count, 2)]
    async with working(app):
        answers = await asyncio.gather(*early, *(call(n) for n in range(count)))
        states = await asyncio.gather(*(run.wait(timeout=100) for run in started))
    assert sum(not again for again in answers) == count
    assert {str(result.state) for result in states} == {"completed"}
    assert sorted(told, key=lambda line: line["n"]) == [{"n": n, "got": n} for n in range(count)]
    assert await conn.fetchval("select count(*) from windlass.timer") == 0


async def test_a_callback_wakes_its_run_immediately(app: Windlass, working: Working) -> None:
    done = asyncio.Event()

    @app.job("test.tell.v1")
    async def tell() -> None:
        done.set()

    await deploy(app, paid={"wait_for_webhook": True}, tell={"needs": ["paid"], "job": "test.tell.v1"})
    db = await app.open()
    async with working(app):
        run = await app.start("w")
        token = await token_of(db, run.id)
        await hooks.receive(db, token, b"", {})
        await asyncio.wait_for(done.wait(), 10)

        async def over() -> bool:
            return (await run.view()).row.state == "completed"

        await eventually(over)

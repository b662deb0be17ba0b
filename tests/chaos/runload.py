"""The handlers of the chaos tests of runs: `windlass worker tests.chaos.runload:app`, with CHAOS_WORKER=ann.

Each handler first inserts a row into the plain table `effects` of CHAOS_EFFECTS_URL (else of the engine's database). It
retries until the row is written: a restart of the server must not fail the step.
"""

import asyncio
import os
import signal
from typing import Any

import asyncpg

from windlass import Context, NonRetryable, Windlass
from windlass.store.postgres.outage import UNAVAILABLE

EFFECT = """insert into effects (job_id, attempt, fence, worker) values ($1, $2, $3, $4)
 on conflict (job_id, fence) do nothing"""  # the row may have been written although the connection broke
WORKER = os.environ.get("CHAOS_WORKER", "")
FILES = 5
ODD = 3

app = Windlass()
_pool: "asyncpg.Pool[Any] | None" = None
_opening = asyncio.Lock()
_thaw: asyncio.Event | None = None


@app.job("chaos.step.v1")
async def step(ctx: Context, item: Any = None) -> dict[str, Any]:
    await leave_effect(ctx)
    return {"step": ctx.step_name, "index": ctx.index, "item": item, "upstream": sorted(ctx.upstream)}


@app.job("chaos.list.v1")
async def list_(ctx: Context) -> dict[str, Any]:
    """Return a list to fan out over."""
    await leave_effect(ctx)
    return {"files": list(range(FILES))}


@app.job("chaos.fail.v1")
async def fail(ctx: Context) -> None:
    await leave_effect(ctx)
    raise NonRetryable("by design")


@app.job("chaos.odd.v1")
async def odd(ctx: Context, item: int) -> int:
    """Fail permanently for one of the items."""
    await leave_effect(ctx)
    if item == ODD:
        raise NonRetryable("by design")
    return item


@app.job("chaos.flaky.v1")
async def flaky(ctx: Context) -> None:
    """Fail in the first attempt."""
    await leave_effect(ctx)
    if ctx.attempt == 1:
        raise RuntimeError("by design, the first time")


@app.job("chaos.slow.v1")
async def slow(ctx: Context, seconds: float, item: Any = None) -> None:
    await leave_effect(ctx)
    await asyncio.sleep(seconds)


@app.job("chaos.gate.v1")
async def gate(ctx: Context) -> None:
    """Wait until the process has been frozen and thawed; then all waiting handlers end at the same moment."""
    bell = next_thaw()
    await leave_effect(ctx)
    await bell.wait()


def next_thaw() -> asyncio.Event:
    global _thaw
    if _thaw is None:
        _thaw = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGCONT, _ring)
    return _thaw


def _ring() -> None:
    global _thaw
    rung, _thaw = _thaw, asyncio.Event()
    assert rung is not None
    rung.set()


async def leave_effect(ctx: Context) -> None:
    while True:
        try:
            pool = await effects()
            await pool.execute(EFFECT, ctx.id, ctx.attempt, ctx.fence, WORKER)
            return
        except UNAVAILABLE:
            await asyncio.sleep(0.1)


async def effects() -> "asyncpg.Pool[Any]":
    """Return the pool of this process, opened on first use."""
    global _pool
    async with _opening:
        if _pool is None:
            url = os.environ.get("CHAOS_EFFECTS_URL") or os.environ["WINDLASS_DATABASE_URL"]
            _pool = await asyncpg.create_pool(url, min_size=1, max_size=4)
        return _pool

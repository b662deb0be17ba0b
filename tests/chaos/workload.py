"""The handlers of the chaos tests: `windlass worker tests.chaos.workload:app --worker-id ann`, with CHAOS_WORKER=ann.

Most handlers first insert a row into the plain table `effects` on a separate connection: the table shows what was
executed, independently of what the engine recorded.
"""

import asyncio
import os
import signal
import threading
from typing import Any

import asyncpg

from windlass import Backoff, Context, Retry, Windlass

EFFECT = "insert into effects (job_id, attempt, fence, worker) values ($1, $2, $3, $4)"
SOON = Retry(kind=Backoff.CONSTANT, base=0.2)

WORKER = os.environ.get("CHAOS_WORKER", "")

app = Windlass()
_effects: "asyncio.Future[asyncpg.Pool[Any]] | None" = None


@app.job("chaos.noop.v1")
async def noop() -> None:
    """Do nothing, so that only the engine is tested."""


@app.job("chaos.log.v1")
async def log(ctx: Context) -> None:
    """Log a line: a turn with log lines is a transaction, not a single statement."""
    ctx.log.info("a line")


@app.job("chaos.record.v1", retry=SOON)
async def record(ctx: Context) -> dict[str, Any]:
    await leave_effect(ctx)
    return signature(ctx)


@app.job("chaos.slow.v1", retry=SOON)
async def slow(ctx: Context, seconds: float, again: float | None = None) -> dict[str, Any]:
    """Sleep for `seconds`; under later fences for `again`, if it is given."""
    await leave_effect(ctx)
    await asyncio.sleep(seconds if ctx.fence == 1 or again is None else again)
    return signature(ctx)


@app.job("chaos.block.v1")
async def block(ctx: Context, seconds: float) -> dict[str, Any]:
    """Block the event loop of the worker, only under the first fence."""
    await leave_effect(ctx)
    if ctx.fence == 1:
        threading.Event().wait(seconds)
    return signature(ctx)


@app.job("chaos.stubborn.v1")
def stubborn(ctx: Context, seconds: float) -> None:
    """Block a thread without checking for cancellation."""
    ctx.log.info("a thread is busy")
    threading.Event().wait(seconds)


@app.job("chaos.poison.v1")
async def poison(ctx: Context) -> None:
    await leave_effect(ctx)
    os.kill(os.getpid(), signal.SIGKILL)


def signature(ctx: Context) -> dict[str, Any]:
    return {"worker": WORKER, "fence": ctx.fence}


async def leave_effect(ctx: Context) -> None:
    pool = await effects()
    await pool.execute(EFFECT, ctx.id, ctx.attempt, ctx.fence, WORKER)


async def effects() -> "asyncpg.Pool[Any]":
    """Return the pool of this process, opened on first use; it reconnects automatically."""
    global _effects
    if _effects is None or (_effects.done() and _effects.exception() is not None):
        opening = asyncpg.create_pool(os.environ["WINDLASS_DATABASE_URL"], min_size=1, max_size=4)
        _effects = asyncio.ensure_future(_opened(opening))
    return await asyncio.shield(_effects)


async def _opened(pool: "asyncpg.Pool[Any]") -> "asyncpg.Pool[Any]":
    await pool
    return pool

"""What the workers of the chaos tests run: `windlass worker workload:app --worker-id ann`, with CHAOS_WORKER=ann.

Handlers that leave a trace do so in the plain table `effects`, through a connection of their own, before anything else
happens to them: it shows what was executed, whatever the engine believes.
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
    """Nothing: the engine alone is at work."""


@app.job("chaos.log.v1")
async def log(ctx: Context) -> None:
    """Logs a line: a turn with log lines is a transaction, not a single statement."""
    ctx.log.info("a line")


@app.job("chaos.record.v1", retry=SOON)
async def record(ctx: Context) -> dict[str, Any]:
    await leave_effect(ctx)
    return signature(ctx)


@app.job("chaos.slow.v1", retry=SOON)
async def slow(ctx: Context, seconds: float, again: float | None = None) -> dict[str, Any]:
    """Takes its time; under a later fence it may take another."""
    await leave_effect(ctx)
    await asyncio.sleep(seconds if ctx.fence == 1 or again is None else again)
    return signature(ctx)


@app.job("chaos.block.v1")
async def block(ctx: Context, seconds: float) -> dict[str, Any]:
    """Blocks the event loop of its worker the first time."""
    await leave_effect(ctx)
    if ctx.fence == 1:
        threading.Event().wait(seconds)
    return signature(ctx)


@app.job("chaos.stubborn.v1")
def stubborn(ctx: Context, seconds: float) -> None:
    """A thread that does not look whether it is still wanted."""
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
    """One small pool a process, opened by the first who needs it; it reconnects by itself."""
    global _effects
    if _effects is None or (_effects.done() and _effects.exception() is not None):
        opening = asyncpg.create_pool(os.environ["WINDLASS_DATABASE_URL"], min_size=1, max_size=4)
        _effects = asyncio.ensure_future(_opened(opening))
    return await asyncio.shield(_effects)


async def _opened(pool: "asyncpg.Pool[Any]") -> "asyncpg.Pool[Any]":
    await pool
    return pool

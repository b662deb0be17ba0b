"""A handler with durable steps for the chaos tests.

Each call of a step's function inserts a row into `calls` on a separate connection: the table shows what was executed,
independently of what the engine recorded.
"""

import asyncio
from typing import Any

from tests.chaos.workload import SOON, WORKER, effects
from windlass import Context, Windlass

STEPS = 8

app = Windlass()


@app.job("chaos.steps.v1", retry=SOON, max_attempts=100)
async def steps(ctx: Context, pause: float) -> dict[str, Any]:
    given = [await ctx.step(f"step-{n}", call, ctx, n, pause) for n in range(STEPS)]
    return {"given": given}


async def call(ctx: Context, n: int, pause: float) -> str:
    pool = await effects()
    await pool.execute("insert into calls (job_id, step, fence) values ($1, $2, $3)", ctx.id, n, ctx.fence)
    await asyncio.sleep(pause)
    return f"{WORKER} under fence {ctx.fence}"

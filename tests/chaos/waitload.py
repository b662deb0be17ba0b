"""A handler with twenty durable calls for the chaos tests, which kills its own process at the lines that its job names.

A line is reached many times, because the handler runs again after each wait, but it kills the process only once per
job, which the table `deaths` records. Each call of a step's function inserts a row into `calls`.
"""

import os
import signal
from typing import Any

from tests.chaos.workload import SOON, effects
from windlass import Context, Windlass

CALLS = 20  # durable calls of the handler
LINES = 33  # positions at which it can be killed
BOOKED = 4  # transactions
SCHEMA = """
create table calls (id bigint generated always as identity, job_id uuid not null, step text not null);
create table deaths (job_id uuid not null, line int not null, primary key (job_id, line));
create table booked (job_id uuid not null, step text not null)"""
CHILD = {"name": "chaos-child", "tasks": [{"name": "double", "job": "chaos.child.v1", "max_attempts": 100}]}

app = Windlass()


@app.job("chaos.child.v1", retry=SOON)
async def child() -> int:
    return 21


@app.job("chaos.wait.v1", retry=SOON, max_attempts=1000)
async def wait(ctx: Context, lines: list[int]) -> dict[str, Any]:
    reached = 0

    async def line() -> None:
        """Kill the process if the job names this line and it was not killed here before."""
        nonlocal reached
        reached += 1
        pool = await effects()
        new = "insert into deaths values ($1, $2) on conflict do nothing returning 1"
        if reached in lines and await pool.fetchval(new, ctx.id, reached):
            os.kill(os.getpid(), signal.SIGKILL)

    results: dict[str, Any] = {}

    async def step(name: str) -> None:
        async def function() -> str:
            await (await effects()).execute("insert into calls (job_id, step) values ($1, $2)", ctx.id, name)
            await line()
            return f"{name} of claim {ctx.fence}"

        skip = reached
        results[name] = await ctx.step(name, function)
        await settle(skip + 1)

    async def book(name: str) -> None:
        async def function(conn: Any) -> str:
            await conn.execute("insert into booked values ($1, $2)", ctx.id, name)
            await line()
            return f"{name} of claim {ctx.fence}"

        skip = reached
        results[name] = await ctx.transaction(name, function)
        await settle(skip + 1)

    async def settle(count: int) -> None:
        """Count the line inside the function even if it was not called (its result is recorded); reach the next."""
        nonlocal reached
        reached = count
        await line()

    await line()
    await step("reserve")
    await book("book-1")
    results["now"] = ctx.now().isoformat()
    await step("invoice")
    await ctx.sleep(0.01)
    await line()
    await step("remind")
    results["paid"] = await ctx.wait_for("paid")
    await line()
    await book("book-2")
    results["child"] = await ctx.run("chaos-child")
    await line()
    await step("pack")
    await ctx.sleep(0.01)
    await line()
    await step("label")
    results["signed"] = await ctx.wait_for("signed", key=str(ctx.id))
    await line()
    await book("book-3")
    await step("ship")
    results["job"] = await ctx.submit_and_wait("chaos.child.v1", max_attempts=100)
    await line()
    await step("thank")
    await ctx.sleep(0.01)
    await line()
    await book("book-4")
    await step("close")
    results["drawn"] = ctx.random()
    await line()
    return {"results": results, "lines": reached}

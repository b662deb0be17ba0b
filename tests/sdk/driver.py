"""The driver of the contract suite for the Python worker: see sdk/contract/README.md."""

import asyncio
import os
import signal
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

from windlass import Context, NonRetryable, RetryAfter, Windlass, WorkerOptions

TRACE = os.environ["CONTRACT_TRACE"]
app = Windlass(os.environ["WINDLASS_DSN"])


class BadInput(NonRetryable):
    pass


def report(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def trace(line: str) -> None:
    descriptor = os.open(TRACE, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(descriptor, f"{line}\n".encode())
    os.close(descriptor)


def trace_start(ctx: Context) -> None:
    trace(f"start {ctx.type} {ctx.id} {ctx.attempt}")


@app.job("contract.echo.v1")
async def echo(ctx: Context, payload):  # type: ignore[no-untyped-def]
    trace_start(ctx)
    return payload


@app.job("contract.noop.v1")
async def noop() -> None:
    pass


@app.job("contract.context.v1")
async def context(ctx: Context) -> dict[str, Any]:
    trace_start(ctx)
    return {"type": ctx.type, "attempt": ctx.attempt, "queue": ctx.queue, "id": str(ctx.id)}


@app.job("contract.large.v1")
async def large(ctx: Context, size: int) -> dict[str, str]:
    trace_start(ctx)
    return {"text": "x" * size}


@app.job("contract.fail.v1")
async def fail(ctx: Context, times: int) -> dict[str, int]:
    trace_start(ctx)
    if ctx.attempt <= times:
        raise RuntimeError("planned failure")
    return {"attempt": ctx.attempt}


@app.job("contract.fatal.v1")
async def fatal(ctx: Context) -> None:
    trace_start(ctx)
    raise BadInput("bad input")


@app.job("contract.retry_after.v1")
async def retry_after(ctx: Context, ms: int) -> dict[str, int]:
    trace_start(ctx)
    if ctx.attempt == 1:
        raise RetryAfter(timedelta(milliseconds=ms), "not yet")
    return {"attempt": ctx.attempt}


@app.job("contract.hang.v1")
async def hang(ctx: Context) -> None:
    trace_start(ctx)
    trace(f"hanging {ctx.id}")
    try:
        await asyncio.Event().wait()
    finally:
        trace(f"stopped {ctx.id}")


@app.job("contract.stubborn.v1")
@app.job("contract.wait.v1")
def stubborn(ctx: Context, until: str) -> dict[str, bool]:
    """Run in a thread, which cannot be cancelled, until a file exists."""
    trace_start(ctx)
    trace(f"hanging {ctx.id}")
    while not Path(until).exists():
        ctx.wait_cancelled(0.02)
    trace(f"done {ctx.id}")
    return {"done": True}


@app.job("contract.steps.v1")
async def steps(ctx: Context, die: bool) -> dict[str, int]:
    trace_start(ctx)

    def step(name: str, value: int) -> int:
        trace(f"step {name}")
        return value

    total: int = await ctx.step("a", lambda: step("a", 1))
    total += await ctx.step("b", lambda: step("b", 2))
    if die and ctx.attempt == 1 and ctx.fence == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return {"sum": total + await ctx.step("c", lambda: step("c", 3))}


@app.job("contract.talk.v1")
async def talk(ctx: Context, lines: int, message: str) -> None:
    trace_start(ctx)
    for number in range(1, lines + 1):
        ctx.log.info("%s %d", message, number)
    await ctx.progress(0.5, "half")


async def main() -> None:
    milliseconds = {name: int(os.environ.get(f"CONTRACT_{name}_MS", default)) for name, default in DEFAULTS.items()}
    options = WorkerOptions(
        id=os.environ["CONTRACT_WORKER"],
        queues=[os.environ["CONTRACT_QUEUE"]],
        concurrency=int(os.environ.get("CONTRACT_CONCURRENCY", "8")),
        lease=timedelta(milliseconds=milliseconds["LEASE"]),
        grace=timedelta(milliseconds=milliseconds["GRACE"]),
    )
    stop = asyncio.Event()

    def drain() -> None:
        stop.set()
        report("draining")

    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, drain)
    async with app:
        await app.open()
        report("ready")
        await app.work(options, stop=stop)


DEFAULTS = {"LEASE": 2000, "GRACE": 10000}

if __name__ == "__main__":
    asyncio.run(main())

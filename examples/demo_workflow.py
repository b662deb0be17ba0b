"""The second act of `make demo`: a workflow with every kind of step, and a crash in the middle of it."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from examples.shop import serving
from rich.console import Console

from windlass import Run, RunResult, Windlass
from windlass.core.diagrams.tree import draw_tree
from windlass.effects.documents import read

FILE = Path(__file__).with_name("whole-order.yaml")
ORDER = "A-17"
console = Console(highlight=False, markup=False)


async def show(app: Windlass) -> None:
    async with serving() as shop:
        await app.deploy(*read(FILE))
        run = await app.start(
            "whole-order", {"shop": shop.url, "order": ORDER, "items": ["lamp", "rug", "mug", "chair"]}
        )
        say(f"run {run.id} of {FILE.name} is recorded", "no worker is running yet")
        async with windlass_up() as first:
            await shop.called("/create-checkout")
            say("The shop knows where to call back; the process is killed (SIGKILL)", shop.callbacks[ORDER])
        async with windlass_up(port=first["http"].rpartition(":")[2]):  # callbacks go where they were told
            say("A new process is up; the customer pays", f"the shop's callback was answered {await shop.pay(ORDER)}")
            result = await run.wait(timeout=60)
        await report(run, result)


@asynccontextmanager
async def windlass_up(port: str = "0") -> AsyncIterator[dict[str, Any]]:
    """`windlass up`; killed, not stopped, at the end."""
    environ = {**os.environ, "WINDLASS_HTTP_ALLOW": "127.0.0.1/32", "WINDLASS_LOG_LEVEL": "ERROR"}
    command = [sys.executable, "-m", "windlass", "up", "examples.orders:app", "--port", port, "--lease", "2s", "--json"]
    process = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL, env=environ
    )
    assert process.stdout is not None
    try:
        yield json.loads(await asyncio.wait_for(process.stdout.readline(), 60))
    finally:
        process.send_signal(signal.SIGKILL)
        await process.wait()


async def report(run: Run, result: RunResult) -> None:
    view = await run.view()
    say(f"The run {result.state}", draw_tree(view.workflow, view.row.letters))
    told = await run.explain()
    why = [
        f"{step.step}: {' '.join(step.sentences)}"
        for step in told.steps
        if step.step in ("no-points", "pick", "payment")
    ]
    say("Why? `windlass explain RUN` says it of every step; of three of them:", "\n".join([" ".join(told.run), *why]))
    if result.state != "completed":
        sys.exit("the run did not complete: this is a bug")


def say(what: str, detail: str) -> None:
    console.print(f"> {what}", style="bold green")
    console.print("\n".join(f"  {line}" for line in detail.splitlines()))

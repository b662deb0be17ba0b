"""The second part of `make demo`: a workflow with many kinds of steps, and a crash in the middle of it."""

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
from windlass.core.diagrams import draw_tree
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
        say(f"run {run.id} of {FILE.name} is started", "no worker is running yet")
        async with windlass_up() as first:
            await shop.called("/create-checkout")
            say("The shop received the callback URL; the process is killed (SIGKILL)", shop.callbacks[ORDER])
        async with windlass_up(port=first["http"].rpartition(":")[2]):  # the callback URL contains the port
            say("A new process is running; the customer pays", f"the callback returned {await shop.pay(ORDER)}")
            result = await run.wait(timeout=60)
        await report(run, result)


@asynccontextmanager
async def windlass_up(port: str = "0") -> AsyncIterator[dict[str, Any]]:
    """Run `windlass up`, and kill it at the end."""
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
    explanation = await run.explain()
    why = [
        f"{step.step}: {' '.join(step.sentences)}"
        for step in explanation.steps
        if step.step in ("no-points", "pick", "payment")
    ]
    say("`windlass explain RUN` explains every step; three of them:", "\n".join([" ".join(explanation.run), *why]))
    if result.state != "completed":
        sys.exit("the run did not complete: this is a bug")


def say(what: str, detail: str) -> None:
    console.print(f"> {what}", style="bold green")
    console.print("\n".join(f"  {line}" for line in detail.splitlines()))

"""Workers without an app, workers with prefixes, and the separate scheduler: real processes on a real database."""

from pathlib import Path

import pytest

from tests.e2e.cli_process import Cli

SHOP = """
from windlass import Windlass

app = Windlass()

@app.job("ctx.tell.v1")
async def tell() -> None: ...

@app.job("orders.load.v1")
async def load() -> None: ...
"""
FILES = {
    "shop.py": SHOP,
    "command.yaml": "name: command\ntasks: { hello: { run: 'echo 42' } }\n",
    "nap.yaml": "name: nap\ntasks: { nap: { sleep: 10ms }, again: { needs: [nap], sleep: 10ms } }\n",
}


@pytest.fixture
def cli(tmp_path: Path, database: str) -> Cli:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    return Cli(tmp_path, database)


async def test_a_worker_without_an_app_serves_http_and_command_steps(cli: Cli) -> None:
    async with cli.running("worker", "--allow-commands", "--worker-id", "w1") as worker:
        line = await worker.line("serves")
        ended = await cli("run", "command.yaml", "--wait", "--timeout", "50s", "--json")
        worker.signal()
        assert await worker.end() == 0
    assert "windlass.command.v1" in line
    assert "windlass.http.v1" in line
    assert (ended.code, '"output": 42' in ended.out) == (0, True), ended


async def test_a_worker_with_a_prefix_logs_the_types_that_it_serves(cli: Cli) -> None:
    async with cli.running("worker", "shop:app", "--prefix", "ctx.%") as worker:
        line = await worker.line("serves")
    assert "serves ctx.tell.v1 in queues" in line


async def test_a_separate_scheduler_process_wakes_sleeping_runs(cli: Cli) -> None:
    async with cli.running("scheduler") as scheduler:
        await scheduler.line("scheduler runs on")
        ended = await cli("run", "nap.yaml", "--wait", "--timeout", "50s", "--json")
        scheduler.signal()
        assert await scheduler.end() == 0
    assert (ended.code, '"completed"' in ended.out) == (0, True), ended

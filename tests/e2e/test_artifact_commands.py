"""Artifacts on the command line: server and worker in one process, commands with the database and with a URL."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.e2e.cli_process import Cli

SHOP = """
from windlass import Context, Windlass

app = Windlass()

@app.job("report.v1")
async def report(ctx: Context) -> str:
    return await ctx.artifacts.write("report.csv", "a,b\\n" * 500_000)

app.workflow("monthly").step("report", report)
"""
SIZE = 2_000_000


@pytest.fixture
async def run(tmp_path: Path, database: str) -> AsyncIterator[tuple[Cli, str, str]]:
    """Yield the command line, the URL of the server and the id of a run that has ended."""
    (tmp_path / "shop.py").write_text(SHOP)
    cli = Cli(tmp_path, database)
    async with cli.running("up", "shop:app", "--port", "0", "--json") as up:
        url = json.loads(await up.line("{"))["http"]
        ran = await cli("run", "monthly", "--wait")
        assert ran.code == 0, ran.err
        yield cli, url, ran.out.split()[0]


async def test_artifacts_are_listed_and_downloaded(run: tuple[Cli, str, str], tmp_path: Path) -> None:
    cli, url, id_ = run
    near, far = await asyncio.gather(
        cli("artifacts", "list", id_), cli("artifacts", "list", id_, "--step", "report", WINDLASS_URL=url)
    )
    assert near.out == far.out
    assert near.out.splitlines()[1].split()[:6] == ["report", "0", "report.csv", "1", "1.9", "MiB"]
    saved, piped, unknown = await asyncio.gather(
        cli("artifacts", "get", id_, "report", "report.csv"),
        cli("artifacts", "get", id_, "report", "report.csv", "-o", "-", WINDLASS_URL=url),
        cli("artifacts", "get", id_, "report", "none.csv", WINDLASS_URL=url),
    )
    assert (saved.code, saved.out, saved.err) == (0, "report.csv: 1.9 MiB\n", "")
    assert (tmp_path / "report.csv").stat().st_size == len(piped.out) == SIZE
    assert (unknown.code, "no artifact" in unknown.err, (tmp_path / "none.csv").exists()) == (1, True, False)
    again, forced = (
        await cli("artifacts", "get", id_, "report", "report.csv"),
        await cli("artifacts", "get", id_, "report", "report.csv", "--force", WINDLASS_URL=url),
    )
    assert (again.code, "report.csv exists" in again.err, forced.code) == (1, True, 0)
    assert not list(tmp_path.glob("*.part"))


async def test_artifacts_of_a_job_are_listed_and_downloaded(run: tuple[Cli, str, str], tmp_path: Path) -> None:
    cli, url, id_ = run
    job = json.loads((await cli("jobs", "list", "--json")).out)["jobs"][0]["id"]
    near, far, both, few, steps = await asyncio.gather(
        cli("artifacts", "list", "--job", job),
        cli("artifacts", "list", "--job", job, WINDLASS_URL=url),
        cli("artifacts", "list", id_, "--job", job),
        cli("artifacts", "get", id_, "report.csv"),
        cli("artifacts", "list", "--job", job, "--step", "report"),
    )
    assert near.out == far.out
    assert near.out.splitlines()[1].split()[:4] == ["report.csv", "1", "1.9", "MiB"]
    assert (both.code, "name a run, or a job with --job JOB" in both.err) == (1, True)
    assert (few.code, "name RUN STEP NAME, or --job JOB NAME" in few.err) == (1, True)
    assert (steps.code, "leave it out with --job" in steps.err) == (1, True)
    saved, piped, unknown = await asyncio.gather(
        cli("artifacts", "get", "--job", job, "report.csv", "-o", "near.csv"),
        cli("artifacts", "get", "--job", job, "report.csv", "-o", "-", WINDLASS_URL=url),
        cli("artifacts", "get", "--job", job, "none.csv", "--attempt", "1"),
    )
    assert (saved.code, saved.out) == (0, "near.csv: 1.9 MiB\n")
    assert (tmp_path / "near.csv").stat().st_size == len(piped.out) == SIZE
    assert (unknown.code, "no artifact" in unknown.err) == (1, True)

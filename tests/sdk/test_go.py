"""The guide of the Go SDK, executed as documented, and inserts into the inbox without a server."""

import asyncio
import json
import os
import re
import shutil
from pathlib import Path

import pytest

from tests.chaos.harness import Inbox
from tests.sdk.test_contract import driver_of, tended
from tests.web.serving import served
from windlass import Windlass

ROOT = Path(__file__).parents[2]
MODULE = f"""module guide

go 1.23

require github.com/windlass/windlass/sdk/go v0.0.0

replace github.com/windlass/windlass/sdk/go => {ROOT}/sdk/go
"""


async def run(*command: str, cwd: Path, **variables: str) -> str:
    """Run a program to its end; return what it printed."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        *command, cwd=cwd, env=os.environ | variables, stdout=pipe, stderr=pipe
    )
    output, errors = await process.communicate()
    assert process.returncode == 0, errors.decode()
    return output.decode()


@pytest.fixture
def go() -> str:
    found = shutil.which("go")
    if found is None:
        if os.environ.get("CI"):
            pytest.fail("Go is not installed")
        pytest.skip("Go is not installed")
    return found


async def test_the_reference_is_current(go: str) -> None:
    page = (ROOT / "docs/reference/go.md").read_text("utf-8")
    assert await run(go, "run", "./reference", "..", cwd=ROOT / "sdk/go/contract") == page, "run `make docs`"


async def test_the_guide_works_as_written(go: str, app: Windlass, tmp_path: Path) -> None:
    guide = (ROOT / "docs/how-to/getting-started-go.md").read_text("utf-8")
    programs = re.findall(r"^```go\n(package main\n.*?)^```", guide, re.MULTILINE | re.DOTALL)
    (expected,) = re.findall(r"It prints:\n\n```\n(.*?)```", guide, re.DOTALL)
    (tmp_path / "go.mod").write_text(MODULE, "utf-8")
    for name, source in zip(("worker", "submit"), programs, strict=True):
        (tmp_path / name).mkdir()
        (tmp_path / name / "main.go").write_text(source, "utf-8")
    await run(go, "build", "-o", f"{tmp_path}/bin/", "./...", cwd=tmp_path)
    async with served(app) as http, tended(app):
        url = str(http.base_url).removesuffix("/").removesuffix("/api/v1")
        worker = await asyncio.create_subprocess_exec(
            f"{tmp_path}/bin/worker", env=os.environ | {"WINDLASS_URL": url}, stderr=asyncio.subprocess.DEVNULL
        )
        try:
            async with asyncio.timeout(60):
                assert await run(f"{tmp_path}/bin/submit", cwd=tmp_path, WINDLASS_URL=url) == expected
        finally:
            worker.terminate()
            assert await worker.wait() == 0


async def test_the_go_inbox_package_manages_jobs_and_schedules_over_sql(database: str, tmp_path: Path) -> None:
    program = Path(driver_of("go-sql", tmp_path).command[0]).with_name("inbox")
    seen = json.loads(await run(str(program), cwd=tmp_path, WINDLASS_DSN=database))
    mistake = seen.pop("mistake")
    assert '"25" must be a number from 0 to 23' in mistake
    assert seen == {
        "duplicate": True, "ended": True, "unknown": True, "status": "cancelled", "schedules": 1,
        "next_is_ahead": True, "ticks": [0, 1, 0], "deleted": True,
    }  # fmt: skip
    async with Inbox.open(database) as inbox:
        jobs = await inbox.fetch("select type, status, payload::text from workflow.workflow_run order by type")
        keys = await inbox.fetch("select idempotency_key from workflow.workflow_run where type = 'go.nightly.v1'")
    assert jobs == [("go.first.v1", "cancelled", '{"n": 1}'), ("go.nightly.v1", "pending", '{"full": true}')]
    assert keys[0][0].startswith("schedule:")

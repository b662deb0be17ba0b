"""The guide of the Go SDK, executed as it is written."""

import asyncio
import os
import re
import shutil
from pathlib import Path

import pytest

from tests.sdk.test_contract import tended
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


async def test_the_guide_works_as_written(app: Windlass, tmp_path: Path) -> None:
    if shutil.which("go") is None:
        if os.environ.get("CI"):
            pytest.fail("Go is not installed")
        pytest.skip("Go is not installed")
    guide = (ROOT / "docs/how-to/getting-started-go.md").read_text("utf-8")
    programs = re.findall(r"^```go\n(package main\n.*?)^```", guide, re.MULTILINE | re.DOTALL)
    (expected,) = re.findall(r"It prints:\n\n```\n(.*?)```", guide, re.DOTALL)
    (tmp_path / "go.mod").write_text(MODULE, "utf-8")
    for name, source in zip(("worker", "submit"), programs, strict=True):
        (tmp_path / name).mkdir()
        (tmp_path / name / "main.go").write_text(source, "utf-8")
    await run("go", "build", "-o", f"{tmp_path}/bin/", "./...", cwd=tmp_path)
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

"""The example of one workflow in three languages, executed as documented."""

import asyncio
import os
import re
import shutil
import sys
from pathlib import Path

import pytest
from tools import typescript

from tests.keys import MASTER_KEY
from tests.sdk.test_contract import tended
from tests.sdk.test_typescript import node, run
from tests.web.serving import served
from windlass import Windlass

__all__ = ["node"]  # a fixture
ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples/three-languages"
GUIDE = (ROOT / "docs/how-to/one-workflow-three-languages.md").read_text("utf-8")


def test_the_guide_shows_the_files_of_the_example() -> None:
    shown = re.findall(r"^`(\S+)`:\n\n```\w+\n(.*?)^```", GUIDE, re.MULTILINE | re.DOTALL)
    assert len(shown) == 3
    for name, text in shown:
        assert (EXAMPLE / name).read_text("utf-8") == text


async def test_a_workflow_defined_in_python_is_executed_by_typescript_and_go_workers(
    node: str, app: Windlass, database: str, tmp_path: Path
) -> None:
    if shutil.which("go") is None:
        if os.environ.get("CI"):
            pytest.fail("Go is not installed")
        pytest.skip("Go is not installed")
    [printed] = re.findall(r"^It prints:\n\n```\n(.*?)^```", GUIDE, re.MULTILINE | re.DOTALL)
    await run("go", "build", "-o", f"{tmp_path}/label", "./label", cwd=EXAMPLE)
    shutil.copy(EXAMPLE / "pack.ts", tmp_path)
    shutil.copy(EXAMPLE / "package.json", tmp_path)
    modules = tmp_path / "node_modules"
    (modules / "@windlass").mkdir(parents=True)
    (modules / "@windlass/client").symlink_to(typescript.SDK)
    (modules / "@types").symlink_to(typescript.SDK / "node_modules/@types")
    compiler = str(typescript.SDK / "node_modules/typescript/bin/tsc")
    await run(node, compiler, "--module", "nodenext", "--target", "es2022", "--skipLibCheck", "pack.ts", cwd=tmp_path)
    async with served(app) as http, tended(app):
        url = str(http.base_url).removesuffix("/").removesuffix("/api/v1")
        environ = {"WINDLASS_URL": url, "WINDLASS_DATABASE_URL": database, "WINDLASS_MASTER_KEY": MASTER_KEY}
        commands = ([node, str(tmp_path / "pack.js")], [str(tmp_path / "label")])
        workers = [
            await asyncio.create_subprocess_exec(*command, env=os.environ | environ, stderr=asyncio.subprocess.DEVNULL)
            for command in commands
        ]
        try:
            assert await run(sys.executable, str(EXAMPLE / "order.py"), cwd=ROOT, **environ) == printed
        finally:
            for worker in workers:
                worker.terminate()
        assert [await worker.wait() for worker in workers] == [0, 0]

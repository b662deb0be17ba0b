"""The pages about the API: they list all paths and terms, and their commands work."""

import asyncio
import contextlib
import json
import os
import re
import shutil
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tools import reference

from tests.web.serving import API
from tests.web.test_api_openapi import DOCUMENT
from windlass import Windlass
from windlass.core.runs.run import RunState
from windlass.schemas.common import TaskStatus, WorkerStatus
from windlass.web import server
from windlass.web.api.jobs import ALIASES as JOB_ALIASES
from windlass.web.api.runs import ALIASES as RUN_ALIASES
from windlass.web.middleware.guard import GuardOptions
from windlass.web.server import listen, serving

DOCS = Path(__file__).parents[2] / "docs"
REFERENCE = (DOCS / "reference" / "http-api.md").read_text("utf-8")
HOW_TO = (DOCS / "how-to" / "use-the-http-api.md").read_text("utf-8")
LOCAL = "http://127.0.0.1:8080"
NEEDED = [shutil.which(program) for program in ("bash", "curl", "jq")]


def test_every_path_is_in_the_reference() -> None:
    """Paths of a run may be listed under either of its prefixes."""
    told = REFERENCE + REFERENCE.replace("{id}", "{run_id}").replace("{name}", "{task}")
    lacking = []
    for path in DOCUMENT["paths"]:
        short = path.removeprefix(API).replace("/workflows/{ref}/runs/{run_id}", "/runs/{run_id}")
        ending = short.removeprefix("/runs/{run_id}").removeprefix("/workflows/{ref}")
        if path.startswith((API, "/wh", "/in")) and f"{short}`" not in told and f"`{ending}`" not in told:
            lacking.append(path)
    assert lacking == []


def test_every_status_name_is_in_the_reference() -> None:
    known = (*TaskStatus, *RunState, *RUN_ALIASES, *JOB_ALIASES, *WorkerStatus)
    assert {word for word in known if f"`{word}`" not in REFERENCE} == set()


@contextlib.asynccontextmanager
async def served(app: Windlass) -> AsyncIterator[str]:
    """Run a server and a worker, like `windlass up`."""
    listener = listen("127.0.0.1", 0)
    await app.listen_at(listener.url)
    stop = asyncio.Event()
    async with serving(server.build(app, GuardOptions(host=listener.host)), listener):
        working = asyncio.create_task(app.work(stop=stop))
        yield listener.url
        stop.set()
        await working


@pytest.mark.skipif(None in NEEDED and not os.environ.get("CI"), reason="the page uses bash, curl and jq")
async def test_the_commands_of_the_how_to_work(app: Windlass) -> None:
    script = "set -eu\n" + "\n".join(blocks("sh"))
    async with served(app) as url:
        said = await spoken("bash", "-c", script.replace(LOCAL, url))
        refused = await spoken("bash", "-c", refusal().replace("$api", url + API))
    assert "completed" in said
    assert said.count("order-processing") >= 1
    assert [error["field"] for error in json.loads(refused)] == re.findall(r'"field": "(.+)"', HOW_TO)


async def test_the_python_of_the_how_to_works(app: Windlass, tmp_path: Path) -> None:
    for block in blocks("yaml"):
        (tmp_path / block.partition("\n")[0].removeprefix("# ")).write_text(block)
    async with served(app) as url:
        said = await spoken(
            sys.executable, "-W", "error", "-c", "\n".join(blocks("python")).replace(LOCAL, url), cwd=tmp_path
        )
    assert "order-processing 1 True" in said
    assert "end None" in said  # the stream ended
    assert said.rstrip().endswith("['tasks.a.sleep', 'tasks.b.needs']")


def test_the_operations_page_matches_the_openapi_document() -> None:
    assert (DOCS / "reference" / "http-operations.md").read_text("utf-8") == reference.page(reference.document()), (
        "run make docs"
    )


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", HOW_TO, re.DOTALL)


def refusal() -> str:
    [command] = re.findall(r"```console\n\$ (.*?)\n", HOW_TO)
    return str(command)


async def spoken(*command: str, cwd: Path | None = None) -> str:
    pipe: Any = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*command, stdout=pipe, stderr=pipe, cwd=cwd)
    out, error = await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode == 0, f"{out.decode()}\n{error.decode()}"
    return out.decode()

"""The pages about the API: what they list is what there is, and their commands work."""

import asyncio
import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.web.serving import API
from tests.web.test_api_openapi import DOCUMENT
from windlass import Windlass
from windlass.core.run import RunState
from windlass.web import asgi
from windlass.web.api.words import RUN_ALIASES, TaskStatus
from windlass.web.guard import GuardOptions
from windlass.web.server import listen, serving

DOCS = Path(__file__).parents[2] / "docs"
REFERENCE = (DOCS / "reference" / "http-api.md").read_text("utf-8")
HOW_TO = (DOCS / "how-to" / "use-the-http-api.md").read_text("utf-8")
NEEDED = [shutil.which(program) for program in ("bash", "curl", "jq")]


def test_every_path_is_in_the_reference() -> None:
    """Those of a run may stand below either of its addresses."""
    told = REFERENCE.replace("{id}", "{run_id}").replace("{name}", "{task}")
    lacking = []
    for path in DOCUMENT["paths"]:
        short = path.removeprefix(API).replace("/workflows/{ref}/runs/{run_id}", "/runs/{run_id}")
        ending = short.removeprefix("/runs/{run_id}").removeprefix("/workflows/{ref}")
        if path.startswith((API, "/wh", "/in")) and f"{short}`" not in told and f"`{ending}`" not in told:
            lacking.append(path)
    assert lacking == []


def test_every_word_is_in_the_reference() -> None:
    assert {word for word in (*TaskStatus, *RunState, *RUN_ALIASES) if f"`{word}`" not in REFERENCE} == set()


@pytest.mark.skipif(None in NEEDED, reason="the page uses bash, curl and jq")
async def test_the_commands_of_the_how_to_work(app: Windlass) -> None:
    blocks = re.findall(r"```sh\n(.*?)```", HOW_TO, re.DOTALL)
    listener = listen("127.0.0.1", 0)
    await app.listen_at(listener.url)
    stop = asyncio.Event()
    script = "set -euo pipefail\n" + "\n".join(blocks).replace("http://127.0.0.1:8080", listener.url)
    async with serving(asgi.build(app, GuardOptions(host=listener.host)), listener):
        working = asyncio.create_task(app.work(stop=stop))
        said = await spoken(script)
        refused = await spoken(refusal().replace("$api", listener.url + API))
        stop.set()
        await working
    assert "completed" in said
    assert said.count("order-processing") >= 1
    assert [error["field"] for error in json.loads(refused)] == re.findall(r'"field": "(.+)"', HOW_TO)


def refusal() -> str:
    [command] = re.findall(r"```console\n\$ (.*?)\n", HOW_TO)
    return str(command)


async def spoken(script: str) -> str:
    pipe: Any = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec("bash", "-c", script, stdout=pipe, stderr=pipe)
    out, error = await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode == 0, f"{out.decode()}\n{error.decode()}"
    return out.decode()

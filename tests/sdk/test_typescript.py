"""The TypeScript SDK against a real server, and compared with the Python builder. `npm test` runs the tests that need
neither."""

import asyncio
import json
import os
import re
from pathlib import Path

import pytest
from tools import typescript

from tests.sdk.test_contract import tended
from tests.web.serving import served
from windlass import Windlass
from windlass.core.definition.builder import WorkflowBuilder
from windlass.core.definition.parser import parse
from windlass.core.jobs.retry import Backoff, Retry
from windlass.core.workflows.workflow import Workflow

ROOT = Path(__file__).parents[2]
TESTS = typescript.SDK / "dist/test"


@pytest.fixture(scope="module", autouse=True)
def node() -> str:
    """Return the path of Node; skip if Node or a built SDK is missing."""
    path = typescript.node()
    if path is not None and typescript.DRIVER.exists():
        return path
    why = typescript.NO_NODE if path is None else "the TypeScript SDK is not built: make sdk-typescript"
    if os.environ.get("CI"):
        pytest.fail(why)
    pytest.skip(why)


async def run(*command: str, cwd: Path = typescript.SDK, **variables: str) -> str:
    """Run a program to its end; return what it printed."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        *command, cwd=cwd, env=os.environ | variables, stdout=pipe, stderr=asyncio.subprocess.STDOUT
    )
    output, _ = await process.communicate()
    assert process.returncode == 0, output.decode()
    return output.decode()


def python_workflows() -> list[Workflow]:
    """The workflows of sdk/typescript/test/workflows.ts."""
    etl = WorkflowBuilder(
        "etl", cron="0 2 * * *", timezone="Europe/Berlin", overlap="skip", description="Loads files",
        labels={"team": "data"}, max_duration="2h", concurrency=2,
    )  # fmt: skip
    extract = etl.step("extract", "etl.extract.v1", source="s3://landing")
    load = etl.step("load", "etl.load.v1", file=etl.item, bucket=etl.input["bucket"])
    load.foreach(extract["files"], concurrency=8).timeout("30s").queue("heavy").priority(10)
    load.retry(max_attempts=5, retry=Retry(kind=Backoff.CONSTANT, base=2))
    etl.step("shards", "etl.shard.v1", number=etl.index).parallel(3)
    etl.step("alert", "etl.alert.v1", error=load.error).after(load, on="failure")
    etl.step("cleanup", "etl.cleanup.v1").final().allow_failure()

    order = WorkflowBuilder("order", event={"event": "order.placed", "if": "input.total > 10"})
    pick = order.step("pick", "orders.pick.v1", order=order.input["order"]).compensate("orders.unpick.v1")
    note = order.http("note", f"https://example.com/{pick['id']}", body={"items": pick["items"]})
    order.http("check", "https://example.com/check", method="GET", needs=pick).only_if(f"{pick['count']} > 3")
    pause = order.sleep("pause", "1h30m", needs=pick)
    paid = order.wait_for_event("paid", "paid", key=order.input["order"], timeout="1d", needs=[pick, pause])
    called = order.wait_for_webhook("called", timeout="2h", needs=[note, paid]).join_any()
    order.wait_for_webhook("open", needs={called: "complete"})
    agree = order.approve("agree", f"Ship {pick['id']}?", roles=["operator"], timeout="3d")
    ship = order.command("ship", "echo shipped", input={"to": agree["address"][0]})
    order.child("bill", "billing", input={"order": order.input["order"]}, needs=ship)
    return [etl.build(), order.build()]


async def test_the_builders_of_both_languages_produce_the_same_workflows(node: str) -> None:
    documents = json.loads(await run(node, str(TESTS / "workflows.js")))
    assert [parse(document) for document in documents] == python_workflows()


async def test_the_reference_is_current(node: str) -> None:
    page = (ROOT / "docs/reference/typescript.md").read_text("utf-8")
    assert await run(node, "scripts/reference.mjs") == page, "run `make docs`"


async def test_the_guide_works_as_written(node: str, app: Windlass, tmp_path: Path) -> None:
    guide = (ROOT / "docs/how-to/getting-started-typescript.md").read_text("utf-8")
    blocks = re.findall(r"^```ts\n(.*?)^```", guide, re.MULTILINE | re.DOTALL)
    files = dict(zip(("worker", "start", "failures", "errors"), blocks, strict=True))
    for name, source in files.items():
        (tmp_path / f"{name}.ts").write_text(source, "utf-8")
    (tmp_path / "package.json").write_text('{"type": "module"}', "utf-8")
    modules = tmp_path / "node_modules"
    (modules / "@windlass").mkdir(parents=True)
    (modules / "@windlass/client").symlink_to(typescript.SDK)
    (modules / "@types").symlink_to(typescript.SDK / "node_modules/@types")
    options = "--module nodenext --target es2022 --strict --exactOptionalPropertyTypes --types node --skipLibCheck"
    compiler = str(typescript.SDK / "node_modules/typescript/bin/tsc")
    await run(node, compiler, *options.split(), *(f"{name}.ts" for name in files), cwd=tmp_path)
    [printed] = re.findall(r"^It prints:\n\n```\n(.*?)^```", guide, re.MULTILINE | re.DOTALL)
    async with served(app) as http, tended(app):
        url = str(http.base_url).removesuffix("/").removesuffix("/api/v1")
        environ = os.environ | {"WINDLASS_URL": url}
        worker = await asyncio.create_subprocess_exec(node, "worker.js", cwd=tmp_path, env=environ)
        try:
            assert await run(node, "start.js", cwd=tmp_path, WINDLASS_URL=url) == printed
        finally:
            worker.terminate()
        assert await worker.wait() == 0


async def test_the_client_and_the_worker_work_against_a_server(node: str, app: Windlass) -> None:
    async with served(app) as http, tended(app):
        url = str(http.base_url).removesuffix("/").removesuffix("/api/v1")
        await run(node, "--test", "--test-timeout=60000", str(TESTS / "server.live.js"), WINDLASS_URL=url)

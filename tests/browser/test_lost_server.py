"""A killed server is shown as unreachable; when it is back, the page catches up automatically with missed events."""

from pathlib import Path
from uuid import UUID

import pytest
from playwright.async_api import Browser, expect

from tests.browser.conftest import PATIENCE, ROOT
from tests.browser.stage import ORDER, ask
from tests.e2e.cli_process import Cli
from windlass import Windlass
from windlass.engine.runs import control as runs
from windlass.settings import Settings
from windlass.testing import Databases

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_a_lost_connection_is_shown_and_the_page_catches_up_on_missed_events(
    browser: Browser, databases: Databases, tmp_path: Path
) -> None:
    async with databases.fresh() as database:
        cli = Cli(ROOT, database, tmp_path)
        async with cli.running("up", "tests.browser.stage:app", "--port", "0") as server:
            url = (await server.line("http ")).split()[1]
            await server.line("serves")
            ask(url, "/workflows", ORDER)
            run = ask(url, "/workflows/order/runs", {"input": {"order": "K-1", "card": "visa", "count": 1}})["run_id"]
            page = await browser.new_page(base_url=url)
            page.set_default_timeout(PATIENCE)
            await page.goto(f"/runs/{run}")
            carrier = page.locator(".react-flow__node[data-id=carrier] .task")
            await expect(carrier).to_have_attribute("data-status", "waiting", timeout=PATIENCE)
            await expect(page.locator(".pulse")).to_have_text("live")
            server.process.kill()
            await expect(page.locator(".pulse")).to_have_text("no connection", timeout=PATIENCE)
            await expect(carrier).to_have_attribute("data-status", "waiting")  # what is known stays in sight
        async with Windlass(database, settings=Settings()) as app:  # while nobody serves
            await runs.cancel(await app.open(), UUID(run))
        async with cli.running("up", "tests.browser.stage:app", "--port", url.rsplit(":", 1)[1]) as server:
            await server.line("serves")
            await expect(page.locator(".pulse")).to_have_text("live", timeout=PATIENCE)
            await expect(page.locator(".run-head .state").first).to_have_text("cancelled", timeout=PATIENCE)
            await page.context.close()

"""Workers in a browser: which are alive, which are silent, and the jobs they run."""

import asyncpg
import pytest
from playwright.async_api import Page, expect

from tests.browser.conftest import Stage

pytestmark = pytest.mark.asyncio(loop_scope="session")

LOST = """insert into windlass.worker (id, host, pid, queues, types, concurrency, state, active, seen_at)
values ('lost-1', 'lost', 1, '{default}', '{}', 8, 'running', 3, windlass.now() - interval '2 hours')"""


async def test_workers_show_their_heartbeat_their_slots_and_their_running_jobs(page: Page, on_stage: Stage) -> None:
    conn = await asyncpg.connect(on_stage.database)
    await conn.execute(LOST)
    await conn.close()
    await page.goto("/workers")
    rows = page.locator("tbody tr")
    lost, up = rows.filter(has_text="lost-1"), rows.filter(has=page.locator('[data-state="up"]'))
    await expect(lost.locator(".state")).to_have_text("silent")
    await expect(lost).to_contain_text("2h")
    await expect(lost.get_by_label("3 of 8 slots in use")).to_be_visible()
    await expect(up.locator(".state")).to_have_text("up")
    await up.get_by_role("link").click()
    await expect(page.locator("tbody tr").filter(has_text="shop.scan.v1").first).to_be_visible()
    await page.goto("/workers/lost-1")
    await expect(page.locator("main")).to_contain_text("stopped sending heartbeats")

"""Pools in a browser: which can be used, and what to do about the others."""

import asyncpg
import pytest
from playwright.async_api import Page, expect

from tests.browser.conftest import Stage

pytestmark = pytest.mark.asyncio(loop_scope="session")

POOLS = """insert into windlass.pool (name, launcher, max_parallel, problem, seen_at) values
('gpu', 'kubernetes', 50, 'jobs.batch is forbidden', windlass.now() + interval '1 hour'),
('lost', 'ray', 5, null, windlass.now() - interval '2 hours')"""


async def test_pools_show_their_launcher_their_size_their_problem_and_what_to_do(page: Page, on_stage: Stage) -> None:
    conn = await asyncpg.connect(on_stage.database)
    await conn.execute(POOLS)
    await page.goto("/pools")
    rows = page.locator("tbody tr")
    gpu, lost = rows.filter(has_text="gpu"), rows.filter(has_text="lost")
    await expect(gpu).to_contain_text("jobs.batch is forbidden")
    await expect(gpu).to_contain_text("windlass pools test gpu")
    await expect(gpu.get_by_label("0 of 50 slots in use")).to_be_visible()
    await expect(lost.locator(".state")).to_have_text("silent")
    await expect(lost).to_contain_text("windlass pools forget lost")
    await conn.execute("delete from windlass.pool where name in ('gpu', 'lost')")
    await conn.close()

"""Queues in a browser: their depths, and a switch for each that takes effect."""

import re

import pytest
from playwright.async_api import Page, expect

from tests.browser.conftest import Stage
from tests.browser.stage import ask

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_the_depths_of_a_queue_are_shown_and_update_live(page: Page, on_stage: Stage) -> None:
    await page.goto("/queues")
    cells = page.locator("tbody tr", has_text="attic").locator("td.num")
    await expect(cells.nth(0)).to_have_text("1")
    await expect(cells.nth(3)).to_have_text(re.compile(r"\d"))
    ask(on_stage.url, "/jobs", {"type": "shop.note.v1", "queue": "attic"})
    ask(on_stage.url, "/jobs", {"type": "shop.note.v1", "queue": "attic", "delay": "1h"})
    await expect(cells.nth(0)).to_have_text("2")
    await expect(cells.nth(2)).to_have_text("1")


async def test_a_queue_is_paused_and_resumed(page: Page, on_stage: Stage) -> None:
    await page.goto("/queues")
    row = page.locator("tbody tr", has_text="attic")
    await row.get_by_role("button", name="pause attic").click()
    await expect(row.locator(".state")).to_have_text("paused")
    assert ask(on_stage.url, "/queues/attic")["paused"]
    await row.get_by_role("button", name="resume attic").click()
    await expect(row.locator(".state")).to_have_text("enabled")

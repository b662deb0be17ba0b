"""Schedules in a browser: both kinds, upcoming ticks, pause with a reason, run now, backfill of missed ticks."""

import re
from typing import Any

import asyncpg
import pytest
from playwright.async_api import Page, expect

from tests.browser.conftest import PageErrors, Stage
from tests.browser.stage import ask

pytestmark = pytest.mark.asyncio(loop_scope="session")

OF_SQL = """insert into workflow.workflow_schedule (type, schedule, next_run_at)
values ('shop.stock.v1', '0 4 * * *', windlass.now() + interval '5 hours')"""


def hourly(stage: Stage, name: str) -> None:
    trigger = {"cron": "0 * * * *", "timezone": "UTC", "input": {"text": "tick"}}
    definition: dict[str, Any] = {"name": name, "trigger": trigger, "tasks": {"a": {"job": "shop.note.v1"}}}
    ask(stage.url, "/workflows", definition)


async def test_both_kinds_are_listed_and_plain_sql_schedules_offer_sql_to_pause_them(
    page: Page, on_stage: Stage
) -> None:
    conn = await asyncpg.connect(on_stage.database)
    await conn.execute(OF_SQL)
    await conn.close()
    await page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    await page.goto("/schedules")
    await expect(page.locator("tbody tr", has_text="report")).to_contain_text("a run")
    row = page.locator("tbody tr", has_text="shop.stock.v1")
    await expect(row).to_contain_text("a job")
    await row.get_by_role("button", name="Copy").click()
    await row.get_by_role("button", name="SQL to pause it").click()
    copied = await page.evaluate("() => navigator.clipboard.readText()")
    assert copied.startswith("update workflow.workflow_schedule set enabled = false where id = '")


async def test_a_schedule_is_paused_with_a_reason_and_resumed(page: Page, on_stage: Stage) -> None:
    hourly(on_stage, "paused-one")
    await page.goto("/schedules/paused-one")
    await expect(page.locator("ol.lines li")).to_have_count(10)
    await page.get_by_role("button", name="Pause…").click()
    await page.get_by_label("Reason").fill("stock-taking")
    await page.get_by_role("button", name="Pause the schedule").click()
    await expect(page.locator(".reason")).to_have_text("Paused: stock-taking")
    await expect(page.get_by_role("heading", name="Upcoming once it is active")).to_be_visible()
    await page.get_by_role("button", name="Resume").click()
    await expect(page.locator(".facts .state")).to_have_text("enabled")


async def test_a_schedule_is_run_now_with_its_input(page: Page, on_stage: Stage) -> None:
    hourly(on_stage, "now-one")
    await page.goto("/schedules")
    await page.locator("tbody tr", has_text="now-one").get_by_role("button", name="Run now…").click()
    await page.get_by_role("button", name="Start a run").click()
    await expect(page).to_have_url(re.compile("/runs/[0-9a-f-]{36}$"))
    await expect(page.locator(".run-head .state").first).to_have_text("completed")
    await page.get_by_role("link", name="Input & output").click()
    await expect(page.get_by_label("input", exact=True)).to_contain_text("tick")


async def test_missed_ticks_are_counted_and_backfilled_once(
    page: Page, on_stage: Stage, page_errors: PageErrors
) -> None:
    hourly(on_stage, "missed-one")
    await page.goto("/workflows/missed-one/schedule")
    await page.get_by_role("button", name="Backfill…").click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label("From").fill("2026-01-01T00:00")
    await dialog.get_by_label("Maximum ticks").fill("5")
    await expect(dialog.get_by_role("status").last).to_contain_text("5 ticks have no run. There are more than 5 ticks")
    await dialog.get_by_label("Before").fill("2025-12-31T00:00")
    await expect(dialog.get_by_role("alert")).to_contain_text("ends before it begins")
    page_errors.expect("422")
    await dialog.get_by_label("Before").fill("2026-01-01T03:00")
    await dialog.get_by_role("button", name="Start 3 runs").click()
    await expect(dialog).to_contain_text("3 runs started.")
    await dialog.get_by_role("button", name="Close").last.click()
    assert len(ask(on_stage.url, "/runs?workflow=missed-one")) == 3

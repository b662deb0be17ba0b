"""Artifacts in a browser: shown below the task and on the page of the job that wrote them, and downloaded."""

from pathlib import Path

import pytest
from playwright.async_api import Page, expect

from tests.browser.conftest import Stage
from tests.browser.page_checks import expect_accessible
from tests.browser.stage import ask

pytestmark = pytest.mark.asyncio(loop_scope="session")
CONTENT = "amount,currency\n1999,EUR\n"


async def test_the_panel_of_a_task_lists_its_artifacts(page: Page, on_stage: Stage) -> None:
    find = {"job": "shop.find.v1", "input": {"count": 2}}
    bill = {"needs": ["find"], "job": "shop.invoice.v1", "input": {"number": "{{item.id}}"}, "foreach": "find.parcels"}
    ask(on_stage.url, "/workflows", {"name": "billing", "tasks": {"find": find, "bill": bill}})
    run = ask(on_stage.url, "/workflows/billing/runs", {})["run_id"]
    await page.goto(f"/runs/{run}?task=bill")
    table = page.get_by_role("region", name="Artifacts")
    await expect(table.locator("tbody tr")).to_have_count(2)
    row = table.locator("tbody tr").filter(has_text="invoice-1.csv")
    await expect(row).to_contain_text("#1")
    await expect(row).to_contain_text("25 B")
    assert await downloaded(page, "invoice-1.csv") == CONTENT
    await page.goto(f"/runs/{run}?task=find")
    await expect(page.get_by_role("heading", name="find")).to_be_visible()
    await expect(table).to_have_count(0)  # it wrote none


async def test_the_page_of_a_job_lists_its_artifacts(page: Page, on_stage: Stage) -> None:
    job = ask(on_stage.url, "/jobs", {"type": "shop.invoice.v1", "payload": {"number": 9}})["id"]
    await page.goto(f"/jobs/{job}")
    await expect(page.get_by_role("region", name="Artifacts").locator("tbody tr")).to_have_count(1)
    assert await downloaded(page, "invoice-9.csv") == CONTENT
    await expect_accessible(page)


async def downloaded(page: Page, name: str) -> str:
    """Return the content of the file that a link downloads."""
    async with page.expect_download() as waiting:
        await page.get_by_role("link", name=name).click()
    download = await waiting.value
    assert download.suggested_filename == name
    return Path(await download.path()).read_text()

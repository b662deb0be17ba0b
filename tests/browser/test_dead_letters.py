"""Dead letters in a browser: groups by cause; one or a whole group is retried or dropped after a count."""

from typing import Any

import pytest
from playwright.async_api import Locator, Page, expect

from tests.browser.conftest import Stage
from tests.browser.stage import ask

pytestmark = pytest.mark.asyncio(loop_scope="session")


def fail(stage: Stage, count: int, **order: Any) -> None:
    for n in range(count):
        ask(stage.url, "/jobs", {"type": "shop.mail.v1", "payload": {"to": f"{n}"}} | order)


async def group(page: Page, error: str) -> Locator:
    """Open the dead letters; return the row of this error in the queue `sql`."""
    await page.goto("/dead-letters")
    found = page.locator("tbody tr", has_text=error).filter(has=page.get_by_role("cell", name="sql", exact=True))
    await expect(found).to_have_count(1)
    return found


async def test_the_jobs_of_a_group_are_counted_and_dropped(page: Page, on_stage: Stage) -> None:
    fail(on_stage, 4, queue="sql", type="shop.label.v1", payload={"seconds": 7})
    row = await group(page, "TimeoutError")
    await expect(row.locator("td").first).to_have_text("4")
    await row.get_by_role("button", name="Drop…").click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_role("button", name="Drop 4 jobs").click()
    await expect(dialog).to_contain_text("4 jobs dropped.")
    await dialog.get_by_role("button", name="Close").last.click()
    await expect(row).to_have_count(0)


async def test_the_jobs_of_a_group_are_retried_and_dropped_individually(page: Page, on_stage: Stage) -> None:
    fail(on_stage, 3, queue="sql")
    await (await group(page, "LookupError")).get_by_role("link", name="LookupError").click()
    rows = page.locator("tbody tr")
    await expect(rows).to_have_count(3)
    await rows.first.get_by_role("button", name="Drop job").click()
    await page.get_by_role("button", name="Drop 1 job").click()
    await expect(rows).to_have_count(2)
    await rows.first.get_by_role("button", name="Retry job").click()
    await page.get_by_role("button", name="Retry 1 job").click()
    await expect(page.get_by_role("dialog")).to_have_count(0)
    await expect(rows).to_have_count(2)  # it failed again
    await page.get_by_role("button", name="Retry…").click()
    await page.get_by_role("button", name="Retry 2 jobs").click()
    await expect(page.get_by_role("dialog")).to_contain_text("2 jobs retried.")


async def test_tasks_are_retried_with_their_runs_and_cannot_be_dropped(page: Page, on_stage: Stage) -> None:
    await page.goto("/dead-letters")
    row = page.locator("tbody tr", has_text="NonRetryable: card declined")
    await expect(row.get_by_text("tasks of runs")).to_be_visible()
    await expect(row.get_by_role("button", name="Drop…")).to_have_count(0)
    await row.get_by_role("button", name="Retry…").click()
    await expect(page.get_by_role("dialog")).to_contain_text("Their runs are retried")

"""The quarantine in a browser: the list with its links, a retry, and the notice on the overview."""

from collections.abc import AsyncIterator
from datetime import timedelta

import asyncpg
import pytest
import pytest_asyncio
from playwright.async_api import Page, expect

from tests.browser.conftest import PageErrors, Stage
from tests.browser.page_checks import expect_accessible, expect_no_sideways
from tests.browser.stage import ask

pytestmark = pytest.mark.asyncio(loop_scope="session")

HOUR = timedelta(hours=1)
PUT = """insert into windlass.quarantine (kind, key, error_type, reason, failures, retry_at)
values ($1, $2, 'UnreadableVersion', $3, $4, windlass.now() + $5::interval)"""


@pytest_asyncio.fixture(loop_scope="session")
async def conn(on_stage: Stage) -> AsyncIterator[asyncpg.Connection]:
    conn = await asyncpg.connect(on_stage.database)
    yield conn
    await conn.execute("delete from windlass.quarantine")
    await conn.close()


async def test_an_empty_quarantine_is_shown_as_empty_and_not_on_the_overview(page: Page) -> None:
    await page.goto("/quarantine")
    await expect(page.get_by_role("heading", name="The quarantine is empty")).to_be_visible()
    await expect_accessible(page)
    await page.goto("/")
    await expect(page.get_by_role("heading", name="Recent failures")).to_be_visible()
    await expect(page.get_by_text("in quarantine because")).to_have_count(0)


async def test_each_entry_links_to_the_quarantined_item(page: Page, on_stage: Stage, conn: asyncpg.Connection) -> None:
    run, scan = on_stage.runs["order"][0], on_stage.jobs["shop.scan.v1"][0]
    workflow = ask(on_stage.url, "/workflows/order")["id"]
    schedule = next(one for one in ask(on_stage.url, "/schedules") if one["starts"] == "run")
    entries = {"run": run, "job": scan, "workflow": workflow, "trigger": schedule["id"], "event": "7-1"}
    for kind, key in entries.items():
        await conn.execute(PUT, kind, key, f"the {kind} cannot be read", 3, None if kind == "event" else HOUR)
    await page.goto("/quarantine")
    await expect(page.locator("tbody tr")).to_have_count(len(entries))
    links = {"run": f"/runs/{run}", "job": f"/jobs/{scan}", "workflow": f"/workflows/{workflow}"}
    links["trigger"] = f"/schedules/{schedule['name']}"
    for kind, path in links.items():
        row = page.locator("tbody tr", has_text=f"the {kind} cannot be read")
        await expect(row.get_by_role("link")).to_have_attribute("href", path)
        await expect(row.locator("td.num")).to_have_text("3")
        await expect(row.get_by_role("button", name="Retry")).to_be_visible()
    event = page.locator("tbody tr", has_text="the event cannot be read")
    await expect(event).to_contain_text("never")
    await expect(event.get_by_role("link")).to_have_count(0)
    await expect(event.get_by_role("button", name="Retry")).to_have_count(0)
    await expect_accessible(page)
    await page.emulate_media(color_scheme="dark")
    await expect_accessible(page)
    await page.set_viewport_size({"width": 390, "height": 800})
    await expect_no_sideways(page)


async def test_a_successful_retry_removes_the_entry(page: Page, on_stage: Stage, conn: asyncpg.Connection) -> None:
    await conn.execute(PUT, "run", on_stage.runs["order"][0], "it could not be read", 2, HOUR)
    await page.goto("/")
    notice = page.get_by_role("status").filter(has_text="1 item is in quarantine")
    await expect(notice).to_be_visible()
    await notice.get_by_role("link").click()
    await page.get_by_role("button", name="Retry run").click()
    await expect(page.get_by_role("heading", name="The quarantine is empty")).to_be_visible(timeout=15_000)
    assert ask(on_stage.url, "/quarantine") == []


async def test_retrying_an_entry_that_no_longer_exists_shows_an_error(
    page: Page, conn: asyncpg.Connection, page_errors: PageErrors
) -> None:
    await conn.execute(PUT, "cron", "019a0000-0000-7000-8000-000000000001", "no such zone", 1, HOUR)
    await page.goto("/quarantine")
    button = page.get_by_role("button", name="Retry OJS schedule")
    await expect(button).to_be_visible()
    await page.route("**/api/v1/quarantine", lambda route: route.abort())  # the list stays as it was
    await conn.execute("delete from windlass.quarantine")
    await button.click()
    await expect(page.get_by_role("alert").first).to_be_visible()
    await page.unroute_all()
    await expect(page.get_by_role("heading", name="The quarantine is empty")).to_be_visible(timeout=15_000)
    page_errors.expect("Failed to load resource")

"""Jobs in a browser: filters in the URL, live updates while a job runs, cancellation and retry."""

import re

import pytest
from playwright.async_api import Page, expect

from tests.browser.conftest import PageErrors, Stage
from tests.browser.stage import ask

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_jobs_are_filtered_by_status_type_queue_and_tag_and_the_url_keeps_the_filters(
    page: Page, on_stage: Stage
) -> None:
    await page.goto("/jobs")
    rows = page.locator("tbody tr")
    await expect(rows).to_have_count(50)
    await page.get_by_role("button", name="Show more").click()
    await expect(rows).to_have_count(100)
    await page.get_by_role("button", name="failed", exact=True).click()
    await page.get_by_label("Id or type").fill("mail")
    await page.get_by_label("Tag").fill("newsletter")
    await page.get_by_label("Queue").fill("default")
    await expect(page).to_have_url(re.compile(r"status=failed&type=mail&queue=default&tag=newsletter"))
    await expect(rows.filter(has_text="no such address: 'nobody-1'")).to_have_count(1)
    await page.reload()
    await expect(rows.filter(has_text="no such address: 'nobody-1'")).to_have_count(1)
    await expect(page.get_by_label("Tag")).to_have_value("newsletter")
    await page.get_by_role("button", name="clear").click()
    await page.get_by_label("Id or type").fill(on_stage.jobs["shop.scan.v1"][0])
    await expect(page.locator("h1")).to_have_text("shop.scan.v1")


async def test_the_jobs_of_a_run_are_listed_and_link_to_their_task(page: Page, on_stage: Stage) -> None:
    run = on_stage.runs["order"][1]
    await page.goto(f"/jobs?run={run}&status=failed")
    await page.locator("tbody tr").get_by_role("link").first.click()
    await expect(page.locator("main")).to_contain_text("card declined: insufficient funds")
    await expect(page.get_by_label("payload", exact=True)).to_contain_text("declined")
    await expect(page.get_by_label("Logs of the job")).to_contain_text("the bank refused")
    await page.get_by_role("link", name="charge").click()
    await expect(page).to_have_url(re.compile(f"/runs/{run}.*task=charge"))


async def test_the_global_search_finds_jobs_by_id(page: Page, on_stage: Stage, page_errors: PageErrors) -> None:
    await page.goto("/workflows")
    await expect(page.locator("h1")).to_be_visible()
    await page.keyboard.press("d")  # without a g before it a letter is nothing
    await page.keyboard.press("/")
    await page.keyboard.type(on_stage.jobs["shop.scan.v1"][0])
    await page.keyboard.press("Enter")
    await expect(page.locator("h1")).to_have_text("shop.scan.v1")
    page_errors.expect("404")  # it is no run


async def test_a_running_job_shows_its_progress_and_is_cancelled(page: Page, on_stage: Stage) -> None:
    job = ask(on_stage.url, "/jobs", {"type": "shop.scan.v1", "payload": {"hall": 9}})["id"]
    await page.goto(f"/jobs/{job}")
    await expect(page.get_by_role("progressbar")).to_have_attribute("value", "0.4")
    await expect(page.locator(".progress")).to_contain_text("40 of 100 shelves")
    await page.get_by_role("button", name="Cancel…").click()
    await page.get_by_label("Reason").fill("wrong hall")
    await page.get_by_role("button", name="Cancel the job").click()
    await expect(page.locator(".view-head .state")).to_have_text("cancelled")
    await expect(page.get_by_role("region", name="Events")).to_contain_text("wrong hall")


async def test_the_page_of_a_failed_job_updates_live_when_it_is_retried(page: Page, on_stage: Stage) -> None:
    job = ask(on_stage.url, "/jobs", {"type": "shop.label.v1", "payload": {"seconds": 5}})["id"]
    await page.goto(f"/jobs/{job}")
    await expect(page.locator(".view-head .state")).to_have_text("failed")
    await expect(page.get_by_label("traceback", exact=True)).to_contain_text("TimeoutError")
    await page.get_by_role("button", name="Retry…").click()
    await page.get_by_role("button", name="Retry the job").click()
    await expect(page.locator(".facts")).to_contain_text("restarted ×1")
    events = page.get_by_role("region", name="Events")
    await expect(events.locator(".state", has_text="failed")).to_have_count(2)

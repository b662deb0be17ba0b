"""Every view shows its content, has no serious accessibility violation according to axe, and fits a phone."""

import re

import pytest
from playwright.async_api import Page, expect

from tests.browser.conftest import PageErrors, Stage
from tests.browser.page_checks import expect_accessible, expect_drawn, expect_no_sideways
from tests.browser.stage import ask

pytestmark = pytest.mark.asyncio(loop_scope="session")

# path, text that must be visible
VIEWS = {
    "overview": ("/", "Recent failures"),
    "workflows": ("/workflows", "Charge the card"),
    "workflow": ("/workflows/order", "8 tasks"),
    "workflow-runs": ("/workflows/order/runs", "running"),
    "workflow-trigger": ("/workflows/order/trigger", "Start a run"),
    "workflow-edit": ("/workflows/order/edit", "Same as the live version"),
    "workflow-versions": ("/workflows/order/versions", "first version"),
    "workflow-schedule": ("/workflows/report/schedule", "Europe/Berlin"),
    "workflow-new": ("/workflows/+/edit", "Deploy version 1"),
    "runs": ("/runs", "300/300"),
    "run": ("/runs/{order}", "waiting"),
    "run-panel": ("/runs/{order}?task=carrier", "Callback URL"),
    "run-timeline": ("/runs/{report}/timeline", "backing off"),
    "run-events": ("/runs/{order}/events", "needs charge to fail"),
    "run-data": ("/runs/{order}/data", "visa"),
    "schedules": ("/schedules", "Europe/Berlin"),
    "schedule": ("/schedules/report", "Upcoming"),
    "jobs": ("/jobs?status=failed&status=leased&status=pending", "newsletter"),
    "job": ("/jobs/{scan}", "40 of 100 shelves"),
    "job-failed": ("/jobs/{mail}", "Failed attempts"),
    "queues": ("/queues", "attic"),
    "workers": ("/workers", "up"),
    "worker": ("/workers/{worker}", "Running jobs"),
    "pools": ("/pools", "Pools"),
    "approvals": ("/approvals", "Approvals"),
    "quarantine": ("/quarantine", "Quarantine"),
    "dead-letters": ("/dead-letters", "LookupError"),
    "dead-letters-group": (
        "/dead-letters?type=shop.mail.v1&queue=default&error=LookupError%3A+no+such+address%3A+%3Ctext%3E&of_runs=false",
        "nobody-2",
    ),
    "organisation": ("/organisation", "Executions in"),
    "organisation-keys": ("/organisation/keys", "developer"),
    "organisation-members": ("/organisation/members", "alice@example.com"),
    "organisation-secrets": ("/organisation/secrets", "STRIPE_KEY"),
    "organisation-audit": ("/organisation/audit", "secret.set"),
    "organisation-orgs": ("/organisation/orgs", "New org"),
    "organisation-plans": ("/organisation/plans", "10,000"),
}
DARK = (
    "overview",
    "runs",
    "run-panel",
    "run-timeline",
    "workflow-edit",
    "job",
    "job-failed",
    "dead-letters",
)  # between them they have every colour


def path_of(view: str, stage: Stage) -> str:
    jobs = {"scan": stage.jobs["shop.scan.v1"][0], "mail": stage.jobs["shop.mail.v1"][0]}
    runs = {"order": stage.runs["order"][0], "report": stage.runs["report"][2]}
    return VIEWS[view][0].format(worker=ask(stage.url, "/workers")[0]["id"], **runs, **jobs)


@pytest.mark.parametrize("view", VIEWS)
async def test_a_view_shows_its_content_is_accessible_and_fits_a_phone(page: Page, on_stage: Stage, view: str) -> None:
    await page.emulate_media(color_scheme="dark", reduced_motion="reduce")
    await page.goto(path_of(view, on_stage))
    await expect(page.locator("main").get_by_text(VIEWS[view][1]).first).to_be_visible()
    if view in DARK:
        await expect_accessible(page)
    await page.get_by_label(re.compile("^Theme")).click()  # from the system's to light
    await expect_accessible(page)
    await page.set_viewport_size({"width": 390, "height": 800})
    await expect_no_sideways(page)


async def test_the_nodes_of_a_graph_fit_the_canvas_without_overlaps(page: Page, on_stage: Stage) -> None:
    await page.goto(f"/runs/{on_stage.runs['order'][0]}")
    await expect_drawn(page, 8)
    await page.get_by_label("Rotate the graph").click()
    await expect_drawn(page, 8)
    await page.goto("/workflows/order")
    await expect_drawn(page, 8)


async def test_three_hundred_tasks_are_drawn_without_a_request_per_task(page: Page, on_stage: Stage) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    await page.goto(f"/runs/{on_stage.runs['lattice'][0]}")
    await expect_drawn(page, 300)
    assert len([url for url in asked if "/api/" in url]) < 10
    await page.get_by_role("link", name="Timeline").click()
    await expect(page.locator(".gantt-row")).to_have_count(301)  # and the scale


async def test_thousands_of_instances_are_one_node_and_are_listed_in_pages(page: Page, on_stage: Stage) -> None:
    await page.goto(f"/runs/{on_stage.runs['crates'][0]}")
    await page.locator(".react-flow__node", has_text="pack").click()
    panel = page.get_by_role("complementary", name="Task pack")
    await expect(panel.get_by_text("2,000 total: 2,000 succeeded")).to_be_visible()
    await expect(panel.locator(".instances > li")).to_have_count(50)
    await panel.get_by_label("Go to instance").fill("1990")
    await panel.get_by_label("Go to instance").press("Enter")
    await expect(panel.locator(".instances > li")).to_have_count(10)
    await expect(panel.get_by_label("result of instance 1990", exact=True)).to_contain_text('"packed": 1990')


async def test_shortcuts_open_views_the_help_and_the_search(page: Page) -> None:
    await page.goto("/")
    await expect(page.locator("h1")).to_be_visible()
    await page.keyboard.press("g")
    await page.keyboard.press("w")
    await expect(page).to_have_url(re.compile("/workflows$"))
    await page.keyboard.press("?")
    await expect(page.get_by_role("dialog", name="Keyboard")).to_be_visible()
    await page.keyboard.press("Escape")
    await page.keyboard.press("/")
    await page.keyboard.type("monthly")
    await page.keyboard.press("Enter")
    await expect(page).to_have_url(re.compile(r"/runs\?text=monthly$"))
    await expect(page.locator("tbody tr")).to_have_count(1)


async def test_an_unknown_run_id_shows_an_error(page: Page, page_errors: PageErrors) -> None:
    await page.goto("/runs/nope")
    await expect(page.get_by_role("alert")).to_contain_text("no run")
    page_errors.expect("404")

"""The page of a run: its trigger, each round of it separately, and its child runs expanded in place."""

import re
from typing import Any

import pytest
from playwright.async_api import Page, expect

from tests.browser.conftest import Stage
from tests.browser.page_checks import expect_accessible, expect_drawn
from tests.browser.stage import ask, job

pytestmark = pytest.mark.asyncio(loop_scope="session")

SLOW: dict[str, Any] = {
    "name": "slow",
    "tasks": {"first": job("shop.note.v1"), "gate": {"needs": ["first"], "wait_for_webhook": {"timeout": "2h"}}},
}
OUTER: dict[str, Any] = {"name": "outer", "tasks": {"inner": {"workflow": "slow"}, "end": job("shop.note.v1", "inner")}}


def start(stage: Stage, workflow: str, **input_: Any) -> str:
    return str(ask(stage.url, f"/workflows/{workflow}/runs", {"input": input_})["run_id"])


async def test_each_attempt_of_a_run_is_shown_separately(page: Page, on_stage: Stage) -> None:
    once = {
        "charge": job("shop.charge.v1", input={"card": "{{trigger.body.card}}"}),
        "send": job("shop.note.v1", "charge"),
    }
    ask(on_stage.url, "/workflows", {"name": "once", "tasks": once})
    run = start(on_stage, "once", card="declined")
    state = page.locator(".run-head .state").first
    await page.goto(f"/runs/{run}/timeline")
    await expect(state).to_have_text("failed")
    await expect(page.get_by_label("Attempt", exact=True)).to_have_count(0)
    await expect(page.locator(".run-head")).to_contain_text("API")
    ask(on_stage.url, f"/runs/{run}/rerun", {"from": "charge", "input": {"card": "visa"}})
    await expect(state).to_have_text("completed")
    picker = page.get_by_label("Attempt", exact=True)
    await expect(picker.locator("option")).to_have_text(["all 2", "1: failed", "2: completed"])

    await picker.select_option("1")
    await expect(page).to_have_url(re.compile(r"/timeline\?attempt=1$"))
    charge, send = (page.locator(".gantt-row", has_text=name) for name in ("charge", "send"))
    await expect(charge.locator(".seg.bad")).to_have_count(1)
    await expect(charge.locator(".gantt-name svg")).to_have_attribute("data-state", "failed")
    await expect(send.locator(".seg")).to_have_count(0)
    await charge.locator(".gantt-name").click()
    panel = page.get_by_label("Task charge")
    await expect(panel).to_contain_text("card declined: insufficient funds")
    await expect(panel.get_by_label("Logs of charge")).to_have_text(re.compile("declined.*the bank refused", re.DOTALL))
    await page.get_by_role("link", name="Events").click()
    events = page.get_by_role("region", name="Events")
    await expect(events).to_contain_text("failed")
    await expect(events).not_to_contain_text("completed")
    await page.get_by_role("link", name="Graph").click()
    await expect(page.locator("p.explanation")).to_contain_text("current state of the run")
    await expect_accessible(page)

    await page.goto(f"/runs/{run}/timeline?task=charge&attempt=2")
    await expect(page.get_by_label("Attempt", exact=True)).to_have_value("2")
    await expect(charge.locator(".seg.bad")).to_have_count(0)
    await expect(charge.locator(".gantt-name svg")).to_have_attribute("data-state", "success")
    await expect(send.locator(".seg.kind-running")).to_have_count(1)
    await expect(panel.get_by_label("Logs of charge")).to_contain_text("visa")
    await expect(panel).not_to_contain_text("declined")


async def test_a_child_run_updates_live_and_is_expanded_in_place(page: Page, on_stage: Stage) -> None:
    for workflow in (SLOW, OUTER):
        ask(on_stage.url, "/workflows", workflow)
    run = start(on_stage, "outer")
    await page.goto(f"/runs/{run}")
    inner = page.locator(".react-flow__node[data-id=inner]")
    await expect(inner.locator("[data-child=running]")).to_contain_text("1/2")
    await expect_drawn(page, 2)
    await inner.click()
    panel = page.get_by_label("Task inner")
    gate = panel.locator(".react-flow__node[data-id=gate] .task")
    await expect(gate).to_have_attribute("data-status", "waiting")
    await expect_accessible(page)
    child = ask(on_stage.url, f"/runs/{run}")["tasks"]["inner"]["child_run_id"]
    await page.get_by_label("Close the panel").click()  # the page follows the child run, not the panel
    await page.evaluate("() => { window.kept = true; }")
    url = ask(on_stage.url, f"/runs/{child}/tasks/gate/callback")["url"]
    await page.request.post(url, data={})
    await expect(inner.locator("[data-child=completed]")).to_contain_text("2/2")
    await expect(page.locator(".run-head .state").first).to_have_text("completed")
    assert await page.evaluate("() => window.kept")
    await inner.click()
    await panel.locator(".react-flow__node[data-id=first]").click()
    await expect(page).to_have_url(re.compile(rf"/runs/{child}\?task=first$"))
    await page.get_by_role("link", name="parent run").click()
    await expect(page).to_have_url(re.compile(rf"/runs/{run}$"))

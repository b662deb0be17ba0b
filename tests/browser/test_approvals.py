"""Approvals in a browser: the inbox, the dialog with the form, the badge, and the panel of a task."""

import re

import pytest
from playwright.async_api import Page, expect

from tests.browser.conftest import Stage
from tests.browser.page_checks import expect_accessible, expect_no_sideways
from tests.browser.stage import ask

pytestmark = pytest.mark.asyncio(loop_scope="session")

FORM = {
    "properties": {
        "amount": {"type": "number", "maximum": 100, "title": "Amount in EUR"},
        "method": {"enum": ["card", "voucher"]},
    },
    "required": ["amount"],
}
WORKFLOW = {"name": "refund", "tasks": {"ok": {"approve": {"message": "Refund {{input.order}}?", "form": FORM}}}}


def refund(on_stage: Stage, order: str) -> str:
    """Start a run that waits for a decision."""
    ask(on_stage.url, "/workflows", WORKFLOW)
    run: str = ask(on_stage.url, "/workflows/refund/runs", {"input": {"order": order}})["run_id"]
    return run


async def test_an_approval_is_decided_in_the_inbox(page: Page, on_stage: Stage) -> None:
    run = refund(on_stage, "A-1")
    await page.goto("/approvals")
    row = page.locator("tbody tr", has_text="Refund A-1?")
    await expect(row.get_by_role("link", name="ok")).to_have_attribute("href", f"/runs/{run}?task=ok")
    await expect(page.get_by_role("link", name="Approvals 1 to decide")).to_be_visible()
    await expect_accessible(page)
    await row.get_by_role("button", name="Approve").click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label("Amount in EUR").fill("500")
    await dialog.get_by_label("method").select_option("voucher")
    await dialog.get_by_label("Comment").fill("as agreed")
    await dialog.get_by_role("button", name="Approve").click()
    await expect(dialog.get_by_role("alert")).to_contain_text("100")
    await expect_accessible(page)
    await dialog.get_by_label("Amount in EUR").fill("50")
    await dialog.get_by_role("button", name="Approve").click()
    await expect(page.get_by_role("heading", name="No open approvals")).to_be_visible()
    await expect(page.get_by_role("link", name=re.compile("to decide"))).to_have_count(0)
    output = ask(on_stage.url, f"/runs/{run}/output")
    assert (output["values"], output["comment"]) == ({"amount": 50, "method": "voucher"}, "as agreed")
    await page.get_by_label("State").select_option("approved")
    await expect(page.locator("tbody tr", has_text="Refund A-1?")).to_contain_text("operator")
    await page.set_viewport_size({"width": 390, "height": 800})
    await expect_no_sideways(page)


async def test_an_approval_is_rejected_in_the_panel_of_its_task(page: Page, on_stage: Stage) -> None:
    run = refund(on_stage, "A-2")
    await page.goto(f"/runs/{run}?task=ok")
    panel = page.get_by_role("complementary", name="Task ok")
    await expect(panel).to_contain_text("Refund A-2?")
    await panel.get_by_role("button", name="Reject").click()
    await page.get_by_role("dialog").get_by_label("Comment").fill("too late")
    await page.get_by_role("dialog").get_by_role("button", name="Reject").click()
    await expect(panel.get_by_text("rejected by operator: too late").first).to_be_visible(timeout=15_000)
    assert ask(on_stage.url, f"/runs/{run}")["status"] == "failed"

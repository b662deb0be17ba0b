"""Actions in a browser and their visible effects: runs change colour, are cancelled, retried, rerun; workflows are
edited."""

import json
import re
from typing import Any
from urllib.request import Request, urlopen

import pytest
from playwright.async_api import Page, expect

from tests.browser.conftest import PageErrors, Stage
from tests.browser.stage import ask

pytestmark = pytest.mark.asyncio(loop_scope="session")


def start(stage: Stage, workflow: str, **input_: Any) -> str:
    return str(ask(stage.url, f"/workflows/{workflow}/runs", {"input": input_})["run_id"])


def status(page: Page, word: str) -> Any:
    return expect(page.locator(".run-head .state").first).to_have_text(word)


async def test_the_graph_of_a_run_updates_live(page: Page, on_stage: Stage) -> None:
    run = start(on_stage, "order", order="L-1", card="visa", count=5)
    await page.goto(f"/runs/{run}")
    carrier = page.locator(".react-flow__node[data-id=carrier] .task")
    await expect(carrier).to_have_attribute("data-status", "waiting")
    await page.evaluate("() => { window.kept = true; }")
    url = ask(on_stage.url, f"/runs/{run}/tasks/carrier/callback")["url"]
    with urlopen(Request(url, b"{}", {"content-type": "application/json"}), timeout=10) as answer:
        assert answer.status == 200
    await status(page, "completed")
    await expect(carrier).to_have_attribute("data-status", "success")
    assert await page.evaluate("() => window.kept")  # it was not loaded again
    for name, colour in {"send": "success", "file-away": "success", "apologise": "skipped"}.items():
        node = page.locator(f".react-flow__node[data-id={name}] .task")
        await expect(node).to_have_attribute("data-status", colour)  # a moment after the head, if need be


async def test_a_run_is_cancelled_with_a_reason(page: Page, on_stage: Stage) -> None:
    run = start(on_stage, "order", order="C-1", card="visa", count=1)
    await page.goto(f"/runs/{run}")
    await page.get_by_role("button", name="Cancel…").click()
    await page.get_by_label("Reason").fill("wrong parcel")
    await page.get_by_role("button", name="Cancel the run").click()
    await status(page, "cancelled")
    await expect(page.locator(".run-head")).to_contain_text("wrong parcel")


async def test_a_failed_run_is_retried_and_rerun_with_another_input(page: Page, on_stage: Stage) -> None:
    run = on_stage.runs["report"][2]
    await page.goto(f"/runs/{run}?task=reach")
    await status(page, "failed")
    await expect(page.get_by_label("Task reach")).to_contain_text("the warehouse did not answer (attempt 3)")
    await page.get_by_role("button", name="Retry").click()
    await expect(page.get_by_label("Attempt", exact=True).locator("option").first).to_have_text("all 2")
    await status(page, "failed")
    await page.get_by_role("button", name="Rerun…").click()
    text = page.get_by_label("Input of the run")
    await text.fill('{"good_at": ')
    await expect(page.get_by_role("button", name="Rerun with this input")).to_be_disabled()
    await text.fill('{"good_at": 1}')
    await page.get_by_role("button", name="Rerun with this input").click()
    await status(page, "completed")
    assert ask(on_stage.url, f"/runs/{run}")["input"] == {"good_at": 1}


async def test_a_run_is_started_from_the_form_and_as_a_copy_of_another_run(page: Page) -> None:
    await page.goto("/workflows/report/trigger")
    await page.get_by_label("good_at").fill("1")
    await expect(page.get_by_label("Input as JSON")).to_have_value('{\n  "good_at": 1\n}')
    await page.get_by_label("Labels").fill("from=browser")
    await page.get_by_role("button", name="Start a run").click()
    await status(page, "completed")
    await page.get_by_role("link", name="Start a copy").click()
    await expect(page.get_by_label("good_at")).to_have_value("1")
    await expect(page.get_by_label("Labels")).to_have_value("from=browser")


async def test_a_workflow_is_edited_checked_and_deployed(page: Page, on_stage: Stage, page_errors: PageErrors) -> None:
    name = "edited"
    ask(on_stage.url, "/workflows", {"name": name, "tasks": {"a": {"job": "shop.note.v1"}}})
    await page.goto(f"/workflows/{name}/edit")
    text = page.get_by_label("Definition")
    written = await text.input_value()
    await text.fill(f"{written}  b:\n    needs: [nobody]\n    job: shop.note.v1\n")
    await expect(page.get_by_role("alert")).to_contain_text("tasks.b.needs")
    page_errors.expect("422")
    await text.fill(f"{written}  b:\n    needs: [a]\n    job: shop.note.v1\n")
    await expect(page.locator(".diff")).to_contain_text("shop.note.v1")
    await page.get_by_role("button", name="JSON").click()
    await expect(text).to_have_value(re.compile(r"^\{"))
    assert set(json.loads(await text.input_value())["tasks"]) == {"a", "b"}
    await page.get_by_role("button", name="Deploy version 2").click()
    await expect(page).to_have_url(re.compile(f"/workflows/{name}/versions$"))
    await expect(page.locator("h1")).to_contain_text("v2")
    await expect(page.locator(".diff")).to_be_visible()


async def test_filters_survive_a_reload_and_are_remembered(page: Page) -> None:
    await page.goto("/runs")
    await page.get_by_role("button", name="running", exact=True).click()
    await page.get_by_label("Workflow", exact=True).select_option("order")
    await page.get_by_label("Label", exact=True).fill("team=shop")
    await expect(page).to_have_url(re.compile(r"label=team%3Dshop.*workflow=order"))
    rows = page.locator("tbody tr")
    await expect(rows).to_have_count(1)
    await page.reload()
    await expect(rows).to_have_count(1)
    await page.get_by_role("link", name="Overview").click()
    await page.get_by_role("link", name="Runs", exact=True).click()
    await expect(page.get_by_role("button", name="running", exact=True)).to_have_attribute("aria-pressed", "true")


async def test_all_runs_that_match_the_filter_are_cancelled(page: Page, on_stage: Stage) -> None:
    for n in range(3):
        order = {"input": {"order": f"B-{n}", "card": "visa", "count": 1}, "labels": {"batch": "seven"}}
        ask(on_stage.url, "/workflows/order/runs", order)
    await page.goto("/runs?label=batch%3Dseven")
    await page.get_by_role("button", name="All matching").click()
    await page.get_by_role("button", name="Cancel…").click()
    await page.get_by_role("button", name="Cancel 3 runs").click()
    await expect(page.get_by_role("dialog")).to_contain_text("3 runs cancelled.")
    await page.get_by_role("dialog").get_by_role("button", name="Close").last.click()
    await expect(page.locator("tbody .state", has_text="cancelled")).to_have_count(3)


async def test_an_unreachable_server_is_shown_as_no_connection(page: Page, page_errors: PageErrors) -> None:
    await page.goto("/")
    pulse = page.locator(".pulse")
    await expect(pulse).to_have_text("live")
    await page.context.set_offline(True)
    await page.get_by_role("link", name="Runs", exact=True).click()
    await expect(pulse).to_have_text("no connection")
    await page.context.set_offline(False)
    await expect(pulse).to_have_text("live")
    await expect(page.locator("tbody tr").first).to_be_visible()
    page_errors.expect("ERR_INTERNET_DISCONNECTED")

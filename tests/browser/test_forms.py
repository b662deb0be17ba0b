"""Forms that the dashboard generates from JSON Schemas."""

import json
from typing import Any

import pytest
from playwright.async_api import Page, expect

from tests.browser.conftest import PageErrors, Stage
from tests.browser.page_checks import expect_accessible, expect_no_sideways
from tests.browser.stage import ask
from windlass.engine.database import Database
from windlass.engine.jobs import types
from windlass.engine.jobs.types import HandlerSchema
from windlass.engine.workers import turn
from windlass.store.postgres.pool import DatabaseOptions

pytestmark = pytest.mark.asyncio(loop_scope="session")

ORDER: dict[str, Any] = {
    "type": "object",
    "properties": {
        "number": {"type": "integer", "minimum": 1, "description": "as printed on the invoice"},
        "placed_at": {"type": "string", "format": "date-time"},
        "speed": {"enum": ["slow", "fast"], "default": "slow"},
        "items": {"type": "array", "items": {"$ref": "#/$defs/Item"}, "minItems": 1},
        "note": {"anyOf": [{"type": "string", "not": {"const": "none"}}, {"type": "null"}], "default": None},
        "gift": {"type": "boolean"},
    },
    "required": ["number", "items"],
    "$defs": {"Item": {"type": "object", "properties": {"sku": {"type": "string"}}, "required": ["sku"]}},
}

TYPE = "depot.weigh.v1"
PARCEL = {
    "type": "object",
    "properties": {"parcel": {"type": "integer"}, "unit": {"enum": ["kg", "lb"], "default": "kg"}},
    "required": ["parcel"],
}


async def test_a_run_is_started_from_the_form_of_its_input(
    page: Page, on_stage: Stage, page_errors: PageErrors
) -> None:
    workflow = {"name": "typed", "input": ORDER, "tasks": {"a": {"job": "shop.note.v1"}}}
    ask(on_stage.url, "/workflows", workflow)
    await page.goto("/workflows/typed/trigger")
    number, start = page.get_by_label("number (required)"), page.get_by_role("button", name="Start a run")
    await expect(number).to_have_accessible_description("as printed on the invoice")
    await start.click()
    await expect(number).to_have_accessible_description("as printed on the invoice is required")
    await expect(page.get_by_role("alert").filter(has_text="must have at least 1 items")).to_be_visible()
    await expect_accessible(page)
    await number.fill("7")
    await page.get_by_role("button", name="Add to items").click()
    await page.get_by_label("sku (required)").fill("a-1")
    await page.get_by_label("speed").select_option("fast")
    await page.get_by_label("placed_at").fill("2030-01-31T12:00:05")
    await page.get_by_label("gift").check()
    await page.get_by_label("note").fill('"none"')  # a part that has no field of its own is JSON
    await start.click()
    await expect(page.get_by_role("alert")).to_contain_text("not valid")
    page_errors.expect("422")  # the refusal of the server, which knows more than the form
    await page.get_by_label("Edit as JSON").check()
    text = page.get_by_label("Input as JSON")
    await text.fill((await text.input_value()).replace('"none"', '"thanks"'))
    await page.get_by_label("Edit as JSON").uncheck()
    await expect(page.get_by_label("note")).to_have_value('"thanks"')
    await page.set_viewport_size({"width": 390, "height": 800})
    await expect_no_sideways(page)
    await start.click()
    await page.wait_for_url("**/runs/*")
    run = ask(on_stage.url, f"/runs/{page.url.rpartition('/')[2]}")
    placed_at = run["input"].pop("placed_at")
    assert placed_at.endswith("Z")
    expected = {"number": 7, "speed": "fast", "items": [{"sku": "a-1"}], "note": "thanks", "gift": True}
    assert run["input"] == expected


async def test_a_run_is_rerun_with_another_input_from_its_form(page: Page, on_stage: Stage) -> None:
    schema = {"type": "object", "properties": {"good_at": {"type": "integer"}}, "required": ["good_at"]}
    tasks = {"note": {"job": "shop.note.v1", "input": {"text": "{{trigger.body.good_at}}"}}}
    ask(on_stage.url, "/workflows", {"name": "typed-rerun", "input": schema, "tasks": tasks})
    run = ask(on_stage.url, "/workflows/typed-rerun/runs?wait=30", {"input": {"good_at": 3}})["run_id"]
    changed = {**schema, "properties": {"other": {"type": "string"}}, "required": ["other"]}
    ask(
        on_stage.url, "/workflows", {"name": "typed-rerun", "input": changed, "tasks": tasks}
    )  # the run keeps its version
    await page.goto(f"/runs/{run}")
    await page.get_by_role("button", name="Rerun…").click()
    field = page.get_by_label("good_at (required)")
    await expect(field).to_have_value("3")
    await expect_accessible(page)
    await field.fill("")
    await page.get_by_role("button", name="Rerun with this input").click()
    await expect(page.get_by_role("alert")).to_have_text("is required")
    await field.fill("1")
    await page.get_by_role("button", name="Rerun with this input").click()
    await expect(page.get_by_role("dialog")).to_have_count(0)
    assert ask(on_stage.url, f"/runs/{run}")["input"] == {"good_at": 1}


async def test_a_job_is_submitted_from_the_form_of_its_type(page: Page, on_stage: Stage) -> None:
    db = await Database.open(DatabaseOptions(url=on_stage.database))
    try:
        await turn.register(db, id_="typed-1", host="here", pid=1, queues=["typed"], types=[TYPE], concurrency=1)
        await types.publish(db, "typed-1", [HandlerSchema(TYPE, "d1", json.dumps(PARCEL))], version=None)
        await page.goto("/jobs")
        await page.get_by_role("link", name="New job").click()
        await page.get_by_label("Type (required)").fill(TYPE)
        await page.get_by_role("button", name="Submit").click()
        await expect(page.get_by_role("alert")).to_have_text("is required")
        await expect_accessible(page)
        await page.get_by_label("parcel (required)").fill("7")
        await page.get_by_label("Queue").fill("typed")
        await page.get_by_role("button", name="Submit").click()
        await expect(page.get_by_role("heading", level=1)).to_contain_text(TYPE)
        job = ask(on_stage.url, f"/jobs/{page.url.rpartition('/')[2]}")
        assert (job["payload"], job["queue"]) == ({"parcel": 7, "unit": "kg"}, "typed")
    finally:
        await turn.seen(db, id_="typed-1", state="stopped", active=0)
        await db.close()

"""The graph of a run in a browser: the activity, condition and kind of each task, and its fit into the canvas."""

from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest
import pytest_asyncio
from playwright.async_api import Locator, Page, Route, expect

from tests.browser.conftest import PATIENCE, Stage
from tests.browser.page_checks import expect_accessible, expect_drawn
from tests.browser.stage import ask, job

pytestmark = pytest.mark.asyncio(loop_scope="session")

HOUR = {"kind": "constant", "base": "1h"}
CONDITION = "tasks.first.output.noted == 'a text that is far too long for a node of the graph'"
INNER: dict[str, Any] = {"name": "inner", "tasks": {"gate": {"wait_for_webhook": {"timeout": "2h"}}}}
ACTIVITIES: dict[str, Any] = {
    "name": "activities",
    "tasks": {
        "first": job("shop.note.v1", input={"text": "no"}),
        "busy": job("shop.scan.v1", input={"hall": 1}),
        "unserved": job("shop.note.v1", queue="cellar"),
        "paused": job("shop.note.v1", queue="locked"),
        "flaky": job("shop.flaky.v1", input={"good_at": 9}, max_attempts=9, retry=HOUR),
        "nap": {"sleep": "2h"},
        "gate": {"wait_for_webhook": {"timeout": "2h"}},
        "child": {"workflow": "inner"},
        "late": job("shop.note.v1", "gate"),
        "maybe": job("shop.note.v1", "first", **{"if": CONDITION}),
        "each": job("shop.pack.v1", "gate", foreach="gate.body"),
        "after-all": job("shop.note.v1", final=True),
    },
}
WORDS = {
    "first": "success",
    "busy": "running",
    "unserved": "no worker serves it",
    "paused": "queue paused",
    "flaky": "backing off, next attempt in ",
    "nap": "sleeping until",
    "gate": "waiting for a callback",
    "child": "waiting for its child run",
    "late": "waiting for tasks",
    "maybe": "skipped",
}
KINDS = {
    "first": ["job"],
    "nap": ["sleep"],
    "gate": ["wait for a callback"],
    "child": ["workflow"],
    "each": ["job", "fanned out"],
    "after-all": ["job", "final: runs after all others"],
}
WORKER = """insert into windlass.worker (id, host, pid, queues, types, concurrency, state, active, seen_at)
values ('idle-1', 'idle', 1, '{locked}', '{shop.note.v1}', 1, 'running', 0, windlass.now() + interval '1 hour')"""
TWO_FRAMES = (
    "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"  # it would fit in one
)


@pytest_asyncio.fixture(loop_scope="session", scope="module")
async def run(on_stage: Stage) -> AsyncIterator[str]:
    """A run with a task for each activity. A worker that claims nothing serves the queue `locked`, which is paused."""
    for workflow in (INNER, ACTIVITIES):
        ask(on_stage.url, "/workflows", workflow)
    ask(on_stage.url, "/queues/locked/pause", {})
    conn = await asyncpg.connect(on_stage.database)
    await conn.execute(WORKER)
    yield str(ask(on_stage.url, "/workflows/activities/runs", {})["run_id"])
    await conn.execute("delete from windlass.worker where id = 'idle-1'")
    await conn.close()


def node(page: Page, name: str) -> Locator:
    return page.locator(f".react-flow__node[data-id={name}]")


async def test_a_node_shows_the_activity_of_its_task(page: Page, run: str) -> None:
    await page.goto(f"/runs/{run}")
    for name, words in WORDS.items():
        await expect(node(page, name).locator(".task-word")).to_contain_text(words)
    await expect_drawn(page, len(ACTIVITIES["tasks"]))
    await expect_accessible(page)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("unserved", "no worker serves shop.note.v1 in queue cellar"),
        ("paused", "queue locked is paused"),
        ("flaky", "Next attemptin "),
        ("nap", "Wakes upin 1h 5"),
        ("gate", "Times outin 1h 5"),
    ],
)
async def test_the_panel_shows_why_a_task_waits_and_until_when(page: Page, run: str, name: str, words: str) -> None:
    await page.goto(f"/runs/{run}?task={name}")
    panel = page.get_by_label(f"Task {name}", exact=True)
    await expect(panel).to_contain_text(words)
    await expect(panel.locator("header .state")).not_to_have_text("running")


async def test_the_tasks_of_a_run_that_has_not_started_are_shown_as_held(page: Page, on_stage: Stage) -> None:
    ask(on_stage.url, "/workflows", {**INNER, "name": "one-at-a-time", "concurrency": 1})
    _, second = (ask(on_stage.url, "/workflows/one-at-a-time/runs", {})["run_id"] for _ in range(2))
    await page.goto(f"/runs/{second}?task=gate")
    await expect(node(page, "gate").locator(".task-word")).to_have_text("held")
    await expect(page.get_by_label("Task gate")).to_contain_text("The run has not started yet")


async def test_resuming_a_queue_updates_an_open_page(page: Page, on_stage: Stage, run: str) -> None:
    await page.goto(f"/runs/{run}")
    shown = node(page, "paused").locator(".task-word")
    await expect(shown).to_have_text("queue paused")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    ask(on_stage.url, "/queues/locked/resume", {})
    await expect(shown).to_have_text("queued", timeout=PATIENCE)
    ask(on_stage.url, "/queues/locked/pause", {})
    await expect(shown).to_have_text("queue paused", timeout=PATIENCE)
    assert len([url for url in asked if url.endswith(f"/runs/{run}")]) < 10


async def test_a_backoff_is_shown_when_it_begins(page: Page, on_stage: Stage) -> None:
    waits = {
        "gate": {"wait_for_webhook": {"timeout": "2h"}},
        "flaky": {**ACTIVITIES["tasks"]["flaky"], "needs": ["gate"]},
    }
    ask(on_stage.url, "/workflows", {"name": "waits-then-fails", "tasks": waits})
    begun = ask(on_stage.url, "/workflows/waits-then-fails/runs", {})["run_id"]
    await page.goto(f"/runs/{begun}")
    await expect(node(page, "flaky").locator(".task-word")).to_have_text("waiting for tasks")
    await expect(node(page, "gate").locator(".task-word")).to_have_text("waiting for a callback")
    url = ask(on_stage.url, f"/runs/{begun}/tasks/gate/callback")["url"]
    await page.request.post(url, data={})
    await expect(node(page, "flaky").locator(".task-word")).to_contain_text("backing off, next attempt in ")


async def test_events_that_arrive_during_a_pending_request_cause_one_more_request(
    new_page: Page, on_stage: Stage
) -> None:
    page = new_page
    gates = dict.fromkeys(("one", "two", "three"), INNER["tasks"]["gate"])
    ask(on_stage.url, "/workflows", {"name": "gates", "tasks": gates})
    begun = ask(on_stage.url, "/workflows/gates/runs", {})["run_id"]
    await page.clock.install()
    await page.goto(f"/runs/{begun}")
    await expect(node(page, "three").locator(".task-word")).to_have_text("waiting for a callback")
    held: list[Route] = []
    await page.route(f"**/api/v1/runs/{begun}", lambda route: held.append(route))
    for name in ("one", "two"):
        await page.request.post(ask(on_stage.url, f"/runs/{begun}/tasks/{name}/callback")["url"], data={})
        await expect(node(page, name).locator(".task-word")).to_have_text("success")
        await page.clock.fast_forward(2000)  # past the pause between two requests
        await page.evaluate("() => fetch('/health')")
        assert len(held) == 1
    async with page.expect_request(f"**/api/v1/runs/{begun}"):
        await held[0].continue_()
        await page.clock.fast_forward(2000)
    await page.unroute_all(behavior="ignoreErrors")


async def test_a_condition_is_shown_on_its_node_and_in_full_in_the_panel(page: Page, run: str) -> None:
    await page.goto(f"/runs/{run}")
    shown = node(page, "maybe").locator(".task-if")
    await expect(shown).to_have_attribute("title", f"runs if {CONDITION}")
    labels = page.locator(".react-flow__edge.on-if .react-flow__edge-text")
    await expect(labels).to_have_text(["if"])
    await node(page, "maybe").click()
    await expect(page.get_by_label("Task maybe")).to_contain_text(CONDITION)


async def test_each_kind_of_step_has_icons_with_labels(page: Page, run: str) -> None:
    for path in (f"/runs/{run}", "/workflows/activities"):
        await page.goto(path)
        for name, titles in KINDS.items():
            icons = node(page, name).locator(".kind-icon")
            await expect(icons).to_have_count(len(titles))
            assert [await icon.get_attribute("aria-label") for icon in await icons.all()] == titles


async def test_the_graph_fits_the_canvas_automatically_until_it_is_zoomed(page: Page, run: str) -> None:
    await page.goto(f"/runs/{run}")
    view = page.locator(".react-flow__viewport")
    count = len(ACTIVITIES["tasks"])
    await expect_drawn(page, count)
    wide = await view.get_attribute("style")
    assert wide
    await node(page, "gate").click()
    await expect(view).not_to_have_attribute("style", wide)
    await expect_drawn(page, count)
    await page.set_viewport_size({"width": 1100, "height": 640})
    await page.get_by_label("Close the panel").click()
    await page.set_viewport_size({"width": 1280, "height": 800})
    await expect(view).to_have_attribute("style", wide)

    await page.get_by_role("button", name="Zoom In").click()
    await expect(view).not_to_have_attribute("style", wide)
    zoom = await view.evaluate("each => new DOMMatrix(getComputedStyle(each).transform).a")
    await page.set_viewport_size({"width": 1100, "height": 640})
    await page.evaluate(TWO_FRAMES)
    assert await view.evaluate("each => new DOMMatrix(getComputedStyle(each).transform).a") == zoom
    await page.get_by_role("button", name="Fit View").click()
    await expect_drawn(page, count)

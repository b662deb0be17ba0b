"""Pools in a browser: which can be used, and how to fix the others."""

from uuid import UUID

import asyncpg
import pytest
from playwright.async_api import Page, expect

from tests.browser.conftest import Stage
from tests.browser.stage import ask

pytestmark = pytest.mark.asyncio(loop_scope="session")

POOLS = """insert into windlass.pool (name, launcher, max_parallel, problem, seen_at) values
('gpu', 'kubernetes', 50, 'jobs.batch is forbidden', windlass.now() + interval '1 hour'),
('lost', 'ray', 5, null, windlass.now() - interval '2 hours')"""

LEASE = """update workflow.workflow_run set status = 'leased', leased_by = 'pool:tpu', claim_no = claim_no + 1,
lease_until = windlass.now() + interval '1 hour' where run_id = $1"""
PROGRESS = """insert into windlass.progress (job_id, fraction, message, data)
select id, 0, $3, jsonb_build_object('launch', $2::text, 'fence', claim_no) from workflow.workflow_run where run_id = $1
on conflict (job_id) do update set message = excluded.message, data = excluded.data"""


async def test_pools_show_their_slots_their_problem_and_how_to_fix_it(page: Page, on_stage: Stage) -> None:
    conn = await asyncpg.connect(on_stage.database)
    await conn.execute(POOLS)
    await page.goto("/pools")
    rows = page.locator("tbody tr")
    gpu, lost = rows.filter(has_text="gpu"), rows.filter(has_text="lost")
    await expect(gpu).to_contain_text("jobs.batch is forbidden")
    await expect(gpu).to_contain_text("windlass pools test gpu")
    await expect(gpu.get_by_label("0 of 50 slots in use")).to_be_visible()
    await expect(lost.locator(".state")).to_have_text("silent")
    await expect(lost).to_contain_text("windlass pools forget lost")
    await conn.execute("delete from windlass.pool where name in ('gpu', 'lost')")
    await conn.close()


async def test_a_task_is_dispatched_until_its_pool_reports_that_it_runs(page: Page, on_stage: Stage) -> None:
    conn = await asyncpg.connect(on_stage.database)
    await conn.execute("insert into windlass.pool (name, launcher, max_parallel) values ('tpu', 'kubernetes', 5)")
    ask(on_stage.url, "/workflows", {"name": "train", "tasks": {"fit": {"run": "true", "runs_on": "tpu"}}})
    run = ask(on_stage.url, "/workflows/train/runs", {})["run_id"]
    await page.goto(f"/runs/{run}?task=fit")
    node = page.locator(".task[data-status=dispatched]")
    await expect(node).to_contain_text("no worker serves it")
    await expect(page.locator("main")).to_contain_text("no process offers pool tpu")
    await conn.execute(LEASE, UUID(run))
    for state, text in (("launching", "waiting on tpu: no node has 4 TPUs"), ("lost", "lost: tpu does not list it")):
        await conn.execute(PROGRESS, UUID(run), state, text)
        await page.reload()
        await expect(page.locator(f".task[data-activity={state}]")).to_contain_text(state)
        await expect(page.locator(".facts").filter(has_text="Launch")).to_contain_text(text)
    ask(on_stage.url, f"/runs/{run}/cancel", {})
    await conn.execute("delete from windlass.pool where name = 'tpu'")
    await conn.close()

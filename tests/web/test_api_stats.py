"""An overview in one request, and statistics of the last runs of workflows."""

from typing import Any
from uuid import UUID

import asyncpg
import pytest

from tests.engine.harness import Fails, ManualWorker
from tests.web.serving import data, served
from windlass import Windlass
from windlass.engine import stats

ONE: dict[str, Any] = {"name": "one", "tasks": {"a": {"job": "a", "max_attempts": 1}}}
TIMED: dict[str, Any] = {"name": "timed", "trigger": {"cron": "@hourly"}, "tasks": {"a": {"sleep": "1s"}}}


async def test_the_overview_counts_runs_jobs_queues_and_workers(app: Windlass, conn: "asyncpg.Connection[Any]") -> None:
    async with served(app) as http:
        empty = data(await http.get("/stats"))
        for workflow in (ONE, TIMED):
            await http.post("/workflows", json=workflow)
        await conn.execute("""insert into workflow.workflow_schedule (type, schedule, next_run_at)
          values ('report.daily.v1', '0 7 * * *', '2099-01-01T07:00Z')""")
        bad = data(await http.post("/workflows/one/runs"), 201)["run_id"]
        worker = await ManualWorker.registered(await app.open())
        await worker.play({"a": Fails("boom", for_good=True)})
        await http.post("/workflows/one/runs")
        await worker.play()
        await http.post("/workflows/one/runs")
        await http.post("/jobs", json={"type": "x.v1", "queue": "slow", "delay": "1h"})
        found = data(await http.get("/stats"))
    assert (sum(empty["runs"]["counts"].values()), len(empty["hours"]), empty["queues"]) == (0, 24, [])
    assert found["runs"] == {
        "counts": {"pending": 0, "running": 1, "completed": 1, "failed": 1, "cancelled": 0, "timeout": 0},
        "capped": [],
    }
    assert found["jobs"]["counts"] == {
        "due": 1,
        "scheduled": 1,
        "leased": 0,
        "succeeded": 1,
        "failed": 1,
        "cancelled": 0,
    }
    assert [sum(hour[name] for hour in found["hours"]) for name in ("started", "completed", "failed")] == [3, 1, 1]
    assert found["hours"] == sorted(found["hours"], key=lambda hour: str(hour["at"]))
    assert [run["id"] for run in found["failing"]] == [bad]
    assert [(queue["name"], queue["due"], queue["scheduled"]) for queue in found["queues"]] == [
        ("default", 1, 0),
        ("slow", 0, 1),
    ]
    assert found["queues"][0]["oldest_seconds"] >= 0
    assert found["workers"] == {"up": 1, "silent": 0, "slots": 100, "active": 0}
    assert [(tick["name"], tick["starts"]) for tick in found["next"]] == [("timed", "run"), ("report.daily.v1", "job")]


async def test_counts_stop_at_their_limit(
    app: Windlass, conn: "asyncpg.Connection[Any]", monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stats, "MOST_COUNTED", 3)
    await conn.execute("""insert into workflow.workflow_run (type, payload, status, queue)
      select 'a.v' || n, '{}', 'failed', 'default' from generate_series(1, 9) n""")
    found = await stats.overview(await app.open())
    assert found.ended_jobs == {"succeeded": 0, "failed": 3, "cancelled": 0}


async def test_workflows_show_statistics_of_their_latest_runs(app: Windlass, conn: "asyncpg.Connection[Any]") -> None:
    async with served(app) as http:
        made = data(await http.post("/workflows", json=ONE), 201)
        await http.post("/workflows", json=TIMED)
        first = data(await http.post("/workflows/one/runs"), 201)["run_id"]
        worker = await ManualWorker.registered(await app.open())
        await worker.play({"a": Fails("boom", for_good=True)})
        await fill(conn, UUID(made["id"]))
        under_way = data(await http.post("/workflows/one/runs"), 201)["run_id"]
        one, timed = data(await http.get("/workflows"))
        shown = data(await http.get("/workflows/one"))
    assert shown["stats"] == one["stats"]
    told = one["stats"]
    assert len(told["latest"]) == 20
    assert told["latest"][0] == {"id": under_way, "status": "running"}
    assert told["latest"][1] == {"id": first, "status": "failed"}
    assert told["success_rate"] == pytest.approx(98 / 99, abs=0.0001)  # of a hundred: one fails, one is under way
    assert (told["p50_ms"], told["p95_ms"], told["next_run_at"]) == (49_500, 93_150, None)
    assert (timed["stats"]["latest"], timed["stats"]["success_rate"], timed["stats"]["p50_ms"]) == ([], None, None)
    assert timed["stats"]["next_run_at"] is not None


async def fill(conn: "asyncpg.Connection[Any]", workflow: UUID) -> None:
    """Two hundred older runs that completed; the n-th latest took n seconds."""
    await conn.execute(
        """insert into windlass.run (id, org, workflow_id, version_id, state, steps, input, created_at, expires_at,
                                     started_at, finished_at)
           select lpad(to_hex(1000 - n), 32, '0')::uuid, 'default', $1, 1, 'completed', 's', '{}', now(), now(),
                  now() - n * interval '1 second', now() from generate_series(1, 200) n""",
        workflow,
    )

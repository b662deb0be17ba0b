"""Workers over real HTTP: which are alive, which are silent, and the jobs that each holds."""

from typing import Any

from tests.engine.harness import ManualWorker
from tests.web.serving import data, problem, served
from windlass import Windlass
from windlass.engine.workers import turn


async def test_workers_are_listed_with_their_state_and_one_with_its_jobs(app: Windlass, conn: Any) -> None:
    db = await app.open()
    async with served(app) as http:
        job = data(await http.post("/jobs", json={"type": "a.b.v1"}), 201)["id"]
        for name in ("silent", "gone", "w1"):
            player = await ManualWorker.registered(db, name)
        await turn.seen(db, id_="gone", state="stopped", active=0)
        await turn.seen(db, id_="w1", state="draining", active=1)
        await conn.execute(
            "update windlass.worker set seen_at = seen_at - interval '40 s' where id in ('silent', 'gone')"
        )
        await player.take()
        listed = data(await http.get("/workers"))
        one = data(await http.get("/workers/w1"))
        assert data(await http.get("/workers/silent"))["jobs"] == []
        problem(await http.get("/workers/nobody"), 404)
        problem(await http.get("/workers/%00"), 422)
    assert {worker["id"]: worker["status"] for worker in listed} == {
        "w1": "draining",
        "silent": "silent",
        "gone": "stopped",
    }
    assert listed[0]["id"] == "w1"
    assert listed[-1]["seen_seconds_ago"] >= 40
    assert (one["slots"], one["active"], one["queues"]) == (100, 1, ["default", "sql"])
    assert [(held["id"], held["status"]) for held in one["jobs"]] == [(job, "leased")]

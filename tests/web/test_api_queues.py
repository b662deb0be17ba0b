"""Queues and workers over real HTTP."""

from tests.engine.harness import ManualWorker
from tests.web.serving import data, fields, served
from windlass import Windlass


async def test_a_queue_is_paused_and_resumed(app: Windlass) -> None:
    async with served(app) as http:
        await http.post("/jobs", json={"type": "a.b.v1"})
        worker = await ManualWorker.registered(await app.open())
        paused = data(await http.post("/queues/default/pause"))
        assert await worker.take() == []
        resumed = data(await http.post("/queues/default/resume"))
        assert len(await worker.take()) == 1
        listed = (await http.get("/queues")).json()
        shown = data(await http.get("/queues/default"))
        assert data(await http.get("/queues/nobody"))["due"] == 0
        assert fields(await http.post("/queues/%20/pause")) == ["queue"]
        assert fields(await http.get("/queues", params={"limit": 0})) == ["limit"]
    assert (paused["paused"], paused["due"], resumed["paused"]) == (True, 1, False)
    assert paused["paused_at"] == resumed["paused_at"] < resumed["resumed_at"]
    assert ([queue["name"] for queue in listed["data"]], listed["next"]) == (["default"], None)
    assert (shown["due"], shown["leased"], shown["oldest_seconds"], shown["ended_per_second"]) == (0, 1, None, 0.0)

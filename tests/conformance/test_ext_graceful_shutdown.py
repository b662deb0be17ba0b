"""Workers that stop fetching, on their own or after a directive."""

from tests.conformance.extension_client import extended
from windlass import Windlass


async def test_a_draining_worker_gets_no_jobs_and_is_shown_as_draining(app: Windlass) -> None:
    async with extended(app) as client:
        await client.push()
        beat = await client.post("/workers/beat", {"worker_id": "w1", "state": "drain", "active_jobs": 3})
        assert beat["acknowledged"] is True
        assert (await client.get("/workers/w1/health"))["state"] == "drain"
        assert await client.fetch(worker="w1") == []
        assert len(await client.fetch(worker="w2")) == 1
        await client.post("/workers/beat", {"worker_id": "w1", "state": "running", "active_jobs": 0})
        assert (await client.get("/workers/w1/health"))["state"] == "running"
        await client.push()
        assert len(await client.fetch(worker="w1")) == 1
        await client.get("/workers/nobody/health", 404)
        await client.post("/workers/beat", {"state": "drain"}, 400)
        await client.post("/workers/beat", {"worker_id": "w1", "state": "dancing"}, 400)


async def test_the_next_heartbeat_returns_a_quiet_or_terminate_directive(app: Windlass) -> None:
    async with extended(app) as client:
        await client.push()
        beat = {"worker_id": "w1", "active_jobs": []}
        assert (await client.post("/workers/heartbeat", beat))["state"] == "running"
        for word in ("quiet", "terminate"):
            assert (await client.post(f"/admin/workers/w1/{word}"))["directive"] == word
            told = await client.post("/workers/heartbeat", beat)
            assert (told["state"], told["directive"]) == (word, word)
            assert await client.fetch(worker="w1") == []
        await client.post("/admin/workers/w1/resume")
        assert (await client.post("/workers/heartbeat", beat))["state"] == "running"
        await client.post("/admin/workers/nobody/quiet", status=404)
        await client.post("/admin/workers/w1/dance", status=400)

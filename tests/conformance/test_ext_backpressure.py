"""Bounded queues: when a queue is full, producers get a 429 with Retry-After."""

from typing import Any

from tests.conformance.extension_client import extended
from windlass import Windlass

OPTIONS = {"queue": "narrow"}
CONFIG = {"backpressure": {"max_depth": 3, "strategy": "reject", "warning_threshold": 0.5}}


async def test_a_full_queue_rejects_jobs_until_it_has_room(app: Windlass) -> None:
    async with extended(app) as client:
        assert (await client.put("/admin/queues/narrow/config", CONFIG))["backpressure"]["max_depth"] == 3
        pressures = []
        for _ in range(3):
            answer = await client.call("POST", "/jobs", {"type": "t", "args": [], "options": OPTIONS}, 201)
            pressures.append(answer.headers.get("x-ojs-queue-pressure"))
        assert pressures == [None, "0.67", "1"]
        for body in ({"type": "t", "args": [], "options": OPTIONS}, {"type": "t", "args": [], "options": OPTIONS}):
            full = await client.call("POST", "/jobs", body, 429)
            assert (full.headers["x-ojs-queue-depth"], full.headers["x-ojs-queue-bound"]) == ("3", "3")
            assert int(full.headers["retry-after"]) > 0
            assert (full.json()["error"]["code"], full.json()["error"]["retryable"]) == ("QUEUE_FULL", True)
        stats = (await client.get("/queues/narrow/stats"))["stats"]
        assert (stats["depth"], stats["max_depth"]) == (3, 3)
        await client.push(options={"queue": "wide"})  # other queues are not bound
        [job] = await client.fetch("narrow")
        assert (await client.push("t", options=OPTIONS))["job"]["queue"] == "narrow"
        await client.push("t", options=OPTIONS, status=429)
        await client.post("/workers/ack", {"job_id": job["id"]})
        two = {"jobs": [{"type": "t", "args": [], "options": OPTIONS}] * 2}
        await client.fetch("narrow")
        await client.post("/jobs/batch", two, 429)  # all or none
        assert (await client.get("/queues/narrow/stats"))["stats"]["depth"] == 2
        await client.push("t", options={**OPTIONS, "delay_until": "+PT1H"})  # scheduled jobs count too
        await client.push("t", options=OPTIONS, status=429)


async def test_a_bound_can_be_removed_and_an_invalid_bound_is_rejected(app: Windlass) -> None:
    path = "/admin/queues/narrow/config"
    async with extended(app) as client:
        await client.put(path, {"backpressure": {"max_depth": 1}})
        await client.push("t", options=OPTIONS)
        await client.push("t", options=OPTIONS, status=429)
        assert (await client.get(path))["config"] == {"backpressure": {"max_depth": 1}}
        await client.put(path, {"backpressure": {"max_depth": 0}})
        await client.push("t", options=OPTIONS)
        wishes: list[Any] = [{"max_depth": -1}, {"max_depth": "3"}, {"max_depth": 1, "warning_threshold": 7}, []]
        for wrong in wishes:
            await client.put(path, {"backpressure": wrong}, 400)
        await client.put(path, {"backpressure": {"max_depth": 1, "strategy": "drop_oldest"}}, 422)
        await client.put("/admin/queues/windlass/config", {}, 400)

"""The API of operators: statistics, lists, bulk operations and limits; and health probes."""

from uuid import uuid4

from tests.conformance.extension_client import extended
from windlass import Windlass

FATAL = {"code": "DEAD_LETTER", "message": "no"}


async def test_statistics_queues_workers_and_jobs_are_listed(app: Windlass) -> None:
    async with extended(app) as client:
        ids = [(await client.push("mail.send", options={"queue": "mail"}))["id"] for _ in range(3)]
        [job] = await client.fetch("mail", worker="w1")
        await client.post("/workers/heartbeat", {"worker_id": "w1", "active_jobs": [job["id"]]})
        await client.post("/workers/ack", {"job_id": job["id"]})
        stats = await client.get("/admin/stats")
        assert (stats["jobs"]["available"], stats["jobs"]["completed"], stats["workers"]) == (2, 1, 1)
        assert stats["throughput"]["processed_per_minute"] >= 1
        [queue] = (await client.get("/admin/queues"))["items"]
        assert (queue["name"], queue["counts"]["available"]) == ("mail", 2)
        assert (await client.get("/admin/queues/mail"))["counts"]["completed"] == 1
        assert (await client.post("/admin/queues/mail/pause"))["paused"] is True
        assert await client.fetch("mail") == []
        assert (await client.post("/admin/queues/mail/resume"))["paused"] is False
        found = await client.get("/admin/workers")
        assert (found["items"][0]["id"], found["summary"]["running"], found["pagination"]["total"]) == ("w1", 1, 1)
        assert (await client.get("/admin/workers/w1"))["state"] == "running"
        await client.call("DELETE", "/admin/workers/w1", status=409)
        assert (await client.get(f"/admin/jobs/{ids[0]}"))["state"] == "completed"  # bare
        await client.get(f"/admin/jobs/{uuid4()}", 404)
        for query, count in (("state=available", 2), ("state=completed", 1), ("type=mail.*", 3), ("queue=other", 0)):
            page = await client.get(f"/admin/jobs?{query}")
            assert (len(page["items"]), page["pagination"]["total"]) == (count, count)
        page = await client.get("/admin/jobs?page=2&per_page=2")
        assert (len(page["items"]), page["pagination"]["has_more"]) == (1, False)
        for query in ("state=odd", "page=0", "since=yesterday"):
            await client.get(f"/admin/jobs?{query}", 400)


async def test_bulk_operations_require_confirmation(app: Windlass) -> None:
    async with extended(app) as client:
        for _ in range(3):
            await client.push("mail.send")
        for job in await client.fetch(count=2):
            await client.post("/workers/nack", {"job_id": job["id"], "error": FATAL})
        for action in ("retry", "cancel"):
            for body in ({}, {"confirm": False, "filter": {}}, {"filter": {"type": "mail.send"}}):
                await client.post(f"/admin/jobs/bulk/{action}", body, 400)
        assert (await client.get("/admin/dead-letter"))["pagination"]["total"] == 2
        assert (await client.get("/admin/dead-letter/stats"))["total"] == 2
        first, second = [job["id"] for job in (await client.get("/admin/dead-letter"))["items"]]
        assert (await client.get(f"/admin/dead-letter/{first}"))["id"] == first
        await client.call("DELETE", f"/admin/dead-letter/{first}", status=204)
        await client.get(f"/admin/dead-letter/{first}", 404)
        done = await client.post("/admin/jobs/bulk/retry", {"filter": {"type": "mail.send"}, "confirm": True})
        assert (done["matched"], done["succeeded"], done["failed"]) == (1, 1, 0)
        assert (await client.get(f"/jobs/{second}"))["job"]["state"] == "available"
        done = await client.post("/admin/jobs/bulk/cancel", {"filter": {"state": "available"}, "confirm": True})
        assert done["succeeded"] == 2
        assert (await client.post(f"/admin/jobs/{second}/retry"))["job"]["state"] == "available"
        assert (await client.post(f"/admin/jobs/{second}/cancel"))["job"]["state"] == "cancelled"


async def test_a_rate_limit_shows_its_current_usage(app: Windlass) -> None:
    limit = {"key": "stripe-api", "concurrency": 1, "rate": {"limit": 100, "period": "PT1M"}}
    async with extended(app) as client:
        await client.get("/rate-limits/stripe-api", 404)
        for _ in range(2):
            await client.push(options={"rate_limit": limit})
        assert len(await client.fetch(count=5)) == 1
        found = await client.get("/rate-limits/stripe-api")
        assert found["key"] == "stripe-api"
        assert found["concurrency"] == {"limit": 1, "active": 1, "available": 0}
        assert (found["rate"]["limit"], found["rate"]["period"]) == (100, "PT1M")
        assert [one["key"] for one in (await client.get("/rate-limits"))["items"]] == ["stripe-api"]


async def test_probes_are_served_at_the_root_and_requests_keep_their_ids(app: Windlass) -> None:
    async with extended(app, base="") as client:
        assert (await client.http.get("/metrics")).headers["content-type"] == "text/plain"
        scraped = await client.http.get("/metrics", headers={"accept": "text/plain;version=0.0.4;q=0.5,*/*;q=0.1"})
        assert "version=" in scraped.headers["content-type"]
        for path in ("/ready", "/health"):
            assert (await client.http.get(path)).json()["status"] == "ok"
        answer = await client.call("GET", "/ojs/v1/health", headers={"X-Request-ID": "req-42"})
        assert answer.headers["x-request-id"] == "req-42"
        assert answer.json()["backend"]["status"] == "ok"
        extensions = (await client.get("/ojs/manifest"))["extensions"]
        assert {"urn:ojs:ext:durable-execution", "urn:ojs:ext:webhooks"} <= set(extensions)
        made = await client.post("/ojs/v1/jobs", {"type": "t", "args": [], "meta": {"traceparent": "00-a-b-01"}}, 201)
        assert made["job"]["meta"] == {"traceparent": "00-a-b-01"}

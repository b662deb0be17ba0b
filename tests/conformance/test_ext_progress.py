"""The progress of jobs, clamped to the valid range."""

from uuid import uuid4

from tests.conformance.extension_client import extended
from windlass import Windlass


async def test_progress_is_reported_clamped_and_read(app: Windlass) -> None:
    async with extended(app) as client:
        id_ = (await client.push())["id"]
        path = f"/jobs/{id_}/progress"
        assert (await client.get(path))["progress"] == 0
        await client.fetch()
        for said, kept in ((0.25, 0.25), (-1, 0), (1.7, 1), (0, 0), (0.5, 0.5)):
            assert (await client.put(path, {"progress": said, "message": "on it", "data": {"n": 1}}))[
                "progress"
            ] == kept
        found = await client.get(path)
        assert (found["progress"], found["message"], found["data"]) == (0.5, "on it", {"n": 1})
        for body in ({}, {"progress": "half"}, {"progress": True}, {"progress": 1, "message": 7}):
            await client.put(path, body, 400)
        await client.post("/workers/ack", {"job_id": id_})
        await client.put(path, {"progress": 1}, 409)
        assert (await client.get(path))["progress"] == 0.5
        await client.put(f"/jobs/{uuid4()}/progress", {"progress": 1}, 404)
        await client.get(f"/jobs/{uuid4()}/progress", 404)


async def test_a_published_sdk_reports_progress_in_percent(app: Windlass) -> None:
    async with extended(app) as client:
        id_ = (await client.push())["id"]
        body = {"job_id": id_, "percentage": 40, "message": "m", "data": None}
        assert (await client.post("/workers/progress", body))["acknowledged"] is True
        found = await client.get(f"/jobs/{id_}/progress")
        assert (found["progress"], found["percentage"], found["job_id"]) == (0.4, 40, id_)
        await client.post("/workers/progress", {"percentage": 1}, 400)

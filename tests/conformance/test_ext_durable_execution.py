"""Durable execution: a worker's checkpoint is kept across attempts."""

from typing import Any
from uuid import uuid4

from tests.conformance.extension_client import extended
from windlass import Context, Windlass
from windlass.testing import run_until_idle

SOON = {"max_attempts": 3, "initial_interval": "PT0.001S", "jitter": False}


async def test_a_checkpoint_is_saved_read_and_deleted(app: Windlass) -> None:
    async with extended(app) as client:
        id_ = (await client.push())["id"]
        path = f"/jobs/{id_}/checkpoint"
        assert (await client.get(path, 404))["error"]["code"] == "not_found"
        states: list[Any] = [{"page": 1}, {"page": 2, "deep": [1, {"x": None}]}, "text", 3, [], None]
        for sequence, state in enumerate(states, 1):
            saved = await client.put(path, {"state": state})
            assert (saved["job_id"], saved["state"], saved["sequence"]) == (id_, state, sequence)
            assert saved["checkpoint"]["sequence"] == sequence
            assert (await client.get(path))["state"] == state
        assert (await client.post(path, {"state": {"by": "post"}}))["sequence"] == 7
        for _ in range(2):  # deleting is idempotent
            assert (await client.call("DELETE", path)).json() == {"deleted": True, "job_id": id_}
        await client.get(path, 404)
        assert (await client.put(path, {"state": {}}))["sequence"] == 1


async def test_invalid_checkpoints_are_rejected(app: Windlass) -> None:
    async with extended(app) as client:
        id_ = (await client.push())["id"]
        for unknown in (str(uuid4()), "no-id"):
            for method in ("GET", "DELETE", "PUT"):
                body = {"state": 1} if method == "PUT" else None
                await client.call(method, f"/jobs/{unknown}/checkpoint", body, 404)
        await client.put(f"/jobs/{id_}/checkpoint", {}, 400)
        await client.put(f"/jobs/{id_}/checkpoint", {"state": "x" * 1_048_576}, 413)
        await client.put(f"/jobs/{id_}/checkpoint", {"state": "\x00"}, 400)


async def test_the_next_attempt_gets_the_checkpoint_and_completion_keeps_it(app: Windlass) -> None:
    async with extended(app) as client:
        id_ = (await client.push(options={"retry": SOON}))["id"]
        [job] = await client.fetch()
        assert "checkpoint" not in job
        await client.put(f"/jobs/{id_}/checkpoint", {"state": {"done": 5}})
        await client.post("/workers/nack", {"job_id": id_, "error": {"code": "x", "message": "m"}})
        while not (jobs := await client.fetch(worker="w2")):
            pass
        [job] = jobs
        assert (job["attempt"], job["checkpoint"]["state"], job["checkpoint"]["sequence"]) == (2, {"done": 5}, 1)
        # A request with a worker_id must hold the job; the first worker lost it.
        await client.put(f"/jobs/{id_}/checkpoint", {"state": {"done": 6}, "worker_id": "w1"}, 409)
        await client.put(f"/jobs/{id_}/checkpoint", {"state": {"done": 9}, "worker_id": "w2"})
        await client.post("/workers/ack", {"job_id": id_})
        assert (await client.get(f"/jobs/{id_}/checkpoint"))["state"] == {"done": 9}
        assert (await client.put(f"/jobs/{id_}/checkpoint", {"state": 1}, 409))["error"]["code"] == "conflict"


async def test_the_published_sdk_can_read_its_replay_log(app: Windlass) -> None:
    """The SDK repeats the path prefix, and expects its own fields in the response."""
    async with extended(app) as client:
        id_ = (await client.push())["id"]
        for path in (f"/ojs/v1/checkpoints/{id_}", f"/checkpoints/{id_}"):
            assert (await client.get(f"{path}/resume"))["has_checkpoint"] is False
            body = {"state": {"a": 1}, "step_index": 2, "metadata": {"_replay_log": "[]", "attempt": "1"}}
            await client.post(path, body)
            found = await client.get(f"{path}/resume")
            assert found["has_checkpoint"] is True
            assert found["checkpoint"]["metadata"]["_replay_log"] == "[]"
            assert found["checkpoint"]["state"] == {"a": 1}
            await client.call("DELETE", path)


async def test_steps_of_a_python_handler_are_returned_as_a_checkpoint(app: Windlass) -> None:
    @app.job("test.steps")
    async def steps(ctx: Context, payload: list[int]) -> int:
        await ctx.progress(0.5, "half")
        return int(await ctx.step("add", sum, payload))

    async with extended(app) as client:
        id_ = (await client.push("test.steps", 1, 2))["id"]
        await run_until_idle(app)
        assert (await client.get(f"/jobs/{id_}/checkpoint"))["state"] == {"steps": {"add": 3}}
        assert (await client.get(f"/jobs/{id_}"))["job"]["result"] == 3
        found = await client.get(f"/jobs/{id_}/progress")
        assert (found["progress"], found["message"]) == (0.5, "half")

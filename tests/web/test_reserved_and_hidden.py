"""Senders of requests and clients of the API cannot make a worker run anything that the author of the workflow did not
write."""

from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.runtime.conftest import Working, eventually, working  # noqa: F401 - a fixture
from tests.web.serving import problem, served
from windlass import Windlass


async def test_a_sender_cannot_inject_a_command_into_a_template(
    app: Windlass,
    working: Working,  # noqa: F811
    tmp_path: Path,
) -> None:
    proof = tmp_path / "proof"
    script = 'echo "file: $(basename "{{trigger.body.path}}")"'
    definition = {"name": "thumb", "trigger": "webhook", "tasks": {"t": {"run": script}}}
    async with served(app) as http, working(app, allow_commands=True):
        made = (await http.post("/workflows", json=definition)).json()["data"]
        url = str(http.base_url.copy_with(path=urlsplit(made["webhook_url"]).path))
        run = (await http.post(url, json={"path": f"/a/$(id > {proof})"})).json()["data"]["run_id"]

        async def ended() -> dict[str, Any] | None:
            shown = (await http.get(f"/runs/{run}")).json()["data"]
            return shown if shown["status"] not in ("pending", "running") else None

        shown = await eventually(ended, seconds=60)
        logs = (await http.get(f"/runs/{run}/tasks/t/logs")).json()["data"]
    assert (shown["status"], proof.exists()) == ("completed", False)
    assert [line["message"] for line in logs] == [f"file: {proof.name})"]


@pytest.mark.parametrize("queue", ["default", "windlass"])
async def test_a_client_of_the_api_cannot_submit_a_command_job(app: Windlass, queue: str) -> None:
    job = {"type": "windlass.command.v1", "queue": queue, "payload": {"run": "id", "input": {}, "runs_on": "local"}}
    async with served(app) as http:
        assert "reserved for the engine" in problem(await http.post("/jobs", json=job), 422)["detail"]
        assert problem(await http.post("/jobs/batch", json={"jobs": [job]}), 422)
        assert (await http.get("/jobs")).json()["data"] == []


async def test_secret_headers_of_http_steps_are_masked(app: Windlass) -> None:
    headers = {"Authorization": "Bearer sk_live_SECRET", "X-Api-Key": "k_SECRET", "X-Order": "7"}
    async with served(app) as http:
        await http.post(
            "/workflows", json={"name": "pay", "tasks": {"a": {"url": "https://x.invalid", "headers": headers}}}
        )
        await http.post("/workflows/pay/trigger", json={})
        [listed] = (await http.get("/jobs")).json()["data"]
        shown = await http.get(f"/jobs/{listed['id']}")
    assert shown.json()["data"]["payload"]["headers"] == {"Authorization": "***", "X-Api-Key": "***", "X-Order": "7"}
    assert "SECRET" not in str(listed) + shown.text


async def test_templates_read_the_headers_of_a_request_to_the_api(app: Windlass) -> None:
    step = {"job": "a.b.v1", "input": {"agent": "{{trigger.headers.user-agent}}"}}
    async with served(app) as http:
        await http.post("/workflows", json={"name": "w", "tasks": {"a": step}})
        for path in ("trigger", "runs"):
            await http.post(f"/workflows/w/{path}", json={}, headers={"user-agent": "shop/1", "x-api-key": "k"})
        jobs = (await http.get("/jobs")).json()["data"]
        found = [(await http.get(f"/jobs/{job['id']}")).json()["data"]["payload"] for job in jobs]
    assert found == [{"agent": "shop/1"}] * 2

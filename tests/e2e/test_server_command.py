"""`windlass server`: HTTP and the loops as a real process, and test mode, which is restricted to loopback."""

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.e2e.cli_process import Cli


@pytest.fixture
def cli(tmp_path: Path, database: str) -> Cli:
    return Cli(tmp_path, database)


async def test_a_server_serves_workers_and_stops_on_sigterm(cli: Cli) -> None:
    async with cli.running("server", "--port", "0", "--json", WINDLASS_TEST_MODE="1") as server:
        url = json.loads(await server.line("{"))["http"]
        async with httpx.AsyncClient(base_url=f"{url}/ojs/v1", timeout=30) as http:
            retry = {"initial_interval": "PT0.1S", "jitter": False}
            job = {"type": "a.b", "args": [1], "options": {"retry": retry, "visibility_timeout_ms": 200}}
            await http.post("/jobs", json=job)
            await fetched(http)
            again = await fetched(http)  # the loops of the server recover the expired lease
            assert again["error"]["type"] == "visibility_timeout"
            told = (await http.post("/workers/nack", json={"job_id": again["id"], "error": {"message": "m"}})).json()
            assert told["state"] == "retryable"
            assert (await fetched(http))["attempt"] == 3
            assert (await http.post("/admin/reset", json={})).status_code == 200
        server.signal()
        assert await server.end() == 0
    assert any("TEST MODE" in line for line in server.lines)


async def test_test_mode_is_refused_beyond_loopback(cli: Cli) -> None:
    for command in ("server", "up"):
        where = (command, "--host", "0.0.0.0", "--port", "0")
        refused = await cli(*where, WINDLASS_API_KEY="0123456789abcdef0123", WINDLASS_TEST_MODE="1")
        assert refused.code == 1
        assert "WINDLASS_TEST_MODE" in refused.err


async def fetched(http: httpx.AsyncClient) -> dict[str, Any]:
    """Fetch until a job is available; return the job."""
    async with asyncio.timeout(20):
        while True:
            if jobs := (await http.post("/workers/fetch", json={"queues": ["default"]})).json()["jobs"]:
                return dict(jobs[0])
            await asyncio.sleep(0.05)

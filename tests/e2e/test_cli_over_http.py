"""The command line over HTTP: a server with the database and a key, and commands that have only its URL."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.cli_process import Cli, Ended
from tests.e2e.test_run_commands import FILES

KEY = "a-key-of-sixteen-or-more"
NOBODY = "01890a5d-ac96-774b-bcce-b302099a8057"


class Far:
    """Commands with a URL and a key, and without access to the database."""

    def __init__(self, cli: Cli, url: str) -> None:
        self._cli, self.url = cli, url
        self._room = asyncio.Semaphore(2)  # processes at a time

    async def __call__(self, *arguments: str, **env: str) -> Ended:
        async with self._room:
            return await self._cli(*arguments, stdin=b"", **{"WINDLASS_URL": self.url, "WINDLASS_API_KEY": KEY} | env)


@pytest.fixture
async def far(tmp_path: Path, database: str) -> AsyncIterator[Far]:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    near, there = Cli(tmp_path, database), Cli(tmp_path, None)
    async with near.running("up", "shop:app", "--port", "0", "--json", WINDLASS_API_KEY=KEY) as up:
        yield Far(there, json.loads(await up.line("{"))["http"])


async def test_workflows_are_deployed_run_and_steered_with_only_the_url(far: Far) -> None:
    deployed = await far("deploy", "orders.yaml", "broken.yaml", "slow.yaml")
    assert deployed.out == "new orders version 1\nnew broken version 1\nnew slow version 1\n"
    ran, failed, slow, job = await asyncio.gather(
        far("run", "orders", "-i", "count=4", "--label", "team=data", "--wait"),
        far("run", "broken", "--wait"),
        far("run", "slow"),
        far("submit", "orders.tell.v1", '{"text": "hi"}', "--wait"),
    )
    id_, state, output = ran.out.splitlines()
    assert (ran.code, state.split()[0], json.loads(output)) == (0, "completed", {"alarm": "rang"})
    assert "report: skipped, needs load to succeed, but it failed" in ran.err
    assert (failed.code, "No step handled the failure of load, so the run failed." in failed.err) == (1, True)
    assert job.out.splitlines()[1] == "succeeded: hi"
    await steered(far, id_, failed.out.splitlines()[0], slow.out.strip())


async def steered(far: Far, id_: str, failed: str, slow: str) -> None:
    listed, explained, logs, shown, cancelled, retried, jobs, workers = await asyncio.gather(
        far("runs", "list", "--label", "team=data"),
        far("explain", id_),
        far("runs", "logs", id_, "--step", "load"),
        far("runs", "show", id_, "--json"),
        far("runs", "cancel", slow, "--reason", "enough"),
        far("runs", "retry", failed),
        far("jobs", "list", "--status", "failed", "--json"),
        far("workers"),
    )
    assert listed.out.splitlines()[1].split()[:5] == [id_, "orders", "1", "completed", "2/1/1/4"]
    assert "The failure of load was handled by alarm." in explained.out
    assert sorted(line.rpartition(" ")[2] for line in logs.out.splitlines()) == ["0", "1", "2", "3"]
    statuses = [task["status"] for task in json.loads(shown.out)["tasks"].values()]
    assert statuses == ["success", "failed", "skipped", "success"]
    assert json.loads(shown.out)["trigger"] == {"kind": "api", "scheduled_for": None, "parent_id": None}
    assert (cancelled.out, retried.out) == (f"cancelled {slow}\n", f"retried {failed}\n")
    assert {job["type"] for job in json.loads(jobs.out)["jobs"]} == {"orders.load.v1"}
    assert len(workers.out.splitlines()) == 2


async def test_errors_over_http_are_reported_with_hints(far: Far) -> None:
    nowhere = "http://127.0.0.1:9"
    calls: dict[str, tuple[Any, str]] = {
        "wrong key": (
            far("runs", "list", WINDLASS_API_KEY="another-key-of-sixteen"),
            "error: send a key: Authorization: Bearer KEY, or X-API-Key: KEY\n"
            "hint: set WINDLASS_API_KEY to one of the server's keys\n",
        ),
        "dead": (far("--url", nowhere, "runs", "list"), f"error: cannot reach the server at {nowhere}: "),
        "dead, hint": (
            far("run", "a", "--url", nowhere),
            "hint: check --url or WINDLASS_URL, and that windlass up runs",
        ),
        "wrong path": (
            far("--url", f"{far.url}/wrong", "runs", "list"),
            f"error: no address {far.url}/wrong/api/v1/runs: check that a Windlass server of this version runs there\n",
        ),
        "no URL": (
            far("--url", "windlass.example", "runs", "list"),
            "WINDLASS_URL='windlass.example': must be a URL such as",
        ),
        "near": (far("run", "order"), "error: no workflow order"),
        "no run": (far("explain", NOBODY), f"error: no run {NOBODY}\n"),
        "no step": (
            far("runs", "list", "--state", "done"),
            "error: state is 'done': one of pending, running, completed",
        ),
        "doctor": (far("--url", far.url, "doctor"), "windlass doctor needs the database"),
        "worker": (far("worker", "shop:app", "--url", far.url), "windlass worker needs the database"),
    }
    for (name, (_, told)), ended in zip(
        calls.items(), await asyncio.gather(*(call for call, _ in calls.values())), strict=True
    ):
        assert ended.code in (1, 2), (name, ended)
        assert " ".join(told.split()) in " ".join(ended.err.split()), (name, ended.err)
        assert "Traceback" not in ended.err, name
        assert ended.out == "", name

"""Plans and usage on the command line, with the database and through a server."""

import asyncio
import json
from pathlib import Path

from tests.e2e.cli_process import Cli


async def test_plans_are_set_assigned_shown_and_deleted(tmp_path: Path, database: str) -> None:
    near = Cli(tmp_path, database)
    made = await near(
        "plans", "set", "team", "--workflows", "7", "--executions-per-month", "1", "--no-schedules", "--json"
    )
    assert (made.code, json.loads(made.out)["workflows"]) == (0, 7)
    async with near.running("up", "--port", "0", "--json") as up:
        far = Cli(tmp_path, None)
        url = json.loads(await up.line("{"))["http"]

        async def through(*arguments: str) -> tuple[int, str, str]:
            ended = await far(*arguments, WINDLASS_URL=url)
            return ended.code, ended.out, ended.err

        assert (await through("plans", "set", "team", "--workflows", "unlimited"))[0] == 0
        shown, assigned = await asyncio.gather(
            through("plans", "show", "team"), through("orgs", "set-plan", "default", "team")
        )
        assert [line.split()[-1] for line in shown[1].splitlines()[:2]] == ["team", "unlimited"]
        assert assigned == (0, "org default is on plan team\n", "")
        refused = await through("plans", "delete", "team")
        assert (refused[0], "is used by default" in refused[2]) == (1, True)
        assert (await through("submit", "a.b.v1"))[0] == 0
        code, _, error = await through("submit", "a.b.v1")
        assert (code, error.startswith("error: org default has used 1 of 1 executions")) == (1, True)
        usage, every = await asyncio.gather(through("usage"), through("usage", "--all", "--json"))
        assert "of 1 in " in usage[1]
        assert [row["org"] for row in json.loads(every[1])["usage"]] == ["default"]
    bad = await near("plans", "set", "team", "--runs-at-once", "-1")
    assert (bad.code, "--runs-at-once" in bad.err) == (2, True)
    listed = await near("plans", "list")
    assert [line.split()[0] for line in listed.out.splitlines()] == ["NAME", "free", "pro", "team", "unlimited"]

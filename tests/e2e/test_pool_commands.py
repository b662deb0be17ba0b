"""Pools on the command line, with the database and through a server."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.chaos.harness import eventually
from tests.e2e.cli_process import Cli

pytestmark = pytest.mark.skipif(os.name == "nt", reason="the subprocess launcher requires Unix")


async def test_pools_are_listed_shown_and_forgotten(tmp_path: Path, database: str, conn: Any) -> None:
    near, far = Cli(tmp_path, database), Cli(tmp_path, None)
    async with near.running("up", "--port", "0", "--json", "--allow-commands") as up:
        url = json.loads(await up.line("{"))["http"]
        await eventually(lambda: conn.fetchval("select count(*) from windlass.pool"), "the pool was offered")
        for cli, env in ((near, {}), (far, {"WINDLASS_URL": url})):
            listed = await cli("pools", "list", "--json", **env)
            shown = await cli("pools", "show", "subprocess", **env)
            refused = await cli("pools", "forget", "subprocess", **env)
            assert [pool["name"] for pool in json.loads(listed.out)["pools"]] == ["subprocess"], listed
            assert "running    0 of 10\n" in shown.out, shown
            assert (refused.code, "stop the workers that offer it first" in refused.err) == (1, True), refused
    await conn.execute("update windlass.pool set seen_at = seen_at - interval '31 s'")
    silent = await near("pools", "list")
    assert silent.out.splitlines()[1].split()[:5] == ["subprocess", "subprocess", "no", "0/10", "0"], silent
    assert "pool subprocess: no process has offered it for" in silent.err
    forgotten = await near("pools", "forget", "subprocess", "other")
    assert (forgotten.code, forgotten.out) == (1, "forgot subprocess\n"), forgotten
    assert "there is no pool" in (await near("pools", "list")).err
    await conn.execute("insert into windlass.pool (name, launcher, max_parallel) values ('gpu', 'kubernetes', 5)")
    folder, bucket = await near("doctor"), await near("doctor", WINDLASS_OBJECTS_URL="s3://bucket")
    assert "pool gpu: its jobs may run on other machines, and the object store is a folder" in folder.out, folder
    assert "pool gpu" not in bucket.out, bucket


async def test_pools_test_checks_a_pool_from_the_process_of_the_command(tmp_path: Path) -> None:
    cli = Cli(tmp_path, None)
    well = await cli("pools", "test", "subprocess", "--allow-commands")
    assert (well.code, len(well.out.splitlines()), "✗" in well.out) == (0, 7, False), well
    refused = await cli("pools", "test", "subprocess")
    assert (refused.code, "use --allow-commands" in refused.err) == (1, True), refused
    (tmp_path / "pools.yaml").write_text("pools: {far: {launcher: ray, address: 'http://127.0.0.1:1'}}")
    configured = str(tmp_path / "pools.yaml")
    broken = await cli("pools", "test", "far", "--json", WINDLASS_POOLS=configured)
    answer = json.loads(broken.out)
    assert (broken.code, answer["ok"], [check["ok"] for check in answer["checks"]]) == (1, False, [True, False]), broken
    unknown = await cli("pools", "test", "gpu", WINDLASS_POOLS=configured)
    assert (unknown.code, "this process has no pool 'gpu': WINDLASS_POOLS has far" in unknown.err) == (1, True), unknown
    long = await cli("pools", "test", "far", "--timeout", "2h", WINDLASS_POOLS=configured)
    assert (long.code, "at most 30m" in long.err) == (1, True), long

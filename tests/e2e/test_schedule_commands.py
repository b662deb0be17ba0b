"""Triggers on the command line: real processes on a real database."""

import asyncio
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from tests.e2e.cli_process import Cli

ORDERS = """
name: orders
trigger: { cron: "30 2 * * *", timezone: Europe/Berlin, overlap: skip }
tasks: { fetch: { job: orders.fetch.v1 } }
---
name: hourly
trigger: { cron: "@hourly" }
tasks: { a: { sleep: 1s } }
---
name: incoming
trigger: webhook
tasks: { a: { sleep: 1s } }
"""


@pytest.fixture
async def cli(tmp_path: Path, database: str) -> Cli:
    (tmp_path / "orders.yaml").write_text(ORDERS)
    return Cli(tmp_path, database)


async def test_a_deploy_prints_a_webhook_address_once_and_rotate_prints_a_new_one(cli: Cli) -> None:
    first = await cli("deploy", "orders.yaml", WINDLASS_PUBLIC_URL="https://w.example")
    lines = first.out.splitlines()
    assert (first.code, lines[:3]) == (0, ["new orders version 1", "new hourly version 1", "new incoming version 1"])
    assert lines[3].startswith("address of incoming: https://w.example/in/")
    assert first.err == "store it: it is not shown again; windlass workflows rotate incoming replaces it\n"
    again = await cli("deploy", "orders.yaml", "--json")
    assert [one["webhook_url"] for one in json.loads(again.out)["workflows"]] == [None] * 3
    rotated, as_json = await asyncio.gather(
        cli("workflows", "rotate", "incoming"), cli("workflows", "rotate", "incoming", "--json")
    )
    assert rotated.out.startswith("http://127.0.0.1:8080/in/")
    assert json.loads(as_json.out)["address"] != rotated.out.strip()
    refused = await cli("workflows", "rotate", "orders")
    assert (refused.code, refused.err) == (
        1,
        "error: workflow 'orders' has no address: its trigger is not a webhook\n",
    )


async def test_schedules_are_listed_paused_resumed_and_previewed(cli: Cli, conn: "asyncpg.Connection[Any]") -> None:
    await cli("deploy", "orders.yaml")
    await conn.execute(
        """insert into workflow.workflow_schedule (type, payload, schedule, next_run_at)
           values ('report.daily.v1', '{}', '0 7 * * *', '2099-01-01T07:00Z')"""
    )
    paused = await cli("schedules", "pause", "orders", "nobody", "--reason", "stock-taking")
    assert (paused.code, paused.out, paused.err) == (1, "paused orders\n", "error: no workflow nobody\n")
    listed, as_json, preview, resumed, ran = await asyncio.gather(
        cli("schedules", "list"),
        cli("schedules", "list", "--json"),
        cli("schedules", "preview", "orders", "--count", "3", "--json"),
        cli("schedules", "resume", "hourly"),
        cli("schedules", "run", "orders"),
    )
    rows = [line.split() for line in listed.out.splitlines()]
    assert rows[0] == ["NAME", "STARTS", "CRON", "TIMEZONE", "NEXT", "LAST", "STATE"]
    assert [(row[0], row[1]) for row in rows[1:]] == [("hourly", "run"), ("orders", "run"), ("report.daily.v1", "job")]
    assert listed.out.splitlines()[2].endswith("-     paused: stock-taking")
    assert listed.out.splitlines()[3].endswith("on (plain SQL)")
    told = json.loads(as_json.out)
    assert [(row["name"], row["starts"], row["paused"]) for row in told["schedules"]] == [
        ("hourly", "run", False),
        ("orders", "run", True),
        ("report.daily.v1", "job", False),
    ]
    assert len(json.loads(preview.out)) == 3
    assert resumed.out == "resumed hourly\n"
    assert await conn.fetchval("select count(*) from windlass.run where id = $1::text::uuid", ran.out.strip()) == 1


async def test_a_backfill_lists_its_runs_and_is_safe_to_repeat(cli: Cli, conn: "asyncpg.Connection[Any]") -> None:
    await cli("deploy", "orders.yaml")
    now = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
    start = (now - timedelta(hours=5)).isoformat()
    first = await cli("schedules", "backfill", "hourly", "--from", start, "--to", now.isoformat(), "--limit", "3")
    assert (first.code, len(first.out.splitlines())) == (0, 4)
    assert first.err.splitlines()[0] == "3 started, 0 already existed"
    assert first.err.splitlines()[1].startswith("more: --from ")
    again = await cli("schedules", "backfill", "hourly", "--from", start, "--json")
    told = json.loads(again.out)
    assert (told["started"], len(told["runs"]), told["next"]) == (3, 6, None)
    assert await conn.fetchval("select count(*) from windlass.run where labels ? 'backfill'") == 6


BAD_CALLS = {
    "zone": (("backfill", "orders", "--from", "2030-01-01"), 1, "--from is '2030-01-01': it must look like"),
    "words": (("backfill", "orders", "--from", "yesterday"), 1, "--from is 'yesterday'"),
    "future": (
        ("backfill", "orders", "--from", "2020-01-01T00:00Z", "--to", "2999-01-01T00:00Z"),
        1,
        "2999-01-01T00:00:00Z is in the future",
    ),
    "empty": (("backfill", "orders", "--from", "2999-01-01T00:00Z"), 1, "the range is empty"),
    "no schedule": (("preview", "incoming"), 1, "no schedule of workflow incoming: its trigger is not a cron"),
    "near": (("pause", "order"), 1, "no workflow order: did you mean orders?"),
    "count": (("preview", "orders", "--count", "0"), 2, "Invalid value for '--count'"),
}


async def test_invalid_calls_exit_with_an_error_message_and_no_traceback(cli: Cli) -> None:
    await cli("deploy", "orders.yaml")
    told = await asyncio.gather(*(cli("schedules", *given) for given, _, _ in BAD_CALLS.values()))
    for (name, (_, code, expected)), ended in zip(BAD_CALLS.items(), told, strict=True):
        assert (ended.code, ended.out) == (code, ""), (name, ended)
        assert expected in ended.err, (name, ended.err)
        assert "Traceback" not in ended.err, name


async def test_a_running_installation_starts_scheduled_runs(cli: Cli, conn: "asyncpg.Connection[Any]") -> None:
    (cli.folder / "often.yaml").write_text("name: often\ntrigger: {cron: '* * * * * *'}\ntasks: {a: {sleep: 1ms}}\n")
    await cli("deploy", "often.yaml")
    async with cli.running("up", "--port", "0", "--json") as up:
        await up.line("http")
        async with asyncio.timeout(20):
            while await conn.fetchval("select count(*) from windlass.run where state = 'completed'") < 2:
                await asyncio.sleep(0.02)
        up.signal()
        assert await up.end() == 0
    keys = [row[0] for row in await conn.fetch("select idempotency_key from windlass.run")]
    assert len(keys) == len(set(keys))

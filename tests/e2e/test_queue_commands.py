"""Queues and dead letters on the command line: real processes on a real database."""

import asyncio
import json
from pathlib import Path

import pytest

from tests.e2e.cli_process import Cli
from windlass import Windlass

FAILED = """insert into workflow.workflow_run (type, payload, status, queue, last_error)
  select 'billing.charge.v1', '{}', 'failed', 'default', 'no card ' || n from generate_series(1, 3) n"""


@pytest.fixture
async def cli(tmp_path: Path, database: str) -> Cli:
    return Cli(tmp_path, database)


async def test_queues_are_listed_paused_and_resumed(cli: Cli, app: Windlass) -> None:
    await app.submit("a.b.v1", queue="mail")
    paused = await cli("queues", "pause", "mail", "never", " ")
    assert (paused.code, paused.out) == (1, "paused mail\npaused never\n")
    assert paused.err.startswith("error: queue is empty")
    listed, as_json = await asyncio.gather(cli("queues", "list"), cli("queues", "list", "--json"))
    rows = [line.split() for line in listed.out.splitlines()]
    assert rows[0] == ["NAME", "DUE", "SCHEDULED", "LEASED", "OLDEST", "ENDED/S", "STATE"]
    assert [(row[0], row[1], row[-1]) for row in rows[1:]] == [("mail", "1", "paused"), ("never", "0", "paused")]
    told = json.loads(as_json.out)["queues"]
    assert [(queue["name"], queue["due"], queue["paused"]) for queue in told] == [("mail", 1, True), ("never", 0, True)]
    assert (await cli("queues", "resume", "mail")).out == "resumed mail\n"
    [mail, never] = (await app.queues()).queues
    assert (mail.row.paused, never.row.paused) == (False, True)


async def test_dead_letters_are_listed_retried_and_dropped(cli: Cli, app: Windlass) -> None:
    db = await app.open()
    async with db.begin() as conn:
        await conn.execute(FAILED)
    listed, none, counted = await asyncio.gather(
        cli("dead-letters", "list"),
        cli("dead-letters", "retry"),
        cli("dead-letters", "drop", "--type", "billing.%", "--dry-run"),
    )
    assert " ".join(listed.out.splitlines()[1].split()).startswith("3 billing.charge.v1 default no card <n> ")
    assert (none.code, none.err) == (
        1,
        "error: no filter: choose jobs with --type, --queue or --error, or all of them with --all\n",
    )
    assert counted.out == "3 would be dropped\n"
    retried = await cli("dead-letters", "retry", "--error", "no card <n>")
    assert (retried.code, retried.out) == (0, "retried 3 job(s)\n")
    async with db.begin() as conn:
        await conn.execute(FAILED)
    dropped = await cli("dead-letters", "drop", "--all", "--json")
    told = json.loads(dropped.out)
    assert (len(told["jobs"]), told["runs"], told["left"]) == (3, [], 0)
    assert json.loads((await cli("dead-letters", "list", "--json")).out) == {"groups": [], "next": None}

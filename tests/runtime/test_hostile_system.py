"""Random malformed rows, versions, schedules, runs and payloads, by SQL and HTTP, sent to a working system.

Valid work always completes, exactly once; invalid work is refused, or quarantined with a reason.
"""

import asyncio
import json
import os
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import httpx
import pytest

from tests.runtime.conftest import Working, eventually
from windlass import Context, Windlass
from windlass.web import server
from windlass.web.middleware.guard import GuardOptions
from windlass.web.server import listen, serving

Connection = Any
ROUNDS = 12
VALID_PER_ROUND = 5  # jobs and runs in each round
TEXTS = [
    "",
    "x",
    "é" * 300,
    "%",
    "a'b\"c",
    "{{item}}",
    "\\u0000",
    "infinity",
    "-1",
    "null",
    "[[[[",
    "../..",
    "W" * 5000,
]
JSONS = [
    "null",
    "[]",
    "{}",
    "1e5000",
    "[1e5000]",
    '"\\ud83d"',
    "[" * 2000 + "]" * 2000,
    '{"a": {"b": []}}',
    "-0.0",
    '"x"',
]
TIMES = ["infinity", "-infinity", "now()", "now() - interval '90 years'", "'294276-12-31'", "'4713-01-01 BC'"]


def literal(dice: random.Random, kind: str) -> str:
    """Return a random SQL expression for a column of this type."""
    match kind:
        case "time":
            chosen = dice.choice(TIMES)
            return f"'{chosen}'::timestamptz" if chosen.endswith("infinity") else f"({chosen})::timestamptz"
        case "json":
            return f"$j${dice.choice(JSONS)}$j$::jsonb"
        case "interval":
            return dice.choice(["interval '-1 second'", "interval '900000 years'", "interval '0'", "null"])
        case "int":
            return str(dice.choice([-(2**31), -1, 0, 1, 100, 2**31 - 1]))
        case "bool":
            return dice.choice(["true", "false"])
        case _:
            return f"$t${dice.choice(TEXTS)}$t$"


JOB_COLUMNS = {
    "type": "text", "payload": "json", "priority": "int", "run_at": "time", "max_attempts": "int", "attempt": "int",
    "result": "json", "queue": "text", "timeout": "interval", "retry": "json", "meta": "json", "visibility": "interval",
    "expires_at": "time", "envelope": "json", "rate_key": "text", "unique_key": "text", "created_at": "time",
    "lost": "int", "version_id": "int", "step": "int", "lease_until": "time", "stop_at": "time", "errors": "json",
}  # fmt: skip
SCHEDULE_COLUMNS = {
    "type": "text", "payload": "json", "schedule": "text", "timezone": "text", "next_run_at": "time", "priority": "int",
    "max_attempts": "int",
}  # fmt: skip


async def bad_job(conn: Connection, dice: random.Random) -> None:
    """Insert a row that bypasses all triggers, as if it had been written before they existed."""
    names = dice.sample(sorted(JOB_COLUMNS), dice.randint(1, 6))
    columns = {name: literal(dice, JOB_COLUMNS[name]) for name in names}
    columns.setdefault("type", f"$t${dice.choice(['good.job.v1', 'good.step.v1', 'bad.v1'])}$t$")
    columns.setdefault("payload", "'{}'::jsonb")
    columns.setdefault("queue", "'default'")
    status = dice.choice(["pending", "pending", "leased", "succeeded", "failed"])
    values = ", ".join(columns.values())
    insert = f"insert into workflow.workflow_run (status, {', '.join(columns)}) values ('{status}', {values})"
    await conn.execute(f"set session_replication_role = replica; {insert}; set session_replication_role = origin")


async def bad_schedule(conn: Connection, dice: random.Random) -> None:
    columns = {name: literal(dice, kind) for name, kind in SCHEDULE_COLUMNS.items()}
    if dice.random() < 0.5:
        columns["schedule"], columns["timezone"] = "'* * * * *'", "'UTC'"
    await conn.execute(
        f"insert into workflow.workflow_schedule ({', '.join(columns)}) values ({', '.join(columns.values())})"
    )


async def bad_run(conn: Connection, dice: random.Random) -> None:
    """Corrupt one column of a run of the workflow `victim`."""
    change = dice.choice(
        ["steps = ''", "steps = 's'", "fans = '[]'", "fans = '{\"0\": [1]}'", "version_id = 2147483647", "round = -1"]
    )
    await conn.execute(
        f"""update windlass.run set {change} where id = (
              select r.id from windlass.run r join windlass.workflow w on w.id = r.workflow_id
               where w.name = 'victim' and r.state = 'running' order by random() limit 1)"""
    )
    await conn.execute(
        "update workflow.workflow_run set status = 'succeeded' where type = 'victim.v1' and status = 'pending'"
    )


async def bad_version(conn: Connection, dice: random.Random) -> None:
    await conn.execute(
        f"""alter table windlass.version disable trigger all;
            update windlass.version v set document = {literal(dice, "json")}
              from windlass.workflow w where w.id = v.workflow_id and w.name = 'spoiled';
            alter table windlass.version enable trigger all"""
    )


async def bad_notice(conn: Connection, dice: random.Random) -> None:
    step, letter, reason = literal(dice, "int"), dice.choice(["s", "f", "?"]), dice.choice(TEXTS[1:])
    await conn.execute(
        f"""insert into windlass.notice (run_id, word, step, item, round, letter, reason)
            select r.id, 'ended', {step}, 0, 0, $t${letter}$t$, $t${reason}$t$ from windlass.run r
              join windlass.workflow w on w.id = r.workflow_id where w.name = 'victim' order by random() limit 1"""
    )


async def bad_timer(conn: Connection, dice: random.Random) -> None:
    await conn.execute(
        f"""insert into windlass.timer (run_id, step, due_at)
            select r.id, {dice.choice([0, 1, 99])}, {literal(dice, "time")} from windlass.run r
              join windlass.workflow w on w.id = r.workflow_id where w.name = 'victim' limit 1
            on conflict do nothing"""
    )


SQL: list[Callable[[Connection, random.Random], Awaitable[None]]] = [
    bad_job, bad_job, bad_job, bad_schedule, bad_run, bad_version, bad_notice, bad_timer,
]  # fmt: skip
PATHS = ["/api/v1/jobs", "/api/v1/jobs/batch", "/api/v1/workflows", "/api/v1/workflows/good/trigger", "/ojs/v1/jobs",
         "/ojs/v1/workflows", "/ojs/v1/workers/fetch", "/ojs/v1/cron", "/wh/nobody", "/in/nobody"]  # fmt: skip


async def bad_request(http: httpx.AsyncClient, dice: random.Random) -> None:
    body = dice.choice(
        [*JSONS, '{"type": "good.job.v1", "payload": [1e999]}', '{"queues": ["default"], "count": -1}', "{"]
    )
    kind = "application/openjobspec+json" if "ojs" in (path := dice.choice(PATHS)) else "application/json"
    answer = await http.post(path, content=body.encode("utf-8", "surrogatepass"), headers={"content-type": kind})
    assert answer.status_code < 500, f"{path} {body[:100]}: {answer.status_code} {answer.text[:300]}"


async def attack(conn: Connection, http: httpx.AsyncClient, dice: random.Random) -> None:
    for _ in range(6):
        if dice.random() < 0.3:
            await bad_request(http, dice)
            continue
        try:
            await dice.choice(SQL)(conn, dice)
        except Exception:  # Postgres itself refuses some of it, which is as good
            await conn.execute("set session_replication_role = origin")


@pytest.mark.timeout(400)
@pytest.mark.parametrize("seed", [int(os.environ["HOSTILE_SEED"])] if "HOSTILE_SEED" in os.environ else [1, 2])
async def test_valid_work_completes_exactly_once_despite_random_malformed_input(
    app: Windlass, conn: Connection, working: Working, seed: int
) -> None:
    dice, done = random.Random(seed), Counter[int]()

    @app.job("good.job.v1")
    async def job(ctx: Context, n: int) -> int:
        done[n] += 1
        return n

    @app.job("good.step.v1")
    async def step(ctx: Context, n: int) -> int:
        done[-1 - n] += 1
        return n

    again = {"needs": ["wait"], "if": "tasks.first.status == 'success'", "job": "good.step.v1", "input": {"n": 1000000}}
    good = {
        "first": {"job": "good.step.v1", "input": {"n": "{{trigger.body.n}}"}},
        "wait": {"needs": ["first"], "sleep": "50ms"},
        "last": again,
    }
    victim = {"a": {"job": "victim.v1"}, "b": {"needs": ["a"], "if": "tasks.a.output != 1", "job": "victim.v1"}}
    for name, tasks in (("good", good), ("victim", victim), ("spoiled", victim)):
        await app.deploy({"name": name, "tasks": tasks})
    await app.deploy({"name": "tick", "tasks": {"a": {"sleep": 0}}, "trigger": {"cron": "@every 1s"}})
    listener = listen("127.0.0.1", 0)
    async with (
        working(app),
        serving(server.build(app, GuardOptions(host=listener.host)), listener),
        httpx.AsyncClient(base_url=listener.url, timeout=30) as http,
    ):
        runs = []
        for round_ in range(ROUNDS):
            for _ in range(2):
                await app.start("victim", {})
                await app.start("spoiled", {})
            await attack(conn, http, dice)
            for n in range(round_ * VALID_PER_ROUND, (round_ + 1) * VALID_PER_ROUND):
                await app.submit("good.job.v1", {"n": n})
                runs.append(await app.start("good", {"n": n}))
        ticks = await conn.fetchval("select count(*) from windlass.run where idempotency_key like 'schedule/%'")

        async def finished() -> bool:
            return len([n for n in done if n >= 0]) == ROUNDS * VALID_PER_ROUND

        await eventually(finished, seconds=60)
        await asyncio.wait_for(asyncio.gather(*(run.ended() for run in runs)), 60)

        async def ticked() -> bool:
            count: int = await conn.fetchval(
                "select count(*) from windlass.run where idempotency_key like 'schedule/%'"
            )
            return bool(count > ticks + 1)

        await eventually(ticked, seconds=30)
    own = range(ROUNDS * VALID_PER_ROUND)
    assert {n: done[n] for n in own} == dict.fromkeys(own, 1)
    assert {n: done[-1 - n] for n in own} == dict.fromkeys(own, 1)
    states = Counter([(await run.result()).state for run in runs])
    assert states == {"completed": len(runs)}
    for entry in await conn.fetch("select kind, key, reason from windlass.quarantine"):
        assert entry["reason"], json.dumps(dict(entry))

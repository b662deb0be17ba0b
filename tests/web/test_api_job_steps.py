"""The recorded steps of a job over HTTP and on the command line: their results, and the event a handler waits for."""

import json
from pathlib import Path
from typing import Any

from tests.e2e.cli_process import Cli
from tests.web.serving import data, problem, served
from windlass import Context, Windlass
from windlass.testing import run_until_idle

UNKNOWN = "01890a5d-ac96-774b-bcce-b302099a8057"


def handlers(app: Windlass, calls: list[str]) -> None:
    @app.job("order.pay.v1")
    async def pay(ctx: Context, order: str) -> None:
        await ctx.step("invoice", calls.append, order)
        await ctx.step("large", lambda: "x" * 100_000)
        await ctx.wait_for("paid", key=order, timeout="1d")


async def test_the_steps_of_a_job_show_their_results_and_open_waits(
    app: Windlass, tmp_path: Path, database: str
) -> None:
    calls: list[str] = []
    handlers(app, calls)
    job = await app.submit("order.pay.v1", {"order": "o-1"})
    await run_until_idle(app)
    async with served(app) as http:
        steps: list[dict[str, Any]] = data(await http.get(f"/jobs/{job}/steps"))
        first = (await http.get(f"/jobs/{job}/steps", params={"limit": 2})).json()
        rest = (await http.get(f"/jobs/{job}/steps", params={"limit": 2, "after": first["next"]})).json()
        problem(await http.get(f"/jobs/{UNKNOWN}/steps"), 404)
    assert [(step["name"], step["kind"], step["status"], step["is_large"]) for step in steps] == [
        ("invoice", "step", "done", False),
        ("large", "step", "done", True),
        ("wait_for paid", "wait", "waiting", False),
    ]
    assert (steps[2]["message"], steps[2]["key"], steps[2]["until"] is not None) == ("paid", "o-1", True)
    assert [*first["data"], *rest["data"]] == steps
    cli = Cli(tmp_path, database)
    shown = await cli("jobs", "steps", str(job))
    assert "event paid o-1" in shown.out
    assert [step["name"] for step in json.loads((await cli("jobs", "steps", str(job), "--json")).out)] == [
        "invoice", "large", "wait_for paid",
    ]  # fmt: skip


async def test_a_fresh_retry_runs_all_steps_again(app: Windlass, tmp_path: Path, database: str, conn: Any) -> None:
    calls: list[str] = []
    handlers(app, calls)
    job = await app.submit("order.pay.v1", {"order": "o-1"})
    await run_until_idle(app)
    cli = Cli(tmp_path, database)
    async with served(app) as http:
        for retry, expected in ((lambda: http.post(f"/jobs/{job}/retry"), 1), (lambda: fresh(http, job), 2)):
            await app.cancel(job)
            data(await retry())
            await run_until_idle(app)
            assert len(calls) == expected
    await app.cancel(job)
    assert (await cli("jobs", "retry", "--fresh", str(job))).out == f"retried {job}\n"
    await run_until_idle(app)
    assert calls == ["o-1"] * 3
    assert await conn.fetchval("select count(*) from windlass.waiter where state in ('new', 'open')") == 1


async def fresh(http: Any, job: Any) -> Any:
    return await http.post(f"/jobs/{job}/retry", params={"fresh": "true"})

"""Runs on the command line: real processes with a real worker on a real database."""

import asyncio
import json
import os
import re
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import asyncpg
import httpx
import pytest

from tests.e2e.cli_process import PATIENCE, Cli, Running

SHOP = """
import asyncio
from pathlib import Path
from windlass import Context, Windlass

app = Windlass()

@app.job("orders.fetch.v1")
async def fetch(ctx: Context, count: int = 4) -> dict:
    ctx.log.info("fetching %d", count)
    return {"orders": list(range(count))}

@app.job("orders.load.v1")
async def load(ctx: Context, item: int, good: bool = False) -> int:
    ctx.log.info("loading %d", item)
    if item == 2 and not good:
        raise ValueError("order 2 is broken")
    return item

@app.job("orders.tell.v1")
async def tell(ctx: Context, text: str = "rang") -> str:
    return text

@app.job("orders.wait.v1")
async def wait(ctx: Context) -> str:
    ctx.log.info("waiting for the file")
    while not Path("go").exists():
        await asyncio.sleep(0.01)
    ctx.log.info("the file is there")
    return "done"
"""
ORDERS = """
name: orders
tasks:
  fetch:  { job: orders.fetch.v1 }
  load:   { needs: [fetch], foreach: fetch.orders, job: orders.load.v1, max_attempts: 1 }
  report: { needs: [load], job: orders.tell.v1 }
  alarm:  { needs: [{ step: load, on: failure }], job: orders.tell.v1 }
"""
BROKEN = """
name: broken
tasks:
  load: { job: orders.load.v1, input: { item: 2 }, max_attempts: 1 }
  tell: { needs: [load], job: orders.tell.v1 }
"""
SLOW = "name: slow\ntasks: { wait: { job: orders.wait.v1 }, tell: { needs: [wait], job: orders.tell.v1 } }\n"
LONELY = "name: lonely\ntasks: { go: { job: nobody.serves.v1, queue: gpu } }\n"
FILES = {"shop.py": SHOP, "orders.yaml": ORDERS, "broken.yaml": BROKEN, "slow.yaml": SLOW, "lonely.yaml": LONELY}
JOB = {"type": "a.b", "args": []}
NOBODY = "01890a5d-ac96-774b-bcce-b302099a8057"


@pytest.fixture
def cli(tmp_path: Path, database: str) -> Cli:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    return Cli(tmp_path, database)


@pytest.fixture
async def worker(cli: Cli) -> AsyncIterator[Running]:
    async with cli.running("worker", "shop:app", "--worker-id", "w1") as running:
        await running.line("serves")
        yield running


async def test_a_file_is_deployed_run_watched_and_explained(cli: Cli, worker: Running) -> None:
    ran = await cli("run", "orders.yaml", "-i", "count=4", "-i", "who=Ada", "--label", "team=data", "--wait")
    assert ran.code == 0, ran.err
    id_, state, output = ran.out.splitlines()
    assert re.fullmatch(r"completed in [0-9.]+m?s", state)
    assert json.loads(output) == {"alarm": "rang"}
    told = ran.err.splitlines()
    assert told[0] == "deployed orders version 1 (new)"
    assert any(line.startswith("load: failed, 4/4, 1 failed, number 2: order 2 is broken (") for line in told)
    assert "report: skipped, needs load to succeed, but it failed" in told
    shown, listed, explained, drawn, logs = await asyncio.gather(
        cli("runs", "show", id_, "--json"),
        cli("runs", "list", "--workflow", "orders", "--state", "completed", "--label", "team=data"),
        cli("explain", id_),
        cli("graph", "--run", id_),
        cli("runs", "logs", id_, "--step", "load"),
    )
    run = json.loads(shown.out)
    assert (run["status"], run["input"], run["labels"]) == ("completed", {"count": 4, "who": "Ada"}, {"team": "data"})
    tasks = list(run["tasks"].values())
    assert [task["status"] for task in tasks] == ["success", "failed", "skipped", "success"]
    assert (tasks[1]["instances"]["failed"], tasks[0]["worker"]) == (1, "w1")
    assert listed.out.splitlines()[0].split() == [
        *("ID", "WORKFLOW", "VERSION", "STATE", "S/F/K/TOTAL", "CREATED", "DURATION"),
    ]
    assert listed.out.splitlines()[1].split()[:5] == [id_, "orders", "1", "completed", "2/1/1/4"]
    assert "The failure of load was handled by alarm." in explained.out
    assert "It ran because load failed. It succeeded in " in explained.out
    assert f"windlass runs logs {id_} --step load --index 2" in explained.out
    assert "✘ load  job orders.load.v1; failed; for each of fetch.orders" in drawn.out
    assert sorted(re.findall(r"load\[(\d)\]: loading (\d)", logs.out)) == [(str(n), str(n)) for n in range(4)]


async def test_a_failed_run_is_reported_retried_and_rerun(cli: Cli, worker: Running) -> None:
    failed = await cli("run", "broken.yaml", "--wait")
    id_ = failed.out.splitlines()[0]
    assert failed.code == 1
    assert "No step handled the failure of load, so the run failed." in failed.err
    assert failed.err.endswith(f"hint: windlass explain {id_} shows what happened to each step\n")
    shown, refused = await asyncio.gather(cli("runs", "show", id_), cli("runs", "cancel", id_))
    [row] = [line for line in shown.out.splitlines() if line.startswith("load ")]
    assert ["trigger", "api"] in [line.split() for line in shown.out.splitlines()]
    assert row.split()[1:3] == ["failed", "1/1"]
    assert row.endswith("order 2 is broken")
    assert refused.err == f"error: run {id_} is failed and cannot be cancelled: only pending and running runs can be\n"
    preview = json.loads((await cli("runs", "retry", id_, "--dry-run", "--json")).out)
    assert preview == [{"id": id_, "kept": [], "again": ["load", "tell"], "new": [], "gone": []}]
    assert (await cli("runs", "retry", id_, "--version", "live")).out == f"retried {id_}\n"
    again = await cli("runs", "wait", id_, "--json")
    assert (again.code, json.loads(again.out)["steps"]) == (1, {"load": "failed", "tell": "skipped"})
    assert (await cli("runs", "rerun", id_, "--from", "tell", "--input", '{"a": 1}')).out == f"rerun {id_}\n"
    forced = await cli("runs", "wait", id_)
    assert forced.code == 1  # the failure of load is still there
    explained = json.loads((await cli("explain", id_, "--json")).out)
    assert explained["tasks"][1]["sentences"][0] == "It ran because a rerun was requested (rerun, from step tell)."
    assert json.loads((await cli("runs", "show", id_, "--json")).out)["input"] == {"a": 1}


async def test_the_exit_code_reflects_the_state_of_the_run(cli: Cli, worker: Running) -> None:
    waited = await cli("run", "slow.yaml", "--wait", "--timeout", "300ms", "--json")
    told = json.loads(waited.out)
    assert (waited.code, told["state"]) == (4, "running")
    assert f"run {told['id']} is still running after 300ms and continues" in waited.err
    cancelled = await cli("runs", "cancel", told["id"], "--reason", "enough", "--json")
    assert json.loads(cancelled.out) == [{"id": told["id"], "cancelled": True, "error": None}]
    ended = await cli("runs", "wait", told["id"])
    assert ended.code == 3
    assert "The run was cancelled by cli:" in ended.err
    assert ": enough." in ended.err
    expired = await cli("run", "slow", "--max-duration", "200ms", "--wait")
    assert (expired.code, expired.out.splitlines()[1].split()[0]) == (3, "timeout")
    both = await cli("runs", "wait", told["id"], expired.out.splitlines()[0])
    assert (both.code, sorted(line.split()[1] for line in both.out.splitlines())) == (3, ["cancelled", "timeout"])


async def test_ctrl_c_leaves_the_run_active_and_prints_how_to_wait_again(cli: Cli, worker: Running) -> None:
    async with cli.running("run", "slow.yaml", "--wait") as watching:
        await watching.line("wait: active")
        watching.signal(signal.SIGINT)
        assert await watching.end() == 130
    id_ = next(line for line in watching.lines if re.fullmatch("[0-9a-f-]{36}", line))
    assert "stopped waiting; the run continues. To return or cancel:" in watching.lines
    assert watching.lines[-3:] == [
        f"  windlass runs wait {id_}",
        f"  windlass explain {id_}",
        f"  windlass runs cancel {id_}",
    ]
    (cli.folder / "go").touch()
    assert (await cli("runs", "wait", id_)).code == 0


async def test_logs_are_followed_to_the_end_of_the_run(cli: Cli, worker: Running) -> None:
    id_ = (await cli("run", "slow.yaml")).out.strip()
    async with cli.running("runs", "logs", id_, "--follow") as logs:
        await logs.line("wait: waiting for the file")
        (cli.folder / "go").touch()
        await logs.line("wait: the file is there")
        assert await logs.end() == 0
    assert len([line for line in logs.lines if "waiting for the file" in line]) == 1
    as_json = await cli("runs", "logs", id_, "--json")
    assert [json.loads(line)["task"] for line in as_json.out.splitlines()] == ["wait", "wait"]


async def test_a_run_is_paused_resumed_cancelled_and_retried_on_the_live_version(cli: Cli) -> None:
    id_ = json.loads((await cli("run", "lonely.yaml", "--json")).out)["id"]
    assert (await cli("runs", "pause", id_, "--reason", "not now")).out == f"paused {id_}\n"
    assert f"`windlass runs resume {id_}`" in (await cli("explain", id_)).out
    assert (await cli("runs", "resume", id_)).out == f"resumed {id_}\n"
    assert (await cli("runs", "cancel", id_, "--compensate")).out == f"cancelled {id_}\n"
    refused = await cli("runs", "retry", id_, "--version", "live", "--dry-run")
    assert refused.err == f"error: run {id_} is cancelled and cannot be retried: only failed and timeout runs can be\n"


async def test_a_job_that_no_worker_serves_is_reported(cli: Cli) -> None:
    started = await cli("run", "lonely.yaml", "--key", "once", "--json")
    id_ = json.loads(started.out)["id"]
    again, explained, watched, nothing = await asyncio.gather(
        cli("run", "lonely", "--key", "once"),
        cli("explain", id_),
        cli("runs", "wait", id_, "--timeout", "100ms"),
        cli("runs", "logs", id_),
    )
    assert again.out.strip() == id_
    told = (
        "no worker serves type nobody.serves.v1 in queue gpu: start one with `windlass worker MODULE:APP --queue gpu`"
    )
    assert f"- go: {told}, where APP has a handler for it.\n" in explained.out
    assert "go: active, no worker serves nobody.serves.v1 in queue gpu" in watched.err
    assert (nothing.code, nothing.err) == (0, "nothing was logged\n")


async def test_a_child_run_and_a_run_held_by_a_concurrency_limit_are_explained(cli: Cli, worker: Running) -> None:
    (cli.folder / "above.yaml").write_text("name: above\nconcurrency: 1\ntasks: { go: { workflow: slow } }\n")
    await cli("deploy", "slow.yaml", "above.yaml")
    first, held = (await cli("run", "above")).out.strip(), (await cli("run", "above")).out.strip()
    explained, waiting = await asyncio.gather(cli("explain", first), cli("explain", held))
    assert re.search(
        r"- go: it waits for run [0-9a-f-]{36}, which is (pending|running): `windlass explain", explained.out
    )
    assert "The run waits to start: workflow above allows 1 active run at a time, and 1 is active." in waiting.out
    (cli.folder / "go").touch()
    assert (await cli("runs", "wait", first, held)).code == 0


async def test_on_a_terminal_the_tree_updates_live(cli: Cli, worker: Running) -> None:
    (cli.folder / "go").touch()
    code, seen = await terminal(cli, "run", "slow.yaml", "--wait")
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", seen)
    assert code == 0
    assert "slow version 1  completed" in plain
    assert re.search(r"✔ wait  succeeded +[0-9.]+m?s", plain)
    assert re.search(r"completed in [0-9.]+m?s\r\n\"rang\"", plain)
    assert "\x1b[?25h" in seen  # the cursor is back


BAD_CALLS: dict[str, tuple[tuple[str, ...], int, str]] = {
    "near": (("run", "order"), 1, "error: no workflow order: did you mean orders?\n"),
    "no file": (("run", "none.yaml"), 1, "error: there is neither a file nor a workflow 'none.yaml'\n"),
    "not JSON": (("run", "orders", "--input", "{a: 1}"), 1, "error: input is not JSON: "),
    "pair": (("run", "orders", "-i", "count"), 1, "error: input is 'count': it must look like name=value\n"),
    "twice": (("run", "orders", "-i", "a=1", "-i", "a=2"), 1, "error: input a is set twice: to '1' and to '2'\n"),
    "both": (("run", "orders", "-i", "a=1", "--input", "{}"), 2, "more than one input"),
    "input file": (("run", "orders", "--input-file", "no.json"), 1, "error: cannot read no.json: No such file"),
    "label": (("run", "orders", "--label", "x"), 1, "error: label is 'x': it must look like name=value\n"),
    "zero": (
        ("run", "orders", "--wait", "--timeout", "0s"),
        1,
        "error: timeout is '0s': it must be positive",
    ),
    "no unit": (
        ("runs", "wait", NOBODY, "--timeout", "5"),
        1,
        "error: timeout is '5': it must be a number with a unit",
    ),
    "no wait": (("run", "orders", "--timeout", "5s"), 2, "--timeout needs --wait"),
    "duration": (("run", "orders", "--max-duration", "0s"), 1, "error: max-duration is '0s': it must be positive"),
    "several": (("run", "orders", "--workflow", "x"), 1, "error: --workflow needs a file\n"),
    "bad id": (("explain", "7"), 1, "error: '7' is not a run id: it looks like 01890a5d-"),
    "no run": (("explain", NOBODY), 1, f"error: no run {NOBODY}\n"),
    "show": (("runs", "show", NOBODY), 1, f"error: no run {NOBODY}\n"),
    "cancel": (("runs", "cancel", NOBODY), 1, f"error: no run {NOBODY}\n"),
    "wait": (("runs", "wait", NOBODY), 1, f"error: no run {NOBODY}\n"),
    "logs": (("runs", "logs", NOBODY), 1, f"error: no run {NOBODY}\n"),
    "graph": (("graph", "--run", NOBODY), 1, f"error: no run {NOBODY}\n"),
    "graph of nothing": (("graph",), 2, "a file, a deployed workflow, or a run with --run"),
    "state": (("runs", "list", "--state", "done"), 1, "error: state is 'done': one of pending, running, completed"),
    "before": (("runs", "list", "--before", "7"), 1, "error: '7' is not a run id"),
    "of nobody": (("runs", "list", "--workflow", "ordres"), 1, "error: no workflow ordres: did you mean orders?\n"),
    "no step": (("runs", "rerun", NOBODY), 2, "Missing option '--from'"),
}


async def test_invalid_calls_exit_with_an_error_message_and_start_no_run(
    cli: Cli, conn: "asyncpg.Connection[Any]"
) -> None:
    await cli("deploy", "orders.yaml")
    calls = list(BAD_CALLS.items())
    told = [
        ended
        for at in range(0, len(calls), 5)
        for ended in await asyncio.gather(*(cli(*given) for _, (given, _, _) in calls[at : at + 5]))
    ]
    for (name, (_, code, expected)), ended in zip(calls, told, strict=True):
        assert (ended.code, ended.out) == (code, ""), (name, ended)
        assert expected in ended.err, (name, ended.err)
        assert "Traceback" not in ended.err, name
    assert await conn.fetchval("select count(*) from windlass.run") == 0


async def test_the_error_for_an_unknown_step_lists_the_existing_steps(cli: Cli) -> None:
    id_ = (await cli("run", "lonely.yaml")).out.strip()
    logs, rerun, page = await asyncio.gather(
        cli("runs", "logs", id_, "--step", "nap"),
        cli("runs", "rerun", id_, "--from", "go"),
        cli("runs", "list", "--limit", "1"),
    )
    assert (logs.code, logs.err) == (1, "error: workflow 'lonely' has no step 'nap': it has go\n")
    assert rerun.err.startswith(f"error: run {id_} is running and cannot be rerun: only completed, failed and ")
    assert page.err == f"more: --before {id_}\n"


async def terminal(cli: Cli, *arguments: str) -> tuple[int, str]:
    """Run a command in a pseudo-terminal; return its exit code and its output."""
    ours, theirs = os.openpty()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "windlass", *arguments),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        cwd=cli.folder,
        env={**cli.environment(), "TERM": "xterm-256color", "COLUMNS": "100", "LINES": "30"},
    )
    os.close(theirs)
    async with asyncio.timeout(PATIENCE):
        seen = await asyncio.to_thread(_drain, ours)
        return await process.wait(), seen


def _drain(descriptor: int) -> str:
    found = b""
    try:
        while data := os.read(descriptor, 65_536):
            found += data
    except OSError:  # what Linux raises at the end of a terminal
        pass
    os.close(descriptor)
    return found.decode()


async def test_an_open_job_spec_workflow_is_found_by_the_id_and_name_of_its_client(cli: Cli) -> None:
    body = {
        "type": "chain",
        "id": "wf_mine",
        "name": "nightly",
        "steps": [{"type": "group", "id": "wf_in", "jobs": [JOB]}],
    }
    async with cli.running("server", "--port", "0", "--json") as server, httpx.AsyncClient() as http:
        url = json.loads(await server.line("{"))["http"]
        assert (await http.post(f"{url}/ojs/v1/workflows", json=body)).status_code == 201
        for far in ({}, {"WINDLASS_URL": url}):
            listed, explained, shown = await asyncio.gather(
                cli("runs", "list", **far),
                cli("explain", "wf_mine", **far),
                cli("runs", "show", "wf_in", "--json", **far),
            )
            assert "chain nightly wf_mine" in listed.out, listed.err
            assert "group wf_in" in listed.out
            assert (explained.code, explained.out.startswith("run ")) == (0, True), explained.err
            assert json.loads(shown.out)["labels"] == {"workflow_id": "wf_in"}
            unknown = await cli("explain", "wf_other", **far)
            assert (unknown.code, "'wf_other' is not a run id" in unknown.err) == (1, True)
        found = (await http.get(f"{url}/api/v1/runs/wf_mine")).json()["data"]
        assert found["labels"] == {"name": "nightly", "workflow_id": "wf_mine"}
        assert (await http.get(f"{url}/api/v1/runs/wf_other")).status_code == 404

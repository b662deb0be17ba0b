"""The command line as people and scripts use it: real processes on a real database."""

import asyncio
import json
import re
import signal
import socket
import sys
from pathlib import Path
from typing import Any

import asyncpg
import httpx
import pytest

from tests.e2e.cli_process import Cli
from windlass.cli.process import check_prefixes, load_app
from windlass.errors import Invalid

SHOP = """
import asyncio, threading
from pathlib import Path
from windlass import Context, Windlass

app = Windlass()
bare = Windlass()
number = 7

@app.job("greet.person.v1")
async def greet(ctx: Context, name: str) -> dict[str, str]:
    ctx.log.info("greeting %s", name)
    return {"text": f"hello {name}"}

@app.job("fail.always.v1")
def fail(ctx: Context) -> None:
    raise ValueError("not today")

@app.job("wait.file.v1")
async def wait(ctx: Context, file: str) -> str:
    ctx.log.info("begun")
    while not Path(file).exists():
        await asyncio.sleep(0.01)
    return "done"

@app.job("hang.thread.v1")
def hang(ctx: Context) -> None:
    ctx.log.info("hanging")
    threading.Event().wait()
"""


@pytest.fixture
def cli(tmp_path: Path, database: str) -> Cli:
    (tmp_path / "shop.py").write_text(SHOP)
    (tmp_path / "broken.py").write_text("import nothing_of_that_name\n")
    return Cli(tmp_path, database)


async def test_a_submitted_job_is_run_by_a_worker_and_can_be_inspected(cli: Cli) -> None:
    async with cli.running("worker", "shop:app", "--worker-id", "w1", "--log-format", "json") as worker:
        submitted, failing = await asyncio.gather(
            cli("submit", "greet.person.v1", '{"name": "Ada"}', "--tag", "vip", "--wait", "--json"),
            cli("submit", "fail.always.v1", "--max-attempts", "1", "--wait"),
        )
        logged = json.loads(await worker.line("greeting Ada"))
        listed, shown, logs, workers = await asyncio.gather(
            cli("jobs", "list", "--status", "failed"),
            cli("jobs", "show", json.loads(submitted.out)["id"], "--json"),
            cli("jobs", "logs", json.loads(submitted.out)["id"]),
            cli("workers"),
        )
        worker.signal()
        assert await worker.end() == 0
    job = json.loads(shown.out)
    assert (job["status"], job["result"], job["tags"]) == ("succeeded", {"text": "hello Ada"}, ["vip"])
    assert [event["event"] for event in job["events"]] == ["created", "leased", "succeeded"]
    assert (logged["job_id"], logged["job_type"], logged["attempt"]) == (job["id"], "greet.person.v1", 1)
    assert {"time", "level", "logger", "message"} <= logged.keys()
    assert failing.code == 1
    id_, verdict = failing.out.splitlines()
    assert verdict == "failed: not today"
    assert listed.out.splitlines()[1].split()[:4] == [id_, "fail.always.v1", "failed", "default"]
    assert "greeting Ada" in logs.out
    assert workers.out.splitlines()[1].split()[:3] == ["w1", "yes", "running"]


async def test_a_job_is_cancelled_retried_shown_and_deleted(cli: Cli) -> None:
    id_ = (await cli("submit", "greet.person.v1", "--delay", "1h")).out.strip()
    assert (await cli("jobs", "cancel", id_, "--reason", "changed my mind")).out == f"cancelled {id_}\n"
    again = await cli("jobs", "cancel", id_)
    assert (again.code, again.out) == (1, "")
    assert again.err == f"error: job {id_} is cancelled and cannot be cancelled: only pending and leased jobs can be\n"
    assert json.loads((await cli("jobs", "retry", id_, "--json")).out) == [{"id": id_, "retried": True, "error": None}]
    shown = await cli("jobs", "show", id_)
    assert "\x1b" not in shown.out
    assert shown.out.isascii()
    assert re.search("^status +pending$", shown.out, re.MULTILINE)
    assert "changed my mind" in shown.out
    deleted, gone = await cli("jobs", "delete", id_), await cli("jobs", "show", id_)
    assert (deleted.code, gone.code, gone.err) == (0, 1, f"error: no job {id_}\n")


async def test_up_serves_http_on_a_free_port_and_stops_on_sigterm(cli: Cli) -> None:
    async with cli.running("up", "shop:app", "--port", "0") as up:
        url = (await up.line("http://")).split()[1]
        await up.line("worker ")
        async with httpx.AsyncClient(base_url=url) as client:
            health, ready, metrics = [await client.get(path) for path in ("/health", "/ready", "/metrics")]
        taken = await cli("up", "--port", url.rpartition(":")[2])
        up.signal()
        assert await up.end() == 0
    assert (health.status_code, health.json(), ready.status_code) == (200, {"status": "ok"}, 200)
    assert "workflow_worker_poll_cycle_total" in metrics.text
    assert taken.code == 1
    assert taken.err.startswith(f"error: port {url.rpartition(':')[2]} on 127.0.0.1 is in use: stop the program")


async def test_up_without_an_app_serves_http_steps(cli: Cli, conn: "asyncpg.Connection[Any]") -> None:
    async with cli.running("up", "--port", "0", "--json") as up:
        address = json.loads(await up.line("{"))
        assert address["http"].startswith("http://127.0.0.1:")
        up.signal(signal.SIGINT)
        assert await up.end() == 0
    assert await conn.fetchval("select types from windlass.worker") == ["windlass.http.v1", "windlass.webhook.v1"]


async def test_a_drain_lets_a_running_job_finish(cli: Cli, conn: "asyncpg.Connection[Any]") -> None:
    async with cli.running("worker", "shop:app") as worker:
        await conn.execute("""select windlass.submit('wait.file.v1', '{"file": "go"}')""")
        await worker.line("begun")
        worker.signal()
        await worker.line("draining: 1")
        (cli.folder / "go").touch()
        assert await worker.end() == 0
    assert await conn.fetchval("select status from workflow.workflow_run") == "succeeded"


async def test_a_second_signal_hands_the_job_back_immediately(cli: Cli, conn: "asyncpg.Connection[Any]") -> None:
    async with cli.running("worker", "shop:app", "--grace", "1h") as worker:
        await conn.execute("""select windlass.submit('wait.file.v1', '{"file": "never"}')""")
        await worker.line("begun")
        worker.signal()
        await worker.line("draining: 1")
        worker.signal()
        assert await worker.end() == 128 + signal.SIGTERM
    assert tuple(await conn.fetchrow("select status, attempt, lost from workflow.workflow_run") or ()) == (
        "pending",
        0,
        0,
    )


async def test_a_hanging_thread_does_not_keep_the_process_alive(cli: Cli, conn: "asyncpg.Connection[Any]") -> None:
    async with cli.running("worker", "shop:app", "--grace", "10ms") as worker:
        await conn.execute("select windlass.submit('hang.thread.v1')")
        await worker.line("hanging")
        worker.signal()
        await worker.line("1 thread(s) ignored their cancellation")
        assert await worker.end() == 0


BAD_SUBMITS: dict[str, tuple[tuple[str, ...], str]] = {
    "not JSON": (("a.b.v1", "{name: 1}"), "payload is not JSON"),
    "NUL bytes": (("a.b.v1", r'{"a": "x\u0000y"}'), "payload contains a NUL character"),
    "65 levels": (("a.b.v1", "[" * 65 + "]" * 65), "payload is nested deeper than 64 levels"),
    "2 MB": (("a.b.v1", "-"), "the limit is 1048576"),
    "priority": (("a.b.v1", "--priority", "1000001"), "priority is 1000001: it must be between"),
    "empty type": (("  ",), "type is empty: name the work, for example content.thumbnail.v1"),
    "duration": (("a.b.v1", "--delay", "5"), "delay is '5': it must be a number with a unit"),
    "moment": (("a.b.v1", "--run-at", "noon"), "run-at is 'noon': it must look like 2030-01-31T12:00:00Z"),
}


async def test_invalid_input_is_refused_with_a_one_line_error_and_submits_no_job(
    cli: Cli, conn: "asyncpg.Connection[Any]"
) -> None:
    big = b'"' + b"x" * 2_000_000 + b'"'
    told = await asyncio.gather(*(cli("submit", *given, stdin=big) for given, _ in BAD_SUBMITS.values()))
    for (name, (_, expected)), ended in zip(BAD_SUBMITS.items(), told, strict=True):
        assert (ended.code, ended.out) == (1, ""), name
        assert ended.err.startswith("error: "), name
        assert expected in ended.err, name
        assert ended.err.count("\n") == 1, name
    assert await conn.fetchval("select count(*) from workflow.workflow_run") == 0


BAD_CALLS: dict[str, tuple[tuple[str, ...], int, str]] = {
    "wrong type": (("submit", "a.b.v1", "--priority", "high"), 2, "Invalid value for '--priority'"),
    "no such id": (("jobs", "show", "01890a5d-ac96-774b-bcce-b302099a8057"), 1, "error: no job 01890a5d-ac96"),
    "no id": (("jobs", "cancel", "seven"), 1, "error: 'seven' is not a job id"),
    "status": (("jobs", "list", "--status", "done"), 1, "error: status is 'done': one of pending, leased"),
    "no module": (("worker", "nowhere:app"), 1, "error: there is no module 'nowhere': run this in the folder"),
    "open door": (("up", "--host", "0.0.0.0"), 1, "error: listening on 0.0.0.0 would open the server"),
}


async def test_invalid_calls_exit_with_an_error_message_and_no_traceback(cli: Cli) -> None:
    told = await asyncio.gather(*(cli(*given) for given, _, _ in BAD_CALLS.values()))
    for (name, (_, code, expected)), ended in zip(BAD_CALLS.items(), told, strict=True):
        assert (ended.code, ended.out) == (code, ""), (name, ended)
        assert expected in ended.err, name
        assert "Traceback" not in ended.err, name


@pytest.mark.parametrize(
    ("target", "told"),
    [
        (":app", "':app' is not MODULE:APP: for example windlass worker shop.jobs:app"),
        ("broken:app", r"importing 'broken' failed: ModuleNotFoundError: .*broken.py, line 1"),
        ("shop:application", "has no 'application': did you mean shop:app or shop:bare?"),
        ("shop:number", "shop:number is a int, not a Windlass object"),
        ("shop:bare", "shop:bare has no handlers: decorate functions with @bare.job"),
    ],
)
def test_the_error_explains_why_an_app_cannot_be_loaded(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, target: str, told: str
) -> None:
    monkeypatch.chdir(cli.folder)
    monkeypatch.setattr(sys, "path", [*sys.path])
    for name in ("shop", "broken"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    with pytest.raises(Invalid, match=told):
        load_app(target)
    app = load_app("shop")
    check_prefixes(app, ["greet.%"])
    with pytest.raises(Invalid, match=r"no handler matches --prefix 'greet\.': it is a LIKE pattern"):
        check_prefixes(app, ["greet."])


async def test_a_type_without_a_version_is_accepted_with_a_warning(cli: Cli, conn: "asyncpg.Connection[Any]") -> None:
    first = await cli("submit", "thumbnail", "-", "--key", "k", stdin=b'{"n": 1}')
    again = await cli("submit", "thumbnail", "--key", "k", "--json")
    assert first.err.startswith("warning: type 'thumbnail' is not of the form domain.action.vN")
    assert json.loads(again.out) == {"id": first.out.strip()}
    assert await conn.fetchval("select payload->>'n' from workflow.workflow_run") == "1"


async def test_waiting_for_a_job_can_time_out(cli: Cli) -> None:
    ended = await cli("submit", "greet.person.v1", "--wait", "--timeout-wait", "50ms")
    assert ended.code == 1
    assert ended.err == f"error: job {ended.out.strip()} is still pending after 50ms: it is recorded and continues\n"


async def test_lists_are_continued_with_before(cli: Cli, conn: "asyncpg.Connection[Any]") -> None:
    for name in ("a.b.v1", "a.c.v1", "a.d.v1"):
        await conn.execute("select windlass.submit($1)", name)
    first = json.loads((await cli("jobs", "list", "--limit", "2", "--json")).out)
    rest = await cli("jobs", "list", "--type", "a.%", "--before", str(first["next"]))
    assert [job["type"] for job in first["jobs"]] == ["a.d.v1", "a.c.v1"]
    assert [line.split()[1] for line in rest.out.splitlines()] == ["TYPE", "a.b.v1"]


async def test_doctor_reports_jobs_that_no_worker_serves(cli: Cli, conn: "asyncpg.Connection[Any]") -> None:
    healthy = await cli("doctor")
    problems = [line.split()[1] for line in healthy.out.splitlines() if line.startswith("PROBLEM")]
    assert problems == ["durability"]  # the server of the tests does not write through to the disk
    assert "OK       schema" in healthy.out
    await conn.execute(
        """insert into workflow.workflow_run (type, payload, run_at, created_at, updated_at)
           select type, '{}', at, at, at from unnest(array['lone.job.v1', 'go.job.v1', 'odd']) as type,
                  lateral (select now() - interval '5 minutes' as at) as past"""
    )
    await conn.execute("insert into workflow.workflow_registry (workflow_name, runtime) values ('go.job.v1', 'go')")
    ended = await cli("doctor", "--json")
    findings = {(f["level"], f["check"]): f for f in json.loads(ended.out)["findings"]}
    told = " ".join(f["message"] for f in json.loads(ended.out)["findings"])
    assert ended.code == 1
    assert "lone.job.v1 in queue sql has waited 5m" in told
    assert re.search(r"go.job.v1 in queue sql has waited 5m[0-9s]*: it is registered to runtime go", told)
    assert "'odd'" in findings["warning", "types"]["message"]
    assert findings["warning", "workers"]["fix"] == "windlass worker MODULE:APP"
    assert "sql: the oldest waiting job" in findings["warning", "queue"]["message"]


async def test_doctor_reports_an_unreachable_database(cli: Cli) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    lost = Cli(cli.folder, f"postgresql://nobody@127.0.0.1:{port}/none")
    ended, listed, unread = await asyncio.gather(
        lost("doctor", "--json"), lost("jobs", "list"), lost("doctor", WINDLASS_POOL_SIZE="many")
    )
    assert ended.code == 1
    assert [f["level"] for f in json.loads(ended.out)["findings"]] == ["ok", "problem"]
    assert listed.code == 1
    assert listed.err.startswith("error: the database did not answer")
    assert listed.err.splitlines()[1] == "hint: check WINDLASS_DATABASE_URL; windlass doctor looks for the cause"
    assert "WINDLASS_POOL_SIZE='many': must be an integer" in unread.out


async def test_db_commands_show_query_and_dump_the_database(cli: Cli) -> None:
    url, status, migrated, asked, stopped = await asyncio.gather(
        cli("db", "url"),
        cli("db", "status", "--json"),
        cli("db", "migrate", "--json"),
        cli("db", "psql", "--", "-XtAc", "select 6 * 7"),
        cli("db", "stop"),
    )
    assert url.out.strip() == cli.database
    assert json.loads(status.out)["pending_migrations"] == []
    assert json.loads(migrated.out) == {"applied": []}
    assert (asked.code, asked.out) == (0, "42\n")
    assert stopped.err.startswith("error: WINDLASS_DATABASE_URL names a server of your own")


async def test_a_dump_is_written_completely_or_not_at_all(cli: Cli) -> None:
    whole = await cli("db", "dump", "--output", "whole.sql", "--", "--schema-only")
    broken = await cli("db", "dump", "--output", "broken.sql", "--", "--no-such-option")
    assert whole.code == 0
    assert "workflow_run" in (cli.folder / "whole.sql").read_text()
    assert broken.code == 1
    assert "broken.sql was not written" in broken.err
    assert [path.name for path in cli.folder.glob("*.sql*")] == ["whole.sql"]
    assert list(cli.folder.glob(".*.sql*")) == []


async def test_the_version_and_help_are_plain_text_in_a_pipe(cli: Cli) -> None:
    version, help_, usage = await asyncio.gather(cli("--version"), cli("submit", "--help"), cli("jobs", "shw"))
    assert version.out.startswith("windlass ")
    assert help_.out.isascii()
    assert "\x1b" not in help_.out
    assert "windlass submit content.thumbnail.v1" in help_.out
    assert usage.code == 2
    assert usage.err.isascii()

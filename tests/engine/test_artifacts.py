"""Artifacts: files that handlers write for later steps and for users. They are removed with their job."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from tests.engine.harness import ManualWorker
from tests.keys import KEYS
from windlass import Context, NotFound, Windlass
from windlass.core.artifacts import MAX_PER_ATTEMPT, Reference
from windlass.core.jobs.job import Claimed
from windlass.core.jobs.retry import Backoff, Retry
from windlass.core.json_value import RESULT_LIMIT
from windlass.engine import artifacts, upkeep
from windlass.engine.runs import control as runs
from windlass.errors import Invalid, LeaseLost
from windlass.runtime.handle import Run
from windlass.runtime.loops.objects import ObjectRemoval
from windlass.runtime.loops.upkeep import LeaseRecovery
from windlass.runtime.worker import WorkerOptions
from windlass.settings import Settings
from windlass.testing import Clock, run_until_idle

AT_ONCE = Retry(kind=Backoff.CONSTANT, base=0)
MEBIBYTE = 1_048_576


@pytest.fixture
async def app(database: str, tmp_path: Path, clock: Clock) -> AsyncIterator[Windlass]:
    settings = Settings(master_keys=KEYS, home=tmp_path)
    async with Windlass(database, settings=settings, clock=clock.now) as opened:
        yield opened


def files(app: Windlass) -> list[Path]:
    return [path for path in (app.settings.home / "objects").rglob("*") if path.is_file()]


async def run(app: Windlass, *tasks: dict[str, Any]) -> Run:
    """Run a workflow of these tasks, one after the other, and return the run as it ended."""
    named = {task["name"]: {"needs": [tasks[n - 1]["name"]]} | task if n else task for n, task in enumerate(tasks)}
    steps = {name: {key: value for key, value in task.items() if key != "name"} for name, task in named.items()}
    await app.deploy({"name": "files", "tasks": steps})
    started = await app.start("files")
    await run_until_idle(app)
    return started


async def output_of(app: Windlass, started: Run, step: str) -> Any:
    return await runs.step_output(await app.open(), started.id, step)


async def listed(app: Windlass, run_id: UUID) -> list[tuple[str, int, str, int, bool]]:
    rows = await artifacts.list_(await app.open(), run_id)
    return [(row.step, row.index, row.name, row.attempt, row.is_result) for row in rows]


async def test_a_step_reads_what_an_earlier_step_wrote(app: Windlass) -> None:
    @app.job("make.v1")
    async def make(ctx: Context) -> str:
        return await ctx.artifacts.write("report.csv", "a,b\n1,2\n")

    @app.job("use.v1")
    async def use(ctx: Context, reference: str) -> Any:
        by_name = await ctx.artifacts.read("make", "report.csv")
        [only] = await ctx.artifacts.list()
        return [by_name.decode(), (await ctx.artifacts.read(reference)).decode(), only.name, only.size, only.media_type]

    reference = "{{tasks.make.artifacts.report.csv}}"
    started = await run(
        app, {"name": "make", "job": "make.v1"}, {"name": "use", "job": "use.v1", "input": {"reference": reference}}
    )
    text = "a,b\n1,2\n"
    assert (await started.result()).value == [text, text, "report.csv", 8, "text/csv; charset=utf-8"]
    assert await output_of(app, started, "make") == f"artifact://{started.id}/make/0/report.csv"


async def test_sync_handlers_and_handlers_of_single_jobs_have_artifacts_too(app: Windlass, tmp_path: Path) -> None:
    source = tmp_path / "source.bin"
    source.write_bytes(bytes(range(256)) * 4096 * 3)

    @app.job("sync.v1")
    def make(ctx: Context) -> str:
        return ctx.artifacts.write_sync("copy.bin", source)

    @app.job("read.v1")
    def read(ctx: Context, reference: str) -> int:
        assert ctx.artifacts.list_sync() == []
        return len(ctx.artifacts.read_sync(reference))

    first = await app.submit("sync.v1")
    await run_until_idle(app)
    reference = (await app.get(first)).result
    assert reference == f"artifact://{first}/job/0/copy.bin"
    second = await app.submit("read.v1", {"reference": reference})
    await run_until_idle(app)
    assert (await app.get(second)).result == 3 * MEBIBYTE


async def test_artifact_data_can_be_streamed_in_chunks(app: Windlass) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for n in range(3):
            yield bytes([n]) * MEBIBYTE

    @app.job("stream.v1")
    async def stream(ctx: Context) -> None:
        await ctx.artifacts.write("large", pieces(), media_type="application/x-thing")

    job = await app.submit("stream.v1")
    await run_until_idle(app)
    [row] = await artifacts.list_(await app.open(), job)
    assert (row.size, row.media_type) == (3 * MEBIBYTE, "application/x-thing")


async def test_artifacts_of_failed_attempts_stay_listed_but_are_not_visible_to_later_steps(app: Windlass) -> None:
    @app.job("flaky.v1", retry=AT_ONCE)
    async def flaky(ctx: Context) -> None:
        await ctx.artifacts.write("log.txt", f"attempt {ctx.attempt}")
        if ctx.attempt == 1:
            await ctx.artifacts.write("debug.txt", "why")
            raise RuntimeError("once")

    @app.job("use.v1")
    async def use(ctx: Context) -> str:
        with pytest.raises(NotFound, match=r"debug\.txt"):
            await ctx.artifacts.read("flaky", "debug.txt")
        return (await ctx.artifacts.read("flaky", "log.txt")).decode()

    started = await run(app, {"name": "flaky", "job": "flaky.v1"}, {"name": "use", "job": "use.v1"})
    assert (await started.result()).value == "attempt 2"
    assert await listed(app, started.id) == [
        ("flaky", 0, "debug.txt", 1, False),
        ("flaky", 0, "log.txt", 1, False),
        ("flaky", 0, "log.txt", 2, True),
    ]
    db, reference = await app.open(), Reference(started.id, "flaky", 0, "log.txt")
    assert (await artifacts.find(db, reference)).attempt == 2
    assert (await artifacts.find(db, reference, attempt=1)).attempt == 1
    assert (await artifacts.find(db, reference._replace(name="debug.txt"))).attempt == 1


async def test_a_template_that_refers_to_a_missing_artifact_fails_the_step(app: Windlass) -> None:
    @app.job("make.v1")
    async def make(ctx: Context) -> None:
        await ctx.artifacts.write("a.txt", "")

    started = await run(
        app,
        {"name": "make", "job": "make.v1"},
        {"name": "use", "job": "make.v1", "input": {"b": "{{tasks.make.artifacts.b}}"}},
    )
    assert (await started.result()).steps == {"make": "succeeded", "use": "failed"}
    assert "Failed to resolve {{tasks.make.artifacts.b}}" in str(await started.explain())


async def test_a_fanned_out_step_has_a_list_of_references(app: Windlass) -> None:
    @app.job("part.v1")
    async def part(ctx: Context) -> None:
        if ctx.index != 1:
            await ctx.artifacts.write("part.txt", str(ctx.index))

    @app.job("join.v1")
    async def join(ctx: Context, parts: list[str | None], last: str) -> Any:
        assert parts[2] == last
        return [part and (await ctx.artifacts.read(part)).decode() for part in parts]

    given = {"parts": "{{tasks.part.artifacts.part.txt}}", "last": "{{tasks.part.artifacts['part.txt'][2]}}"}
    started = await run(
        app, {"name": "part", "job": "part.v1", "parallel": 3}, {"name": "join", "job": "join.v1", "input": given}
    )
    assert (await started.result()).value == ["0", None, "2"]


async def test_a_result_above_the_limit_becomes_an_artifact(app: Windlass) -> None:
    @app.job("large.v1")
    def large() -> str:  # without a context
        return "x" * RESULT_LIMIT

    @app.job("use.v1")
    async def use(ctx: Context, output: dict[str, Any]) -> int:
        return len(await ctx.artifacts.read(output["artifact"]))

    started = await run(
        app,
        {"name": "large", "job": "large.v1"},
        {"name": "use", "job": "use.v1", "input": {"output": "{{tasks.large.output}}"}},
    )
    assert (await started.result()).value == RESULT_LIMIT + 2
    reference = f"artifact://{started.id}/large/0/output.json"
    assert await output_of(app, started, "large") == {"artifact": reference, "size": RESULT_LIMIT + 2}


async def test_a_command_output_above_the_limit_becomes_an_artifact(app: Windlass) -> None:
    command = """head -c %d /dev/zero | tr '\\0' x | sed 's/^/"/; s/$/"/' > "$WINDLASS_OUTPUT" """
    await app.deploy({"name": "files", "tasks": {"large": {"run": command % RESULT_LIMIT}}})
    started = await app.start("files")
    stop = asyncio.Event()
    working = asyncio.create_task(app.work(WorkerOptions(allow_commands=True), stop=stop))
    output = (await started.wait(timeout=60)).value
    stop.set()
    await working
    assert output == {"artifact": f"artifact://{started.id}/large/0/output.json", "size": RESULT_LIMIT + 2}
    [path] = [path for path in files(app) if path.name == "output.json"]
    assert path.stat().st_size == RESULT_LIMIT + 2


@pytest.mark.parametrize("name", ["", ".hidden", "a/b", "..", "a b", "x" * 201, "ü", None])
async def test_invalid_artifact_names_are_refused(app: Windlass, name: Any) -> None:
    @app.job("bad.v1", max_attempts=1)
    async def bad(ctx: Context) -> None:
        await ctx.artifacts.write(name, b"")

    job = await app.submit("bad.v1")
    await run_until_idle(app)
    assert "use 1 to 200 letters, digits" in ((await app.get(job)).last_error or "")
    assert files(app) == []


async def claimed(app: Windlass) -> Claimed:
    """Return a claimed job."""
    await app.submit("a.b.v1")
    [job] = await (await ManualWorker.registered(await app.open())).take()
    return job


async def test_only_the_current_claim_of_a_job_can_add_artifacts(app: Windlass) -> None:
    db, job = await app.open(), await claimed(app)
    reference = Reference(job.id, "job", 0, "a")
    stale = job._replace(claim_no=job.claim_no - 1)
    with pytest.raises(LeaseLost):
        await artifacts.reserve(db, stale, reference, media_type="text/plain")
    await artifacts.reserve(db, job, reference, media_type="text/plain")
    with pytest.raises(LeaseLost):
        await artifacts.complete(db, stale, reference, 1)
    assert await artifacts.list_(db, job.id) == []  # not yet written
    await artifacts.complete(db, job, reference, 1)
    assert [row.name for row in await artifacts.list_(db, job.id)] == ["a"]


async def test_the_size_and_number_of_artifacts_are_limited(app: Windlass) -> None:
    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(3):
            yield b"12345"

    db, job = await app.open(), await claimed(app)
    reference = Reference(job.id, "job", 0, "a")
    key = await artifacts.reserve(db, job, reference, media_type="text/plain")
    with pytest.raises(Invalid, match="more than 14 bytes"):
        await artifacts.upload(db, key, chunks(), most=14)
    assert await artifacts.upload(db, key, chunks(), most=15) == 15
    for n in range(1, MAX_PER_ATTEMPT):
        await artifacts.reserve(db, job, reference._replace(name=f"a{n}"), media_type="text/plain")
    await artifacts.reserve(db, job, reference, media_type="text/csv")  # written again
    with pytest.raises(Invalid, match="1000 artifacts, which is the limit"):
        await artifacts.reserve(db, job, reference._replace(name="more"), media_type="text/plain")


async def test_an_unavailable_object_store_fails_only_the_handler_that_writes_to_it(
    app: Windlass, tmp_path: Path
) -> None:
    (tmp_path / "objects").write_text("not a folder")

    @app.job("write.v1", max_attempts=1)
    async def write(ctx: Context) -> None:
        await ctx.artifacts.write("a", b"")

    @app.job("other.v1")
    async def other() -> int:
        return 1

    first, second = await app.submit("write.v1"), await app.submit("other.v1")
    await run_until_idle(app)
    assert ((await app.get(first)).status, (await app.get(second)).status) == ("failed", "succeeded")
    assert await artifacts.list_(await app.open(), first) == []


async def test_artifacts_are_removed_with_their_job_or_run(app: Windlass, clock: Clock, conn: Any) -> None:
    @app.job("make.v1")
    async def make(ctx: Context) -> None:
        await ctx.artifacts.write("a", b"a")

    db = await app.open()
    job = await app.submit("make.v1")
    started = await run(app, {"name": "make", "job": "make.v1"})
    assert len(files(app)) == 2
    assert await artifacts.remove_objects(db) == 0
    clock.move(timedelta(days=31))
    await upkeep.prune(db, age=timedelta(days=30))
    assert [await artifacts.list_(db, id_) for id_ in (job, started.id)] == [[], []]
    assert await artifacts.remove_objects(db) == 2
    assert (files(app), await conn.fetchval("select count(*) from windlass.artifact")) == ([], 0)


async def test_only_the_leader_removes_objects(app: Windlass, clock: Clock) -> None:
    @app.job("make.v1")
    async def make(ctx: Context) -> None:
        await ctx.artifacts.write("a", b"a")

    db = (await app.open()).database
    await app.submit("make.v1")
    await run_until_idle(app)
    clock.move(timedelta(days=31))
    await upkeep.prune(db, age=timedelta(days=30))
    recovery = LeaseRecovery(db, "w1")
    removal = ObjectRemoval(db, recovery)
    assert (await removal.tick(), len(files(app))) == (0, 1)  # it does not lead
    await recovery.tick()
    assert (await removal.tick(), len(files(app))) == (1, 0)


async def test_a_rerun_with_fewer_instances_has_only_their_artifacts(app: Windlass) -> None:
    @app.job("part.v1")
    async def part(ctx: Context, item: int) -> None:
        await ctx.artifacts.write("part", str(ctx.index))

    @app.job("join.v1")
    async def join(parts: list[str]) -> int:
        return len(parts)

    tasks = {
        "part": {"job": "part.v1", "foreach": "input.items"},
        "join": {"job": "join.v1", "needs": ["part"], "input": {"parts": "{{tasks.part.artifacts.part}}"}},
    }
    await app.deploy({"name": "files", "tasks": tasks})
    started = await app.start("files", {"items": [1, 2, 3]})
    await run_until_idle(app)
    assert (await started.result()).value == 3
    await started.rerun("part", input={"items": [1, 2]})
    await run_until_idle(app)
    assert (await started.result()).value == 2


async def test_an_object_that_cannot_be_deleted_is_retried_and_does_not_block_others(
    app: Windlass, clock: Clock, conn: Any
) -> None:
    @app.job("make.v1")
    async def make(ctx: Context) -> None:
        for name in ("a", "b", "c"):
            await ctx.artifacts.write(name, b"x")

    db = await app.open()
    await app.submit("make.v1")
    await run_until_idle(app)
    [stuck] = [path for path in files(app) if path.name == "b"]
    stuck.unlink()
    stuck.mkdir()
    (stuck / "x").touch()
    clock.move(timedelta(days=31))
    await upkeep.prune(db, age=timedelta(days=30))
    assert await artifacts.remove_objects(db) == 3
    assert [row["name"] for row in await conn.fetch("select name from windlass.artifact")] == ["b"]
    assert await artifacts.remove_objects(db) == 0  # the retry is not due yet
    (stuck / "x").unlink()
    stuck.rmdir()
    clock.move(timedelta(minutes=11))
    assert await artifacts.remove_objects(db) == 1
    assert await conn.fetchval("select count(*) from windlass.artifact") == 0

"""`windlass pools test`: a probe on real launchers and object stores, and its report of errors."""

import asyncio
import os
import socket
import time
from pathlib import Path

import pytest

from tests.runtime.conftest import eventually
from tests.runtime.test_pools import written
from windlass.core.launches import PROBE_FENCE, PROBE_WITHIN, Cause, Phase, RemoteJob, is_live_probe, launch_name
from windlass.effects.launchers import PoolOptions
from windlass.engine.database import new_ids
from windlass.runtime.pools.probe import ProbeCheck, late, probe

pytestmark = pytest.mark.skipif(os.name == "nt", reason="the subprocess launcher requires Unix")


def subprocess_pool(folder: Path, **options: object) -> PoolOptions:
    return PoolOptions(
        name="here", launcher="subprocess", env={"MODE": "test"}, options={"folder": str(folder / "pool"), **options}
    )


def left(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


async def test_a_working_pool_passes_every_check_and_the_probe_leaves_nothing_behind(tmp_path: Path) -> None:
    checks, is_well = await run_probe(subprocess_pool(tmp_path), (tmp_path / "objects").as_uri())
    assert is_well, checks
    assert [check.part for check in checks] == ["object store", "launcher", "start", "process", "output", "removal"]
    assert all(check.ok and check.fix is None for check in checks)
    assert left(tmp_path) == []


async def test_a_job_that_ends_without_a_status_is_reported_with_its_last_output(tmp_path: Path) -> None:
    pool = subprocess_pool(tmp_path, command=["sh", "-c", "echo no module named windlass >&2; exit 3"])
    checks, is_well = await run_probe(pool, (tmp_path / "objects").as_uri())
    failed = checks[3]
    assert (is_well, failed.part, failed.ok) == (False, "process", False)
    assert "ended without a status" in failed.message
    assert "no module named windlass" in failed.message
    assert failed.fix is not None
    assert "Python with Windlass" in failed.fix
    assert (checks[-1].part, checks[-1].ok) == ("removal", True)
    assert left(tmp_path) == []


async def test_an_interrupted_probe_stops_its_job_and_leaves_nothing_behind(tmp_path: Path) -> None:
    pool = subprocess_pool(tmp_path, command=["sh", "-c", f"echo $$ > {tmp_path}/pid; exec sleep 1000"])
    testing = asyncio.create_task(run_probe(pool, (tmp_path / "objects").as_uri()))
    pid = await eventually(lambda: written(tmp_path / "pid"), seconds=60)
    testing.cancel()  # as Ctrl-C does
    with pytest.raises(asyncio.CancelledError):
        await testing
    assert left(tmp_path) == [tmp_path / "pid"]
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_the_advice_after_a_timeout_depends_on_the_state_of_the_job() -> None:
    waiting = RemoteJob("x", Phase.WAITING, Cause.IMAGE, "ErrImagePull: not found")
    for remote, message, advice in (
        (None, "the pool did not list the job within 5 s", "look for the cause in the pool"),
        (waiting, "it did not start within 5 s: ErrImagePull: not found", "the name of the image"),
        (RemoteJob("x", Phase.RUNNING), "it runs, and did not end within 5 s", "a folder is on one machine"),
    ):
        failure = late(remote, timeout=5.0, is_shared=False)
        assert str(failure) == message
        assert advice in str(failure.fix)


async def test_a_broken_object_store_is_reported_and_nothing_is_launched(tmp_path: Path) -> None:
    (tmp_path / "objects").write_text("a file, not a folder")
    checks, is_well = await run_probe(subprocess_pool(tmp_path), (tmp_path / "objects" / "inner").as_uri())
    assert not is_well
    assert [(check.part, check.ok) for check in checks] == [("object store", False), ("launcher", True)]
    assert "WINDLASS_OBJECTS_URL" in str(checks[0].fix)


async def test_an_unreachable_cluster_is_reported_and_the_object_store_is_still_tested(tmp_path: Path) -> None:
    with socket.socket() as closed:  # bound, and not listening
        closed.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{closed.getsockname()[1]}"
        pool = PoolOptions(name="far", launcher="ray", options={"address": address})
        checks, is_well = await run_probe(pool, (tmp_path / "objects").as_uri())
    assert not is_well
    assert [(check.part, check.ok) for check in checks] == [("object store", True), ("launcher", False)]
    assert address in checks[1].message
    assert "network" in str(checks[1].fix)
    assert left(tmp_path) == []


def test_a_probe_counts_as_live_for_an_hour_and_the_launch_of_a_job_is_never_a_probe() -> None:
    [job], now = new_ids(1), time.time()
    assert is_live_probe(launch_name(job, PROBE_FENCE), now)
    assert not is_live_probe(launch_name(job, PROBE_FENCE), now + PROBE_WITHIN + 1)
    assert not is_live_probe(launch_name(job, 1), now)
    assert not is_live_probe("windlass-other", now)


async def run_probe(pool: PoolOptions, objects_url: str) -> tuple[list[ProbeCheck], bool]:
    checks: list[ProbeCheck] = []
    is_well = await probe(pool, objects_url, timeout=60.0, report=checks.append)
    return checks, is_well

"""Tests a pool: launches a small command on it, and reports part by part what works, what does not, and what to do.

The probe is launched like every step, but without a database: its specification, status and output are objects. A
worker of the same pool ignores it (`core.launches.is_live_probe`).
"""

import asyncio
import json
import secrets
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from windlass.core.ids import RANDOM_BYTES, uuid7
from windlass.core.launches import (
    OUTPUT,
    PROBE_FENCE,
    SPEC,
    STATUS,
    Cause,
    Phase,
    RemoteJob,
    TaskSpec,
    ended_without_status,
    launch_name,
    mailbox,
)
from windlass.effects.launchers import Launcher, LaunchRequest, PoolOptions, open_launcher, store_warning
from windlass.effects.objects import open_objects
from windlass.errors import Invalid, NotFound, Unavailable
from windlass.runtime.loops.loop import until

LOOK_EVERY = timedelta(seconds=0.5)
CLEAN_WITHIN, MARGIN = 30.0, 5.0  # seconds
MOST = 1024 * 1024  # maximum size of an object in bytes
LOG_LINES = 5
_INSTALL = "the job needs Python with Windlass installed (`python -m windlass.exec`), and must reach the object store"
_FOLDER = "a folder is on one machine, elsewhere use s3://, gs:// or az:// (WINDLASS_OBJECTS_URL)"
_WAIT = "look for the cause in the pool itself, or allow more time (--timeout)"
_FIXES = {
    Cause.IMAGE: "check the name of the image, and the credentials for its registry",
    Cause.UNSCHEDULABLE: "ask for fewer resources, or add nodes that have them",
    Cause.OUT_OF_MEMORY: "give the pool more memory: `resources: {memory: 1Gi}`",
}


@dataclass(frozen=True, slots=True)
class ProbeCheck:
    part: str
    ok: bool
    message: str
    fix: str | None = None


class ProbeFailure(Exception):
    def __init__(self, message: str, fix: str | None) -> None:
        super().__init__(message)
        self.fix = fix


async def probe(pool: PoolOptions, objects_url: str, *, timeout: float, report: Callable[[ProbeCheck], None]) -> bool:
    """Test a pool and report each part as soon as it is known; return whether all parts work.

    Raises `Invalid` if the pool is misconfigured. Removes everything that it created.
    """
    launcher = open_launcher(pool)
    try:
        return await Probe(pool, launcher, objects_url, timeout=timeout, report=report).run()
    finally:
        await launcher.close()


class Probe:
    def __init__(
        self,
        pool: PoolOptions,
        launcher: Launcher,
        objects_url: str,
        *,
        timeout: float,
        report: Callable[[ProbeCheck], None],
    ) -> None:
        self._pool = pool
        self._launcher = launcher
        self._objects_url = objects_url
        self._timeout = timeout
        self._deadline = time.monotonic() + timeout
        self._report = report
        self._token = secrets.token_hex(8)
        job = uuid7(time.time_ns(), secrets.token_bytes(RANDOM_BYTES))
        self._name = launch_name(job, PROBE_FENCE)
        self._mailbox = f"{mailbox(pool.name)}{self._name}/"
        self._seen: RemoteJob | None = None  # as the pool listed it last

    @property
    def _left(self) -> float:
        """Seconds left of the time limit."""
        return max(0.0, self._deadline - time.monotonic())

    async def run(self) -> bool:
        checks = [await self._part("object store", self._use_objects), await self._part("launcher", self._check)]
        if not all(checks):
            return False
        try:
            is_well = (
                await self._part("start", self._start)
                and await self._part("process", self._wait_for_status, within=self._left + MARGIN)
                and await self._part("output", self._read_output)
            )
        finally:
            is_clean = await self._part("removal", self._clean, within=CLEAN_WITHIN)
        return is_well and is_clean

    async def _part(self, name: str, act: Callable[[], Awaitable[str]], *, within: float | None = None) -> bool:
        seconds = self._left if within is None else within
        try:
            async with asyncio.timeout(seconds):
                check = ProbeCheck(name, True, await act())
        except ProbeFailure as failure:
            check = ProbeCheck(name, False, str(failure), failure.fix)
        except TimeoutError:
            check = ProbeCheck(name, False, f"no response within {seconds:.0f} s", "check address and network")
        except Exception as error:  # of any kind: errors are what the command reports
            check = ProbeCheck(name, False, str(error) or type(error).__name__)
        self._report(check)
        return check.ok

    async def _use_objects(self) -> str:
        """Write, read and remove an object."""
        fix = "check WINDLASS_OBJECTS_URL, and the credentials of the store in the environment"
        try:
            objects = open_objects(self._objects_url)
            key = f"{self._mailbox}probe"
            await objects.put(key, self._token.encode())
            data = await objects.get(key, most=MOST)
            await objects.delete([key])
        except (Invalid, NotFound, Unavailable) as error:
            raise ProbeFailure(str(error), fix) from None
        if data != self._token.encode():
            raise ProbeFailure("an object that was read is not the one that was written", fix)
        warning = store_warning(self._pool.launcher, self._objects_url)
        works = f"{self._objects_url}: an object was written, read and removed"
        return works if warning is None else f"{works}\nwarning: {warning.problem}: {warning.fix}"

    async def _check(self) -> str:
        try:
            await self._launcher.check()
        except (Invalid, Unavailable) as error:
            fix = "check the pool's options in WINDLASS_POOLS, network and permissions"
            raise ProbeFailure(str(error), fix) from None
        return f"{self._pool.launcher} answers, and allows what launches need"

    async def _start(self) -> str:
        objects = open_objects(self._objects_url)
        spec = TaskSpec(
            name=self._name,
            task_id=self._name,
            run_id=self._name,
            task_name="probe",
            workflow_name="probe",
            attempt=1,
            fence=PROBE_FENCE,
            parallel_index=0,
            parallel_count=1,
            executor="command",
            call={"run": f"echo '{json.dumps({'probe': self._token})}'"},
            mailbox=self._mailbox,
            timeout=self._timeout,
        )
        request = LaunchRequest(
            name=self._name,
            env={**self._pool.env, "WINDLASS_OBJECTS_URL": objects.url, "TASK_SPEC_PATH": self._mailbox + SPEC},
            image=self._pool.image,
            resources=self._pool.resources,
            deadline=self._timeout,
            labels={"pool": self._pool.name, "run": "probe", "step": "probe"},
        )
        await objects.put(self._mailbox + SPEC, spec.encode())
        try:
            await self._launcher.start(request)
        except (Invalid, Unavailable) as error:
            raise ProbeFailure(str(error), "check image, resources and permissions of the pool") from None
        return f"the pool accepted {self._name}"

    async def _wait_for_status(self) -> str:
        began = time.monotonic()
        try:
            async with asyncio.timeout(self._left):
                document = await self._final_status()
        except TimeoutError:
            raise late(self._seen, timeout=self._timeout, is_shared=self._is_shared) from None
        if document["state"] != "success":
            error = document.get("error") or {}
            raise ProbeFailure(f"the command failed: {error.get('message')}", "it needs a POSIX shell and `echo`")
        return f"it ran and wrote its status within {time.monotonic() - began:.1f} s"

    async def _final_status(self) -> dict[str, Any]:
        while True:
            # In this order: the status of a job that has ended is not missed.
            self._seen = await self._remote()
            data = await self._object(STATUS)
            status: dict[str, Any] | None = None if data is None else json.loads(data)
            if status is not None and status["state"] != "running":
                return status
            if self._seen is not None and self._seen.phase is Phase.ENDED:
                raise await self._ended(self._seen)
            await self._pause()

    async def _read_output(self) -> str:
        output = await self._object(OUTPUT)
        if output is None or json.loads(output) != {"probe": self._token}:
            raise ProbeFailure("the output in the object store is not that of the command", None)
        return "the output of the command was read"

    async def _clean(self) -> str:
        """Stop the job if it runs, and remove it and its objects."""
        while (remote := await self._remote()) is not None and remote.phase is not Phase.ENDED:
            await self._launcher.stop(self._name)
            await self._pause()
        await self._launcher.remove(self._name)
        objects = open_objects(self._objects_url)
        await objects.delete([meta.key for meta in await objects.list(self._mailbox)])
        return "the job and its objects were removed"

    async def _pause(self) -> None:
        await until(asyncio.Event(), LOOK_EVERY, wake=self._launcher.hint)

    async def _remote(self) -> RemoteJob | None:
        return next((job for job in await self._launcher.list() if job.name == self._name), None)

    async def _object(self, name: str) -> bytes | None:
        try:
            return await open_objects(self._objects_url).get(self._mailbox + name, most=MOST)
        except NotFound:
            return None

    async def _ended(self, remote: RemoteJob) -> ProbeFailure:
        lines = (await self._launcher.logs(self._name)).strip().splitlines()[-LOG_LINES:]
        message = str(ended_without_status(remote).error["message"])
        return ProbeFailure("\n".join([message, *lines]), fix_of(remote, is_shared=self._is_shared))

    @property
    def _is_shared(self) -> bool:
        """Whether jobs of the pool can reach the object store, as far as its URL shows."""
        return store_warning(self._pool.launcher, self._objects_url) is None


def late(remote: RemoteJob | None, *, timeout: float, is_shared: bool) -> ProbeFailure:
    """Return the failure of a job without a final status at the time limit; `remote` is the job as listed last."""
    within = f"within {timeout:g} s"
    if remote is None:
        return ProbeFailure(f"the pool did not list the job {within}", _WAIT)
    detail = f": {remote.detail}" if remote.detail else ""
    if remote.phase is Phase.WAITING:
        fix = _FIXES.get(remote.cause, _WAIT) if remote.cause else _WAIT
        return ProbeFailure(f"it did not start {within}{detail}", fix)
    return ProbeFailure(f"it runs, and did not end {within}{detail}", fix_of(remote, is_shared=is_shared))


def fix_of(remote: RemoteJob, *, is_shared: bool) -> str:
    """Return the remedy for a job that wrote no status."""
    if remote.cause in _FIXES:
        return _FIXES[remote.cause]
    return _INSTALL if is_shared else f"{_INSTALL}: {_FOLDER}"

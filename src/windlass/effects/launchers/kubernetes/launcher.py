"""Starts, lists and stops the Jobs of a pool.

The list is authoritative. A watch of jobs and pods runs concurrently and only sets `hint`: if it is refused or breaks
off, changes are merely seen later.
"""

import asyncio
import contextlib
import logging
import random
import time
from collections import defaultdict
from collections.abc import Awaitable, Sequence
from datetime import datetime
from importlib.util import find_spec
from typing import Any

from windlass.core.launches import Phase, RemoteJob
from windlass.effects.launchers import LaunchRequest, PoolOptions
from windlass.effects.launchers.kubernetes.api import Api, Refusal
from windlass.effects.launchers.kubernetes.manifests import (
    CONTAINER,
    LAUNCH,
    job_manifest,
    labels,
    secret_manifest,
)
from windlass.effects.launchers.kubernetes.options import KubernetesOptions, read_options
from windlass.effects.launchers.kubernetes.status import classify
from windlass.errors import Invalid, Unavailable, WindlassError

_log = logging.getLogger("windlass.launchers")

LIST_EVERY = 30.0  # seconds
HINT_AFTER = 0.05  # seconds
WATCH_AGAIN = 0.25  # seconds, doubled after each failure
WATCH_AGAIN_MOST = 30.0
LOG_LINES = 200
LOG_BYTES = 64 * 1024
PROBE = "windlass-check"
GUIDE = "docs/how-to/run-steps-on-kubernetes.md"


def open_launcher(pool: PoolOptions) -> "KubernetesLauncher":
    """Return the launcher of a pool; raise `Invalid` if its options are wrong. Connects at the first call."""
    options = read_options(pool)
    if find_spec("kubernetes_asyncio") is None:
        raise Invalid(
            f"pool {pool.name}: kubernetes-asyncio is not installed: pip install 'windlass[kubernetes]'",
            field="launcher",
        )
    return KubernetesLauncher(pool, options)


class KubernetesLauncher:
    def __init__(self, pool: PoolOptions, options: KubernetesOptions) -> None:
        self.hint = asyncio.Event()
        self.list_every = LIST_EVERY
        self._pool = pool
        self._options = options
        self._api = Api(pool.name, options)
        self._selector = ",".join(f"{key}={value}" for key, value in labels(pool, options).items())
        self._watches: list[asyncio.Task[None]] = []
        self._listing = 0.0  # seconds that the last list took
        self._hint_due: asyncio.TimerHandle | None = None

    async def start(self, request: LaunchRequest) -> None:
        job: dict[str, Any] | None = None
        try:
            job = await self._api.create("jobs", job_manifest(request, self._pool, self._options))
        except Refusal as refusal:
            if not _exists(refusal):
                raise self._error(refusal, "create jobs") from None
        if request.secret_env:
            await self._create_secret(request, job)

    async def list(self) -> Sequence[RemoteJob]:
        self._start_watches()
        started = time.monotonic()
        try:
            jobs = await self._api.list("jobs", self._selector)
            pods = await self._api.list("pods", self._selector)
        except Refusal as refusal:
            raise self._error(refusal, "list jobs and pods") from None
        self._listing = time.monotonic() - started
        pods_of: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
        for pod in pods.items:
            pods_of[pod["metadata"].get("labels", {}).get(LAUNCH, "")].append(pod)
        listed = [_read(job, pods_of.pop(job["metadata"]["name"], ()), pods.now) for job in jobs.items]
        # A Job that was deleted by hand is gone before its pod: the process may run for some seconds more.
        for name, remaining in pods_of.items():
            leaving = [pod for pod in remaining if "deletionTimestamp" in pod["metadata"]]
            job = _read({"metadata": {"name": name}}, leaving, pods.now)
            if leaving and job.phase is Phase.RUNNING:
                listed.append(job)
        return listed

    async def stop(self, name: str) -> None:
        await self._delete(name, propagation="Foreground")  # the Job is listed until its pod is gone

    async def remove(self, name: str) -> None:
        await self._delete(name, propagation="Background")

    async def logs(self, name: str) -> str:
        """Return the last output of a job, or the warnings of the cluster if its process did not start.

        A missing permission for the log is not raised: it would replace the failure that the log explains."""
        query = {"container": CONTAINER, "tailLines": str(LOG_LINES)}
        try:
            pods = await self._api.list("pods", f"{LAUNCH}={name}")
            for pod in sorted(pods.items, key=lambda pod: pod["metadata"].get("creationTimestamp", ""))[-1:]:
                text = await self._api.log(pod["metadata"]["name"], query)
                return text[-LOG_BYTES:].decode("utf-8", "replace")
        except Refusal as refusal:
            if refusal.status not in (400, 404):  # the container has not started, or the pod is gone
                return f"{self._error(refusal, 'get pods/log')}\n"
        return await self._warnings(name)

    async def _warnings(self, name: str) -> str:
        """Return the warning events of a job and its pod, which outlive both; "" if they cannot be read."""
        try:
            events = await self._api.list("events", "type=Warning", by="fieldSelector")
        except Refusal:
            return ""
        concerned = [
            event for event in events.items if f"{event['involvedObject'].get('name')}-".startswith(f"{name}-")
        ]
        return "".join(f"{event.get('reason')}: {event.get('message')}\n" for event in concerned)

    async def check(self) -> None:
        """Try each call that a launch needs, without changing anything; raise an error that names those not allowed."""
        request = LaunchRequest(name=PROBE, env={}, secret_env={"PROBE": "1"}, image=self._pool.image or "python")
        job = job_manifest(request, self._pool, self._options)
        secret = secret_manifest(request, self._pool, self._options, job_uid="00000000-0000-0000-0000-000000000000")
        probes: dict[str, Awaitable[object]] = {
            "list jobs": self._api.list("jobs", self._selector, first=1),
            "list pods": self._api.list("pods", self._selector, first=1),
            "create jobs": self._api.create("jobs", job, dry_run=True),
            "create secrets": self._api.create("secrets", secret, dry_run=True),
            "get jobs": self._api.get("jobs", PROBE),
            "delete jobs": self._api.delete("jobs", PROBE, propagation="Background", dry_run=True),
            "get pods/log": self._api.log(PROBE, {"tailLines": "1"}),
        }
        answers = await asyncio.gather(*probes.values(), return_exceptions=True)
        missing: dict[str, Refusal] = {}
        for permission, answer in zip(probes, answers, strict=True):
            if isinstance(answer, Refusal):
                if answer.status == 403 and not _is_temporary(answer):
                    missing[permission] = answer
                elif not _exists(answer) and (answer.status != 404 or permission.startswith("create")):
                    raise self._error(answer, permission) from None
            elif isinstance(answer, BaseException):
                raise answer
        if missing:
            raise self._not_allowed(", ".join(missing), next(iter(missing.values())))

    async def close(self) -> None:
        for watch in self._watches:
            watch.cancel()
        if self._hint_due is not None:
            self._hint_due.cancel()
        await asyncio.gather(*self._watches, return_exceptions=True)
        await self._api.close()

    async def _create_secret(self, request: LaunchRequest, job: dict[str, Any] | None) -> None:
        """Create the Secret of a Job, whose pod waits for it. An earlier `start` may have failed between the two."""
        try:
            job = job or await self._api.get("jobs", request.name)
        except Refusal as refusal:
            if refusal.status == 404:
                raise Unavailable(f"pool {self._pool.name}: job {request.name} was deleted while it started") from None
            raise self._error(refusal, "get jobs") from None
        if "deletionTimestamp" in job["metadata"]:
            return
        try:
            await self._api.create(
                "secrets", secret_manifest(request, self._pool, self._options, job_uid=job["metadata"]["uid"])
            )
        except Refusal as refusal:
            if _exists(refusal):
                return
            error = self._error(refusal, "create secrets")
            if isinstance(error, Invalid):
                await self.remove(request.name)  # its pod would wait for the Secret for ever
            raise error from None

    async def _delete(self, name: str, *, propagation: str) -> None:
        try:
            await self._api.delete("jobs", name, propagation=propagation)
        except Refusal as refusal:
            if refusal.status != 404:
                raise self._error(refusal, "delete jobs") from None

    # Errors

    def _error(self, refusal: Refusal, permission: str) -> WindlassError:
        """Return the error to raise for an error response of the API."""
        prefix = f"pool {self._pool.name}: "
        if _is_temporary(refusal):
            return Unavailable(f"{prefix}{refusal.message}")
        if refusal.status == 403:
            return self._not_allowed(permission, refusal)
        if refusal.status == 404:
            return Invalid(
                f"{prefix}{refusal.message}; create namespace {self._options.namespace}, or change `namespace`",
                field="namespace",
            )
        if refusal.status in (400, 422):
            return Invalid(f"{prefix}the cluster refuses the job: {refusal.message}; correct the step or the pool")
        return Unavailable(f"{prefix}the cluster answers {refusal.status}: {refusal.message}")

    def _not_allowed(self, permissions: str, refusal: Refusal) -> Invalid:
        return Invalid(
            f"pool {self._pool.name}: not allowed to {permissions} in namespace {self._options.namespace}:"
            f" {refusal.message}; apply the role of {GUIDE}"
        )

    # The watch

    def _start_watches(self) -> None:
        if not self._watches:
            self._watches = [asyncio.create_task(self._watch(resource)) for resource in ("jobs", "pods")]

    def _set_hint_soon(self) -> None:
        """Set `hint` once for all changes within a delay, which grows with the duration of a list."""
        if self._hint_due is None:
            delay = max(HINT_AFTER, 5 * self._listing)
            self._hint_due = asyncio.get_running_loop().call_later(delay, self._set_hint)

    def _set_hint(self) -> None:
        self._hint_due = None
        self.hint.set()

    async def _watch(self, resource: str) -> None:
        """Set `hint` at each change. The watch is restarted with a list if it breaks off or its version is too old."""
        delay = WATCH_AGAIN
        version: str | None = None
        while True:
            try:
                if version is None:
                    version = (await self._api.list(resource, self._selector, first=1)).version
                    self._set_hint_soon()
                async with contextlib.aclosing(self._api.watch(resource, self._selector, version)) as events:
                    async for event in events:
                        delay, version = WATCH_AGAIN, event.version
                        if event.kind != "BOOKMARK":
                            self._set_hint_soon()
                # The API ends each watch after some minutes; the next one continues from the last version.
            except (Refusal, WindlassError) as error:
                _log.debug("pool %s: the watch of %s is restarted: %s", self._pool.name, resource, error)
                version, delay = None, min(delay * 2, WATCH_AGAIN_MOST)
            except Exception:
                _log.exception("pool %s: the watch of %s failed", self._pool.name, resource)
                version, delay = None, min(delay * 2, WATCH_AGAIN_MOST)
            await asyncio.sleep(delay * random.uniform(0.5, 1.0))


def _read(job: dict[str, Any], pods: Sequence[dict[str, Any]], now: datetime) -> RemoteJob:
    """Return the state of a job. A state that cannot be read counts as running, so that the other jobs are listed: the
    heartbeat decides."""
    try:
        return classify(job, pods, now=now)
    except Exception as error:
        _log.exception("the state of job %s cannot be read", job["metadata"]["name"])
        return RemoteJob(job["metadata"]["name"], Phase.RUNNING, detail=f"its state cannot be read: {error!r}")


def _exists(refusal: Refusal) -> bool:
    return refusal.status == 409 and refusal.reason == "AlreadyExists"  # a 409 may also be a conflict over a quota


def _is_temporary(refusal: Refusal) -> bool:
    """Return whether a 403 is due to a quota. The API gives the same reason as for a missing permission."""
    return refusal.status == 403 and "exceeded quota" in refusal.message

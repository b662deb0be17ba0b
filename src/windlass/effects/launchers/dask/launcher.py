"""Starts, lists and stops the tasks of a pool on a Dask cluster."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from windlass.core.launches import Cause, Phase, RemoteJob, parse_name
from windlass.effects.launchers import LaunchRequest, PoolOptions
from windlass.effects.launchers.dask import remote
from windlass.errors import Invalid, Unavailable

CONNECT_WITHIN = 5.0  # seconds
ANSWER_WITHIN = 30.0
GRACE = 8.0  # seconds between SIGTERM and SIGKILL


@dataclass(frozen=True, slots=True, kw_only=True)
class DaskOptions:
    address: str
    instance: str = "windlass"  # set by workers: installations that share a cluster need different ones
    command: Sequence[str] | None = None
    worker_resources: Mapping[str, float] = field(default_factory=dict)  # as for `dask worker --resources`


def open_launcher(pool: PoolOptions) -> "DaskLauncher":
    """Return the launcher of a pool; raise `Invalid` if its options are wrong. Connects at the first call."""
    options = _read_options(pool)
    if find_spec("distributed") is None:
        raise Invalid(f"pool {pool.name}: distributed is not installed: pip install 'windlass[dask]'", field="launcher")
    import_module("cloudpickle").register_pickle_by_value(remote)
    return DaskLauncher(pool, options)


def _read_options(pool: PoolOptions) -> DaskOptions:
    names = DaskOptions.__dataclass_fields__
    for name in pool.options:
        if name not in names:
            message = f"pool {pool.name} has the unknown option {name!r}: a Dask pool has {', '.join(names)}"
            raise Invalid(message, field=name)
    options = DaskOptions(**{"address": None, **pool.options})
    if not isinstance(options.address, str) or "://" not in options.address:
        raise Invalid(
            f"pool {pool.name}: address is {options.address!r}: it must be that of the scheduler, such as"
            " tcp://dask:8786",
            field="address",
        )
    resources = options.worker_resources
    if not isinstance(resources, Mapping) or not all(isinstance(amount, int | float) for amount in resources.values()):
        raise Invalid(
            f"pool {pool.name}: worker_resources is {resources!r}: it must be an object of numbers, such as GPU: 1",
            field="worker_resources",
        )
    return options


class DaskLauncher:
    list_every = 5.0

    def __init__(self, pool: PoolOptions, options: DaskOptions) -> None:
        self.hint = asyncio.Event()
        self._pool = pool
        self._options = options
        self._prefix = self._topic = f"{options.instance}:{pool.name}:"
        self._client: Any = None  # distributed.Client
        self._connecting = asyncio.Lock()
        self._futures: dict[str, Any] = {}  # while they are held, the scheduler keeps the reason of a failure
        self._stopping: dict[str, float] = {}  # name -> time of the first stop

    async def start(self, request: LaunchRequest) -> None:
        key = self._prefix + request.name
        async with self._connected() as client:
            if await client.run_on_scheduler(remote.accepted, key):
                return
            future = client.submit(
                remote.run,
                key,
                self._topic,
                self._options.command,
                remote.Environment(
                    {**self._pool.env, **request.env, **request.secret_env, remote.MARKER: request.name}
                ),
                request.deadline,
                key=key,
                pure=False,
                resources=self._resources(request) or None,
            )
            # Sent in the same message as the task, so that the job outlives this process from the beginning.
            import_module("distributed").fire_and_forget(future)
            self._futures[request.name] = future
            pause = 0.01
            while not await client.run_on_scheduler(remote.accepted, key):
                await asyncio.sleep(pause)  # the task was sent on another connection
                pause = min(pause * 2, 0.5)

    async def list(self) -> Sequence[RemoteJob]:
        async with self._connected() as client:
            rows = await client.run_on_scheduler(remote.snapshot, self._prefix)
        jobs = [_remote_job(row["key"].removeprefix(self._prefix), row) for row in rows]
        return [job for job in jobs if parse_name(job.name) is not None]

    async def stop(self, name: str) -> None:
        if parse_name(name) is None:
            return
        key, now = self._prefix + name, time.monotonic()
        async with self._connected() as client:
            worker = await client.run_on_scheduler(remote.withdraw, key)
            if worker is None:
                return
            hard = now - self._stopping.setdefault(name, now) >= GRACE
            await client.run(remote.kill, key, hard, workers=[worker], on_error="ignore")

    async def remove(self, name: str) -> None:
        async with self._connected() as client:
            await client.run_on_scheduler(remote.forget, self._prefix + name)
        self._stopping.pop(name, None)
        if (future := self._futures.pop(name, None)) is not None:
            future.release()

    async def logs(self, name: str) -> str:
        async with self._connected() as client:
            return str(await client.run_on_scheduler(remote.log_of, self._prefix + name))

    async def check(self) -> None:
        async with self._connected() as client:
            workers = (await client.scheduler.identity(n_workers=-1))["workers"]
        if not workers:
            raise Unavailable(f"pool {self._pool.name}: the Dask cluster at {self._options.address} has no workers")
        for name in self._options.worker_resources:
            if not any(name in worker["resources"] for worker in workers.values()):
                raise Unavailable(
                    f"pool {self._pool.name}: no Dask worker has the resource {name}: start them with --resources"
                )

    async def close(self) -> None:
        client, self._client = self._client, None
        self._futures.clear()
        if client is not None:
            await client.close()

    def _resources(self, request: LaunchRequest) -> dict[str, float]:
        gpu = {} if request.resources.gpu is None else {"GPU": request.resources.gpu}
        return {**self._options.worker_resources, **gpu}

    @contextlib.asynccontextmanager
    async def _connected(self) -> AsyncIterator[Any]:
        """Yield a connected client; raise `Unavailable` if the scheduler does not answer."""
        at = f"pool {self._pool.name}: the Dask scheduler at {self._options.address}"
        try:
            client = await self._connection()
        except (OSError, TimeoutError, ValueError) as error:
            reason = str(error) or f"no connection within {CONNECT_WITHIN:g} s"
            raise Unavailable(f"{at} cannot be reached: {reason}") from error
        try:
            async with asyncio.timeout(ANSWER_WITHIN):
                yield client
        except TimeoutError as error:
            raise Unavailable(f"{at} does not answer") from error
        except OSError as error:
            raise Unavailable(f"{at} cannot be reached: {error}") from error

    async def _connection(self) -> Any:
        async with self._connecting:
            if self._client is not None and self._client.status == "running":
                return self._client
            await self.close()
            client: Any = import_module("distributed").Client(
                self._options.address,
                asynchronous=True,
                timeout=CONNECT_WITHIN,
                set_as_default=False,
                name="windlass",
            )
            try:
                await client
            except BaseException:
                await client.close()
                raise
            client.subscribe_topic(self._topic, lambda _: self.hint.set())
            self._client = client
            return client


def _remote_job(name: str, row: Mapping[str, Any]) -> RemoteJob:
    end = row["end"]
    if end is not None:
        code = end["code"]
        cause = Cause.DEADLINE if end["detail"].startswith("deadline") else Cause.EXITED
        detail = end["detail"] or (f"exit code {code}" if code >= 0 else f"killed by signal {-code}")
        return RemoteJob(name, Phase.ENDED, cause, detail, code)
    if row["worker"] is None:
        return _unclaimed(name, row)
    if row["is_lost"]:
        return RemoteJob(name, Phase.ENDED, Cause.NODE_LOST, f"the Dask worker {row['worker']} left the cluster")
    return RemoteJob(name, Phase.RUNNING)


def _unclaimed(name: str, row: Mapping[str, Any]) -> RemoteJob:
    """Return the state of a task that no worker has claimed, with the scheduler's reason."""
    match row["state"]:
        case "erred":
            return RemoteJob(name, Phase.ENDED, Cause.EXITED, f"the task failed: {row['error']}")
        case None:
            return RemoteJob(name, Phase.ENDED, Cause.EXITED, "the scheduler has dropped the task: see its log")
        case "no-worker":
            needs = ", ".join(f"{name}={amount:g}" for name, amount in (row["resources"] or {}).items())
            detail = f"no Dask worker has {needs}" if needs else "the cluster has no workers"
            return RemoteJob(name, Phase.WAITING, Cause.UNSCHEDULABLE, detail)
        case _:
            return RemoteJob(name, Phase.WAITING)

"""A pool in one process: runs its worker while the process holds the pool's leader term, and performs its attempts."""

import asyncio
import logging
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from windlass.core.jobs.job import Failed, Outcome
from windlass.core.launches import STOPPED, SUBPROCESS, Limits, pool_queue
from windlass.core.workflows.step_payload import COMMAND_TYPE
from windlass.effects import secrets
from windlass.effects.context import Context
from windlass.effects.handlers import Handler, Handlers
from windlass.effects.launchers import SHARED, Launcher, PoolOptions, open_launcher, store_warning
from windlass.effects.objects import Objects
from windlass.engine import pools as pool_rows
from windlass.engine.database import Database
from windlass.errors import Invalid, Unavailable
from windlass.runtime.loops.loop import LeaderTerm, run_periodically, until
from windlass.runtime.loops.upkeep import UpkeepOptions
from windlass.runtime.pools.launches import Launches
from windlass.runtime.pools.request import Requests
from windlass.runtime.worker import WorkerOptions
from windlass.runtime.worker.worker import Worker

LEASE = timedelta(minutes=5)  # after which the jobs of a pool without a process are released
TICK = timedelta(seconds=1)
CHECK_EVERY, CHECK_WITHIN = 15.0, 5.0  # seconds
_log = logging.getLogger("windlass.pools")


def offered(configured: Sequence[PoolOptions], *, home: Path, allow_commands: bool) -> Iterator[PoolOptions]:
    """Yield the pools of a process: those it is configured with, and `subprocess` if commands are allowed."""
    if allow_commands and not any(pool.name == SUBPROCESS for pool in configured):
        configured = [*configured, PoolOptions(name=SUBPROCESS, launcher=SUBPROCESS)]
    for pool in configured:
        if pool.launcher != SUBPROCESS:
            yield pool
        elif allow_commands:
            yield replace(pool, options={"folder": str(home / "pools" / pool.name), **pool.options})
        else:
            raise Invalid(f"pool {pool.name} runs commands on this machine: use --allow-commands", field="launcher")


async def open_pools(
    db: Database, configured: Sequence[PoolOptions], *, home: Path, allow_commands: bool, app: str | None
) -> list["Pool"]:
    """Open the pools that a process is configured with, and `subprocess` if commands are allowed.

    Raises `Invalid` if a pool is misconfigured. A pool that cannot be used is opened, too, and reports the problem.
    """
    chosen = list(offered(configured, home=home, allow_commands=allow_commands))
    if any(options.launcher in SHARED for options in chosen):
        instance = await pool_rows.instance(db)
        chosen = [with_instance(options, instance) for options in chosen]
    for options in chosen:
        if (warning := store_warning(options.launcher, db.objects().url)) is not None:
            _log.warning("pool %s: %s: %s", options.name, *warning)
    pools = [Pool(db, options, launcher=open_launcher(options), objects=db.objects(), app=app) for options in chosen]
    offers = [(each.name, each.launcher, each.max_parallel, each.image) for each in (pool.options for pool in pools)]
    await pool_rows.offer(db, offers)
    return pools


def with_instance(pool: PoolOptions, instance: str) -> PoolOptions:
    """Return the options of a pool with `instance`, which marks its jobs on a shared cluster, unless it is set."""
    return replace(pool, options={"instance": instance, **pool.options}) if pool.launcher in SHARED else pool


def worker_id(pool: str) -> str:
    return f"pool:{pool}"


class Pool:
    def __init__(
        self,
        db: Database,
        options: PoolOptions,
        *,
        launcher: Launcher,
        objects: Objects,
        app: str | None = None,
        limits: Limits | None = None,
    ) -> None:
        self.options = options
        self._db = db
        self.launcher = launcher
        limits = limits or Limits(start_within=options.start_within, heartbeat_within=options.heartbeat_within)
        self._requests = Requests(pool=options, objects_url=objects.url, app=app, limits=limits)
        self._launches = Launches(
            db, options.name, worker=worker_id(options.name), launcher=launcher, objects=objects, limits=limits
        )

    async def run(self, stop: asyncio.Event, *, holder: str, term: timedelta = UpkeepOptions.term) -> None:
        """Run the pool's worker whenever this process holds the leader term, until `stop`."""
        leader = LeaderTerm(self._db, f"pool {self.options.name}", holder, length=term)
        try:
            while not stop.is_set():
                try:
                    if await leader.held():
                        await self._lead(leader, stop, holder=holder, every=term / 4)
                except Unavailable as error:
                    _log.warning("pool %s: %s; trying again", self.options.name, error)
                except Exception:  # of any kind: the other pools and the worker of this process continue
                    _log.exception("pool %s failed: trying again", self.options.name)
                await until(stop, TICK)
            await leader.resign()
        finally:
            await self.launcher.close()

    async def _lead(self, leader: LeaderTerm, stop: asyncio.Event, *, holder: str, every: timedelta) -> None:
        """Run the worker until `stop`, or until another process has the term."""
        over = asyncio.Event()
        worker = Worker(self._db, self._handlers(), self._worker_options())

        async def watch_term() -> None:
            check_at = time.monotonic()
            while not stop.is_set():
                try:
                    if not await leader.held():
                        break
                    if time.monotonic() >= check_at:
                        check_at = time.monotonic() + CHECK_EVERY
                        problem = await self._problem()
                        await pool_rows.report(self._db, self.options.name, holder=holder, problem=problem)
                except Unavailable as error:  # no other process can take the term: continue
                    _log.debug("pool %s: %s", self.options.name, error)
                await until(stop, every)
            over.set()

        async with asyncio.TaskGroup() as group:
            group.create_task(watch_term())
            group.create_task(worker.run(over), name=f"windlass-pool-{self.options.name}")
            group.create_task(run_periodically(self._launches.tick, every=TICK, stop=over, wake=self._launches.wake))
            group.create_task(self._launches.follow_hints(over))
        await self._launches.end_tasks()

    async def _problem(self) -> str | None:
        """Return why the pool cannot be used; None if it can."""
        try:
            async with asyncio.timeout(CHECK_WITHIN):
                await self.launcher.check()
        except TimeoutError:
            return "it does not answer"
        except Exception as error:
            return str(error)
        return None

    def _worker_options(self) -> WorkerOptions:
        return WorkerOptions(
            id=worker_id(self.options.name),
            queues=(pool_queue(self.options.name),),
            concurrency=self.options.max_parallel,
            lease=LEASE,
            is_handed_over=True,
        )

    def _handlers(self) -> Handlers:
        handlers = Handlers()
        for type_ in (COMMAND_TYPE, "%"):
            handlers.add(Handler.of(type_, self._perform, is_detached=True))
        return handlers

    async def _perform(self, ctx: Context, payload: Any) -> Outcome:
        """Launch a job and wait for its end. A cancelled attempt ends when the launched job is gone."""
        prepared = await self._requests.prepare(ctx, payload)
        if isinstance(prepared, Failed):
            return prepared
        tracked = self._launches.add(ctx, *prepared)
        try:
            return secrets.masked(ctx, await asyncio.shield(tracked.ended))
        except asyncio.CancelledError:
            if not ctx._detached:
                self._launches.stop(tracked, Failed({"type": STOPPED, "message": "stopped"}))
                await tracked.ended
            raise
        finally:
            self._launches.forget(tracked, detached=ctx._detached)

"""Pools: executes steps that run elsewhere, as jobs that a launcher starts.

A pool is a worker whose id, `pool:NAME`, belongs to the pool instead of to a process. Of the processes that are
configured with a pool, one at a time holds its leader term and is that worker. If it ends, the next one takes over the
leases with the id, and finds what was started by the names of the launches, which contain the fence. No launched job
ends because its worker did.

Every claimed job becomes a `Launch`. A tick lists what the pool and the mailbox (the objects that launched processes
write) show, and does what `core.launches.next_command` says for each launch. Hints only shorten the wait for a tick.

What is neither known here nor leased to the pool is a stray: its lease was lost, or its job was cancelled, while no
process had the pool. Strays are stopped and removed.
"""

import asyncio
import json
import logging
import time
from collections.abc import Awaitable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

from windlass.core.artifacts import MAX_OUTPUT
from windlass.core.jobs.job import Failed, Outcome, Succeeded
from windlass.core.json_value import encode, parse
from windlass.core.launches import (
    HEARTBEAT,
    OUTPUT,
    SECRETS,
    SPEC,
    STATUS,
    STOP,
    STOPPED,
    SUBPROCESS,
    Command,
    Finish,
    Launch,
    Limits,
    Phase,
    RemoteJob,
    Start,
    Status,
    Stop,
    TaskSpec,
    View,
    is_live_probe,
    launch_name,
    log_chunk,
    mailbox,
    next_command,
    parse_name,
    pool_queue,
    shown_state,
)
from windlass.core.workflows.step import CommandAction, JobAction, Placement
from windlass.core.workflows.step_payload import COMMAND_TYPE
from windlass.effects import secrets
from windlass.effects.context import Context
from windlass.effects.handlers import Handler, Handlers
from windlass.effects.launchers import Launcher, LaunchRequest, PoolOptions, Resources, open_launcher
from windlass.effects.objects import ObjectMeta, Objects
from windlass.effects.outcomes import failed
from windlass.engine import pools as pool_rows
from windlass.engine.database import Database
from windlass.engine.faults import point
from windlass.engine.workers import turn
from windlass.errors import Invalid, NotFound, Unavailable
from windlass.runtime import launched_artifacts
from windlass.runtime.loops.loop import LeaderTerm, run_periodically, until
from windlass.runtime.loops.upkeep import UpkeepOptions
from windlass.runtime.worker import WorkerOptions
from windlass.runtime.worker.worker import Worker

LEASE = timedelta(minutes=5)  # after which the jobs of a pool without any process are given up
TICK = timedelta(seconds=1)
SOON = timedelta(milliseconds=50)
STRAYS_EVERY = 30.0  # seconds
LIST_AGAIN = 1.0  # seconds after a list that failed
DETACH_WITHIN = 5.0  # seconds for operations in progress when the worker stops
CHECK_EVERY, CHECK_WITHIN = 15.0, 5.0  # seconds
AT_ONCE = 32  # operations of the launcher and the object store
MAX_CHUNK = 8 * 1024 * 1024
MAX_STATUS = 1024 * 1024
T = TypeVar("T")
_log = logging.getLogger("windlass.pools")


@dataclass(slots=True, eq=False)
class Tracked:
    """A launch of this worker, with the attempt that waits for it."""

    launch: Launch
    context: Context
    request: LaunchRequest
    spec: TaskSpec
    ended: asyncio.Future[Outcome]
    status: Status | None = None
    document: Mapping[str, Any] = field(default_factory=dict)  # of the status
    status_version: str | None = None
    chunks: int = 0  # of log lines that were read
    shown: str = ""  # its state, as progress of the job


def offered(configured: Sequence[PoolOptions], *, home: Path, allow_commands: bool) -> Iterator[PoolOptions]:
    """Yield the pools of a process: those it is configured with, and `subprocess` where commands are allowed."""
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
    """Open the pools that a process is configured with, and `subprocess` where commands are allowed.

    Raises `Invalid` if one is wrongly configured. One that cannot be used is open, and shows its problem.
    """
    pools = [
        Pool(db, options, launcher=open_launcher(options), objects=db.objects(), app=app)
        for options in offered(configured, home=home, allow_commands=allow_commands)
    ]
    offers = [(each.name, each.launcher, each.max_parallel, each.image) for each in (pool.options for pool in pools)]
    await pool_rows.offer(db, offers)
    return pools


class Pool:
    """A pool in one process."""

    def __init__(
        self,
        db: Database,
        options: PoolOptions,
        *,
        launcher: Launcher,
        objects: Objects,
        app: str | None = None,
    ) -> None:
        self.options = options
        self._db = db
        self._launcher = launcher
        self._objects = objects
        self._app = app  # "module:app", which has the handlers of `job` steps
        self._limits = Limits(start_within=options.start_within, heartbeat_within=options.heartbeat_within)
        self._tracked: dict[str, Tracked] = {}
        self._ended: set[str] = set()  # launches whose outcome is being recorded
        self._remote: dict[str, RemoteJob] = {}
        self._listed_at: float | None = None
        self._listing: asyncio.Task[None] | None = None
        self._list_due, self._list_tried_at = True, 0.0
        self._strays_at = 0.0
        self._slots = asyncio.Semaphore(AT_ONCE)
        self._wake = asyncio.Event()
        self._tasks: dict[str, asyncio.Task[bool]] = {}  # by launch: one operation at a time
        self._worker_id = f"pool:{options.name}"

    # The life of the pool in this process

    async def run(self, stop: asyncio.Event, *, holder: str, term: timedelta = UpkeepOptions.term) -> None:
        """Be the pool's worker whenever no other process is, until `stop`."""
        leader = LeaderTerm(self._db, f"pool {self.options.name}", holder, length=term)
        try:
            while not stop.is_set():
                try:
                    if await leader.held():
                        await self._lead(leader, stop, holder=holder, every=term / 4)
                except Unavailable as error:
                    _log.warning("pool %s: %s; trying again", self.options.name, error)
                except Exception:  # of any kind: the other pools and the worker of this process go on
                    _log.exception("pool %s failed: trying again", self.options.name)
                await until(stop, TICK)
            await leader.resign()
        finally:
            await self._launcher.close()

    async def _lead(self, leader: LeaderTerm, stop: asyncio.Event, *, holder: str, every: timedelta) -> None:
        """Work until `stop`, or until another process has the term."""
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
                except Unavailable as error:  # no other process can take the term: go on
                    _log.debug("pool %s: %s", self.options.name, error)
                await until(stop, every)
            over.set()

        async with asyncio.TaskGroup() as group:
            group.create_task(watch_term())
            group.create_task(worker.run(over), name=f"windlass-pool-{self.options.name}")
            group.create_task(run_periodically(self.tick, every=TICK, stop=over, wake=self._wake))
            group.create_task(self._follow_hints(over))
        await self._end_tasks()

    async def _follow_hints(self, over: asyncio.Event) -> None:
        while not over.is_set():
            await until(over, timedelta(hours=1), wake=self._launcher.hint)
            self._list_due = True
            self._wake.set()

    async def _problem(self) -> str | None:
        """Return why the pool cannot be used."""
        try:
            await asyncio.wait_for(self._launcher.check(), CHECK_WITHIN)
        except TimeoutError:
            return "it does not answer"
        except Exception as error:
            return str(error)
        return None

    def _worker_options(self) -> WorkerOptions:
        return WorkerOptions(
            id=self._worker_id,
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

    # An attempt

    async def _perform(self, ctx: Context, payload: Any) -> Outcome:
        """Launch a job and wait for its end. A cancelled attempt ends when the launched job is gone."""
        try:
            tracked = await self._prepare(ctx, payload)
        except Invalid as error:
            return failed(error, retryable=False, trace=False)
        if isinstance(tracked, Failed):
            return tracked
        name = tracked.launch.name
        self._tracked[name] = tracked
        self._wake.set()
        try:
            return secrets.masked(ctx, await asyncio.shield(tracked.ended))
        except asyncio.CancelledError:
            if ctx._detached:
                raise
            tracked.launch.stopped_for = Failed({"type": STOPPED, "message": "stopped"})
            self._wake.set()
            await tracked.ended
            raise
        finally:
            self._tracked.pop(name, None)
            if not ctx._detached:
                self._ended.add(name)
                self._wake.set()

    async def _prepare(self, ctx: Context, payload: Any) -> Tracked | Failed:
        action = ctx._action
        if not isinstance(action, CommandAction | JobAction) or action.placement.runs_on != self.options.name:
            message = f"the queue {ctx.queue} is for steps with runs_on: {self.options.name}, and this job is not one"
            return Failed({"type": "Reserved", "message": message}, retryable=False)
        call, hidden, input_ = await self._call(ctx, action, payload)
        if isinstance(call, Failed):
            return call
        name = launch_name(ctx.id, ctx.fence)
        spec = TaskSpec(
            name=name,
            task_id=str(ctx.id),
            run_id=str(ctx.run_id),
            task_name=ctx.step_name or "",
            workflow_name=ctx.workflow or "",
            attempt=ctx.attempt,
            fence=ctx.fence,
            parallel_index=ctx.index or 0,
            parallel_count=1 if ctx.count is None else ctx.count,
            executor="command" if isinstance(action, CommandAction) else "python",
            call=call,
            mailbox=f"{mailbox(self.options.name)}{name}/",
            input=input_,
            upstream=dict(ctx.upstream),
            artifacts=await launched_artifacts.readable(ctx, input_),
            timeout=None if ctx.timeout is None else ctx.timeout.total_seconds(),
        )
        launch = Launch(name=name, since=time.monotonic(), timeout=ctx.timeout)
        request = self._request(spec, action.placement, hidden)
        return Tracked(launch, ctx, request, spec, asyncio.get_running_loop().create_future())

    async def _call(
        self, ctx: Context, action: CommandAction | JobAction, payload: Any
    ) -> tuple[dict[str, Any] | Failed, dict[str, Any], Any]:
        """Return what the executor calls, the part of it with values of secrets, and the input."""
        env = {"env": sorted({*self.options.env, *action.placement.env})}
        if isinstance(action, JobAction):
            if self._app is None:
                message = "this pool's process has no app: start it with `windlass worker MODULE:APP`"
                return Failed({"type": "NoApp", "message": message}, retryable=False), {}, None
            return {"app": self._app, "type": ctx.type} | env, {}, payload
        revealed = await secrets.reveal(ctx, payload)
        if isinstance(revealed, Failed):
            return revealed, {}, None
        call = {"run": revealed["run"], "values": revealed.get("values", {})}
        if ctx._redaction is None:
            return call | env, {}, revealed["input"]
        return env, call, revealed["input"]

    def _request(self, spec: TaskSpec, placement: Placement, hidden: Mapping[str, Any]) -> LaunchRequest:
        env = {
            "WINDLASS_OBJECTS_URL": self._objects.url,
            "TASK_SPEC_PATH": spec.mailbox + SPEC,
            **self.options.env,
            **placement.env,
        }
        resources = Resources(**placement.resources) if placement.resources else self.options.resources  # type: ignore[arg-type]
        return LaunchRequest(
            name=spec.name,
            env=env,
            secret_env={SECRETS: json.dumps(hidden)} if hidden else {},
            image=placement.image or self.options.image,
            resources=resources,
            deadline=None if spec.timeout is None else spec.timeout + self._limits.margin + self._limits.start_within,
            labels={"pool": self.options.name, "run": spec.run_id, "step": spec.task_name},
        )

    # Ticks

    async def tick(self) -> timedelta | None:
        """Look at the pool and the mailbox, and do what is due about every launch."""
        started = time.monotonic()
        if not self._tracked and not self._ended and started < self._strays_at:
            return None
        if self._list_due or started - self._list_tried_at >= self._launcher.list_every:
            self._list_soon()
        mail = _by_launch(await self._objects.list(mailbox(self.options.name)), mailbox(self.options.name))
        for tracked in list(self._tracked.values()):
            received = mail.get(tracked.launch.name, {})
            if tracked.launch.name not in self._tasks and self._is_due(tracked, received):
                self._attend_soon(tracked, received)
        names = set(self._ended)
        if started >= self._strays_at:
            self._strays_at = started + STRAYS_EVERY
            names.update(self._remote, mail)
        await self._remove_unleased(names)
        return SOON if self._ended else None

    def _list_soon(self) -> None:
        """List the pool in a task of its own: while it does not answer, what the launches report is read all the same.

        The mailbox is listed in the tick after it, so that no end is seen before its status.
        """
        if self._listing is None:
            self._list_due, self._list_tried_at = False, time.monotonic()
            self._listing = asyncio.create_task(self._list(), name=f"windlass-list-{self.options.name}")

    async def _list(self) -> None:
        started = time.monotonic()
        try:
            self._remote = {job.name: job for job in await self._launcher.list()}
            self._listed_at = started
        except Exception as error:
            self._remote, self._listed_at, self._list_due = {}, None, True
            _log.warning("pool %s cannot be listed: %s; trying again", self.options.name, error)
            await asyncio.sleep(LIST_AGAIN)
        finally:
            self._listing = None
            self._wake.set()

    def _is_due(self, tracked: Tracked, mail: Mapping[str, ObjectMeta]) -> bool:
        """Take note of the heartbeat; return whether there is anything else to read or to do. Most launches just run:
        this is all that a tick costs for them."""
        launch = tracked.launch
        if (beat := mail.get(HEARTBEAT)) and beat.version != launch.heartbeat:
            launch.heartbeat, launch.heard_at = beat.version, time.monotonic()
        status = mail.get(STATUS)
        is_new = status is not None and status.version != tracked.status_version
        try:
            self._show(tracked)
            return is_new or log_chunk(tracked.chunks + 1) in mail or self._next(tracked) is not None
        except Exception:  # `_attend` meets it again, and gives up this launch alone
            return True

    def _show(self, tracked: Tracked) -> None:
        """Report where the launch is as the progress of its job, whenever that changes."""
        state = shown_state(tracked.launch, self._view(tracked), self._limits, self.options.name)
        if state != tracked.shown:
            tracked.shown = state
            tracked.context.progress(0.0, state)

    def _next(self, tracked: Tracked) -> Command | None:
        return next_command(tracked.launch, self._view(tracked), self._limits)

    def _attend_soon(self, tracked: Tracked, mail: Mapping[str, ObjectMeta]) -> None:
        """Attend to a launch in a task of its own: a slow operation delays no other launch and no tick."""
        name = tracked.launch.name
        task = asyncio.create_task(self._attend(tracked, mail), name=f"windlass-{name}")
        self._tasks[name] = task
        task.add_done_callback(lambda ended: self._attended(name, ended))

    def _attended(self, name: str, task: asyncio.Task[bool]) -> None:
        del self._tasks[name]
        if not task.cancelled() and task.result():
            self._wake.set()

    async def _end_tasks(self) -> None:
        """Let operations in progress end, but not wait for them for long."""
        if self._listing is not None:
            self._listing.cancel()
            await asyncio.gather(self._listing, return_exceptions=True)
        if self._tasks:
            await asyncio.wait(self._tasks.values(), timeout=DETACH_WITHIN)
        for task in list(self._tasks.values()):
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    async def _attend(self, tracked: Tracked, mail: Mapping[str, ObjectMeta]) -> bool:
        """Read what is new about a launch, and do what is due; return whether something was done.

        An error that nobody foresaw ends this attempt, not the others.
        """
        launch = tracked.launch
        try:
            await self._read_mail(tracked, mail)
            command = self._next(tracked)
            if command is None or tracked.ended.done():
                return False
            match command:
                case Start():
                    await self._start(tracked)
                case Stop(name, outcome):
                    await self._stop(tracked, name, outcome)
                case Finish(_, outcome):
                    await self._finish(tracked, outcome)
            return True
        except (Unavailable, NotFound) as error:
            _log.warning("pool %s, %s: %s; trying again", self.options.name, launch.name, error)
        except Exception as error:
            _log.exception("pool %s, %s: the attempt is given up", self.options.name, launch.name)
            await self._give_up(tracked, error)
        return False

    def _view(self, tracked: Tracked) -> View:
        launch, now = tracked.launch, time.monotonic()
        remote = self._remote.get(launch.name)
        if self._listed_at is None or remote is not None or self._listed_at <= (launch.started_at or now):
            launch.missing_since = None
        elif launch.missing_since is None:
            launch.missing_since = now
        return View(
            now=now,
            listed_at=self._listed_at,
            remote=remote,
            older=self._older(tracked) if launch.started_at is None else (),
            status=tracked.status,
        )

    def _older(self, tracked: Tracked) -> list[str]:
        """Return the live launches of earlier claims of the same job: only one may run at a time."""
        prefix = tracked.launch.name.rpartition("-")[0] + "-"
        return [
            name
            for name, job in self._remote.items()
            if name.startswith(prefix) and name != tracked.launch.name and job.phase is not Phase.ENDED
        ]

    async def _read_mail(self, tracked: Tracked, mail: Mapping[str, ObjectMeta]) -> None:
        """Read what is new: log lines before the status, so that an attempt that ends has all of them."""
        launch, now = tracked.launch, time.monotonic()
        while chunk := mail.get(log_chunk(tracked.chunks + 1)):
            for at, level, message in json.loads(await self._get(chunk.key, most=MAX_CHUNK)):
                tracked.context.keep(str(level), str(message), datetime.fromisoformat(at))
            tracked.chunks += 1
            launch.heard_at = now
        if (status := mail.get(STATUS)) and status.version != tracked.status_version:
            document = json.loads(await self._get(status.key, most=MAX_STATUS))
            tracked.status, tracked.document = Status(str(document["state"]), document.get("error")), document
            tracked.status_version, launch.heard_at = status.version, now
            launch.running_at = launch.running_at or now

    async def _start(self, tracked: Tracked) -> None:
        launch = tracked.launch
        launch.tried_at = time.monotonic()
        try:
            await self._limited(self._objects.put(tracked.request.env["TASK_SPEC_PATH"], tracked.spec.encode()))
            point("launch.specified")
            await self._limited(self._launcher.start(tracked.request))
            point("launch.started")
        except Unavailable as error:
            if str(error) != launch.problem:
                _log.warning("pool %s cannot start %s: %s", self.options.name, launch.name, error)
            launch.problem = str(error)
        except Invalid as error:
            await self._finish(tracked, Failed({"type": "Refused", "message": str(error)}, retryable=False))
        else:
            launch.started_at = time.monotonic()

    async def _stop(self, tracked: Tracked, name: str, outcome: Outcome | None) -> None:
        launch = tracked.launch
        if outcome is not None:
            launch.stopped_for = outcome
        if name == launch.name:
            launch.stop_sent_at = time.monotonic()
        else:
            launch.tried_at = time.monotonic()
        self._list_due = True  # whether it is gone shows in the next list
        await self._objects.put(f"{mailbox(self.options.name)}{name}/{STOP}", b"")
        await self._limited(self._launcher.stop(name))

    async def _finish(self, tracked: Tracked, outcome: Outcome | None) -> None:
        name = tracked.launch.name
        if outcome is None:
            outcome = await self._outcome(tracked)
        elif isinstance(outcome, Failed) and outcome.error["type"] in ("Lost", "OutOfMemory", "NeverStarted"):
            for line in (await self._limited(self._launcher.logs(name))).splitlines()[-20:]:
                tracked.context.keep("ERROR", line)
        written = tracked.document.get("artifacts")
        await launched_artifacts.adopt(self._db, self._objects, tracked.context, tracked.spec, written)
        point("launch.ended")
        if not tracked.ended.done():
            tracked.ended.set_result(outcome)

    async def _outcome(self, tracked: Tracked) -> Outcome:
        """Return the outcome that the launched process has written."""
        status = tracked.status
        if status is None or status.state != "success":
            document = tracked.document
            error = status.error if status is not None else None
            pause = document.get("retry_after")
            return Failed(
                error if isinstance(error, dict) else {"type": "Failed", "message": "the task failed"},
                document.get("retryable") is not False,
                None if pause is None else timedelta(seconds=float(pause)),
            )
        try:
            text = (await self._get(tracked.spec.mailbox + OUTPUT, most=MAX_OUTPUT)).decode()
            return Succeeded(encode(parse(text, field="output"), field="output", limit=MAX_OUTPUT))
        except (Invalid, UnicodeDecodeError) as error:
            return failed(error, retryable=False, trace=False)

    async def _give_up(self, tracked: Tracked, error: Exception) -> None:
        """End an attempt that raises something unforeseen, and stop what was launched for it, as far as possible."""
        try:
            await self._launcher.stop(tracked.launch.name)
        except Exception:
            _log.exception("pool %s: %s could not be stopped", self.options.name, tracked.launch.name)
        if not tracked.ended.done():
            tracked.ended.set_result(failed(error))

    async def _clean(self, name: str) -> None:
        """Remove what is left of a launch. What cannot be removed now is found again as a stray."""
        self._ended.discard(name)
        try:
            mail = await self._limited(self._objects.list(f"{mailbox(self.options.name)}{name}/"))
            await self._limited(self._objects.delete([meta.key for meta in mail]))
            point("launch.emptied")
            await self._limited(self._launcher.remove(name))
            self._remote.pop(name, None)
            point("launch.removed")
        except Exception as error:
            _log.warning("pool %s: what is left of %s is removed later: %s", self.options.name, name, error)

    async def _remove_unleased(self, names: Iterable[str]) -> None:
        """Remove launches that are not leased to this pool any more: their outcome is recorded, or of no interest.

        Not before: if this process dies before the outcome is recorded, the next one needs the objects.
        """
        unknown = {
            name: fence
            for name in names
            if name not in self._tracked and not is_live_probe(name, time.time()) and (fence := parse_name(name))
        }
        if not unknown:
            return
        held = {lease.fence for lease in await turn.held(self._db, unknown.values(), worker=self._worker_id)}
        for name in [name for name, fence in unknown.items() if fence not in held]:
            remote = self._remote.get(name)
            try:
                if name not in self._ended and remote is not None and remote.phase is not Phase.ENDED:
                    _log.warning("pool %s: stopping %s, which no job is waiting for", self.options.name, name)
                    await self._objects.put(f"{mailbox(self.options.name)}{name}/{STOP}", b"")
                    await self._limited(self._launcher.stop(name))
                    self._strays_at, self._list_due = 0.0, True
                else:
                    await self._clean(name)
            except Exception as error:
                _log.warning("pool %s: %s could not be stopped: %s", self.options.name, name, error)

    async def _get(self, key: str, *, most: int) -> bytes:
        return await self._limited(self._objects.get(key, most=most))

    async def _limited(self, operation: Awaitable[T]) -> T:
        async with self._slots:
            return await operation


def _by_launch(objects: Sequence[ObjectMeta], prefix: str) -> dict[str, dict[str, ObjectMeta]]:
    """Return the objects of a mailbox by launch and name."""
    mail: dict[str, dict[str, ObjectMeta]] = {}
    for meta in objects:
        launch, _, name = meta.key.removeprefix(prefix).partition("/")
        mail.setdefault(launch, {})[name] = meta
    return mail

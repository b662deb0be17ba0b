"""Observes the launches of a pool, through the pool and the mailbox, and starts, stops and finishes them.

A tick lists the mailbox (the objects that launched processes write), and carries out the command that
`core.launches.next_command` returns for each launch. Hints of the launcher only shorten the wait for a tick.

A launch that is neither tracked here nor leased to the pool is a stray: its lease was lost, or its job was cancelled,
while no process had the pool. Strays are stopped and removed.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, TypeVar

from windlass.core.artifacts import MAX_OUTPUT
from windlass.core.jobs.job import Failed, Outcome, Succeeded
from windlass.core.json_value import encode, parse
from windlass.core.launches import (
    HEARTBEAT,
    STATUS,
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
    log_chunk,
    next_command,
    parse_name,
    progress_data,
    shown_state,
)
from windlass.effects.context import Context
from windlass.effects.launchers import Launcher, LaunchRequest
from windlass.effects.objects import Objects
from windlass.effects.outcomes import failed
from windlass.engine.database import Database
from windlass.engine.faults import point
from windlass.engine.workers import turn
from windlass.errors import Invalid, NotFound, Unavailable
from windlass.runtime.loops.loop import until
from windlass.runtime.pools import artifacts
from windlass.runtime.pools.mailboxes import Mail, Mailboxes

SOON = timedelta(milliseconds=50)
STRAYS_EVERY = 30.0  # seconds
LIST_AGAIN = 1.0  # seconds until a failed list is retried
DETACH_WITHIN = 5.0  # seconds for operations in progress when the worker stops
AT_ONCE = 32  # concurrent operations of the launcher and the object store
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
    document: Mapping[str, Any] = field(default_factory=dict)  # the status as it was written
    status_version: str | None = None
    chunks: int = 0  # number of chunks of log lines that were read
    shown: str = ""  # the state that was last reported as progress of the job
    seen: tuple[RemoteJob | None, float | None] = None, None  # in the pool's list, and when; read before the mailbox


class Launches:
    """The launches of one pool in one process. `worker` is the id that their jobs are leased to."""

    def __init__(
        self, db: Database, pool: str, *, worker: str, launcher: Launcher, objects: Objects, limits: Limits
    ) -> None:
        self.wake = asyncio.Event()
        self._db = db
        self._pool = pool
        self._worker = worker
        self._launcher = launcher
        self._objects = objects
        self._limits = limits
        self._tracked: dict[str, Tracked] = {}
        self._ended: set[str] = set()  # launches whose outcome is being recorded
        self._remote: dict[str, RemoteJob] = {}
        self._listed_at: float | None = None
        self._answer: tuple[dict[str, RemoteJob], float] | None = None  # the latest list of the pool, for the next tick
        self._listing: asyncio.Task[None] | None = None
        self._list_due, self._list_tried_at = True, 0.0
        self._strays_at = 0.0
        self._slots = asyncio.Semaphore(AT_ONCE)
        self._mailboxes = Mailboxes(objects, pool, self._slots)
        self._tasks: dict[str, asyncio.Task[bool]] = {}  # by launch: one operation at a time

    def add(self, ctx: Context, spec: TaskSpec, request: LaunchRequest) -> Tracked:
        """Launch a job, or take over one that another process has launched, as soon as possible."""
        launch, ended = Launch(name=spec.name, since=time.monotonic(), timeout=ctx.timeout), asyncio.Future[Outcome]()
        tracked = self._tracked[spec.name] = Tracked(launch, ctx, request, spec, ended)
        self.wake.set()
        return tracked

    def stop(self, tracked: Tracked, outcome: Outcome) -> None:
        """Stop a launched job; `ended` gets the outcome when it is gone."""
        tracked.launch.stopped_for = outcome
        self.wake.set()

    def forget(self, tracked: Tracked, *, detached: bool) -> None:
        """Stop tracking a launch. Unless it is detached, it is removed once its outcome is recorded."""
        self._tracked.pop(tracked.launch.name, None)
        if not detached:
            self._ended.add(tracked.launch.name)
            self.wake.set()

    async def follow_hints(self, over: asyncio.Event) -> None:
        while not over.is_set():
            await until(over, timedelta(hours=1), wake=self._launcher.hint)
            self._list_due = True
            self.wake.set()

    async def tick(self) -> timedelta | None:
        """Read the lists of the pool and the mailbox, and process every launch for which something is due."""
        started = time.monotonic()
        if not self._tracked and not self._ended and started < self._strays_at:
            return None
        if self._list_due or started - self._list_tried_at >= self._launcher.list_every:
            self._list_soon()
        if self._answer is not None:  # before the mailbox is listed, so that no end is seen before its status
            (self._remote, self._listed_at), self._answer = self._answer, None
        mail = await self._mailboxes.by_launch()
        for tracked in list(self._tracked.values()):
            received = mail.get(tracked.launch.name, {})
            if tracked.launch.name not in self._tasks and self._is_due(tracked, received):
                self._attend_soon(tracked, received)
        names = set(self._ended)
        # Launches that an earlier process has left are found in the list of the pool.
        if started >= self._strays_at and self._listed_at is not None:
            self._strays_at = started + STRAYS_EVERY
            names.update(self._remote, mail)
        await self._remove_unleased(names)
        return SOON if self._ended else None

    def _list_soon(self) -> None:
        """List the pool in a task of its own: while the pool does not answer, mailboxes are still read."""
        if self._listing is None:
            self._list_due, self._list_tried_at = False, time.monotonic()
            self._listing = asyncio.create_task(self._list(), name=f"windlass-list-{self._pool}")

    async def _list(self) -> None:
        started = time.monotonic()
        try:
            self._answer = {job.name: job for job in await self._launcher.list()}, started
        except Exception as error:
            self._answer, self._remote, self._listed_at, self._list_due = None, {}, None, True
            _log.warning("pool %s cannot be listed: %s; trying again", self._pool, error)
            await asyncio.sleep(LIST_AGAIN)
        finally:
            self._listing = None
            self.wake.set()

    def _is_due(self, tracked: Tracked, mail: Mail) -> bool:
        """Record the heartbeat; return whether there is anything to read or to do, which is rarely the case."""
        launch = tracked.launch
        tracked.seen = self._remote.get(launch.name), self._listed_at
        if (beat := mail.get(HEARTBEAT)) and beat.version != launch.heartbeat:
            launch.heartbeat, launch.heard_at = beat.version, time.monotonic()
        status = mail.get(STATUS)
        is_new = status is not None and status.version != tracked.status_version
        try:
            self._show(tracked)
            return is_new or log_chunk(tracked.chunks + 1) in mail or self._next(tracked) is not None
        except Exception:  # `_attend` gets the same error, and gives up this launch only
            return True

    def _show(self, tracked: Tracked) -> None:
        """Report the state of the launch as progress of its job, whenever it changes."""
        state, text = shown_state(tracked.launch, self._view(tracked), self._limits, self._pool)
        if text != tracked.shown:
            tracked.shown = text
            tracked.context.progress(0.0, text, progress_data(state, tracked.spec.fence))

    def _next(self, tracked: Tracked) -> Command | None:
        return next_command(tracked.launch, self._view(tracked), self._limits)

    def _attend_soon(self, tracked: Tracked, mail: Mail) -> None:
        """Process a launch in a task of its own: a slow operation delays no other launch and no tick."""
        name = tracked.launch.name
        task = asyncio.create_task(self._attend(tracked, mail), name=f"windlass-{name}")
        self._tasks[name] = task
        task.add_done_callback(lambda ended: self._attended(name, ended))

    def _attended(self, name: str, task: asyncio.Task[bool]) -> None:
        del self._tasks[name]
        if not task.cancelled() and task.result():
            self.wake.set()

    async def end_tasks(self) -> None:
        """Wait for operations in progress, at most DETACH_WITHIN, then cancel them."""
        if self._listing is not None:
            self._listing.cancel()
            await asyncio.gather(self._listing, return_exceptions=True)
        if self._tasks:
            await asyncio.wait(self._tasks.values(), timeout=DETACH_WITHIN)
        for task in list(self._tasks.values()):
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    async def _attend(self, tracked: Tracked, mail: Mail) -> bool:
        """Read the new objects of a launch and carry out its next command; return whether there was one.

        An unexpected error ends this attempt and does not affect the others.
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
            _log.warning("pool %s, %s: %s; trying again", self._pool, launch.name, error)
        except Exception as error:
            _log.exception("pool %s, %s: the attempt is given up", self._pool, launch.name)
            await self._give_up(tracked, error)
        return False

    def _view(self, tracked: Tracked) -> View:
        launch, now = tracked.launch, time.monotonic()
        remote, listed_at = tracked.seen
        if listed_at is None or remote is not None or listed_at <= (launch.started_at or now):
            launch.missing_since = None
        elif launch.missing_since is None:
            launch.missing_since = now
        return View(
            now=now,
            listed_at=listed_at,
            remote=remote,
            older=self._older(tracked) if launch.started_at is None else (),
            status=tracked.status,
        )

    def _older(self, tracked: Tracked) -> list[str]:
        """Return the live launches of earlier claims of the same job: only one may run at a time."""
        own = tracked.launch.name
        live = (name for name, job in self._remote.items() if job.phase is not Phase.ENDED and name != own)
        return [name for name in live if name.startswith(own.rpartition("-")[0] + "-")]

    async def _read_mail(self, tracked: Tracked, mail: Mail) -> None:
        """Read new objects: log lines before the status, so that an attempt that ends has all of its lines."""
        launch = tracked.launch
        await self._read_lines(tracked, mail)
        if (status := mail.get(STATUS)) and status.version != tracked.status_version:
            document = await self._mailboxes.status(mail)
            # A list is not atomic: it may lack lines that were written before the status.
            await self._read_lines(tracked, await self._mailboxes.of_launch(launch.name))
            tracked.status, tracked.document = Status(str(document["state"]), document.get("error")), document
            tracked.status_version, launch.heard_at = status.version, time.monotonic()
            launch.running_at = launch.running_at or launch.heard_at

    async def _read_lines(self, tracked: Tracked, mail: Mail) -> None:
        while (lines := await self._mailboxes.lines(mail, tracked.chunks + 1)) is not None:
            for at, level, message in lines:
                tracked.context.keep(level, message, at)
            tracked.chunks += 1
            tracked.launch.heard_at = time.monotonic()

    async def _start(self, tracked: Tracked) -> None:
        launch = tracked.launch
        launch.tried_at = time.monotonic()
        try:
            await self._mailboxes.specify(tracked.request.env["TASK_SPEC_PATH"], tracked.spec)
            point("launch.specified")
            await self._limited(self._launcher.start(tracked.request))
            point("launch.started")
        except Unavailable as error:
            if str(error) != launch.problem:
                _log.warning("pool %s cannot start %s: %s", self._pool, launch.name, error)
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
        self._list_due = True  # to find out whether the job is gone
        await self._mailboxes.ask_to_stop(name)
        await self._limited(self._launcher.stop(name))
        if name != launch.name:
            # That launch may have been removed since the list was made: then the request to stop is a stray object.
            self._strays_at = 0.0

    async def _finish(self, tracked: Tracked, outcome: Outcome | None) -> None:
        if outcome is None:
            outcome = await self._outcome(tracked)
        elif isinstance(outcome, Failed) and outcome.error["type"] in ("Lost", "OutOfMemory", "NeverStarted"):
            with contextlib.suppress(Exception):  # it only helps to explain the failure
                for line in (await self._limited(self._launcher.logs(tracked.launch.name))).splitlines()[-20:]:
                    tracked.context.keep("ERROR", line)
        written = tracked.document.get("artifacts")
        await artifacts.adopt(self._db, self._objects, tracked.context, tracked.spec, written)
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
            value = parse(await self._mailboxes.output(tracked.spec), field="output")
            return Succeeded(encode(value, field="output", limit=MAX_OUTPUT))
        except (Invalid, UnicodeDecodeError) as error:
            return failed(error, retryable=False, trace=False)

    async def _give_up(self, tracked: Tracked, error: Exception) -> None:
        """End an attempt because of an unexpected error, and try to stop its launched job."""
        try:
            await self._launcher.stop(tracked.launch.name)
        except Exception:
            _log.exception("pool %s: %s could not be stopped", self._pool, tracked.launch.name)
        if not tracked.ended.done():
            tracked.ended.set_result(failed(error))

    async def _clean(self, name: str) -> None:
        """Remove the objects and the job of a launch. If that fails, the launch is found again as a stray."""
        self._ended.discard(name)
        try:
            await self._mailboxes.empty(name)
            point("launch.emptied")
            await self._limited(self._launcher.remove(name))
            self._remote.pop(name, None)
            point("launch.removed")
        except Exception as error:
            _log.warning("pool %s: what is left of %s is removed later: %s", self._pool, name, error)

    async def _remove_unleased(self, names: Iterable[str]) -> None:
        """Remove launches that are no longer leased to this pool: their outcome is recorded, or no longer needed. Stop
        strays that still run.

        Launches must not be removed earlier: if this process dies before the outcome is recorded, the next process
        needs the objects.
        """
        unknown = {
            name: fence
            for name in names
            if name not in self._tracked and not is_live_probe(name, time.time()) and (fence := parse_name(name))
        }
        if not unknown:
            return
        held = {lease.fence for lease in await turn.held(self._db, unknown.values(), worker=self._worker)}
        for name in [name for name, fence in unknown.items() if fence not in held]:
            remote = self._remote.get(name)
            try:
                if name not in self._ended and remote is not None and remote.phase is not Phase.ENDED:
                    _log.warning("pool %s: stopping %s, which no job is waiting for", self._pool, name)
                    await self._mailboxes.ask_to_stop(name)
                    await self._limited(self._launcher.stop(name))
                    self._strays_at, self._list_due = 0.0, True
                else:
                    await self._clean(name)
            except Exception as error:
                _log.warning("pool %s: %s could not be stopped: %s", self._pool, name, error)

    async def _limited(self, operation: Awaitable[T]) -> T:
        async with self._slots:
            return await operation

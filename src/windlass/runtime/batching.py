"""Batches concurrent requests, so that requests which arrive together share a transaction.

A request is sent immediately if no batch is in flight. Otherwise it waits for the end of that batch, together with the
requests that arrive meanwhile. With several lanes they wait for at most PATIENCE and are then sent concurrently, so
that a batch that is waiting for a lock does not delay them. A batch that fails is split, so that only the request that
causes the error fails.
"""

import asyncio
import logging
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, Generic, TypeVar
from uuid import UUID

from windlass.core.jobs.job import Released
from windlass.core.jobs.spec import JobSpec
from windlass.engine.database import Tenant
from windlass.engine.jobs import control as jobs
from windlass.engine.jobs import submit
from windlass.engine.jobs.submit import Pushed
from windlass.engine.quarantine import split_batch
from windlass.engine.runs import start as run_start
from windlass.engine.runs.start import RunSpec, Started
from windlass.engine.workers import remote, remote_reports
from windlass.engine.workers.remote import Fetch, Job
from windlass.engine.workers.remote_reports import NewState, RemoteReport
from windlass.runtime.admission import Admission

Request = TypeVar("Request")
Answer = TypeVar("Answer")
Serve = Callable[[Sequence[Request]], Awaitable[Sequence[Answer | Exception]]]
Specs = Sequence[JobSpec]
RunRequest = tuple[Tenant, str, RunSpec]  # caller, workflow name, run
FETCHES = 20  # in one transaction
REGISTER_EVERY = 10.0  # seconds
MOST_REGISTERED = 10_000  # workers remembered
PATIENCE = 0.005  # seconds
_log = logging.getLogger("windlass.web")


class Batcher(Generic[Request, Answer]):
    """Sends concurrent requests in batches. `serve` returns one answer per request, in order, or fails as a whole. An
    answer that is an exception is raised in the task that made the request."""

    def __init__(self, serve: Serve[Request, Answer], *, most: int = 100, lanes: int = 1) -> None:
        self._serve = serve
        self._most = most
        self._lanes = lanes  # maximum number of batches in flight
        self._waiting: list[tuple[Request, asyncio.Future[Answer]]] = []
        self._busy = 0
        self._sent_at = 0.0  # when the last batch was sent, in the time of the event loop
        self._timer: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()  # strong references: the event loop keeps only weak ones

    async def call(self, request: Request) -> Answer:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Answer] = loop.create_future()
        self._waiting.append((request, future))
        self._send(loop)
        return await future

    def _send(self, loop: asyncio.AbstractEventLoop) -> None:
        """Send the waiting requests now, or once the last batch has been in flight for PATIENCE, if a lane is free."""
        if self._busy:
            if self._busy == self._lanes or self._timer is not None:
                return
            if (rest := self._sent_at + PATIENCE - loop.time()) > 0:
                self._timer = loop.call_later(rest, self._send_late, loop)
                return
        self._busy += 1
        self._sent_at = loop.time()
        task = loop.create_task(self._work(loop))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _send_late(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer = None
        if self._waiting:
            self._send(loop)

    async def _work(self, loop: asyncio.AbstractEventLoop) -> None:
        try:
            while self._waiting:
                self._sent_at = loop.time()
                batch, self._waiting = self._waiting[: self._most], self._waiting[self._most :]
                answers = await _answers([request for request, _ in batch], self._serve)
                for (_, future), answer in zip(batch, answers, strict=True):
                    if future.done():
                        continue  # the request was cancelled
                    if isinstance(answer, Exception):
                        future.set_exception(answer)
                    else:
                        future.set_result(answer)
        finally:
            self._busy -= 1  # not in a done callback: `call` must not rely on a task that takes no more requests


async def _answers(requests: Sequence[Request], serve: Serve[Request, Answer]) -> list[Answer | Exception]:
    async def isolate(_: Request, error: Exception) -> Sequence[Answer | Exception]:
        return [error]

    try:
        return [answer for part in await split_batch(requests, serve, isolate) for answer in part]
    except Exception as error:  # the database is unavailable: splitting does not help
        return [error] * len(requests)


class RemoteJobs:
    """Serves producers and workers that use HTTP."""

    def __init__(self, db: Tenant, admission: Admission | None = None) -> None:
        """`admission` is shared by the callers of an org."""
        self.db = db
        self.admission = admission or Admission(db)
        self._pushes = Batcher[Specs, list[Pushed]](self._push_all, most=100, lanes=2)
        self._registered: dict[str, tuple[Any, float]] = {}  # by worker: queues and types, and when
        self._fetches = Batcher[Fetch, list[Job]](partial(remote.fetch, db), most=FETCHES)
        self._reports = Batcher[RemoteReport, Job](partial(remote_reports.record, db), most=200, lanes=2)

    async def push(self, specs: Specs) -> list[Pushed]:
        """Record jobs, all or none.

        Only single jobs without a unique key or rate limit share a transaction: the others may wait for locks, and
        several jobs must succeed or fail together.
        """
        if len(specs) > 1 or any(spec.unique or spec.limit for spec in specs):
            return await submit.push(self.db, specs)
        return await self._pushes.call(specs)

    async def register(self, wish: Fetch, *, host: str) -> None:
        """Record the worker of a fetch, at most every REGISTER_EVERY seconds unless its queues or types change."""
        served, now = (wish.queues, wish.types), time.monotonic()
        before = self._registered.get(wish.worker)
        if before is not None and before[0] == served and now - before[1] < REGISTER_EVERY:
            return
        await remote.register(self.db, wish, host=host)
        if len(self._registered) >= MOST_REGISTERED:
            self._registered.clear()
        self._registered[wish.worker] = served, now

    async def fetch(self, wish: Fetch) -> list[Job]:
        return await self._fetches.call(wish)

    async def report(self, report: RemoteReport) -> Job:
        """Record a worker's report and return the job after it."""
        return await self._reports.call(report)

    async def report_batch(self, reports: Sequence[RemoteReport]) -> list[NewState | Exception]:
        """Record the reports of one request; return the new state of each job, or the error of the report."""
        return await remote_reports.record_batch(self.db, reports)

    async def give_back(self, jobs: Sequence[Job], *, worker: str) -> None:
        """Release jobs that were claimed for a client which has disconnected."""
        released = Released("the client disconnected")
        reports = [RemoteReport(job.id, released, worker=worker, fence=job.claim_no) for job in jobs]
        try:
            await remote_reports.record_batch(self.db, reports)
        except Exception as error:  # of any kind: the leases will expire
            _log.warning("%d jobs of %s could not be released, their leases must expire: %s", len(jobs), worker, error)

    async def _push_all(self, requests: Sequence[Specs]) -> Sequence[list[Pushed] | Exception]:
        return [[pushed] for pushed in await submit.push(self.db, [spec for specs in requests for spec in specs])]


class JobSubmitter:
    """Records concurrently submitted jobs in batches: a batch costs little more than a single job."""

    def __init__(self, db: Tenant) -> None:
        self._batcher = Batcher[JobSpec, UUID](partial(jobs.submit, db), most=500, lanes=2)

    async def submit(self, spec: JobSpec) -> UUID:
        return await self._batcher.call(spec)


class RunStarter:
    """Starts concurrently requested runs in batches: a batch costs little more than a single run."""

    def __init__(self) -> None:
        self._batcher = Batcher[RunRequest, Started](self._start_all, lanes=4)

    async def start(self, db: Tenant, workflow: str, spec: RunSpec) -> Started:
        return await self._batcher.call((db, workflow, spec))

    async def _start_all(self, requests: Sequence[RunRequest]) -> Sequence[Started | Exception]:
        """Start the runs, one transaction per caller and workflow; return the answers in the order of the requests.

        Failures are split here, per workflow, and never raised: `Batcher` would repeat the whole batch, including the
        workflows whose transaction has committed.
        """
        by_workflow: dict[tuple[Tenant, str], list[int]] = defaultdict(list)
        for n, (db, workflow, _) in enumerate(requests):
            by_workflow[db, workflow].append(n)
        answers: dict[int, Started | Exception] = {}
        for (db, workflow), numbers in by_workflow.items():
            start = partial(run_start.start_many, db, workflow)
            answers |= zip(numbers, await _answers([requests[n][2] for n in numbers], start), strict=True)
        return [answers[n] for n in range(len(requests))]

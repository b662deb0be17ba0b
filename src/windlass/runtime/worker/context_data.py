"""Reads and writes the data of handlers' contexts: the run and the upstream results of a step, the results and the
progress that a handler records.

A handler must not fail because the database is unavailable: reads and writes that it waits for are retried.
"""

import asyncio
import concurrent.futures
import contextlib
import itertools
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from datetime import datetime, timedelta
from typing import Any, TypeVar
from uuid import UUID

from windlass.core.artifacts import Artifact, Reference, refer
from windlass.core.jobs.job import Claimed
from windlass.core.jobs.replay import Call, NewRecord, Recorded
from windlass.core.jobs.streams import NewChunk
from windlass.core.json_value import encode
from windlass.core.runs.run import RunResult
from windlass.core.workflows.workflow import Workflow
from windlass.effects.call_store import RunRequest
from windlass.effects.context import Context, Upstream
from windlass.effects.handlers import Threads
from windlass.engine import artifacts, secrets
from windlass.engine.compositions import awaited, parent_results
from windlass.engine.compositions.parent_results import Position
from windlass.engine.database import Database
from windlass.engine.jobs import checkpoints, streams
from windlass.engine.jobs.checkpoints import ProgressReport
from windlass.engine.runs import outputs
from windlass.engine.runs.outputs import TooMany
from windlass.errors import Unavailable
from windlass.runtime.batching import Batcher
from windlass.runtime.loops.loop import SELDOM, run_periodically, until
from windlass.runtime.worker.streams import StreamWriter

MOST_LISTED = 10_000  # artifacts that a handler can list
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 1.0  # seconds
T = TypeVar("T")
Named = tuple[str, tuple[str, ...]]  # an org and names of its secrets


class ContextData:
    def __init__(self, db: Database, concurrency: int) -> None:
        self.threads = Threads(concurrency)
        self.streams = StreamWriter(self._append)
        self._db = db
        self._loop = asyncio.get_running_loop()
        self._progress: dict[UUID, ProgressReport] = {}
        self._lock = threading.Lock()  # guards `_progress`: handlers report progress from any thread
        self._has_progress = asyncio.Event()
        self._upstreams = Batcher[Claimed, Upstream](self._load_upstreams, most=200)
        self._positions = Batcher[Claimed, Position](self._load_positions, most=200)
        self._recorded = Batcher[UUID, list[Recorded]](self._load_recorded, most=200, lanes=2)
        self._secrets = Batcher[Named, dict[str, str]](self._load_secrets, most=200)

    async def prepare(self, job: Claimed, context: Context, *, upstream: bool) -> None:
        """Fill in the context of a step: its run, workflow and step, and with `upstream` the results it depends on."""
        await _retry(lambda: self._fill(job, context, upstream=upstream))

    async def recorded(self, job: UUID) -> list[Recorded]:
        """Return the durable calls that earlier attempts recorded."""
        return await _retry(lambda: self._recorded.call(job))

    async def record(self, job: UUID, fence: int, records: Sequence[NewRecord]) -> None:
        await _retry(lambda: checkpoints.record(self._db, job, fence=fence, records=records))

    async def transact(
        self, job: UUID, fence: int, records: Sequence[NewRecord], call: Call, work: Callable[[Any], Awaitable[str]]
    ) -> Any:
        tries = itertools.count()
        return await _retry(
            lambda: checkpoints.transact(
                self._db, job, fence=fence, records=records, call=call, work=work, again=next(tries) > 0
            )
        )

    async def end_wait(self, job: UUID, fence: int, place: str) -> tuple[Any, bool]:
        return await _retry(lambda: checkpoints.end_wait(self._db, job, fence=fence, place=place))

    async def start_run(self, job: Claimed, key: str, request: RunRequest) -> UUID:
        spec = request.job
        if spec is not None:
            return await _retry(lambda: awaited.submit(self._db, job, key, spec))
        return await _retry(lambda: awaited.start(self._db, job, key, request.workflow, request.input))

    async def watch_run(self, job: Claimed, run: UUID) -> RunResult | None:
        return await _retry(lambda: awaited.watch(self._db, job, run))

    def now(self) -> datetime:
        return self._db.local_now()

    async def secrets(self, org: str, names: Sequence[str]) -> dict[str, str]:
        return await _retry(lambda: self._secrets.call((org, tuple(names))))

    async def write_artifact(self, job: Claimed, name: str, chunks: AsyncIterator[bytes], media_type: str) -> Reference:
        """Write an artifact. Only database calls are retried: an error of the object store is raised in the handler."""
        reference = refer(job, await _retry(lambda: self._step_name(job)), name)
        key = await _retry(lambda: artifacts.reserve(self._db, job, reference, media_type=media_type))
        size = await artifacts.upload(self._db, key, chunks)
        await _retry(lambda: artifacts.complete(self._db, job, reference, size))
        return reference

    async def find_artifact(self, job: Claimed, reference: Reference) -> Artifact:
        db = self._db.tenant(job.org)
        return await _retry(lambda: artifacts.find(db, reference, only_result=True))

    def read_artifact(self, artifact: Artifact) -> AsyncIterator[bytes]:
        return artifacts.read(self._db, artifact)

    async def list_artifacts(self, job: Claimed, step: str | None) -> list[Artifact]:
        """Return the artifacts of the succeeded steps of the job's run, or of one of them."""
        db, run = self._db.tenant(job.org), job.run_id or job.id
        rows = await _retry(lambda: artifacts.list_(db, run, step=step, limit=MOST_LISTED))
        return [row for row in rows if row.is_result]

    async def call(self, function: Callable[[], Any]) -> Any:
        return await self.threads.run(function)

    def begin(self, work: Coroutine[Any, Any, T]) -> "concurrent.futures.Future[T]":
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def wait(self, answer: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the worker's loop for a handler in a thread, and wait for its result."""
        return self.begin(answer).result()

    def progress(self, job: UUID, fence: int, fraction: float, message: str | None, data: Any) -> None:
        latest = ProgressReport(job, fence, fraction, message, None if data is None else encode(data, field="data"))
        with self._lock:
            is_first = not self._progress
            self._progress[job] = latest
        if is_first:
            with contextlib.suppress(RuntimeError):  # the loop was closed
                self._loop.call_soon_threadsafe(self._has_progress.set)

    def stream(self, chunk: NewChunk) -> None:
        self.streams.add(chunk)

    async def _append(self, chunks: Sequence[NewChunk]) -> None:
        await _retry(lambda: streams.append(self._db, chunks))

    async def follow_progress(self, stop: asyncio.Event, *, every: timedelta) -> None:
        """Write reported progress until `stop`, at most once per `every`."""

        async def tick() -> None:
            await self.write_progress()
            await until(stop, every)

        await run_periodically(tick, every=SELDOM, stop=stop, wake=self._has_progress)

    async def write_progress(self) -> None:
        """Write the progress reported since the last call. If the database is unavailable, keep it for the next call,
        unless newer progress of the same job has arrived."""
        with self._lock:
            latest, self._progress = self._progress, {}
        if not latest:
            return
        try:
            await checkpoints.report_progress(self._db, list(latest.values()))
        except Unavailable:
            with self._lock:
                self._progress = latest | self._progress
            raise

    async def _fill(self, job: Claimed, context: Context, *, upstream: bool) -> None:
        assert job.version_id is not None
        assert job.step is not None
        workflow = await self._workflow(job.version_id)
        context.run_id, context.workflow = job.run_id, workflow.name
        context.step_name, context._action = workflow.steps[job.step].name, workflow.steps[job.step].action
        context.index = 0 if job.item is None else job.item
        context.count = 1 if job.items is None else job.items
        context.workflow_id = str(job.run_id)
        if upstream and workflow.primitive is not None:
            position = await self._positions.call(job)
            context.workflow_id, context.parent_results = position.workflow_id, position.results
        elif upstream and workflow.plan.before(job.step):
            context.upstream = await self._upstreams.call(job)

    async def _workflow(self, version: int) -> Workflow:
        return self._db.definitions.get(version) or await outputs.definition(self._db, version)

    async def _step_name(self, job: Claimed) -> str | None:
        """Return the name of the job's step, from the definition: `prepare` does not fill in every context."""
        if job.version_id is None or job.step is None:
            return None
        return (await self._workflow(job.version_id)).steps[job.step].name

    async def _load_positions(self, jobs: Sequence[Claimed]) -> Sequence[Position | Exception]:
        """Return the workflow id and the parents' results of each of these jobs of compositions."""
        positions = await parent_results.of_jobs(self._db, jobs)
        refs = [(job.run_id, job.step) for job in jobs if job.run_id is not None and job.step is not None]
        return [positions.errors.get(ref) or positions.by_step[ref] for ref in refs]

    async def _load_recorded(self, jobs: Sequence[UUID]) -> Sequence[list[Recorded]]:
        calls = await checkpoints.recorded(self._db, jobs)
        return [calls.get(job, []) for job in jobs]

    async def _load_secrets(self, requests: Sequence[Named]) -> Sequence[dict[str, str]]:
        values = await secrets.values(self._db, [(org, name) for org, names in requests for name in names])
        return [{name: values[org, name] for name in names if (org, name) in values} for org, names in requests]

    async def _load_upstreams(self, jobs: Sequence[Claimed]) -> Sequence[Upstream]:
        results = await outputs.of_needs(self._db, jobs)
        return [_upstream(results[job.id]) for job in jobs]


def _upstream(results: dict[str, object]) -> Upstream:
    large = {name: value.text for name, value in results.items() if isinstance(value, TooMany)}
    return Upstream({name: value for name, value in results.items() if name not in large}, large)


async def _retry(call: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Retry a call while the database is unavailable, with backoff, or as soon as the outage is known to be over."""
    pause = FIRST_PAUSE
    while True:
        try:
            return await call()
        except Unavailable as error:
            if error.recovered is None:
                await asyncio.sleep(pause)
            else:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(pause):
                        await error.recovered.wait()
            pause = min(LONGEST_PAUSE, pause * 2)

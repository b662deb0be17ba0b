"""The context of a handler's attempt at a job: its durable steps, progress and log lines."""

import functools
import inspect
import logging
import threading
from collections.abc import Awaitable, Callable, Generator, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple, Protocol
from uuid import UUID

from windlass.core.duration import Duration
from windlass.core.jobs.job import MAX_DATA, MAX_LINES, MAX_MESSAGE, Claimed, fraction_of
from windlass.core.jobs.replay import Recorded, Suspended
from windlass.core.jobs.spec import JobSpec
from windlass.core.jobs.streams import NewChunk
from windlass.core.json_value import encode, plain
from windlass.core.orgs import DEFAULT_ORG
from windlass.core.redaction import Redaction
from windlass.core.workflows.step import Action
from windlass.effects.artifacts import Artifacts, ArtifactStore
from windlass.effects.call_store import CallStore, RunRequest
from windlass.effects.durable import DurableCalls
from windlass.effects.streams import HandlerStream
from windlass.errors import Conflict, Invalid, NonRetryable

# Handlers log through this logger (`ctx.log`) or through any other.
job_logger = logging.getLogger("windlass.job")
_current: ContextVar["Context | None"] = ContextVar("windlass_context", default=None)


class LogRow(NamedTuple):
    """A log line as it is stored."""

    job: UUID
    epoch: int
    attempt: int
    number: int
    at: datetime
    level: str
    message: str


Keep = Callable[[LogRow], None]


class Upstream(Mapping[str, Any]):
    """The results of the steps that this step needs, by name.

    The results of a step with too many instances are not loaded: reading them raises `Invalid`.
    """

    def __init__(self, outputs: Mapping[str, Any], too_large: Mapping[str, str] | None = None) -> None:
        self._outputs = outputs
        self._too_large = too_large or {}

    def __getitem__(self, name: str) -> Any:
        if name in self._too_large:
            raise Invalid(self._too_large[name], field=name)
        return self._outputs[name]

    def __iter__(self) -> Iterator[str]:
        return iter([*self._outputs, *self._too_large])

    def __len__(self) -> int:
        return len(self._outputs) + len(self._too_large)


class ContextData(ArtifactStore, CallStore, Protocol):
    """Stores data that must outlive an attempt. `fence` identifies the claim: writes of a lost claim are refused."""

    def progress(self, job: UUID, fence: int, fraction: float, message: str | None, data: Any) -> None: ...

    def stream(self, chunk: NewChunk) -> None:
        """Buffer a chunk of a handler's stream; chunks are written in batches."""

    async def secrets(self, org: str, names: Sequence[str]) -> Mapping[str, str]:
        """Return the values of these secrets of an org; unknown names are left out."""


class Done:
    """An awaitable that is already done: an async handler may await it, a sync handler can ignore it."""

    def __await__(self) -> Generator[None, None, None]:
        yield from ()


DONE = Done()


@dataclass(slots=True, eq=False)
class Context:
    """The context of one attempt at a job.

    `fence` increases with each claim of the job: pass it to the systems you call, so that they can reject requests of
    an attempt that has lost its lease.

    If the job is a step of a run, the context also has the run (`run_id`, `workflow`), the step (`step_name`), the
    instance of a fanned-out step (`index` of `count`, and its `item`), and the results of the steps it needs
    (`upstream`, by name).
    """

    id: UUID
    type: str
    attempt: int
    max_attempts: int
    queue: str
    priority: int
    fence: int
    created_at: datetime
    meta: dict[str, Any]
    _keep: Keep
    run_id: UUID | None = None
    workflow: str | None = None
    step_name: str | None = None
    index: int | None = None
    count: int | None = None
    item: Any = None
    upstream: Mapping[str, Any] = field(default_factory=dict)
    workflow_id: str | None = None  # the run id; in a composition, the id that its client uses
    parent_results: Mapping[str, Any] = field(default_factory=dict)  # in a chain or batch, by index: "0", "1", ...
    epoch: int = 0  # increases when the job is started over
    timeout: timedelta | None = None  # of this attempt
    org: str = DEFAULT_ORG  # the owner of the job
    _action: Action | None = None  # of the step
    _job: Claimed | None = None
    _artifact_store: ArtifactStore | None = None  # of a launched process
    _context_data: ContextData | None = None  # None: nothing is recorded, for example if a test calls the handler
    _calls: DurableCalls | None = None
    _recorded: Sequence[Recorded] = ()  # calls of earlier attempts
    _executor: object = None  # the task or the thread that runs the handler
    _stream: HandlerStream | None = None
    _lines: int = 0
    _stopped: bool = False
    _detached: bool = False  # the launched job continues: this process only stops waiting for it
    _redaction: Redaction | None = None  # of the secrets that this attempt uses
    _cancel_event: threading.Event | None = None  # created by `wait_cancelled`: most handlers never call it

    @property
    def idempotency_key(self) -> str:
        """A key that is the same for all attempts at the job, until the job is started over: pass it to the systems
        you call, so that they can recognize a repeated request."""
        return f"{self.id}-{self.epoch}" if self.epoch else str(self.id)

    @property
    def task_id(self) -> UUID:
        """Alias of `id`."""
        return self.id

    @property
    def task_name(self) -> str | None:
        """Alias of `step_name`."""
        return self.step_name

    @property
    def workflow_name(self) -> str | None:
        """Alias of `workflow`."""
        return self.workflow

    @property
    def parallel_index(self) -> int | None:
        return self.index

    @property
    def parallel_count(self) -> int | None:
        return self.count

    @property
    def cancelled(self) -> bool:
        """Whether the attempt should stop: its job or run was cancelled, it timed out, its lease was lost, or the
        worker is shutting down. A sync handler should check this regularly and return."""
        return self._stopped

    def wait_cancelled(self, timeout: float) -> bool:
        """Sleep for `timeout` seconds or until `cancelled` is true; return `cancelled`.

        For sync handlers: it blocks the thread.
        """
        self._cancel_event = event = self._cancel_event or threading.Event()
        return self._stopped or event.wait(timeout)

    @property
    def artifacts(self) -> Artifacts:
        """The artifacts: those that this attempt writes, and those of the run's steps that have succeeded."""
        store = self._artifact_store or self._context_data
        if self._job is None or store is None:
            raise Conflict("artifacts are not available: the handler was not called by a worker")
        return Artifacts(self._job, store)

    @property
    def log(self) -> logging.Logger:
        return job_logger

    async def step(self, name: str, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Call `function` and record its result before returning; a later attempt returns the recorded result instead
        of calling it again.

        Nothing is recorded if the function raises or the process dies first: the next attempt calls it again. A sync
        function runs in a thread. Calls with the same name are numbered: `pack`, `pack#2`.
        """
        call = functools.partial(function, *args, **kwargs)
        return await self._durable.step(name, call, is_async=inspect.iscoroutinefunction(function))

    def step_sync(self, name: str, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Like `step`, for sync handlers."""
        return self._durable.step_sync(name, functools.partial(function, *args, **kwargs))

    async def sleep(self, length: Duration, *, name: str = "sleep") -> None:
        """Suspend the handler for `length`: seconds, a string such as "30s" or "1d", or a timedelta.

        Meanwhile the job holds no lease and no slot of the worker, and no attempt is charged. After the sleep the
        handler runs again from its beginning; recorded steps return their results.
        """
        await self._durable.sleep(length, name)

    def sleep_sync(self, length: Duration, *, name: str = "sleep") -> None:
        """Like `sleep`, for sync handlers."""
        self._durable.sleep_sync(length, name)

    async def wait_for(
        self, name: str, *, key: str | None = None, timeout: Duration | None = None, count: int = 1
    ) -> Any:
        """Suspend the handler until a message arrives; return its payload, or a list of `count` payloads.

        Without `key`, wait for a signal to this job, or to the run that it is a step of. With `key`, wait for an event
        published with this name and key. Messages that arrived before the call count. Raises `WaitTimeout` if fewer
        than `count` messages arrive within `timeout`.
        """
        return await self._durable.wait_for(name, key, timeout, count)

    def wait_for_sync(
        self, name: str, *, key: str | None = None, timeout: Duration | None = None, count: int = 1
    ) -> Any:
        """Like `wait_for`, for sync handlers."""
        return self._durable.wait_for_sync(name, key, timeout, count)

    async def run(self, workflow: str, input: Any = None) -> Any:  # noqa: A002
        """Start a run of a workflow, suspend the handler until it has ended, and return its output.

        Raises `RunFailed` if the run does not complete. All attempts wait for the same run. If this job is cancelled,
        so is the run.
        """
        return await self._durable.run(RunRequest(workflow, {} if input is None else input))

    def run_sync(self, workflow: str, input: Any = None) -> Any:  # noqa: A002
        """Like `run`, for sync handlers."""
        return self._durable.run_sync(RunRequest(workflow, {} if input is None else input))

    async def submit_and_wait(self, type_: str, payload: Any = None, /, **options: Any) -> Any:
        """Submit a job, suspend the handler until it has ended, and return its result. `options` are those of a
        `JobSpec`, such as `queue`. Raises `RunFailed` if the job does not succeed."""
        return await self._durable.run(_job_request(type_, payload, options))

    def submit_and_wait_sync(self, type_: str, payload: Any = None, /, **options: Any) -> Any:
        """Like `submit_and_wait`, for sync handlers."""
        return self._durable.run_sync(_job_request(type_, payload, options))

    async def transaction(
        self, name: str, function: Callable[..., Awaitable[Any]], /, *args: Any, **kwargs: Any
    ) -> Any:
        """Call `function(conn, ...)` in a transaction on Windlass's database that also records its result, so that its
        writes are committed exactly once. `conn` is an asyncpg connection."""
        return await self._durable.transaction(name, lambda conn: function(conn, *args, **kwargs))

    def transaction_sync(self, name: str, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Like `transaction`, for sync handlers: the methods of `conn` (execute, executemany, fetch, fetchrow,
        fetchval) are sync."""
        return self._durable.transaction_sync(name, lambda conn: function(conn, *args, **kwargs))

    def now(self) -> datetime:
        """Return the current time. It is recorded: every attempt gets the same value from this call."""
        return self._durable.now()

    def random(self) -> float:
        """Return a pseudorandom number in [0, 1): every attempt gets the same, until the job is started over."""
        return self._durable.random(self.idempotency_key)

    def progress(self, fraction: float, message: str | None = None, data: Any = None) -> Done:
        """Report the progress of the job: a fraction from 0 to 1, a message, and any JSON data.

        Works in async and sync handlers; awaiting the result is optional. Writes are batched: of the reports within an
        interval only the latest is written, and the last report of an attempt always is.
        """
        share, text = fraction_of(fraction), None if message is None else plain(str(message)[:MAX_MESSAGE])
        if self._redaction is not None:
            text = None if text is None else self._redaction.text(text)
            data = self._redaction.json(data)
        encode(data, field="data", limit=MAX_DATA)
        if self._context_data is not None:
            self._context_data.progress(self.id, self.fence, share, text, data)
        return DONE

    def stream(self, chunk: Any) -> Done:
        """Append a chunk, any JSON value, to the stream of the job, which clients can read while the handler runs.

        Works in async and sync handlers; awaiting the result is optional. Chunks are written in batches, and all of
        them before the job ends. A retried or resumed handler begins a new section of the stream.
        """
        if self._context_data is not None:
            if self._stream is None:
                self._stream = HandlerStream(self.id, self.fence, self.attempt, self._context_data.stream)
            self._stream.append(chunk if self._redaction is None else self._redaction.json(chunk))
        return DONE

    @property
    def suspended(self) -> Suspended | None:
        """The outcome if the handler is suspended, else None. Read by the worker, not by handlers."""
        return None if self._calls is None else self._calls.suspended

    @property
    def _durable(self) -> DurableCalls:
        if self._calls is None:
            self._calls = DurableCalls(
                self.id, self.fence, self._context_data, self._recorded, claim=self._job, executor=self._executor
            )
        return self._calls

    def cancel(self) -> None:
        """Mark the attempt as cancelled. Called by the worker, not by handlers."""
        self._stopped = True
        if self._cancel_event is not None:
            self._cancel_event.set()

    def keep(self, level: str, message: str, at: datetime | None = None) -> None:
        """Store a log line, up to MAX_LINES per attempt. During replay nothing is stored: an earlier attempt did it."""
        if self._recorded and self._durable.is_replaying:
            return
        if self._redaction is not None:
            message = self._redaction.text(message)
        self._lines += 1
        if self._lines > MAX_LINES + 1:
            return
        if self._lines == MAX_LINES + 1:
            level, message = "WARNING", f"more than {MAX_LINES} lines: the rest of this attempt is not stored"
        self._keep(
            LogRow(
                self.id,
                self.epoch,
                self.attempt,
                (self.fence - 1) * (MAX_LINES + 1) + self._lines,  # sorts after the lines of earlier claims
                at or datetime.now(UTC),
                level,
                plain(message[:MAX_MESSAGE]),
            )
        )


def _job_request(type_: str, payload: Any, options: Mapping[str, Any]) -> RunRequest:
    try:
        return RunRequest(job=JobSpec(type=type_, payload={} if payload is None else payload, **options))
    except (TypeError, Invalid) as error:
        raise NonRetryable(f"the job cannot be submitted: {error}") from None


def current() -> Context | None:
    """Return the context of the handler that is running in this task or thread, if any."""
    return _current.get()


def context_of(task: Any) -> Context | None:
    """Return the context of the handler that started this task, if any; always None before Python 3.12."""
    get_context = getattr(task, "get_context", None)
    return get_context().get(_current) if get_context is not None else None


def enter(context: Context | None) -> None:
    """Set the context that this task's log lines are attributed to; None for no handler."""
    _current.set(context)


class LineKeeper(logging.Handler):
    """Stores log records that are emitted inside a handler with the handler's job."""

    def emit(self, record: logging.LogRecord) -> None:
        context = _current.get()
        if context is not None:
            try:
                context.keep(record.levelname, self.format(record))
            except Exception:
                self.handleError(record)


_keeper = LineKeeper()


def keep_lines() -> None:
    """Install the log handler, once per process. `ctx.log.info` is stored regardless of the root logger's level."""
    root = logging.getLogger()
    if _keeper not in root.handlers:
        root.addHandler(_keeper)
    if job_logger.level == logging.NOTSET:
        job_logger.setLevel(logging.INFO)

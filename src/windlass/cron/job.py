"""Jobs: checks a user's job at registration, applies its wrappers, and runs it (sync in a thread, async on the loop) in
its own task and context.

A job fails by raising, or by returning a `Failure` or an exception. Wrappers see every failure as an `Exception`;
`Skip` is the only exception that is not a failure.
"""

import asyncio
import contextvars
import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any, TypeVar

from windlass.cron.clock import Clock
from windlass.cron.context import EntryId, JobContext, enter, here
from windlass.cron.dependencies import JobResult
from windlass.cron.errors import InvalidJob
from windlass.effects.handlers import Threads
from windlass.errors import Invalid

logger = logging.getLogger("windlass.cron")
Job = Callable[..., Any]
Call = Callable[[], Awaitable[Any]]
Wrapper = Callable[[Call], Call]

T = TypeVar("T", bound=Callable[[], Any])


@dataclass(frozen=True, slots=True)
class LocalWrapper:
    """A wrapper that keeps state about other starts: its guarantee holds within one process only."""

    name: str
    wrap: Wrapper

    def __call__(self, call: Call) -> Call:
        return self.wrap(call)


@dataclass(frozen=True, slots=True)
class Failure:
    """Returned by a job to report a failure without raising."""

    error: BaseException | str


class JobFailed(Exception):
    """A job returned a failure, or raised a `BaseException` that is not an `Exception` (such as `SystemExit`)."""


class JobTimedOut(TimeoutError):
    """A job took longer than its `timeout` wrapper allows."""


class Skip(Exception):
    """Raised by wrappers that do not run a job, and by jobs with nothing to do. The result is skipped, not failure."""


@dataclass(frozen=True, slots=True)
class Ending:
    """How one run of a job ended."""

    result: JobResult
    error: BaseException | None = None
    logged: bool = False  # the error has been logged already
    output: Any = None  # what a successful job returned

    @property
    def reason(self) -> str:
        if self.error is None:
            return "it succeeded"
        text = str(self.error)
        if self.result is JobResult.SKIPPED or isinstance(self.error, JobFailed):
            return text
        return f"{type(self.error).__name__}: {text}" if text else type(self.error).__name__


SUCCESS = Ending(JobResult.SUCCESS)
Done = Callable[[JobContext, Ending, timedelta], None]


def wrapped(
    job: Job, wrappers: tuple[Wrapper, ...], args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
) -> Call:
    """Return the job with its arguments and wrappers applied; the first wrapper is the outermost."""
    check_job(job, args, kwargs or {})
    call = _called(job, args, kwargs or {})
    for wrapper in reversed(wrappers):
        call = wrap(wrapper, call)
    return call


async def outcome(call: Call) -> Ending:
    """Run a wrapped job and return how it ended. Never raises, so that the caller's bookkeeping always runs."""
    context = here()
    try:
        output = await call()
    except Skip as skip:
        return Ending(JobResult.SKIPPED, skip)
    except BaseException as error:
        return Ending(JobResult.FAILURE, error, logged=error is context.recovered)
    if context.recovered is not None and not context.execution_id:
        return Ending(JobResult.FAILURE, context.recovered, logged=True)
    return SUCCESS if output is None else Ending(JobResult.SUCCESS, output=output)


class Runner:
    """Runs jobs, each in its own task and context, and counts them so that callers can wait for their end."""

    def __init__(self, clock: Clock, threads: int) -> None:
        self.clock = clock
        self._threads_allowed = threads
        self._threads: Threads | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._base = contextvars.Context()
        self._tasks: set[asyncio.Task[None]] = set()
        self._running: dict[EntryId, set[JobContext]] = {}
        self._count = self._parked = 0
        self._waiters: list[asyncio.Future[None]] = []

    def attach(self) -> None:
        """Run jobs on the current loop, with the context variables of the code that started the scheduler."""
        self._loop = asyncio.get_running_loop()
        self._base = contextvars.copy_context()

    def detach(self) -> None:
        self._loop = None
        if self._threads is not None:
            self._threads.close()
            self._threads = None

    def launch(self, context: JobContext, call: Call, done: Done) -> None:
        assert self._loop is not None, "jobs start only while a loop is attached"
        self._running.setdefault(context.entry_id, set()).add(context)
        self._count += 1
        task = self._loop.create_task(self._run(context, call, done), context=self._base.copy())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def is_running(self, entry: EntryId) -> bool:
        return entry in self._running

    @property
    def running(self) -> list[str]:
        """The names of the entries whose jobs are running."""
        return sorted({context.name for contexts in self._running.values() for context in contexts})

    @property
    def busy(self) -> bool:
        return bool(self._running)

    def cancel(self, entry: EntryId) -> None:
        """Mark an entry's running jobs as cancelled."""
        for context in list(self._running.get(entry, ())):
            context.cancel()

    def cancel_all(self) -> None:
        for entry in list(self._running):
            self.cancel(entry)

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait until `holds()` is true. It is checked whenever a job ends or starts or stops waiting."""
        while not holds():
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            await waiter

    def settled(self) -> bool:
        """Return whether every running job is waiting for the clock or for another job."""
        return self._count == self._parked

    def park(self, jobs: int) -> None:
        self._parked += jobs
        self._changed()

    async def in_thread(self, call: Callable[[], Any]) -> Any:
        if self._threads is None:
            self._threads = Threads(self._threads_allowed)
        return await self._threads.run(call)

    async def _run(self, context: JobContext, call: Call, done: Done) -> None:
        enter(context)
        began = self.clock.now()
        ending = await outcome(call)
        self._count -= 1
        contexts = self._running[context.entry_id]
        contexts.discard(context)
        if not contexts:
            del self._running[context.entry_id]
        try:
            done(context, ending, self.clock.now() - began)
        finally:
            self._changed()  # wake the waiters even if `done` raised

    def _changed(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)


def notify(callback: Callable[..., object] | None, *values: Any) -> None:
    """Call a wrapper's callback. An exception from it is logged and does not fail the job."""
    try:
        if callback is not None:
            callback(*values)
    except BaseException:
        logger.exception("a callback of job %s raised", here().name)


def _called(job: Job, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Call:
    bound = partial(job, *args, **kwargs) if args or kwargs else job
    if inspect.iscoroutinefunction(job) or inspect.iscoroutinefunction(type(job).__call__):
        return lambda: _awaited(bound)
    return lambda: _threaded(bound)


async def _awaited(job: Job) -> Any:
    try:
        return _checked(await job())
    except (Exception, asyncio.CancelledError):
        raise
    except BaseException as error:  # SystemExit would end the event loop; wrappers catch only Exception
        raise JobFailed(f"the job raised {error!r}") from error


async def _threaded(job: Job) -> Any:
    value, error = await here().host.in_thread(lambda: _caught(job))
    if error is None and inspect.isawaitable(value):  # a lambda around a coroutine function
        return await _awaited(lambda: value)
    if error is None:
        return _checked(value)
    if isinstance(error, Exception) and not isinstance(error, StopIteration):
        raise error
    raise JobFailed(f"the job raised {error!r}") from error


def _caught(job: Job) -> tuple[Any, BaseException | None]:
    """Call the job and return its value or its exception: a future cannot carry some exceptions (`StopIteration`)."""
    try:
        return job(), None
    except BaseException as error:
        return None, error


def _checked(value: Any) -> Any:
    if isinstance(value, Failure):
        value = value.error
        if not isinstance(value, BaseException):
            raise JobFailed(value)
    if isinstance(value, BaseException):
        raise value if isinstance(value, Exception) else JobFailed(repr(value))
    return value


def check_job(job: object, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
    """Raise `InvalidJob` unless `job(*args, **kwargs)` is a call that can be made and runs the job's body."""
    if not callable(job):
        raise InvalidJob(job, "is not callable")
    for function in (job, type(job).__call__):
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise InvalidJob(job, "is a generator: calling it would not run its body; let a plain function iterate it")
    if misfit := _misfit(job, args, kwargs):
        raise InvalidJob(job, f"cannot be called: {misfit}; give its arguments with args= and kwargs=")


def wrap(wrapper: Callable[[T], T], call: T) -> T:
    """Return `wrapper(call)`; refuse a wrapper that was given without its options (`timeout`, not `timeout("30s")`)."""
    if not callable(wrapper):
        raise Invalid(f"wrappers: {wrapper!r} is not a wrapper", field="wrappers")
    name = getattr(wrapper, "__name__", type(wrapper).__name__)
    hint = f"if it takes options, call it: {name}(...)"
    try:
        wrapped = wrapper(call)
    except (TypeError, Invalid) as error:
        raise Invalid(f"wrappers: {name} cannot wrap a job: {error}; {hint}", field="wrappers") from error
    if not callable(wrapped) or _misfit(wrapped, (), {}):
        raise Invalid(f"wrappers: {name} did not return an async function without parameters; {hint}", field="wrappers")
    return wrapped


def _misfit(call: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str | None:
    """Return why a call with these arguments would raise a TypeError; None if it would not or if that is unknown."""
    try:
        signature = inspect.signature(call)
    except (TypeError, ValueError):  # some builtins have no signature
        return None
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        return str(error)
    return None

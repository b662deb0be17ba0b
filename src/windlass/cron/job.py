"""Calls a user's job, sync in a thread and async on the loop, and tells how it ended.

A job fails by raising, or by returning a `Failure` or an exception. Inside the wrappers every failure is an
`Exception`, so they need to know only one kind; `Skip` is the one exception that is no failure.
"""

import inspect
import logging
from asyncio import CancelledError
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from windlass.cron.executions.context import here
from windlass.cron.executions.result import JobResult
from windlass.cron.job_check import check_job, wrap

logger = logging.getLogger("windlass.cron")
Job = Callable[..., Any]
Call = Callable[[], Awaitable[Any]]
Wrapper = Callable[[Call], Call]


@dataclass(frozen=True, slots=True)
class LocalWrapper:
    """A wrapper that remembers other starts: what it promises holds within this process, not among several."""

    name: str
    wrap: Wrapper

    def __call__(self, call: Call) -> Call:
        return self.wrap(call)


@dataclass(frozen=True, slots=True)
class Failure:
    """Returned by a job that failed and does not want to raise."""

    error: BaseException | str


class JobFailed(Exception):
    """A job said so by what it returned, or it raised something no job should (`SystemExit`)."""


class JobTimedOut(TimeoutError):
    """A job took longer than its `timeout` wrapper allows."""


class Skip(Exception):
    """Not run, on purpose: raised by wrappers, and by jobs that find nothing to do. Counts as skipped, not failed."""


@dataclass(frozen=True, slots=True)
class Ending:
    """How one run of a job ended."""

    result: JobResult
    error: BaseException | None = None
    told: bool = False  # the error has been logged already
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


def wrapped(
    job: Job, wrappers: tuple[Wrapper, ...], args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
) -> Call:
    """The job as the scheduler calls it; the first wrapper is the outermost."""
    check_job(job, args, kwargs or {})
    call = _called(job, args, kwargs or {})
    for wrapper in reversed(wrappers):
        call = wrap(wrapper, call)
    return call


async def outcome(call: Call) -> Ending:
    """Run a wrapped job. Never raises, whatever the job or a wrapper raised: the bookkeeping comes after this."""
    context = here()
    try:
        output = await call()
    except Skip as skip:
        return Ending(JobResult.SKIPPED, skip)
    except BaseException as error:
        return Ending(JobResult.FAILURE, error, told=error is context.recovered)
    if context.recovered is not None and not context.execution_id:
        return Ending(JobResult.FAILURE, context.recovered, told=True)
    return SUCCESS if output is None else Ending(JobResult.SUCCESS, output=output)


def tell(callback: Callable[..., object] | None, *news: Any) -> None:
    """Call a wrapper's callback; what it raises is logged and is not the job's failure."""
    try:
        if callback is not None:
            callback(*news)
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
    except (Exception, CancelledError):
        raise
    except BaseException as error:  # SystemExit would end the event loop, others would pass the wrappers by
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
    """Some exceptions cannot pass through a future, so they come as values."""
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

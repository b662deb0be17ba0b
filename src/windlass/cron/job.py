"""Calls a user's job, sync in a thread and async on the loop, and returns its result.

A job fails by raising, or by returning a `Failure` or an exception. Wrappers see every failure as an `Exception`;
`Skip` is the only exception that is not a failure.
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
        return Ending(JobResult.FAILURE, error, told=error is context.recovered)
    if context.recovered is not None and not context.execution_id:
        return Ending(JobResult.FAILURE, context.recovered, told=True)
    return SUCCESS if output is None else Ending(JobResult.SUCCESS, output=output)


def tell(callback: Callable[..., object] | None, *news: Any) -> None:
    """Call a wrapper's callback. An exception from it is logged and does not fail the job."""
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

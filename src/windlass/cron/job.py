"""Checks a user's job at registration, calls it (sync in a thread, async on the loop) and returns its result.

A job fails by raising, or by returning a `Failure` or an exception. Wrappers see every failure as an `Exception`;
`Skip` is the only exception that is not a failure.
"""

import inspect
import logging
from asyncio import CancelledError
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from windlass.cron.context import here
from windlass.cron.dependencies import JobResult
from windlass.cron.errors import InvalidJob
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

"""Rejects invalid jobs and wrappers at registration rather than at every tick."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from windlass.cron.errors import InvalidJob
from windlass.errors import Invalid

T = TypeVar("T", bound=Callable[[], Any])


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

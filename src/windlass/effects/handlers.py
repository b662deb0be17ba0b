"""Registers handlers by job type, converts payloads to their arguments, and runs them."""

import asyncio
import contextvars
import inspect
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

from windlass.core.artifacts import MAX_OUTPUT, OUTPUT
from windlass.core.jobs.job import Failed, Outcome, Succeeded
from windlass.core.jobs.retry import Retry
from windlass.core.jobs.spec import OWN_PREFIX
from windlass.core.json_value import RESULT_LIMIT, encode, exceeds, plain
from windlass.effects.context import Context, current, enter
from windlass.effects.durable import Suspend
from windlass.effects.outcomes import failed, message_of
from windlass.effects.payload_types import PayloadType, payload_type
from windlass.errors import Invalid, NonRetryable, RetryAfter

NOTHING = Succeeded("null")  # the outcome of a handler that returned None


@dataclass(frozen=True, slots=True, eq=False)
class Handler:
    """A function that serves a type, or every type that matches a LIKE pattern."""

    type: str
    call: Callable[..., Any]
    is_async: bool
    wants_context: bool
    parameters: Mapping[str, bool]  # name -> required
    takes_any: bool  # has **kwargs
    takes_whole: bool  # its only parameter is `payload`
    positional: Sequence[str] = ()  # parameters that the items of an array payload are passed to
    takes_more: bool = False  # has *args
    retry: Retry | None = None
    max_attempts: int = 3
    timeout: timedelta | None = None
    concurrency: int | None = None
    queue: str = "default"
    context_name: str | None = None  # name of the context parameter
    wants_upstream: bool = True  # only used if it takes the context
    keeps_time: bool = False  # it enforces its timeout itself, and reports the failure in more detail
    is_detached: bool = False  # if this process ends, the work continues elsewhere and enforces its timeout there
    payload_type: PayloadType | None = None  # from its annotations, if it has any

    @classmethod
    def of(cls, type_: str, call: Callable[..., Any], **options: Any) -> "Handler":
        parameters = list(inspect.signature(call).parameters.values())
        wants_context = bool(parameters) and _is_context(parameters[0])
        for parameter in parameters:
            _check_reachable(type_, parameter, is_context=wants_context and parameter is parameters[0])
        named = [p for p in parameters[wants_context:] if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
        is_whole = [p.name for p in named] == ["payload"]
        takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters)
        takes_more = any(p.kind is p.VAR_POSITIONAL for p in parameters)
        if not type_.startswith(OWN_PREFIX):  # the payloads of the engine's own types are checked by the engine
            options["payload_type"] = payload_type(
                type_, call, named, is_whole=is_whole, takes_any=takes_any, takes_more=takes_more
            )
        return cls(
            type=type_,
            call=call,
            is_async=inspect.iscoroutinefunction(call),
            wants_context=wants_context,
            parameters={p.name: p.default is p.empty for p in named},
            takes_any=takes_any,
            takes_whole=is_whole,
            positional=tuple(p.name for p in named if p.kind is p.POSITIONAL_OR_KEYWORD),
            takes_more=takes_more,
            context_name=parameters[0].name if wants_context else None,
            **options,
        )

    def arguments(self, payload: Any) -> tuple[Sequence[Any], Mapping[str, Any]]:
        """Return the positional and named arguments for a payload; raise `Invalid`, naming the parameter, if it does
        not fit.

        The keys of an object become named arguments, the items of an array (`args` of the Open Job Spec) positional.
        """
        if self.takes_whole:
            whole = payload["payload"] if isinstance(payload, dict) and payload.keys() == {"payload"} else payload
            return (), {"payload": whole if self.payload_type is None else self.payload_type.convert_whole(whole)}
        if isinstance(payload, list):
            self._check_positional(payload)
            return payload if self.payload_type is None else self._converted_items(self.payload_type, payload), {}
        if payload is None:
            payload = {}
        if not isinstance(payload, dict):
            kind = type(payload).__name__
            raise Invalid(f"the payload is a {kind}: {self.type} takes named arguments, send an object or an array")
        self._check_named(payload)
        if self.payload_type is None:
            return (), payload
        converted = self.payload_type.convert(payload)
        return (), {**payload, **converted} if self.takes_any else converted

    def _converted_items(self, payload_type: PayloadType, args: Sequence[Any]) -> Sequence[Any]:
        named = dict(zip(self.positional, args, strict=False))
        return [*payload_type.convert(named).values(), *args[len(named) :]]

    def _check_positional(self, args: Sequence[Any]) -> None:
        if len(args) > len(self.positional) and not self.takes_more:
            takes = f"{len(self.positional)} ({', '.join(self.positional)})" if self.positional else "no arguments"
            raise Invalid(f"there are {len(args)} arguments: {self.type} takes {takes}", field="args")
        passed = set(self.positional[: len(args)])
        for name, required in self.parameters.items():
            if required and name not in passed:
                problem = f"there are {len(args)} arguments: {self.type} also requires {name!r}"
                raise Invalid(problem if name in self.positional else f"{problem}, by name: send an object", field=name)

    def _check_named(self, payload: Mapping[str, Any]) -> None:
        if payload.keys() == self.parameters.keys():  # the usual case, checked first: this is the hot path
            return
        for name, required in self.parameters.items():
            if required and name not in payload:
                raise Invalid(f"the payload has no {name!r}, which {self.type} requires", field=name)
        named = payload.keys() - self.parameters.keys()
        if unknown := named & {self.context_name} if self.takes_any else named:
            name = min(unknown)
            raise Invalid(f"the payload has {name!r}, but {self.type} has no such parameter", field=name)


class Handlers:
    """The handlers of an app. Exact types are matched first, then patterns in the order of registration."""

    def __init__(self) -> None:
        self._exact: dict[str, Handler] = {}
        self._patterns: list[tuple[re.Pattern[str], Handler]] = []

    def add(self, handler: Handler) -> None:
        if handler.type in self._exact or any(known.type == handler.type for _, known in self._patterns):
            raise Invalid(f"{handler.type} already has a handler", field="type")
        if "%" in handler.type:
            self._patterns.append((like(handler.type), handler))
        else:
            self._exact[handler.type] = handler

    def find(self, type_: str) -> Handler | None:
        handler = self._exact.get(type_)
        if handler is None and not type_.startswith(OWN_PREFIX):  # patterns never match the engine's own types
            handler = next((known for pattern, known in self._patterns if pattern.fullmatch(type_)), None)
        return handler

    def of_function(self, function: Callable[..., Any]) -> Handler | None:
        """Return the handler of a function, compared by equality: each access to a bound method makes a new object."""
        return next((handler for handler in self._exact.values() if handler.call == function), None)

    def exact(self) -> list[Handler]:
        """Return the handlers of exact types, except the engine's own."""
        return [handler for type_, handler in self._exact.items() if not type_.startswith(OWN_PREFIX)]

    def types(self) -> list[str]:
        return [*self._exact, *(handler.type for _, handler in self._patterns)]


def like(pattern: str) -> re.Pattern[str]:
    """Compile a SQL LIKE pattern to a regular expression: % matches any string, _ one character.

    A segment between two % is matched once, at its first occurrence (an atomic group). With a plain `.*` for each %,
    backtracking would try all combinations of occurrences: far too slow with several % and a string without a match.
    """
    segments = [""]
    for part in re.findall(r"\\.|.", pattern, re.DOTALL):  # a backslash escapes the next character
        if part == "%":
            segments.append("")
        else:
            segments[-1] += "." if part == "_" else re.escape(part[-1])
    first, *more = segments
    middle = "".join(f"(?>.*?{segment})" for segment in more[:-1] if segment)
    return re.compile(first + middle + "".join(f".*{segment}" for segment in more[-1:]), re.DOTALL)


class Threads:
    """A thread pool for sync handlers. A thread cannot be stopped: if its task is cancelled, it counts as abandoned
    until it returns."""

    def __init__(self, size: int) -> None:
        self._pool = ThreadPoolExecutor(size, thread_name_prefix="windlass-job")
        self._abandoned: dict[Future[Any], UUID | None] = {}  # call that still runs -> id of its job

    @property
    def abandoned(self) -> int:
        return len(self._abandoned)

    def occupied_by(self, job: UUID) -> bool:
        """Return whether an abandoned thread still runs the handler of this job."""
        return bool(self._abandoned) and job in tuple(self._abandoned.values())  # a copy: threads remove their entries

    async def run(self, call: Callable[[], Any]) -> Any:
        """Run `call` with this task's context variables; cancelling the task abandons the thread."""
        context = current()
        future = self._pool.submit(contextvars.copy_context().run, _call, call)
        try:
            return await asyncio.wrap_future(future)
        except asyncio.CancelledError:
            if not future.done():
                self._abandoned[future] = context.id if context is not None else None
                future.add_done_callback(lambda ended: self._abandoned.pop(ended, None))
            raise

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)


def _call(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except StopIteration as error:  # a future cannot carry it: awaiting it would never return
        raise RuntimeError("the handler raised StopIteration") from error


async def perform(
    handler: Handler, context: Context, payload: Any, threads: Threads, *, limit: int = RESULT_LIMIT
) -> Outcome:
    """Run a handler and return its outcome. Only cancellation is raised: the worker knows its reason.

    A result with more than `limit` bytes becomes an artifact.
    """
    enter(context)
    arguments = _arguments(handler, payload)
    if isinstance(arguments, Failed):
        return arguments
    args, named = arguments
    try:
        first = (context,) if handler.wants_context else ()
        if handler.is_async:
            context._executor = context._executor or asyncio.current_task()
            value = await handler.call(*first, *args, **named)
        else:
            value = await threads.run(lambda: _call_in_thread(context, lambda: handler.call(*first, *args, **named)))
            if inspect.isawaitable(value):  # a plain wrapper around an async function
                context._executor = asyncio.current_task()
                value = await value
    except asyncio.CancelledError:
        raise
    except (Exception, SystemExit, Suspend, BaseExceptionGroup) as error:
        return _stopped(context, error)
    if value is None and context.suspended is None:  # the usual case, without another coroutine
        return NOTHING
    return context.suspended or await _outcome(context, value, limit)


def _stopped(context: Context, error: BaseException) -> Outcome:
    """Return the outcome of a handler that raised this error."""
    match error:
        case NonRetryable():
            return failed(error, retryable=False)
        case RetryAfter():
            return failed(error, retry_after=error.delay)
        case Suspend():
            return context.suspended or failed(error)
        case BaseExceptionGroup():  # raised by a task group in which a call suspends the handler
            _, others = error.split(Suspend)
            return context.suspended or failed(error) if others is None else failed(others)
        case _:
            return failed(error)


def _arguments(handler: Handler, payload: Any) -> tuple[Sequence[Any], Mapping[str, Any]] | Failed:
    try:
        return handler.arguments(payload)
    except Invalid as error:
        return failed(error, retryable=False, trace=False)
    except Exception as error:  # raised by a validator of the user
        return failed(error)


def _call_in_thread(context: Context, call: Callable[[], Any]) -> Any:
    context._executor = threading.current_thread()
    return call()


async def _outcome(context: Context, value: Any, limit: int) -> Outcome:
    """Return the outcome of a handler that returned this value."""
    try:
        if isinstance(value, Outcome):
            outcome: Outcome = value
        else:
            outcome = Succeeded(encode(value, field="result", limit=MAX_OUTPUT, objects=True))
        if isinstance(outcome, Succeeded) and exceeds(outcome.result, limit):
            return await _as_artifact(context, outcome.result)
        return outcome
    except Invalid as error:
        return failed(error, retryable=False, trace=False)  # the work was done; a retry would return the same


async def _as_artifact(context: Context, result: str) -> Outcome:
    """Write a result that is too large for a row as an artifact; return its reference as the result."""
    data = result.encode()
    try:
        reference = await context.artifacts.write(OUTPUT, data)
    except asyncio.CancelledError:
        raise
    except Exception as error:
        message = f"the result is {len(data)} bytes, more than {RESULT_LIMIT}, and cannot be written as an artifact"
        return Failed({"type": type(error).__name__, "message": plain(f"{message}: {message_of(error)}")})
    return Succeeded(encode({"artifact": reference, "size": len(data)}, field="result"))


def reserved_type(type_: str, key: str) -> Failed:
    """Return the failure of a job with a built-in step type that the engine did not create for such a step.

    Plain SQL can write such a job, and it must not run even if the database has accepted it.
    """
    message = f"{type_} is reserved for `{key}` steps of workflows, and this job is not one: publish a workflow instead"
    return Failed({"type": "Reserved", "message": message}, retryable=False)


def _check_reachable(type_: str, parameter: inspect.Parameter, *, is_context: bool) -> None:
    """Raise `Invalid` if a parameter cannot be passed: the context is passed first, payload keys by name."""
    if is_context and parameter.kind is parameter.KEYWORD_ONLY:
        raise Invalid(f"the handler of {type_} takes {parameter.name!r} after a *: put it first", field=parameter.name)
    if not is_context and parameter.kind is parameter.POSITIONAL_ONLY:
        raise Invalid(
            f"the handler of {type_} takes {parameter.name!r} by position only: payload keys are passed by name",
            field=parameter.name,
        )


def _is_context(parameter: inspect.Parameter) -> bool:
    annotation = parameter.annotation
    return parameter.name == "ctx" or annotation is Context or annotation in ("Context", "windlass.Context")

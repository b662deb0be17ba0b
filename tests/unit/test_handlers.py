"""The arguments of a handler, converted from its payload, and the outcomes of handlers."""

import asyncio
import functools
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from windlass.core.jobs.job import Failed, Outcome, Succeeded
from windlass.core.json_value import decode
from windlass.effects.context import Context, current
from windlass.effects.handlers import Handler, Threads, perform
from windlass.errors import Invalid, NonRetryable, RetryAfter


def a_context() -> Context:
    lines: list[Any] = []
    now = datetime(2030, 1, 1, tzinfo=UTC)
    return Context(UUID(int=1), "a.b.v1", 1, 3, "default", 100, 1, now, {}, lines.append)


def serving(call: Callable[..., Any]) -> Handler:
    return Handler.of("a.b.v1", call)


async def outcome_of(call: Callable[..., Any], threads: Threads, payload: Any = None) -> Outcome:
    async with asyncio.timeout(30):
        return await perform(serving(call), a_context(), {} if payload is None else payload, threads)


async def failure_of(call: Callable[..., Any], threads: Threads, payload: Any = None) -> Failed:
    outcome = await outcome_of(call, threads, payload)
    assert isinstance(outcome, Failed)
    return outcome


def thumbnail(ctx: Context, content_id: str, width: int = 300) -> None: ...


def no_context(content_id: str, width: int = 300) -> None: ...


def annotated(job: Context, content_id: str) -> None: ...


def keyword_only(ctx: Context, *, content_id: str) -> None: ...


def open_ended(ctx: Context, **rest: Any) -> None: ...


def open_ended_with(ctx: Context, content_id: str, **rest: Any) -> None: ...


def whole(ctx: Context, payload: Any) -> None: ...


def whole_alone(payload: Any) -> None: ...


def nothing() -> None: ...


def only_context(ctx: Context) -> None: ...


# Binding


@pytest.mark.parametrize(
    ("call", "payload", "arguments"),
    [
        (thumbnail, {"content_id": "c"}, {"content_id": "c"}),
        (thumbnail, {"content_id": "c", "width": 5}, {"content_id": "c", "width": 5}),
        (no_context, {"content_id": "c"}, {"content_id": "c"}),
        (annotated, {"content_id": "c"}, {"content_id": "c"}),
        (keyword_only, {"content_id": "c"}, {"content_id": "c"}),
        (open_ended, {"a": 1, "b": 2}, {"a": 1, "b": 2}),
        (open_ended_with, {"content_id": "c", "b": 2}, {"content_id": "c", "b": 2}),
        (whole, {"a": 1}, {"payload": {"a": 1}}),
        (whole, [1, 2], {"payload": [1, 2]}),
        (whole, "text", {"payload": "text"}),
        (whole, None, {"payload": None}),
        (whole, {"payload": 1}, {"payload": 1}),
        (whole_alone, {"payload": 1, "more": 2}, {"payload": {"payload": 1, "more": 2}}),
        (nothing, {}, {}),
        (nothing, None, {}),
        (only_context, None, {}),
    ],
    ids=lambda value: value.__name__ if callable(value) else str(value),
)
def test_payload_keys_become_arguments(call: Callable[..., Any], payload: Any, arguments: dict[str, Any]) -> None:
    assert serving(call).arguments(payload) == ((), arguments)


def listing(ctx: Context, *args: Any) -> None: ...


@pytest.mark.parametrize(
    ("call", "payload"),
    [
        (nothing, []),
        (only_context, []),
        (thumbnail, ["c"]),
        (thumbnail, ["c", 5]),
        (no_context, ["c"]),
        (listing, []),
        (listing, [1, [2], {"a": 3}]),
    ],
    ids=lambda value: value.__name__ if callable(value) else str(value),
)
def test_the_items_of_an_array_are_positional_arguments(call: Callable[..., Any], payload: list[Any]) -> None:
    assert serving(call).arguments(payload) == (payload, {})


@pytest.mark.parametrize(
    ("call", "payload", "told"),
    [
        (nothing, [1], "there are 1 arguments: a.b.v1 takes no arguments"),
        (thumbnail, [], "there are 0 arguments: a.b.v1 also requires 'content_id'"),
        (thumbnail, ["c", 5, 6], "there are 3 arguments: a.b.v1 takes 2 (content_id, width)"),
        (keyword_only, [], "there are 0 arguments: a.b.v1 also requires 'content_id', by name: send an object"),
    ],
    ids=lambda value: value.__name__ if callable(value) else str(value),
)
async def test_too_many_or_too_few_positional_arguments_fail_without_retry(
    call: Callable[..., Any], payload: list[Any], told: str, threads: Threads
) -> None:
    failure = await failure_of(call, threads, payload)
    assert (failure.retryable, failure.error["message"].partition(";")[0]) == (False, told)


async def test_a_handler_is_called_with_the_items_of_an_array(threads: Threads) -> None:
    async def summed(ctx: Context, first: int, *rest: int) -> int:
        return first + sum(rest) + ctx.attempt

    assert await outcome_of(summed, threads, [1, 2, 3]) == Succeeded("7")


@pytest.mark.parametrize(
    ("call", "payload", "named"),
    [
        (thumbnail, {}, "content_id"),
        (thumbnail, None, "content_id"),
        (thumbnail, {"width": 5}, "content_id"),
        (thumbnail, {"content_id": "c", "height": 5}, "height"),
        (thumbnail, {"content_id": "c", "ctx": 5}, "ctx"),
        (keyword_only, {}, "content_id"),
        (open_ended_with, {"b": 2}, "content_id"),
        (open_ended, {"ctx": 5}, "ctx"),  # a key of the payload cannot replace the context
        (nothing, {"a": 1}, "a"),
        (only_context, {"ctx": 1}, "ctx"),
    ],
    ids=lambda value: value.__name__ if callable(value) else str(value),
)
async def test_a_mismatched_payload_fails_without_retry_and_names_the_parameter(
    call: Callable[..., Any], payload: Any, named: str, threads: Threads
) -> None:
    failure = await failure_of(call, threads, payload)
    assert not failure.retryable
    assert repr(named) in failure.error["message"]


@pytest.mark.parametrize("payload", ["text", 5, True], ids=repr)
async def test_a_payload_that_is_neither_object_nor_array_cannot_name_arguments(payload: Any, threads: Threads) -> None:
    failure = await failure_of(thumbnail, threads, payload)
    assert not failure.retryable
    assert "send an object" in failure.error["message"]


def takes_positional_only(ctx: Context, content_id: str, /) -> str:
    return content_id


def takes_context_by_name(*, ctx: Context) -> int:
    return ctx.attempt


@pytest.mark.parametrize(("call", "named"), [(takes_positional_only, "content_id"), (takes_context_by_name, "ctx")])
def test_an_unsupported_kind_of_parameter_is_refused_when_the_handler_is_registered(
    call: Callable[..., Any], named: str
) -> None:
    with pytest.raises(Invalid, match=named):
        serving(call)


class Service:
    async def handle(self, ctx: Context, n: int) -> int:
        return n + ctx.attempt


async def test_methods_and_partials_are_handlers_too(threads: Threads) -> None:
    assert await outcome_of(Service().handle, threads, {"n": 1}) == Succeeded("2")
    assert await outcome_of(functools.partial(Service().handle, n=5), threads, {"n": 2}) == Succeeded("3")


# Outcomes


async def test_a_sync_handler_runs_in_a_thread_and_an_async_one_on_the_loop(threads: Threads) -> None:
    loop = asyncio.get_running_loop()

    def in_thread(n: int) -> dict[str, Any]:
        with pytest.raises(RuntimeError):
            asyncio.get_running_loop()
        return {"n": n}

    async def on_loop(n: int) -> list[int]:
        assert asyncio.get_running_loop() is loop
        return [n]

    assert await outcome_of(in_thread, threads, {"n": 1}) == Succeeded('{"n":1}')
    assert await outcome_of(on_loop, threads, {"n": 1}) == Succeeded("[1]")


async def test_sync_and_async_handlers_can_read_their_context(threads: Threads) -> None:
    def in_thread(ctx: Context) -> bool:
        return current() is ctx

    async def on_loop(ctx: Context) -> bool:
        return current() is ctx

    assert await outcome_of(in_thread, threads) == await outcome_of(on_loop, threads) == Succeeded("true")


def both(raising: Callable[[], Any]) -> list[Callable[..., Any]]:
    def in_thread() -> Any:
        return raising()

    async def on_loop() -> Any:
        return raising()

    return [in_thread, on_loop]


def raise_(error: BaseException) -> Callable[[], Any]:
    def call() -> Any:
        raise error

    return call


@pytest.mark.parametrize("call", both(raise_(ValueError("no such file"))))
async def test_an_exception_is_a_failure_with_its_message_and_its_traceback(
    call: Callable[..., Any], threads: Threads
) -> None:
    failure = await failure_of(call, threads)
    assert failure.retryable
    assert failure.retry_after is None
    assert (failure.error["type"], failure.error["message"]) == ("ValueError", "no such file")
    assert "test_handlers.py" in failure.error["traceback"]


@pytest.mark.parametrize("call", both(raise_(NonRetryable("the card is stolen"))))
async def test_a_handler_can_fail_its_job_without_retry(call: Callable[..., Any], threads: Threads) -> None:
    failure = await failure_of(call, threads)
    assert not failure.retryable
    assert failure.error["message"] == "the card is stolen"


@pytest.mark.parametrize("call", [*both(raise_(RetryAfter(90))), *both(raise_(RetryAfter(timedelta(seconds=90))))])
async def test_a_handler_can_set_the_delay_of_its_retry(call: Callable[..., Any], threads: Threads) -> None:
    failure = await failure_of(call, threads)
    assert failure.retryable
    assert failure.retry_after == timedelta(seconds=90)


@pytest.mark.parametrize("call", both(raise_(SystemExit(3))))
async def test_a_handler_that_exits_fails_its_job_and_not_the_worker(
    call: Callable[..., Any], threads: Threads
) -> None:
    failure = await failure_of(call, threads)
    assert failure.retryable
    assert failure.error["type"] == "SystemExit"


@pytest.mark.parametrize("call", both(lambda: next(iter(()))))
async def test_a_stray_stop_iteration_is_a_failure_and_never_a_hang(call: Callable[..., Any], threads: Threads) -> None:
    assert (await failure_of(call, threads)).retryable


@pytest.mark.parametrize("value", [object, {1}, float("nan"), "\x00", b"x", ["\ud800"]], ids=ascii)
async def test_a_result_that_cannot_be_stored_fails_the_job_without_retry(value: Any, threads: Threads) -> None:
    for call in both(lambda: value):
        failure = await failure_of(call, threads)
        assert not failure.retryable
        assert failure.error["message"].startswith("result ")


async def test_a_handler_without_a_result_has_the_result_null(threads: Threads) -> None:
    assert [await outcome_of(call, threads) for call in both(lambda: None)] == [Succeeded("null")] * 2


@pytest.mark.parametrize(
    "text", ["a\x00b", "half \ud800 a pair", "x" * 100_000, ""], ids=["nul", "half", "long", "none"]
)
async def test_any_error_message_is_made_storable(text: str, threads: Threads) -> None:
    for call in both(raise_(ValueError(text))):
        failure = await failure_of(call, threads)
        assert failure.error["message"]
        for told in failure.error.values():
            assert "\x00" not in told
            assert len(told.encode()) < 100_000


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


@pytest.mark.parametrize("call", both(raise_(Unprintable())))
async def test_an_exception_whose_message_cannot_be_read_is_a_failure(
    call: Callable[..., Any], threads: Threads
) -> None:
    assert (await failure_of(call, threads)).error["type"] == "Unprintable"


async def test_only_cancellation_propagates_out_of_a_handler(threads: Threads) -> None:
    started = asyncio.Event()

    async def patient() -> None:
        started.set()
        await asyncio.Event().wait()

    task = asyncio.create_task(perform(serving(patient), a_context(), {}, threads))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_the_thread_of_a_cancelled_handler_counts_as_abandoned(threads: Threads) -> None:
    context, running = a_context(), asyncio.Event()
    loop = asyncio.get_running_loop()

    def stubborn(ctx: Context) -> None:
        loop.call_soon_threadsafe(running.set)
        assert ctx.wait_cancelled(10)

    task = asyncio.create_task(perform(serving(stubborn), context, {}, threads))
    await running.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert threads.abandoned == 1
    context.cancel()
    assert await outcome_of(lambda: 1, threads) == Succeeded("1")


def test_the_default_result_is_json_null() -> None:
    assert decode(Succeeded().result) is None

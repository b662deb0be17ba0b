"""Jobs: arguments, results, the outputs that children read, and invalid jobs, which are refused immediately."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from typing import Any

import pytest

from tests.cron.recorder import Recorder
from windlass.cron import (
    Cron,
    FakeClock,
    InvalidJob,
    JobResult,
    Skip,
    Workflow,
    circuit_breaker,
    jitter,
    job_context,
    max_concurrent,
    recover,
    retry_with_backoff,
    skip_if_running,
    timeout,
)
from windlass.errors import Invalid

PATIENCE = 5.0


class Odd(BaseException):
    """A custom `BaseException` that is not an `Exception`."""


def upstream() -> dict[str, Any]:
    context = job_context()
    assert context is not None
    return dict(context.upstream)


# Arguments


async def test_a_job_is_called_with_its_arguments(cron: Cron) -> None:
    seen: list[object] = []

    async def on_loop(*args: object, **kwargs: object) -> None:
        seen.append((args, kwargs))

    @cron.job(args=("eu", 3), kwargs={"dry": True})
    def in_thread(region: str, count: int, *, dry: bool) -> None:
        seen.append((region, count, dry))

    cron.add("@triggered", on_loop, name="on_loop", args=[1], kwargs={"two": 2})
    await cron.trigger("on_loop")
    await cron.trigger("in_thread")
    assert seen == [((1,), {"two": 2}), ("eu", 3, True)]
    entry = cron.entry("in_thread")
    assert entry is not None
    assert (entry.args, entry.kwargs) == (("eu", 3), {"dry": True})


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({}, "missing a required argument: 'day'"),
        ({"args": [1, 2]}, "too many positional arguments"),
        ({"kwargs": {"day": 1, "nobody": 2}}, "unexpected keyword argument 'nobody'"),
    ],
)
def test_arguments_that_do_not_match_the_signature_are_refused_immediately(
    cron: Cron, options: dict[str, Any], says: str
) -> None:
    def report(day: int) -> None: ...

    with pytest.raises(InvalidJob, match=says) as raised:
        cron.add("@hourly", report, **options)
    assert "job report" in str(raised.value)
    assert "args=" in str(raised.value)
    assert cron.entries() == []


@pytest.mark.parametrize(("option", "value"), [("args", "abc"), ("args", 5), ("kwargs", [1]), ("kwargs", {1: 2})])
def test_args_and_kwargs_of_the_wrong_type_are_refused_with_the_option_name(
    cron: Cron, option: str, value: object
) -> None:
    with pytest.raises(Invalid, match=f"^{option} is ") as raised:
        cron.add("@hourly", print, **{option: value})  # type: ignore[arg-type]
    assert raised.value.field == option


# Refused jobs and options


def generator() -> Iterator[int]:
    yield 1


async def async_generator() -> AsyncIterator[int]:
    yield 1


class GeneratorObject:
    def __call__(self) -> Iterator[int]:
        yield 1


@pytest.mark.parametrize(
    "job",
    [generator, async_generator, partial(generator), GeneratorObject()],
    ids=["function", "async function", "partial", "object"],
)
def test_generators_are_refused_as_jobs(cron: Cron, job: Callable[[], object]) -> None:
    with pytest.raises(InvalidJob, match="is a generator"):
        cron.add("@hourly", job)
    assert cron.entries() == []


def test_a_decorator_without_parentheses_is_refused(cron: Cron) -> None:
    with pytest.raises(Invalid, match=r"write @cron\.job\("):

        @cron.job  # type: ignore[arg-type]
        def job() -> None: ...


def test_two_schedules_on_one_function_need_a_second_name(cron: Cron) -> None:
    def stack() -> None:
        @cron.job("@hourly")
        @cron.job("@daily")
        def report() -> None: ...

    with pytest.raises(Exception, match="give this one another name"):
        stack()

    @cron.job("@hourly", name="hourly")
    @cron.job("@weekly", name="weekly")
    def other() -> None: ...

    assert {entry.name for entry in cron.entries()} == {"report", "hourly", "weekly"}


@pytest.mark.parametrize(
    "wrapper",
    [timeout, jitter, retry_with_backoff, recover, skip_if_running, max_concurrent, circuit_breaker],
    ids=lambda wrapper: wrapper.__name__,
)
def test_a_wrapper_factory_that_was_not_called_is_refused(cron: Cron, wrapper: Any) -> None:
    with pytest.raises(Invalid, match=rf"call it: {wrapper.__name__}\(") as raised:
        cron.add("@hourly", print, wrappers=[wrapper])
    assert raised.value.field == "wrappers"
    assert cron.entries() == []


def test_a_custom_wrapper_factory_that_was_not_called_is_refused(cron: Cron) -> None:
    def factory(options: object) -> Callable[[Any], Any]:
        return lambda call: call

    with pytest.raises(Invalid, match="without parameters"):
        cron.add("@hourly", print, wrappers=[factory])  # type: ignore[list-item]


@pytest.mark.parametrize("value", ["abc", 5])
def test_tags_must_be_a_list(cron: Cron, value: Any) -> None:
    with pytest.raises(Invalid, match=r"^tags is .*it must be a list") as raised:
        cron.add("@hourly", print, tags=value)
    assert raised.value.field == "tags"


async def test_a_single_wrapper_is_accepted_without_a_list(cron: Cron) -> None:
    cron.add("@triggered", print, name="a", wrappers=skip_if_running())
    assert (await cron.trigger("a")).result("a") is JobResult.SUCCESS
    assert len(Cron(wrappers=recover()).options.wrappers) == 1


@pytest.mark.parametrize(
    "options", [{"max_retries": 1.5}, {"max_retries": -2}, {"initial": "soon"}, {"longest": -1}, {"multiplier": "2"}]
)
def test_invalid_retry_options_are_refused_when_the_wrapper_is_created(options: dict[str, Any]) -> None:
    with pytest.raises(Invalid) as raised:
        retry_with_backoff(**{"max_retries": 3, **options})
    assert raised.value.field == next(iter(options))


# Return values


async def test_awaiting_a_trigger_returns_the_output_and_the_entry_stores_it(cron: Cron) -> None:
    cron.add("@triggered", lambda: {"rows": 7}, name="count")
    handle = cron.trigger("count")
    assert handle == ""  # nothing depends on it: it runs alone
    execution = await handle
    assert execution.complete
    assert execution.output("count") == {"rows": 7}
    entry = cron.entry("count")
    assert entry is not None
    assert entry.last_run is not None
    assert (entry.last_run.result, entry.last_run.output) == (JobResult.SUCCESS, {"rows": 7})


async def test_awaiting_a_trigger_returns_failures_and_skips_with_their_reasons(cron: Cron, recorder: Recorder) -> None:
    async def nothing_to_do() -> None:
        raise Skip("no news")

    cron.add("@triggered", recorder.failing("broken"), name="broken")
    cron.add("@triggered", nothing_to_do, name="idle")
    broken, idle = await cron.trigger("broken"), await cron.trigger("idle")
    assert (broken.result("broken"), list(broken.reasons.values())) == (
        JobResult.FAILURE,
        ["ValueError: broken is broken"],
    )
    assert (idle.result("idle"), list(idle.reasons.values())) == (JobResult.SKIPPED, ["no news"])


async def test_children_read_the_outputs_of_their_parents(cron: Cron, recorder: Recorder) -> None:
    cron.add("@triggered", lambda: 22, name="root")
    cron.add("@triggered", recorder.failing("broken"), name="broken", after="root")
    cron.add("@triggered", lambda: sum(upstream().values()), name="doubled", after="root")
    cron.add(
        "@triggered", upstream, name="joined", after={"root": "success", "broken": "complete", "doubled": "success"}
    )
    execution = await cron.trigger("root")
    assert execution.output("doubled") == 22
    assert execution.output("joined") == {"root": 22, "doubled": 22}  # a parent that failed returned nothing
    assert execution.outputs == {**execution.outputs, execution.root_id: 22}
    assert execution.name == "root"


def test_a_thread_can_wait_for_a_trigger(clock: FakeClock) -> None:
    held = asyncio.Event()

    async def hold() -> str:
        await held.wait()
        return "done"

    with Cron(clock=clock) as cron:
        cron.add("@triggered", hold, name="hold")
        handle = cron.trigger("hold")
        assert handle.wait("10ms") is None
        assert cron._gate.loop is not None
        cron._gate.loop.call_soon_threadsafe(held.set)
        execution = handle.wait(PATIENCE)
    assert execution is not None
    assert execution.output("hold") == "done"


async def test_a_stop_wakes_the_waiters_of_an_incomplete_execution(clock: FakeClock, recorder: Recorder) -> None:
    cron = Cron(clock=clock)
    job, gate = recorder.held("root")
    cron.add("@triggered", job, name="root")
    cron.add("@triggered", recorder.job("child"), name="child", after="root")
    async with asyncio.timeout(PATIENCE):
        async with cron:
            handle = cron.trigger("root")
            waiting = asyncio.ensure_future(asyncio.wait_for(handle, PATIENCE))
            await asyncio.sleep(0)
            cron.stop()
            gate.set()
        execution = await waiting
    assert not execution.complete
    assert (execution.result("root"), execution.result("child")) == (JobResult.SUCCESS, JobResult.PENDING)


async def test_cancelling_one_waiter_of_an_execution_does_not_affect_others(cron: Cron, recorder: Recorder) -> None:
    job, gate = recorder.held("a")
    cron.add("@triggered", job, name="a")
    handle = cron.trigger("a")
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(handle, 0.001)
    gate.set()
    assert (await handle).complete


# Base exceptions


def failing_with(error: BaseException) -> Callable[[], Any]:
    async def job() -> None:
        raise error

    return job


ODD = [
    Odd("odd"),
    GeneratorExit(),
    BaseExceptionGroup("several", [Odd("odd")]),
    SystemExit(3),
    KeyboardInterrupt(),
    asyncio.CancelledError(),
]


@pytest.mark.parametrize("error", ODD, ids=lambda error: type(error).__name__)
async def test_a_base_exception_in_an_async_job_is_a_failure(cron: Cron, error: BaseException) -> None:
    etl = Workflow("etl")
    etl.step("extract", "@triggered", failing_with(error))
    etl.step("load", "@triggered", print, after="extract")
    etl.step("alarm", "@triggered", lambda: None, after={"extract": "failure"})
    cron.add_workflow(etl)
    cron.add("@triggered", failing_with(error), name="alone")
    async with asyncio.timeout(PATIENCE):
        execution = await cron.trigger("etl")
        await cron.trigger("alone")
        await cron.done()
    assert [execution.result(name) for name in ("extract", "load", "alarm")] == ["failure", "skipped", "success"]


async def test_a_base_exception_is_retried_like_any_failure(cron: Cron, clock: FakeClock) -> None:
    tries: list[int] = []

    async def job() -> None:
        tries.append(1)
        pytest.fail("wrong total")

    cron.add("@triggered", job, name="a", wrappers=[retry_with_backoff(2, initial=5)])
    handle = cron.trigger("a")
    await clock.play("1m", cron)
    assert (await handle).result("a") is JobResult.FAILURE
    assert len(tries) == 3


async def test_a_base_exception_in_a_wrapper_fails_the_job(cron: Cron) -> None:
    def broken(call: Any) -> Any:
        async def wrapped() -> None:
            raise Odd

        return wrapped

    cron.add("@triggered", print, name="a", wrappers=[broken])
    async with asyncio.timeout(PATIENCE):
        assert (await cron.trigger("a")).result("a") is JobResult.FAILURE


# max_instances


@pytest.mark.parametrize("limit", [1, 2])
async def test_max_instances_skips_starts_beyond_the_limit(cron: Cron, recorder: Recorder, limit: int) -> None:
    job, gate = recorder.held("a")
    cron.add("@triggered", job, name="a", max_instances=limit)
    handles = [cron.trigger("a") for _ in range(3)]
    await handles[2]  # skipped: it ends while the others are held
    gate.set()
    results = [(await handle).result("a") for handle in handles]
    assert results == [JobResult.SUCCESS] * limit + [JobResult.SKIPPED] * (3 - limit)


async def test_starts_overlap_without_max_instances(cron: Cron, recorder: Recorder) -> None:
    job, gate = recorder.held("a")
    cron.add("@triggered", job, name="a")
    handles = [cron.trigger("a") for _ in range(3)]
    await asyncio.sleep(0)
    assert recorder.lines == ["a"] * 3
    gate.set()
    assert [(await handle).complete for handle in handles] == [True] * 3


@pytest.mark.parametrize("value", [0, -1, True, "2"])
def test_max_instances_must_be_a_positive_integer(cron: Cron, value: Any) -> None:
    with pytest.raises(Invalid, match=r"^max_instances is ") as raised:
        cron.add("@hourly", print, max_instances=value)
    assert raised.value.field == "max_instances"

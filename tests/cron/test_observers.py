"""Notifications of observers, errors in observers, and the handling of failed jobs."""

import asyncio
import copy
import logging
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from tests.cron.recorder import Recorder, chain, run
from windlass.cron import (
    Cron,
    Failure,
    FakeClock,
    JobCompleted,
    JobFailed,
    JobResult,
    JobStarted,
    Observer,
    Scheduled,
    WorkflowExecution,
)

PATIENCE = 5.0


async def test_observers_receive_schedule_start_and_completion_events(clock: FakeClock, recorder: Recorder) -> None:
    told: list[Any] = []
    start = clock.now()
    observer = Observer(on_schedule=told.append, on_job_start=told.append, on_job_complete=told.append)
    async with Cron(clock=clock, observers=[observer]) as cron:
        entry = cron.add("@every 10s", recorder.job("a"), name="a")
        await clock.play(10, cron)
    tick = start + timedelta(seconds=10)
    assert told == [
        Scheduled(entry, "a", tick),
        Scheduled(entry, "a", tick + timedelta(seconds=10)),
        JobStarted(entry, "a", tick),
        JobCompleted(entry, "a", tick, timedelta(), JobResult.SUCCESS),
    ]


async def test_each_observer_receives_its_own_copy_of_a_completed_execution(
    clock: FakeClock, recorder: Recorder
) -> None:
    told: list[WorkflowExecution] = []

    def spoil(execution: WorkflowExecution) -> None:
        execution.results.clear()

    observers = [Observer(on_workflow_complete=spoil), Observer(on_workflow_complete=told.append)]
    async with Cron(clock=clock, observers=observers) as cron:
        chain(cron, recorder, "a", "b")
        execution_id = await run(cron, "a")
        status = cron.workflow_status(execution_id)
    assert told == [status]
    assert told[0].complete
    assert len(told[0].results) == 2


async def test_job_events_of_an_execution_include_its_id(clock: FakeClock, recorder: Recorder) -> None:
    told: list[JobStarted] = []
    async with Cron(clock=clock, observers=[Observer(on_job_start=told.append)]) as cron:
        chain(cron, recorder, "a", "b")
        execution_id = await run(cron, "a")
    assert [(event.name, event.execution_id) for event in told] == [("a", execution_id), ("b", execution_id)]


async def test_an_exception_in_an_observer_is_logged_and_ignored(
    clock: FakeClock, recorder: Recorder, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(event: object) -> None:
        raise RuntimeError("observer")

    observer = Observer(on_job_start=broken, on_job_complete=broken, on_schedule=broken, on_workflow_complete=broken)
    async with Cron(clock=clock, observers=[observer]) as cron:
        chain(cron, recorder, "a", "b")
        cron.add("@every 1s", recorder.job("tick"))
        await run(cron, "a")
        await clock.play(1, cron)
    assert recorder.lines == ["a", "b", "tick"]
    assert sum("an observer's" in record.message for record in caplog.records) == 9


async def test_an_observer_may_call_the_scheduler(clock: FakeClock, recorder: Recorder) -> None:
    def tidy(event: JobCompleted) -> None:
        cron.remove(event.name)

    cron = Cron(clock=clock, observers=[Observer(on_job_complete=tidy)])
    async with cron:
        cron.add("@every 1s", recorder.job("a"), name="a")
        await clock.play(5, cron)
        assert cron.entries() == []
    assert recorder.lines == ["a"]


async def test_events_caused_by_an_observer_are_delivered_after_the_current_event(
    clock: FakeClock, recorder: Recorder
) -> None:
    told: list[str] = []

    def add_another(event: Scheduled) -> None:
        if event.name == "first":
            cron.add("@daily", recorder.job("second"), name="second")

    observers = [Observer(on_schedule=add_another), Observer(on_schedule=lambda event: told.append(event.name))]
    cron = Cron(clock=clock, observers=observers)
    async with cron:
        cron.add("@daily", recorder.job("first"), name="first")
    assert told == ["first", "second"]


async def test_an_async_observer_runs_as_a_task_that_the_stop_waits_for(clock: FakeClock, recorder: Recorder) -> None:
    held, told = asyncio.Event(), []

    async def slow(event: JobCompleted) -> None:
        await held.wait()
        told.append(event.name)

    async with Cron(clock=clock, observers=Observer(on_job_complete=slow)) as cron:
        cron.add("@triggered", recorder.job("a"), name="a")
        await cron.trigger("a")  # the observer holds up nobody
        await cron.trigger("a")
        assert told == []
        held.set()
    assert told == ["a", "a"]


async def test_an_exception_in_an_async_observer_is_logged(
    clock: FakeClock, recorder: Recorder, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken(event: object) -> None:
        pytest.fail("wrong total")

    async with Cron(clock=clock, observers=Observer(on_job_complete=broken)) as cron:
        cron.add("@triggered", recorder.job("a"), name="a")
        await cron.trigger("a")
    assert "an observer's on_job_complete raised" in caplog.text


async def test_an_async_observer_is_not_called_after_the_stop_and_the_log_reports_it(
    clock: FakeClock, recorder: Recorder, caplog: pytest.LogCaptureFixture
) -> None:
    async def never(event: object) -> None:
        raise AssertionError

    job, gate = recorder.held("root")
    cron = Cron(clock=clock, observers=Observer(on_workflow_complete=never))
    cron.add("@triggered", job, name="root")
    cron.add("@triggered", recorder.job("child"), name="child", after="root")
    async with cron:
        cron.trigger("root")
        await asyncio.sleep(0)
        gate.set()
        cron.stop()
    assert len(cron.active_workflows()) == 1
    cron.remove("child")
    assert "on_workflow_complete was not called" in caplog.text


async def test_a_base_exception_in_an_observer_does_not_block_the_scheduler(
    clock: FakeClock, recorder: Recorder
) -> None:
    def broken(event: object) -> None:
        pytest.fail("wrong total")

    async with asyncio.timeout(PATIENCE), Cron(clock=clock, observers=Observer(on_job_complete=broken)) as cron:
        cron.add("@triggered", recorder.job("a"), name="a")
        cron.trigger("a")
        await cron.done()


def raising() -> None:
    raise ValueError("broken")


async def raising_on_the_loop() -> None:
    raise ValueError("broken")


def exiting() -> None:
    raise SystemExit(3)


async def exiting_on_the_loop() -> None:
    raise SystemExit(3)


def stopping_iteration() -> None:
    raise StopIteration


async def cancelling() -> None:
    raise asyncio.CancelledError


FAILURES: list[tuple[Callable[[], Any], type[BaseException]]] = [
    (raising, ValueError),
    (raising_on_the_loop, ValueError),
    (lambda: raising_on_the_loop(), ValueError),
    (lambda: Failure("out of paper"), JobFailed),
    (lambda: Failure(ValueError("broken")), ValueError),
    (lambda: ValueError("broken"), ValueError),
    (exiting, JobFailed),
    (exiting_on_the_loop, JobFailed),
    (stopping_iteration, JobFailed),
    (cancelling, asyncio.CancelledError),
]


@pytest.mark.parametrize(("job", "error"), FAILURES)
async def test_a_failure_outside_an_execution_is_logged_and_observed_and_later_ticks_run(
    clock: FakeClock, caplog: pytest.LogCaptureFixture, job: Callable[[], Any], error: type[BaseException]
) -> None:
    told: list[JobCompleted] = []
    async with Cron(clock=clock, observers=[Observer(on_job_complete=told.append)]) as cron:
        cron.add("@every 1s", job, name="a")
        await clock.play(2, cron)
    assert [event.result for event in told] == [JobResult.FAILURE] * 2
    assert isinstance(told[0].error, error)
    logged = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert len(logged) == 2
    assert logged[0].message.startswith("job a failed: ")


@pytest.mark.parametrize(("job", "error"), FAILURES)
async def test_an_execution_records_every_kind_of_failure(
    cron: Cron, job: Callable[[], Any], error: type[BaseException]
) -> None:
    cron.add("@triggered", job, name="a")
    cron.add("@triggered", lambda: None, name="b")
    cron.add_dependency("b", "a", "failure")
    execution = cron.workflow_status(await run(cron, "a"))
    assert execution is not None
    assert list(execution.results.values()) == [JobResult.FAILURE, JobResult.SUCCESS]


async def test_return_values_that_are_not_errors_do_not_fail_a_job(cron: Cron) -> None:
    for n, value in enumerate([None, 0, False, "error", object()]):
        cron.add("@triggered", partial(copy.copy, value), name=f"a{n}")
        cron.add("@triggered", lambda: None, name=f"b{n}")
        cron.add_dependency(f"b{n}", f"a{n}")
        execution = cron.workflow_status(await run(cron, f"a{n}"))
        assert execution is not None
        assert set(execution.results.values()) == {JobResult.SUCCESS}

"""Deliberate deviations from the scheduler that this one is modelled on, where it violates its own design."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest

from tests.cron.recorder import Recorder, chain, pairs, run
from windlass.cron import (
    Call,
    CircuitBreaker,
    Condition,
    Cron,
    DependencyInUse,
    EntryId,
    FakeClock,
    JobResult,
    Missed,
    Observer,
    Workflow,
    WorkflowExecution,
    Wrapper,
    circuit_breaker,
    delay_if_running,
    jitter,
    max_concurrent,
    max_concurrent_skip,
    recover,
    retry_with_backoff,
    skip_if_running,
    timeout,
    workflow_execution_id,
)

PENDING, SUCCESS, FAILURE, SKIPPED = JobResult
SECOND, HOUR = timedelta(seconds=1), timedelta(hours=1)


def outcome(cron: Cron, execution_id: str) -> list[JobResult]:
    execution = cron.workflow_status(execution_id)
    assert execution is not None
    return list(execution.results.values())


async def test_removing_an_entry_skips_it_in_active_executions_and_settles_its_children(
    clock: FakeClock, recorder: Recorder
) -> None:
    completed: list[WorkflowExecution] = []
    async with Cron(clock=clock, observers=[Observer(on_workflow_complete=completed.append)]) as cron:
        job, gate = recorder.held("a")
        cron.add("@triggered", job, name="a")
        for parent, name, condition in [("a", "b", "success"), ("b", "c", "success"), ("b", "d", "skipped")]:
            cron.add("@triggered", recorder.job(name), name=name)
            cron.add_dependency(name, parent, condition)
        execution_id = cron.trigger("a")
        cron.remove("b")
        assert outcome(cron, execution_id)[:2] == [PENDING, SKIPPED]
        gate.set()
        await cron.done()
        assert outcome(cron, execution_id) == [SUCCESS, SKIPPED, SKIPPED, SUCCESS]
        assert cron.active_workflows() == []
    assert recorder.lines == ["a", "d"]
    assert [execution.id for execution in completed] == [execution_id]


async def test_a_running_job_keeps_its_result_when_its_entry_is_removed(cron: Cron, recorder: Recorder) -> None:
    job, gate = recorder.held("a")
    cron.add("@triggered", job, name="a")
    cron.add("@triggered", recorder.job("b"), name="b")
    cron.add_dependency("b", "a")
    execution_id = cron.trigger("a")
    cron.remove("a")
    assert outcome(cron, execution_id) == [PENDING, PENDING]
    gate.set()
    await cron.done()
    assert outcome(cron, execution_id) == [SUCCESS, SUCCESS]


async def test_a_run_once_root_still_runs_its_children(cron: Cron, clock: FakeClock, recorder: Recorder) -> None:
    cron.add("@every 1s", recorder.job("root"), name="root", run_once=True)
    cron.add("@triggered", recorder.job("child"), name="child")
    cron.add_dependency("child", "root")
    await clock.play(10, cron)
    assert recorder.lines == ["root", "child"]
    assert cron.active_workflows() == []


async def test_edges_added_during_an_execution_do_not_change_it(cron: Cron, recorder: Recorder) -> None:
    job, gate = recorder.held("a")
    cron.add("@triggered", job, name="a")
    for name in ("b", "late"):
        cron.add("@triggered", recorder.job(name), name=name)
    cron.add_dependency("b", "a")
    cron.trigger("a")
    cron.add_dependency("late", "a")
    gate.set()
    await cron.done()
    assert recorder.lines == ["a", "b"]
    cron.remove_dependency("late", "a")


async def test_removing_a_dependency_that_an_active_execution_uses_is_refused(cron: Cron, recorder: Recorder) -> None:
    job, gate = recorder.held("a")
    cron.add("@triggered", job, name="a")
    cron.add("@triggered", recorder.job("b"), name="b")
    cron.add_dependency("b", "a")
    execution_id = cron.trigger("a")
    with pytest.raises(DependencyInUse) as raised:
        cron.remove_dependency("b", "a")
    assert (raised.value.child, raised.value.parent, raised.value.execution_id) == ("b", "a", execution_id)
    cron.remove_dependency("a", "b")  # there is no such edge: nothing to refuse
    gate.set()
    await cron.done()
    assert recorder.lines == ["a", "b"]
    cron.remove_dependency("b", "a")
    assert cron.dependencies("b") == []


@pytest.mark.parametrize(
    ("condition", "ran"),
    [(Condition.SUCCESS, False), (Condition.FAILURE, False), (Condition.SKIPPED, True), (Condition.COMPLETE, True)],
)
async def test_a_parent_outside_of_the_execution_counts_as_skipped(
    cron: Cron, recorder: Recorder, condition: Condition, ran: bool
) -> None:
    for name in ("a", "b", "c"):
        cron.add("@triggered", recorder.job(name), name=name)
    cron.add_dependency("c", "a")
    cron.add_dependency("c", "b", condition)
    execution_id = await run(cron, "a")
    assert recorder.lines == (["a", "c"] if ran else ["a"])
    assert outcome(cron, execution_id) == [SUCCESS, SUCCESS if ran else SKIPPED]
    assert cron.active_workflows() == []


async def test_the_final_step_of_a_workflow_with_two_roots_runs_for_each(cron: Cron, recorder: Recorder) -> None:
    workflow = Workflow("two roots")
    for name in ("a", "b"):
        workflow.step(name, "@triggered", recorder.job(name))
    workflow.step("final", "@triggered", recorder.job("final")).final()
    cron.add_workflow(workflow)
    await run(cron, "a")
    await run(cron, "b")
    assert recorder.lines == ["a", "final", "b", "final"]


@pytest.mark.parametrize(
    "wrapper", [skip_if_running(), max_concurrent_skip(1)], ids=["skip_if_running", "max_concurrent_skip"]
)
async def test_a_start_that_a_wrapper_skips_counts_as_skipped(cron: Cron, recorder: Recorder, wrapper: Wrapper) -> None:
    job, gate = recorder.held("a")
    cron.add("@triggered", job, name="a", wrappers=[wrapper])
    cron.add("@triggered", recorder.job("next"), name="next")

    async def let_go() -> None:
        gate.set()

    cron.add("@triggered", let_go, name="instead")
    cron.add_dependency("next", "a", Condition.SUCCESS)
    cron.add_dependency("instead", "a", Condition.SKIPPED)
    first, second = cron.trigger("a"), cron.trigger("a")
    await cron.done()
    assert outcome(cron, first) == [SUCCESS, SUCCESS, SKIPPED]
    assert outcome(cron, second) == [SKIPPED, SKIPPED, SUCCESS]


async def test_a_start_at_an_open_circuit_breaker_counts_as_skipped(cron: Cron, recorder: Recorder) -> None:
    cron.add("@triggered", recorder.failing("a"), name="a", wrappers=[CircuitBreaker(1, HOUR)])
    cron.add("@triggered", recorder.job("b"), name="b")
    cron.add_dependency("b", "a", Condition.COMPLETE)
    assert outcome(cron, await run(cron, "a")) == [FAILURE, SUCCESS]
    assert outcome(cron, await run(cron, "a")) == [SKIPPED, SUCCESS]


async def test_a_timeout_counts_as_a_failure(cron: Cron, clock: FakeClock, recorder: Recorder) -> None:
    job, _ = recorder.held("a")
    cron.add("@triggered", job, name="a", wrappers=[timeout(SECOND)])
    cron.add("@triggered", recorder.job("b"), name="b")
    cron.add_dependency("b", "a", Condition.FAILURE)
    execution_id = cron.trigger("a")
    await clock.until_timers(1)
    clock.advance(1)
    await cron.done()
    assert outcome(cron, execution_id) == [FAILURE, SUCCESS]
    execution = cron.workflow_status(execution_id)
    assert execution is not None
    assert execution.reasons[EntryId(1)] == "JobTimedOut: it took longer than 1 s"


WRAPPERS: list[Callable[[], Wrapper]] = [
    recover,
    skip_if_running,
    delay_if_running,
    lambda: max_concurrent(1),
    lambda: max_concurrent_skip(1),
    lambda: jitter(timedelta(milliseconds=1)),
    lambda: timeout(HOUR),
    lambda: retry_with_backoff(2),
    lambda: circuit_breaker(3, HOUR),
]


@pytest.mark.parametrize("make", WRAPPERS)
@pytest.mark.parametrize("kind", ["async", "sync"])
async def test_every_wrapper_passes_the_context_on(
    cron: Cron, clock: FakeClock, make: Callable[[], Wrapper], kind: str
) -> None:
    seen: list[str] = []

    async def on_the_loop() -> None:
        seen.append(workflow_execution_id())

    def in_a_thread() -> None:
        seen.append(workflow_execution_id())

    cron.add("@triggered", on_the_loop if kind == "async" else in_a_thread, name="a", wrappers=[make()])
    cron.add("@triggered", lambda: None, name="b")
    cron.add_dependency("b", "a")
    execution_id = cron.trigger("a")
    await clock.play(1, cron)
    assert seen == [execution_id]


@pytest.mark.parametrize("make", WRAPPERS[1:])
async def test_recover_inside_any_wrapper_does_not_hide_a_failure_from_an_execution(
    cron: Cron, clock: FakeClock, recorder: Recorder, make: Callable[[], Wrapper]
) -> None:
    cron.add("@triggered", recorder.failing("a"), name="a", wrappers=[make(), recover()])
    cron.add("@triggered", recorder.job("b"), name="b")
    cron.add_dependency("b", "a", Condition.FAILURE)
    execution_id = cron.trigger("a")
    await clock.play(60, cron)
    assert outcome(cron, execution_id) == [FAILURE, SUCCESS]


async def test_removing_a_pending_entry_skips_its_descendants(cron: Cron, recorder: Recorder) -> None:
    job, gate = recorder.held("a")
    cron.add("@triggered", job, name="a")
    for parent, name in pairs("ab", "bc", "cd"):
        cron.add("@triggered", recorder.job(name), name=name)
        cron.add_dependency(name, parent)
    cron.add("@triggered", recorder.job("after all"), name="after all")
    cron.add_dependency("after all", "d", Condition.COMPLETE)
    execution_id = cron.trigger("a")
    cron.remove("b")
    gate.set()
    await cron.done()
    assert recorder.lines == ["a", "after all"]
    assert outcome(cron, execution_id) == [SUCCESS, SKIPPED, SKIPPED, SKIPPED, SUCCESS]


async def test_catching_up_on_missed_runs_of_a_root_starts_executions(clock: FakeClock, recorder: Recorder) -> None:
    completed: list[WorkflowExecution] = []
    cron = Cron(clock=clock, observers=[Observer(on_workflow_complete=completed.append)])
    now = clock.now()
    cron.add("@hourly", recorder.job("root"), name="root", missed=Missed.ALL, prev=now - 3 * HOUR)
    cron.add("@triggered", recorder.job("child"), name="child")
    cron.add_dependency("child", "root")
    async with cron:
        await cron.done()
    assert sorted(recorder.lines) == ["child"] * 3 + ["root"] * 3
    assert [execution.start_time for execution in completed] == [now - 2 * HOUR, now - HOUR, now]


async def test_a_custom_wrapper_is_an_async_function_around_a_call(cron: Cron, recorder: Recorder) -> None:
    def twice(call: Call) -> Call:
        async def inner() -> Any:
            await call()
            return await call()

        return inner

    def announced(call: Callable[[], Awaitable[Any]]) -> Call:
        async def inner() -> Any:
            recorder.lines.append("now")
            return await call()

        return inner

    cron.add("@triggered", recorder.job("a"), name="a", wrappers=[announced, twice])
    await run(cron, "a")
    assert recorder.lines == ["now", "a", "a"]


async def test_fifty_concurrent_executions_of_a_chain_all_succeed(cron: Cron, recorder: Recorder) -> None:
    chain(cron, recorder, *"abcdefgh")
    ids = [cron.trigger("a") for _ in range(50)]
    async with asyncio.timeout(30):
        await cron.done()
    assert all(outcome(cron, execution_id) == [SUCCESS] * 8 for execution_id in ids)

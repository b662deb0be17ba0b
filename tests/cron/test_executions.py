"""Queries of executions, their retention, and stopping in the middle of an execution."""

import asyncio
import copy
from collections.abc import Callable
from datetime import timedelta

import pytest

from tests.cron.recorder import Recorder, chain, run
from windlass.cron import Cron, EntryId, EntryNotFound, FakeClock, JobResult, WorkflowExecution
from windlass.errors import Invalid


def held_chain(cron: Cron, recorder: Recorder) -> asyncio.Event:
    """Add a, which waits for the returned event, and b, which runs after it."""
    job, gate = recorder.held("a")
    cron.add("@triggered", job, name="a")
    cron.add("@triggered", recorder.job("b"), name="b")
    cron.add_dependency("b", "a")
    return gate


def test_the_default_retention_is_100_executions() -> None:
    assert Cron().options.retention == 100


def test_the_retention_is_configurable() -> None:
    assert Cron(retention=5).options.retention == 5


async def test_the_oldest_executions_beyond_the_retention_are_removed(clock: FakeClock, recorder: Recorder) -> None:
    async with Cron(clock=clock, retention=2) as cron:
        chain(cron, recorder, "a", "b")
        ids = [await run(cron, "a") for _ in range(5)]
        found = [cron.workflow_status(execution_id) is not None for execution_id in ids]
    assert found == [False, False, False, True, True]


async def test_a_retention_of_zero_keeps_all_executions(clock: FakeClock, recorder: Recorder) -> None:
    async with Cron(clock=clock, retention=0) as cron:
        chain(cron, recorder, "a", "b")
        ids = [await run(cron, "a") for _ in range(150)]
        assert all(cron.workflow_status(execution_id) for execution_id in ids)


def test_an_unknown_execution_has_no_status(cron: Cron) -> None:
    assert cron.workflow_status("unknown") is None


def test_no_executions_are_active_initially(cron: Cron) -> None:
    assert cron.active_workflows() == []


def test_there_are_no_executions_before_the_start() -> None:
    cron = Cron()
    assert cron.workflow_status("unknown") is None
    assert cron.active_workflows() == []


async def test_a_finished_execution_still_has_a_status(cron: Cron, clock: FakeClock, recorder: Recorder) -> None:
    chain(cron, recorder, "a", "b")
    execution_id = await run(cron, "a")
    execution = cron.workflow_status(execution_id)
    assert execution is not None
    assert execution.complete
    assert (execution.id, execution.root_id, execution.start_time) == (execution_id, EntryId(1), clock.now())
    assert cron.active_workflows() == []


async def test_an_execution_beyond_the_retention_has_no_status(clock: FakeClock, recorder: Recorder) -> None:
    async with Cron(clock=clock, retention=1) as cron:
        chain(cron, recorder, "a", "b")
        first = await run(cron, "a")
        await run(cron, "a")
        assert cron.workflow_status(first) is None


async def test_finished_executions_have_a_status_after_the_stop(clock: FakeClock, recorder: Recorder) -> None:
    async with Cron(clock=clock) as cron:
        chain(cron, recorder, "a", "b")
        execution_id = await run(cron, "a")
    assert cron.workflow_status(execution_id) is not None
    assert cron.workflow_status("unknown") is None


def test_a_copied_execution_has_independent_results() -> None:
    original = WorkflowExecution("x", EntryId(1), FakeClock().now(), {EntryId(1): JobResult.PENDING})
    copied = copy.deepcopy(original)
    copied.results[EntryId(1)] = JobResult.SUCCESS
    assert original.results == {EntryId(1): JobResult.PENDING}


def test_a_copy_of_a_missing_execution_is_none(cron: Cron) -> None:
    assert copy.deepcopy(cron.workflow_status("unknown")) is None


async def test_queries_return_copies_of_active_executions(cron: Cron, recorder: Recorder) -> None:
    gate = held_chain(cron, recorder)
    execution_id = cron.trigger("a")
    looks: list[Callable[[], WorkflowExecution | None]] = [
        lambda: cron.workflow_status(execution_id),
        lambda: cron.active_workflows()[0],
    ]
    for look in looks:
        execution = look()
        assert execution is not None
        assert not execution.complete
        execution.results.clear()
        again = look()
        assert again is not None
        assert set(again.results.values()) == {JobResult.PENDING}
    gate.set()
    await cron.done()


async def test_stopping_completes_when_the_running_job_ends(clock: FakeClock, recorder: Recorder) -> None:
    cron = Cron(clock=clock)
    async with asyncio.timeout(30):
        async with cron:
            gate = held_chain(cron, recorder)
            cron.trigger("a")
            asyncio.get_running_loop().call_soon(gate.set)
    assert not cron.running
    assert not cron.is_job_running("a")


async def test_an_execution_interrupted_by_a_stop_stays_active(clock: FakeClock, recorder: Recorder) -> None:
    async with Cron(clock=clock) as cron:
        gate = held_chain(cron, recorder)
        execution_id = cron.trigger("a")
        asyncio.get_running_loop().call_soon(gate.set)
    assert recorder.lines == ["a"]
    (execution,) = cron.active_workflows()
    assert list(execution.results.values()) == [JobResult.SUCCESS, JobResult.PENDING]
    execution.results.clear()
    again = cron.workflow_status(execution_id)
    assert again is not None
    assert again.results


async def test_a_restart_runs_the_entries_that_the_stop_held_back(clock: FakeClock, recorder: Recorder) -> None:
    async with Cron(clock=clock) as cron:
        gate = held_chain(cron, recorder)
        execution_id = cron.trigger("a")
        asyncio.get_running_loop().call_soon(gate.set)
    async with cron:
        await cron.done()
        execution = cron.workflow_status(execution_id)
        assert execution is not None
        assert execution.complete
    assert recorder.lines == ["a", "b"]


async def test_an_entry_held_back_by_a_stop_is_skipped_when_it_is_removed(clock: FakeClock, recorder: Recorder) -> None:
    async with Cron(clock=clock) as cron:
        gate = held_chain(cron, recorder)
        execution_id = cron.trigger("a")
        asyncio.get_running_loop().call_soon(gate.set)
    cron.remove("b")
    execution = cron.workflow_status(execution_id)
    assert execution is not None
    assert list(execution.results.values()) == [JobResult.SUCCESS, JobResult.SKIPPED]
    assert cron.active_workflows() == []


async def test_an_entry_held_back_by_a_stop_and_then_paused_is_skipped_at_the_restart(
    clock: FakeClock, recorder: Recorder
) -> None:
    async with Cron(clock=clock) as cron:
        gate = held_chain(cron, recorder)
        cron.trigger("a")
        asyncio.get_running_loop().call_soon(gate.set)
    cron.pause("b")
    async with cron:
        assert cron.active_workflows() == []
    assert recorder.lines == ["a"]


def test_a_negative_retention_is_refused() -> None:
    with pytest.raises(Invalid, match="retention"):
        Cron(retention=-1)


async def test_finished_and_active_executions_are_listed_with_entry_names(
    cron: Cron, clock: FakeClock, recorder: Recorder
) -> None:
    job, gate = recorder.held("root")
    cron.add("@triggered", job, name="root")
    cron.add("@triggered", recorder.job("child"), name="child", after="root", run_once=True)
    gate.set()
    first = await cron.trigger("root")
    assert cron.entry("child") is None  # it ran once, and its name is still known
    cron.add("@triggered", recorder.job("child"), name="second child", after="root")
    clock.advance(5)
    gate.clear()
    second = cron.trigger("root")
    finished, active = cron.executions()
    assert (finished.id, finished.complete, finished.start_time, finished.end_time) == (
        first.id,
        True,
        clock.now() - timedelta(seconds=5),
        clock.now() - timedelta(seconds=5),
    )
    assert sorted(finished.names.values()) == ["child", "root"]
    assert finished.result("child") is JobResult.SUCCESS
    assert (active.id, active.complete, active.end_time) == (second, False, None)
    assert active.result("second child") is JobResult.PENDING
    with pytest.raises(EntryNotFound):
        active.result("child")
    gate.set()
    await second
    assert [execution.complete for execution in cron.executions()] == [True, True]

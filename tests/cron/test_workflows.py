"""The order in which entries of workflows run, as the core decides it."""

import asyncio
from datetime import timedelta

import pytest

from tests.cron.recorder import Recorder, chain, pairs, run
from windlass.cron import Condition, Cron, EntryId, FakeClock, JobResult, recover, workflow_execution_id

SUCCESS, FAILURE, SKIPPED = JobResult.SUCCESS, JobResult.FAILURE, JobResult.SKIPPED


def results(cron: Cron, execution_id: str) -> dict[str, JobResult]:
    """Return the results by entry name, or by `#id` for removed entries."""
    execution = cron.workflow_status(execution_id)
    assert execution is not None
    named = {entry.id: entry.name for entry in cron.entries()}
    return {named.get(entry) or f"#{entry}": result for entry, result in execution.results.items()}


async def test_a_child_runs_after_its_parent(cron: Cron, recorder: Recorder) -> None:
    chain(cron, recorder, "a", "b")
    execution_id = await run(cron, "a")
    assert recorder.lines == ["a", "b"]
    assert results(cron, execution_id) == {"a": SUCCESS, "b": SUCCESS}


async def test_after_a_failure_the_complete_child_runs_and_the_success_child_is_skipped(
    cron: Cron, recorder: Recorder
) -> None:
    cron.add("@triggered", recorder.failing("a"), name="a")
    for name, condition in [("cleanup", Condition.COMPLETE), ("next", Condition.SUCCESS)]:
        cron.add("@triggered", recorder.job(name), name=name)
        cron.add_dependency(name, "a", condition)
    execution_id = await run(cron, "a")
    assert recorder.lines == ["a", "cleanup"]
    assert results(cron, execution_id) == {"a": FAILURE, "cleanup": SUCCESS, "next": SKIPPED}


async def test_recover_does_not_hide_a_failure_from_an_execution(clock: FakeClock, recorder: Recorder) -> None:
    async with Cron(clock=clock, wrappers=[recover()]) as cron:
        cron.add("@triggered", recorder.failing("a"), name="a")
        for name, condition in [("handler", Condition.FAILURE), ("next", Condition.SUCCESS)]:
            cron.add("@triggered", recorder.job(name), name=name)
            cron.add_dependency(name, "a", condition)
        await run(cron, "a")
    assert recorder.lines == ["a", "handler"]


async def test_a_chain_of_three_runs_in_order(cron: Cron, recorder: Recorder) -> None:
    chain(cron, recorder, "a", "b", "c")
    await run(cron, "a")
    assert recorder.lines == ["a", "b", "c"]


async def test_root_and_child_see_the_same_execution_id(cron: Cron) -> None:
    seen: list[str] = []

    async def on_the_loop() -> None:
        seen.append(workflow_execution_id())

    def in_a_thread() -> None:
        seen.append(workflow_execution_id())

    cron.add("@triggered", on_the_loop, name="a")
    cron.add("@triggered", in_a_thread, name="b")
    cron.add_dependency("b", "a")
    execution_id = await run(cron, "a")
    assert execution_id
    assert seen == [execution_id, execution_id]


async def test_a_diamond_runs_in_dependency_order_and_each_entry_once(cron: Cron, recorder: Recorder) -> None:
    for name in "abcd":
        cron.add("@triggered", recorder.job(name), name=name)
    for parent, child in pairs("ab", "ac", "bd", "cd"):
        cron.add_dependency(child, parent)
    await run(cron, "a")
    assert recorder.lines[0] == "a"
    assert sorted(recorder.lines[1:3]) == ["b", "c"]
    assert recorder.lines[3:] == ["d"]


async def test_a_paused_child_is_skipped_with_its_descendants(cron: Cron, recorder: Recorder) -> None:
    chain(cron, recorder, "a", "b", "c")
    cron.pause("b")
    execution_id = await run(cron, "a")
    assert recorder.lines == ["a"]
    assert results(cron, execution_id) == {"a": SUCCESS, "b": SKIPPED, "c": SKIPPED}


async def test_a_child_removed_while_its_parent_runs_does_not_run(cron: Cron, recorder: Recorder) -> None:
    job, gate = recorder.held("a")
    cron.add("@triggered", job, name="a")
    cron.add("@triggered", recorder.job("b"), name="b")
    cron.add_dependency("b", "a")
    execution_id = cron.trigger("a")
    cron.remove("b")
    gate.set()
    await cron.done()
    assert recorder.lines == ["a"]
    assert SKIPPED in results(cron, execution_id).values()


async def test_a_skipped_edge_fires_when_its_parent_was_skipped(cron: Cron, recorder: Recorder) -> None:
    cron.add("@triggered", recorder.failing("a"), name="a")
    cron.add("@triggered", recorder.job("b"), name="b")
    cron.add("@triggered", recorder.job("c"), name="c")
    cron.add_dependency("b", "a", Condition.SUCCESS)
    cron.add_dependency("c", "b", Condition.SKIPPED)
    await run(cron, "a")
    assert recorder.lines == ["a", "c"]


async def test_executions_of_the_same_root_run_concurrently(cron: Cron, recorder: Recorder) -> None:
    chain(cron, recorder, "a", "b")
    ids = {cron.trigger("a") for _ in range(5)}
    assert len(cron.active_workflows()) == 5
    await cron.done()
    assert len(ids) == 5
    assert sorted(recorder.lines) == ["a"] * 5 + ["b"] * 5


async def test_a_tick_of_a_root_runs_root_and_child(cron: Cron, clock: FakeClock, recorder: Recorder) -> None:
    cron.add("@every 1s", recorder.job("root"), name="root")
    cron.add("@triggered", recorder.job("child"), name="child")
    cron.add_dependency("child", "root")
    await clock.play(1, cron)
    assert recorder.lines == ["root", "child"]


async def test_a_triggered_run_once_root_runs_and_is_removed(cron: Cron, recorder: Recorder) -> None:
    cron.add("@triggered", recorder.job("a"), name="a", run_once=True)
    cron.add("@triggered", recorder.job("b"), name="b")
    cron.add_dependency("b", "a")
    cron.trigger("a")
    assert cron.entry("a") is None
    await cron.done()
    assert recorder.lines == ["a", "b"]


async def test_a_scheduled_run_once_root_runs_and_is_removed(cron: Cron, clock: FakeClock, recorder: Recorder) -> None:
    cron.add("@every 1s", recorder.job("a"), name="a", run_once=True)
    cron.add("@triggered", recorder.job("b"), name="b")
    cron.add_dependency("b", "a")
    await clock.play(5, cron)
    assert recorder.lines == ["a", "b"]
    assert cron.entry("a") is None


async def test_removing_a_child_while_its_parent_runs_skips_its_descendants(cron: Cron, recorder: Recorder) -> None:
    job, gate = recorder.held("a")
    cron.add("@triggered", job, name="a")
    for parent, name in pairs("ab", "bc"):
        cron.add("@triggered", recorder.job(name), name=name)
        cron.add_dependency(name, parent)
    cron.trigger("a")
    cron.remove("b")
    gate.set()
    await cron.done()
    assert recorder.lines == ["a"]
    assert cron.active_workflows() == []


async def test_a_root_that_is_not_run_once_runs_again_at_the_next_tick(
    cron: Cron, clock: FakeClock, recorder: Recorder
) -> None:
    cron.add("@every 1s", recorder.job("a"), name="a")
    cron.add("@triggered", recorder.job("b"), name="b")
    cron.add_dependency("b", "a")
    await clock.play(2, cron)
    assert recorder.lines == ["a", "b", "a", "b"]


async def test_an_unconnected_entry_is_not_part_of_an_execution(cron: Cron, recorder: Recorder) -> None:
    chain(cron, recorder, "a", "b")
    cron.add("@triggered", recorder.job("alone"), name="alone")
    execution_id = await run(cron, "a")
    assert recorder.lines == ["a", "b"]
    assert "alone" not in results(cron, execution_id)


async def test_triggering_an_entry_in_the_middle_runs_only_it_and_its_descendants(
    cron: Cron, recorder: Recorder
) -> None:
    chain(cron, recorder, "a", "b", "c")
    execution_id = await run(cron, "b")
    assert recorder.lines == ["b", "c"]
    assert set(results(cron, execution_id)) == {"b", "c"}


async def test_an_entry_without_children_runs_alone(cron: Cron) -> None:
    seen: list[str] = []

    async def job() -> None:
        seen.append(workflow_execution_id())

    cron.add("@triggered", job, name="alone")
    assert await run(cron, "alone") == ""
    assert seen == [""]
    assert cron.active_workflows() == []


async def test_success_and_failure_conditions_on_one_parent_are_never_both_met(cron: Cron, recorder: Recorder) -> None:
    chain(cron, recorder, "a", "b")
    cron.add_dependency("b", "a", Condition.FAILURE)
    execution_id = await run(cron, "a")
    assert results(cron, execution_id) == {"a": SUCCESS, "b": SKIPPED}


async def test_a_join_waits_for_all_its_parents(cron: Cron, recorder: Recorder) -> None:
    slow, gate = recorder.held("slow")
    for name, job in [("root", recorder.job("root")), ("quick", recorder.job("quick")), ("slow", slow)]:
        cron.add("@triggered", job, name=name)
    cron.add("@triggered", recorder.job("join"), name="join")
    for parent, child in [("root", "quick"), ("root", "slow"), ("quick", "join"), ("slow", "join")]:
        cron.add_dependency(child, parent)
    cron.trigger("root")
    await cron.done("quick")
    assert "join" not in recorder.lines
    gate.set()
    await cron.done()
    assert recorder.lines[-1] == "join"


async def test_an_execution_records_the_reasons_for_skips_and_failures(cron: Cron, recorder: Recorder) -> None:
    cron.add("@triggered", recorder.failing("a"), name="a")
    cron.add("@triggered", recorder.job("b"), name="b")
    cron.add_dependency("b", "a")
    execution = cron.workflow_status(await run(cron, "a"))
    assert execution is not None
    a, b = execution.results
    assert execution.reasons == {a: "ValueError: a is broken", b: "needs a to succeed, but it failed"}


async def test_a_child_started_in_an_execution_gets_the_current_time_as_prev(
    cron: Cron, clock: FakeClock, recorder: Recorder
) -> None:
    cron.add("@every 1h", recorder.job("a"), name="a")
    cron.add("@daily", recorder.job("b"), name="b")
    cron.add_dependency("b", "a")
    before = cron.entry("b")
    await clock.play(3600, cron)
    after = cron.entry("b")
    assert before is not None
    assert after is not None
    assert (before.prev, after.prev) == (None, clock.now())
    assert after.next == before.next


async def test_a_late_root_gets_its_due_time_as_prev(cron: Cron, clock: FakeClock, recorder: Recorder) -> None:
    cron.add("@hourly", recorder.job("a"), name="a")
    cron.add("@triggered", recorder.job("b"), name="b")
    cron.add_dependency("b", "a")
    due = clock.now() + timedelta(hours=1)
    clock.set(due + timedelta(minutes=5))
    (execution,) = cron.active_workflows()
    await cron.done()
    entries = {entry.name: entry.prev for entry in cron.entries()}
    assert execution.start_time == due
    assert entries == {"a": due, "b": clock.now()}


@pytest.mark.parametrize("root", ["a", EntryId(1)])
async def test_entries_are_triggered_by_name_and_by_id(cron: Cron, recorder: Recorder, root: str | EntryId) -> None:
    chain(cron, recorder, "a", "b")
    cron.trigger(root)
    async with asyncio.timeout(30):
        await cron.done()
    assert recorder.lines == ["a", "b"]

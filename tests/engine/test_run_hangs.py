"""Every case in which the pseudo-code of seed 004 never ends (C3, and D2 item 7), each with a limit of five seconds."""

from typing import Any

import pytest

from tests.engine.harness import Fails, ManualWorker, begin, letters, node, reasons, state
from windlass.core.definition.parser import parse
from windlass.core.workflows.step import Foreach, Parallel, Step
from windlass.engine import workflows
from windlass.engine.database import Tenant
from windlass.engine.runs import control as runs

pytestmark = pytest.mark.timeout(5, func_only=True)

FAILED, TIMED_OUT = Fails(), Fails("timed out after 1 s", type="Timeout")


async def ended(db: Tenant, *steps: Step, **endings: Any) -> tuple[str, str]:
    """Run these steps; return the final state of the run and its letters."""
    run = await begin(db, *steps)
    await (await ManualWorker.registered(db)).play(endings)
    return await state(db, run), await letters(db, run)


async def test_c3_a_failing_step_with_dependents_ends_its_run(db: Tenant) -> None:
    assert await ended(db, node("a"), node("b", "a"), a=FAILED) == ("failed", "fk")


async def test_c2_7_a_timed_out_step_skips_dependent_steps(db: Tenant) -> None:
    assert await ended(db, node("a"), node("b", "a"), a=TIMED_OUT) == ("failed", "tk")


async def test_c2_8_completion_is_checked_after_steps_were_skipped(db: Tenant) -> None:
    steps = node("a"), node("b"), node("c", "a"), node("d", "c", "b")
    assert await ended(db, *steps, a=FAILED) == ("failed", "fskk")


async def test_c2_9_a_skip_is_propagated_to_all_downstream_steps(db: Tenant) -> None:
    chain = [node("n0"), *(node(f"n{n}", f"n{n - 1}") for n in range(1, 50))]
    assert await ended(db, *chain, n0=FAILED) == ("failed", "f" + "k" * 49)


@pytest.mark.parametrize("end", [FAILED, "fine"])
async def test_c2_10_a_step_with_on_failure_run_starts_after_success_and_after_failure(db: Tenant, end: Any) -> None:
    tasks = {
        "a": {"job": "test.a.v1", "max_retries": 1},
        "b": {"job": "test.b.v1", "depends_on": ["a"], "on_failure": "run"},
        "c": {"job": "test.c.v1", "depends_on": ["b"]},
    }
    await workflows.publish(db, parse({"name": "w", "tasks": tasks}))
    run = await begin(db)
    await (await ManualWorker.registered(db)).play({"a": end})
    assert await letters(db, run) == ("fss" if end is FAILED else "sss")
    assert await state(db, run) == ("failed" if end is FAILED else "completed")


async def test_c2_20_a_fan_out_after_a_failed_step_is_skipped(db: Tenant) -> None:
    fan = node("b", "a", fan_out=Foreach("a.files"))
    assert await ended(db, node("a"), fan, node("c", "b"), a=FAILED) == ("failed", "fkk")


@pytest.mark.parametrize("fan_out", [Parallel(0), Parallel("a.count"), Foreach("a.files")])
async def test_c2_21_a_fan_out_over_nothing_is_a_success_with_an_empty_list(db: Tenant, fan_out: Any) -> None:
    run = await begin(db, node("a"), node("b", "a", fan_out=fan_out), node("c", "b"))
    worker = await ManualWorker.registered(db)
    await worker.play({"a": {"count": 0, "files": []}})
    assert (await state(db, run), await letters(db, run)) == ("completed", "sss")
    assert await reasons(db, run, "b") == ["there was nothing to fan out over"]
    assert worker.seen == ["a", "c"]


async def test_c2_21_the_output_of_a_fan_out_over_nothing_is_an_empty_list(db: Tenant) -> None:
    run = await begin(db, node("a", fan_out=Parallel(0)))
    assert await runs.output(db, run) == []


@pytest.mark.parametrize(("ending", "times"), [(FAILED, 3), (TIMED_OUT, 3)])
async def test_c3_max_retries_three_means_three_executions_whatever_the_failure(
    db: Tenant, ending: Fails, times: int
) -> None:
    tasks = {"a": {"job": "test.a.v1", "max_retries": 3}, "b": {"job": "test.b.v1", "depends_on": ["a"]}}
    await workflows.publish(db, parse({"name": "w", "tasks": tasks}))
    run = await begin(db)
    worker = await ManualWorker.registered(db)
    await worker.play({"a": ending})
    assert (worker.seen, await state(db, run)) == (["a"] * times, "failed")


async def test_a_single_failing_step_and_a_failure_beside_a_longer_branch_end_the_run(db: Tenant) -> None:
    assert await ended(db, node("a"), a=FAILED) == ("failed", "f")
    assert await ended(db, node("a"), node("b"), node("c", "b"), a=FAILED) == ("failed", "fss")


# The cascade table of seed 000: the letter of a dependent step by its edge and the end of its parent step.
CASCADE = """
        success  failure  skipped  complete
s       s        k        k        s
f       k        s        k        s
k       k        k        s        s
"""


@pytest.mark.parametrize("line", CASCADE.strip().splitlines()[1:], ids=lambda line: line[0])
async def test_the_cascade_table_holds_in_the_database(db: Tenant, line: str) -> None:
    end, *expected = line.split()
    conditions = CASCADE.split("\n")[1].split()
    children = [node(f"on-{condition}", f"parent:{condition}") for condition in conditions]
    steps = node("root"), node("parent", "root"), *children
    endings = {"s": {}, "f": {"parent": FAILED}, "k": {"root": FAILED}}[end]
    _, found = await ended(db, *steps, **endings)
    assert found[1:] == end + "".join(expected)

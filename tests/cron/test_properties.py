"""Property tests: the results of random graphs match the table of conditions."""

import asyncio
import random
from collections.abc import Callable
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from windlass.cron import Condition, Cron, Failure, FakeClock, JobResult, Skip, matches

PENDING, SUCCESS, FAILURE, SKIPPED = JobResult
Edges = set[tuple[int, int, Condition]]  # parent, child; the parent is the smaller


def nothing_to_do() -> None:
    raise Skip("nothing to do")


JOBS: dict[JobResult, Callable[[], Any]] = {
    SUCCESS: lambda: None,
    FAILURE: lambda: Failure("broken"),
    SKIPPED: nothing_to_do,
}


async def on_the_loop(job: Callable[[], Any], turns: int) -> Any:
    for _ in range(turns):
        await asyncio.sleep(0)
    return job()


@st.composite
def graphs(draw: st.DrawFn) -> tuple[list[JobResult], Edges]:
    ends = draw(st.lists(st.sampled_from([SUCCESS, SUCCESS, FAILURE, SKIPPED]), min_size=2, max_size=8))
    pairs = [(parent, child) for child in range(len(ends)) for parent in range(child)]
    chosen = draw(st.lists(st.tuples(st.sampled_from(pairs), st.sampled_from(Condition)), max_size=16))
    return ends, {(*pair, condition) for pair, condition in chosen}


def expected(ends: list[JobResult], edges: Edges) -> dict[int, JobResult]:
    results = {0: ends[0]}
    for step in range(1, len(ends)):
        mine = [(parent, condition) for parent, child, condition in edges if child == step]
        if any(parent in results for parent, _ in mine):
            fires = all(matches(condition, results.get(parent, SKIPPED)) for parent, condition in mine)
            results[step] = ends[step] if fires else SKIPPED
    return results


async def executed(ends: list[JobResult], edges: Edges) -> dict[int, JobResult]:
    async with Cron(clock=FakeClock()) as cron:
        for n, end in enumerate(ends):

            async def job(end: JobResult = end, turns: int = random.randrange(4)) -> Any:
                return await on_the_loop(JOBS[end], turns)

            cron.add("@triggered", job, name=str(n))
        for parent, child, condition in edges:
            cron.add_dependency(str(child), str(parent), condition)
        execution_id = cron.trigger("0")
        await cron.done()
        execution = cron.workflow_status(execution_id)
        assert cron.active_workflows() == []
    assert execution is not None
    return {entry - 1: result for entry, result in execution.results.items()}


@settings(max_examples=3 * settings().max_examples)
@given(graphs())
def test_the_results_of_a_random_graph_match_its_conditions(graph: tuple[list[JobResult], Edges]) -> None:
    ends, edges = graph
    if any(parent == 0 for parent, _, _ in edges):
        assert asyncio.run(executed(ends, edges)) == expected(ends, edges)

"""Compositions become workflows: dependencies, shared shapes, and the letters that a retry keeps."""

import json
from dataclasses import replace
from typing import Any

import pytest

from tests.unit.reference import World, results
from windlass.core.compositions import Composition, Part, letters_to_retry, read, sources
from windlass.core.definition.parser import checked, parse
from windlass.core.ids import of_name
from windlass.core.runs.edges import verdict
from windlass.core.runs.run import RunMove
from windlass.core.workflows.graph import CALLBACKS, Plan
from windlass.core.workflows.step import Condition
from windlass.core.workflows.workflow import CompositionKind
from windlass.errors import InvalidWorkflow


def job(type_: str = "a.b", **more: Any) -> Part:
    return Part(type=type_, **more)


def chain(*parts: Part | Composition, **more: Any) -> Composition:
    return Composition(kind=CompositionKind.CHAIN, parts=parts, **more)


def batch(count: int, *callbacks: str) -> Composition:
    called = {word: job(f"cb.{word.replace('_', '-')}") for word in callbacks or CALLBACKS}
    return Composition(kind=CompositionKind.BATCH, parts=tuple(job() for _ in range(count)), callbacks=called)


def played(composition: Composition, **endings: str) -> tuple[str, RunMove]:
    """Return the letters of all steps, computed by the reference implementation, and the verdict."""
    steps = composition.workflow.steps
    bad = "f" in endings.values()
    truths = {step.name: bad for step in steps if step.condition == "failure()"}
    world = World({step.name: [endings.get(step.name, "s")] for step in steps}, truths, {})
    found = results(steps, world)
    letters = "".join(found[step.name] for step in steps)
    return letters, verdict(Plan(steps), letters)[0]


def test_a_chain_connects_its_parts_with_success_edges() -> None:
    assert played(chain(job(), job(), job())) == ("sss", RunMove.COMPLETE)
    assert played(chain(job(), job(), job()), **{"step-1": "f"}) == ("sfk", RunMove.FAIL)


def test_a_group_has_no_edges_and_fails_if_one_part_fails() -> None:
    group = Composition(kind=CompositionKind.GROUP, parts=(job(), job(), job()))
    assert not any(step.edges for step in group.workflow.steps)
    assert played(group, **{"job-1": "f"}) == ("sfs", RunMove.FAIL)


@pytest.mark.parametrize("endings", [{}, {"job-0": "f"}], ids=["all succeed", "one fails"])
def test_the_result_of_a_batch_is_that_of_its_callbacks(endings: dict[str, str]) -> None:
    found, judged = played(batch(2), **endings)
    assert judged is RunMove.COMPLETE
    called = dict(zip(CALLBACKS, found[2:], strict=True))
    assert called == {
        "on_complete": "s",
        "on_success": "k" if endings else "s",
        "on_failure": "s" if endings else "k",
    }
    for word, letter in called.items():
        if letter == "s":
            assert played(batch(2), **endings, **{word: "f"})[1] is RunMove.FAIL


def test_compositions_of_the_same_shape_share_a_workflow_and_differ_in_its_input() -> None:
    one = chain(job(fields={"payload": [1], "id": "x"}), name="one", id="wf_1")
    other = chain(job(fields={"payload": [2]}), name="other")
    assert one.workflow == other.workflow
    assert one.workflow.name != chain(job("a.c")).workflow.name
    assert one.workflow.name != chain(job(queue="q")).workflow.name
    assert (one.input, other.input) == (
        {"name": "one", "parts": [{"payload": [1], "id": "x"}]},
        {"name": "other", "parts": [{"payload": [2]}]},
    )


def test_a_nested_composition_is_its_own_workflow_and_counts_in_jobs_and_levels() -> None:
    inner = batch(2, "on_success")
    outer = chain(job(), inner, job())
    assert (outer.levels, outer.jobs, len(inner.workflow.steps)) == (2, 4, 3)
    assert outer.input["parts"][1] == inner.input
    document = outer.workflow.to_document()["tasks"][1]
    assert (document["workflow"], document["input"]) == (inner.workflow.name, "{{input.parts[1]}}")


def test_a_stored_composition_is_read_back_and_a_document_cannot_declare_one() -> None:
    for composition in (chain(job(), batch(3)), batch(2, "on_failure")):
        document = json.loads(json.dumps(composition.workflow.to_document()))
        assert parse(document) == replace(composition.workflow, primitive=None)
        assert read({**document, "primitive": composition.kind.value}) == composition.workflow
        with pytest.raises(InvalidWorkflow):
            parse({**document, "primitive": "chain"})


def test_the_steps_after_one_with_a_condition_run_unless_a_step_failed() -> None:
    flow = chain(job(), job(condition="tasks.step-0.body.ok"), job(), job())
    checked(flow.workflow)
    first, second, third, fourth = flow.workflow.steps
    assert [step.condition for step in (first, second, third, fourth)] == [
        None, "tasks.step-0.body.ok", "!failure()", "!failure()",
    ]  # fmt: skip
    assert third.edges[0].condition is Condition.COMPLETE


def test_a_step_gets_the_results_of_its_ancestors_and_a_callback_those_of_all_jobs() -> None:
    assert sources(chain(job(), job(), job()).workflow, 2) == [0, 1]
    assert [sources(batch(3).workflow, n) for n in range(5)] == [[], [], [], [0, 1, 2], [0, 1, 2]]
    parts = tuple(
        job(label=name, needs=needs) for name, needs in (("a", ()), ("b", ("a",)), ("c", ("b",)), ("d", ("a",)))
    )
    graph = Composition(kind=CompositionKind.DAG, parts=parts)
    assert [sources(graph.workflow, n) for n in range(4)] == [[], [0], [0, 1], [0]]


@pytest.mark.parametrize(
    ("composition", "letters", "again"),
    [
        (chain(job(), job(), job()), "sfk", "s.."),
        (chain(job(), job(condition="true"), job(), job()), "sksf", "sks."),
        (batch(2), "sfskk", "s...."),
        (batch(2), "sssfk", "sss.k"),
        (Composition(kind=CompositionKind.GROUP, parts=(job(), job(), job())), "sfc", "s.."),
    ],
    ids=["chain", "skipped", "batch", "callback", "group"],
)
def test_a_retry_resets_unsuccessful_steps_and_the_steps_after_them(
    composition: Composition, letters: str, again: str
) -> None:
    assert letters_to_retry(composition.workflow, letters) == again


def test_a_name_always_maps_to_the_same_id() -> None:
    assert of_name("job_1") == of_name("job_1") != of_name("job_2")
    assert of_name("job_1").version == 8

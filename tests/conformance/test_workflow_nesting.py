"""Nested workflows: their results, compared with a reference written from the spec, and their documents."""

import random
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest
import pytest_asyncio

from tests.conformance.ojs_client import OjsClient
from tests.conformance.workflow_client import FATAL, WorkflowClient, job
from windlass.engine.runs import sweep

pytestmark = pytest.mark.asyncio(loop_scope="module")
CALLBACKS = ("on_complete", "on_success", "on_failure")
MOST_LEAVES = 15


@pytest_asyncio.fixture(loop_scope="module")
async def flows(ojs: OjsClient) -> AsyncIterator[WorkflowClient]:
    async with httpx.AsyncClient(base_url=f"{ojs.http.base_url}/ojs/v1", timeout=30) as http:
        yield WorkflowClient(http)


# The reference: sections 4 to 6, 8 and 10 of the spec, implemented independently of the engine.


@dataclass
class Leaf:
    type: str
    fails: bool = False

    def body(self) -> dict[str, Any]:
        return job(self.type)


@dataclass
class Tree:
    kind: str
    id: str
    parts: list["Tree | Leaf"]
    callbacks: dict[str, Leaf] = field(default_factory=dict)

    def body(self) -> dict[str, Any]:
        container = "steps" if self.kind == "chain" else "jobs"
        found: dict[str, Any] = {"type": self.kind, "id": self.id, container: [part.body() for part in self.parts]}
        if self.callbacks:
            found["callbacks"] = {word: leaf.body() for word, leaf in self.callbacks.items()}
        return found


@dataclass
class Expected:
    """The outcome of a tree by the spec: the jobs that ran, and the states of all workflows, steps and callbacks."""

    ran: set[str] = field(default_factory=set)
    workflows: dict[str, tuple[str, list[str], dict[str, str]]] = field(default_factory=dict)

    def run(self, part: Tree | Leaf) -> str:
        if isinstance(part, Leaf):
            self.ran.add(part.type)
            return "failed" if part.fails else "completed"
        states: list[str] = []
        for inner in part.parts:
            stopped = part.kind == "chain" and "failed" in states
            states.append(self.cancel(inner) if stopped else self.run(inner))
        failed = "failed" in states
        called: dict[str, str] = {}
        for word, leaf in part.callbacks.items():
            fires = {"on_complete": True, "on_success": not failed, "on_failure": failed}[word]
            called[word] = self.run(leaf) if fires else "cancelled"
        if part.kind == "batch":
            failed = "failed" in called.values()
        state = "failed" if failed else "completed"
        self.workflows[part.id] = (state, states, called)
        return state

    def cancel(self, part: Tree | Leaf) -> str:
        if isinstance(part, Tree):
            states = [self.cancel(inner) for inner in part.parts]
            self.workflows[part.id] = ("cancelled", states, dict.fromkeys(part.callbacks, "cancelled"))
        return "cancelled"


class TreeGenerator:
    def __init__(self, seed: int, prefix: str) -> None:
        self.dice, self.prefix = random.Random(seed), prefix
        self.leaves: list[Leaf] = []
        self.trees = 0

    def tree(self, depth: int) -> Tree:
        """Return a tree of exactly this depth; one part of each level continues to the full depth."""
        self.trees += 1
        kind, id_ = self.dice.choice(("chain", "group", "batch")), f"{self.prefix}-{self.trees}"
        parts: list[Tree | Leaf] = []
        count = self.dice.randint(1, 3)
        deep = self.dice.randrange(count)
        for n in range(count):
            if depth > 1 and n == deep:
                parts.append(self.tree(depth - 1))
            elif depth > 1 and self.dice.random() < 0.3 and len(self.leaves) < MOST_LEAVES:
                parts.append(self.tree(self.dice.randint(1, depth - 1)))
            else:
                parts.append(self.leaf())
        words = self.dice.sample(CALLBACKS, self.dice.randint(1, 3)) if kind == "batch" else []
        return Tree(kind, id_, parts, {word: self.leaf() for word in CALLBACKS if word in words})

    def leaf(self) -> Leaf:
        self.leaves.append(Leaf(f"leaf.n{len(self.leaves)}"))
        return self.leaves[-1]


async def play(ojs: OjsClient, flows: WorkflowClient, tree: Tree, leaves: list[Leaf], dice: random.Random) -> list[str]:
    """Execute the jobs of a tree in random order until it ends; return the types of the fetched jobs."""
    fails = {leaf.type for leaf in leaves if leaf.fails}
    taken: list[str] = []
    db = await ojs.app.open()
    while True:
        jobs = await flows.fetch(dice.choice((1, 2, 100)))
        taken += [one["type"] for one in jobs]
        for one in dice.sample(jobs, len(jobs)):
            await (flows.nack(one, FATAL) if one["type"] in fails else flows.ack(one, one["type"]))
        if not jobs and not await sweep.sweep_runs(db) and not await sweep.PendingRuns(db).start():
            assert await flows.state(tree.id) != "running", "no work is left, but the workflow has not ended"
            return taken


@pytest.mark.parametrize("depth", range(1, 11))
async def test_random_trees_end_as_the_spec_requires(ojs: OjsClient, flows: WorkflowClient, depth: int) -> None:
    for n in range(2):
        grower = TreeGenerator(100 * depth + n, f"wf-{depth}-{n}")
        tree = grower.tree(depth)
        for leaf in grower.dice.sample(grower.leaves, min(len(grower.leaves), grower.dice.randint(0, 3))):
            leaf.fails = True
        expected = Expected()
        expected.run(tree)
        await flows.create(**tree.body())
        taken = await play(ojs, flows, tree, grower.leaves, grower.dice)
        assert sorted(taken) == sorted(expected.ran), "each expected job runs once, and no other job runs"
        for id_, (state, steps, callbacks) in expected.workflows.items():
            shown = await flows.get(id_)
            told = {word: called["state"] for word, called in shown.get("callbacks", {}).items()}
            assert (shown["state"], [step["state"] for step in shown["steps"]], told) == (state, steps, callbacks), id_


async def test_a_nested_workflow_is_cancelled_if_its_chain_fails_before_it_starts(flows: WorkflowClient) -> None:
    inner = {
        "type": "group",
        "id": "wf_i",
        "jobs": [job("x.b"), {"type": "chain", "id": "wf_ii", "steps": [job("x.c")]}],
    }
    await flows.create(type="chain", id="wf_o", steps=[job("x.a"), inner])
    assert await flows.state("wf_i") == "pending"
    await flows.nack(await flows.one("x.a"))
    assert await flows.states("wf_o") == ["failed", "cancelled"]
    outer = await flows.get("wf_o")
    for id_ in ("wf_i", "wf_ii"):
        shown = await flows.get(id_)
        assert (shown["state"], {step["state"] for step in shown["steps"]}) == ("cancelled", {"cancelled"})
        assert shown["cancelled_at"] == shown["completed_at"] == outer["completed_at"]
        assert shown["metadata"]["failed_count"] == 0
        error = (await flows.cancel(id_, 409))["error"]
        assert error["message"] == f"Workflow {id_} is already in terminal state 'cancelled'"


async def test_a_pending_nested_workflow_is_cancelled_only_with_its_parent(flows: WorkflowClient) -> None:
    await flows.create(
        type="chain", id="wf_o", steps=[job("x.a"), {"type": "group", "id": "wf_i", "jobs": [job("x.b")]}]
    )
    error = (await flows.cancel("wf_i", 409))["error"]
    assert "has not started" in error["message"]
    await flows.cancel("wf_o")
    assert await flows.state("wf_i") == "cancelled"
    assert await flows.states("wf_i") == ["cancelled"]


async def test_one_response_contains_the_jobs_of_all_nested_workflows(flows: WorkflowClient) -> None:
    chain = {"type": "chain", "id": "wf_c", "steps": [job("x.b"), job("x.c")]}
    group = {"type": "group", "id": "wf_g", "name": "inner", "jobs": [job("x.a"), chain]}
    await flows.create(type="chain", id="wf_o", steps=[group, job("x.d")])
    first, second = await flows.fetch()
    await flows.ack(first, {"rows": 3})
    await flows.nack(second, {**FATAL, "code": "bad_csv", "message": "line 7"})
    [shown, rest] = (await flows.get("wf_o"))["steps"]
    assert (shown["state"], shown["type"], shown["workflow_id"], shown["name"]) == ("failed", "group", "wf_g", "inner")
    assert (shown["error"]["job_id"], shown["error"]["code"]) == (second["id"], "bad_csv")
    done, inner = shown["steps"]
    assert (done["state"], done["job_id"], done["result"]) == ("completed", first["id"], {"rows": 3})
    assert (inner["state"], inner["workflow_id"]) == ("failed", "wf_c")
    failed, waiting = inner["steps"]
    assert (failed["state"], failed["job_id"], failed["error"]["message"]) == ("failed", second["id"], "line 7")
    assert (waiting["state"], rest["state"]) == ("cancelled", "cancelled")
    assert (await flows.get("wf_c"))["parent_workflow_id"] == "wf_g"


async def test_the_list_of_workflows_contains_only_roots_and_is_filtered_by_name(flows: WorkflowClient) -> None:
    await flows.create(type="group", id="wf_1", name="nightly", jobs=[job("x.a")])
    inner = {"type": "group", "name": "nightly", "jobs": [job("x.b")]}
    await flows.create(type="chain", id="wf_2", name="hourly", steps=[inner, job("x.c")])
    await flows.create(type="group", id="wf_3", name="nightly", jobs=[job("x.d")])
    await flows.cancel("wf_1")

    async def listed(**query: Any) -> tuple[list[tuple[str, str]], int]:
        answer = await flows.http.get("/workflows", params=query)
        assert answer.status_code == 200, answer.text
        body = answer.json()
        return [(one["id"], one["state"]) for one in body["workflows"]], body["pagination"]["total"]

    assert await listed() == ([("wf_3", "running"), ("wf_2", "running"), ("wf_1", "cancelled")], 3)
    assert await listed(name="nightly") == ([("wf_3", "running"), ("wf_1", "cancelled")], 2)
    assert await listed(name="nightly", limit=1, offset=1) == ([("wf_1", "cancelled")], 2)
    assert await listed(name="weekly") == ([], 0)
    [two] = (await flows.http.get("/workflows", params={"name": "hourly"})).json()["workflows"]
    assert (two["type"], two["metadata"]["job_count"]) == ("chain", 2)
    refused = await flows.http.get("/workflows", params={"nam": "nightly"})
    assert (refused.status_code, refused.json()["error"]["details"]) == (400, {"field": "nam"})

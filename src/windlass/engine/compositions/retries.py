"""Retries compositions. An ended composition stays ended: its retry is a new one that copies the successful parts."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from uuid import UUID

from windlass.core.compositions import letters_to_retry
from windlass.core.json_value import encode
from windlass.core.runs.run import LIVE, Letter
from windlass.core.workflows.workflow import Workflow
from windlass.engine.compositions import control as compositions
from windlass.engine.compositions.control import INPUT_LIMIT, Node, letters_of, own_id
from windlass.engine.database import Tenant, new_ids
from windlass.engine.runs import sweep
from windlass.errors import Conflict, Duplicate
from windlass.store import compositions as store
from windlass.store import runs, steps
from windlass.store.compositions import NewComposition
from windlass.store.postgres.pool import Connection
from windlass.store.workflows import Live


async def retry(db: Tenant, id_: str, *, as_: str | None = None) -> UUID:
    """Retry a composition that ended; return the run of the new one. `as_` is the client's id for the new one."""
    async with db.begin() as conn:
        run, root = await compositions.find(conn, db, id_)
        if run != root:
            raise Conflict(f"workflow {id_} is nested in another workflow: retry that one")
        [locked] = await runs.lock(conn, [root])
        tree = await store.tree(conn, root)
        known = await db.definitions.of(conn, {node.version_id for node in tree.values()})
        plan = _Plan(tree, known)
        letters = plan.take(tree[root], (own_id(as_) if as_ else None) or new_ids(1)[0])
        if tree[root].state in LIVE:
            raise Conflict(f"workflow {id_} is {tree[root].state}: only ended workflows can be retried")
        if Letter.WAITING not in letters:
            raise Conflict(f"workflow {id_} has nothing to retry: all of its jobs succeeded")
        alias = as_ if as_ and own_id(as_) is None else None
        new = await _write(conn, db, plan, alias=alias)
        fans = {n: fan for n, fan in tree[root].fans.items() if letters[int(n)] != Letter.WAITING}
        wakeups = await compositions.begin(
            conn,
            db,
            new,
            Live(known[locked.version_id].name, locked.workflow_id, locked.version_id, 1, True, ""),
            letters,
            input_=(await steps.inputs(conn, [root]))[root].input,
            name=tree[root].name,
            alias=alias,
            fans=json.dumps(fans) if fans else None,
        )
        await store.start(conn, [new], actor=db.actor)  # it resumes midway: no first claim marks it as started
    wakeups.poke(db)
    if wakeups.unsettled:
        await sweep.follow(db, [new])
    return new


@dataclass
class _Plan:
    """The rows with which a tree is retried: each composition is copied whole, restarted in part, or started anew."""

    tree: Mapping[UUID, Node]
    known: Mapping[int, Workflow]
    rows: list[NewComposition] = field(default_factory=list)
    runs: list[tuple[UUID, UUID, UUID]] = field(default_factory=list)
    jobs: list[tuple[UUID, UUID, int]] = field(default_factory=list)
    again: list[tuple[UUID, UUID, int]] = field(default_factory=list)

    def take(self, node: Node, new: UUID, parent: UUID | None = None, *, whole: bool = False) -> str:
        """Plan a composition and all nested ones; return the state letters of the steps that it begins with."""
        workflow = self.known[node.version_id]
        before = letters_of(node, workflow)
        letters = before if whole else letters_to_retry(workflow, before)
        brought = letters if letters.strip(Letter.WAITING) and parent is not None and not whole else None
        self.rows.append(self._row(node, new, parent, brought))
        if whole and parent is not None:
            self.runs.append((node.run_id, new, parent))
        inside = {other.parent_step: other for other in self.tree.values() if other.parent_id == node.run_id}
        self.jobs += [
            (node.run_id, new, n) for n, letter in enumerate(letters) if letter == Letter.SUCCEEDED and n not in inside
        ]
        self.again += [(node.run_id, new, n) for n, letter in enumerate(letters) if letter == Letter.WAITING]
        for n, other in inside.items():
            if n is not None:
                self.take(other, new_ids(1)[0], new, whole=letters[n] == Letter.SUCCEEDED)
        return letters

    @staticmethod
    def _row(node: Node, new: UUID, parent: UUID | None, brought: str | None) -> NewComposition:
        labels = encode(node.labels, field="steps", limit=INPUT_LIMIT) if node.labels else None
        place = (parent, node.parent_step if parent else None)
        return NewComposition(
            new, *place, node.kind, node.name, None, node.version_id, node.jobs, labels, brought, node.run_id
        )


async def _write(conn: Connection, db: Tenant, plan: _Plan, *, alias: str | None) -> UUID:
    if plan.again:
        await compositions.take_keys_again(conn, plan.again)
    first, *others = plan.rows
    rows = [first._replace(alias=alias), *others]
    if await store.insert(conn, first.run_id, rows, org=db.org) < len(rows):
        raise Duplicate(f"a workflow {alias or first.run_id} already exists", existing=alias)
    if plan.runs:
        await store.copy_runs(conn, plan.runs)
    if plan.jobs:
        await store.copy_jobs(conn, plan.jobs)
    return first.run_id

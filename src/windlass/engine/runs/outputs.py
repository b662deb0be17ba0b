"""Loads the outputs of steps and runs, for display and for expressions.

The output of a step is the result of its job, the body of an HTTP response or of a callback, a message or a decision.
For a fanned-out step it is the list of its instances' outputs, by index; for a step with a child run, the output of
that run. The output of a run is that of its last step, or of several last steps by name.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple
from uuid import UUID

from windlass.core.artifacts import Reference
from windlass.core.events import webhook
from windlass.core.expressions.scope import MISSING, Facts, JsonText, Path, TaskFacts
from windlass.core.jobs.job import Claimed
from windlass.core.json_value import decode
from windlass.core.runs.run import NEVER_BEGAN, Letter, Run
from windlass.core.workflows.graph import Plan
from windlass.core.workflows.step import (
    ApprovalAction,
    ChildAction,
    EventAction,
    HookAction,
    HttpAction,
    SleepAction,
    Step,
)
from windlass.core.workflows.workflow import Workflow
from windlass.engine.database import Database
from windlass.store import approvals, hooks, steps
from windlass.store.hooks import Callback
from windlass.store.messages import waiters
from windlass.store.outputs import artifacts
from windlass.store.postgres.pool import Connection
from windlass.store.runs import LockedRun
from windlass.store.steps import Result, StepRef

MOST_INSTANCES = 10_000  # of a fanned-out step, in one list; more are read page by page
STATUS = {
    Letter.WAITING: "pending",
    Letter.ACTIVE: "running",
    Letter.SUCCEEDED: "success",
    Letter.FAILED: "failed",
    Letter.TIMED_OUT: "timeout",
    Letter.SKIPPED: "skipped",
    Letter.CANCELLED: "cancelled",
}
NO_INSTANCES = "instances"  # the reason code of a failed fan-out
Codes = Mapping[StepRef, str]


class TooMany:
    """Stands for the output of a step that has more instances than one list may hold."""

    def __init__(self, name: str, count: int) -> None:
        self.text = f"{name} has {count} instances, a list holds {MOST_INSTANCES} at most: read them page by page"


async def of_steps(
    conn: Connection, db: Database, requested: Mapping[UUID, tuple[Plan, Iterable[int]]]
) -> dict[StepRef, Any]:
    """Return the outputs of these steps; None for a step without output."""
    places = [(run, step) for run, (_, numbers) in requested.items() for step in numbers]
    kinds: dict[type, list[StepRef]] = defaultdict(list)
    for place in places:
        kinds[type(_step(requested, place).action)].append(place)
    below, called = kinds.pop(ChildAction, []), kinds.pop(HookAction, [])
    awaited, decided = kinds.pop(EventAction, []), kinds.pop(ApprovalAction, [])
    outputs = await _results(conn, requested, [place for some in kinds.values() for place in some])
    if below:
        outputs |= await _children(conn, db, requested, below)
    for call in await hooks.bodies(conn, called) if called else ():
        outputs[call.run_id, call.step] = JsonText(call.body).value
    if awaited:
        outputs |= {place: decode(text) for place, text in (await waiters.payloads(conn, awaited)).items()}
    if decided:
        outputs |= await approvals.outputs(conn, decided)
    if silent := [place for place in places if place not in outputs and _step(requested, place).fan_out is not None]:
        outputs |= {place: [] for place in await steps.succeeded(conn, silent)}
    return {place: outputs.get(place) for place in places}


async def definition(db: Database, version_id: int) -> Workflow:
    async with db.once() as conn:
        return await db.definitions.one(conn, version_id)


async def of_needs(db: Database, jobs: Sequence[Claimed]) -> dict[UUID, dict[str, Any]]:
    """Return, by job id, the outputs of the steps that each job's step depends on, by step name."""
    plans: dict[UUID, Plan] = {}
    needed: dict[UUID, set[int]] = defaultdict(set)
    async with db.begin() as conn:
        known = await db.definitions.of(conn, {job.version_id for job in jobs if job.version_id is not None})
        for job in jobs:
            assert job.run_id is not None
            assert job.version_id is not None
            assert job.step is not None
            plans[job.run_id] = known[job.version_id].plan
            needed[job.run_id] |= plans[job.run_id].before(job.step)
        outputs = await of_steps(conn, db, {run: (plan, needed[run]) for run, plan in plans.items()})
    return {
        job.id: {plans[job.run_id].steps[n].name: outputs[job.run_id, n] for n in plans[job.run_id].before(job.step)}
        for job in jobs
        if job.run_id is not None and job.step is not None
    }


async def of_run(conn: Connection, db: Database, run: UUID, plan: Plan, letters: str) -> Any:
    sinks = last_steps(plan)
    done = [n for n in sinks if letters[n] == Letter.SUCCEEDED]
    outputs = await of_steps(conn, db, {run: (plan, done)})
    if len(sinks) == 1:
        return outputs.get((run, sinks[0]))
    return {plan.steps[n].name: outputs[run, n] for n in done}


def last_steps(plan: Plan) -> list[int]:
    """Return the steps that no step depends on, except compensations; the final step only if there is no other."""
    others = {plan.final, *plan.compensations}
    sinks = [n for n, children in enumerate(plan.children) if not children and n not in others]
    return sinks or [n for n in (plan.final,) if n is not None]


async def _results(
    conn: Connection, requested: Mapping[UUID, tuple[Plan, Iterable[int]]], places: Sequence[StepRef]
) -> dict[StepRef, Any]:
    if not places:
        return {}
    rows: dict[StepRef, list[Result]] = defaultdict(list)
    for row in await steps.results(conn, places, most=MOST_INSTANCES):
        rows[row.run_id, row.step].append(row)
    return {place: _output(_step(requested, place), results) for place, results in rows.items()}


def _output(step: Step, rows: Sequence[Result]) -> Any:
    count = rows[0].items
    if count is not None and count > MOST_INSTANCES:
        return TooMany(step.name, count)
    values = [decode(row.result) for row in rows]
    if isinstance(step.action, HttpAction):
        values = [JsonText(value["body"]).value if value else None for value in values]
    return values[0] if count is None else by_index(count, rows, values)


def by_index(count: int, rows: Sequence[Result], values: Sequence[Any]) -> list[Any]:
    """Return the values of a fanned-out step by index; None for an instance without a job: its templates failed."""
    if len(rows) == count:
        return list(values)
    known = {row.item: value for row, value in zip(rows, values, strict=True)}
    return [known.get(n) for n in range(count)]


async def _children(
    conn: Connection, db: Database, requested: Mapping[UUID, tuple[Plan, Iterable[int]]], places: Sequence[StepRef]
) -> dict[StepRef, Any]:
    rows: dict[StepRef, list[Any]] = defaultdict(list)
    below = await steps.children(conn, [(*place, _step(requested, place).fan_out is not None) for place in places])
    known = await db.definitions.of(conn, {child.version_id for child in below})
    for child in below:
        plan = known[child.version_id].plan
        rows[child.parent_id, child.step].append(await of_run(conn, db, child.id, plan, child.letters))
    return {
        place: outputs if _step(requested, place).fan_out is not None else outputs[0] for place, outputs in rows.items()
    }


def _step(requested: Mapping[UUID, tuple[Plan, Iterable[int]]], place: StepRef) -> Step:
    run, number = place
    return requested[run][0].steps[number]


# Facts: the values that `if`s and templates refer to, loaded for a batch of runs at once and only where referenced


class Referenced(NamedTuple):
    """A run and the paths that are referenced."""

    row: LockedRun
    run: Run
    paths: Sequence[Path]

    @property
    def steps(self) -> set[int]:
        return {self.run.plan.number[path.name] for path in self.paths if path.root == "tasks"}

    @property
    def artifacts(self) -> set[tuple[str, str]]:
        """The referenced artifacts, as (step, name)."""
        return {(path.name, str(path.rest[0])) for path in self.paths if path.field == "artifacts"}


async def load_facts(
    conn: Connection, db: Database, references: Iterable[Referenced], *, codes: Codes | None = None
) -> dict[UUID, Facts]:
    """Return the facts of each run, without those that differ by step. `codes`: reason codes not written yet."""
    runs = {ref.row.id: ref for ref in references}
    inputs = await _inputs(conn, runs)
    tasks = await _tasks(conn, db, runs, await _codes(conn, runs, codes or {}))
    urls = await _urls(conn, db, runs)
    return {
        id_: Facts(
            trigger_body=JsonText(inputs[id_].input) if id_ in inputs else None,
            trigger_headers=decode(inputs[id_].headers) or {} if id_ in inputs else {},
            tasks=tasks[id_],
            waits=urls[id_],
            run_id=str(id_),
            run_attempt=ref.row.round + 1,
        )
        for id_, ref in runs.items()
    }


async def _inputs(conn: Connection, runs: Mapping[UUID, Referenced]) -> dict[UUID, steps.Given]:
    ids = [id_ for id_, ref in runs.items() if any(path.root == "trigger" for path in ref.paths)]
    return await steps.inputs(conn, ids) if ids else {}


async def _urls(conn: Connection, db: Database, runs: Mapping[UUID, Referenced]) -> dict[UUID, dict[str, str]]:
    urls: dict[UUID, dict[str, str]] = defaultdict(dict)
    places = {
        (id_, ref.run.plan.number[path.name]): path.name
        for id_, ref in runs.items()
        for path in ref.paths
        if path.root == "wait"
    }
    if not places:
        return urls
    key, base = await db.hook_key(conn), await db.public_url.get(conn)
    later = [place for place in places if runs[place[0]].row.round]  # in the first round no token was replaced
    rounds = await hooks.rounds(conn, later) if later else {}
    for (id_, step), name in places.items():
        urls[id_][name] = f"{base}/wh/{webhook.callback_token(key, id_, step, rounds.get((id_, step), 0))}"
    return urls


async def _codes(conn: Connection, runs: Mapping[UUID, Referenced], unwritten: Codes) -> dict[StepRef, str | None]:
    """Return the reason codes of failed steps: one that never began may still have results of an earlier round."""
    failed = [(id_, n) for id_, ref in runs.items() for n in ref.steps if ref.run.letters[n] == Letter.FAILED]
    known: dict[StepRef, str | None] = {place: unwritten[place] for place in failed if place in unwritten}
    written = [place for place in failed if place not in known]
    return known | await steps.codes(conn, written) if written else known


async def _tasks(
    conn: Connection, db: Database, runs: Mapping[UUID, Referenced], codes: Mapping[StepRef, str | None]
) -> dict[UUID, dict[str, TaskFacts]]:
    kinds: dict[type, list[StepRef]] = defaultdict(list)
    for id_, ref in runs.items():
        for number in ref.steps:
            kinds[type(ref.run.plan.steps[number].action)].append((id_, number))
    kinds.pop(SleepAction, None)
    called, below = kinds.pop(HookAction, []), kinds.pop(ChildAction, [])
    awaited, decided = kinds.pop(EventAction, []), kinds.pop(ApprovalAction, [])
    jobs = [place for some in kinds.values() for place in some]
    rows: dict[StepRef, list[Result]] = defaultdict(list)
    for row in await steps.results(conn, jobs, most=MOST_INSTANCES) if jobs else ():
        rows[row.run_id, row.step].append(row)
    calls = {(call.run_id, call.step): call for call in (await hooks.bodies(conn, called) if called else ())}
    payloads = await waiters.payloads(conn, awaited) if awaited else {}
    decisions = await approvals.outputs(conn, decided) if decided else {}
    children = await of_steps(conn, db, _by_run(runs, below)) if below else {}
    files = await _artifacts(conn, runs, rows)
    tasks: dict[UUID, dict[str, TaskFacts]] = defaultdict(dict)
    for id_, ref in runs.items():
        for n in ref.steps:
            step, letter = ref.run.plan.steps[n], Letter(ref.run.letters[n])
            place = id_, n
            none_began = codes.get(place) == NO_INSTANCES and place in jobs and place not in rows
            if codes.get(place) == NEVER_BEGAN or none_began:
                tasks[id_][step.name] = TaskFacts(status=NEVER_BEGAN)
            elif place in payloads:
                tasks[id_][step.name] = TaskFacts(status="received", body=JsonText(payloads[place]))
            elif place in decisions:
                tasks[id_][step.name] = TaskFacts(status=STATUS[letter], body=decisions[place])
            else:
                fact = _fact(step, letter, rows.get(place, ()), calls.get(place), children.get(place))
                tasks[id_][step.name] = replace(fact, artifacts=files[place]) if place in files else fact
    return tasks


async def _artifacts(
    conn: Connection, runs: Mapping[UUID, Referenced], rows: Mapping[StepRef, Sequence[Result]]
) -> dict[StepRef, dict[str, Any]]:
    """Return the references of the artifacts that paths name. If there are none, no query is made."""
    requested = [(id_, step, name) for id_, ref in runs.items() for step, name in ref.artifacts]
    files: dict[StepRef, dict[str, Any]] = defaultdict(dict)
    for run, step, name, item in await artifacts.of_steps(conn, requested, most=MOST_INSTANCES) if requested else ():
        place = run, runs[run].run.plan.number[step]
        count = next((row.items for row in rows.get(place, ())), None)
        reference = str(Reference(run, step, item, name))
        if count is None:
            files[place][name] = reference
        elif item < count <= MOST_INSTANCES:  # an earlier round may have had more instances
            files[place].setdefault(name, [None] * count)[item] = reference
    return files


def _by_run(runs: Mapping[UUID, Referenced], places: Sequence[StepRef]) -> dict[UUID, tuple[Any, list[int]]]:
    return {
        run: (runs[run].run.plan, [n for id_, n in places if id_ == run]) for run in dict.fromkeys(p[0] for p in places)
    }


def _fact(step: Step, letter: Letter, rows: Sequence[Result], call: Callback | None, child: Any) -> TaskFacts:
    if letter in (Letter.SKIPPED, Letter.WAITING):
        return TaskFacts(status=STATUS[letter])
    if step.fan_out is not None and letter is Letter.SUCCEEDED and not rows and not child:
        return TaskFacts(status=STATUS[letter], body=[])  # a fan-out over an empty list
    match step.action:
        case HookAction():
            return _called(letter, call)
        case ChildAction():
            return TaskFacts(status=STATUS[letter], body=MISSING if isinstance(child, TooMany) else child)
        case SleepAction() | EventAction() | ApprovalAction():
            return TaskFacts(status=STATUS[letter])
        case _ if not rows:
            return TaskFacts(status=STATUS[letter])
        case HttpAction():
            return _answered(letter, rows)
        case _:
            return _returned(letter, rows)


def _called(letter: Letter, call: Callback | None) -> TaskFacts:
    if call is None:
        return TaskFacts(status=STATUS[letter])
    status = "received" if letter is Letter.SUCCEEDED else STATUS[letter]
    return TaskFacts(status=status, body=JsonText(call.body), headers=decode(call.headers))


def _returned(letter: Letter, rows: Sequence[Result]) -> TaskFacts:
    first = rows[0]
    if first.items is not None:
        whole = first.items <= MOST_INSTANCES
        body: Any = by_index(first.items, rows, [decode(row.result) for row in rows]) if whole else MISSING
    else:
        body = MISSING if first.result is None else JsonText(first.result)
    return TaskFacts(status=STATUS[letter], body=body, error=first.error, attempt=first.attempts)


def _answered(letter: Letter, rows: Sequence[Result]) -> TaskFacts:
    count = rows[0].items
    answers = [decode(row.result) or {} for row in rows]
    if count is not None:
        bodies = [JsonText(answer["body"]).value if "body" in answer else None for answer in answers]
        return TaskFacts(
            status=STATUS[letter], body=by_index(count, rows, bodies) if count <= MOST_INSTANCES else MISSING
        )
    answer = answers[0]
    return TaskFacts(
        status=STATUS[letter],
        status_code=answer.get("status_code"),
        body=JsonText(answer["body"]) if "body" in answer else MISSING,
        headers=answer.get("headers"),
        error=rows[0].error,
        attempt=rows[0].attempts,
        truncated=bool(answer.get("is_truncated")),
    )

"""Loads what `if`s and templates refer to, for a batch of runs at once and only where it is referenced."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple
from uuid import UUID

from windlass.core.events import webhook
from windlass.core.expressions.scope import MISSING, Facts, JsonText, Path, TaskFacts
from windlass.core.json_value import decode
from windlass.core.runs.run import NEVER_BEGAN, Letter, Run
from windlass.core.workflows.step import ChildAction, HookAction, HttpAction, SleepAction, Step
from windlass.engine.database import Database
from windlass.engine.runs import outputs
from windlass.engine.runs.outputs import MOST_INSTANCES, TooMany, by_index
from windlass.store import hooks, steps
from windlass.store.hooks import Callback
from windlass.store.postgres.pool import Connection
from windlass.store.runs import LockedRun
from windlass.store.steps import Result, StepRef

STATUS = {
    Letter.WAITING: "pending",
    Letter.ACTIVE: "running",
    Letter.SUCCEEDED: "success",
    Letter.FAILED: "failed",
    Letter.TIMED_OUT: "timeout",
    Letter.SKIPPED: "skipped",
    Letter.CANCELLED: "cancelled",
}
INSTANCES = "instances"  # the code of a failed fan-out
Codes = Mapping[StepRef, str]


class Referenced(NamedTuple):
    """A run and the paths that are referenced."""

    row: LockedRun
    run: Run
    paths: Sequence[Path]

    @property
    def steps(self) -> set[int]:
        return {self.run.plan.number[path.name] for path in self.paths if path.root == "tasks"}


async def load(
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
    """Return why the referenced steps failed: a step that never began may have results of an earlier round."""
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
    jobs = [place for some in kinds.values() for place in some]
    rows: dict[StepRef, list[Result]] = defaultdict(list)
    for row in await steps.results(conn, jobs, most=MOST_INSTANCES) if jobs else ():
        rows[row.run_id, row.step].append(row)
    calls = {(call.run_id, call.step): call for call in (await hooks.bodies(conn, called) if called else ())}
    children = await outputs.of_steps(conn, db, _by_run(runs, below)) if below else {}
    tasks: dict[UUID, dict[str, TaskFacts]] = defaultdict(dict)
    for id_, ref in runs.items():
        for n in ref.steps:
            step, letter = ref.run.plan.steps[n], Letter(ref.run.letters[n])
            place = id_, n
            none_began = codes.get(place) == INSTANCES and place in jobs and place not in rows
            if codes.get(place) == NEVER_BEGAN or none_began:
                tasks[id_][step.name] = TaskFacts(status=NEVER_BEGAN)
            else:
                tasks[id_][step.name] = _fact(step, letter, rows.get(place, ()), calls.get(place), children.get(place))
    return tasks


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
        case SleepAction():
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

"""Evaluates `if`s, fills in templates and expands fan-outs for the decisions about runs.

If that fails, the step ends with the reason.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple
from uuid import UUID

from windlass.core.definition.step import MAX_INSTANCES
from windlass.core.events.message import filled_address
from windlass.core.expressions import expression
from windlass.core.expressions.scope import MISSING, Facts, Path
from windlass.core.json_value import encode
from windlass.core.runs.command import AwaitMessages, Enqueue, RequestApproval, StartChild
from windlass.core.runs.event import Ended, Event, Expanded, Judged
from windlass.core.runs.run import BAD, NEVER_BEGAN, Letter, Reason, Run
from windlass.core.templates.template import value_at
from windlass.core.workflows.step import CommandAction, EventAction, Foreach, JobAction, Parallel
from windlass.engine.database import Database
from windlass.engine.definitions import StepTemplate
from windlass.engine.runs import approvals, outputs
from windlass.engine.runs.outputs import Codes, Referenced
from windlass.errors import Invalid
from windlass.store import steps
from windlass.store.approvals import NewApproval
from windlass.store.messages.waiters import StepWait
from windlass.store.postgres.pool import Connection
from windlass.store.runs import LockedRun
from windlass.store.steps import Expansion

CHUNK = 2_000  # instances whose items are read with one query: decoding them takes about ten milliseconds
SLICE = 200  # instances that are filled in before the event loop runs other tasks: a few milliseconds
MAX_LIST = 16 * 1_048_576  # bytes of a list that is not stored in one row
KINDS = {"string": "a string", "number": "a number", "boolean": "true or false", "object": "an object", "null": "null"}
_log = logging.getLogger("windlass.evaluate")


class Question(NamedTuple):
    """An `if`, a template or a fan-out of a step, to be evaluated with the facts of its run."""

    row: LockedRun
    run: Run
    template: StepTemplate
    command: Enqueue | StartChild | AwaitMessages | RequestApproval | None = None  # None: evaluate its `if`

    @property
    def paths(self) -> tuple[Path, ...]:
        if self.command is not None:
            return self.template.payload.references
        return () if self.template.condition is None else self.template.condition.paths


@dataclass(frozen=True, slots=True)
class Filled:
    """The payload of instances `first` to `first + count - 1`."""

    first: int
    count: int
    payload: str


async def load(conn: Connection, db: Database, questions: list[Question], *, codes: Codes) -> dict[UUID, Facts]:
    """Return the facts that the questions reference, loaded for all runs at once."""
    runs: dict[UUID, Referenced] = {}
    for question in questions:
        known = runs.get(question.row.id)
        paths = [*(known.paths if known else ()), *question.paths]
        runs[question.row.id] = Referenced(question.row, question.run, paths)
    return await outputs.load_facts(conn, db, runs.values(), codes=codes)


def judge(question: Question, facts: Facts) -> Event:
    """Evaluate the `if` of a step. An error fails only this step, not the whole settlement."""
    try:
        return _judge(question, facts)
    except Exception as error:
        return _defect(question.template, f"its `if` could not be evaluated: {error!r}", error)


def _judge(question: Question, facts: Facts) -> Event:
    condition, number = question.template.condition, question.template.number
    assert condition is not None
    if condition.needs_ancestors:
        letters = [question.run.letters[n] for n in question.template.plan.ancestors(number)]
        failed = any(letter in BAD for letter in letters)
        good = all(letter == Letter.SUCCEEDED for letter in letters)
        facts = replace(facts, ancestors_failed=failed, all_succeeded=good)
    verdict = expression.evaluate(condition, facts)
    return Judged(number, verdict.holds, Reason("if", verdict.text))


async def fill(conn: Connection, question: Question, facts: Facts) -> AsyncIterator[tuple[list[Filled], list[Event]]]:
    """Yield the payloads of a step's instances, and ends for instances whose templates cannot be filled in.

    Yields chunks, because there may be a million instances: other tasks run in between, and the session is never idle
    for long. The caller writes each chunk before it requests the next.
    """
    command, template = question.command, question.template
    assert isinstance(command, Enqueue | StartChild)
    if not template.per_item:
        yield _filled(template, facts, [(command.first, facts.item)], command.count)
        return
    end = command.first + command.count
    for first in range(command.first, end, CHUNK):
        values = await _values(conn, question, first, min(CHUNK, end - first))
        for part in range(0, len(values), SLICE):
            await asyncio.sleep(0)
            yield _filled(template, facts, values[part : part + SLICE], 1)


def fill_wait(question: Question, facts: Facts) -> StepWait | Ended:
    """Return the messages that a step waits for, or its end if the templates cannot be filled in."""
    command, template, action = question.command, question.template, question.template.step.action
    assert isinstance(command, AwaitMessages)
    assert isinstance(action, EventAction)
    run = question.row
    try:
        filled = template.payload.fill(facts)
        name, key = filled_address(filled["name"], filled["key"])
    except Invalid as error:
        return Ended(template.number, Letter.FAILED, Reason(NEVER_BEGAN, str(error)))
    except Exception as error:
        return _defect(template, f"its event could not be filled in: {error!r}", error)
    address = str(run.id) if key is None else key
    return StepWait(run.id, command.step, run.round, name, address, key is None, action.count, command.at)


def fill_request(question: Question, facts: Facts) -> NewApproval | Ended:
    """Return the approval that a step waits for, or its end if the message cannot be filled in."""
    assert isinstance(question.command, RequestApproval)
    try:
        return approvals.request(question.row, question.template, facts, question.command.at)
    except Invalid as error:
        return Ended(question.template.number, Letter.FAILED, Reason(NEVER_BEGAN, str(error)))
    except Exception as error:
        return _defect(question.template, f"its approval could not be requested: {error!r}", error)


def _filled(
    template: StepTemplate, facts: Facts, values: Sequence[tuple[int, Any]], count: int
) -> tuple[list[Filled], list[Event]]:
    """Return the payloads, and one end for all instances that failed, with the reason of the first."""
    filled: list[Filled] = []
    first: Ended | None = None
    for index, item in values:
        known = replace(facts, item=item, index=index) if template.per_item else facts
        try:
            filled.append(Filled(index, count, _text(template, known)))
        except Invalid as error:
            first = first or Ended(template.number, Letter.FAILED, Reason(NEVER_BEGAN, str(error)))
        except Exception as error:
            first = first or _defect(template, f"its input could not be filled in: {error!r}", error)
    missing = (len(values) - len(filled)) * count
    return filled, [] if first is None else [replace(first, count=missing)]


async def _values(conn: Connection, question: Question, first: int, count: int) -> list[tuple[int, Any]]:
    if isinstance(question.template.step.fan_out, Foreach):
        return await steps.items(conn, question.row.id, question.template.number, first, count)
    return [(index, MISSING) for index in range(first, first + count)]


def _text(template: StepTemplate, facts: Facts) -> str:
    payload = template.payload.fill(facts)
    if isinstance(template.step.action, CommandAction) and facts.item is not MISSING:
        fields = payload["input"] if isinstance(payload["input"], dict) else {}
        payload = {**payload, "input": {**fields, "item": facts.item}}
    return encode(payload, field=f"the input of {template.step.name}")


def _defect(template: StepTemplate, message: str, error: Exception) -> Ended:
    """Return the end of a step that failed with an unexpected error, and log the traceback."""
    _log.error("step %s of version %d: %s", template.step.name, template.version_id, message, exc_info=error)
    return Ended(template.number, Letter.FAILED, Reason(NEVER_BEGAN, message))


async def expand(conn: Connection, db: Database, question: Question) -> Event:
    """Create the items of a fan-out; return their number, or the end of the step with the reason."""
    template = question.template
    path = template.source
    assert path is not None
    number, foreach = template.number, isinstance(template.step.fan_out, Foreach)
    if foreach and _is_whole_fan_out(template, path):
        source = template.plan.number[path.name]
        count = await steps.expand_instances(conn, question.row.id, number, source)
        return _limited(number, path.text, count)
    try:
        expansion = await _expand_value(conn, db, question, path, make=foreach)
    except Invalid as error:
        return _refused(number, str(error))
    if isinstance(template.step.fan_out, Parallel):
        return _counted(number, path.text, expansion)
    if expansion.kind != "array":
        return _refused(number, f"{path.text} is {_description(expansion)}, not a list")
    return _limited(number, path.text, expansion.many)


async def _expand_value(conn: Connection, db: Database, question: Question, path: Path, *, make: bool) -> Expansion:
    """Expand a value inside SQL if it is stored in one row; otherwise load it from the facts of the run."""
    run, number = question.row.id, question.template.number
    if not _is_contiguous(question.template, path):
        facts = await outputs.load_facts(conn, db, [Referenced(question.row, question.run, [path])])
        value = encode(value_at(facts[run], path), field=path.text, limit=MAX_LIST)
        return await steps.expand(conn, run, number, None, [], make=make, value=value)
    source = question.template.plan.number[path.name] if path.root == "tasks" else None
    return await steps.expand(conn, run, number, source, list(map(str, path.rest)), make=make, value=None)


def _is_contiguous(template: StepTemplate, path: Path) -> bool:
    if path.root == "trigger":
        return path.field == "body"
    source = template.plan.steps[template.plan.number[path.name]]
    return isinstance(source.action, JobAction | CommandAction) and source.fan_out is None


def _is_whole_fan_out(template: StepTemplate, path: Path) -> bool:
    if path.root != "tasks" or path.rest:
        return False
    source = template.plan.steps[template.plan.number[path.name]]
    return source.fan_out is not None and isinstance(source.action, JobAction | CommandAction)


def _counted(number: int, path: str, expansion: Expansion) -> Event:
    if expansion.kind != "number" or not expansion.value or not expansion.value.isdigit():
        return _refused(number, f"{path} is {_description(expansion)}, not a non-negative integer")
    return _limited(number, path, int(expansion.value))


def _limited(number: int, path: str, count: int) -> Event:
    if count > MAX_INSTANCES:
        return _refused(number, f"{path} requires {count} instances, the limit is {MAX_INSTANCES}")
    return Expanded(number, count)


def _refused(number: int, why: str) -> Event:
    return Ended(number, Letter.FAILED, Reason("expansion", f"cannot expand: {why}"))


def _description(expansion: Expansion) -> str:
    if expansion.kind is None:
        return "missing"
    kind = "a list" if expansion.kind == "array" else KINDS[expansion.kind]
    return f"{kind} ({expansion.value})" if expansion.kind in ("number", "boolean") else kind

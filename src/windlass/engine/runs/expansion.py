"""Expands fan-outs: answers `Expand` with the number of instances. SQL creates the items: there may be many."""

from windlass.core.expressions.paths import Path
from windlass.core.json_value import encode
from windlass.core.runs.event import Ended, Event, Expanded
from windlass.core.runs.reason import Reason
from windlass.core.runs.run import Letter
from windlass.core.templates.nodes import value_at
from windlass.core.workflows.step import CommandAction, Foreach, JobAction, Parallel
from windlass.engine.database import Database
from windlass.engine.runs import scope as knowledge
from windlass.engine.runs.evaluate import Question
from windlass.engine.runs.scope import Asked
from windlass.engine.runs.step_templates import StepTemplate
from windlass.errors import Invalid
from windlass.store import steps
from windlass.store.postgres.pool import Connection
from windlass.store.steps import Expansion

MAX_INSTANCES = 1_000_000
MAX_LIST = 16 * 1_048_576
KINDS = {"string": "a text", "number": "a number", "boolean": "true or false", "object": "an object", "null": "null"}


async def expand(conn: Connection, db: Database, question: Question) -> Event:
    """Create the items of a fan-out; return their number, or the end of the step with the reason."""
    recipe = question.recipe
    path = recipe.source
    assert path is not None
    number, foreach = recipe.number, isinstance(recipe.step.fan_out, Foreach)
    if foreach and _is_whole_fan_out(recipe, path):
        source = recipe.plan.number[path.name]
        count = await steps.expand_instances(conn, question.held.id, number, source)
        return _limited(number, path.text, count)
    try:
        found = await _find(conn, db, question, path, make=foreach)
    except Invalid as error:
        return _refused(number, str(error))
    if isinstance(recipe.step.fan_out, Parallel):
        return _counted(number, path.text, found)
    if found.kind != "array":
        return _refused(number, f"{path.text} is {_shown(found)}, not a list")
    return _limited(number, path.text, found.many)


async def _find(conn: Connection, db: Database, question: Question, path: Path, *, make: bool) -> Expansion:
    """Expand a value inside SQL if it is stored in one row; otherwise load it from the facts of the run."""
    run, number = question.held.id, question.recipe.number
    if not _lies_in_a_row(question.recipe, path):
        facts = await knowledge.load(conn, db, [Asked(question.held, question.run, [path])])
        value = encode(value_at(facts[run], path), field=path.text, limit=MAX_LIST)
        return await steps.expand(conn, run, number, None, [], make=make, value=value)
    source = question.recipe.plan.number[path.name] if path.root == "tasks" else None
    return await steps.expand(conn, run, number, source, list(map(str, path.rest)), make=make, value=None)


def _lies_in_a_row(recipe: StepTemplate, path: Path) -> bool:
    if path.root == "trigger":
        return path.field == "body"
    source = recipe.plan.steps[recipe.plan.number[path.name]]
    return isinstance(source.action, JobAction | CommandAction) and source.fan_out is None


def _is_whole_fan_out(recipe: StepTemplate, path: Path) -> bool:
    if path.root != "tasks" or path.rest:
        return False
    source = recipe.plan.steps[recipe.plan.number[path.name]]
    return source.fan_out is not None and isinstance(source.action, JobAction | CommandAction)


def _counted(number: int, path: str, found: Expansion) -> Event:
    if found.kind != "number" or not found.value or not found.value.isdigit():
        return _refused(number, f"{path} is {_shown(found)}, not a whole number of 0 or more")
    return _limited(number, path, int(found.value))


def _limited(number: int, path: str, count: int) -> Event:
    if count > MAX_INSTANCES:
        return _refused(number, f"{path} asks for {count} instances, the limit is {MAX_INSTANCES}")
    return Expanded(number, count)


def _refused(number: int, why: str) -> Event:
    return Ended(number, Letter.FAILED, Reason("expansion", f"cannot expand: {why}"))


def _shown(found: Expansion) -> str:
    if found.kind is None:
        return "missing"
    told = "a list" if found.kind == "array" else KINDS[found.kind]
    return f"{told} ({found.value})" if found.kind in ("number", "boolean") else told

"""Answers the questions of a decision: evaluates `if`s and fills in templates.

If a question cannot be answered, the step ends with the reason.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple
from uuid import UUID

from windlass.core.expressions import expression
from windlass.core.expressions.paths import Path
from windlass.core.expressions.scope import MISSING, Facts
from windlass.core.json_value import encode
from windlass.core.runs.command import Enqueue, StartChild
from windlass.core.runs.event import Ended, Event, Judged
from windlass.core.runs.reason import Reason
from windlass.core.runs.run import BAD, Letter, Run
from windlass.core.workflows.step import CommandAction, Foreach
from windlass.engine.database import Database
from windlass.engine.runs import scope as knowledge
from windlass.engine.runs.scope import NEVER_BEGAN, Asked, Codes
from windlass.engine.runs.step_templates import StepTemplate
from windlass.errors import Invalid
from windlass.store import steps
from windlass.store.postgres.pool import Connection
from windlass.store.runs import LockedRun

CHUNK = 2_000  # instances whose items are read with one query: decoding them takes about ten milliseconds
SLICE = 200  # instances that are filled in before the event loop runs other tasks: a few milliseconds
_log = logging.getLogger("windlass.evaluate")


class Question(NamedTuple):
    """A question about a step of a run whose answer needs the run's facts."""

    held: LockedRun
    run: Run
    recipe: StepTemplate
    command: Enqueue | StartChild | None = None  # None: evaluate its `if`

    @property
    def paths(self) -> tuple[Path, ...]:
        if self.command is not None:
            return self.recipe.payload.references
        return () if self.recipe.condition is None else self.recipe.condition.paths


@dataclass(frozen=True, slots=True)
class Filled:
    """Instances `first` to `first + count - 1` have this payload."""

    first: int
    count: int
    payload: str


async def load(conn: Connection, db: Database, questions: list[Question], *, said: Codes) -> dict[UUID, Facts]:
    """Return the facts that the questions need, loaded for all runs at once."""
    asked: dict[UUID, Asked] = {}
    for question in questions:
        known = asked.get(question.held.id)
        paths = [*(known.paths if known else ()), *question.paths]
        asked[question.held.id] = Asked(question.held, question.run, paths)
    return await knowledge.load(conn, db, asked.values(), said=said)


def judge(question: Question, facts: Facts) -> Event:
    """Evaluate the `if` of a step. An error fails only this step, not the whole settlement."""
    try:
        return _judge(question, facts)
    except Exception as error:
        return _defect(question.recipe, f"its `if` could not be evaluated: {error!r}", error)


def _judge(question: Question, facts: Facts) -> Event:
    condition, number = question.recipe.condition, question.recipe.number
    assert condition is not None
    if condition.asks_about_ancestors:
        letters = [question.run.letters[n] for n in question.recipe.plan.ancestors(number)]
        failed = any(letter in BAD for letter in letters)
        good = all(letter == Letter.SUCCEEDED for letter in letters)
        facts = replace(facts, ancestors_failed=failed, all_succeeded=good)
    verdict = expression.evaluate(condition, facts)
    return Judged(number, verdict.holds, Reason("if", verdict.text))


async def fill(conn: Connection, question: Question, facts: Facts) -> AsyncIterator[tuple[list[Filled], list[Event]]]:
    """Yield the payloads of a step's instances, and ends for those whose templates cannot be filled in.

    Yields chunks, because there may be a million instances: other tasks run in between, and the session is never idle
    for long. The caller writes each chunk before it requests the next.
    """
    command, recipe = question.command, question.recipe
    assert command is not None
    if not recipe.per_item:
        yield _filled(recipe, facts, [(command.first, facts.item)], command.count)
        return
    end = command.first + command.count
    for first in range(command.first, end, CHUNK):
        values = await _values(conn, question, first, min(CHUNK, end - first))
        for part in range(0, len(values), SLICE):
            await asyncio.sleep(0)
            yield _filled(recipe, facts, values[part : part + SLICE], 1)


def _filled(
    recipe: StepTemplate, facts: Facts, values: Sequence[tuple[int, Any]], count: int
) -> tuple[list[Filled], list[Event]]:
    """Return payloads and ends. Failed instances are counted together, with the first reason."""
    filled: list[Filled] = []
    first: Ended | None = None
    for index, item in values:
        known = replace(facts, item=item, index=index) if recipe.per_item else facts
        try:
            filled.append(Filled(index, count, _text(recipe, known)))
        except Invalid as error:
            first = first or Ended(recipe.number, Letter.FAILED, Reason(NEVER_BEGAN, str(error)))
        except Exception as error:
            first = first or _defect(recipe, f"its input could not be filled in: {error!r}", error)
    missing = (len(values) - len(filled)) * count
    return filled, [] if first is None else [replace(first, count=missing)]


async def _values(conn: Connection, question: Question, first: int, count: int) -> list[tuple[int, Any]]:
    if isinstance(question.recipe.step.fan_out, Foreach):
        return await steps.items(conn, question.held.id, question.recipe.number, first, count)
    return [(index, MISSING) for index in range(first, first + count)]


def _text(recipe: StepTemplate, facts: Facts) -> str:
    payload = recipe.payload.fill(facts)
    if isinstance(recipe.step.action, CommandAction) and facts.item is not MISSING:
        given = payload["input"] if isinstance(payload["input"], dict) else {}
        payload = {**payload, "input": {**given, "item": facts.item}}
    return encode(payload, field=f"the input of {recipe.step.name}")


def _defect(recipe: StepTemplate, message: str, error: Exception) -> Ended:
    """Return the end of a step that failed with an unexpected error, and log the traceback."""
    _log.error("step %s of version %d: %s", recipe.step.name, recipe.version_id, message, exc_info=error)
    return Ended(recipe.number, Letter.FAILED, Reason(NEVER_BEGAN, message))

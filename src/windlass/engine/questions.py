"""What a decision asks, answered from what the run knows: does an `if` hold, how many instances are there, what are the
templates filled in with. What cannot be answered is an end of the step, with the reason."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple
from uuid import UUID

from windlass.core import expression
from windlass.core.command import Enqueue, StartChild
from windlass.core.document import encode
from windlass.core.event import Ended, Event, Judged
from windlass.core.expression_path import Path
from windlass.core.facts import MISSING, Facts
from windlass.core.reason import Reason
from windlass.core.run import BAD, Letter, Run
from windlass.core.step import CommandAction, Foreach
from windlass.engine import facts as knowledge
from windlass.engine.facts import NEVER_BEGAN, Asked, Codes
from windlass.engine.recipes import Recipe
from windlass.engine.unit import Unit
from windlass.errors import Invalid
from windlass.store import steps
from windlass.store.pool import Connection
from windlass.store.runs import Held


class Question(NamedTuple):
    """Something about a step of a run that needs its facts."""

    held: Held
    run: Run
    recipe: Recipe
    command: Enqueue | StartChild | None = None  # None: its `if`

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


async def load(conn: Connection, unit: Unit, questions: list[Question], *, said: Codes) -> dict[UUID, Facts]:
    """Everything the questions need, for all runs at once."""
    asked: dict[UUID, Asked] = {}
    for question in questions:
        known = asked.get(question.held.id)
        paths = [*(known.paths if known else ()), *question.paths]
        asked[question.held.id] = Asked(question.held, question.run, paths)
    return await knowledge.load(conn, unit, asked.values(), said=said)


def judge(question: Question, facts: Facts) -> Event:
    """Does the `if` hold?"""
    condition, number = question.recipe.condition, question.recipe.number
    assert condition is not None
    if condition.asks_about_ancestors:
        letters = [question.run.letters[n] for n in question.recipe.plan.ancestors(number)]
        failed = any(letter in BAD for letter in letters)
        good = all(letter == Letter.SUCCEEDED for letter in letters)
        facts = replace(facts, ancestors_failed=failed, all_succeeded=good)
    verdict = expression.evaluate(condition, facts)
    return Judged(number, verdict.holds, verdict.reason)


async def fill(conn: Connection, question: Question, facts: Facts) -> tuple[list[Filled], list[Event]]:
    """The payloads of a step's instances; those whose templates cannot be filled in have ended."""
    command, recipe = question.command, question.recipe
    assert command is not None
    filled: list[Filled] = []
    failed: list[Event] = []
    if not recipe.per_item:
        try:
            filled.append(Filled(command.first, command.count, _text(recipe, facts)))
        except Invalid as error:
            failed.append(_failed(recipe, error, command.count))
        return filled, failed
    values = await _values(conn, question)
    for index, item in values:
        try:
            filled.append(Filled(index, 1, _text(recipe, replace(facts, item=item, index=index))))
        except Invalid as error:
            failed.append(_failed(recipe, error, 1))
    return filled, failed


async def _values(conn: Connection, question: Question) -> list[tuple[int, Any]]:
    command = question.command
    assert command is not None
    if isinstance(question.recipe.step.fan_out, Foreach):
        return await steps.items(conn, question.held.id, question.recipe.number, command.first, command.count)
    return [(index, MISSING) for index in _range(command)]


def _range(command: Enqueue | StartChild) -> Iterator[int]:
    return iter(range(command.first, command.first + command.count))


def _text(recipe: Recipe, facts: Facts) -> str:
    payload = recipe.payload.fill(facts)
    if isinstance(recipe.step.action, CommandAction) and facts.item is not MISSING:
        given = payload["input"] if isinstance(payload["input"], dict) else {}
        payload = {**payload, "input": {**given, "item": facts.item}}
    return encode(payload, field=f"the input of {recipe.step.name}")


def _failed(recipe: Recipe, error: Invalid, count: int) -> Event:
    return Ended(recipe.number, Letter.FAILED, Reason(NEVER_BEGAN, str(error)), count)

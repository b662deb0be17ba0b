"""Checks the inputs of runs against the `input` of their workflow.

The check runs in another process and may take until its deadline, so a transaction that starts runs does not wait for
it: it raises `Unchecked`, and `start_checked` checks the inputs and repeats the transaction. The last known version of
each name is cached, so most inputs are checked before the first attempt.
"""

import contextlib
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Any, TypeVar

from windlass.core.json_value import decode, encode
from windlass.core.workflows.workflow import Workflow
from windlass.engine.database import Database, Tenant
from windlass.errors import Conflict, Invalid

Result = TypeVar("Result")
Versions = Collection[int]  # the versions that the inputs are known to fit
MOST_VALUES, MOST_TEXT = 100, 65_536  # inputs that are checked together, and their characters
TRIES = 3  # a version may be published between the check and the start


class Unchecked(Exception):
    """Raised in a transaction that is about to start runs whose inputs have not been checked."""

    def __init__(self, version_id: int, workflow: Workflow, inputs: Sequence[Any]) -> None:
        super().__init__(f"the inputs have not been checked against version {version_id} of {workflow.name}")
        self.version_id, self.workflow, self.inputs = version_id, workflow, inputs


def require_checked(version_id: int, workflow: Workflow, inputs: Sequence[Any], checked: Versions | None) -> None:
    """Raise `Unchecked` unless the inputs are known to fit. `checked` None: publishing the definition checked them."""
    if workflow.input is not None and checked is not None and version_id not in checked:
        raise Unchecked(version_id, workflow, inputs)


async def start_checked(
    db: Database, attempt: Callable[[Versions], Awaitable[Result]], checked: Versions = ()
) -> Result:
    """Call `attempt`, a whole transaction, with the versions that its inputs fit; on `Unchecked`, check and repeat."""
    versions = set(checked)
    for _ in range(TRIES):
        try:
            return await attempt(versions)
        except Unchecked as error:
            unchecked = error
        await check(db, unchecked.workflow, unchecked.inputs)
        versions.add(unchecked.version_id)
    raise Conflict("the workflow was published again while its runs were started: start again")


async def check_early(db: Tenant, name: str, inputs: Sequence[Any]) -> Versions:
    """Return the last known version of a workflow if the inputs fit it."""
    live = db.live_versions.get(db.org, name)
    workflow = None if live is None else db.definitions.get(live.version_id)
    if live is not None and workflow is not None and workflow.input is not None:
        with contextlib.suppress(Invalid):  # another version may be live by now: the transaction finds out
            await check(db, workflow, inputs)
            return {live.version_id}
    return ()


async def check(db: Database, workflow: Workflow, inputs: Sequence[Any]) -> None:
    """Raise `Invalid` if an input does not fit; with several inputs, the field contains the index of the run."""
    if workflow.input_schema is None:
        return
    batch, first, size = list[Any](), 0, 0
    for n, value in enumerate(inputs):
        text = encode(value, field=_place(inputs, n), objects=True)  # the validator takes JSON only
        if batch and (len(batch) == MOST_VALUES or size + len(text) > MOST_TEXT):
            await _check_batch(db, workflow.input_schema, batch, inputs, first)
            batch, first, size = [], n, 0
        batch.append(decode(text))
        size += len(text)
    await _check_batch(db, workflow.input_schema, batch, inputs, first)


async def _check_batch(db: Database, schema: str, batch: Sequence[Any], inputs: Sequence[Any], first: int) -> None:
    await db.schema_validator.check_all(schema, batch, lambda n: _place(inputs, first + n))


def _place(inputs: Sequence[Any], n: int) -> str:
    return "input" if len(inputs) == 1 else f"runs.{n}.input"

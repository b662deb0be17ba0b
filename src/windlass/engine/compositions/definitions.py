"""The hidden workflows of compositions: published on first use and cached by the process."""

from collections.abc import Iterable
from uuid import UUID

from windlass.core.compositions import Composition
from windlass.core.json_value import encode
from windlass.core.workflows.workflow import Workflow
from windlass.engine.database import Database, new_ids
from windlass.store import workflows
from windlass.store.ojs import compositions
from windlass.store.workflows import Live

DOCUMENT_LIMIT = 16 * 1_048_576


async def known(db: Database, composition: Composition) -> dict[str, Live]:
    """Return the workflow of a composition and those of everything inside it, by name. They never change."""
    wanted = dict(_all(composition))
    found = {name: live for name in wanted if (live := db.shapes.get((db.org, name))) is not None}
    missing = [workflow for name, workflow in wanted.items() if name not in found]
    if missing:
        found |= await _publish(db, missing)
    return found


def _all(composition: Composition) -> Iterable[tuple[str, Workflow]]:
    yield composition.workflow.name, composition.workflow
    for _, part in composition.below():
        yield from _all(part)


async def _publish(db: Database, missing: list[Workflow]) -> dict[str, Live]:
    """Publish in a transaction of its own: concurrent creators of the same shape need not wait for the composition."""
    names = [workflow.name for workflow in missing]
    async with db.begin() as conn:
        found = await workflows.live(conn, names, org=db.org)
        if len(found) < len(names):
            rows = [_row(id_, shape) for id_, shape in zip(new_ids(len(missing)), missing, strict=True)]
            await compositions.publish(conn, [row for row in rows if row[1] not in found], org=db.org)
            found = await workflows.live(conn, names, org=db.org)
    db.shapes.keep({(db.org, name): live for name, live in found.items()})
    for workflow in missing:
        db.definitions.learn(found[workflow.name].version_id, workflow)
    return found


def _row(id_: UUID, shape: Workflow) -> tuple[UUID, str, str, str]:
    return id_, shape.name, encode(shape.to_document(), field="steps", limit=DOCUMENT_LIMIT), shape.fingerprint

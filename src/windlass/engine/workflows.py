"""Operations on workflows: publish, preview, deploy, inspect, enable and disable, delete."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any
from uuid import UUID

from windlass.core import property_order
from windlass.core.definition.parser import checked, parse
from windlass.core.definition.publish import (
    advice,
    check,
    difference,
    has_hidden,
    hidden,
    names_of_secrets,
    revealed,
    secrets,
)
from windlass.core.jobs.spec import check_range
from windlass.core.json_value import as_stored, encode
from windlass.core.orgs import Scope
from windlass.core.workflows.step import ChildAction, CommandAction
from windlass.core.workflows.workflow import Workflow
from windlass.engine import pools
from windlass.engine import secrets as org_secrets
from windlass.engine.database import Database, Tenant, new_ids
from windlass.engine.definitions import check_workflow_name, find_live, unknown_workflow
from windlass.engine.jobs.schemas import check_definitions
from windlass.engine.orgs import audit, quota
from windlass.engine.schedules import publish as triggers
from windlass.engine.schedules import workflow as workflow_schedules
from windlass.errors import Forbidden, Invalid, InvalidWorkflow, NotFound
from windlass.schemas.common import PAGE_LIMIT
from windlass.schemas.workflows import Deployed, Deployment
from windlass.store import workflows as store
from windlass.store.workflows import Live, NewVersion, VersionRow, WorkflowLine, WorkflowRow

__all__ = ["Live", "VersionRow", "WorkflowLine", "WorkflowRow"]
MAX_NUMBER = 2**31 - 1
Given = Workflow | Mapping[str, Any]  # a workflow, or its document


@dataclass(frozen=True, slots=True)
class Published:
    """The live version of a name, and what publishing changed."""

    name: str
    workflow_id: UUID
    version_id: int
    number: int
    created: bool  # the name is new
    changed: bool  # a new version was created
    token: str | None = None  # of the workflow's webhook address, if one was created now: it is not shown again


class Change(StrEnum):
    NEW = "new"
    CHANGED = "changed"
    UNCHANGED = "unchanged"


@dataclass(frozen=True, slots=True)
class Preview:
    """The effect that publishing would have: `number` is the version that would be live, `diff` its changes."""

    name: str
    change: Change
    number: int
    diff: list[str]


@dataclass(frozen=True, slots=True)
class Page:
    """A page of workflows by name. Pass `next` as `after` for the next page; None means the end."""

    workflows: list[WorkflowLine]
    next: str | None


@dataclass(frozen=True, slots=True)
class VersionPage:
    """A page of versions, newest first. Pass `next` as `before` for the next page; None means the end."""

    versions: list[VersionRow]
    next: int | None


async def publish(db: Tenant, workflow: Workflow) -> Published:
    """Publish a workflow as the live version of its name. If an equal version is live, that is kept."""
    return (await publish_many(db, [workflow]))[0]


async def publish_many(db: Tenant, workflows: Sequence[Given]) -> list[Published]:
    """Publish all of these workflows or none, in one transaction. `InvalidWorkflow` has the errors of all of them."""
    requested = _ready(workflows)
    _require_commands(db, requested)
    before = await _live(db, requested)
    requested = await _revealed(db, requested, before)
    fresh = [workflow for workflow in requested if not _equal(before.get(workflow.name), workflow)]
    same = [workflow for workflow in requested if _equal(before.get(workflow.name), workflow)]
    await _check_secrets(db, fresh)
    await check_definitions(db, fresh)
    await pools.check_placements(db.database, fresh)
    fresh += await triggers.missing(db, same, before)
    made, after, tokens = await _record(db, fresh) if fresh else (set(), {}, {})
    return [_published((before | after)[workflow.name], made, tokens.get(workflow.name)) for workflow in requested]


async def preview(db: Tenant, workflow: Workflow) -> Preview:
    """Return what publishing a workflow would do, without changing anything."""
    return (await preview_many(db, [workflow]))[0]


async def preview_many(db: Tenant, workflows: Sequence[Given]) -> list[Preview]:
    """Return what publishing these workflows would do; raise what it would raise, except for missing scopes."""
    requested = _ready(workflows)
    live = await _live(db, requested)
    requested = await _revealed(db, requested, live)
    changes = [workflow for workflow in requested if not _equal(live.get(workflow.name), workflow)]
    await _check_secrets(db, changes)
    await check_definitions(db, changes)
    await pools.check_placements(db.database, changes)
    if not quota.is_unlimited(db, db.org):
        async with db.begin() as conn:
            fresh = [workflow for workflow in requested if not _equal(live.get(workflow.name), workflow)]
            await quota.check_publication(conn, db, fresh)
    changed = [live[workflow.name].version_id for workflow in requested if workflow.name in live]
    async with db.once() as conn:
        documents = await store.documents(conn, changed) if changed else {}
    return [_preview(workflow, live.get(workflow.name), documents) for workflow in requested]


async def missing_children(db: Tenant, workflows: Sequence[Workflow]) -> list[tuple[str, str, str]]:
    """Return (workflow, step, child) for undeployed children not among `workflows`: a run would fail at that step."""
    names = {workflow.name for workflow in workflows}
    children = [
        (workflow.name, step.name, step.action.workflow)
        for workflow in workflows
        for step in workflow.steps
        if isinstance(step.action, ChildAction) and step.action.workflow not in names
    ]
    async with db.once() as conn:
        known = await store.live(conn, {child for _, _, child in children}, org=db.org) if children else {}
    return [each for each in children if each[2] not in known]


async def deploy(db: Tenant, workflows: Sequence[Workflow], *, dry_run: bool = False) -> Deployment:
    """Publish workflows in one transaction or, with `dry_run`, return what that would change."""
    if dry_run:
        deployed = [
            Deployed(
                name=row.name, workflow_id=None, version=row.number, change=row.change, webhook_url=None, lines=row.diff
            )
            for row in await preview_many(db, workflows)
        ]
    else:
        deployed = [await _deployed(db, row) for row in await publish_many(db, workflows)]
    missing = await missing_children(db, workflows)
    warnings = [f"step {step} of {name} runs workflow {child}, which is not deployed" for name, step, child in missing]
    warnings += [warning for workflow in workflows for warning in advice(workflow)]
    return Deployment(dry_run=dry_run, workflows=deployed, warnings=warnings)


async def _deployed(db: Database, row: Published) -> Deployed:
    change = Change.NEW if row.created else Change.CHANGED if row.changed else Change.UNCHANGED
    url = None if row.token is None else await workflow_schedules.address(db, row.token)
    return Deployed(
        name=row.name,
        workflow_id=str(row.workflow_id),
        version=row.number,
        change=change,
        webhook_url=url,
        lines=[],
    )


async def get(db: Tenant, name: str, *, number: int | None = None) -> WorkflowRow:
    """Return a workflow with its live version, or with the version of this number; secrets are masked."""
    row = await _get(db, name, number=number)
    return replace(row, document=hidden(row.document))


async def _get(db: Tenant, name: str, *, number: int | None = None) -> WorkflowRow:
    check_workflow_name(name)
    async with db.once() as conn:
        row = await store.get(conn, name, org=db.org, number=_checked_number(number))
        if row is None:
            await find_live(conn, name, org=db.org)
            raise NotFound(f"version {number} of workflow", name)
    return row


async def list_(db: Tenant, *, after: str = "", limit: int = 50) -> Page:
    encode(after, field="after")
    async with db.once() as conn:
        rows = await store.list_(conn, org=db.org, after=after, limit=check_range(limit, "limit", most=PAGE_LIMIT))
    return Page(rows, rows[-1].name if len(rows) == limit else None)


async def versions(db: Tenant, name: str, *, before: int | None = None, limit: int = 50) -> VersionPage:
    check_workflow_name(name)
    below = MAX_NUMBER if before is None else _checked_number(before, "before") or 0
    async with db.once() as conn:
        rows = await store.versions(
            conn, name, org=db.org, before=below, limit=check_range(limit, "limit", most=PAGE_LIMIT)
        )
        if not rows:
            await find_live(conn, name, org=db.org)
    return VersionPage(rows, rows[-1].number if len(rows) == limit else None)


async def name_of(db: Tenant, id_: UUID) -> str:
    """Return the name of the workflow that has this id, unless it is deleted."""
    async with db.once() as conn:
        name = await store.name_of(conn, id_, org=db.org)
    if name is None:
        raise NotFound("workflow", id_)
    return name


async def id_of(db: Tenant, name: str) -> UUID | None:
    """Return the id of the workflow that has this name now, if there is one."""
    check_workflow_name(name)
    async with db.once() as conn:
        live = (await store.live(conn, [name], org=db.org)).get(name)
    return None if live is None else live.workflow_id


async def check_id(db: Tenant, id_: UUID) -> None:
    """Raise `NotFound` if no workflow has this id. A deleted workflow counts."""
    async with db.once() as conn:
        if not await store.exists(conn, id_, org=db.org):
            raise NotFound("workflow", id_)


async def compare(db: Tenant, name: str, old: int, new: int) -> list[str]:
    """Return the difference between two versions, line by line."""
    before, after = await _get(db, name, number=old), await _get(db, name, number=new)
    return difference(before.document, after.document)


async def enable(db: Tenant, name: str, enabled: bool = True) -> None:
    """Enable or disable a workflow; while it is disabled, new runs are refused and live ones continue."""
    check_workflow_name(name)
    async with db.begin() as conn:
        if not await store.enable(conn, name, enabled, org=db.org):
            raise await unknown_workflow(conn, name, org=db.org)
        await triggers.switch(conn, db, name, enabled)
        await audit.record(conn, db, "workflow.enable" if enabled else "workflow.disable", name)


async def delete(db: Tenant, name: str) -> None:
    """Delete a workflow and free its name. Live runs finish on their version."""
    check_workflow_name(name)
    async with db.begin() as conn:
        if not await store.soft_delete(conn, name, org=db.org):
            raise await unknown_workflow(conn, name, org=db.org)
        await audit.record(conn, db, "workflow.delete", name)


def _ready(workflows: Sequence[Given]) -> list[Workflow]:
    """Return the validated workflows, with numbers in the form in which the store will return them."""
    parsed: dict[str, Workflow] = {}
    mistakes: list[tuple[str, str]] = []
    for n, document in enumerate(workflows):
        try:
            workflow = check(checked(document) if isinstance(document, Workflow) else parse(document))
            ready = parse(as_stored(workflow.to_document()))
        except InvalidWorkflow as refusal:
            mistakes += refusal.errors if len(workflows) == 1 else _of(_called(document, n), refusal)
            continue
        if parsed.setdefault(ready.name, ready) is not ready:
            mistakes.append(("name", f"there are two workflows {ready.name!r}: publish one at a time"))
    if mistakes:
        raise InvalidWorkflow(mistakes)
    return list(parsed.values())


def _require_commands(db: Tenant, workflows: Sequence[Workflow]) -> None:
    """Raise `Forbidden` if a workflow runs commands on the workers' machines and the caller lacks that scope."""
    if Scope.COMMANDS in db.scopes:
        return
    for workflow in workflows:
        for step in workflow.steps:
            if isinstance(step.action, CommandAction):
                raise Forbidden(
                    f"tasks.{step.name}.run of workflow {workflow.name} is a command, and {db.actor} lacks the scope "
                    f"{Scope.COMMANDS}: use a key that has it",
                    scope=Scope.COMMANDS,
                )


def _called(document: Given, n: int) -> str:
    name = (
        document.name
        if isinstance(document, Workflow)
        else document.get("name")
        if isinstance(document, Mapping)
        else None
    )
    return name if isinstance(name, str) and name and name.isprintable() else f"document {n + 1}"


def _of(name: str, refusal: InvalidWorkflow) -> Iterable[tuple[str, str]]:
    return [(f"{name}: {path}" if path else name, message) for path, message in refusal.errors]


async def _revealed(db: Database, workflows: Sequence[Workflow], live: Mapping[str, Live]) -> list[Workflow]:
    """Replace masked secrets in the documents by the secrets of the live versions: clients see only the masks."""
    shy = [live[one.name].version_id for one in workflows if one.name in live and has_hidden(one)]
    async with db.once() as conn:
        documents = await store.documents(conn, shy) if shy else {}
    known = {document["name"]: secrets(document) for document in documents.values()}
    return [revealed(one, known.get(one.name, {})) if has_hidden(one) else one for one in workflows]


async def _check_secrets(db: Tenant, workflows: Sequence[Workflow]) -> None:
    """Raise `InvalidWorkflow` with every reference to a secret that the org does not have."""
    named = [(workflow, name, place) for workflow in workflows for name, place in names_of_secrets(workflow).items()]
    missing = await org_secrets.missing(db, {name for _, name, _ in named})
    mistakes = [
        (place if len(workflows) == 1 else f"{workflow.name}: {place}", f"{org_secrets.unknown(db.org, name)}")
        for workflow, name, place in named
        if name in missing
    ]
    if mistakes:
        raise InvalidWorkflow(mistakes)


async def _live(db: Tenant, workflows: Sequence[Workflow]) -> dict[str, Live]:
    async with db.once() as conn:
        return await store.live(conn, [workflow.name for workflow in workflows], org=db.org)


async def _record(db: Tenant, workflows: Sequence[Workflow]) -> tuple[set[int], dict[str, Live], dict[str, str]]:
    """Write new versions; return their ids, the live versions, and new tokens.

    A live version may be that of a concurrent publisher that committed first.
    """
    names = [workflow.name for workflow in workflows]
    rows = [
        NewVersion(
            workflow.name,
            encode(property_order.of_forms(workflow.to_document(), property_order.add), field=workflow.name),
            workflow.fingerprint,
            workflow.input_schema,
        )
        for workflow in workflows
    ]
    async with db.begin() as conn:
        if not quota.is_unlimited(db, db.org):
            await quota.check_publication(conn, db, workflows)
        await store.hold(conn, new_ids(len(names)), names, org=db.org)
        made = await store.publish(conn, rows, org=db.org)
        live = await store.live(conn, names, org=db.org)
        published = [(one.name, {"version": one.number}) for one in live.values() if one.version_id in made]
        await audit.record_many(conn, db, "workflow.publish", published)
        return made, live, await triggers.put(conn, db, workflows, live)


def _equal(live: Live | None, workflow: Workflow) -> bool:
    return live is not None and live.fingerprint == workflow.fingerprint


def _published(live: Live, made: set[int], token: str | None) -> Published:
    changed = live.version_id in made
    return Published(
        name=live.name,
        workflow_id=live.workflow_id,
        version_id=live.version_id,
        number=live.number,
        created=changed and live.number == 1,
        changed=changed,
        token=token,
    )


def _preview(workflow: Workflow, live: Live | None, documents: dict[int, dict[str, Any]]) -> Preview:
    if live is None:
        return Preview(workflow.name, Change.NEW, 1, [])
    if _equal(live, workflow):
        return Preview(workflow.name, Change.UNCHANGED, live.number, [])
    diff = difference(documents[live.version_id], workflow.to_document())
    return Preview(workflow.name, Change.CHANGED, live.number + 1, diff)


def _checked_number(number: int | None, field: str = "number") -> int | None:
    if number is not None and not 0 < number <= MAX_NUMBER:
        raise Invalid(f"{field} is {number}: versions are counted from 1", field=field)
    return number

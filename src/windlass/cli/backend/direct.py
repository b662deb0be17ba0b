"""Implements commands on the database."""

from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from windlass.app import Windlass
from windlass.cli import arguments
from windlass.cli.backend.direct_run import DirectRun
from windlass.cli.backend.interface import RunBackend
from windlass.core.approvals import Decision
from windlass.core.orgs import DEFAULT_ORG
from windlass.core.workflows.workflow import Workflow as Definition
from windlass.engine import approvals, artifacts, pools, quarantine, secrets, stats, workflows
from windlass.engine.compositions import control as compositions
from windlass.engine.database import Tenant
from windlass.engine.jobs import checkpoints, dead_letters, queues, types
from windlass.engine.jobs import control as jobs
from windlass.engine.jobs.dead_letters import DeadLetterFilter
from windlass.engine.orgs import audit, keys, members, plans, sql_roles, usage
from windlass.engine.orgs import control as orgs
from windlass.engine.quarantine import Kind
from windlass.engine.schedules import sql as sql_schedules
from windlass.engine.schedules import workflow as workflow_schedules
from windlass.engine.views import jobs as job_views
from windlass.engine.views import orgs as org_views
from windlass.engine.views import runs as run_views
from windlass.engine.views import workflows as views
from windlass.engine.workers import registry as workers
from windlass.errors import NotFound
from windlass.schemas.approvals import Approval
from windlass.schemas.common import PAGE_LIMIT, Page
from windlass.schemas.job_types import JobType, JobTypeDetail
from windlass.schemas.jobs import (
    DeadLetterBatch,
    DeadLetterGroup,
    Job,
    JobChunk,
    JobDetail,
    JobEvent,
    JobLogLine,
    JobStep,
)
from windlass.schemas.messages import Sent
from windlass.schemas.monitoring import Pool, Quarantined, Queue, Worker
from windlass.schemas.orgs import AuditEntry, Key, Member, NewKey, Org, SqlRole
from windlass.schemas.plans import Plan, Usage, UsageDetail
from windlass.schemas.runs import Run
from windlass.schemas.schedules import Backfill, Schedule
from windlass.schemas.secrets import Secret, SecretRotation
from windlass.schemas.tasks import TaskArtifact
from windlass.schemas.workflows import Deployment, ListedWorkflow, Version, VersionDetail, Workflow


class Direct:
    def __init__(self, app: Windlass) -> None:
        self._app = app

    # Workflows

    async def deploy(self, definitions: Sequence[Definition], *, dry_run: bool = False) -> Deployment:
        return await workflows.deploy(await self._app.open(), definitions, dry_run=dry_run)

    async def workflows(self, *, after: str, limit: int) -> Page[ListedWorkflow]:
        db = await self._app.open()
        page = await workflows.list_(db, after=after, limit=limit)
        numbers = await stats.of_workflows(db, [row.id for row in page.workflows])
        return Page([views.line(row, numbers[row.id]) for row in page.workflows], page.next)

    async def workflow(self, name: str, version: int | None = None) -> tuple[Workflow, VersionDetail]:
        db = await self._app.open()
        live = await workflows.get(db, name)
        return views.summary(live), views.version_detail(await workflows.get(db, name, number=version))

    async def versions(self, name: str, *, before: int | None, limit: int) -> Page[Version]:
        page = await workflows.versions(await self._app.open(), name, before=before, limit=limit)
        return Page([views.version(row) for row in page.versions], _text(page.next))

    async def enable_workflow(self, name: str, enabled: bool = True) -> None:
        await workflows.enable(await self._app.open(), name, enabled)

    async def delete_workflow(self, name: str) -> None:
        await workflows.delete(await self._app.open(), name)

    async def rotate(self, name: str) -> str:
        db = await self._app.open()
        return await workflow_schedules.address(db, await workflow_schedules.rotate(db, name))

    # Runs

    async def start(self, workflow: str, **options: Any) -> RunBackend:
        return DirectRun(self._app, await self._app.start(workflow, **options))

    async def run(self, id_: UUID | str) -> RunBackend:
        if isinstance(id_, str):
            try:
                id_ = await compositions.run_of(await self._app.open(), id_)
            except NotFound:
                raise arguments.no_run(str(id_)) from None
        return DirectRun(self._app, await self._app.run(id_))

    async def runs(
        self, *, workflow: str | None, states: Sequence[str], labels: dict[str, str], before: UUID | None, limit: int
    ) -> Page[Run]:
        page = await self._app.runs(workflow=workflow, states=states or None, labels=labels, before=before, limit=limit)
        return Page([run_views.line(row) for row in page.runs], _text(page.next))

    # Schedules

    async def schedules(self, *, after: str, limit: int) -> Page[Schedule]:
        page = await sql_schedules.list_all(await self._app.open(), after=after, limit=limit)
        return Page([views.schedule(row) for row in page.schedules], page.next)

    async def pause_schedule(self, name: str, *, reason: str | None) -> None:
        await workflow_schedules.pause(await self._app.open(), name, reason=reason)

    async def resume_schedule(self, name: str) -> None:
        await workflow_schedules.resume(await self._app.open(), name)

    async def run_schedule(self, name: str) -> str:
        return str(await workflow_schedules.run_now(await self._app.open(), name))

    async def ticks(self, name: str, *, count: int) -> list[datetime]:
        return await workflow_schedules.preview(await self._app.open(), name, count=count)

    async def backfill(self, name: str, start: datetime, end: datetime | None, *, limit: int) -> Backfill:
        return views.backfill(await workflow_schedules.backfill(await self._app.open(), name, start, end, limit=limit))

    # Jobs

    async def submit(self, type_: str, payload: Any, **options: Any) -> UUID:
        return await self._app.submit(type_, payload, **options)

    async def job(self, id_: UUID) -> JobDetail:
        db = await self._app.open()
        row = await jobs.get(db, id_)
        tasks, reported = await jobs.steps(db, [row]), await checkpoints.progress(db, id_)
        return job_views.detail(row, org=db.org, tasks=tasks, progress=reported)

    async def jobs(self, *, statuses: Sequence[str], type_: str | None, **filters: Any) -> Page[Job]:
        db = await self._app.open()
        page = await jobs.list_(db, statuses=statuses or None, type_=type_, **filters)
        tasks = await jobs.steps(db, page.jobs)
        return Page([job_views.line(row, org=db.org, tasks=tasks) for row in page.jobs], _text(page.next))

    async def job_events(self, id_: UUID) -> list[JobEvent]:
        return [job_views.event(row) for row in await self._app.events(id_)]

    async def job_logs(self, id_: UUID, *, attempt: int | None) -> list[JobLogLine]:
        return [job_views.log_line(row) for row in await self._app.logs(id_, attempt=attempt)]

    async def approvals(
        self, *, states: Sequence[str], workflow: str | None, before: str | None, limit: int
    ) -> Page[Approval]:
        db = await self._app.open()
        return await approvals.list_(db, states=states, workflow=workflow, before=before, limit=limit)

    async def approval(self, id_: UUID) -> Approval:
        return await approvals.get(await self._app.open(), id_)

    async def decide(
        self, id_: UUID, decision: Decision, *, values: dict[str, Any] | None, comment: str | None
    ) -> Approval:
        return await approvals.decide(await self._app.open(), id_, decision, values=values, comment=comment)

    async def signal(self, target: UUID, name: str, payload: Any, *, id_: str | None) -> Sent:
        return await self._app.signal(target, name, payload, id=id_)

    async def publish_event(self, name: str, payload: Any, *, key: str, id_: str | None) -> Sent:
        return await self._app.publish_event(name, payload, key=key, id=id_)

    async def job_stream(self, id_: UUID) -> AsyncIterator[JobChunk]:
        await jobs.get(await self._app.open(), id_)
        async for page in (await self._app.live()).streams.follow(id_):
            for chunk in page.chunks:
                yield job_views.chunk(chunk)

    async def job_artifacts(self, id_: UUID) -> list[TaskArtifact]:
        db = await self._app.open()
        run, page = await artifacts.list_of_job(db, id_, limit=PAGE_LIMIT)
        rows = list(page)
        while page:
            _, page = await artifacts.list_of_job(db, id_, after=page[-1].place, limit=PAGE_LIMIT)
            rows += page
        return [run_views.artifact(run, row) for row in rows]

    async def job_artifact(self, id_: UUID, name: str, *, attempt: int | None) -> AsyncIterator[bytes]:
        db = await self._app.open()
        row = await artifacts.find_of_job(db, id_, name, attempt=attempt)
        async for chunk in artifacts.read(db, row):
            yield chunk

    async def cancel_job(self, id_: UUID, *, reason: str | None) -> None:
        await self._app.cancel(id_, reason=reason)

    async def retry_job(self, id_: UUID, *, fresh: bool) -> None:
        await self._app.retry(id_, fresh=fresh)

    async def job_steps(self, id_: UUID) -> list[JobStep]:
        return [
            job_views.step(row) for row in await checkpoints.timeline(await self._app.open(), id_, limit=PAGE_LIMIT)
        ]

    async def delete_job(self, id_: UUID) -> None:
        await self._app.delete(id_)

    # Job types, queues, dead letters, workers, quarantine

    async def job_types(self, *, after: str, limit: int) -> Page[JobType]:
        return await types.list_(await self._app.open(), after=after, limit=limit)

    async def job_type(self, type_: str) -> JobTypeDetail:
        return await types.get(await self._app.open(), type_)

    async def queues(self, *, after: str, limit: int) -> Page[Queue]:
        page = await queues.list_(await self._app.open(), after=after, limit=limit)
        return Page([job_views.queue(row) for row in page.queues], page.next)

    async def pause_queue(self, name: str) -> None:
        await queues.pause(await self._app.open(), name)

    async def resume_queue(self, name: str) -> None:
        await queues.resume(await self._app.open(), name)

    async def dead_letters(self, *, limit: int, **filters: Any) -> Page[DeadLetterGroup]:
        page = await dead_letters.groups(await self._app.open(), DeadLetterFilter(**filters), limit=limit)
        return Page([job_views.dead_letter_group(row) for row in page.groups], _text(page.next))

    async def retry_dead_letters(self, *, dry_run: bool, limit: int, **filters: Any) -> DeadLetterBatch:
        db, wanted = await self._app.open(), DeadLetterFilter(**filters)
        if dry_run:
            return job_views.counted_dead_letters(await dead_letters.matching(db, wanted))
        return job_views.dead_letter_batch(await dead_letters.retry(db, wanted, limit=limit))

    async def drop_dead_letters(self, *, dry_run: bool, limit: int, **filters: Any) -> DeadLetterBatch:
        db, wanted = await self._app.open(), dead_letters.droppable(DeadLetterFilter(**filters))
        if dry_run:
            return job_views.counted_dead_letters(await dead_letters.matching(db, wanted))
        return job_views.dead_letter_batch(await dead_letters.drop(db, wanted, limit=limit))

    async def workers(self) -> list[Worker]:
        return [job_views.worker(row) for row in await workers.list_(await self._app.open())]

    async def pools(self) -> list[Pool]:
        return await pools.list_(await self._app.open())

    async def pool(self, name: str) -> Pool:
        return await pools.get(await self._app.open(), name)

    async def forget_pool(self, name: str) -> None:
        await pools.forget(await self._app.open(), name)

    async def quarantine(self, *, limit: int) -> list[Quarantined]:
        return await quarantine.list_(await self._app.open(), limit=limit)

    async def retry_quarantined(self, kind: str, key: str) -> Quarantined:
        return await quarantine.retry_now(await self._app.open(), Kind(kind), key)

    # Organisations

    async def create_org(self, name: str, *, plan: str | None) -> Org:
        return await orgs.create(await self._app.open(), name, plan=plan or orgs.DEFAULT_PLAN)

    async def orgs(self, *, after: str, limit: int) -> Page[Org]:
        return await orgs.list_(await self._app.open(), after=after, limit=limit)

    async def org(self, name: str) -> Org:
        return await orgs.get(await self._app.open(), name)

    async def disable_org(self, name: str) -> None:
        await orgs.disable(await self._app.open(), name)

    async def enable_org(self, name: str) -> None:
        await orgs.enable(await self._app.open(), name)

    async def grant_sql(self, org: str, role: str, *, is_worker: bool) -> SqlRole:
        return await sql_roles.grant(await self._app.open(), org, role, is_worker=is_worker)

    async def revoke_sql(self, role: str) -> None:
        await sql_roles.revoke(await self._app.open(), role)

    async def sql_roles(self) -> list[SqlRole]:
        return await sql_roles.list_(await self._app.open())

    async def create_key(self, **options: Any) -> NewKey:
        return org_views.new_key(await keys.create(await self._app.open(), **options))

    async def keys(self, *, before: str | None, limit: int) -> Page[Key]:
        page = await keys.list_(await self._app.open(), before=before, limit=limit)
        return Page([org_views.key(row) for row in page.items], page.next)

    async def revoke_key(self, key: str) -> None:
        await keys.revoke(await self._app.open(), key)

    async def rotate_key(self, key: str, *, at_once: bool) -> NewKey:
        return org_views.new_key(await keys.rotate(await self._app.open(), key, at_once=at_once))

    async def put_member(self, email: str, *, role: str) -> Member:
        return org_views.member(await members.put(await self._app.open(), email, role=role))

    async def members(self, *, after: str, limit: int) -> Page[Member]:
        page = await members.list_(await self._app.open(), after=after, limit=limit)
        return Page([org_views.member(row) for row in page.items], page.next)

    async def remove_member(self, email: str) -> None:
        await members.remove(await self._app.open(), email)

    async def audit(self, *, limit: int, **filters: str | None) -> Page[AuditEntry]:
        page = await audit.list_(await self._app.open(), limit=limit, **filters)
        return Page([org_views.audit_entry(row) for row in page.items], page.next)

    # Plans

    async def plans(self) -> list[Plan]:
        return await plans.list_(await self._app.open())

    async def plan(self, name: str) -> Plan:
        return await plans.get(await self._app.open(), name)

    async def set_plan(self, name: str, limits: Mapping[str, Any]) -> Plan:
        return await plans.put(await self._app.open(), name, limits)

    async def delete_plan(self, name: str) -> None:
        await plans.delete(await self._app.open(), name)

    async def assign_plan(self, org: str, plan: str) -> None:
        await plans.assign(await self._app.open(), org, plan)

    async def usage(self) -> UsageDetail:
        return await usage.of_caller(await self._app.open())

    async def usage_of_orgs(self, *, after: str, limit: int) -> Page[Usage]:
        return await usage.list_(await self._app.open(), after=after, limit=limit)

    # Secrets

    async def set_secret(self, name: str, value: str) -> Secret:
        return await secrets.set_(await self._app.open(), name, value)

    async def secrets(self, *, after: str, limit: int) -> Page[Secret]:
        return await secrets.list_(await self._app.open(), after=after, limit=limit)

    async def delete_secret(self, name: str) -> None:
        await secrets.delete(await self._app.open(), name)

    async def rotate_secrets(self, *, master: bool) -> SecretRotation:
        db = await self._app.open()
        return await (secrets.rotate_master(db) if master else secrets.rotate(db))


async def check_exists(db: Tenant) -> None:
    """Raise `NotFound` if the org does not exist."""
    if db.org != DEFAULT_ORG:
        await orgs.get(db, db.org)


def _text(cursor: object) -> str | None:
    return None if cursor is None else str(cursor)

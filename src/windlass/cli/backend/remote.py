"""Implements commands through a server."""

import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from windlass.cli import arguments
from windlass.cli.backend.interface import RunBackend
from windlass.cli.backend.remote_run import RemoteRun
from windlass.client import AsyncClient
from windlass.client.request import decode
from windlass.core.approvals import Decision
from windlass.core.runs.run import RunState
from windlass.core.workflows.workflow import Workflow as Definition
from windlass.errors import Invalid, NotFound
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

RETRIES = 1  # a user is waiting


@contextlib.asynccontextmanager
async def remote(url: str, key: str | None, org: str | None = None) -> AsyncIterator["Remote"]:
    async with AsyncClient(url, key=key, org=org, retries=RETRIES) as client:
        yield Remote(client)


class Remote:
    def __init__(self, client: AsyncClient) -> None:
        self._client = client

    # Workflows

    async def deploy(self, definitions: Sequence[Definition], *, dry_run: bool = False) -> Deployment:
        return await self._client.workflows.deploy_many([one.to_document() for one in definitions], dry_run=dry_run)

    async def workflows(self, *, after: str, limit: int) -> Page[ListedWorkflow]:
        return await self._client.workflows.list(after=after, limit=limit).page()

    async def workflow(self, name: str, version: int | None = None) -> tuple[Workflow, VersionDetail]:
        workflow = await self._client.workflows.get(name)
        return workflow, await self._client.workflows.version(name, version or workflow.version)

    async def versions(self, name: str, *, before: int | None, limit: int) -> Page[Version]:
        return await self._client.workflows.versions(name, before=before, limit=limit).page()

    async def enable_workflow(self, name: str, enabled: bool = True) -> None:
        await (self._client.workflows.enable if enabled else self._client.workflows.disable)(name)

    async def delete_workflow(self, name: str) -> None:
        await self._client.workflows.delete(name)

    async def rotate(self, name: str) -> str:
        return (await self._client.workflows.rotate(name)).url

    # Runs

    async def start(self, workflow: str, **options: Any) -> RunBackend:
        document = options.pop("input")
        started = await self._client.start(workflow, {} if document is None else document, **options)
        return RemoteRun(self._client, UUID(started.run_id))

    async def run(self, id_: UUID | str) -> RunBackend:
        try:
            run = await self._client.runs.get(str(id_))  # fails on a wrong id before anything else
        except NotFound:
            if isinstance(id_, str):
                raise arguments.no_run(id_) from None
            raise
        return RemoteRun(self._client, UUID(run.id))

    async def runs(
        self, *, workflow: str | None, states: Sequence[str], labels: dict[str, str], before: UUID | None, limit: int
    ) -> Page[Run]:
        for state in states:
            if state not in list(RunState):
                raise Invalid(f"state is {state!r}: one of {', '.join(RunState)}", field="state")
        cursor = None if before is None else str(before)
        runs = self._client.runs.list(workflow=workflow, status=states, labels=labels, before=cursor, limit=limit)
        return await runs.page()

    # Schedules

    async def schedules(self, *, after: str, limit: int) -> Page[Schedule]:
        return await self._client.schedules.list(after=after, limit=limit).page()

    async def pause_schedule(self, name: str, *, reason: str | None) -> None:
        await self._client.schedules.pause(name, reason=reason)

    async def resume_schedule(self, name: str) -> None:
        await self._client.schedules.resume(name)

    async def run_schedule(self, name: str) -> str:
        return (await self._client.schedules.run(name)).run_id

    async def ticks(self, name: str, *, count: int) -> list[datetime]:
        return (await self._client.schedules.get(name, next=count)).upcoming

    async def backfill(self, name: str, start: datetime, end: datetime | None, *, limit: int) -> Backfill:
        return await self._client.schedules.backfill(name, start, end, limit=limit)

    # Approvals

    async def approvals(self, *, states: Sequence[str], **filters: Any) -> Page[Approval]:
        return await self._client.approvals.list(state=states, **filters).page()

    async def approval(self, id_: UUID) -> Approval:
        return await self._client.approvals.get(str(id_))

    async def decide(self, id_: UUID, decision: Decision, **words: Any) -> Approval:
        decide = self._client.approvals.approve if decision is Decision.APPROVE else self._client.approvals.reject
        return await decide(str(id_), **words)

    # Jobs

    async def submit(self, type_: str, payload: Any, **options: Any) -> UUID:
        return UUID((await self._client.jobs.submit(type_, {} if payload is None else payload, **options)).id)

    async def job(self, id_: UUID) -> JobDetail:
        return await self._client.jobs.get(str(id_))

    async def jobs(self, *, statuses: Sequence[str], type_: str | None, **filters: Any) -> Page[Job]:
        return await self._client.jobs.list(status=statuses, type=type_, **filters).page()

    async def job_events(self, id_: UUID) -> list[JobEvent]:
        return [event async for event in self._client.jobs.events(str(id_), limit=PAGE_LIMIT)]

    async def job_stream(self, id_: UUID) -> AsyncIterator[JobChunk]:
        async for event in self._client.jobs.stream(str(id_)):
            if event.event == "chunk":
                yield decode(JobChunk, event.data)

    async def job_logs(self, id_: UUID, *, attempt: int | None) -> list[JobLogLine]:
        return [line async for line in self._client.jobs.logs(str(id_), attempt=attempt, limit=PAGE_LIMIT)]

    async def signal(self, target: UUID, name: str, payload: Any, *, id_: str | None) -> Sent:
        return await self._client.messages.signal(str(target), name, payload, id=id_)

    async def publish_event(self, name: str, payload: Any, *, key: str, id_: str | None) -> Sent:
        return await self._client.messages.publish(name, payload, key=key, id=id_)

    async def job_artifacts(self, id_: UUID) -> list[TaskArtifact]:
        return [row async for row in self._client.jobs.artifacts(str(id_), limit=PAGE_LIMIT)]

    async def job_artifact(self, id_: UUID, name: str, *, attempt: int | None) -> AsyncIterator[bytes]:
        async for chunk in self._client.jobs.download(str(id_), name, attempt=attempt):
            yield chunk

    async def cancel_job(self, id_: UUID, *, reason: str | None) -> None:
        await self._client.jobs.cancel(str(id_), reason=reason)

    async def retry_job(self, id_: UUID, *, fresh: bool) -> None:
        await self._client.jobs.retry(str(id_), fresh=fresh or None)

    async def job_steps(self, id_: UUID) -> list[JobStep]:
        return (await self._client.jobs.steps(str(id_), limit=PAGE_LIMIT).page()).items

    async def delete_job(self, id_: UUID) -> None:
        await self._client.jobs.delete(str(id_))

    # Job types, queues, dead letters, workers, pools, quarantine

    async def job_types(self, *, after: str, limit: int) -> Page[JobType]:
        return await self._client.job_types.list(after=after, limit=limit).page()

    async def job_type(self, type_: str) -> JobTypeDetail:
        return await self._client.job_types.get(type_)

    async def queues(self, *, after: str, limit: int) -> Page[Queue]:
        return await self._client.queues.list(after=after, limit=limit).page()

    async def pause_queue(self, name: str) -> None:
        await self._client.queues.pause(name)

    async def resume_queue(self, name: str) -> None:
        await self._client.queues.resume(name)

    async def dead_letters(self, **filters: Any) -> Page[DeadLetterGroup]:
        return await self._client.dead_letters.list(**filters).page()

    async def retry_dead_letters(self, *, before: int | None, **filters: Any) -> DeadLetterBatch:
        return await self._client.dead_letters.retry(**filters, before=before, all=True)

    async def drop_dead_letters(self, *, before: int | None, **filters: Any) -> DeadLetterBatch:
        return await self._client.dead_letters.drop(**filters, before=before, all=True)

    async def workers(self) -> list[Worker]:
        return [worker async for worker in self._client.workers.list()]

    async def pools(self) -> list[Pool]:
        return [pool async for pool in self._client.pools.list()]

    async def pool(self, name: str) -> Pool:
        return await self._client.pools.get(name)

    async def forget_pool(self, name: str) -> None:
        await self._client.pools.forget(name)

    async def quarantine(self, *, limit: int) -> list[Quarantined]:
        return (await self._client.quarantine.list().page()).items[:limit]

    async def retry_quarantined(self, kind: str, key: str) -> Quarantined:
        return await self._client.quarantine.retry(kind, key)

    async def create_org(self, name: str, *, plan: str | None) -> Org:
        return await self._client.orgs.create(name, plan=plan)

    async def orgs(self, *, after: str, limit: int) -> Page[Org]:
        return await self._client.orgs.list(after=after, limit=limit).page()

    async def org(self, name: str) -> Org:
        return await self._client.orgs.get(name)

    async def disable_org(self, name: str) -> None:
        await self._client.orgs.disable(name)

    async def enable_org(self, name: str) -> None:
        await self._client.orgs.enable(name)

    async def grant_sql(self, org: str, role: str, *, is_worker: bool) -> SqlRole:
        return await self._client.sql_roles.grant(role, org=org, worker=is_worker)

    async def revoke_sql(self, role: str) -> None:
        await self._client.sql_roles.revoke(role)

    async def sql_roles(self) -> Sequence[SqlRole]:
        return (await self._client.sql_roles.list()).items

    async def create_key(self, **options: Any) -> NewKey:
        return await self._client.keys.create(**options)

    async def keys(self, *, before: str | None, limit: int) -> Page[Key]:
        return await self._client.keys.list(before=before, limit=limit).page()

    async def revoke_key(self, key: str) -> None:
        await self._client.keys.revoke(key)

    async def rotate_key(self, key: str, *, at_once: bool) -> NewKey:
        return await self._client.keys.rotate(key, at_once=at_once)

    async def put_member(self, email: str, *, role: str) -> Member:
        return await self._client.members.put(email, role=role)

    async def members(self, *, after: str, limit: int) -> Page[Member]:
        return await self._client.members.list(after=after, limit=limit).page()

    async def remove_member(self, email: str) -> None:
        await self._client.members.remove(email)

    async def audit(self, *, object_: str | None, **filters: Any) -> Page[AuditEntry]:
        return await self._client.audit.list(object=object_, **filters).page()

    async def plans(self) -> list[Plan]:
        return [plan async for plan in self._client.plans.list()]

    async def plan(self, name: str) -> Plan:
        return await self._client.plans.get(name)

    async def set_plan(self, name: str, limits: Mapping[str, Any]) -> Plan:
        return await self._client.plans.put(name, **limits)

    async def delete_plan(self, name: str) -> None:
        await self._client.plans.delete(name)

    async def assign_plan(self, org: str, plan: str) -> None:
        await self._client.plans.assign(org, plan)

    async def usage(self) -> UsageDetail:
        return await self._client.usage()

    async def usage_of_orgs(self, *, after: str, limit: int) -> Page[Usage]:
        return await self._client.org_usage.list(after=after, limit=limit).page()

    # Secrets

    async def set_secret(self, name: str, value: str) -> Secret:
        return await self._client.secrets.set(name, value)

    async def secrets(self, *, after: str, limit: int) -> Page[Secret]:
        return await self._client.secrets.list(after=after, limit=limit).page()

    async def delete_secret(self, name: str) -> None:
        await self._client.secrets.delete(name)

    async def rotate_secrets(self, *, master: bool) -> SecretRotation:
        return await (self._client.secrets.rotate_master() if master else self._client.secrets.rotate())

"""Converts workflows, their versions, graphs and schedules to the types of the API."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from windlass.core import duration
from windlass.core.definition.parser import parse
from windlass.core.diagrams import conditions, doing, lines
from windlass.core.workflows.step import Step, pool_of
from windlass.core.workflows.workflow import Workflow as Definition
from windlass.engine.schedules import workflow as workflow_schedules
from windlass.engine.schedules.sql import JobScheduleRow, ScheduleRow
from windlass.engine.views import runs as run_views
from windlass.engine.views.runs import milliseconds
from windlass.engine.workflows import VersionRow, WorkflowLine, WorkflowRow
from windlass.schemas.schedules import Backfill, Schedule, ScheduleDetail, TickRun
from windlass.schemas.workflows import (
    Arrow,
    Graph,
    LatestRun,
    ListedWorkflow,
    Node,
    PublishedWorkflow,
    Version,
    VersionDetail,
    Workflow,
    WorkflowDetail,
    WorkflowNumbers,
    WorkflowSchedule,
)
from windlass.store.stats import WorkflowStats

# Workflows


def line(row: WorkflowLine, stats: WorkflowStats) -> ListedWorkflow:
    """Return a workflow as a list item."""
    return ListedWorkflow(
        **_head(row),
        task_count=row.steps,
        description=row.description,
        **_trigger(row.trigger),
        stats=numbers(stats),
    )


def summary(row: WorkflowRow) -> Workflow:
    return Workflow(**_summary(row))


def published(row: WorkflowRow, *, changed: bool, webhook_url: str | None) -> PublishedWorkflow:
    return PublishedWorkflow(**_summary(row), changed=changed, webhook_url=webhook_url)


def detail(
    row: WorkflowRow, versions: Sequence[VersionRow], schedule: ScheduleRow | None, stats: WorkflowStats
) -> WorkflowDetail:
    workflow = parse(row.document)
    tasks = {task["name"]: {k: v for k, v in task.items() if k != "name"} for task in workflow.to_document()["tasks"]}
    return WorkflowDetail(
        **_summary(row),
        max_duration=duration.text(workflow.max_duration),
        concurrency=workflow.concurrency,
        labels=dict(workflow.labels),
        input=None if workflow.input is None else dict(workflow.input),
        tasks=tasks,
        versions=[version(one) for one in versions],
        schedule=None if schedule is None else _workflow_schedule(schedule),
        stats=numbers(stats),
    )


def version(row: VersionRow) -> Version:
    return Version(
        version=row.number,
        live=row.live,
        task_count=row.steps,
        fingerprint=row.fingerprint,
        inserted_at=row.created_at,
    )


def version_detail(row: WorkflowRow) -> VersionDetail:
    return VersionDetail(
        version=row.number,
        live=row.number == row.live,
        task_count=len(row.document["tasks"]),
        fingerprint=row.fingerprint,
        inserted_at=row.published_at,
        definition=row.document,
    )


def numbers(stats: WorkflowStats) -> WorkflowNumbers:
    ended = stats.completed + stats.failed
    return WorkflowNumbers(
        latest=[LatestRun(id=str(id_), status=state) for id_, state in stats.latest],
        success_rate=round(stats.completed / ended, 4) if ended else None,
        p50_ms=milliseconds(stats.p50),
        p95_ms=milliseconds(stats.p95),
        next_run_at=stats.next_run_at,
    )


def _summary(row: WorkflowRow) -> dict[str, Any]:
    document = row.document
    counted = {"task_count": len(document["tasks"]), "description": document.get("description")}
    return _head(row) | counted | _trigger(document["trigger"])


def _head(row: WorkflowRow | WorkflowLine) -> dict[str, Any]:
    times = {"inserted_at": row.created_at, "updated_at": row.updated_at}
    return {"id": str(row.id), "name": row.name, "enabled": row.enabled, "version": row.live, **times}


def _trigger(trigger: Any) -> dict[str, Any]:
    if isinstance(trigger, str):
        return {"trigger": trigger}
    if "cron" not in trigger:
        return {"trigger": "event" if "event" in trigger else "webhook"}
    return {"trigger": "cron", "cron_expression": trigger["cron"], "timezone": trigger["timezone"]}


def _workflow_schedule(row: ScheduleRow) -> WorkflowSchedule:
    return WorkflowSchedule(
        cron=row.cron,
        timezone=row.timezone,
        input=row.input,
        overlap=row.overlap,
        catch_up=row.catch_up,
        next_run_at=row.next_run_at,
        last_run_at=row.last_run_at,
        last_run_id=str(row.last_run_id) if row.last_run_id else None,
        paused=row.paused,
    )


# Graphs


def graph(workflow: Definition) -> Graph:
    """Return the tasks and edges of a definition, without inputs, headers and secrets."""
    names = [step.name for step in workflow.steps]
    edges = [
        Arrow(
            from_=names[edge.parent],
            to=names[edge.child],
            on=edge.condition,
            if_=workflow.steps[edge.child].condition,
        )
        for edge in lines(workflow)
        if edge.condition is not None  # None: a compensation, whose node names the step it undoes
    ]
    return Graph(workflow=workflow.name, tasks=[_node(step) for step in workflow.steps], edges=edges)


def _node(step: Step) -> Node:
    return Node(
        name=step.name,
        type=run_views.ACTION_TYPES[type(step.action)],
        does=doing(step.action),
        remarks=conditions(step),
        fan_out=step.fan_out is not None,
        compensates=step.compensates,
        final=step.final,
        join=step.join,
        if_=step.condition,
        child=getattr(step.action, "workflow", None),
        runs_on=pool_of(step.action),
    )


# Schedules


def schedule(row: ScheduleRow | JobScheduleRow) -> Schedule:
    return Schedule(**(_run_schedule(row) if isinstance(row, ScheduleRow) else _job_schedule(row)))


def schedule_detail(row: ScheduleRow, ticks: list[datetime]) -> ScheduleDetail:
    return ScheduleDetail(**_run_schedule(row), upcoming=ticks)


def backfill(done: workflow_schedules.Backfill | workflow_schedules.Unfilled) -> Backfill:
    if isinstance(done, workflow_schedules.Unfilled):
        return Backfill(dry_run=True, started=0, left=done.count, runs=[], next=done.next)
    runs = [TickRun(tick=tick, run_id=str(id_)) for tick, id_ in done.runs]
    return Backfill(dry_run=False, started=done.started, left=0, runs=runs, next=done.next)


def _run_schedule(row: ScheduleRow) -> dict[str, Any]:
    return {
        "name": row.workflow,
        "starts": "run",
        "id": str(row.id),
        "cron": row.cron,
        "timezone": row.timezone,
        "input": row.input,
        "overlap": row.overlap,
        "catch_up": row.catch_up,
        "enabled": row.enabled,
        "paused": row.paused,
        "paused_reason": row.paused_reason,
        "next_run_at": row.next_run_at,
        "waiting_tick": row.buffered_at,
        "last_run_at": row.last_run_at,
        "last_run_id": str(row.last_run_id) if row.last_run_id else None,
        "skipped_at": row.skipped_at,
        "skipped_reason": row.skipped_reason,
    }


def _job_schedule(row: JobScheduleRow) -> dict[str, Any]:
    return {
        "name": row.type,
        "starts": "job",
        "id": str(row.id),
        "cron": row.schedule,
        "timezone": row.timezone,
        "input": row.payload,
        "overlap": None,
        "catch_up": None,
        "enabled": row.enabled,
        "paused": not row.enabled,
        "paused_reason": None,
        "next_run_at": row.next_run_at if row.enabled else None,
        "waiting_tick": None,
        "last_run_at": row.last_run_at,
        "last_run_id": None,
        "skipped_at": None,
        "skipped_reason": None,
    }

"""Workflows as answers show them."""

from datetime import datetime
from typing import Any

from pydantic import ConfigDict, Field

from windlass.core import duration
from windlass.core.definition.parser import parse
from windlass.engine.schedules.workflow import ScheduleRow
from windlass.engine.stats import WorkflowStats
from windlass.engine.workflows.control import VersionRow, WorkflowLine, WorkflowRow
from windlass.web.api.schemas import stats as schema_stats
from windlass.web.api.schemas.common import WORKFLOW_ID, Shown
from windlass.web.api.schemas.stats import STATS, WorkflowNumbers

SUMMARY: dict[str, Any] = {
    "id": WORKFLOW_ID,
    "name": "order-processing",
    "trigger": "api",
    "task_count": 2,
    "enabled": True,
    "inserted_at": "2026-02-22T10:00:00Z",
    "updated_at": "2026-02-22T10:00:00Z",
    "version": 1,
    "description": None,
    "cron_expression": None,
    "timezone": None,
}
CHARGE: dict[str, Any] = {"url": "https://myapp.com/api/charge", "method": "POST", "max_attempts": 4, "timeout": "30s"}
VERSION: dict[str, Any] = {
    "version": 1,
    "live": True,
    "task_count": 2,
    "fingerprint": "9f86d081884c7d65",
    "inserted_at": "2026-02-22T10:00:00Z",
}


class Workflow(Shown):
    """A workflow in short."""

    model_config = ConfigDict(json_schema_extra={"examples": [SUMMARY]})

    id: str
    name: str
    trigger: str = Field(description="api, cron or webhook.")
    task_count: int
    enabled: bool
    inserted_at: datetime
    updated_at: datetime
    version: int = Field(description="The number of the live version.")
    description: str | None = None
    cron_expression: str | None = None
    timezone: str | None = None


class ListedWorkflow(Workflow):
    """A workflow in a list, with its last runs in numbers."""

    model_config = ConfigDict(json_schema_extra={"examples": [SUMMARY | {"stats": STATS}]})

    stats: WorkflowNumbers


class PublishedWorkflow(Workflow):
    """What publishing made. The address of a workflow with a webhook trigger is told once, when it is made."""

    model_config = ConfigDict(json_schema_extra={"examples": [SUMMARY | {"changed": True, "webhook_url": None}]})

    changed: bool = Field(description="Whether a version was made; what equals the live one makes none.")
    webhook_url: str | None = None


class Version(Shown):
    model_config = ConfigDict(json_schema_extra={"examples": [VERSION]})

    version: int
    live: bool
    task_count: int
    fingerprint: str
    inserted_at: datetime


class VersionDetail(Version):
    """A version with its definition, in the canonical spelling; it may be sent back as it is."""

    definition: dict[str, Any]


class WorkflowSchedule(Shown):
    """What the clock does for it. No next tick: it is paused or disabled, or the times are over."""

    cron: str
    timezone: str
    input: Any
    overlap: str
    catch_up: str
    next_run_at: datetime | None
    last_run_at: datetime | None
    last_run_id: str | None
    paused: bool


class WorkflowDetail(Workflow):
    """A workflow with its tasks, its latest versions and its schedule."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                SUMMARY
                | {"max_duration": "30d", "concurrency": None, "labels": {}, "tasks": {"charge": CHARGE}}
                | {"versions": [VERSION], "schedule": None, "stats": STATS}
            ]
        }
    )

    max_duration: str
    concurrency: int | None
    labels: dict[str, str]
    tasks: dict[str, dict[str, Any]] = Field(description="By name, in the order of the definition.")
    versions: list[Version] = Field(description="The latest ten, newest first.")
    schedule: WorkflowSchedule | None
    stats: WorkflowNumbers


class Difference(Shown):
    """`@@ where @@`, then lines that begin with a blank, - or +."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"from": 1, "to": 2, "lines": ["@@ tasks.charge @@", '-  "timeout": "30s"', '+  "timeout": "1m"']}
            ]
        }
    )

    from_: int = Field(alias="from")
    to: int
    lines: list[str]


def line(row: WorkflowLine, stats: WorkflowStats) -> ListedWorkflow:
    told = {"task_count": row.steps, "description": row.description, **_trigger(row.trigger)}
    return ListedWorkflow(**_words(row), **told, stats=schema_stats.numbers(stats))


def summary(row: WorkflowRow) -> Workflow:
    return Workflow(**_summary(row))


def published(row: WorkflowRow, *, changed: bool, webhook_url: str | None) -> PublishedWorkflow:
    return PublishedWorkflow(**_summary(row), changed=changed, webhook_url=webhook_url)


def detail(
    row: WorkflowRow, versions: list[VersionRow], schedule: ScheduleRow | None, stats: WorkflowStats
) -> WorkflowDetail:
    workflow = parse(row.document)
    tasks = {task["name"]: {k: v for k, v in task.items() if k != "name"} for task in workflow.to_document()["tasks"]}
    return WorkflowDetail(
        **_summary(row),
        max_duration=duration.text(workflow.max_duration),
        concurrency=workflow.concurrency,
        labels=dict(workflow.labels),
        tasks=tasks,
        versions=[version(one) for one in versions],
        schedule=_schedule(schedule),
        stats=schema_stats.numbers(stats),
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


def difference(old: int, new: int, lines: list[str]) -> Difference:
    return Difference(**{"from": old}, to=new, lines=lines)


def _summary(row: WorkflowRow) -> dict[str, Any]:
    document = row.document
    counted = {"task_count": len(document["tasks"]), "description": document.get("description")}
    return _words(row) | counted | _trigger(document["trigger"])


def _words(row: WorkflowRow | WorkflowLine) -> dict[str, Any]:
    times = {"inserted_at": row.created_at, "updated_at": row.updated_at}
    return {"id": str(row.id), "name": row.name, "enabled": row.enabled, "version": row.live, **times}


def _trigger(trigger: Any) -> dict[str, Any]:
    if isinstance(trigger, str):
        return {"trigger": trigger}
    return {"trigger": "cron", "cron_expression": trigger["cron"], "timezone": trigger["timezone"]}


def _schedule(row: ScheduleRow | None) -> WorkflowSchedule | None:
    if row is None:
        return None
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

"""What a client gives back about workflows. Names, words and fields are those of the API."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Workflow:
    """A workflow in short."""

    id: str
    name: str
    trigger: str  # api, cron or webhook
    task_count: int
    enabled: bool
    inserted_at: datetime
    updated_at: datetime
    version: int  # the live one
    description: str | None = None
    cron_expression: str | None = None
    timezone: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LatestRun:
    id: str
    status: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowNumbers:
    """How its last runs went."""

    latest: list[LatestRun]
    success_rate: float | None
    p50_ms: int | None
    p95_ms: int | None
    next_run_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedWorkflow(Workflow):
    stats: WorkflowNumbers


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedWorkflow(Workflow):
    """`webhook_url` is told once, when the address is made."""

    changed: bool
    webhook_url: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    version: int
    live: bool
    task_count: int
    fingerprint: str
    inserted_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionDetail(Version):
    definition: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowSchedule:
    cron: str
    timezone: str
    input: Any
    overlap: str
    catch_up: str
    next_run_at: datetime | None
    last_run_at: datetime | None
    last_run_id: str | None
    paused: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowDetail(Workflow):
    max_duration: str
    concurrency: int | None
    labels: dict[str, str]
    tasks: dict[str, dict[str, Any]]
    versions: list[Version]
    schedule: WorkflowSchedule | None
    stats: WorkflowNumbers


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    from_: int
    to: int
    lines: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployed:
    """What became of one workflow of a deployment."""

    name: str
    workflow_id: str | None
    version: int
    change: str  # new, changed or unchanged
    webhook_url: str | None
    lines: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    dry_run: bool
    workflows: list[Deployed]
    warnings: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    url: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A task in a graph."""

    name: str
    type: str
    does: str
    remarks: list[str]
    fan_out: bool
    final: bool
    join: str
    child: str | None
    if_: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrow:
    from_: str
    to: str
    on: str
    if_: str | None = None  # of the task that it leads to


@dataclass(frozen=True, slots=True, kw_only=True)
class Graph:
    workflow: str
    tasks: list[Node]
    edges: list[Arrow]


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """What publishing would change."""

    name: str
    change: str
    version: int
    lines: list[str]
    warnings: list[str]
    graph: Graph

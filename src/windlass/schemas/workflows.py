"""Workflows, their versions and graphs, and the results of publishing."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from windlass.schemas.common import Change, Condition, Join, RunState


@dataclass(frozen=True, slots=True, kw_only=True)
class Workflow:
    """A summary of a workflow."""

    id: str
    name: str
    trigger: str
    """api, cron or webhook."""
    task_count: int
    enabled: bool
    inserted_at: datetime
    updated_at: datetime
    version: int
    """The number of the live version."""
    description: str | None = None
    cron_expression: str | None = None
    timezone: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LatestRun:
    id: str
    status: RunState


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowNumbers:
    """Statistics of the last runs of a workflow."""

    latest: list[LatestRun]
    """The latest 20, newest first."""
    success_rate: float | None
    """Of the last 100 runs, without live and cancelled ones; null: there are none."""
    p50_ms: int | None
    """The median duration of those that completed."""
    p95_ms: int | None
    next_run_at: datetime | None
    """The next time of its schedule."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedWorkflow(Workflow):
    """A workflow in a list, with statistics of its last runs."""

    stats: WorkflowNumbers


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedWorkflow(Workflow):
    """A workflow after publishing. The address of a webhook trigger is shown once, when it is created."""

    changed: bool
    """Whether a version was created; a definition that equals the live one creates none."""
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
    """A version with its definition in the canonical form, which may be published as it is."""

    definition: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowSchedule:
    """The schedule of a workflow. `next_run_at` is null if it is paused or disabled, or has no more times."""

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
    """A workflow with its tasks, its latest versions and its schedule."""

    max_duration: str
    concurrency: int | None
    labels: dict[str, str]
    input: dict[str, Any] | None = None
    """A JSON Schema that the input of a run must fit; null: any input is accepted."""
    tasks: dict[str, dict[str, Any]]
    """By name, in the order of the definition."""
    versions: list[Version]
    """The latest ten, newest first."""
    schedule: WorkflowSchedule | None
    stats: WorkflowNumbers


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """`@@ where @@`, then lines that begin with a blank, - or +."""

    from_: int = field(metadata={"alias": "from"})
    to: int
    lines: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployed:
    """One workflow of a deployment. The address of a webhook is shown once, when it is created."""

    name: str
    workflow_id: str | None
    """Null for one that a dry run would create."""
    version: int
    change: Change
    webhook_url: str | None
    lines: list[str]
    """In a dry run: what would change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    dry_run: bool
    workflows: list[Deployed]
    warnings: list[str]
    """Why valid definitions will not work yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """A secret address: a request to it starts a run, or ends the wait of a task."""

    url: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A task in a graph."""

    name: str
    type: str
    does: str
    remarks: list[str]
    """Its `if`, the number of instances and similar properties, as text."""
    fan_out: bool
    final: bool
    join: Join
    if_: str | None = field(default=None, metadata={"alias": "if"})
    """The condition on which it runs, as written."""
    child: str | None
    """The workflow that it runs."""
    compensates: str | None = None
    """The task that it undoes. It has no edges: it runs only if the run is undone."""
    runs_on: str | None = None
    """The pool that it runs on; null: the worker itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrow:
    """An edge of a graph."""

    from_: str = field(metadata={"alias": "from"})
    to: str
    on: Condition
    if_: str | None = field(default=None, metadata={"alias": "if"})
    """The `if` of the task that it leads to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Graph:
    """The tasks in the order of the definition, and the edges between them."""

    workflow: str
    tasks: list[Node]
    edges: list[Arrow]


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """The changes that publishing would make."""

    name: str
    change: Change
    version: int
    """The version that would be live."""
    lines: list[str]
    """`@@ where @@`, then lines that begin with a blank, - or +."""
    warnings: list[str]
    graph: Graph

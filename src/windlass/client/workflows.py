"""Operations on /workflows, /deployments and /schedules."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from windlass.client.descriptors import Group, W, downwards, operation, upwards
from windlass.client.request import Call, one, page, present
from windlass.errors import InvalidWorkflow
from windlass.schemas.common import Page
from windlass.schemas.runs import NewRun
from windlass.schemas.schedules import Backfill, Schedule, ScheduleDetail
from windlass.schemas.workflows import (
    Address,
    Deployment,
    Difference,
    Graph,
    ListedWorkflow,
    Preview,
    PublishedWorkflow,
    Version,
    VersionDetail,
    Workflow,
    WorkflowDetail,
)

SCHEDULE = "/schedules/{ref}"


class Workflows(Group[W]):
    """Workflows; the argument `workflow` is a name or an id."""

    @upwards
    def list(self, *, after: str | None = None, limit: int | None = None) -> Call[Page[ListedWorkflow]]:
        """List workflows, sorted by name."""
        return page(ListedWorkflow, "/workflows", after=after, limit=limit)

    @operation
    def get(self, workflow: str) -> Call[WorkflowDetail]:
        return one(WorkflowDetail, "GET", "/workflows/{ref}", {"ref": workflow})

    @operation
    def deploy(self, definition: Mapping[str, Any]) -> Call[PublishedWorkflow]:
        """Publish a definition as the live version of its workflow. `InvalidWorkflow.errors` lists every error."""
        return one(PublishedWorkflow, "POST", "/workflows", body=definition, refused=InvalidWorkflow)

    @operation
    def deploy_many(self, definitions: Iterable[Mapping[str, Any]], *, dry_run: bool = False) -> Call[Deployment]:
        """Publish several definitions, all or none; with `dry_run` only return what would change."""
        body = {"workflows": [dict(definition) for definition in definitions], "dry_run": dry_run}
        return one(Deployment, "POST", "/deployments", body=body, refused=InvalidWorkflow)

    @operation
    def preview(self, definition: Mapping[str, Any]) -> Call[Preview]:
        """Return what `deploy` would change, and the resulting graph."""
        return one(Preview, "POST", "/workflows/preview", body=definition, refused=InvalidWorkflow)

    @operation
    def replace(self, workflow: str, definition: Mapping[str, Any]) -> Call[PublishedWorkflow]:
        """Publish a new version of an existing workflow."""
        path = "/workflows/{ref}"
        return one(PublishedWorkflow, "PUT", path, {"ref": workflow}, body=definition, refused=InvalidWorkflow)

    @operation
    def delete(self, workflow: str) -> Call[None]:
        """Delete a workflow and free its name; its live runs continue to their end."""
        return Call("DELETE", "/workflows/{ref}", lambda _: None, {"ref": workflow})

    @operation
    def enable(self, workflow: str) -> Call[Workflow]:
        return one(Workflow, "POST", "/workflows/{ref}/enable", {"ref": workflow})

    @operation
    def disable(self, workflow: str) -> Call[Workflow]:
        """Refuse new runs of a workflow; live runs continue."""
        return one(Workflow, "POST", "/workflows/{ref}/disable", {"ref": workflow})

    @downwards
    def versions(self, workflow: str, *, before: int | None = None, limit: int | None = None) -> Call[Page[Version]]:
        """List the versions of a workflow, newest first."""
        return page(Version, "/workflows/{ref}/versions", {"ref": workflow}, before=before, limit=limit)

    @operation
    def version(self, workflow: str, number: int) -> Call[VersionDetail]:
        """Return a version with its definition."""
        path = "/workflows/{ref}/versions/{number}"
        return one(VersionDetail, "GET", path, {"ref": workflow, "number": number})

    @operation
    def diff(self, workflow: str, from_: int | None = None, to: int | None = None) -> Call[Difference]:
        """Compare two versions, by default the live version with the one before it."""
        query = {"from": from_, "to": to}
        return one(Difference, "GET", "/workflows/{ref}/diff", {"ref": workflow}, query=query)

    @operation
    def graph(self, workflow: str, version: int | None = None) -> Call[Graph]:
        """Return the tasks and edges of a version, by default of the live version."""
        return one(Graph, "GET", "/workflows/{ref}/graph", {"ref": workflow}, query={"version": version})

    @operation
    def rotate(self, workflow: str) -> Call[Address]:
        """Give a webhook trigger a new address; the old one stops working."""
        return one(Address, "POST", "/workflows/{ref}/rotate", {"ref": workflow})


class Schedules(Group[W]):
    """Schedules; the argument `name` is that of a workflow. Schedules created by plain SQL are only listed."""

    @upwards
    def list(self, *, after: str | None = None, limit: int | None = None) -> Call[Page[Schedule]]:
        """List schedules: those of workflows, sorted by name, then those created by plain SQL, sorted by type."""
        return page(Schedule, "/schedules", after=after, limit=limit)

    @operation
    def get(self, name: str, *, next: int | None = None) -> Call[ScheduleDetail]:  # noqa: A002 - the API's word
        """Return a schedule with its next `next` ticks, even if it is paused."""
        return one(ScheduleDetail, "GET", SCHEDULE, {"ref": name}, query={"next": next})

    @operation
    def pause(self, name: str, *, reason: str | None = None) -> Call[Schedule]:
        return one(Schedule, "POST", f"{SCHEDULE}/pause", {"ref": name}, body=present({"reason": reason}))

    @operation
    def resume(self, name: str) -> Call[Schedule]:
        """Resume a schedule with its next tick; ticks missed during the pause are not caught up."""
        return one(Schedule, "POST", f"{SCHEDULE}/resume", {"ref": name})

    @operation
    def run(self, name: str) -> Call[NewRun]:
        """Start a run now with the schedule's input."""
        return one(NewRun, "POST", f"{SCHEDULE}/run", {"ref": name})

    @operation
    def backfill(
        self,
        name: str,
        from_: datetime,
        to: datetime | None = None,
        *,
        limit: int | None = None,
        dry_run: bool | None = None,
    ) -> Call[Backfill]:
        """Start the runs of past ticks; ticks that have a run are skipped. `dry_run=True` only counts them."""
        body = present({"from": from_, "to": to, "limit": limit, "dry_run": dry_run})
        return one(Backfill, "POST", f"{SCHEDULE}/backfill", {"ref": name}, body=body)

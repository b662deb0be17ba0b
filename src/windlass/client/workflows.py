"""/workflows: publish, look, switch on and off, delete."""

from collections.abc import Iterable, Mapping
from typing import Any

from windlass.client.descriptors import Group, W, downwards, operation, upwards
from windlass.client.request import Call, Page, one, page
from windlass.client.values_workflows import (
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
from windlass.errors import InvalidWorkflow


class Workflows(Group[W]):
    """`workflow` is a name, or an id."""

    @upwards
    def list(self, *, after: str | None = None, limit: int | None = None) -> Call[Page[ListedWorkflow]]:
        """By name."""
        return page(ListedWorkflow, "/workflows", after=after, limit=limit)

    @operation
    def get(self, workflow: str) -> Call[WorkflowDetail]:
        return one(WorkflowDetail, "GET", "/workflows/{ref}", {"ref": workflow})

    @operation
    def deploy(self, definition: Mapping[str, Any]) -> Call[PublishedWorkflow]:
        """Make this the live version of its name. All mistakes are in `InvalidWorkflow.errors`."""
        return one(PublishedWorkflow, "POST", "/workflows", body=definition, refused=InvalidWorkflow)

    @operation
    def deploy_many(self, definitions: Iterable[Mapping[str, Any]], *, dry_run: bool = False) -> Call[Deployment]:
        """All of them, or none if there is a mistake in any; with `dry_run` what would change."""
        body = {"workflows": [dict(one_) for one_ in definitions], "dry_run": dry_run}
        return one(Deployment, "POST", "/deployments", body=body, refused=InvalidWorkflow)

    @operation
    def preview(self, definition: Mapping[str, Any]) -> Call[Preview]:
        """What `deploy` would change, and the graph there would be."""
        return one(Preview, "POST", "/workflows/preview", body=definition, refused=InvalidWorkflow)

    @operation
    def replace(self, workflow: str, definition: Mapping[str, Any]) -> Call[PublishedWorkflow]:
        """A new version of one that exists."""
        path = "/workflows/{ref}"
        return one(PublishedWorkflow, "PUT", path, {"ref": workflow}, body=definition, refused=InvalidWorkflow)

    @operation
    def delete(self, workflow: str) -> Call[None]:
        """Free the name; runs under way go on to their end."""
        return Call("DELETE", "/workflows/{ref}", lambda _: None, {"ref": workflow})

    @operation
    def enable(self, workflow: str) -> Call[Workflow]:
        return one(Workflow, "POST", "/workflows/{ref}/enable", {"ref": workflow})

    @operation
    def disable(self, workflow: str) -> Call[Workflow]:
        """Refuse new runs; those under way go on."""
        return one(Workflow, "POST", "/workflows/{ref}/disable", {"ref": workflow})

    @downwards
    def versions(self, workflow: str, *, before: int | None = None, limit: int | None = None) -> Call[Page[Version]]:
        """Newest first."""
        return page(Version, "/workflows/{ref}/versions", {"ref": workflow}, before=before, limit=limit)

    @operation
    def version(self, workflow: str, number: int) -> Call[VersionDetail]:
        """One version, with its definition."""
        path = "/workflows/{ref}/versions/{number}"
        return one(VersionDetail, "GET", path, {"ref": workflow, "number": number})

    @operation
    def diff(self, workflow: str, from_: int | None = None, to: int | None = None) -> Call[Difference]:
        """Without numbers: the live version with the one before it."""
        query = {"from": from_, "to": to}
        return one(Difference, "GET", "/workflows/{ref}/diff", {"ref": workflow}, query=query)

    @operation
    def graph(self, workflow: str, version: int | None = None) -> Call[Graph]:
        """Tasks and edges of a version; of the live one without a number."""
        return one(Graph, "GET", "/workflows/{ref}/graph", {"ref": workflow}, query={"version": version})

    @operation
    def rotate(self, workflow: str) -> Call[Address]:
        """Another address for a webhook trigger; the old one stops working."""
        return one(Address, "POST", "/workflows/{ref}/rotate", {"ref": workflow})

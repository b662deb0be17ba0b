"""Operations on /plans and /usage."""

from typing import Any

from windlass.client.descriptors import Group, W, operation, upwards
from windlass.client.request import NOTHING, Call, one, page
from windlass.schemas.common import Page
from windlass.schemas.plans import AssignedPlan, Plan, Usage, UsageDetail

PLAN = "/plans/{name}"


class Plans(Group[W]):
    """Plans: the limits of orgs. Only for the operator."""

    @upwards
    def list(self) -> Call[Page[Plan]]:
        """List plans, sorted by name."""
        return page(Plan, "/plans")

    @operation
    def get(self, name: str) -> Call[Plan]:
        return one(Plan, "GET", PLAN, {"name": name})

    @operation
    def put(
        self,
        name: str,
        *,
        workflows: int | None = NOTHING,
        steps_per_workflow: int | None = NOTHING,
        runs_at_once: int | None = NOTHING,
        executions_per_month: int | None = NOTHING,
        executions_at_once: int | None = NOTHING,
        schedules: bool = NOTHING,
    ) -> Call[Plan]:
        """Create a plan, or change its limits; None means unlimited.

        Limits that are left out are kept; those of a new plan are unlimited.
        """
        limits: dict[str, Any] = {
            key: value for key, value in locals().items() if key not in ("self", "name") and value is not NOTHING
        }
        return one(Plan, "PUT", PLAN, {"name": name}, body=limits)

    @operation
    def delete(self, name: str) -> Call[None]:
        """Delete a plan that no org has."""
        return Call("DELETE", PLAN, lambda _: None, {"name": name})

    @operation
    def assign(self, org: str, name: str) -> Call[AssignedPlan]:
        """Set an org's plan."""
        return one(AssignedPlan, "PUT", f"{PLAN}/orgs/{{org}}", {"name": name, "org": org})


class OrgUsage(Group[W]):
    """The usage of orgs. Only for the operator."""

    @upwards
    def list(self, *, after: str | None = None, limit: int | None = None) -> Call[Page[Usage]]:
        """List the usage of all orgs, sorted by name."""
        return page(Usage, "/usage/orgs", after=after, limit=limit)

    @operation
    def get(self, org: str) -> Call[UsageDetail]:
        return one(UsageDetail, "GET", "/usage/orgs/{org}", {"org": org})

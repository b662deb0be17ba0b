"""/plans: manage the limits of orgs, for the operator. /usage: read the usage of an org and the limits of its plan."""

import dataclasses
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request
from pydantic import Field, create_model

from windlass.core.plans import LEAST, MAX_NUMBER, MOST, Limits
from windlass.engine.orgs import plans, usage
from windlass.schemas.plans import AssignedPlan, Plan, Usage, UsageDetail
from windlass.web.api import bodies
from windlass.web.api.shared import Data, Governing, Limit, Listing, Reading, problems

plans_router = APIRouter(prefix="/plans", tags=["plans"])
usage_router = APIRouter(prefix="/usage", tags=["plans"])

PlanName = Annotated[str, Path(description="The name of a plan.", examples=["free"])]
OrgName = Annotated[str, Path(description="The name of an org.", examples=["acme"])]


def _field(limit: dataclasses.Field[Any]) -> Any:
    """Return the type of a limit, with its bounds, and its default."""
    if limit.type is bool:
        return bool, limit.default
    bounds = Field(ge=LEAST.get(limit.name, 0), le=MOST.get(limit.name, MAX_NUMBER))
    return Annotated[int, bounds] | None, limit.default


Changes = create_model(
    "Changes",
    __base__=bodies.RequestBody,
    __doc__="The limits to set: null is unlimited. Those left out are kept; those of a new plan are unlimited.",
    **{limit.name: _field(limit) for limit in dataclasses.fields(Limits)},
)


@plans_router.get("", summary="List plans")
async def list_(db: Governing) -> Listing[Plan]:
    """Return plans, sorted by name."""
    return Listing(await plans.list_(db))


@plans_router.get("/{name}", summary="Get a plan", responses=problems(404, 422))
async def get(db: Governing, name: PlanName) -> Data[Plan]:
    return Data(await plans.get(db, name))


@plans_router.put(
    "/{name}",
    summary="Create a plan, or change its limits",
    openapi_extra=bodies.described(Changes, {"executions_per_month": 10_000, "runs_at_once": 1}),
    responses=problems(404, 409, 413, 422),
)
async def put(db: Governing, name: PlanName, request: Request) -> Data[Plan]:
    """Create a plan, or change its limits. Limits that are left out are kept; those of a new plan are unlimited. 409
    for the plan `unlimited`, which cannot be changed."""
    changes = await bodies.model(request, Changes)
    return Data(await plans.put(db, name, changes.model_dump(exclude_unset=True)))


@plans_router.delete("/{name}", summary="Delete a plan", status_code=204, responses=problems(404, 409, 422))
async def delete(db: Governing, name: PlanName) -> None:
    """Delete a plan. 409 while an org is on it."""
    await plans.delete(db, name)


@plans_router.put("/{name}/orgs/{org}", summary="Set an org's plan", responses=problems(404, 422))
async def assign(db: Governing, name: PlanName, org: OrgName) -> Data[AssignedPlan]:
    """Set an org's plan, which takes effect within seconds. What the org already has is kept, even if it exceeds the
    limits."""
    await plans.assign(db, org, name)
    return Data(AssignedPlan(org=org, plan=name))


# Usage


@usage_router.get("", summary="Get the usage of the caller's org", responses=problems(404))
async def get_usage(db: Reading) -> Data[UsageDetail]:
    """Return the usage of the caller's org and the limits of its plan. The executions of this month are counted about
    once a second."""
    return Data(await usage.of_caller(db))


@usage_router.get("/orgs", summary="List the usage of all orgs", responses=problems(422))
async def list_usage(
    db: Governing,
    after: Annotated[str, Query(max_length=255, description="Continue after this name.")] = "",
    limit: Limit = 100,
) -> Listing[Usage]:
    """Return the usage of all orgs, sorted by name. Only for the operator."""
    page = await usage.list_(db, after=after, limit=limit)
    return Listing(page.items, page.next)


@usage_router.get("/orgs/{org}", summary="Get the usage of an org", responses=problems(404, 422))
async def get_usage_of_org(db: Governing, org: OrgName) -> Data[UsageDetail]:
    """Return the usage of an org and the limits of its plan. Only for the operator."""
    return Data(await usage.of_org(db, org))

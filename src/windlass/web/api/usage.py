"""/usage: what an org uses, and what its plan allows."""

from typing import Annotated

from fastapi import APIRouter, Path, Query

from windlass.engine.orgs import usage
from windlass.schemas.plans import Usage, UsageDetail
from windlass.web.api.shared import Data, Governing, Limit, Listing, Reading, problems

router = APIRouter(prefix="/usage", tags=["plans"])

OrgName = Annotated[str, Path(description="The name of an org.", examples=["acme"])]


@router.get("", summary="Get what the org uses", responses=problems(404))
async def get(db: Reading) -> Data[UsageDetail]:
    """The executions of this month are counted about once a second."""
    return Data(await usage.of_caller(db))


@router.get("/orgs", summary="List what all orgs use", responses=problems(422))
async def list_(
    db: Governing,
    after: Annotated[str, Query(max_length=255, description="Go on after this name.")] = "",
    limit: Limit = 100,
) -> Listing[Usage]:
    """By name. Only for the operator."""
    page = await usage.list_(db, after=after, limit=limit)
    return Listing(page.items, page.next)


@router.get("/orgs/{org}", summary="Get what an org uses", responses=problems(404, 422))
async def get_of_org(db: Governing, org: OrgName) -> Data[UsageDetail]:
    """Only for the operator."""
    return Data(await usage.of_org(db, org))

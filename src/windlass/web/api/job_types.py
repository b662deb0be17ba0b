"""/job-types: the schemas that workers publish for the payloads of their handlers."""

from typing import Annotated

from fastapi import APIRouter, Path, Query

from windlass.engine.jobs import types
from windlass.schemas.job_types import JobType, JobTypeDetail
from windlass.web.api.shared import Data, Limit, Listing, Reading, problems

router = APIRouter(prefix="/job-types", tags=["job types"])

TypeName = Annotated[str, Path(description="A job type.", examples=["content.thumbnail.v1"])]


@router.get("", summary="List job types", responses=problems(422))
async def list_job_types(
    db: Reading,
    after: Annotated[str, Query(max_length=255, description="Continue after this type.")] = "",
    limit: Limit = 100,
) -> Listing[JobType]:
    """Return the job types that workers serve or have served, sorted by name."""
    page = await types.list_(db, after=after, limit=limit)
    return Listing(page.items, page.next)


@router.get("/{type}", summary="Get a job type", responses=problems(404, 422))
async def get_job_type(db: Reading, type: TypeName) -> Data[JobTypeDetail]:  # noqa: A002 - the domain's word
    """Return a job type with all schemas that workers have published for it."""
    return Data(await types.get(db, type))

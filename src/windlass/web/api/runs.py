"""/runs: the list, of all workflows or of one."""

from dataclasses import replace
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Query
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from windlass.engine.database import Database
from windlass.engine.runs import control as runs
from windlass.engine.runs.control import Wanted
from windlass.engine.workflows import control as workflows
from windlass.errors import Invalid
from windlass.web.api.request.dependencies import Open, Ref, as_id
from windlass.web.api.request.paging import PAGE_LIMIT
from windlass.web.api.schemas import runs as schemas
from windlass.web.api.schemas.common import Listing, told
from windlass.web.api.schemas.runs import Run
from windlass.web.api.vocabulary import run_states

router = APIRouter(tags=["runs"])

MAX_LABELS = 64
Id = Annotated[UUID, Field(strict=False)]  # in a body they are texts
Moment = Annotated[AwareDatetime, Field(strict=False)]


class Which(BaseModel):
    """Which runs: those that are all of this. Lists have it in the query, bulk requests in the body."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    status: list[str] = Field(default=[], max_length=50, description="May be repeated; `success` means completed.")
    inserted_after: Moment | None = Field(default=None, description="Not before this time.")
    inserted_before: Moment | None = Field(default=None, description="Before this time.")
    text: str | None = Field(
        default=None, max_length=255, description="An id, a workflow's name, or a label's key or value begins with it."
    )
    retrying: bool = Field(default=False, description="Only those with a task that waits for its next attempt.")
    before: Id | None = Field(default=None, description="Go on below this run.")


class Filters(Which):
    label: list[str] = Field(default=[], max_length=MAX_LABELS, description="KEY=VALUE; may be repeated.")
    limit: int = Field(default=50, ge=1, le=PAGE_LIMIT, description="How many at most.")


class AllFilters(Filters):
    workflow: str | None = Field(default=None, description="The name of a workflow, or its id.")


@router.get("/runs", summary="List runs", responses=told(404, 422))
async def list_(db: Open, filters: Annotated[AllFilters, Query()]) -> Listing[Run]:
    """Newest first. The id of a deleted workflow lists its runs, too."""
    return await _list(db, filters, filters.workflow)


@router.get("/workflows/{ref}/runs", summary="List the runs of a workflow", responses=told(404, 422))
async def list_of_workflow(db: Open, ref: Ref, filters: Annotated[Filters, Query()]) -> Listing[Run]:
    """Newest first. The id of a deleted workflow lists its runs, too."""
    return await _list(db, filters, ref)


async def named(db: Database, ref: str | None) -> str | None:
    id_ = as_id(ref) if ref is not None else None
    return ref if id_ is None else await workflows.name_of(db, id_)


async def _list(db: Database, filters: Filters, ref: str | None) -> Listing[Run]:
    id_ = as_id(ref) if ref is not None else None
    which = wanted(filters, ref if id_ is None else None, _labels(filters.label))
    if id_ is not None:
        await workflows.check_id(db, id_)
        which = replace(which, workflow_id=id_)
    page = await runs.find(db, which, limit=filters.limit)
    next_ = None if page.next is None else str(page.next)
    return Listing[Run](data=[schemas.line(row) for row in page.runs], next=next_)


def wanted(asked: Which, workflow: str | None, labels: dict[str, str]) -> Wanted:
    return Wanted(
        workflow=workflow,
        states=run_states(asked.status) or None,
        labels=labels,
        before=asked.before,
        created_after=asked.inserted_after,
        created_before=asked.inserted_before,
        text=asked.text,
        retrying=asked.retrying,
    )


def _labels(given: list[str]) -> dict[str, str]:
    for pair in given:
        if "=" not in pair:
            raise Invalid(f"label is {pair[:100]!r}: it must be KEY=VALUE", field="label")
    return dict(pair.split("=", 1) for pair in given)

"""/runs: the list, of all workflows or of one."""

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Query
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from windlass.engine import runs, workflows
from windlass.engine.unit import Unit
from windlass.errors import Invalid
from windlass.web.api import schemas_runs as schemas
from windlass.web.api.given import Name, Open, as_id
from windlass.web.api.paging import PAGE_LIMIT
from windlass.web.api.schemas import Listing, told
from windlass.web.api.schemas_runs import Run
from windlass.web.api.words import run_states

router = APIRouter(tags=["runs"])

MAX_LABELS = 64


class Filters(BaseModel):
    """Which runs: those that are all of this."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    status: list[str] = Field(default=[], max_length=50, description="May be repeated; `success` means completed.")
    label: list[str] = Field(default=[], max_length=MAX_LABELS, description="KEY=VALUE; may be repeated.")
    inserted_after: AwareDatetime | None = Field(default=None, description="Not before this time.")
    inserted_before: AwareDatetime | None = Field(default=None, description="Before this time.")
    before: UUID | None = Field(default=None, description="Go on below this run.")
    limit: int = Field(default=50, ge=1, le=PAGE_LIMIT, description="How many at most.")


class AllFilters(Filters):
    workflow: str | None = Field(default=None, description="The name of a workflow, or its id.")


@router.get("/runs", summary="List runs", responses=told(404, 422))
async def list_(unit: Open, filters: Annotated[AllFilters, Query()]) -> Listing[Run]:
    """Newest first."""
    return await _list(unit, filters, await named(unit, filters.workflow))


@router.get("/workflows/{ref}/runs", summary="List the runs of a workflow", responses=told(404, 422))
async def list_of_workflow(unit: Open, name: Name, filters: Annotated[Filters, Query()]) -> Listing[Run]:
    """Newest first."""
    return await _list(unit, filters, name)


async def named(unit: Unit, ref: str | None) -> str | None:
    id_ = as_id(ref) if ref is not None else None
    return ref if id_ is None else await workflows.name_of(unit, id_)


async def _list(unit: Unit, filters: Filters, workflow: str | None) -> Listing[Run]:
    page = await runs.list_(
        unit,
        workflow=workflow,
        states=run_states(filters.status) or None,
        labels=_labels(filters.label),
        before=filters.before,
        created_after=filters.inserted_after,
        created_before=filters.inserted_before,
        limit=filters.limit,
    )
    next_ = None if page.next is None else str(page.next)
    return Listing[Run](data=[schemas.line(row) for row in page.runs], next=next_)


def _labels(given: list[str]) -> dict[str, str]:
    for pair in given:
        if "=" not in pair:
            raise Invalid(f"label is {pair[:100]!r}: it must be KEY=VALUE", field="label")
    return dict(pair.split("=", 1) for pair in given)

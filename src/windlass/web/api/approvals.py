"""/approvals: list the approvals of an org, and decide them."""

from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Path, Query, Request

from windlass.core.approvals import MAX_VALUES, Decision
from windlass.engine import approvals
from windlass.schemas.approvals import Approval
from windlass.web.api import bodies
from windlass.web.api.shared import Data, Limit, Listing, Reading, problems

router = APIRouter(prefix="/approvals", tags=["approvals"])

LIMIT = MAX_VALUES + bodies.ROOM
ApprovalId = Annotated[
    UUID, Path(description="The id of an approval.", examples=["01890a5d-ac96-774b-bcce-b302099a8059"])
]


class NewDecision(bodies.RequestBody):
    values: dict[str, Any] | None = None
    comment: str | None = None


@router.get("", summary="List approvals", responses=problems(404, 422))
async def list_(
    db: Reading,
    state: Annotated[
        list[str] | None, Query(description="Only in these states: open, approved, rejected, expired, cancelled.")
    ] = None,
    workflow: Annotated[str | None, Query(max_length=255, description="Only of this workflow.")] = None,
    run_id: Annotated[UUID | None, Query(description="Only of this run.")] = None,
    before: Annotated[str | None, Query(max_length=100, description="The `next` of the previous page.")] = None,
    limit: Limit = 50,
) -> Listing[Approval]:
    """Return approvals, open ones first, newest first."""
    page = await approvals.list_(db, states=state, workflow=workflow, run_id=run_id, before=before, limit=limit)
    return Listing(page.items, page.next)


@router.get("/{approval_id}", summary="Get an approval", responses=problems(404, 422))
async def get(db: Reading, approval_id: ApprovalId) -> Data[Approval]:
    return Data(await approvals.get(db, approval_id))


@router.post(
    "/{approval_id}/approve",
    summary="Approve",
    openapi_extra=bodies.described(NewDecision, {"values": {"amount": 100}, "comment": "as agreed"}),
    responses=problems(404, 409, 410, 413, 422),
)
async def approve(db: Reading, approval_id: ApprovalId, request: Request) -> Data[Approval]:
    """Approve: the task succeeds. `values` must match the form. 403 unless the caller has one of the approval's roles,
    or one above; 409 if it was decided before; 410 if it has expired or its task no longer waits."""
    body = await bodies.model(request, NewDecision, limit=LIMIT)
    return Data(await approvals.decide(db, approval_id, Decision.APPROVE, values=body.values, comment=body.comment))


@router.post(
    "/{approval_id}/reject",
    summary="Reject",
    openapi_extra=bodies.described(NewDecision, {"comment": "too expensive"}),
    responses=problems(404, 409, 410, 413, 422),
)
async def reject(db: Reading, approval_id: ApprovalId, request: Request) -> Data[Approval]:
    """Reject: the task fails with the comment as the reason. The errors are those of an approval."""
    body = await bodies.model(request, NewDecision, limit=LIMIT)
    return Data(await approvals.decide(db, approval_id, Decision.REJECT, values=body.values, comment=body.comment))

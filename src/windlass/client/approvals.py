"""Operations on /approvals: steps of runs that wait for the decision of a person."""

from collections.abc import Mapping, Sequence
from typing import Any

from windlass.client.descriptors import Group, W, downwards, operation
from windlass.client.request import Call, one, page, present
from windlass.schemas.approvals import Approval
from windlass.schemas.common import Page

APPROVAL = "/approvals/{approval_id}"


class Approvals(Group[W]):
    @downwards
    def list(
        self,
        *,
        state: Sequence[str] | None = None,
        workflow: str | None = None,
        run_id: str | None = None,
        before: str | None = None,
        limit: int | None = None,
    ) -> Call[Page[Approval]]:
        """List approvals, open ones first, newest first."""
        return page(Approval, "/approvals", state=state, workflow=workflow, run_id=run_id, before=before, limit=limit)

    @operation
    def get(self, approval_id: str) -> Call[Approval]:
        return one(Approval, "GET", APPROVAL, {"approval_id": approval_id})

    @operation
    def approve(
        self, approval_id: str, values: Mapping[str, Any] | None = None, *, comment: str | None = None
    ) -> Call[Approval]:
        """Approve with the values of the form: the step succeeds."""
        body = present({"values": values, "comment": comment})
        return one(Approval, "POST", f"{APPROVAL}/approve", {"approval_id": approval_id}, body=body)

    @operation
    def reject(
        self, approval_id: str, values: Mapping[str, Any] | None = None, *, comment: str | None = None
    ) -> Call[Approval]:
        """Reject: the step fails with the comment as the reason."""
        body = present({"values": values, "comment": comment})
        return one(Approval, "POST", f"{APPROVAL}/reject", {"approval_id": approval_id}, body=body)

"""What answers look like, in general: envelopes, problems. Times are ISO 8601 with a Z, ids are texts."""

from typing import Any, Generic, TypeVar

from pydantic import BaseModel, ConfigDict

T = TypeVar("T")
WORKFLOW_ID = "018cc251-f400-7f5c-8a3a-6d3e6f1c9b10"
RUN_ID = "01890a5d-ac96-774b-bcce-b302099a8057"


class Shown(BaseModel):
    """Part of an answer."""

    model_config = ConfigDict(frozen=True, populate_by_name=True, serialize_by_alias=True)


class Data(Shown, Generic[T]):
    data: T


class Listing(Shown, Generic[T]):
    """A page. `next` goes into `before` or `after`, whichever the list has; null: the end."""

    data: list[T]
    next: str | None = None


class FieldProblem(Shown):
    field: str
    message: str


class Problem(BaseModel):
    """RFC 9457. `errors` names every field that is wrong."""

    model_config = ConfigDict(
        extra="allow",
        json_schema_extra={
            "examples": [
                {
                    "type": "about:blank",
                    "title": "Invalid",
                    "status": 422,
                    "detail": "tasks.send-receipt.needs: there is no step 'chrage'",
                    "field": "tasks.send-receipt.needs",
                    "errors": [{"field": "tasks.send-receipt.needs", "message": "there is no step 'chrage'"}],
                }
            ]
        },
    )

    type: str = "about:blank"
    title: str
    status: int
    detail: str
    field: str | None = None
    errors: list[FieldProblem] | None = None


MEANINGS = {
    404: "There is no such thing.",
    409: "It exists, but not in a state that allows this.",
    413: "The body is too large.",
    422: "What was sent makes no sense; `errors` names every field.",
}


def told(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The problems a route may answer with, for the OpenAPI document."""
    schema = {"$ref": "#/components/schemas/Problem"}
    return {
        status: {"description": MEANINGS[status], "content": {"application/problem+json": {"schema": schema}}}
        for status in statuses
    }

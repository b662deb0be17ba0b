"""/secrets: set, list, delete and rotate the secrets of an org. No route returns a value."""

from typing import Annotated

from fastapi import APIRouter, Path, Query, Request

from windlass.engine import secrets
from windlass.schemas.secrets import Secret, SecretRotation
from windlass.web.api import bodies
from windlass.web.api.shared import Administering, Data, Governing, Limit, Listing, problems

router = APIRouter(prefix="/secrets", tags=["secrets"])

MAX_BODY = 8 * secrets.MAX_VALUE  # bytes: JSON may escape each byte of a value
SecretName = Annotated[str, Path(description="The name of a secret.", examples=["STRIPE_KEY"])]


class NewValue(bodies.RequestBody):
    value: str


@router.get("", summary="List secrets", responses=problems(422))
async def list_(
    db: Administering,
    after: Annotated[str, Query(max_length=100, description="Continue after this name.")] = "",
    limit: Limit = 50,
) -> Listing[Secret]:
    """Return secrets with their versions, sorted by name, without their values."""
    page = await secrets.list_(db, after=after, limit=limit)
    return Listing(page.items, page.next)


@router.put(
    "/{name}",
    summary="Set a secret",
    openapi_extra=bodies.described(NewValue, {"value": "sk_live_51H8"}),
    responses=problems(404, 409, 413, 422),
)
async def put(db: Administering, name: SecretName, request: Request) -> Data[Secret]:
    """Create a secret, or replace its value. 409 if the server has no master key, or the org has 1,000 secrets."""
    body = await bodies.model(request, NewValue, limit=MAX_BODY)
    return Data(await secrets.set_(db, name, body.value))


@router.delete("/{name}", summary="Delete a secret", status_code=204, responses=problems(404, 422))
async def delete(db: Administering, name: SecretName) -> None:
    """Delete a secret. Attempts that need it fail from now on."""
    await secrets.delete(db, name)


@router.post("/rotate", summary="Rotate the data key of secrets", responses=problems(409))
async def rotate(db: Administering) -> Data[SecretRotation]:
    """Seal all secrets of the org with a new data key. Their values do not change, and no downtime is needed."""
    return Data(await secrets.rotate(db))


@router.post("/rotate-master", summary="Rotate the master key", responses=problems(409, 422))
async def rotate_master(db: Governing) -> Data[SecretRotation]:
    """Seal the data keys of all orgs and the keys of the installation with the first key of WINDLASS_MASTER_KEY. Safe
    to repeat."""
    return Data(await secrets.rotate_master(db))

"""/orgs, /sql-roles, /keys, /members and /audit: manage orgs and their access, and read the audit log."""

from datetime import timedelta
from typing import Annotated

from fastapi import APIRouter, Path, Query, Request
from pydantic import BaseModel, ConfigDict, Field

from windlass.core.orgs import Role, Scope
from windlass.engine.orgs import audit, keys, members, sql_roles
from windlass.engine.orgs import control as orgs
from windlass.engine.views import orgs as views
from windlass.schemas.common import PAGE_LIMIT
from windlass.schemas.orgs import AuditEntry, Key, Member, NewKey, Org, SqlRole
from windlass.web.api import bodies
from windlass.web.api.shared import Administering, Data, Governing, Limit, Listing, problems
from windlass.web.api.starts import Span

orgs_router = APIRouter(prefix="/orgs", tags=["orgs"])
sql_roles_router = APIRouter(prefix="/sql-roles", tags=["orgs"])
keys_router = APIRouter(prefix="/keys", tags=["keys"])
members_router = APIRouter(prefix="/members", tags=["members"])
audit_router = APIRouter(prefix="/audit", tags=["audit"])

OrgName = Annotated[str, Path(description="The name of an org.", examples=["acme"])]
KeyRef = Annotated[str, Path(description="The id of a key, or the name of one that is not revoked.", examples=["ci"])]
RoleName = Annotated[str, Path(description="The name of a role of Postgres.", examples=["acme_worker"])]
Email = Annotated[str, Path(description="The address of a member.", examples=["alice@example.com"])]


class NewOrg(bodies.RequestBody):
    name: str
    plan: str = orgs.DEFAULT_PLAN


class SqlGrant(bodies.RequestBody):
    org: str
    worker: bool = Field(default=False, description="Whether it may claim jobs and report on them, too.")


class KeyRequest(bodies.RequestBody):
    """A key has either a role or scopes. Without `expires` it is valid until it is revoked."""

    role: Role | None = Field(default=None, strict=False)
    scopes: list[Annotated[Scope, Field(strict=False)]] | None = None
    name: str | None = Field(default=None, description="Unique among the valid keys of the org; its id if left out.")
    expires: Span | None = None
    label: str | None = Field(default=None, description="The tenant of the Open Job Spec that it is restricted to.")


class Rotation(bodies.RequestBody):
    at_once: bool = Field(default=False, description="The old secret becomes invalid now, not after a day.")


class Membership(bodies.RequestBody):
    role: Role = Field(strict=False)


class Filters(BaseModel):
    """Selects the entries that match all conditions."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    actor: str | None = Field(default=None, max_length=400, description="Such as operator or key:ci.")
    action: str | None = Field(default=None, max_length=100, description="Begins with this: key. or run.cancel.")
    object: str | None = Field(default=None, max_length=400, description="The name or id of what was changed.")
    before: str | None = Field(default=None, max_length=50, description="Continue below this place.")
    limit: int = Field(default=50, ge=1, le=PAGE_LIMIT, description="Maximum number of items.")


# Orgs


@orgs_router.get("", summary="List orgs", responses=problems(422))
async def list_orgs(
    db: Governing,
    after: Annotated[str, Query(max_length=100, description="Continue after this name.")] = "",
    limit: Limit = 100,
) -> Listing[Org]:
    """Return orgs, sorted by name. Only for the operator, like everything below /orgs."""
    page = await orgs.list_(db, after=after, limit=limit)
    return Listing(page.items, page.next)


@orgs_router.post(
    "",
    summary="Create an org",
    status_code=201,
    openapi_extra=bodies.described(NewOrg, {"name": "acme", "plan": "pro"}),
    responses=problems(409, 413, 422),
)
async def create_org(db: Governing, request: Request) -> Data[Org]:
    """Create an org on a plan. 409 if it exists, or if a queue of the org `default` has a name that begins with the
    name of the new org and a slash."""
    body = await bodies.model(request, NewOrg)
    return Data(await orgs.create(db, body.name, plan=body.plan))


@orgs_router.get("/{name}", summary="Get an org", responses=problems(404, 422))
async def get_org(db: Governing, name: OrgName) -> Data[Org]:
    return Data(await orgs.get(db, name))


@orgs_router.post("/{name}/disable", summary="Disable an org", responses=problems(404, 409, 422))
async def disable_org(db: Governing, name: OrgName) -> Data[Org]:
    """Disable an org: its keys and sessions are refused, and its schedules and jobs wait until it is enabled."""
    return Data(await orgs.disable(db, name))


@orgs_router.post("/{name}/enable", summary="Enable an org", responses=problems(404, 422))
async def enable_org(db: Governing, name: OrgName) -> Data[Org]:
    return Data(await orgs.enable(db, name))


# SQL roles


@sql_roles_router.get("", summary="List SQL roles")
async def list_sql_roles(db: Governing) -> Listing[SqlRole]:
    """Return SQL roles, sorted by org. Only for the operator, like everything below /sql-roles."""
    return Listing(await sql_roles.list_(db))


@sql_roles_router.put(
    "/{role}",
    summary="Assign a SQL role to an org",
    openapi_extra=bodies.described(SqlGrant, {"org": "acme", "worker": True}),
    responses=problems(404, 409, 413, 422),
)
async def grant_sql_role(db: Governing, request: Request, role: RoleName) -> Data[SqlRole]:
    """Assign a Postgres role to an org, and create the role unless it exists; set its password in Postgres. 409 if the
    role belongs to another org."""
    body = await bodies.model(request, SqlGrant)
    return Data(await sql_roles.grant(db, body.org, role, is_worker=body.worker))


@sql_roles_router.delete(
    "/{role}", summary="Revoke the privileges of a SQL role", status_code=204, responses=problems(404, 422)
)
async def revoke_sql_role(db: Governing, role: RoleName) -> None:
    """Revoke the privileges of a role; the role itself is kept."""
    await sql_roles.revoke(db, role)


# Keys


@keys_router.get("", summary="List keys", responses=problems(422))
async def list_keys(
    db: Administering,
    before: Annotated[str | None, Query(max_length=20, description="Continue below the key with this id.")] = None,
    limit: Limit = 100,
) -> Listing[Key]:
    """Return the keys of the org, newest first, including revoked and expired ones."""
    page = await keys.list_(db, before=before, limit=limit)
    return Listing([views.key(row) for row in page.items], page.next)


@keys_router.post(
    "",
    summary="Create a key",
    status_code=201,
    openapi_extra=bodies.described(KeyRequest, {"role": "developer", "name": "ci", "expires": "90d"}),
    responses=problems(409, 413, 422),
)
async def create_key(db: Administering, request: Request) -> Data[NewKey]:
    """Create a key. Only this response contains the key itself. 403 for a scope that the caller lacks."""
    body = await bodies.model(request, KeyRequest)
    expires: timedelta | None = body.expires
    created = await keys.create(
        db, role=body.role, scopes=body.scopes, name=body.name, expires=expires, label=body.label
    )
    return Data(views.new_key(created))


@keys_router.post("/{key}/revoke", summary="Revoke a key", responses=problems(404, 422))
async def revoke_key(db: Administering, key: KeyRef) -> Data[Key]:
    """Revoke a key permanently and end the sessions that it started."""
    return Data(views.key(await keys.revoke(db, key)))


@keys_router.post(
    "/{key}/rotate",
    summary="Rotate the secret of a key",
    openapi_extra=bodies.described(Rotation, {"at_once": False}),
    responses=problems(404, 409, 413, 422),
)
async def rotate_key(db: Administering, key: KeyRef, request: Request) -> Data[NewKey]:
    """Rotate the secret of a key. The old secret stays valid for 24 hours, unless `at_once` is true."""
    body = await bodies.model(request, Rotation)
    return Data(views.new_key(await keys.rotate(db, key, at_once=body.at_once)))


# Members


@members_router.get("", summary="List members", responses=problems(422))
async def list_members(
    db: Administering,
    after: Annotated[str, Query(max_length=300, description="Continue after this address.")] = "",
    limit: Limit = 100,
) -> Listing[Member]:
    """Return members, sorted by email address."""
    page = await members.list_(db, after=after, limit=limit)
    return Listing([views.member(row) for row in page.items], page.next)


@members_router.put(
    "/{email}",
    summary="Add a member, or change the role of one",
    openapi_extra=bodies.described(Membership, {"role": "operator"}),
    responses=problems(404, 409, 413, 422),
)
async def put_member(db: Administering, email: Email, request: Request) -> Data[Member]:
    """Add a member, or change the role of a member. A person who logs in with this verified address may act for the
    org. 409 if the caller is the only admin and would give up that role."""
    body = await bodies.model(request, Membership)
    return Data(views.member(await members.put(db, email, role=body.role)))


@members_router.delete("/{email}", summary="Remove a member", status_code=204, responses=problems(404, 409, 422))
async def remove_member(db: Administering, email: Email) -> None:
    """Remove a member, whose sessions lose access to the org immediately. 409 if the caller is this member and the only
    admin."""
    await members.remove(db, email)


# Audit


@audit_router.get("", summary="List the audit log", responses=problems(422))
async def list_audit(db: Administering, filters: Annotated[Filters, Query()]) -> Listing[AuditEntry]:
    """Return the audit log of the org, newest first."""
    page = await audit.list_(
        db,
        actor=filters.actor,
        action=filters.action,
        object_=filters.object,
        before=filters.before,
        limit=filters.limit,
    )
    return Listing([views.audit_entry(row) for row in page.items], page.next)

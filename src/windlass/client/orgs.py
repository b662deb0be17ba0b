"""Operations on /orgs, /sql-roles, /keys, /members, /secrets and /audit."""

from collections.abc import Sequence
from datetime import timedelta

from windlass.client.descriptors import Group, W, downwards, operation, upwards
from windlass.client.request import Call, one, page, present
from windlass.schemas.common import Page
from windlass.schemas.orgs import AuditEntry, Key, Member, NewKey, Org, SqlRole
from windlass.schemas.secrets import Secret, SecretRotation

ORG = "/orgs/{name}"
SQL_ROLE = "/sql-roles/{role}"
KEY = "/keys/{key}"
MEMBER = "/members/{email}"
SECRET = "/secrets/{name}"  # noqa: S105 - a path


class Orgs(Group[W]):
    """Organisations. Only for the operator."""

    @upwards
    def list(self, *, after: str | None = None, limit: int | None = None) -> Call[Page[Org]]:
        """List orgs, sorted by name."""
        return page(Org, "/orgs", after=after, limit=limit)

    @operation
    def create(self, name: str, *, plan: str | None = None) -> Call[Org]:
        """Create an org on a plan, by default `unlimited`."""
        return one(Org, "POST", "/orgs", body=present({"name": name, "plan": plan}))

    @operation
    def get(self, name: str) -> Call[Org]:
        return one(Org, "GET", ORG, {"name": name})

    @operation
    def disable(self, name: str) -> Call[Org]:
        """Disable an org: its keys and sessions are refused, its schedules and jobs wait."""
        return one(Org, "POST", f"{ORG}/disable", {"name": name})

    @operation
    def enable(self, name: str) -> Call[Org]:
        return one(Org, "POST", f"{ORG}/enable", {"name": name})


class SqlRoles(Group[W]):
    """Postgres roles that belong to an org. Only for the operator."""

    @operation
    def list(self) -> Call[Page[SqlRole]]:
        """List SQL roles, sorted by org."""
        return page(SqlRole, "/sql-roles")

    @operation
    def grant(self, role: str, *, org: str, worker: bool = False) -> Call[SqlRole]:
        """Assign a Postgres role to an org, as a producer or a worker; create the role unless it exists."""
        return one(SqlRole, "PUT", SQL_ROLE, {"role": role}, body={"org": org, "worker": worker})

    @operation
    def revoke(self, role: str) -> Call[None]:
        """Revoke the privileges of a role; the role itself is kept."""
        return Call("DELETE", SQL_ROLE, lambda _: None, {"role": role})


class Keys(Group[W]):
    """API keys of the org."""

    @downwards
    def list(self, *, before: str | None = None, limit: int | None = None) -> Call[Page[Key]]:
        """List keys, newest first, including revoked and expired ones."""
        return page(Key, "/keys", before=before, limit=limit)

    @operation
    def create(
        self,
        *,
        role: str | None = None,
        scopes: Sequence[str] | None = None,
        name: str | None = None,
        expires: timedelta | float | str | None = None,
        label: str | None = None,
    ) -> Call[NewKey]:
        """Create a key with the scopes of a role, or with these scopes. Only this result contains the key itself."""
        body = {"role": role, "scopes": None if scopes is None else list(scopes), "name": name}
        return one(NewKey, "POST", "/keys", body=present({**body, "expires": expires, "label": label}))

    @operation
    def revoke(self, key: str) -> Call[Key]:
        """Revoke a key, given by id or name, permanently."""
        return one(Key, "POST", f"{KEY}/revoke", {"key": key})

    @operation
    def rotate(self, key: str, *, at_once: bool = False) -> Call[NewKey]:
        """Rotate the secret of a key; the old one stays valid for 24 hours unless `at_once` is true."""
        return one(NewKey, "POST", f"{KEY}/rotate", {"key": key}, body={"at_once": at_once})


class Members(Group[W]):
    """People who may log in to the org."""

    @upwards
    def list(self, *, after: str | None = None, limit: int | None = None) -> Call[Page[Member]]:
        """List members, sorted by email address."""
        return page(Member, "/members", after=after, limit=limit)

    @operation
    def put(self, email: str, *, role: str) -> Call[Member]:
        """Add a member, or change the role of a member."""
        return one(Member, "PUT", MEMBER, {"email": email}, body={"role": role})

    @operation
    def remove(self, email: str) -> Call[None]:
        """Remove a member, whose sessions lose access to the org immediately."""
        return Call("DELETE", MEMBER, lambda _: None, {"email": email})


class Secrets(Group[W]):
    """Values for `{{secrets.NAME}}`. They can be set, but are never returned."""

    @upwards
    def list(self, *, after: str | None = None, limit: int | None = None) -> Call[Page[Secret]]:
        """List secrets with their versions, sorted by name, without their values."""
        return page(Secret, "/secrets", after=after, limit=limit)

    @operation
    def set(self, name: str, value: str) -> Call[Secret]:
        """Create a secret, or replace its value."""
        return one(Secret, "PUT", SECRET, {"name": name}, body={"value": value})

    @operation
    def delete(self, name: str) -> Call[None]:
        """Delete a secret; attempts that need it fail from now on."""
        return Call("DELETE", SECRET, lambda _: None, {"name": name})

    @operation
    def rotate(self) -> Call[SecretRotation]:
        """Seal all secrets of the org with a new data key; their values do not change."""
        return one(SecretRotation, "POST", "/secrets/rotate")

    @operation
    def rotate_master(self) -> Call[SecretRotation]:
        """Seal the data keys of all orgs and the keys of the installation with the server's first master key.

        Only for the operator.
        """
        return one(SecretRotation, "POST", "/secrets/rotate-master")


class Audit(Group[W]):
    """The audit log of the org."""

    @downwards
    def list(
        self,
        *,
        actor: str | None = None,
        action: str | None = None,
        object: str | None = None,  # noqa: A002 - the API's word
        before: str | None = None,
        limit: int | None = None,
    ) -> Call[Page[AuditEntry]]:
        """List entries, newest first; `action` is a prefix such as `key.`."""
        return page(AuditEntry, "/audit", **present(locals()))

"""Organisations, their keys, their members, and the audit log."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from windlass.schemas.common import Role


@dataclass(frozen=True, slots=True, kw_only=True)
class Org:
    name: str
    plan: str
    created_at: datetime
    disabled_at: datetime | None
    """Null: it is not disabled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlRole:
    """A Postgres role that submits or executes jobs of an org through plain SQL."""

    role: str
    org: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """An API key, without its secret."""

    id: str
    name: str
    """The name of the caller in event trails and in the audit log, as `key:NAME`."""
    role: Role | None
    """Null: it was created with scopes instead of a role."""
    scopes: list[str]
    label: str | None
    """The tenant of the Open Job Spec that it is restricted to."""
    created_at: datetime
    created_by: str
    expires_at: datetime | None
    last_used_at: datetime | None
    """To the minute."""
    revoked_at: datetime | None
    old_until: datetime | None
    """Until when the secret before the last rotation is valid."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewKey(Key):
    """A key that was created or rotated. `key` is shown once."""

    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A person who may log in to the dashboard of an org."""

    email: str
    role: Role
    created_at: datetime
    created_by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginSession:
    """The identity of the caller, and the methods to log in."""

    actor: str | None
    """Null: not logged in."""
    org: str | None
    """The org that requests act for."""
    orgs: list[str]
    """Those that the caller may choose from."""
    role: Role | None
    scopes: list[str]
    grantable_roles: list[Role]
    """Those that the caller may give to keys and members, if it has the scope admin."""
    operator: bool
    """Whether the caller operates the installation, with all its orgs."""
    logged_in: bool
    """Whether there is a session to log out of; a key in a header, and a server without keys, need none."""
    methods: list[str]
    """How to log in: `key`, `oidc`."""
    issuer: str | None
    """The provider of OpenID Connect; null: there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry:
    """An entry of the audit log: an action, its actor and its object."""

    id: int
    at: datetime
    actor: str
    """`operator`, `key:NAME` or `user:EMAIL`; on the database `cli:USER` for commands, `windlass` for programs."""
    action: str
    """Such as `key.create`."""
    object: str | None
    data: dict[str, Any]
    """What changed; never a secret."""

"""Organisations: their names, the roles and scopes of their callers, the stored names of their queues, and API keys.

A queue of any org but `default` is stored as `<org>/<queue>`, and so is the id of a worker that uses HTTP. Claims,
pauses, depths and wake-ups of different orgs are therefore separate without a column of their own.
"""

import functools
import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from windlass.errors import Forbidden, Invalid

DEFAULT_ORG = "default"
SEPARATOR = "/"
LABEL = "tenant_id"  # in `meta` of a job: the tenant of the Open Job Spec, a label inside an org
KEY_PREFIX = "wlk"
KEY_ID_LENGTH, KEY_SECRET_LENGTH, KEY_CHECKSUM_LENGTH = 12, 43, 6
_is_name = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?").fullmatch
_is_key = re.compile(
    rf"{KEY_PREFIX}_([a-z0-9]{{{KEY_ID_LENGTH}}})_([A-Za-z0-9]{{{KEY_SECRET_LENGTH}}})_([a-z0-9]{{{KEY_CHECKSUM_LENGTH}}})"
).fullmatch


class Scope(StrEnum):
    """A permission of a caller. Each route requires exactly one scope."""

    READ = "read"  # read everything but secrets
    START = "start"  # start runs and submit jobs
    WORK = "work"  # fetch jobs and report on them
    OPERATE = "operate"  # cancel, retry, pause, delete
    DEPLOY = "deploy"  # publish workflows and schedules, register schemas and subscriptions
    ADMIN = "admin"  # keys, members, secrets, the audit log
    COMMANDS = "commands"  # publish workflows that run commands on the workers' machines


class Role(StrEnum):
    """A set of scopes that a key or a member has."""

    VIEWER = "viewer"
    OPERATOR = "operator"
    DEVELOPER = "developer"
    ADMIN = "admin"

    @property
    def scopes(self) -> frozenset[Scope]:
        return _SCOPES[self]


ALL_SCOPES = frozenset(Scope)
_VIEW = frozenset({Scope.READ})
_OPERATE = _VIEW | {Scope.START, Scope.OPERATE}
_DEVELOP = _OPERATE | {Scope.WORK, Scope.DEPLOY}
_SCOPES = {
    Role.VIEWER: _VIEW,
    Role.OPERATOR: _OPERATE,
    Role.DEVELOPER: _DEVELOP,
    Role.ADMIN: _DEVELOP | {Scope.ADMIN},
}


def role_text(roles: Sequence[str]) -> str:
    """Return roles as a phrase for messages, such as `an operator or an admin`."""
    return " or ".join(f"{'an' if role[0] in 'aeiou' else 'a'} {role}" for role in roles)


def grantable(scopes: frozenset[Scope]) -> list[Role]:
    """Return the roles that a caller with these scopes may grant to keys and members: those whose scopes it has."""
    return [role for role in Role if role.scopes <= scopes]


@dataclass(frozen=True, slots=True)
class Person:
    """A person, as described by the validated ID token of an OpenID Connect provider."""

    issuer: str
    subject: str
    email: str | None  # in lower case, and only if the provider has verified it
    name: str | None


class LoginRefusal(StrEnum):
    """The reason for refusing a login with OpenID Connect. The login page explains each (ui/src/api/refusals.ts)."""

    EXPIRED = "expired"  # it was started in another browser, or too long ago
    DENIED = "denied"  # by the provider
    INVALID = "invalid"  # the provider's answer or its token
    UNAVAILABLE = "unavailable"  # the provider or the database
    UNVERIFIED = "unverified"  # the provider has not verified the address
    NO_MEMBERSHIP = "no-membership"  # the address belongs to no member of any org


@dataclass(frozen=True, slots=True)
class Access:
    """The identity of the caller of a request, its org and its permissions."""

    org: str
    actor: str  # in event trails and in the audit log: operator, key:NAME or user:EMAIL
    scopes: frozenset[Scope] = ALL_SCOPES
    label: str | None = None  # the tenant of the Open Job Spec that the key is bound to
    isolated: bool = False  # row-level security applies: there are several orgs, and the caller acts for one
    operates: bool = False  # whether the caller operates the installation, with all its orgs

    @property
    def is_operator(self) -> bool:
        """Whether the caller may see and change what belongs to all orgs."""
        return self.operates and self.org == DEFAULT_ORG and Scope.ADMIN in self.scopes


def require(scope: Scope, scopes: frozenset[Scope], actor: str) -> None:
    """Raise `Forbidden` if a caller lacks a scope."""
    if scope not in scopes:
        raise Forbidden(f"{actor} lacks the scope {scope}: use a key or a role that has it", scope=scope)


OPERATOR = Access(DEFAULT_ORG, "operator", operates=True)


def is_org(name: str) -> bool:
    """Return whether an org may have this name."""
    return _is_name(name) is not None


def check_org(name: object) -> str:
    """Return the name of an org, or raise `Invalid`."""
    if not isinstance(name, str) or not _is_name(name):
        raise Invalid(
            f"org is {name!r}: use 1 to 63 lower-case letters, digits and hyphens, with no hyphen at the ends",
            field="org",
        )
    return name


def check_role(role: object) -> Role:
    try:
        return Role(str(role))
    except ValueError:
        raise Invalid(f"role is {role!r}: one of {', '.join(Role)}", field="role") from None


def check_scopes(names: Iterable[object]) -> frozenset[Scope]:
    """Return the scopes with these names, or raise `Invalid`."""
    try:
        return frozenset(Scope(str(name)) for name in names)
    except ValueError:
        unknown = next(name for name in names if str(name) not in list(Scope))
        raise Invalid(f"scope {unknown!r} is unknown: one of {', '.join(Scope)}", field="scopes") from None


def stored(org: str, name: str) -> str:
    """Return the stored name of a queue or of an HTTP worker."""
    return name if org == DEFAULT_ORG else f"{org}{SEPARATOR}{name}"


def shown(org: str, name: str) -> str:
    """Return the name that the org itself uses for a stored name."""
    return name if org == DEFAULT_ORG else name.removeprefix(f"{org}{SEPARATOR}")


@functools.lru_cache(maxsize=10_000)  # called for every job, and there are few queues
def owner(name: str) -> tuple[str, str]:
    """Return the org of a stored name, and the name that the org uses."""
    org, separator, rest = name.partition(SEPARATOR)
    return (org, rest) if separator else (DEFAULT_ORG, name)


# API keys: wlk_<id>_<secret>_<checksum>


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A key as a client sent it. The row is found by the id; the secret is compared by its hash."""

    id: str
    secret: str

    def __str__(self) -> str:
        return f"{KEY_PREFIX}_{self.id}_{self.secret}_{_checksum(self.id, self.secret)}"

    def __repr__(self) -> str:
        return f"ApiKey({self.id})"  # keys must not reach a log


def parse_key(text: str) -> ApiKey | None:
    """Return the parts of a key; None if it is malformed or its checksum does not match."""
    match = _is_key(text)
    if match is None or match[3] != _checksum(match[1], match[2]):
        return None
    return ApiKey(match[1], match[2])


def looks_like_key(text: str) -> bool:
    return text.startswith(f"{KEY_PREFIX}_")


def scopes_of(names: Iterable[str]) -> frozenset[Scope]:
    """Return the scopes with these names; ignore unknown ones, which a later version may have added."""
    known = {scope.value: scope for scope in Scope}
    return frozenset(known[name] for name in names if name in known)


def _checksum(id_: str, secret: str) -> str:
    """Return the checksum by which scanners for leaked keys, and a server without a query, recognize a key."""
    return hashlib.sha256(f"{id_}_{secret}".encode()).hexdigest()[:KEY_CHECKSUM_LENGTH]

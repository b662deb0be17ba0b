"""`windlass orgs`, `keys`, `members` and `audit`: manage organisations and access to them; read the audit log."""

from typing import TYPE_CHECKING

import click

from windlass.cli import arguments
from windlass.cli.arguments import after_option, json_option, limit_option
from windlass.cli.output import cell, note, record, say, show_fields, show_json
from windlass.cli.runner import backend, each, show_page
from windlass.core.orgs import Role, Scope
from windlass.schemas.common import Page

if TYPE_CHECKING:
    from windlass.schemas.orgs import AuditEntry, Key, Member, NewKey, Org, SqlRole

ORG_COLUMNS = ("name", "plan", "created", "state")
SQL_ROLE_COLUMNS = ("role", "org")
KEY_COLUMNS = ("id", "name", "role", "created", "by", "last used", "state")
MEMBER_COLUMNS = ("email", "role", "added", "by")
AUDIT_COLUMNS = ("at", "actor", "action", "object", "data")
role_type = click.Choice([role.value for role in Role])


# Orgs


@click.group()
def orgs() -> None:
    """Create, list, disable and enable organisations, and set their plans."""


@orgs.command("create")
@click.argument("name")
@click.option("--plan", metavar="NAME", help="Plan of the organisation.  [default: unlimited]")
@json_option
def create_org(name: str, plan: str | None, json: bool) -> None:
    """Create an organisation.

    \b
    Example:
      windlass orgs create acme --plan pro
      windlass keys create --org acme --role admin --name setup
    """
    _show_org(backend(lambda app: app.create_org(name, plan=plan)), json=json)


@orgs.command("list")
@limit_option(100, "Orgs")
@after_option
@json_option
def list_orgs(limit: int, after: str, json: bool) -> None:
    """List the organisations by name."""
    page = backend(lambda app: app.orgs(after=after, limit=limit))
    show_page("orgs", page, ORG_COLUMNS, _org_row, "--after", json=json)


@orgs.command("show")
@click.argument("name")
@json_option
def show_org(name: str, json: bool) -> None:
    """Show one organisation."""
    _show_org(backend(lambda app: app.org(name)), json=json)


@orgs.command("set-plan")
@click.argument("org")
@click.argument("plan")
@json_option
def set_plan(org: str, plan: str, json: bool) -> None:
    """Assign a plan to an organisation; it takes effect within seconds."""
    backend(lambda app: app.assign_plan(org, plan))
    if json:
        show_json({"org": org, "plan": plan})
    else:
        say(cell(f"org {org} is on plan {plan}"))


@orgs.command()
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@json_option
def disable(names: tuple[str, ...], json: bool) -> None:
    """Disable organisations: their keys and sessions are refused, their schedules and jobs wait."""
    each(names, "disabled", lambda app, name: app.disable_org(name), key="name", json=json)


@orgs.command()
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@json_option
def enable(names: tuple[str, ...], json: bool) -> None:
    """Enable organisations that are disabled."""
    each(names, "enabled", lambda app, name: app.enable_org(name), key="name", json=json)


@orgs.command("grant-sql")
@click.argument("org")
@click.argument("role")
@click.option("--worker", is_flag=True, help="It may also claim jobs and report on them.")
@json_option
def grant_sql(org: str, role: str, worker: bool, json: bool) -> None:
    """Grant a Postgres role access to the jobs of an organisation, for plain SQL.

    The role is created unless it exists; set its password in Postgres. It can see and change only the jobs of the
    organisation.

    \b
    Example:
      windlass orgs grant-sql acme acme_billing --worker
    """
    made = backend(lambda app: app.grant_sql(org, role, is_worker=worker))
    if json:
        show_json(made)
    else:
        kind = "worker" if worker else "producer"
        note(f"role {role} is a {kind} of org {org}: set its password with psql")


@orgs.command("revoke-sql")
@click.argument("roles", nargs=-1, required=True, metavar="ROLE...")
@json_option
def revoke_sql(roles: tuple[str, ...], json: bool) -> None:
    """Revoke the privileges of Postgres roles; the roles themselves are kept."""
    each(roles, "revoked", lambda app, role: app.revoke_sql(role), key="role", json=json)


@orgs.command("sql-roles")
@json_option
def list_sql_roles(json: bool) -> None:
    """List the Postgres roles that belong to an organisation."""
    roles = backend(lambda app: app.sql_roles())
    show_page("roles", Page(list(roles), None), SQL_ROLE_COLUMNS, _sql_role_row, "--after", json=json)


# Keys


@click.group()
def keys() -> None:
    """Create, list, rotate and revoke keys of an organisation (--org, else `default`)."""


@keys.command("create")
@click.option("--role", type=role_type, help="Role of the key.")
@click.option(
    "--scope",
    "scopes",
    type=click.Choice([scope.value for scope in Scope]),
    multiple=True,
    help="Scope of the key, instead of a role; repeatable.",
)
@click.option("--name", metavar="NAME", help="Shown in event trails and in the audit log.  [default: its id]")
@click.option("--expires", metavar="DURATION", help="Valid for this long: 90d.  [default: until it is revoked]")
@click.option("--label", metavar="TENANT", help="The tenant of the Open Job Spec that it is restricted to.")
@json_option
def create_key(
    role: str | None, scopes: tuple[str, ...], name: str | None, expires: str | None, label: str | None, json: bool
) -> None:
    """Create a key and print it: it is not shown again.

    \b
    Example:
      windlass keys create --org acme --role developer --name ci --expires 90d
    """
    span = arguments.span(expires, field="expires")
    _show_key(
        backend(lambda app: app.create_key(role=role, scopes=scopes or None, name=name, expires=span, label=label)),
        json=json,
    )


@keys.command("list")
@limit_option(100, "Keys")
@click.option("--before", metavar="ID", help="Continue below this key.")
@json_option
def list_keys(limit: int, before: str | None, json: bool) -> None:
    """List the keys, newest first, also revoked and expired ones."""
    page = backend(lambda app: app.keys(before=before, limit=limit))
    show_page("keys", page, KEY_COLUMNS, _key_row, "--before", json=json)


@keys.command()
@click.argument("keys", nargs=-1, required=True, metavar="KEY...")
@json_option
def revoke(keys: tuple[str, ...], json: bool) -> None:
    """Revoke keys, given by id or name, permanently."""
    each(keys, "revoked", lambda app, key: app.revoke_key(key), key="key", json=json)


@keys.command()
@click.argument("key")
@click.option("--now", is_flag=True, help="The old secret becomes invalid now, not after 24 hours.")
@json_option
def rotate(key: str, now: bool, json: bool) -> None:
    """Rotate the secret of a key and print it; the old one stays valid for 24 hours."""
    _show_key(backend(lambda app: app.rotate_key(key, at_once=now)), json=json)


# Members


@click.group()
def members() -> None:
    """Add, list and remove people who may log in to an organisation (--org, else `default`)."""


@members.command("add")
@click.argument("email")
@click.option("--role", type=role_type, required=True, help="Role of the member.")
@json_option
def add_member(email: str, role: str, json: bool) -> None:
    """Add a member, or change the role of one."""
    _show_member(backend(lambda app: app.put_member(email, role=role)), json=json)


@members.command("list")
@limit_option(100, "Members")
@after_option
@json_option
def list_members(limit: int, after: str, json: bool) -> None:
    """List the members by email address."""
    page = backend(lambda app: app.members(after=after, limit=limit))
    show_page("members", page, MEMBER_COLUMNS, _member_row, "--after", json=json)


@members.command("remove")
@click.argument("emails", nargs=-1, required=True, metavar="EMAIL...")
@json_option
def remove_members(emails: tuple[str, ...], json: bool) -> None:
    """Remove members; their sessions lose access to the organisation immediately."""
    each(emails, "removed", lambda app, email: app.remove_member(email), key="email", json=json)


# Audit


@click.command()
@click.option("--actor", metavar="NAME", help="Actions of this caller: operator, key:NAME or user:EMAIL.")
@click.option("--action", metavar="TEXT", help="Actions that begin with this: key. or run.cancel.")
@click.option("--object", "object_", metavar="NAME", help="Actions on the object with this name or id.")
@click.option("--before", metavar="PLACE", help="Continue below this place.")
@limit_option(50, "Entries")
@json_option
def audit(
    actor: str | None, action: str | None, object_: str | None, before: str | None, limit: int, json: bool
) -> None:
    """List who did what to which object, newest first."""
    filters = {"actor": actor, "action": action, "object_": object_, "before": before}
    page = backend(lambda app: app.audit(limit=limit, **filters))
    show_page("entries", page, AUDIT_COLUMNS, _audit_row, "--before", json=json)


def _sql_role_row(row: "SqlRole") -> list[object]:
    return [row.role, row.org]


def _org_row(org: "Org") -> list[object]:
    return [org.name, org.plan, org.created_at, "disabled" if org.disabled_at else "on"]


def _show_org(org: "Org", *, json: bool) -> None:
    if json:
        show_json(org)
    else:
        show_fields(dict(zip(ORG_COLUMNS, _org_row(org), strict=True)))


def _key_row(key: "Key") -> list[object]:
    state = "revoked" if key.revoked_at else f"expires {cell(key.expires_at)}" if key.expires_at else "valid"
    return [key.id, key.name, key.role or key.scopes, key.created_at, key.created_by, key.last_used_at, state]


def _show_key(key: "NewKey", *, json: bool) -> None:
    if json:
        show_json(record(key))
        return
    say(key.key)
    note(f"this is key {key.name} ({key.id}), shown once: store it in a safe place")


def _member_row(member: "Member") -> list[object]:
    return [member.email, member.role, member.created_at, member.created_by]


def _show_member(member: "Member", *, json: bool) -> None:
    if json:
        show_json(member)
    else:
        show_fields(dict(zip(MEMBER_COLUMNS, _member_row(member), strict=True)))


def _audit_row(entry: "AuditEntry") -> list[object]:
    return [entry.at, entry.actor, entry.action, entry.object, entry.data]

"""Converts keys, members and audit entries to the types of the API."""

from dataclasses import asdict

from windlass.engine.orgs.audit import AuditEntry as AuditRow
from windlass.engine.orgs.keys import KeyRow
from windlass.engine.orgs.keys import NewKey as CreatedKey
from windlass.engine.orgs.members import MemberRow
from windlass.schemas.orgs import AuditEntry, Key, Member, NewKey


def key(row: KeyRow) -> Key:
    fields = asdict(row)
    del fields["org"]
    return Key(**fields)


def new_key(created: CreatedKey) -> NewKey:
    return NewKey(**asdict(key(created.row)), key=str(created.key))


def member(row: MemberRow) -> Member:
    return Member(email=row.email, role=row.role, created_at=row.created_at, created_by=row.created_by)


def audit_entry(row: AuditRow) -> AuditEntry:
    fields = asdict(row)
    del fields["org"]
    return AuditEntry(**fields)

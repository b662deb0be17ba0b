"""Example responses about orgs, keys, members, approvals, the audit log, plans, usage and secrets."""

from typing import Any

Example = dict[str, Any]

PLAN: Example = {
    "name": "free",
    "workflows": 3,
    "steps_per_workflow": 5,
    "runs_at_once": 1,
    "executions_per_month": 10_000,
    "executions_at_once": 5,
    "schedules": False,
    "orgs": 12,
    "created_at": "2026-02-01T10:00:00Z",
    "updated_at": "2026-02-01T10:00:00Z",
}
ORG: Example = {"name": "acme", "plan": "pro", "created_at": "2026-02-01T10:00:00Z", "disabled_at": None}
KEY: Example = {
    "id": "k3v9x2m8q4aa",
    "name": "ci",
    "role": "developer",
    "scopes": ["deploy", "operate", "read", "start", "work"],
    "label": None,
    "created_at": "2026-02-01T10:00:00Z",
    "created_by": "operator",
    "expires_at": "2026-05-02T10:00:00Z",
    "last_used_at": "2026-02-22T10:12:00Z",
    "revoked_at": None,
    "old_until": None,
}
MEMBER: Example = {
    "email": "alice@example.com",
    "role": "operator",
    "created_at": "2026-02-01T10:00:00Z",
    "created_by": "operator",
}
AUDIT_ENTRY: Example = {
    "id": 17,
    "at": "2026-02-22T10:12:00Z",
    "actor": "user:alice@example.com",
    "action": "queue.pause",
    "object": "mail",
    "data": {},
}
USAGE: Example = {
    "org": "acme",
    "plan": PLAN,
    "month": "2026-02",
    "executions": 7_214,
    "resets_at": "2026-03-01T00:00:00Z",
    "counted_at": "2026-02-22T10:05:03Z",
    "workflows": 2,
    "runs": 1,
    "executing": 3,
}
LOGIN_SESSION: Example = {
    "actor": "user:alice@example.com",
    "org": "acme",
    "orgs": ["acme", "shop"],
    "role": "viewer",
    "scopes": ["read"],
    "grantable_roles": ["viewer"],
    "operator": False,
    "logged_in": True,
    "methods": ["key", "oidc"],
    "issuer": "https://login.example.com",
}

APPROVAL: Example = {
    "id": "01890a5d-ac96-774b-bcce-b302099a8059",
    "run_id": "01890a5d-ac96-774b-bcce-b302099a8057",
    "workflow": "refund",
    "task": "decide",
    "state": "open",
    "message": "Refund order 4711?",
    "form": {"properties": {"amount": {"type": "number"}}, "required": ["amount"]},
    "roles": ["operator"],
    "may_decide": True,
    "requested_at": "2026-02-22T10:00:00Z",
    "until": "2026-02-23T10:00:00Z",
    "escalated_at": None,
    "reminded_at": None,
    "decided_at": None,
    "by": None,
    "values": None,
    "comment": None,
    "links": {
        "approve": "https://windlass.example.com/approve/AYkKXayWd0u8zrMCCZqAWQ...",
        "reject": "https://windlass.example.com/approve/AYkKXayWd0u8zrMCCZqAWQ...",
        "expires_at": "2026-02-23T10:00:00Z",
    },
}

ORG_EXAMPLES: dict[str, Example] = {
    "Approval": APPROVAL,
    "LoginSession": LOGIN_SESSION,
    "Org": ORG,
    "Key": KEY,
    "NewKey": KEY | {"key": "wlk_k3v9x2m8q4aa_..."},
    "Member": MEMBER,
    "AuditEntry": AUDIT_ENTRY,
    "Plan": PLAN,
    "Usage": USAGE,
    "UsageDetail": USAGE | {"history": [{"month": "2026-02", "executions": 7_214}]},
    "AssignedPlan": {"org": "acme", "plan": "free"},
    "Secret": {"name": "STRIPE_KEY", "version": 2, "updated_at": "2026-02-22T10:00:00Z", "updated_by": "key:ci"},
    "SecretRotation": {"secrets": 7, "data_keys": 1, "server_keys": 0, "master_key": "9f86d081"},
}

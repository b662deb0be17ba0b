"""Reads the `approve` of a step: the message, the form, the roles that may decide, the timeout and the reminder."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from windlass.core.definition.fields import Fields, format_value
from windlass.core.definition.input_schema import read_schema
from windlass.core.orgs import Role
from windlass.core.workflows.step import ApprovalAction, Escalation, OnTimeout

APPROVAL_KEYS = ("message", "form", "roles", "timeout", "on_timeout", "remind")
MAX_MESSAGE = 8_192
SHORTEST_REMIND = timedelta(minutes=1)
MILLISECOND = timedelta(milliseconds=1)
ROLES = f"a list of roles, of {', '.join(Role)}"


def read_approval(fields: Fields) -> ApprovalAction:
    value = fields.values["approve"]
    if isinstance(value, str):
        value = {"message": value}
    if not isinstance(value, Mapping):
        fields.unreadable("approve", "a message or an object such as {message: 'Ship it?', roles: [admin]}")
        return ApprovalAction("?")
    approval = Fields(value, fields.at("approve"), fields.mistakes)
    approval.refuse_unknown(APPROVAL_KEYS)
    if "message" not in approval:
        approval.refuse("message", "it is missing: give the question that a person decides")
    timeout = approval.span("timeout", unit=MILLISECOND)
    if "on_timeout" in approval and "timeout" not in approval:
        approval.refuse("on_timeout", "it has no effect without a timeout: give timeout, too")
    return ApprovalAction(
        approval.text("message", limit=MAX_MESSAGE) or "?",
        _form(approval),
        _roles(approval) or (Role.OPERATOR,),
        timeout,
        _on_timeout(approval),
        _remind(approval),
    )


def _form(fields: Fields) -> Mapping[str, Any] | None:
    """Return the form. Its keywords are checked when the workflow is published."""
    form = read_schema(fields, "form", "{properties: {amount: {type: number}}}")
    if form is None:
        return None
    if form.get("type", "object") != "object":
        fields.refuse("form", f"its type is {format_value(form['type'])}: it must be object, since values have names")
    if not isinstance(form.get("properties", {}), Mapping):
        fields.refuse("form", "its properties must be an object: a schema for each name")
    return form


def _roles(fields: Fields) -> tuple[Role, ...]:
    roles = fields.values.get("roles")
    if roles is None:
        return ()
    if not isinstance(roles, list | tuple) or not roles or any(role not in list(Role) for role in roles):
        fields.unreadable("roles", ROLES)
        return ()
    return tuple(dict.fromkeys(Role(role) for role in roles))


def _on_timeout(fields: Fields) -> OnTimeout | Escalation:
    value = fields.values.get("on_timeout")
    if not isinstance(value, Mapping):
        if value is not None and value not in list(OnTimeout):
            fields.unreadable("on_timeout", f"{', '.join(OnTimeout)} or {{escalate: {{roles: [admin], timeout: 1d}}}}")
            return OnTimeout.FAIL
        return OnTimeout.FAIL if value is None else OnTimeout(value)
    end = Fields(value, fields.at("on_timeout"), fields.mistakes)
    end.refuse_unknown(("escalate",))
    escalate = end.object("escalate")
    if escalate is None:
        if "escalate" not in end:
            end.refuse("escalate", "it is missing: give {roles: [admin], timeout: 1d}")
        return OnTimeout.FAIL
    escalate.refuse_unknown(("roles", "timeout"))
    if "roles" not in escalate:
        escalate.refuse("roles", f"it is missing: give {ROLES}")
    return Escalation(_roles(escalate) or (Role.ADMIN,), escalate.span("timeout", unit=MILLISECOND))


def _remind(fields: Fields) -> timedelta | None:
    span = fields.span("remind", unit=MILLISECOND)
    if span is not None and span < SHORTEST_REMIND:
        fields.refuse_value("remind", "at least 1m")
    return span

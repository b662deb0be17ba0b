"""`windlass approvals`: list the steps that wait for the decision of a person, and decide."""

from typing import TYPE_CHECKING

import click

from windlass.cli import arguments
from windlass.cli.arguments import FC, json_option, limit_option
from windlass.cli.output import record, say, show_fields, show_json
from windlass.cli.runner import backend, show_page
from windlass.core.approvals import ApprovalState, Decision

if TYPE_CHECKING:
    from windlass.schemas.approvals import Approval

COLUMNS = ("id", "state", "workflow", "task", "requested", "until", "roles", "message")

id_argument = click.argument("approval_id", metavar="ID")


def decision_options(command: FC) -> FC:
    value = click.option("--value", "-v", "pairs", multiple=True, metavar="NAME=VALUE", help="A value of the form.")
    comment = click.option("--comment", metavar="TEXT", help="Comment, part of the output of the step.")
    return id_argument(value(comment(json_option(command))))


@click.group()
def approvals() -> None:
    """List approvals, show them, approve and reject."""


@approvals.command("list")
@click.option(
    "--state", "states", multiple=True, type=click.Choice([*map(str, ApprovalState)]), help="Only in this state."
)
@click.option("--workflow", metavar="NAME", help="Only of this workflow.")
@limit_option(50, "Approvals")
@click.option("--before", metavar="PLACE", help="Continue below this place.")
@json_option
def list_(states: tuple[str, ...], workflow: str | None, limit: int, before: str | None, json: bool) -> None:
    """List approvals, the open ones first, newest first."""
    page = backend(lambda app: app.approvals(states=states, workflow=workflow, before=before, limit=limit))
    show_page("approvals", page, COLUMNS, _row, "--before", json=json)


@approvals.command()
@id_argument
@json_option
def show(approval_id: str, json: bool) -> None:
    """Show the message, the form and the decision of an approval."""
    id_ = arguments.approval_id(approval_id)
    approval = backend(lambda app: app.approval(id_))
    if json:
        show_json(approval)
    else:
        show_fields(record(approval))


@approvals.command()
@decision_options
def approve(approval_id: str, pairs: tuple[str, ...], comment: str | None, json: bool) -> None:
    """Approve: the step succeeds.

    \b
    Examples:
      windlass approvals approve 01a1e549-5254-7e2d-ae29-a2ed6084b686 -v amount=100 --comment "as agreed"
    """
    _decide(Decision.APPROVE, approval_id, pairs, comment, json=json)


@approvals.command()
@decision_options
def reject(approval_id: str, pairs: tuple[str, ...], comment: str | None, json: bool) -> None:
    """Reject: the step fails, with the comment as the reason."""
    _decide(Decision.REJECT, approval_id, pairs, comment, json=json)


def _decide(decision: Decision, approval_id: str, pairs: tuple[str, ...], comment: str | None, *, json: bool) -> None:
    id_, values = arguments.approval_id(approval_id), arguments.values(pairs, field="value") or None
    approval = backend(lambda app: app.decide(id_, decision, values=values, comment=comment))
    if json:
        show_json(approval)
    else:
        say(f"{approval.state} {approval.id}")


def _row(approval: "Approval") -> list[object]:
    message = next(iter(approval.message.strip().splitlines()), "")
    place = [approval.id, approval.state, approval.workflow, approval.task]
    return [*place, approval.requested_at, approval.until, approval.roles, message]

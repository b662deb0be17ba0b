"""Creates the approvals that steps wait for and handles their timers, while their runs are settled.

The caller holds the locks of the runs.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import assert_never
from uuid import UUID

from windlass.core import property_order
from windlass.core.approvals import (
    BY_TIMEOUT,
    ApprovalState,
    Escalate,
    Expire,
    Remind,
    Times,
    check_message,
    due,
    ended,
    next_timer,
)
from windlass.core.expressions.scope import Facts
from windlass.core.json_value import encode
from windlass.core.orgs import role_text
from windlass.core.runs.event import Ended
from windlass.core.workflows.step import ApprovalAction
from windlass.engine.database import new_ids
from windlass.engine.definitions import StepTemplate
from windlass.store import approvals, runs, steps
from windlass.store.approvals import NewApproval
from windlass.store.postgres.pool import Connection
from windlass.store.runs import LockedRun, RunNote
from windlass.store.steps import StepRef

ACTOR = "engine"
REMINDED, ESCALATED = "reminded", "escalated"  # event types in the trail of a run


def request(run: LockedRun, template: StepTemplate, facts: Facts, until: datetime | None) -> NewApproval:
    """Return the approval of a step that begins to wait; raise `Invalid` if its message cannot be filled in."""
    action = template.step.action
    assert isinstance(action, ApprovalAction)
    message = check_message(template.payload.fill(facts)["message"])
    form = None if action.form is None else encode(property_order.add(action.form), field="approve.form")
    [id_] = new_ids(1)
    place = id_, run.id, template.number, run.round, template.step.name
    return NewApproval(*place, message, form, ",".join(action.roles), run.now, until)


def first_timer(template: StepTemplate, request: NewApproval) -> datetime | None:
    assert isinstance(template.step.action, ApprovalAction)
    return next_timer(template.step.action, Times(request.requested_at, request.until))


async def fire(
    conn: Connection, places: Mapping[StepRef, ApprovalAction], now: Mapping[UUID, datetime]
) -> dict[StepRef, Ended]:
    """Handle the expired timers of these steps: remind, escalate or end the wait; return the ends."""
    ends: dict[StepRef, Ended] = {}
    reminded: list[tuple[UUID, datetime]] = []
    notes: list[RunNote] = []
    timers: list[tuple[UUID, int, datetime]] = []
    for row in await approvals.open_of_steps(conn, list(places)) if places else ():
        action, moment, times = places[row.run_id, row.step], now[row.run_id], row.times
        match what := due(action, times, moment):
            case Remind():
                reminded.append((row.id, moment))
                notes.append(RunNote(row.run_id, row.step, REMINDED, None, None))
                times = replace(times, reminded_at=moment)
            case Escalate(roles, until):
                await approvals.escalate(conn, row.id, roles, until, at=moment)
                reason = f"there was no decision in time: {role_text(roles)} may decide from now on"
                notes.append(RunNote(row.run_id, row.step, ESCALATED, "timeout", reason))
                times = replace(times, escalated_at=moment, reminded_at=moment, until=until)
            case Expire(decision):
                state = ApprovalState.EXPIRED if decision is None else decision.state
                await approvals.decide(conn, row.id, state, by=None if decision is None else BY_TIMEOUT)
                ends[row.run_id, row.step] = ended(row.step, decision, BY_TIMEOUT, None)
                continue
            case _:
                assert_never(what)
        if (at := next_timer(action, times)) is not None:
            timers.append((row.run_id, row.step, at))
    await _write(conn, reminded, notes, timers)
    return ends


async def _write(
    conn: Connection,
    reminded: Sequence[tuple[UUID, datetime]],
    notes: Sequence[RunNote],
    timers: Sequence[tuple[UUID, int, datetime]],
) -> None:
    if reminded:
        await approvals.remind(conn, reminded)
    if timers:
        await steps.insert_timers(conn, timers)
    if notes:
        await runs.log(conn, notes, actor=ACTOR)

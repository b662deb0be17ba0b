"""Receives callbacks for hook steps: stores each when it arrives, and applies it when its step waits for it."""

from collections.abc import Mapping
from dataclasses import dataclass
from uuid import UUID

from windlass.core.events import webhook
from windlass.core.events.webhook import BODY_LIMIT, kept_headers, stored_body
from windlass.core.json_value import encode
from windlass.core.runs.event import Ended, Event
from windlass.core.runs.run import LIVE, OPEN, Letter
from windlass.core.workflows.step import HookAction
from windlass.core.workflows.workflow import Workflow
from windlass.engine.database import Database, Tenant
from windlass.engine.runs.control import load, step_number
from windlass.engine.runs.settle import settle
from windlass.errors import Gone, Invalid, NotFound, Refused
from windlass.store import hooks, runs, steps
from windlass.store.runs import LockedRun

ACTOR = "hook"


@dataclass(frozen=True, slots=True)
class Received:
    """The result of a callback. `again`: one was received before, or this one in an earlier round; nothing changed."""

    again: bool


async def check_token(db: Database, token: str) -> None:
    """Raise the error that `receive` would raise for this token, before an untrusted body is read."""
    async with db.once() as conn:
        hook = await hooks.state(conn, webhook.token_digest(token))
    if hook is None:
        raise _unknown()
    if not hook.is_received and (hook.state not in LIVE or hook.step not in OPEN):
        raise _over()


async def receive(db: Database, token: str, body: bytes, headers: Mapping[str, str]) -> Received:
    """Store a callback, and end its step if the step is waiting. The names in `headers` are in lower case."""
    if len(body) > BODY_LIMIT:
        raise Invalid(f"the body is {len(body)} bytes, the limit is {BODY_LIMIT}", field="body")
    async with db.begin() as conn:
        place = await hooks.find(conn, webhook.token_digest(token))
        locked = await runs.lock(conn, [place[0]]) if place is not None else []
        if place is None or not locked:  # its run may just have been pruned
            raise _unknown()
        (id_, step), run = place, locked[0]
        workflow = await db.definitions.one(conn, run.version_id)
        if (secret := _action(workflow, step).secret) is not None:
            _check(await db.vault.resolve(conn, run.org, secret), run, body, headers)
        signed_id = headers.get("webhook-id") if secret is not None else None
        if await hooks.received(conn, place, signed_id):
            return Received(again=True)
        if run.state not in LIVE or run.steps[step] not in OPEN:
            raise _over()
        stored_headers = kept_headers(headers)
        text = stored_body(body, headers.get("content-type"))
        await hooks.receive(conn, place, body=text, headers=encode(stored_headers, field="headers"), id_=signed_id)
        events: list[Event] = []
        if run.steps[step] == Letter.ACTIVE:
            await steps.delete_timers(conn, [place])
            events = [Ended(step, Letter.SUCCEEDED)]
        wakeups = await settle(conn, db, [run], {id_: events} if events else {}, actor=ACTOR)
    wakeups.poke(db)
    return Received(again=False)


def _unknown() -> NotFound:
    return NotFound("callback address", "of this token")


def _over() -> Gone:
    return Gone("this callback is no longer expected: its step or its run has ended")


async def address(db: Tenant, id_: UUID, step: str) -> str:
    """Return the callback URL of a step of a run."""
    async with db.once() as conn:
        row, workflow = await load(conn, db, id_)
        number = step_number(workflow, step)
        if not isinstance(workflow.steps[number].action, HookAction):
            raise NotFound("callback address", f"of task {step}", hint="it does not wait for a callback")
        round_ = (await hooks.rounds(conn, [(id_, number)])).get((id_, number), 0) if row.round else 0
        token = webhook.callback_token(await db.hook_key(conn), id_, number, round_)
        return f"{await db.public_url.get(conn)}/wh/{token}"


def _action(workflow: Workflow, step: int) -> HookAction:
    action = workflow.steps[step].action
    assert isinstance(action, HookAction)
    return action


def _check(secret: str, run: LockedRun, body: bytes, headers: Mapping[str, str]) -> None:
    if why := webhook.signature_mistake(secret, headers, body, run.now):
        raise Refused(f"the callback is not signed as required: {why}")

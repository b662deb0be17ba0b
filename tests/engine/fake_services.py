"""A worker that a test controls and that also serves HTTP and command steps, and calls to callback addresses."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from uuid import UUID

from tests.engine.harness import LEASE, QUEUES, ManualWorker, begin
from windlass.core.definition.parser import parse
from windlass.core.jobs.job import Claimed, Failed, Outcome, Succeeded
from windlass.core.jobs.spec import OWN_QUEUE
from windlass.core.json_value import encode
from windlass.engine import hooks, workflows
from windlass.engine.database import Tenant
from windlass.engine.hooks import Received
from windlass.engine.workers import turn
from windlass.engine.workers.turn import Turn

RETRIED = frozenset({408, 425, 429, *range(500, 600)})


class ServiceWorker(ManualWorker):
    """A worker that also serves the built-in step types."""

    def __init__(self, db: Tenant, name: str = "w1") -> None:
        super().__init__(db, name)
        self.payloads: dict[str, list[Any]] = {}  # by step, in the order of its jobs

    async def take(self, count: int = 1000) -> list[Claimed]:
        lanes = [(replace(lane, seq=0), count) for lane in await turn.look(self.db, (*QUEUES, OWN_QUEUE))]
        if not lanes:
            return []
        request = Turn(worker=self.name, lease=LEASE, lanes=lanes, count=count)
        claimed = (await turn.turn(self.db, request))[0]
        for job in claimed:
            self.seen.append(self.step(job))
            self.payloads.setdefault(self.step(job), []).append(json.loads(job.payload))
        return claimed


def answer(
    status: int = 200, body: Any = "", *, truncated: bool = False, headers: Mapping[str, str] | None = None
) -> Outcome:
    """Return the outcome of an HTTP step for this response. A body that is not a string is sent as JSON."""
    text = body if isinstance(body, str) else json.dumps(body)
    kept = {
        "status_code": status,
        "headers": dict(headers or {}),
        "body": text,
        "is_truncated": truncated,
        "duration_ms": 1,
    }
    document = encode(kept, field="result")
    if status < 400:
        return Succeeded(document)
    error = {"type": "HttpStatus", "message": f"POST http://test answered {status}"}
    return Failed(error, retryable=status in RETRIED, result=document)


async def deploy(db: Tenant, name: str = "w", **tasks: Any) -> None:
    """Publish a workflow of these tasks; two underscores in a name stand for a hyphen."""
    named = {key.replace("__", "-"): value for key, value in tasks.items()}
    await workflows.publish(db, parse({"name": name, "tasks": named}))


async def run_of(db: Tenant, *, input: Any = None, headers: Mapping[str, str] | None = None, **tasks: Any) -> UUID:  # noqa: A002
    """Publish these tasks and start a run of them."""
    await deploy(db, **tasks)
    return await begin(db, input=input, headers=headers)


async def play(db: Tenant, **endings: Any) -> ServiceWorker:
    """Run all due jobs until none is left; two underscores in the name of a step stand for a hyphen."""
    worker = await ServiceWorker.registered(db)
    assert isinstance(worker, ServiceWorker)
    await worker.play({key.replace("__", "-"): value for key, value in endings.items()})
    return worker


async def played(
    db: Tenant,
    tasks: Mapping[str, Any],
    *,
    input: Any = None,  # noqa: A002
    **endings: Any,
) -> tuple[UUID, ServiceWorker]:
    """Start a run of these tasks and run its jobs to the end."""
    run = await run_of(db, input=input, **tasks)
    return run, await play(db, **endings)


async def token_of(db: Tenant, run: UUID, step: str = "paid") -> str:
    return (await hooks.address(db, run, step)).rpartition("/")[2]


async def call(db: Tenant, run: UUID, body: bytes = b"{}", *, step: str = "paid", **headers: str) -> Received:
    """Call the callback address of a step."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return await hooks.receive(db, await token_of(db, run, step), body, named)

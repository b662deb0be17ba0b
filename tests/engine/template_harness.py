"""Helpers for tests of steps with templates."""

from typing import Any
from uuid import UUID

from tests.engine.harness import words
from windlass.engine.database import Tenant
from windlass.engine.runs import control as runs

TRIGGER = {
    "id": 7,
    "big": 12345678901234567890,
    "f": 1.5,
    "yes": True,
    "nil": None,
    "list": [1, "a"],
    "o": {"k": [None]},
}


def job(*needs: str, **more: Any) -> dict[str, Any]:
    return {"job": "test.job.v1", **({"needs": list(needs)} if needs else {}), **more}


def http(*needs: str, **more: Any) -> dict[str, Any]:
    return {"url": "https://shop.example/x", **({"needs": list(needs)} if needs else {}), **more}


async def failed(db: Tenant, run: UUID, step: str) -> str:
    """Check that a step failed without a job because of a template; return the reason."""
    assert (await words(db, run))[step] == "failed"
    view = await runs.view(db, run)
    number = view.workflow.plan.number[step]
    *_, event = [event for event in view.events if event.step == number and event.reason is not None]
    assert event.code == "template_error"
    assert number not in view.jobs
    return str(event.reason)

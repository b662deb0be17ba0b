"""A workflow: a named definition, what starts it and what its steps are. A value; two equal ones are the same version.

Values of this class are known to be sound (`core.definition` sees to that): names are unique, parents exist, nothing
goes round in a circle.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from functools import cached_property
from typing import Any, assert_never

from windlass.core import duration
from windlass.core.definition.serialize import step_document
from windlass.core.events.webhook import Scheme
from windlass.core.expressions import expression
from windlass.core.runs.plan import Plan
from windlass.core.runs.step_payload import compile_payload
from windlass.core.workflows.step import Step

MAX_DURATION = timedelta(days=30)
# Of compositions: the Open Job Spec (14.3) has no aggregate timeout. A century, not infinity: the engine adds and
# subtracts it, which Postgres before 17 cannot do with infinite timestamps.
NO_TIME_LIMIT = timedelta(days=36_525)


class Primitive(StrEnum):
    """What a composition of jobs is: `core.workflows.compositions` makes workflows of them."""

    CHAIN = "chain"
    GROUP = "group"
    BATCH = "batch"
    DAG = "dag"


class Overlap(StrEnum):
    """What a cron tick does while an earlier run is under way."""

    ALLOW = "allow"
    SKIP = "skip"
    REPLACE = "replace"
    BUFFER = "buffer"


class CatchUp(StrEnum):
    """What becomes of ticks that nobody was there for."""

    NONE = "none"
    ONE = "one"
    ALL = "all"


@dataclass(frozen=True, slots=True)
class ApiTrigger:
    """Somebody asks for a run. This always works, whatever the trigger."""


@dataclass(frozen=True, slots=True)
class CronTrigger:
    cron: str
    timezone: str = "UTC"
    input: Any = field(default_factory=dict)
    overlap: Overlap = Overlap.ALLOW
    catch_up: CatchUp = CatchUp.ONE


@dataclass(frozen=True, slots=True)
class WebhookTrigger:
    """A request to the workflow's own address; its body and headers are the trigger. A secret demands a signature."""

    secret: str | None = field(default=None, repr=False)
    scheme: Scheme = Scheme.STANDARD


Trigger = ApiTrigger | CronTrigger | WebhookTrigger


@dataclass(frozen=True)
class Workflow:
    name: str
    steps: tuple[Step, ...]
    trigger: Trigger = ApiTrigger()
    description: str | None = None
    max_duration: timedelta = MAX_DURATION
    concurrency: int | None = None  # runs at a time; the others wait
    labels: Mapping[str, str] = field(default_factory=dict)
    primitive: Primitive | None = None  # of a composition; its jobs are told by the input of the run

    @cached_property
    def plan(self) -> Plan:
        return Plan(self.steps)

    @cached_property
    def reads_headers(self) -> bool:
        """Does any step ask for the headers of the request that started the run?"""
        conditions = [expression.parse(step.condition).paths for step in self.steps if step.condition is not None]
        payloads = [compile_payload(step.action).references for step in self.steps]
        return any(
            path.root == "trigger" and path.field == "headers" for paths in conditions + payloads for path in paths
        )

    @cached_property
    def fingerprint(self) -> str:
        """The same for equal definitions, however they were spelled."""
        text = json.dumps(self.to_document(), sort_keys=True, ensure_ascii=False, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()

    def to_document(self) -> dict[str, Any]:
        """The canonical document: `core.definition.parser.parse` makes an equal workflow of it.

        The order of steps is their number in a run's state, so they are a list: jsonb keeps no order of keys.
        What is subject to policy (attempts, time limits) is written out, so that a version means the same for ever.
        """
        found: dict[str, Any] = {"name": self.name, "trigger": _trigger_document(self.trigger)}
        if self.description is not None:
            found["description"] = self.description
        found["max_duration"] = duration.text(self.max_duration)
        if self.concurrency is not None:
            found["concurrency"] = self.concurrency
        if self.labels:
            found["labels"] = dict(self.labels)
        return found | {"tasks": [step_document(step) for step in self.steps]}


def _trigger_document(trigger: Trigger) -> str | dict[str, Any]:
    match trigger:
        case ApiTrigger():
            return "api"
        case WebhookTrigger(None):
            return "webhook"
        case WebhookTrigger():
            return {"webhook": {"secret": trigger.secret, "scheme": str(trigger.scheme)}}
        case CronTrigger():
            return {
                "cron": trigger.cron,
                "timezone": trigger.timezone,
                "input": trigger.input,
                "overlap": str(trigger.overlap),
                "catch_up": str(trigger.catch_up),
            }
        case _:
            assert_never(trigger)

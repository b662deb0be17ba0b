"""A workflow: a named definition with its trigger and steps. A value: two equal workflows are the same version.

Workflows are already validated by `core.definition`: names are unique, parents exist, and there is no cycle.
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
# For compositions: the Open Job Spec (14.3) has no aggregate timeout. A century, not infinity: the engine adds and
# subtracts it, which Postgres before 17 cannot do with infinite timestamps.
NO_TIME_LIMIT = timedelta(days=36_525)


class Primitive(StrEnum):
    """The kind of a composition of jobs; `core.workflows.compositions` compiles them to workflows."""

    CHAIN = "chain"
    GROUP = "group"
    BATCH = "batch"
    DAG = "dag"


class Overlap(StrEnum):
    """What a cron tick does while an earlier run is active."""

    ALLOW = "allow"
    SKIP = "skip"
    REPLACE = "replace"
    BUFFER = "buffer"


class CatchUp(StrEnum):
    """What happens to missed ticks."""

    NONE = "none"
    ONE = "one"
    ALL = "all"


@dataclass(frozen=True, slots=True)
class ApiTrigger:
    """Runs are started through the API only. Starting a run through the API works with every trigger."""


@dataclass(frozen=True, slots=True)
class CronTrigger:
    cron: str
    timezone: str = "UTC"
    input: Any = field(default_factory=dict)
    overlap: Overlap = Overlap.ALLOW
    catch_up: CatchUp = CatchUp.ONE


@dataclass(frozen=True, slots=True)
class WebhookTrigger:
    """A request to the workflow's own URL; its body and headers are the trigger. With a secret it must be signed."""

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
    concurrency: int | None = None  # maximum number of active runs; the others stay pending
    labels: Mapping[str, str] = field(default_factory=dict)
    primitive: Primitive | None = None  # set for a composition, whose jobs are in the input of the run

    @cached_property
    def plan(self) -> Plan:
        return Plan(self.steps)

    @cached_property
    def reads_headers(self) -> bool:
        """Return whether any step reads the headers of the request that started the run."""
        conditions = [expression.parse(step.condition).paths for step in self.steps if step.condition is not None]
        payloads = [compile_payload(step.action).references for step in self.steps]
        return any(
            path.root == "trigger" and path.field == "headers" for paths in conditions + payloads for path in paths
        )

    @cached_property
    def fingerprint(self) -> str:
        """Return a hash that is the same for equal definitions, however they were written."""
        text = json.dumps(self.to_document(), sort_keys=True, ensure_ascii=False, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()

    def to_document(self) -> dict[str, Any]:
        """Return the canonical document; `core.definition.parser.parse` returns an equal workflow for it.

        Steps are a list because their order gives their numbers in a run's state, and jsonb does not keep the order of
        keys. Defaults (attempts, time limits) are written out, so that changing them does not change a version.
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

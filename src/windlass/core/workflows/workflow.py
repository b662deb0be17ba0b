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
from windlass.core.cron.schedule import CatchUp, Overlap
from windlass.core.events.webhook import Scheme
from windlass.core.expressions import expression
from windlass.core.jobs.spec import DEFAULT_PRIORITY
from windlass.core.workflows.graph import Plan
from windlass.core.workflows.step import (
    Action,
    ApprovalAction,
    ChildAction,
    CommandAction,
    Condition,
    Edge,
    Escalation,
    EventAction,
    Foreach,
    HookAction,
    HttpAction,
    JobAction,
    Join,
    OnTimeout,
    Parallel,
    Placement,
    SleepAction,
    Step,
    UndoAction,
)
from windlass.core.workflows.step_payload import compile_payload

MAX_DURATION = timedelta(days=30)
# For compositions: the Open Job Spec (14.3) has no aggregate timeout. A century, not infinity: the engine adds and
# subtracts it, which Postgres before 17 cannot do with infinite timestamps.
NO_TIME_LIMIT = timedelta(days=36_525)


class CompositionKind(StrEnum):
    """The kind of a composition of jobs; `core.compositions` compiles them to workflows."""

    CHAIN = "chain"
    GROUP = "group"
    BATCH = "batch"
    DAG = "dag"


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
    """Starts a run for each request to the workflow's own URL; its body and headers are the `trigger` of the run.

    With a secret, requests must be signed.
    """

    secret: str | None = field(default=None, repr=False)
    scheme: Scheme = Scheme.STANDARD


@dataclass(frozen=True, slots=True)
class EventTrigger:
    """Starts a run for each published event with this name that meets the condition; its payload is the input."""

    event: str
    condition: str | None = None


Trigger = ApiTrigger | CronTrigger | WebhookTrigger | EventTrigger


@dataclass(frozen=True)
class Workflow:
    name: str
    steps: tuple[Step, ...]
    trigger: Trigger = ApiTrigger()
    description: str | None = None
    max_duration: timedelta = MAX_DURATION
    concurrency: int | None = None  # maximum number of active runs; the others stay pending
    labels: Mapping[str, str] = field(default_factory=dict)
    input: Mapping[str, Any] | None = None  # a JSON Schema that the input of a run must fit
    primitive: CompositionKind | None = None  # set for a composition, whose jobs are in the input of the run

    @cached_property
    def plan(self) -> Plan:
        return Plan(self.steps, composition=self.primitive is not None)

    @cached_property
    def input_schema(self) -> str | None:
        """Return `input` as JSON text for the validator."""
        return None if self.input is None else json.dumps(self.input)

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
        return _present(
            name=self.name,
            trigger=_trigger_document(self.trigger),
            description=self.description,
            max_duration=duration.text(self.max_duration),
            concurrency=self.concurrency,
            labels=dict(self.labels) or None,
            input=None if self.input is None else dict(self.input),
            tasks=[
                step_document(step) | self._compensation_document(n)
                for n, step in enumerate(self.steps)
                if step.compensates is None
            ],
        )

    def _compensation_document(self, step: int) -> dict[str, Any]:
        """Return the `compensate` of a step. If any step has one, child runs are undone unless excluded."""
        compensation = self.plan.undo.get(step)
        if compensation is not None:
            undo = self.steps[compensation]
            whole = isinstance(undo.action, UndoAction)
            return {"compensate": True if whole else _action(undo.action) | _attempts(undo)}
        excluded = self.plan.undo and isinstance(self.steps[step].action, ChildAction)
        return {"compensate": False} if excluded else {}


def step_document(step: Step) -> dict[str, Any]:
    """Return the canonical form of a step in a document: one spelling for each key, no empty values."""
    return {"name": step.name} | _when(step) | _action(step.action) | _copies(step) | _attempts(step)


def _trigger_document(trigger: Trigger) -> str | dict[str, Any]:
    match trigger:
        case ApiTrigger():
            return "api"
        case WebhookTrigger(None):
            return "webhook"
        case WebhookTrigger():
            return {"webhook": {"secret": trigger.secret, "scheme": str(trigger.scheme)}}
        case EventTrigger(event, condition):
            return _present(event=event, **{"if": condition})
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


def _present(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _when(step: Step) -> dict[str, Any]:
    plain = Condition.SUCCESS if step.condition is None else Condition.COMPLETE
    return _present(
        needs=[_need(edge, plain) for edge in step.edges] or None,
        join=None if step.join is Join.ALL else str(step.join),
        **{"if": step.condition},
        final=step.final or None,
        allow_failure=step.allow_failure or None,
    )


def _need(edge: Edge, plain: Condition) -> str | dict[str, str]:
    return edge.parent if edge.condition is plain else {"step": edge.parent, "on": str(edge.condition)}


def _action(action: Action) -> dict[str, Any]:
    match action:
        case JobAction():
            placement = action.placement
            where = {"queue": action.queue} if placement.is_local else _placement_document(placement)
            document = {"job": action.type} | where | _input_document(action.input)
            return document if action.priority == DEFAULT_PRIORITY else document | {"priority": action.priority}
        case HttpAction():
            headers, query = dict(action.headers) or None, dict(action.query) or None
            return _present(url=action.url, method=action.method, headers=headers, query=query, body=action.body)
        case SleepAction(span):
            return {"sleep": duration.text(span)}
        case HookAction(timeout, secret):
            limit = None if timeout is None else duration.text(timeout)
            return {"wait_for_webhook": _present(timeout=limit, secret=secret) or True}
        case EventAction(name, key, timeout, count):
            limit = None if timeout is None else duration.text(timeout)
            number = None if count == 1 else count
            return {"wait_for_event": _present(name=name, key=key, timeout=limit, count=number)}
        case ApprovalAction():
            return {"approve": _approval_document(action)}
        case CommandAction():
            return {"run": action.run} | _placement_document(action.placement) | _input_document(action.input)
        case ChildAction():
            return {"workflow": action.workflow} | _input_document(action.input)
        case UndoAction():
            return {}
        case _:
            assert_never(action)


def _approval_document(action: ApprovalAction) -> dict[str, Any]:
    match action.on_timeout:
        case Escalation(roles, timeout):
            limit = None if timeout is None else duration.text(timeout)
            end: Any = {"escalate": _present(roles=list(map(str, roles)), timeout=limit)}
        case OnTimeout.FAIL:
            end = None
        case _:
            end = str(action.on_timeout)
    return _present(
        message=action.message,
        form=None if action.form is None else dict(action.form),
        roles=list(map(str, action.roles)),
        timeout=None if action.timeout is None else duration.text(action.timeout),
        on_timeout=end,
        remind=None if action.remind is None else duration.text(action.remind),
    )


def _placement_document(placement: Placement) -> dict[str, Any]:
    resources, env = dict(placement.resources) or None, dict(placement.env) or None
    return _present(runs_on=placement.runs_on, image=placement.image, resources=resources, env=env)


def _input_document(value: Any) -> dict[str, Any]:
    return {} if value == {} else {"input": value}


def _copies(step: Step) -> dict[str, Any]:
    match step.fan_out:
        case None:
            return _present(concurrency=step.concurrency)
        case Parallel(count):
            return _present(parallel=count, concurrency=step.concurrency)
        case Foreach(items):
            return _present(foreach=items, concurrency=step.concurrency)
        case _:
            assert_never(step.fan_out)


def _attempts(step: Step) -> dict[str, Any]:
    counted = step.max_attempts != 1 or isinstance(step.action, HttpAction | JobAction | CommandAction)
    return _present(
        max_attempts=step.max_attempts if counted else None,
        retry=None if step.retry is None else _present(**step.retry.to_json() | {"kind": str(step.retry.kind)}),
        timeout=None if step.timeout is None else duration.text(step.timeout),
    )

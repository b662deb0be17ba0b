"""A step of a definition: its action, one of a closed set, and the edges that determine when it runs."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from typing import Any

from windlass.core.jobs.retry import Retry
from windlass.core.launches import LOCAL
from windlass.core.orgs import Role


class Condition(StrEnum):
    """How the parent of an edge must end; `complete` is met by any end."""

    SUCCESS = "success"
    FAILURE = "failure"
    SKIPPED = "skipped"
    COMPLETE = "complete"


class Join(StrEnum):
    ALL = "all"
    ANY = "any"


@dataclass(frozen=True, slots=True)
class Edge:
    parent: str
    condition: Condition = Condition.SUCCESS


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """The placement of a step: in the worker (`local`), or on a pool with an image, resources and variables."""

    runs_on: str = LOCAL
    image: str | None = None
    resources: Mapping[str, str | int] = field(default_factory=dict)  # cpu, memory, gpu
    env: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_local(self) -> bool:
        return self.runs_on == LOCAL


HERE = Placement()


@dataclass(frozen=True, slots=True)
class JobAction:
    """A job that any worker in any language can claim, or that runs on a pool."""

    type: str
    input: Any = field(default_factory=dict)
    queue: str = "default"
    priority: int = 100
    placement: Placement = HERE


@dataclass(frozen=True, slots=True)
class HttpAction:
    url: str
    method: str = "POST"
    headers: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, Any] = field(default_factory=dict)
    body: Any = None


@dataclass(frozen=True, slots=True)
class SleepAction:
    duration: timedelta


@dataclass(frozen=True, slots=True)
class HookAction:
    """Wait for an HTTP callback."""

    timeout: timedelta | None = None
    secret: str | None = None


@dataclass(frozen=True, slots=True)
class EventAction:
    """Wait for messages: events with this name and key, or signals to the run if there is no key.

    Name and key may have templates.
    """

    name: str
    key: str | None = None
    timeout: timedelta | None = None
    count: int = 1


class OnTimeout(StrEnum):
    """The outcome of an approval that times out without a decision."""

    FAIL = "fail"  # the step times out
    APPROVE = "approve"
    REJECT = "reject"


@dataclass(frozen=True, slots=True)
class Escalation:
    """The roles that may decide once the timeout of an approval expires; after another `timeout` the step times out."""

    roles: tuple[Role, ...]
    timeout: timedelta | None = None


@dataclass(frozen=True, slots=True)
class ApprovalAction:
    """Wait until a person approves or rejects. The message may have templates; `form` is a JSON Schema."""

    message: str
    form: Mapping[str, Any] | None = None
    roles: tuple[Role, ...] = (Role.OPERATOR,)  # and higher roles
    timeout: timedelta | None = None
    on_timeout: OnTimeout | Escalation = OnTimeout.FAIL
    remind: timedelta | None = None  # the interval at which its event is published again


@dataclass(frozen=True, slots=True)
class CommandAction:
    run: str
    placement: Placement = HERE
    input: Any = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ChildAction:
    """A run of another workflow."""

    workflow: str
    input: Any = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class UndoAction:
    """Undo the completed runs that a step started: the compensation of a step that runs another workflow."""

    workflow: str


Action = (
    JobAction
    | HttpAction
    | SleepAction
    | HookAction
    | EventAction
    | ApprovalAction
    | CommandAction
    | ChildAction
    | UndoAction
)


def pool_of(action: Action) -> str | None:
    """Return the pool that a step runs on; None if it is not placed on one."""
    if not isinstance(action, CommandAction | JobAction) or action.placement.is_local:
        return None
    return action.placement.runs_on


@dataclass(frozen=True, slots=True)
class Parallel:
    """`count` instances; `count` is a number or the path of one."""

    count: int | str


@dataclass(frozen=True, slots=True)
class Foreach:
    """One instance for each item of the list at this path."""

    items: str


FanOut = Parallel | Foreach


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    name: str
    action: Action
    edges: tuple[Edge, ...] = ()
    join: Join = Join.ALL
    condition: str | None = None  # the `if`
    final: bool = False
    allow_failure: bool = False  # its failure does not fail the run
    fan_out: FanOut | None = None
    concurrency: int | None = None
    max_attempts: int = 1
    retry: Retry | None = None
    timeout: timedelta | None = None
    compensates: str | None = None  # the step that this one undoes: it has no edges, and runs only if the run is undone


def compensation_name(step: str) -> str:
    """Return the name of a step's compensation, which is also its path in the document. No other step can have it."""
    return f"{step}.compensate"

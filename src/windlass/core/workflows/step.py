"""A step: a node of a definition. What it does is one of a closed set of actions; when it runs is told by its edges."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from typing import Any

from windlass.core.jobs.retry import Retry


class Condition(StrEnum):
    """What an edge asks of its parent."""

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


@dataclass(frozen=True, slots=True)
class JobAction:
    """A job in the inbox: any worker, any language."""

    type: str
    input: Any = field(default_factory=dict)
    queue: str = "default"
    priority: int = 100


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
    """Wait for a callback from outside."""

    timeout: timedelta | None = None
    secret: str | None = None


@dataclass(frozen=True, slots=True)
class CommandAction:
    run: str
    runs_on: str = "local"
    input: Any = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ChildAction:
    """A run of another workflow."""

    workflow: str
    input: Any = field(default_factory=dict)


Action = JobAction | HttpAction | SleepAction | HookAction | CommandAction | ChildAction


@dataclass(frozen=True, slots=True)
class Parallel:
    """So many copies: a number, or a path to one."""

    count: int | str


@dataclass(frozen=True, slots=True)
class Foreach:
    """One copy for each item of the list at this path."""

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

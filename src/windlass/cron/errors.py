"""Errors of the in-process scheduler. Each is a `CronError` and one of the base kinds of `windlass.errors`.

    CronError
      InvalidCondition     Invalid    .condition
      InvalidJob           Invalid    .job
      InvalidName          Invalid    .name
      EmptyWorkflow        Invalid    .workflow
      MultipleFinalSteps   Invalid    .workflow .steps
      UnknownStep          Invalid    .workflow .step .parent
      ScheduledStep        Invalid    .workflow .step .spec
      CycleDetected        Invalid    .cycle
      EntryNotFound        NotFound   .key
      DuplicateName        Conflict   .name
      EntryPaused          Conflict   .key
      NotRunning           Conflict
      StillStopping        Conflict
      AlreadyRunning       Conflict
      MaxEntriesReached    Conflict   .limit
      DependencyInUse      Conflict   .child .parent .execution_id

An unreadable spec raises `InvalidCron`, as everywhere. A failed job is a result, not an error.
"""

from collections.abc import Sequence

from windlass.core.workflows.step import Condition
from windlass.errors import Conflict, Invalid, NotFound, WindlassError

Key = int | str


class CronError(WindlassError):
    """The base class of all errors of the in-process scheduler."""


class InvalidCondition(CronError, Invalid):
    def __init__(self, condition: object) -> None:
        allowed = ", ".join(Condition)
        super().__init__(
            f"Condition({condition!r}) does not exist; it must be one of {allowed}; give several parents as a list",
            field="condition",
        )
        self.condition = condition


class InvalidJob(CronError, Invalid):
    def __init__(self, job: object, reason: str) -> None:
        super().__init__(f"job {getattr(job, '__name__', repr(job))} {reason}", field="job")
        self.job = job


class InvalidName(CronError, Invalid):
    def __init__(self, name: object, reason: str) -> None:
        super().__init__(f"the name {name!r} {reason}", field="name")
        self.name = name


class EmptyWorkflow(CronError, Invalid):
    def __init__(self, workflow: str) -> None:
        super().__init__(f"workflow {workflow} has no steps")
        self.workflow = workflow


class MultipleFinalSteps(CronError, Invalid):
    def __init__(self, workflow: str, steps: Sequence[str]) -> None:
        super().__init__(
            f"workflow {workflow} has {len(steps)} final steps, at most one is allowed: {', '.join(steps)}"
        )
        self.workflow, self.steps = workflow, tuple(steps)


class UnknownStep(CronError, Invalid):
    def __init__(self, workflow: str, step: str, parent: str) -> None:
        super().__init__(f"workflow {workflow}: step {step} comes after {parent}, which is not a step of it")
        self.workflow, self.step, self.parent = workflow, step, parent


class ScheduledStep(CronError, Invalid):
    def __init__(self, workflow: str, step: str, spec: str) -> None:
        super().__init__(
            f"workflow {workflow}: step {step} comes after others and has the schedule {spec!r}; only steps without "
            "parents have one: leave it out (@triggered), or connect entries with add_dependency",
            field="spec",
        )
        self.workflow, self.step, self.spec = workflow, step, spec


class CycleDetected(CronError, Invalid):
    def __init__(self, cycle: Sequence[str]) -> None:
        super().__init__(f"the dependency would close a cycle: {' -> '.join((*cycle, cycle[0]))}")
        self.cycle = tuple(cycle)


class EntryNotFound(CronError, NotFound):
    def __init__(self, key: Key) -> None:
        super().__init__("cron entry", key)


class DuplicateName(CronError, Conflict):
    def __init__(self, name: str) -> None:
        super().__init__(
            f"an entry named {name} already exists; give this one another name, or replace that one with upsert"
        )
        self.name = name


class EntryPaused(CronError, Conflict):
    def __init__(self, key: Key) -> None:
        super().__init__(f"cron entry {key} is paused; resume it first")
        self.key = key


class NotRunning(CronError, Conflict):
    def __init__(self) -> None:
        super().__init__("the scheduler is not running; start it before triggering an entry")


class StillStopping(CronError, Conflict):
    def __init__(self) -> None:
        super().__init__("the scheduler is still waiting for jobs to end; start it again when they have ended")


class AlreadyRunning(CronError, Conflict):
    def __init__(self, reason: str = "the scheduler is already running; stop it first") -> None:
        super().__init__(reason)


class MaxEntriesReached(CronError, Conflict):
    def __init__(self, limit: int) -> None:
        super().__init__(f"the scheduler has {limit} entries, the limit (max_entries)")
        self.limit = limit


class DependencyInUse(CronError, Conflict):
    def __init__(self, child: Key, parent: Key, execution_id: str) -> None:
        super().__init__(f"the dependency of {child} on {parent} is part of execution {execution_id}, which is active")
        self.child, self.parent, self.execution_id = child, parent, execution_id

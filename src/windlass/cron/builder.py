"""The workflow builder: steps refer to their parents by name and are checked and registered together."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import EllipsisType
from typing import TypeVar, Unpack, cast, overload

from windlass.core.cron.expression import Cron as Spec
from windlass.core.cron.expression import parse
from windlass.core.cron.syntax import FULL
from windlass.core.workflows import graph
from windlass.core.workflows import workflow as definition
from windlass.core.workflows.step import Condition, Edge, JobAction, Step, compensation_name
from windlass.core.workflows.workflow import ApiTrigger, CronTrigger
from windlass.cron.dependencies import read_condition
from windlass.cron.entry import StepOptions, When
from windlass.cron.errors import (
    CycleDetected,
    DuplicateName,
    EmptyWorkflow,
    InvalidJob,
    MultipleFinalSteps,
    ScheduledStep,
    UnknownStep,
)
from windlass.cron.job import Job
from windlass.errors import Invalid

F = TypeVar("F", bound=Job)
TRIGGERED = "@triggered"


@dataclass(slots=True, eq=False)
class WorkflowStep:
    name: str
    spec: When
    job: Job
    options: StepOptions = field(default_factory=StepOptions)
    parents: list[tuple[str, Condition]] = field(default_factory=list)
    is_final: bool = False
    compensation: Job | None = None

    def after(
        self, parent: "Parent | Iterable[Parent]", condition: Condition | str = Condition.SUCCESS
    ) -> "WorkflowStep":
        """Run after one or several steps of the same workflow. Calls accumulate: all conditions must be met."""
        edge_condition = read_condition(condition)
        several = isinstance(parent, Iterable) and not isinstance(parent, str)
        parents = list(cast(Iterable[Parent], parent)) if several else [cast(Parent, parent)]
        self.parents.extend((_name(one), edge_condition) for one in parents)
        return self

    def final(self) -> "WorkflowStep":
        """Run when every other step has ended, whatever its result. At most one step of a workflow may be final."""
        self.is_final = True
        return self

    def compensate(self, job: Job) -> "WorkflowStep":
        """Set the job that undoes the step: it runs if the execution fails, the step that succeeded last first.

        Its context has the return value of the step as `upstream`.
        """
        if not callable(job):
            raise InvalidJob(job, "is not callable")
        self.compensation = job
        return self


Parent = str | WorkflowStep
StepAfter = Parent | Iterable[Parent] | Mapping[Parent, Condition | str]  # success unless a mapping gives another


class Workflow:
    """A workflow builder. `Cron.add_workflow` checks the graph, so a step may name parents that are added later."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.steps: list[WorkflowStep] = []
        self._without_job: list[str] = []  # steps whose decorator has not been applied to a function

    @overload
    def step(
        self,
        name: str,
        spec: When,
        job: Job,
        *,
        after: StepAfter = (),
        final: bool = False,
        compensate: Job | None = None,
        **options: Unpack[StepOptions],
    ) -> WorkflowStep: ...

    @overload
    def step(
        self,
        name: str,
        spec: When = ...,
        *,
        after: StepAfter = (),
        final: bool = False,
        compensate: Job | None = None,
        **options: Unpack[StepOptions],
    ) -> Callable[[F], F]: ...

    def step(
        self,
        name: str,
        spec: When = TRIGGERED,
        job: Job | EllipsisType = ...,
        *,
        after: StepAfter = (),
        final: bool = False,
        compensate: Job | None = None,
        **options: Unpack[StepOptions],
    ) -> WorkflowStep | Callable[[F], F]:
        """Add a step; without a job, return a decorator that does. Only steps without parents may have a schedule."""
        if callable(spec):
            raise Invalid(f"step {name}: the spec comes before the job: step(name, spec, job)", field="spec")
        if not isinstance(job, EllipsisType):
            return self._add(name, spec, job, after, final, options, compensate)
        self._without_job.append(name)

        def decorate(function: F) -> F:
            self._without_job.remove(name)
            self._add(name, spec, function, after, final, options, compensate)
            return function

        return decorate

    def _add(
        self,
        name: str,
        spec: When,
        job: Job,
        after: StepAfter,
        final: bool,
        options: StepOptions,
        compensate: Job | None,
    ) -> WorkflowStep:
        if not callable(job):
            raise InvalidJob(job, "is not callable")
        step = WorkflowStep(name, spec, job, options, is_final=final)
        if isinstance(after, Mapping):
            for parent, condition in after.items():
                step.after(parent, condition)
        else:
            step.after(after)
        self.steps.append(step)
        return step if compensate is None else step.compensate(compensate)

    def check(self) -> None:
        """Raise an exception for the first error in the graph. Does not depend on a scheduler."""
        for name in self._without_job:
            raise Invalid(f"step {name} has no job: without one, step() is a decorator", field="job")
        if not self.steps:
            raise EmptyWorkflow(self.name)
        finals = [step.name for step in self.steps if step.is_final]
        if len(finals) > 1:
            raise MultipleFinalSteps(self.name, finals)
        names = self._names()
        for step in self.steps:
            for parent, _ in step.parents:
                if parent not in names:
                    raise UnknownStep(self.name, step.name, parent)
        for cycle in graph.cycles({step.name: [parent for parent, _ in self.edges(step)] for step in self.steps}):
            raise CycleDetected(cycle)

    def check_schedule(self, step: WorkflowStep, schedule: Spec) -> None:
        """Raise `ScheduledStep` if a step with parents has a schedule, which would start it without its parents."""
        if not schedule.triggered and self.edges(step):
            raise ScheduledStep(self.name, step.name, schedule.text)

    def edges(self, step: WorkflowStep) -> list[tuple[str, Condition]]:
        """Return the parents of a step with their conditions; a final step also runs after all others have ended."""
        others = [(other.name, Condition.COMPLETE) for other in self.steps if step.is_final and other is not step]
        return [*step.parents, *others]

    def to_definition(self, *, timezone: str = "UTC") -> definition.Workflow:
        """Return the same graph for the durable engine: one job per step, the scheduled root's spec as the trigger.

        Stored crons support `L`, `#` and so on as here, but match when either day field matches; here both must.
        """
        self.check()
        schedules = {step.name: parse(_text(step.spec), dialect=FULL, key=step.name) for step in self.steps}
        for step in self.steps:
            self.check_schedule(step, schedules[step.name])
        scheduled = [step for step in self.steps if not schedules[step.name].triggered]
        if len(scheduled) > 1:
            raise Invalid(
                f"workflow {self.name}: only one root may have a schedule, because a definition has one trigger"
            )
        trigger = CronTrigger(_text(scheduled[0].spec), timezone) if scheduled else ApiTrigger()
        undo = (_compensation(step.name) for step in self.steps if step.compensation is not None)
        return definition.Workflow(self.name, (*map(self._exported, self.steps), *undo), trigger)

    def _exported(self, step: WorkflowStep) -> Step:
        """Return the engine's step. A final step with its own parents has more conditions, so its edges are listed."""
        final = step.is_final and not step.parents
        edges = () if final else tuple(Edge(*edge) for edge in self.edges(step))
        return Step(name=step.name, action=JobAction(step.name), edges=edges, final=final)

    def __iter__(self) -> Iterator[WorkflowStep]:
        return iter(self.steps)

    def _names(self) -> set[str]:
        names: set[str] = set()
        for step in self.steps:
            if step.name in names:
                raise DuplicateName(step.name)
            names.add(step.name)
        return names


def _compensation(step: str) -> Step:
    name = compensation_name(step)
    return Step(name=name, action=JobAction(name), compensates=step)


def _name(parent: Parent) -> str:
    if not isinstance(parent, str | WorkflowStep):
        raise Invalid(f"after names {parent!r}; a parent is a step or its name", field="after")
    return parent if isinstance(parent, str) else parent.name


def _text(spec: When) -> str:
    if isinstance(spec, Spec):
        return spec.text
    if not isinstance(spec, str):
        raise Invalid(f"spec is {spec!r}; the trigger of a definition is a cron expression", field="spec")
    return spec

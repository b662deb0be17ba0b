"""Workflows in one piece: steps that know their parents by name, checked and registered together."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Unpack

from windlass.core import graph
from windlass.core import workflow as definition
from windlass.core.cron import FULL, parse
from windlass.core.cron import Cron as Spec
from windlass.core.step import Condition, Edge, JobAction, Step
from windlass.core.workflow import ApiTrigger, CronTrigger
from windlass.cron.entry import StepOptions
from windlass.cron.errors import (
    CycleDetected,
    DuplicateName,
    EmptyWorkflow,
    InvalidJob,
    MultipleFinalSteps,
    UnknownStep,
)
from windlass.cron.job import Job
from windlass.cron.result import read_condition
from windlass.errors import Invalid


@dataclass(slots=True)
class WorkflowStep:
    name: str
    spec: str | Spec
    job: Job
    options: StepOptions = field(default_factory=StepOptions)
    parents: list[tuple[str, Condition | str]] = field(default_factory=list)
    is_final: bool = False

    def after(self, parent: str, condition: Condition | str = Condition.SUCCESS) -> "WorkflowStep":
        """Wait for a step of the same workflow; may be said more than once, then all must be met."""
        self.parents.append((parent, condition))
        return self

    def final(self) -> "WorkflowStep":
        """Run when every other step has ended, however it did. One step of a workflow may be final."""
        self.is_final = True
        return self


class Workflow:
    """A builder. Nothing is checked before `Cron.add_workflow`, so steps may be named before they are made."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.steps: list[WorkflowStep] = []

    def step(self, name: str, spec: str | Spec, job: Job, **options: Unpack[StepOptions]) -> WorkflowStep:
        """Add a step. Its spec is taken as it is: give steps that come after others `@triggered`."""
        if not callable(job):
            raise InvalidJob(job)
        made = WorkflowStep(name, spec, job, options)
        self.steps.append(made)
        return made

    def check(self) -> None:
        """The shape, whatever the scheduler it will be added to: one exception for the first mistake."""
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

    def edges(self, step: WorkflowStep) -> list[tuple[str, Condition | str]]:
        """What it was told to wait for and, if it is final, the end of everybody else."""
        everybody = [(other.name, Condition.COMPLETE) for other in self.steps if step.is_final and other is not step]
        return [*step.parents, *everybody]

    def to_definition(self, *, timezone: str = "UTC") -> definition.Workflow:
        """The same graph for the durable engine: each step a job of its name, the scheduled root's spec the trigger.

        Stored crons read `L`, `#` and so on as here, but let either day field match where here both must.
        """
        self.check()
        scheduled = [step for step in self.steps if not parse(_text(step.spec), dialect=FULL, key=step.name).triggered]
        if len(scheduled) > 1 or any(self.edges(step) for step in scheduled):
            raise Invalid(
                f"workflow {self.name}: only a single root may have a schedule, for a definition has one trigger"
            )
        trigger = CronTrigger(_text(scheduled[0].spec), timezone) if scheduled else ApiTrigger()
        return definition.Workflow(self.name, tuple(map(self._exported, self.steps)), trigger)

    def _exported(self, step: WorkflowStep) -> Step:
        """A final step with parents of its own waits for more than the end of all, so its edges are written out."""
        final = step.is_final and not step.parents
        edges = () if final else tuple(Edge(parent, read_condition(asked)) for parent, asked in self.edges(step))
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


def _text(spec: str | Spec) -> str:
    return spec if isinstance(spec, str) else spec.text

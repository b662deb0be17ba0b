"""What starting a step needs, computed once per version: the common columns of its jobs, its `if`, templates and items.

A turn that creates hundreds of jobs of one step writes their common columns once.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from windlass.core.expressions import expression
from windlass.core.expressions.expression import Expression
from windlass.core.expressions.scope import Facts, Path, source_path
from windlass.core.jobs.spec import OWN_QUEUE
from windlass.core.json_value import encode
from windlass.core.workflows.graph import Plan
from windlass.core.workflows.step import CommandAction, Foreach, HttpAction, JobAction, Parallel, Step
from windlass.core.workflows.step_payload import COMMAND_TYPE, HTTP_TYPE, Payload, compile_payload
from windlass.store.steps import Shape

PRIORITY = 100
ROOM = 10_000
NO_FACTS = Facts()
LEFT_OUT = "null"  # placeholder payload of a shape whose jobs each have their own


@dataclass(frozen=True, eq=False)
class StepTemplate:
    version_id: int
    number: int
    plan: Plan

    @property
    def step(self) -> Step:
        return self.plan.steps[self.number]

    @cached_property
    def payload(self) -> Payload:
        return compile_payload(self.step.action)

    @cached_property
    def condition(self) -> Expression | None:
        return None if self.step.condition is None else expression.parse(self.step.condition)

    @cached_property
    def per_item(self) -> bool:
        """Return whether each instance has a payload of its own that SQL cannot build."""
        foreach = isinstance(self.step.fan_out, Foreach)
        return self.payload.uses_item or (foreach and isinstance(self.step.action, CommandAction))

    @cached_property
    def is_plain(self) -> bool:
        """Return whether there is nothing to fill in."""
        return self.payload.is_constant and not self.per_item

    @cached_property
    def source(self) -> Path | None:
        """Return the path that a fan-out takes its items or its count from."""
        match self.step.fan_out:
            case Foreach(path) | Parallel(str(path)):
                return source_path(path)
            case _:
                return None

    @cached_property
    def shape(self) -> Shape:
        step = self.step
        type_, queue, priority = _work(step)
        return Shape(
            version_id=self.version_id,
            step=self.number,
            type=type_,
            payload=self.constant if self.is_plain else LEFT_OUT,
            queue=queue,
            priority=priority,
            max_attempts=step.max_attempts,
            timeout=step.timeout,
            retry=encode(step.retry.to_json(), field="retry") if step.retry else None,
            foreach=isinstance(step.fan_out, Foreach) and isinstance(step.action, JobAction),
        )

    @cached_property
    def constant(self) -> str:
        """Return the payload of a step without templates."""
        return encode(self.payload.fill(NO_FACTS), field=f"the input of {self.step.name}")

    def steps(self, references: Iterable[Path]) -> set[int]:
        """Return the numbers of the steps that these paths refer to."""
        return {self.plan.number[path.name] for path in references if path.root == "tasks"}


class StepTemplates:
    """A cache of step templates, by version and step; cleared when full."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, int], StepTemplate] = {}

    def of(self, version_id: int, number: int, plan: Plan) -> StepTemplate:
        known = self._known.get((version_id, number))
        if known is None:
            if len(self._known) >= ROOM:
                self._known.clear()
            known = self._known[version_id, number] = StepTemplate(version_id, number, plan)
        return known


def _work(step: Step) -> tuple[str, str, int]:
    """Return the type, queue and priority of the step's jobs."""
    match step.action:
        case JobAction(type_, _, queue, priority):
            return type_, queue, priority
        case HttpAction():
            return HTTP_TYPE, OWN_QUEUE, PRIORITY
        case CommandAction():
            return COMMAND_TYPE, OWN_QUEUE, PRIORITY
        case _:
            raise TypeError(f"step {step.name} needs no job")

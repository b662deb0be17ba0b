"""Chains, groups, batches and graphs: compositions of jobs, made into workflows that the one engine executes.

The *shape* of a composition (what hangs on what, types, queues) is its workflow: a hundred thousand batches of one
shape share one version. Everything else about its jobs travels in the input of the run, at `parts`, by number of step.
"""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import cached_property
from typing import Any

from windlass.core.definition.parser import parse_stored
from windlass.core.definition.serialize import step_document
from windlass.core.jobs.rate_limit import Limit
from windlass.core.jobs.unique import Unique
from windlass.core.runs.run import BAD, OPEN, Letter
from windlass.core.workflows.step import ChildAction, Condition, Edge, Foreach, JobAction, Step
from windlass.core.workflows.workflow import NO_TIME_LIMIT, Primitive, Workflow

CALLBACKS = ("on_complete", "on_success", "on_failure")
MAX_LEVELS = 10  # a composition that contains no other has one
MAX_PARTS = 4_900  # of one composition: a workflow has 5,000 steps at most
NO_FAILURE = "!failure()"
_SHAPE = re.compile(r"(?:chain|group|batch|dag)-[0-9a-f]{32}").fullmatch


@dataclass(frozen=True, kw_only=True)
class Part:
    """A job of a composition. `given` is what its row will have: arguments, options, whatever its producer said."""

    type: str
    queue: str = "default"
    given: Mapping[str, Any] = field(default_factory=dict)
    label: str | None = None  # what its client calls it
    needs: tuple[str, ...] = ()  # labels, in a graph
    condition: str | None = None
    items: str | None = None  # one job for each item of the list at this path of what the step before gave
    limit: Limit | None = None  # how fast it is handed out
    unique: Unique | None = None


@dataclass(frozen=True, kw_only=True)
class Composition:
    kind: Primitive
    parts: tuple["Part | Composition", ...]
    callbacks: Mapping[str, Part] = field(default_factory=dict)
    name: str = ""
    id: str | None = None  # its client's
    timeout: timedelta | None = None
    label: str | None = None
    needs: tuple[str, ...] = ()
    condition: str | None = None

    @cached_property
    def workflow(self) -> Workflow:
        """Its shape. The name is the same for equal shapes and for no others."""
        steps = tuple(_steps(self))
        text = json.dumps([step_document(step) for step in steps], sort_keys=True, separators=(",", ":"))
        name = f"{self.kind}-{hashlib.sha256(text.encode()).hexdigest()[:32]}"
        return Workflow(name=name, steps=steps, primitive=self.kind, max_duration=NO_TIME_LIMIT)

    @cached_property
    def input(self) -> dict[str, Any]:
        """What its run is started with: the parts by the numbers of their steps."""
        found = [dict(part.given) if isinstance(part, Part) else part.input for part in self.numbered]
        return {"name": self.name, "parts": found} if self.name else {"parts": found}

    @cached_property
    def numbered(self) -> tuple["Part | Composition", ...]:
        """As the steps are numbered: callbacks come last."""
        return (*self.parts, *(self.callbacks[word] for word in CALLBACKS if word in self.callbacks))

    @cached_property
    def jobs(self) -> int:
        """Its jobs and those of the compositions in it; callbacks are not counted."""
        return sum(1 if isinstance(part, Part) else part.jobs for part in self.parts)

    @cached_property
    def levels(self) -> int:
        return 1 + max((part.levels for part in self.parts if isinstance(part, Composition)), default=0)

    def opening(self) -> Iterator[Part]:
        """The jobs that begin at once; the others wait for their turn."""
        parts = self.parts[:1] if self.kind is Primitive.CHAIN else [part for part in self.parts if not part.needs]
        for part in parts:
            if isinstance(part, Part):
                yield part
            else:
                yield from part.opening()

    def below(self) -> Iterator[tuple[int, "Composition"]]:
        """The compositions in it, each with the number of its step."""
        return ((n, part) for n, part in enumerate(self.parts) if isinstance(part, Composition))


def read(document: Mapping[str, Any]) -> Workflow:
    """Read a stored version; that of a composition also says which kind of composition it is."""
    workflow = parse_stored(document)
    if "primitive" not in document:
        return workflow
    # Versions that older releases stored say 30 days; a composition has no time limit but the one its client gave.
    return replace(workflow, primitive=Primitive(document["primitive"]), max_duration=NO_TIME_LIMIT)


def title(workflow: str, labels: Mapping[str, str]) -> str:
    """Return what to call a run's workflow: of a composition what its client calls it, its shape's name is a hash."""
    if _SHAPE(workflow) is None:
        return workflow
    kind, _, _ = workflow.partition("-")
    return " ".join([kind, *(labels[key] for key in ("name", "workflow_id") if labels.get(key))])


def callbacks_of(workflow: Workflow) -> dict[str, int]:
    """The numbers of the steps that are callbacks."""
    if workflow.primitive is not Primitive.BATCH:
        return {}
    return {step.name: n for n, step in enumerate(workflow.steps) if step.name in CALLBACKS}


def sources(workflow: Workflow, step: int) -> list[int]:
    """The steps whose results a job is given: all before it, of a callback all jobs of its batch."""
    match workflow.primitive:
        case Primitive.CHAIN:
            return list(range(step))
        case Primitive.BATCH if workflow.steps[step].name in CALLBACKS:
            return list(range(len(workflow.steps) - len(callbacks_of(workflow))))
        case Primitive.DAG:
            return sorted(workflow.plan.ancestors(step))
        case _:
            return []


def kept(workflow: Workflow, letters: str) -> str:
    """The letters to begin another try with: what did not go well, and all that hangs on it, is done again."""
    again = {n for n, letter in enumerate(letters) if letter in BAD or letter in OPEN}
    again |= workflow.plan.descendants(again)
    return "".join(Letter.WAITING if n in again else letter for n, letter in enumerate(letters))


def _steps(composition: Composition) -> Iterator[Step]:
    match composition.kind:
        case Primitive.CHAIN:
            yield from _chain(composition)
        case Primitive.GROUP:
            yield from (_step(composition, n) for n in range(len(composition.parts)))
        case Primitive.BATCH:
            yield from (_step(composition, n, allow_failure=True) for n in range(len(composition.parts)))
            yield from _callbacks(composition)
        case Primitive.DAG:
            yield from _graph(composition)


def _chain(composition: Composition) -> Iterator[Step]:
    """After a step that may be skipped the next one asks whether anything failed, not whether that one succeeded."""
    loose = False
    for n, part in enumerate(composition.parts):
        condition = part.condition
        if loose:
            condition = NO_FAILURE if condition is None else f"{NO_FAILURE} && ({condition})"
        asked = Condition.SUCCESS if condition is None else Condition.COMPLETE
        edges = (Edge(_name(composition, n - 1), asked),) if n else ()
        yield _step(composition, n, edges=edges, condition=condition)
        loose = loose or part.condition is not None


def _callbacks(composition: Composition) -> Iterator[Step]:
    names = [_name(composition, n) for n in range(len(composition.parts))]
    for word in CALLBACKS:
        if (part := composition.callbacks.get(word)) is not None:
            asked = Condition.SUCCESS if word == "on_success" else Condition.COMPLETE
            edges = tuple(Edge(name, asked) for name in names)
            action = JobAction(part.type, queue=part.queue)
            yield Step(
                name=word,
                action=action,
                edges=edges,
                condition="failure()" if word == "on_failure" else None,
                max_attempts=3,
            )


def _graph(composition: Composition) -> Iterator[Step]:
    for n, part in enumerate(composition.parts):
        asked = Condition.SUCCESS if part.condition is None else Condition.COMPLETE
        edges = tuple(Edge(name, asked) for name in part.needs)
        yield _step(composition, n, edges=edges, condition=part.condition)


def _step(composition: Composition, n: int, **more: Any) -> Step:
    part, name = composition.parts[n], _name(composition, n)
    if isinstance(part, Composition):
        inside = ChildAction(part.workflow.name, f"{{{{input.parts[{n}]}}}}")
        return Step(name=name, action=inside, **more)
    action = JobAction(part.type, queue=part.queue)
    return Step(name=name, action=action, fan_out=_fan_out(part, more.get("edges", ())), max_attempts=3, **more)


def _fan_out(part: Part, edges: Sequence[Edge]) -> Foreach | None:
    if part.items is None:
        return None
    source = edges[0].parent if edges else "input"
    return Foreach(f"{source}.{part.items}" if part.items else source)


def _name(composition: Composition, n: int) -> str:
    """What a step is called. Labels may be different each time: they are names only where something refers to them."""
    label = composition.parts[n].label
    if label is not None and _refers(composition):
        return label
    return f"{'step' if composition.kind is Primitive.CHAIN else 'job'}-{n}"


def _refers(composition: Composition) -> bool:
    if composition.kind is Primitive.DAG:
        return True
    return any(part.condition for part in composition.parts)

"""Compositions of jobs (chain, group, batch, graph), compiled to workflows that the engine executes like any other.

The *shape* of a composition (dependencies, types, queues) is its workflow: a hundred thousand batches of one shape
share one version. Everything else about its jobs is in the input of the run, under `parts`, by step number.
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
from windlass.core.jobs.spec import Limit, Unique
from windlass.core.runs.run import BAD, OPEN, Letter
from windlass.core.workflows.graph import CALLBACKS
from windlass.core.workflows.step import ChildAction, Condition, Edge, Foreach, JobAction, Step
from windlass.core.workflows.workflow import NO_TIME_LIMIT, CompositionKind, Workflow, step_document

MAX_LEVELS = 10  # nesting depth; a composition that contains no other has one level
MAX_PARTS = 4_900  # parts of one composition: a workflow has at most 5,000 steps
NO_FAILURE = "!failure()"
_SHAPE = re.compile(r"(?:chain|group|batch|dag)-[0-9a-f]{32}").fullmatch


@dataclass(frozen=True, kw_only=True)
class Part:
    """A job of a composition. `fields` are those of its row: arguments, options and other producer data."""

    type: str
    queue: str = "default"
    fields: Mapping[str, Any] = field(default_factory=dict)
    label: str | None = None  # the client's name for it
    needs: tuple[str, ...] = ()  # labels of its predecessors, in a graph
    condition: str | None = None
    items: str | None = None  # fan-out: the path of a list in the previous step's result
    limit: Limit | None = None  # rate limit
    unique: Unique | None = None


@dataclass(frozen=True, kw_only=True)
class Composition:
    kind: CompositionKind
    parts: tuple["Part | Composition", ...]
    callbacks: Mapping[str, Part] = field(default_factory=dict)
    name: str = ""
    id: str | None = None  # chosen by the client
    timeout: timedelta | None = None
    label: str | None = None
    needs: tuple[str, ...] = ()
    condition: str | None = None

    @cached_property
    def workflow(self) -> Workflow:
        """Return the workflow of this shape. Its name is a hash of the shape, so that equal shapes share it."""
        steps = tuple(_steps(self))
        text = json.dumps([step_document(step) for step in steps], sort_keys=True, separators=(",", ":"))
        name = f"{self.kind}-{hashlib.sha256(text.encode()).hexdigest()[:32]}"
        return Workflow(name=name, steps=steps, primitive=self.kind, max_duration=NO_TIME_LIMIT)

    @cached_property
    def input(self) -> dict[str, Any]:
        """Return the input of the run: the parts by step number."""
        parts = [dict(part.fields) if isinstance(part, Part) else part.input for part in self.numbered]
        return {"name": self.name, "parts": parts} if self.name else {"parts": parts}

    @cached_property
    def numbered(self) -> tuple["Part | Composition", ...]:
        """Return the parts in step order: callbacks come last."""
        return (*self.parts, *(self.callbacks[word] for word in CALLBACKS if word in self.callbacks))

    @cached_property
    def jobs(self) -> int:
        """Return the number of jobs, including those of nested compositions but not callbacks."""
        return sum(1 if isinstance(part, Part) else part.jobs for part in self.parts)

    @cached_property
    def levels(self) -> int:
        return 1 + max((part.levels for part in self.parts if isinstance(part, Composition)), default=0)

    def initial_jobs(self) -> Iterator[Part]:
        """Yield the jobs that start immediately; the others have predecessors."""
        parts = (
            self.parts[:1] if self.kind is CompositionKind.CHAIN else [part for part in self.parts if not part.needs]
        )
        for part in parts:
            if isinstance(part, Part):
                yield part
            else:
                yield from part.initial_jobs()

    def nested(self) -> Iterator[tuple[int, "Composition"]]:
        """Return the nested compositions, each with its step number."""
        return ((n, part) for n, part in enumerate(self.parts) if isinstance(part, Composition))


def read(document: Mapping[str, Any]) -> Workflow:
    """Return the workflow of a stored version; for a composition, with its kind."""
    workflow = parse_stored(document)
    if "primitive" not in document:
        return workflow
    # Versions stored by older releases have 30 days; a composition has no time limit except the one its client set.
    return replace(workflow, primitive=CompositionKind(document["primitive"]), max_duration=NO_TIME_LIMIT)


def title(workflow: str, labels: Mapping[str, str]) -> str:
    """Return the display name of a run's workflow; for a composition, the client's name, as its own name is a hash."""
    if _SHAPE(workflow) is None:
        return workflow
    kind, _, _ = workflow.partition("-")
    return " ".join([kind, *(labels[key] for key in ("name", "workflow_id") if labels.get(key))])


def callbacks_of(workflow: Workflow) -> dict[str, int]:
    """Return the step numbers of the callbacks of a batch by callback name; empty for other workflows."""
    if workflow.primitive is not CompositionKind.BATCH:
        return {}
    return {step.name: n for n, step in enumerate(workflow.steps) if step.name in CALLBACKS}


def sources(workflow: Workflow, step: int) -> list[int]:
    """Return the steps whose results a job receives: all its predecessors; for a callback, all jobs of its batch."""
    match workflow.primitive:
        case CompositionKind.CHAIN:
            return list(range(step))
        case CompositionKind.BATCH if workflow.steps[step].name in CALLBACKS:
            return list(range(len(workflow.steps) - len(callbacks_of(workflow))))
        case CompositionKind.DAG:
            return sorted(workflow.plan.ancestors(step))
        case _:
            return []


def letters_to_retry(workflow: Workflow, letters: str) -> str:
    """Return the letters of a new round: unsuccessful and unfinished steps wait again, and so do their descendants."""
    again = {n for n, letter in enumerate(letters) if letter in BAD or letter in OPEN}
    again |= workflow.plan.descendants(again)
    return "".join(Letter.WAITING if n in again else letter for n, letter in enumerate(letters))


def _steps(composition: Composition) -> Iterator[Step]:
    match composition.kind:
        case CompositionKind.CHAIN:
            yield from _chain(composition)
        case CompositionKind.GROUP:
            yield from (_step(composition, n) for n in range(len(composition.parts)))
        case CompositionKind.BATCH:
            yield from (_step(composition, n, allow_failure=True) for n in range(len(composition.parts)))
            yield from _callbacks(composition)
        case CompositionKind.DAG:
            yield from _graph(composition)


def _chain(composition: Composition) -> Iterator[Step]:
    """Yield the steps of a chain.

    All steps after one that may be skipped require that nothing failed, instead of the success of their predecessor.
    """
    loose = False
    for n, part in enumerate(composition.parts):
        condition = part.condition
        if loose:
            condition = NO_FAILURE if condition is None else f"{NO_FAILURE} && ({condition})"
        on = Condition.SUCCESS if condition is None else Condition.COMPLETE
        edges = (Edge(_name(composition, n - 1), on),) if n else ()
        yield _step(composition, n, edges=edges, condition=condition)
        loose = loose or part.condition is not None


def _callbacks(composition: Composition) -> Iterator[Step]:
    names = [_name(composition, n) for n in range(len(composition.parts))]
    for word in CALLBACKS:
        if (part := composition.callbacks.get(word)) is not None:
            on = Condition.SUCCESS if word == "on_success" else Condition.COMPLETE
            edges = tuple(Edge(name, on) for name in names)
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
        on = Condition.SUCCESS if part.condition is None else Condition.COMPLETE
        edges = tuple(Edge(name, on) for name in part.needs)
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
    """Return the name of a step. Labels may differ for equal shapes, so they are used only if a part refers to one."""
    label = composition.parts[n].label
    if label is not None and _refers(composition):
        return label
    return f"{'step' if composition.kind is CompositionKind.CHAIN else 'job'}-{n}"


def _refers(composition: Composition) -> bool:
    if composition.kind is CompositionKind.DAG:
        return True
    return any(part.condition for part in composition.parts)

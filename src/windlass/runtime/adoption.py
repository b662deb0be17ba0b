"""Converts the entries of an in-process scheduler into workflows and handlers of an app, all or none."""

from collections.abc import Container, Iterator, Sequence
from typing import Any

from windlass.core.definition.builder import WorkflowBuilder
from windlass.cron.cron import Cron
from windlass.cron.job import wrapped
from windlass.cron.migration_check import Reason, reasons
from windlass.cron.subgraph import Subgraph, parts
from windlass.effects.handlers import Handler, Handlers
from windlass.errors import InvalidWorkflow
from windlass.runtime import adopted_job
from windlass.runtime.adopted_job import ATTEMPTS, WorkerHost


def adopt(cron: Cron, handlers: Handlers, taken: Container[str]) -> dict[str, WorkflowBuilder]:
    """Convert the scheduler's entries: return their workflows by name, add their jobs to `handlers` and remove the
    entries from the scheduler.

    `taken` contains workflow names already in use. If the scheduler cannot be adopted, raise `InvalidWorkflow` with
    all reasons and change nothing.
    """
    entries = cron.entries()
    found = parts(entries, {entry.id: cron.dependencies(entry.id) for entry in entries})
    against = [*_of_scheduler(cron), *reasons(found), *_clashes(found, handlers, taken)]
    builders = {} if against else {builder.name: builder for builder in map(_builder, found)}
    against += [reason for builder in builders.values() for reason in _mistakes(builder)]
    if against:
        raise InvalidWorkflow(against)
    for handler in _handlers(found, WorkerHost(cron.options.threads)):
        handlers.add(handler)
    for entry in entries:
        cron.remove(entry.id)
    return builders


def _of_scheduler(cron: Cron) -> Iterator[Reason]:
    if cron.running:
        yield "", "the scheduler runs, and everything would run twice: stop it first"
    elif active := cron.active_workflows():
        yield "", f"{len(active)} executions have not ended: start the scheduler again and let them"
    if cron.observers:
        yield "", "observers are not told about runs: make the Cron without them (metrics and `windlass runs` tell)"


def _clashes(found: Sequence[Subgraph], handlers: Handlers, taken: Container[str]) -> list[Reason]:
    known = set(handlers.types())
    types = [part.type(entry) for part in found for entry in part.entries]
    names = [part.name for part in found if part.name is not None and part.name in taken]
    return [
        *((name, "there is a workflow of this name in the app already: rename one") for name in names),
        *((type_, "there is a handler of this type already: rename the entry") for type_ in types if type_ in known),
    ]


def _builder(part: Subgraph) -> WorkflowBuilder:
    trigger, named = part.trigger, {entry.id: part.step(entry) for entry in part.entries}
    times: dict[str, Any] = {}
    if trigger is not None:
        times |= {"cron": trigger.cron, "timezone": trigger.timezone}
        times |= {"overlap": trigger.overlap, "catch_up": trigger.catch_up}
    builder = WorkflowBuilder(str(part.name), concurrency=part.concurrency, **times)
    for entry in part.entries:
        step = builder.step(part.step(entry), part.type(entry)).retry(max_attempts=ATTEMPTS)
        for edge in part.edges[entry.id]:
            step.after(named[edge.parent], on=edge.condition)
    return builder


def _mistakes(builder: WorkflowBuilder) -> list[Reason]:
    try:
        builder.build()
    except InvalidWorkflow as refusal:
        return [(f"{builder.name}: {path}" if path else builder.name, message) for path, message in refusal.errors]
    return []


def _handlers(found: Sequence[Subgraph], host: WorkerHost) -> Iterator[Handler]:
    for part in found:
        for entry in part.entries:
            call = wrapped(entry.job, part.wrappers(entry), entry.args, entry.kwargs)
            has_parents = bool(part.edges[entry.id])
            yield adopted_job.handler(part.type(entry), str(entry.name), call, host, has_parents=has_parents)

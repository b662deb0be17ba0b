"""Converts the entries of an in-process scheduler into workflows and handlers of an app, all or none.

Their jobs run on workers with the context and clock of the in-process scheduler, and by its rules about which outcomes
are failures. Failures are not retried: a job runs again only if its worker died before it could report the outcome.
"""

import asyncio
import logging
from collections.abc import Callable, Container, Iterator, Sequence
from typing import Any

from windlass.core.definition.builder import WorkflowBuilder
from windlass.core.jobs.job import Failed, Outcome, Succeeded
from windlass.core.json_value import RESULT_LIMIT, encode
from windlass.cron.clock import SystemClock
from windlass.cron.context import EntryId, JobContext, enter
from windlass.cron.cron import Cron
from windlass.cron.job import Call, Skip, wrapped
from windlass.cron.migration import Reason, Subgraph, reasons, subgraphs
from windlass.effects.context import Context
from windlass.effects.handlers import Handler, Handlers, Threads
from windlass.effects.outcomes import failed
from windlass.errors import Invalid, InvalidWorkflow

_log = logging.getLogger("windlass.cron")
ATTEMPTS = 3  # failures are final: further attempts happen only after a worker died


class WorkerHost:
    """Replaces the in-process scheduler for a job: provides the system clock, and threads for sync jobs."""

    def __init__(self, threads: int) -> None:
        self.clock = SystemClock()
        self._threads = Threads(threads)

    def park(self, jobs: int) -> None:
        """Do nothing: on a worker nothing waits for parked jobs."""

    async def in_thread(self, call: Callable[[], Any]) -> Any:
        return await self._threads.run(call)


def adopt(cron: Cron, handlers: Handlers, taken: Container[str]) -> dict[str, WorkflowBuilder]:
    """Convert the scheduler's entries: return their workflows by name, add their jobs to `handlers` and remove the
    entries from the scheduler.

    `taken` contains workflow names already in use. If the scheduler cannot be adopted, raise `InvalidWorkflow` with
    all reasons and change nothing.
    """
    entries = cron.entries()
    graphs = subgraphs(entries, {entry.id: cron.dependencies(entry.id) for entry in entries})
    problems = [*_scheduler_reasons(cron), *reasons(graphs), *_clashes(graphs, handlers, taken)]
    builders = {} if problems else {builder.name: builder for builder in map(_builder, graphs)}
    problems += [reason for builder in builders.values() for reason in _mistakes(builder)]
    if problems:
        raise InvalidWorkflow(problems)
    for handler in _handlers(graphs, WorkerHost(cron.options.threads)):
        handlers.add(handler)
    for entry in entries:
        cron.remove(entry.id)
    return builders


def _scheduler_reasons(cron: Cron) -> Iterator[Reason]:
    if cron.running:
        yield "", "the scheduler is running, so every entry would run twice: stop it first"
    elif active := cron.active_workflows():
        yield "", f"{len(active)} executions have not ended: start the scheduler again and let them finish"
    if cron.observers:
        yield "", "observers are not called for runs: create the Cron without them, and use metrics or `windlass runs`"


def _clashes(graphs: Sequence[Subgraph], handlers: Handlers, taken: Container[str]) -> list[Reason]:
    known = set(handlers.types())
    types = [part.type(entry) for part in graphs for entry in part.entries]
    names = [part.name for part in graphs if part.name is not None and part.name in taken]
    return [
        *((name, "the app already has a workflow of this name: rename one") for name in names),
        *((type_, "the app already has a handler of this type: rename the entry") for type_ in types if type_ in known),
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


def _handlers(graphs: Sequence[Subgraph], host: WorkerHost) -> Iterator[Handler]:
    for part in graphs:
        for entry in part.entries:
            call = wrapped(entry.job, part.wrappers(entry), entry.args, entry.kwargs)
            has_parents = bool(part.edges[entry.id])
            yield adopted_handler(part.type(entry), str(entry.name), call, host, has_parents=has_parents)


def adopted_handler(type_: str, name: str, call: Call, host: WorkerHost, *, has_parents: bool) -> Handler:
    """Return a handler that runs `call`, the job with its wrappers applied."""

    async def adopted(ctx: Context) -> Outcome:
        execution_id = "" if ctx.run_id is None else str(ctx.run_id)
        context = JobContext(EntryId(0), name, ctx.created_at, execution_id, host, ctx.upstream)
        enter(context)
        return await _job_outcome(call, context)

    return Handler.of(type_, adopted, max_attempts=ATTEMPTS, wants_upstream=has_parents)


async def _job_outcome(call: Call, context: JobContext) -> Outcome:
    try:
        output = await call()
    except Skip as skip:
        return Failed({"type": "Skipped", "message": str(skip) or "skipped by its job"}, retryable=False)
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is None or not task.cancelling():  # the job awaited something that was cancelled
            return failed(error, retryable=False)
        context.cancel()
        raise
    except Exception as error:
        return failed(error, retryable=False)
    if context.recovered is not None and not context.execution_id:
        return failed(context.recovered, retryable=False)
    return Succeeded(_job_result(context.name, output))


def _job_result(name: str, output: Any) -> str:
    """Return the job's result as JSON; null, with a warning, if it cannot be encoded.

    The in-process scheduler allows any return value, so this must not fail the job.
    """
    try:
        return encode(output, field="result", limit=RESULT_LIMIT, objects=True)
    except Invalid as error:
        _log.warning("the result of job %s is not stored: %s", name, error)
        return "null"

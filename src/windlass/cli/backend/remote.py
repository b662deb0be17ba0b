"""Commands through a server: the client's values, in the names and words of the command line."""

import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

from windlass.cli import arguments
from windlass.cli.backend.interface import Deployed, Deployment, Row, Rows, RunBackend, Seen, SeenStep
from windlass.cli.backend.remote_jobs import RemoteJobs
from windlass.client import AsyncClient, Run, RunDetail, Task, TaskLogLine
from windlass.client.decode import decode
from windlass.client.descriptors import AsyncListed
from windlass.core.runs.run import WORDS, Letter, RunResult, RunState
from windlass.errors import Conflict, Invalid, NotFound

if TYPE_CHECKING:
    from windlass.core.explain.explanation import Explanation
    from windlass.core.workflows.workflow import Workflow

RETRIES = 1  # a person waits
LETTERS: Mapping[str, Letter] = {
    "pending": Letter.WAITING,
    "running": Letter.ACTIVE,
    "sleeping": Letter.ACTIVE,
    "waiting": Letter.ACTIVE,
    "success": Letter.SUCCEEDED,
    "failed": Letter.FAILED,
    "template_error": Letter.FAILED,
    "timeout": Letter.TIMED_OUT,
    "skipped": Letter.SKIPPED,
    "cancelled": Letter.CANCELLED,
}


@contextlib.asynccontextmanager
async def remote(url: str, key: str | None) -> AsyncIterator["Remote"]:
    async with AsyncClient(url, key=key, retries=RETRIES) as client:
        yield Remote(client)


class RemoteRun:
    def __init__(self, client: AsyncClient, id_: UUID) -> None:
        self._client = client
        self._places: Sequence[tuple[str, int]] | None = None
        self.id = id_

    async def seen(self) -> Seen:
        run = await self._client.runs.get(str(self.id))
        if self._places is None:
            self._places = await self._tree(run)
        return _seen(run, self._places)

    async def ended(self) -> RunState:
        return RunState((await self._client.runs.wait(str(self.id))).status)

    async def result(self) -> RunResult:
        run = await self._client.runs.get(str(self.id))
        steps = {name: WORDS[LETTERS[task.status]] for name, task in run.tasks.items()}
        return RunResult(self.id, RunState(run.status), await self._output(), steps)

    async def explained(self) -> "tuple[Seen, Explanation]":
        from windlass.core.explain.explanation import Explanation, StepExplanation

        told = await self._client.runs.explain(str(self.id))
        steps = [StepExplanation(one.task, WORDS[LETTERS[one.status]], one.does, one.sentences) for one in told.tasks]
        return await self.seen(), Explanation(told.run, told.now, steps)

    async def shown(self) -> tuple[Row, list[Row]]:
        run = await self._client.runs.get(str(self.id))
        events = [
            {
                "id": int(one.id.removeprefix("job-")),
                "step": one.task,
                "word": one.event if one.task is None or one.event not in LETTERS else WORDS[LETTERS[one.event]],
                "code": one.code,
                "reason": one.reason,
                "actor": one.actor,
                "created_at": one.at,
                "attempt": one.attempt,
                "of_job": one.id.startswith("job-"),
            }
            async for one in self._client.runs.events(str(self.id), limit=1000)
        ]
        fields = _fields(run)
        head = {name: fields.pop(name) for name in ("id", "workflow", "version", "state", "letters")}
        came = {"trigger": asdict(run.trigger)} if run.trigger else {}
        return {**head, "input": run.input, **fields, **came, "output": await self._output()}, events

    async def lines(
        self, *, step: str | None, index: int | None, attempt: int | None, follow: bool
    ) -> AsyncIterator[Row]:
        run = await self._client.runs.get(str(self.id))
        fanned = {name for name, task in run.tasks.items() if task.instances is not None}
        if index is not None and step is None:
            raise Invalid("--index goes with --step", field="index")
        found = self._following(step, index, attempt) if follow else self._logged(step, index, attempt)
        with _steps():
            async for line in found:
                yield {
                    "step": line.task,
                    "item": line.index,
                    "fanned_out": line.task in fanned,
                    "attempt": line.attempt,
                    "at": line.at,
                    "level": line.level,
                    "message": line.message,
                }

    def _logged(self, step: str | None, index: int | None, attempt: int | None) -> AsyncListed[TaskLogLine]:
        if step is None:
            return self._client.runs.logs(str(self.id), attempt=attempt, limit=1000)
        return self._client.tasks.logs(str(self.id), step, index=index, attempt=attempt, limit=1000)

    async def _following(self, step: str | None, index: int | None, attempt: int | None) -> AsyncIterator[TaskLogLine]:
        if step is None:
            stream = self._client.runs.follow_logs(str(self.id), attempt=attempt)
        else:
            stream = self._client.tasks.follow_logs(str(self.id), step, index=index, attempt=attempt)
        async for event in stream:
            if event.event == "line":
                yield decode(TaskLogLine, event.data)

    async def drawn(self) -> "tuple[Workflow, str]":
        run = await self._client.runs.get(str(self.id))
        return await self._definition(run), "".join(LETTERS[task.status] for task in run.tasks.values())

    async def cancel(self, *, reason: str | None = None) -> None:
        await self._client.runs.cancel(str(self.id), reason=reason)

    async def retry(self) -> None:
        await self._client.runs.retry(str(self.id))

    async def rerun(self, step: str, **changed: Any) -> None:
        await self._client.runs.rerun(str(self.id), step, **changed)

    async def _output(self) -> Any:
        try:
            return await self._client.runs.output(str(self.id))
        except Conflict as error:  # a list that is too long to be given as one
            return str(error)

    async def _definition(self, run: RunDetail) -> "Workflow":
        from windlass.core.definition.parser import parse

        return parse((await self._client.workflows.version(run.workflow_id, run.version)).definition)

    async def _tree(self, run: RunDetail) -> Sequence[tuple[str, int]]:
        from windlass.core.diagrams.tree import places

        try:
            return [(left, n) for left, n, _ in places(await self._definition(run))]
        except NotFound:  # the workflow was deleted; its run goes on
            return [("", n) for n in range(len(run.tasks))]


class Remote(RemoteJobs):
    # Workflows

    async def deploy(self, found: "Sequence[Workflow]", *, dry_run: bool = False) -> Deployment:
        done = await self._client.workflows.deploy_many([one.to_document() for one in found], dry_run=dry_run)
        deployed = [
            Deployed(
                name=one.name,
                number=one.version,
                change=one.change,
                address=one.webhook_url,
                diff=one.lines,
                ids={} if dry_run else {"workflow_id": one.workflow_id},
            )
            for one in done.workflows
        ]
        return Deployment(deployed, done.warnings)

    async def workflows(self, *, after: str, limit: int) -> Rows:
        page = await self._client.workflows.list(after=after, limit=limit).page()
        rows = [
            {
                "name": one.name,
                "id": one.id,
                "live": one.version,
                "enabled": one.enabled,
                "trigger": one.trigger
                if one.cron_expression is None
                else {"cron": one.cron_expression, "timezone": one.timezone},
                "description": one.description,
                "steps": one.task_count,
                "created_at": one.inserted_at,
                "updated_at": one.updated_at,
            }
            for one in page.items
        ]
        return Rows(rows, page.next)

    async def workflow(self, name: str, version: int | None = None) -> Row:
        live = await self._client.workflows.get(name)
        shown = await self._client.workflows.version(name, version or live.version)
        return {
            "name": live.name,
            "id": live.id,
            "number": shown.version,
            "live": live.version,
            "enabled": live.enabled,
            "document": shown.definition,
            "fingerprint": shown.fingerprint,
            "published_at": shown.inserted_at,
            "created_at": live.inserted_at,
            "updated_at": live.updated_at,
        }

    async def versions(self, name: str, *, before: int | None, limit: int) -> Rows:
        page = await self._client.workflows.versions(name, before=before, limit=limit).page()
        rows = [
            {
                "number": one.version,
                "live": one.live,
                "fingerprint": one.fingerprint,
                "steps": one.task_count,
                "created_at": one.inserted_at,
            }
            for one in page.items
        ]
        return Rows(rows, page.next)

    async def enable_workflow(self, name: str, enabled: bool = True) -> None:
        await (self._client.workflows.enable if enabled else self._client.workflows.disable)(name)

    async def delete_workflow(self, name: str) -> None:
        await self._client.workflows.delete(name)

    async def rotate(self, name: str) -> str:
        return (await self._client.workflows.rotate(name)).url

    # Runs

    async def start(self, workflow: str, **options: Any) -> RunBackend:
        wanted = options.pop("input")
        given = {} if wanted is None else wanted
        return RemoteRun(self._client, UUID((await self._client.start(workflow, given, **options)).run_id))

    async def run(self, id_: UUID | str) -> RunBackend:
        try:
            found = await self._client.runs.get(str(id_))  # a wrong id is told before anything else
        except NotFound:
            if isinstance(id_, str):
                raise arguments.no_run(id_) from None
            raise
        return RemoteRun(self._client, UUID(found.id))

    async def runs(self, **filters: Any) -> Rows:
        before = filters["before"]
        wanted = {"workflow": filters["workflow"], "labels": filters["labels"], "limit": filters["limit"]}
        found = self._client.runs.list(
            status=filters["states"] or (), before=str(before) if before is not None else None, **wanted
        )
        with _states():
            page = await found.page()
        return Rows([{**_fields(one), "duration": _took(one)} for one in page.items], page.next)


def _fields(run: Run) -> Row:
    """A run in a list, in the names of the command line."""
    letters = "".join(LETTERS[word] * count for word, count in run.task_counts.items())
    return {
        "id": run.id,
        "workflow": run.workflow,
        "version": run.version,
        "state": RunState(run.status),
        "letters": letters,  # so many of each; their order is not told in lists
        "labels": run.labels,
        "idempotency_key": run.idempotency_key,
        "round": run.retried,
        "parent_id": run.parent_run_id,
        "created_at": run.inserted_at,
        "started_at": run.started_at,
        "finished_at": run.finished_at,
        "expires_at": run.expires_at,
        "workflow_id": run.workflow_id,
    }


def _took(run: Run) -> timedelta | None:
    if run.started_at is None:
        return None
    return max((run.finished_at or datetime.now(UTC)) - run.started_at, timedelta())


def _seen(run: RunDetail, tree: Sequence[tuple[str, int]]) -> Seen:
    return Seen(
        id=UUID(run.id),
        workflow=run.workflow,
        version=run.version,
        state=RunState(run.status),
        took=_span(run.duration_ms),
        steps=tuple(_step(name, task) for name, task in run.tasks.items()),
        places=tree,
    )


def _step(name: str, task: Task) -> SeenStep:
    return SeenStep(
        name=name,
        letter=LETTERS[task.status],
        remark=task.remark,
        took=_span(task.duration_ms),
        attempts=f"{task.attempt}/{task.max_attempts}" if task.attempt is not None else None,
        worker=task.worker,
        more=asdict(task),
    )


def _span(milliseconds: int | None) -> timedelta | None:
    return None if milliseconds is None else timedelta(milliseconds=milliseconds)


@contextlib.contextmanager
def _states() -> Any:
    """The option is called --state."""
    try:
        yield
    except Invalid as error:
        if error.field != "status":
            raise
        raise Invalid(str(error).replace("status is", "state is", 1), field="state") from None


@contextlib.contextmanager
def _steps() -> Any:
    """A task that is not there is told as on the database."""
    try:
        yield
    except NotFound as error:
        if error.what != "task" or error.hint is None:
            raise
        raise Invalid(error.hint, field="step") from None
